package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/placement"
)

type placementQuery struct {
	Nodes     int    `query:"nodes" minimum:"1" maximum:"1024" default:"1" doc:"Different hosts, each with the same; all or none"`
	GPUModel  string `query:"gpu_model" maxLength:"100" doc:"Empty: any"`
	GPUs      int    `query:"gpus" minimum:"0" maximum:"64" default:"0" doc:"On each node, all of one model"`
	CPUMillis int64  `query:"cpu_millis" minimum:"0" maximum:"100000000" default:"0" doc:"On each node"`
	MemoryMiB int64  `query:"memory_mib" minimum:"0" maximum:"1000000000" default:"0" doc:"On each node"`
	DiskGiB   int64  `query:"disk_gib" minimum:"0" maximum:"16777216" default:"0" doc:"On each node"`
	Region    string `query:"region" maxLength:"100" doc:"Empty: any"`
	Zone      string `query:"zone" maxLength:"100" doc:"Empty: any"`
	Within    string `query:"within" enum:"region,zone,spine,leaf,rack" doc:"What all nodes must share; absent: nothing, they are put as close as they go"`
	Simulated bool   `query:"simulated" doc:"Look at hosts with simulated GPUs, and at no others"`
}

// registerPlacement adds what is read of placement. Renters see how many hosts are
// refused for what and nothing of whose they are or what runs there; operators see
// which.
func (a *API) registerPlacement() {
	register(a, operation{
		ID: "explainPlacement", Method: http.MethodGet, Path: "/v1/placement/explanation", Summary: "Say where a request would go, or why nowhere", Tag: tagMarket, Action: account.ReadMarket,
		Description: "Looks at the hosts that are on the market now and reserves nothing. Each host that does not hold the request is counted under the first reason that rules it out, " +
			"and the smallest single changes that would make the request fit are listed. Operators see the hosts' identifiers as well.",
	}, func(_ context.Context, p account.Principal, in *placementQuery) (*body[api.PlacementExplanation], error) {
		one := func(v string) []string {
			if v == "" {
				return nil
			}
			return []string{v}
		}
		r := placement.Request{
			Nodes: in.Nodes, Models: one(in.GPUModel), Count: in.GPUs, CPUMillis: in.CPUMillis, MemoryMiB: in.MemoryMiB, DiskMiB: in.DiskGiB * 1024,
			Regions: one(in.Region), Zones: one(in.Zone), Within: placement.Level(in.Within),
		}
		return &body[api.PlacementExplanation]{placementJSON(a.Fleet.ExplainPlacement(p.AccountID, r, in.Simulated), p.Operator)}, nil
	})
}

func placementJSON(e placement.Explanation, operator bool) api.PlacementExplanation {
	out := api.PlacementExplanation{Fits: e.Fits, Hosts: e.Hosts, Suitable: e.Suitable, Refused: []api.PlacementReason{}, Changes: []api.PlacementChange{}}
	for _, g := range e.Groups {
		reason := api.PlacementReason{Reason: string(g.Reason), Hosts: len(g.Hosts), Wanted: g.Wanted, Most: g.Most}
		if operator {
			reason.HostIDs = g.Hosts
		}
		out.Refused = append(out.Refused, reason)
	}
	for _, c := range e.Changes {
		out.Changes = append(out.Changes, api.PlacementChange{Field: string(c.Field), From: c.From, To: c.To, Any: c.Any})
	}
	if operator {
		for _, n := range e.Placement.Nodes {
			out.On = append(out.On, n.HostID)
		}
	}
	return out
}
