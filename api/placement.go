package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// PlacementQuery is what a placement is explained for. Amounts are for one node.
type PlacementQuery struct {
	Nodes     int    // 0: 1
	GPUModel  string // empty: any
	GPUs      int
	CPUMillis int64
	MemoryMiB int64
	DiskGiB   int64
	Region    string // empty: any
	Zone      string // empty: any
	Within    string // region, zone, spine, leaf or rack that all nodes must share
	Simulated bool   // of simulated GPUs, which are looked at only then
}

// PlacementExplanation says whether a request would get a place now, and why not.
type PlacementExplanation struct {
	Fits     bool              `json:"fits" doc:"It would get a place now; nothing is reserved"`
	Hosts    int               `json:"hosts" doc:"Hosts on the market that were looked at"`
	Suitable int               `json:"suitable_hosts" doc:"Of those, how many hold one node"`
	Refused  []PlacementReason `json:"refused" nullable:"false" doc:"The other hosts, each under the first reason that rules it out"`
	Changes  []PlacementChange `json:"changes" nullable:"false" doc:"Single changes of the request that would make it fit, all else as it is"`
	On       []string          `json:"on_host_ids,omitempty" doc:"Where it would go; for operators"`
}

// PlacementReason is hosts that were refused for one reason.
type PlacementReason struct {
	Reason  string   `json:"reason" enum:"invalid,region,zone,label,avoided,gpu_model,gpu,held,guarded,cpu,memory,disk,network,ports,gang" doc:"gpu: too few are free; held: they are kept for others; gang: each holds a node, but too few together"`
	Hosts   int      `json:"hosts" doc:"How many"`
	Wanted  int64    `json:"wanted,omitempty" doc:"What was asked for: GPUs, nodes (gang), CPU in thousandths, memory and disk in MiB"`
	Most    int64    `json:"most" doc:"The most that one of these hosts has free, in the same unit; of a gang: nodes that fit together"`
	HostIDs []string `json:"host_ids,omitempty" doc:"Which; for operators"`
}

// PlacementChange is one change that makes a request fit.
type PlacementChange struct {
	Field string   `json:"field" enum:"region,zone,label,avoided,gpu_model,gpu,cpu,memory,disk,network,ports,gang" doc:"What to change; gpu: how many, gang: nodes"`
	From  int64    `json:"from,omitempty" doc:"What was asked for"`
	To    int64    `json:"to,omitempty" doc:"What would fit"`
	Any   []string `json:"any,omitempty" doc:"Models, regions or zones that would do"`
}

// ExplainPlacement says where a request would go, or why nowhere.
func (c *Client) ExplainPlacement(ctx context.Context, q PlacementQuery) (*PlacementExplanation, error) {
	v := url.Values{}
	for name, value := range map[string]string{"gpu_model": q.GPUModel, "region": q.Region, "zone": q.Zone, "within": q.Within} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, value := range map[string]int64{"nodes": int64(q.Nodes), "gpus": int64(q.GPUs), "cpu_millis": q.CPUMillis, "memory_mib": q.MemoryMiB, "disk_gib": q.DiskGiB} {
		if value != 0 {
			v.Set(name, strconv.FormatInt(value, 10))
		}
	}
	if q.Simulated {
		v.Set("simulated", "true")
	}
	var out PlacementExplanation
	if err := c.Do(ctx, http.MethodGet, "/v1/placement/explanation", v, nil, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
