package instance

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"suanli.dev/internal/protocol"
)

// simulatedLine is the first line of everything that the stand-in prints, so
// that nobody takes its figures for a device's.
const simulatedLine = "suanli simulated GPU: no real device"

// NVIDIASMI shows the simulated GPUs that the agent wrote to path, the way
// nvidia-smi shows real ones. It succeeds for no arguments, -L, -q and
// --query-gpu; anything else that nvidia-smi can do needs a device. It returns
// the exit code.
func NVIDIASMI(path string, args []string, stdout, stderr io.Writer) int {
	fmt.Fprintln(stdout, simulatedLine)
	gpus, err := readSimulated(path)
	if err != nil {
		fmt.Fprintf(stderr, "nvidia-smi (suanli): %v\n", err)
		return 1
	}
	query, format := "", ""
	list, long := false, false
	for _, a := range args {
		switch name, value, _ := strings.Cut(a, "="); {
		case a == "-L" || a == "--list-gpus":
			list = true
		case a == "-q" || a == "--query":
			long = true
		case name == "--query-gpu" && value != "":
			query = value
		case name == "--format" && value != "":
			format = value
		default:
			fmt.Fprintf(stderr, "nvidia-smi (suanli): %q needs a real device; this host simulates its GPUs and knows no arguments, -L, -q, and --query-gpu=… with --format=csv[,noheader][,nounits]\n", a)
			return 1
		}
	}
	switch {
	case query != "":
		err = printQuery(stdout, gpus, query, format)
	case format != "":
		err = fmt.Errorf("--format goes with --query-gpu")
	case list:
		for _, g := range gpus {
			fmt.Fprintf(stdout, "GPU %d: %s (UUID: %s)\n", g.Index, simulatedName(g), g.UUID)
		}
	case long:
		printLong(stdout, gpus)
	default:
		printTable(stdout, gpus)
	}
	if err != nil {
		fmt.Fprintf(stderr, "nvidia-smi (suanli): %v\n", err)
		return 1
	}
	return 0
}

func readSimulated(path string) ([]protocol.GPU, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("no simulated GPUs here: %w", err)
	}
	var gpus []protocol.GPU
	if err := json.Unmarshal(b, &gpus); err != nil {
		return nil, fmt.Errorf("read the simulated GPUs: %w", err)
	}
	for i := range gpus {
		gpus[i].Index = i // a container counts the devices that it was given from 0
	}
	return gpus, nil
}

// simulatedName makes sure that a name cannot pass for a real one.
func simulatedName(g protocol.GPU) string {
	if strings.HasPrefix(g.Name, "SIMULATED ") {
		return g.Name
	}
	return "SIMULATED " + strings.TrimPrefix(g.Name, "NVIDIA ") + " (no hardware)"
}

// smiField is one property that --query-gpu can ask for.
type smiField struct {
	unit string
	get  func(protocol.GPU) string
}

var smiFields = map[string]smiField{
	"index":                                 {"", func(g protocol.GPU) string { return strconv.Itoa(g.Index) }},
	"name":                                  {"", simulatedName},
	"gpu_name":                              {"", simulatedName},
	"uuid":                                  {"", func(g protocol.GPU) string { return g.UUID }},
	"gpu_uuid":                              {"", func(g protocol.GPU) string { return g.UUID }},
	"driver_version":                        {"", func(g protocol.GPU) string { return g.Driver }},
	"pci.bus_id":                            {"", func(g protocol.GPU) string { return g.PCIBusID }},
	"pcie.link.gen.max":                     {"", func(g protocol.GPU) string { return strconv.Itoa(g.PCIeGen) }},
	"pcie.link.width.max":                   {"", func(g protocol.GPU) string { return strconv.Itoa(g.PCIeWidth) }},
	"compute_cap":                           {"", func(g protocol.GPU) string { return g.ComputeCapability }},
	"memory.total":                          {" MiB", func(g protocol.GPU) string { return strconv.FormatInt(g.VRAMMiB, 10) }},
	"memory.used":                           {" MiB", func(g protocol.GPU) string { return strconv.FormatInt(g.Stats.UsedMiB, 10) }},
	"memory.free":                           {" MiB", func(g protocol.GPU) string { return strconv.FormatInt(g.VRAMMiB-g.Stats.UsedMiB, 10) }},
	"utilization.gpu":                       {" %", func(g protocol.GPU) string { return strconv.Itoa(g.Stats.UtilizationPercent) }},
	"temperature.gpu":                       {"", func(g protocol.GPU) string { return strconv.Itoa(g.Stats.TemperatureC) }},
	"power.draw":                            {" W", func(g protocol.GPU) string { return strconv.Itoa(g.Stats.PowerWatts) }},
	"mig.mode.current":                      {"", func(g protocol.GPU) string { return enabled(g.MIGEnabled) }},
	"ecc.mode.current":                      {"", func(g protocol.GPU) string { return enabled(g.ECCEnabled) }},
	"ecc.errors.uncorrected.volatile.total": {"", func(g protocol.GPU) string { return strconv.FormatInt(g.ECCUncorrected, 10) }},
}

func enabled(b bool) string {
	if b {
		return "Enabled"
	}
	return "Disabled"
}

func printQuery(w io.Writer, gpus []protocol.GPU, query, format string) error {
	options := strings.Split(format, ",")
	header, units := true, true
	if options[0] != "csv" {
		return fmt.Errorf("--query-gpu wants --format=csv[,noheader][,nounits], not %q", format)
	}
	for _, o := range options[1:] {
		switch o {
		case "noheader":
			header = false
		case "nounits":
			units = false
		default:
			return fmt.Errorf("--format: %q is none of csv, noheader, nounits", o)
		}
	}
	names := strings.Split(query, ",")
	for i, n := range names {
		names[i] = strings.TrimSpace(n)
		if _, ok := smiFields[names[i]]; !ok {
			return fmt.Errorf("--query-gpu: field %q is not simulated", names[i])
		}
	}
	if header {
		fmt.Fprintln(w, strings.Join(names, ", "))
	}
	for _, g := range gpus {
		row := make([]string, len(names))
		for i, n := range names {
			f := smiFields[n]
			row[i] = f.get(g)
			if units {
				row[i] += f.unit
			}
		}
		fmt.Fprintln(w, strings.Join(row, ", "))
	}
	return nil
}

func printLong(w io.Writer, gpus []protocol.GPU) {
	fmt.Fprintf(w, "Attached GPUs                             : %d (simulated)\n", len(gpus))
	for _, g := range gpus {
		fmt.Fprintf(w, "GPU %s\n", g.PCIBusID)
		for _, row := range [][2]string{
			{"Product Name", simulatedName(g)},
			{"GPU UUID", g.UUID},
			{"Driver Version", g.Driver},
			{"Highest CUDA Version", g.MaxCUDA},
			{"Compute Capability", g.ComputeCapability},
			{"FB Memory Total", fmt.Sprintf("%d MiB", g.VRAMMiB)},
			{"FB Memory Used", fmt.Sprintf("%d MiB", g.Stats.UsedMiB)},
			{"GPU Utilization", fmt.Sprintf("%d %%", g.Stats.UtilizationPercent)},
			{"GPU Current Temp", fmt.Sprintf("%d C", g.Stats.TemperatureC)},
			{"Power Draw", fmt.Sprintf("%d W", g.Stats.PowerWatts)},
			{"MIG Mode", enabled(g.MIGEnabled)},
			{"ECC Mode", enabled(g.ECCEnabled)},
		} {
			fmt.Fprintf(w, "    %-37s : %s\n", row[0], row[1])
		}
	}
}

func printTable(w io.Writer, gpus []protocol.GPU) {
	rule := "+-----+--------------------------------------+------+------+-----------------------+------+"
	fmt.Fprintln(w, rule)
	fmt.Fprintf(w, "| %3s | %-36s | %4s | %4s | %21s | %4s |\n", "GPU", "Name", "Temp", "Pwr", "Memory-Usage", "Util")
	fmt.Fprintln(w, rule)
	for _, g := range gpus {
		fmt.Fprintf(w, "| %3d | %-36.36s | %3dC | %3dW | %8dMiB / %6dMiB | %3d%% |\n",
			g.Index, simulatedName(g), g.Stats.TemperatureC, g.Stats.PowerWatts, g.Stats.UsedMiB, g.VRAMMiB, g.Stats.UtilizationPercent)
	}
	fmt.Fprintln(w, rule)
}
