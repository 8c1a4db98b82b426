package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/drill"
)

const tagDrills = "Drills"

// drillPath names a drill.
type drillPath struct {
	DrillID string `path:"drill_id" maxLength:"64"`
}

func (a *API) registerDrills() {
	if a.Drills == nil {
		return
	}
	register(a, operation{
		ID: "beginDrill", Method: http.MethodPost, Path: "/v1/operator/drills", Summary: "Try an outage on one's own cloud", Tag: tagDrills,
		Action: account.Operate, Status: http.StatusCreated,
		Description: "The hosts are cut off from the control plane for so many seconds, as if their machines had gone, and come back by themselves. Instances run on. One drill runs at a time.",
	}, func(ctx context.Context, p account.Principal, in *body[api.DrillRequest]) (*body[api.Drill], error) {
		d, err := a.Drills.Begin(ctx, p, drill.Request{
			Kind: drill.Kind(in.Body.Kind), HostID: in.Body.HostID, Region: in.Body.Region, Zone: in.Body.Zone,
			For: time.Duration(in.Body.Seconds) * time.Second, Consent: in.Body.Consent,
		})
		return drillJSON(d, err)
	})
	register(a, operation{
		ID: "getDrill", Method: http.MethodGet, Path: "/v1/operator/drills/{drill_id}", Summary: "What leases felt of a drill", Tag: tagDrills, Action: account.Operate,
	}, func(ctx context.Context, p account.Principal, in *drillPath) (*body[api.Drill], error) {
		return drillJSON(a.Drills.Get(ctx, p, in.DrillID))
	})
	register(a, operation{
		ID: "endDrill", Method: http.MethodPost, Path: "/v1/operator/drills/{drill_id}/end", Summary: "End a drill now", Tag: tagDrills, Action: account.Operate,
	}, func(ctx context.Context, p account.Principal, in *drillPath) (*body[api.Drill], error) {
		return drillJSON(a.Drills.End(ctx, p, in.DrillID))
	})
}

func drillJSON(d drill.Drill, err error) (*body[api.Drill], error) {
	if err != nil {
		return nil, err
	}
	out := api.Drill{ID: d.ID, Kind: string(d.Kind), Subject: d.Subject, BegunAt: d.BegunAt, Until: d.Until, Over: d.Over, Recovered: d.Recovered,
		Hosts: append([]string{}, d.Hosts...), Leases: []api.DrillLease{}}
	for _, f := range d.Leases {
		l := api.DrillLease{LeaseID: f.LeaseID, HostID: f.HostID, Before: string(f.Before), Now: string(f.Now),
			UnreachableSeconds: int64(f.Unreachable / time.Second), Ended: f.Ended, Changes: []api.LeaseChange{}}
		for _, c := range f.Changes {
			l.Changes = append(l.Changes, changeJSON(c))
		}
		out.Leases = append(out.Leases, l)
	}
	return &body[api.Drill]{out}, nil
}
