package gpu

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/protocol"
)

// SimulatedNotice is the first line of everything that the simulated nvidia-smi prints.
const SimulatedNotice = "suanli simulated GPU: no real device"

// SMI answers as nvidia-smi would, from the inventory at path, for simulated GPUs
// only. It returns the exit code, which is 0 only for -L, -q and --query-gpu.
//
// The static binary calls it when it is run under the name nvidia-smi.
func SMI(args []string, path string, out io.Writer) int {
	var gpus []protocol.GPU
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &gpus)
	}
	if err != nil {
		fmt.Fprintf(out, "%s\nthe instance has no simulated GPUs: %v\n", SimulatedNotice, err)
		return 9
	}
	query, noHeader, noUnits := "", false, false
	list, full := false, false
	for _, a := range args {
		switch {
		case a == "-L" || a == "--list-gpus":
			list = true
		case a == "-q" || a == "--query":
			full = true
		case strings.HasPrefix(a, "--query-gpu="):
			query = strings.TrimPrefix(a, "--query-gpu=")
		case strings.HasPrefix(a, "--format="):
			noHeader, noUnits = strings.Contains(a, "noheader"), strings.Contains(a, "nounits")
		}
	}
	switch {
	case list:
		fmt.Fprintln(out, SimulatedNotice)
		for i, g := range gpus {
			fmt.Fprintf(out, "GPU %d: %s (UUID: %s)\n", i, g.Name, g.UUID)
		}
	case query != "":
		// What parses this expects a table alone; the names in it say "SIMULATED".
		if noHeader {
			fmt.Fprintln(os.Stderr, SimulatedNotice)
		} else {
			fmt.Fprintln(out, SimulatedNotice)
		}
		return smiQuery(gpus, strings.Split(query, ","), noHeader, noUnits, out)
	case full:
		fmt.Fprintln(out, SimulatedNotice)
		fmt.Fprintf(out, "Timestamp : %s\nAttached GPUs : %d\n", time.Now().UTC().Format(time.RFC3339), len(gpus))
		for _, g := range gpus {
			fmt.Fprintf(out, "GPU %s\n    Product Name : %s\n    GPU UUID : %s\n    FB Memory Usage\n        Total : %d MiB\n        Used : %d MiB\n    GPU Current Temp : %d C\n", g.PCIBusID, g.Name, g.UUID, g.VRAMMiB, g.Stats.UsedMiB, g.Stats.TemperatureC)
		}
	default:
		fmt.Fprintln(out, SimulatedNotice)
		for i, g := range gpus {
			fmt.Fprintf(out, "| %d  %-44s | %s | %6d MiB / %6d MiB | %3d%% |\n", i, g.Name, g.PCIBusID, g.Stats.UsedMiB, g.VRAMMiB, g.Stats.UtilizationPercent)
		}
		return 1
	}
	return 0
}

func smiQuery(gpus []protocol.GPU, fields []string, noHeader, noUnits bool, out io.Writer) int {
	type column struct{ unit, value string }
	read := func(f string, g protocol.GPU, i int) (column, bool) {
		n := func(v int64) string { return strconv.FormatInt(v, 10) }
		switch f {
		case "index":
			return column{"", strconv.Itoa(i)}, true
		case "name", "gpu_name":
			return column{"", g.Name}, true
		case "uuid", "gpu_uuid":
			return column{"", g.UUID}, true
		case "driver_version":
			return column{"", g.Driver}, true
		case "pci.bus_id":
			return column{"", g.PCIBusID}, true
		case "compute_cap":
			return column{"", g.ComputeCapability}, true
		case "memory.total":
			return column{"MiB", n(g.VRAMMiB)}, true
		case "memory.used":
			return column{"MiB", n(g.Stats.UsedMiB)}, true
		case "memory.free":
			return column{"MiB", n(g.VRAMMiB - g.Stats.UsedMiB)}, true
		case "utilization.gpu":
			return column{"%", strconv.Itoa(g.Stats.UtilizationPercent)}, true
		case "temperature.gpu":
			return column{"", strconv.Itoa(g.Stats.TemperatureC)}, true
		case "power.draw":
			return column{"W", strconv.Itoa(g.Stats.PowerWatts)}, true
		}
		return column{}, false
	}
	var header []string
	for i, f := range fields {
		fields[i] = strings.TrimSpace(f)
		c, ok := read(fields[i], protocol.GPU{}, 0)
		if !ok {
			fmt.Fprintf(out, "Field %q is not a valid field to query.\n", fields[i])
			return 2
		}
		if c.unit != "" {
			header = append(header, fields[i]+" ["+c.unit+"]")
		} else {
			header = append(header, fields[i])
		}
	}
	if !noHeader {
		fmt.Fprintln(out, strings.Join(header, ", "))
	}
	for i, g := range gpus {
		var row []string
		for _, f := range fields {
			c, _ := read(f, g, i)
			if c.unit != "" && !noUnits {
				c.value += " " + c.unit
			}
			row = append(row, c.value)
		}
		fmt.Fprintln(out, strings.Join(row, ", "))
	}
	return 0
}
