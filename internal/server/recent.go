package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
)

// watchUsage is how often a stream of samples looks for a newer one.
const watchUsage = 2 * time.Second

func (a *API) registerMetrics() {
	register(a, operation{
		ID: "getLeaseMetrics", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/metrics", Summary: "Show what a lease used lately: GPU, CPU, memory, disk, network", Tag: tagLease, Action: account.ReadLeases,
		Description: "As its host says. The last hour is kept in steps of twenty seconds and the last day in steps of ten minutes, in memory: a restart of the control plane and the lease's end forget them.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		LeasePath
		WindowSeconds int64 `query:"window_seconds" minimum:"60" maximum:"86400" default:"3600" doc:"How far back; more than an hour is told in coarser steps"`
	}) (*body[api.LeaseMetrics], error) {
		r, err := a.Leases.Recent(ctx, p, in.LeaseID, time.Duration(in.WindowSeconds)*time.Second)
		if err != nil {
			return nil, err
		}
		return &body[api.LeaseMetrics]{metricsJSON(r)}, nil
	})
	registerEvents(a, operation{
		ID: "watchLeaseMetrics", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/metric-events", Summary: "Follow what a lease uses", Tag: tagLease, Action: account.ReadLeases,
		Description: "A sample for each report of its host, and none while it does not run.",
	}, a.watchMetrics)
}

func (a *API) watchMetrics(ctx context.Context, p account.Principal, in *LeasePath, emit func(event) error) error {
	l, err := a.Leases.Resolve(ctx, p, in.LeaseID)
	if err != nil {
		return err
	}
	if err := emit(event{}); err != nil {
		return err
	}
	tick := time.NewTicker(watchUsage)
	defer tick.Stop()
	var last time.Time
	for {
		if now := a.Leases.NowUsed(l.ID); now != nil && now.At.After(last) {
			last = now.At
			if err := emit(event{Name: "sample", Data: sampleJSON(*now)}); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func metricsJSON(r lease.Recent) api.LeaseMetrics {
	out := api.LeaseMetrics{
		LeaseID: r.Lease.ID, StepSeconds: int64(r.Step / time.Second), Samples: []api.LeaseSample{},
		CPUMillis: r.Lease.Bundle.CPUMillis, MemoryMiB: r.Lease.Bundle.MemoryMiB, DiskGiB: r.Lease.Bundle.DiskGiB, Simulated: r.Lease.Simulated,
	}
	for _, s := range r.Samples {
		out.Samples = append(out.Samples, sampleJSON(s))
	}
	if r.Now != nil {
		now := sampleJSON(*r.Now)
		out.Now = &now
	}
	return out
}

func sampleJSON(s lease.Sample) api.LeaseSample {
	return api.LeaseSample{
		At: s.At.UTC(), GPUPercent: s.GPUPercent, CPUPercent: s.CPUPercent, GPUMemoryUsedMiB: s.GPUMemoryMiB, MemoryUsedMiB: s.MemoryMiB,
		DiskUsedMiB: s.DiskMiB, EgressBytesPerSecond: s.EgressPerSecond, IngressBytesPerSecond: s.IngressPerSecond,
	}
}
