package fleet

import (
	"math"
	"strconv"
	"strings"

	"suanli.dev/internal/money"
)

// Field is something of an offer that a search expression can name.
type Field struct {
	Name string
	Type string // "text", "number", "yes/no", "version"
	Unit string // of a number; may be empty
	Doc  string
}

type kind int

const (
	text kind = iota
	number
	flag
	version
)

var kindNames = map[kind]string{text: "text", number: "number", flag: "yes/no", version: "version"}

// unknown is a number that is not known. It is in no relation to any other.
const unknown = math.MinInt64

// field is how a field is read. Numbers are integers scaled by 10^digits.
// Fields of rows differ between the bundles of a group; their value is computed
// in segment.rowValue.
type field struct {
	name   string
	kind   kind
	digits int
	unit   string
	doc    string
	row    bool
	text   func(*entry, *group) string
	number func(*entry, *group) int64
	column int // of the numbers or texts of a segment
}

func known(v int64) int64 {
	if v == 0 {
		return unknown
	}
	return v
}

func yes(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// micro is a rate in micro-units, as amounts are.
func micro(r money.Rate) int64 {
	a, err := r.Times(1, 1)
	if err != nil {
		return unknown
	}
	return int64(a)
}

// versionNumber makes versions of up to three parts comparable as numbers.
func versionNumber(s string) int64 {
	if s == "" {
		return unknown
	}
	v := int64(0)
	parts := strings.Split(s, ".")
	if len(parts) > 3 {
		return unknown
	}
	for i := range 3 {
		n := 0
		if i < len(parts) {
			var err error
			if n, err = strconv.Atoi(parts[i]); err != nil || n < 0 || n > 9999 {
				return unknown
			}
		}
		v = v*10_000 + int64(n)
	}
	return v
}

func (g *group) vramGB() int64 {
	if g.model == "" {
		return 0
	}
	if g.facts.VRAMGB > 0 {
		return int64(g.facts.VRAMGB)
	}
	return (g.vramMiB + 512) / 1024
}

// fields is the whole vocabulary of search.
var fields = numbered([]field{
	{name: "gpu_model", kind: text, doc: "Model in the catalog, such as \"RTX 4090\"; empty for CPU only", text: func(_ *entry, g *group) string { return g.model }},
	{name: "gpu_count", kind: number, row: true, doc: "GPUs in the bundle"},
	{name: "gpu_vendor", kind: text, doc: "\"nvidia\" or \"amd\"", text: func(_ *entry, g *group) string { return g.facts.Vendor }},
	{name: "gpu_architecture", kind: text, doc: "Such as \"hopper\" or \"cdna3\"", text: func(_ *entry, g *group) string { return g.facts.Architecture }},
	{name: "vram_gb", kind: number, unit: "GB", doc: "Memory of each GPU, as the vendor states it", number: func(_ *entry, g *group) int64 { return g.vramGB() }},
	{name: "total_vram_gb", kind: number, unit: "GB", row: true, doc: "Memory of all GPUs of the bundle"},
	{name: "compute_capability", kind: version, doc: "Of NVIDIA GPUs, such as 8.9", number: func(_ *entry, g *group) int64 { return versionNumber(g.capability) }},
	{name: "max_cuda", kind: version, doc: "Highest CUDA version of the driver, such as 12.4", number: func(_ *entry, g *group) int64 { return versionNumber(g.maxCUDA) }},
	{name: "driver", kind: version, doc: "Driver version, such as 550.54", number: func(_ *entry, g *group) int64 { return versionNumber(g.driver) }},
	{name: "nvlink", kind: flag, doc: "The GPUs are joined by NVLink", number: func(_ *entry, g *group) int64 { return yes(g.nvlink) }},
	{name: "pcie_gen", kind: number, doc: "PCIe generation of each GPU", number: func(_ *entry, g *group) int64 { return known(int64(g.pcieGen)) }},
	{name: "pcie_width", kind: number, doc: "PCIe lanes of each GPU", number: func(_ *entry, g *group) int64 { return known(int64(g.pcieWidth)) }},
	{name: "fp32_tflops", kind: number, digits: 1, unit: "TFLOPS", doc: "Of each GPU, from its data sheet", number: func(_ *entry, g *group) int64 { return known(int64(g.facts.FP32DeciTFLOPS)) }},
	{name: "fp16_tflops", kind: number, digits: 1, unit: "TFLOPS", doc: "Dense, of each GPU, from its data sheet", number: func(_ *entry, g *group) int64 { return known(int64(g.facts.FP16DeciTFLOPS)) }},
	{name: "vram_bandwidth_gbs", kind: number, unit: "GB/s", doc: "Of each GPU's memory, from its data sheet", number: func(_ *entry, g *group) int64 { return known(int64(g.facts.BandwidthGBs)) }},
	{name: "price_per_hour", kind: number, digits: 6, row: true, doc: "Compute and the disk asked for, all in"},
	{name: "compute_price_per_hour", kind: number, digits: 6, row: true, doc: "Compute alone, the whole bundle"},
	{name: "gpu_price_per_hour", kind: number, digits: 6, doc: "Compute alone, per GPU (per CPU without GPUs)", number: func(_ *entry, g *group) int64 { return micro(g.rate) }},
	{name: "storage_price_per_gib_month", kind: number, digits: 6, doc: "Disk, stopped too", number: func(e *entry, _ *group) int64 { return micro(e.storage) }},
	{name: "egress_price_per_gb", kind: number, digits: 6, doc: "Outgoing traffic, per 10⁹ bytes", number: func(e *entry, _ *group) int64 { return micro(e.egress) }},
	{name: "available_after_seconds", kind: number, unit: "s", row: true, doc: "How long one waits until leases of the spot market have left its GPUs; 0: not at all"},
	{name: "cpus", kind: number, digits: 3, row: true, doc: "CPUs in the bundle"},
	{name: "memory_gib", kind: number, digits: 3, unit: "GiB", row: true, doc: "Memory in the bundle"},
	{name: "disk_gib", kind: number, unit: "GiB", doc: "Largest disk that can be had", number: func(e *entry, _ *group) int64 { return e.diskMiB / 1024 }},
	{name: "disk_read_mbps", kind: number, unit: "MB/s", doc: "Measured", number: func(e *entry, _ *group) int64 { return known(e.diskRead) }},
	{name: "disk_write_mbps", kind: number, unit: "MB/s", doc: "Measured", number: func(e *entry, _ *group) int64 { return known(e.diskWrite) }},
	{name: "net_down_mbps", kind: number, unit: "Mbit/s", doc: "Measured", number: func(e *entry, _ *group) int64 { return known(e.netDown) }},
	{name: "net_up_mbps", kind: number, unit: "Mbit/s", doc: "Measured", number: func(e *entry, _ *group) int64 { return known(e.netUp) }},
	{name: "direct_ports", kind: flag, doc: "The host has ports of its own that are reached without the gateway", number: func(e *entry, _ *group) int64 { return yes(e.directPorts) }},
	{name: "gvisor", kind: flag, doc: "The host can run containers under gVisor", number: func(e *entry, _ *group) int64 { return yes(contains(e.isolation, "runsc")) }},
	{name: "reliability_percent", kind: number, digits: 2, unit: "%", doc: "Part of the time that the host was online", number: func(e *entry, _ *group) int64 { return e.reliability }},
	{name: "region", kind: text, doc: "Region", text: func(e *entry, _ *group) string { return e.region }},
	{name: "zone", kind: text, doc: "Zone", text: func(e *entry, _ *group) string { return e.zone }},
	{name: "rack", kind: text, doc: "Rack", text: func(e *entry, _ *group) string { return e.rack }},
	{name: "host_id", kind: text, doc: "Host", text: func(e *entry, _ *group) string { return e.hostID }},
	{name: "provider_id", kind: text, doc: "Account of the host's provider", text: func(e *entry, _ *group) string { return e.providerID }},
	{name: "cpu_model", kind: text, doc: "CPU", text: func(e *entry, _ *group) string { return e.cpuModel }},
	{name: "cpu_architecture", kind: text, doc: "Such as \"amd64\"", text: func(e *entry, _ *group) string { return e.cpuArch }},
	{name: "simulated", kind: flag, doc: "The GPUs are simulated", number: func(e *entry, _ *group) int64 { return yes(e.simulated) }},
})

// aliases are short or common names of fields.
var aliases = map[string]string{
	"gpu": "gpu_model", "model": "gpu_model", "count": "gpu_count", "gpus": "gpu_count", "vendor": "gpu_vendor", "vram": "vram_gb", "vram_gib": "vram_gb",
	"cuda": "max_cuda", "price": "price_per_hour", "memory": "memory_gib", "ram": "memory_gib", "disk": "disk_gib", "reliability": "reliability_percent",
	"host": "host_id", "provider": "provider_id",
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

func numbered(all []field) []field {
	numbers, texts := 0, 0
	for i := range all {
		switch {
		case all[i].row:
		case all[i].kind == text:
			all[i].column = texts
			texts++
		default:
			all[i].column = numbers
			numbers++
		}
	}
	return all
}

func lookupField(name string) (*field, bool) {
	name = strings.ToLower(name)
	if full, ok := aliases[name]; ok {
		name = full
	}
	for i := range fields {
		if fields[i].name == name {
			return &fields[i], true
		}
	}
	return nil, false
}

// Fields lists what a search expression can name.
func Fields() []Field {
	out := make([]Field, len(fields))
	for i, f := range fields {
		out[i] = Field{Name: f.name, Type: kindNames[f.kind], Unit: f.unit, Doc: f.doc}
	}
	return out
}

// suggestion returns the name of the field that was probably meant, or "".
func suggestion(name string) string {
	name = strings.ToLower(name)
	best, at := "", max(2, len(name)/3)+1
	consider := func(candidate, meant string) {
		d := distance(name, candidate)
		if len(name) >= 3 && strings.Contains(candidate, name) {
			d = min(d, 2)
		}
		if d < at {
			best, at = meant, d
		}
	}
	for _, f := range fields {
		consider(f.name, f.name)
	}
	for i := range fields { // in the order of fields, so that the answer is always the same
		for alias, full := range aliases {
			if full == fields[i].name {
				consider(alias, full)
			}
		}
	}
	return best
}

// distance is the number of edits between two words (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
