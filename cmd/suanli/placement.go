package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func placeCommand() *cobra.Command {
	var q api.PlacementQuery
	var cpu float64
	cmd := showing("explain", tr("Say where a request would go now, or why nowhere and what would fit"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) (*api.PlacementExplanation, error) {
			q.CPUMillis = int64(cpu * 1000)
			return c.ExplainPlacement(cmd.Context(), q)
		},
		printExplanation)
	cmd.Long = tr("Say where a request would go now, or why nowhere and what would fit.\n\nAll hosts on the market are looked at and nothing is reserved. Each host that does not hold the request is counted under the first reason that rules it out. Amounts are for one node.")
	cmd.Example = "  suanli explain --gpus 8 --gpu-model H100\n  suanli explain --nodes 4 --gpus 8 --within leaf"
	f := cmd.Flags()
	f.IntVar(&q.Nodes, "nodes", 1, tr("different hosts, each with the same; all or none"))
	f.IntVar(&q.GPUs, "gpus", 0, tr("GPUs on each node"))
	f.StringVar(&q.GPUModel, "gpu-model", "", tr("GPU model; any if absent"))
	f.Float64Var(&cpu, "cpu", 0, tr("CPUs on each node"))
	f.Int64Var(&q.MemoryMiB, "memory-mib", 0, tr("memory on each node, in MiB"))
	f.Int64Var(&q.DiskGiB, "disk-gib", 0, tr("disk on each node, in GiB"))
	f.StringVar(&q.Region, "region", "", tr("region; any if absent"))
	f.StringVar(&q.Zone, "zone", "", tr("zone; any if absent"))
	f.StringVar(&q.Within, "within", "", tr("what all nodes must share: region, zone, spine, leaf or rack"))
	f.BoolVar(&q.Simulated, "simulated", false, tr("of simulated GPUs"))
	return cmd
}

// printExplanation says where a request would go, or why nowhere.
func printExplanation(cmd *cobra.Command, e *api.PlacementExplanation) {
	if e.Fits {
		say(cmd, "It fits now: %d of %d hosts hold a node of it.", e.Suitable, e.Hosts)
	} else {
		say(cmd, "It does not fit now: %d of %d hosts hold a node of it.", e.Suitable, e.Hosts)
	}
	if len(e.On) > 0 {
		say(cmd, "It would go to %s.", strings.Join(e.On, ", "))
	}
	if len(e.Refused) > 0 {
		t := newTable(tr("HOSTS"), tr("REFUSED FOR"), tr("WANTED"), tr("MOST FREE"))
		for _, r := range e.Refused {
			wanted, most := "", ""
			if r.Wanted > 0 {
				wanted, most = fmt.Sprint(r.Wanted), fmt.Sprint(r.Most)
			}
			t.add(r.Hosts, placementWord(r.Reason), wanted, most)
		}
		t.print(cmd.OutOrStdout())
	}
	for _, c := range e.Changes {
		switch {
		case c.To > 0:
			say(cmd, "It would fit with %s: %d instead of %d.", placementWord(c.Field), c.To, c.From)
		default:
			say(cmd, "It would fit with %s: %s.", placementWord(c.Field), strings.Join(c.Any, ", "))
		}
	}
}

// placementWord is a reason or a field in words.
func placementWord(code string) string {
	switch code {
	case "invalid":
		return tr("nothing could hold this")
	case "region":
		return tr("the region")
	case "zone":
		return tr("the zone")
	case "label":
		return tr("labels")
	case "avoided":
		return tr("something to keep away from")
	case "gpu_model":
		return tr("the GPU model")
	case "gpu":
		return tr("GPUs free")
	case "held":
		return tr("GPUs held for others")
	case "guarded":
		return tr("whole GPUs kept for whole ones")
	case "cpu":
		return tr("CPU (thousandths)")
	case "memory":
		return tr("memory (MiB)")
	case "disk":
		return tr("disk (MiB)")
	case "network":
		return tr("network (Mbit/s)")
	case "ports":
		return tr("ports")
	case "gang":
		return tr("nodes together")
	}
	return code
}
