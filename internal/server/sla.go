package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/sla"
)

const tagSLA = "Service levels"

func (a *API) registerSLA() {
	if a.Levels == nil {
		return
	}
	register(a, operation{
		ID: "getLeaseSLA", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/sla", Summary: "Show a lease's availability in a month, with the evidence", Tag: tagSLA, Action: account.ReadLeases,
		Description: "What a probe inside of the instance saw by itself does not count, as the renter can make it fail; an operator confirms it.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		LeasePath
		Month string `query:"month" maxLength:"7" doc:"Absent: this month, so far" example:"2026-03"`
	}) (*body[api.LeaseSLA], error) {
		return slaBody(a.Levels.Report(ctx, p, in.LeaseID, in.Month))
	})
	register(a, operation{
		ID: "listSLAMonths", Method: http.MethodGet, Path: "/v1/sla", Summary: "List closed months of leases that had outages, newest first", Tag: tagSLA, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.SLAMonth]], error) {
		list, err := a.Levels.Months(ctx, p.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, sla.Month.Cursor, func(m sla.Month) api.SLAMonth {
			return api.SLAMonth{
				LeaseID: m.LeaseID, Month: m.Month, Simulated: m.Simulated, AvailabilityPPM: m.AvailabilityPM, DownSeconds: m.DownSeconds,
				Currency: string(m.Currency), Credit: m.Credit, ClosedAt: m.ClosedAt,
			}
		}), nil
	})
	register(a, operation{
		ID: "confirmOutage", Method: http.MethodPost, Path: "/v1/operator/sla/confirmations", Summary: "Confirm an outage that only a probe inside of the instance saw", Tag: tagSLA, Action: account.Operate,
		Description: "It counts from then on. In a month that is closed already, what it gives more is posted at once. The same again changes nothing.",
	}, func(ctx context.Context, p account.Principal, in *body[api.ConfirmOutage]) (*body[api.LeaseSLA], error) {
		return slaBody(a.Levels.Confirm(ctx, p, in.Body.LeaseID, in.Body.From, in.Body.Note))
	})
	register(a, operation{
		ID: "getStatus", Method: http.MethodGet, Path: "/v1/status", Summary: "Show the control plane's own availability", Tag: tagSLA,
		Description: "Every minute in which it could do its work is written down; one that nobody wrote counts as down. Leases run on while it is away. Anyone may ask.",
	}, func(ctx context.Context, _ account.Principal, _ *none) (*body[api.Status], error) {
		u, err := a.Levels.Uptime(ctx)
		if err != nil {
			return nil, err
		}
		return &body[api.Status]{statusJSON(u)}, nil
	})
}

func slaBody(r sla.Report, err error) (*body[api.LeaseSLA], error) {
	if err != nil {
		return nil, err
	}
	v := r.Availability
	out := api.LeaseSLA{
		LeaseID: r.LeaseID, Month: r.Month, From: v.Month.Start, Until: v.Month.End, TimeZone: r.TimeZone, Simulated: r.Simulated,
		AvailabilityPPM: v.PPM, PromisedSeconds: v.PromisedSeconds, DownSeconds: v.DownSeconds, ExcludedSeconds: v.ExcludedSeconds,
		Outages: []api.SLAOutage{}, Excluded: evidenceJSON(v.Excluded), Uncorroborated: evidenceJSON(r.Uncorroborated),
		Currency: string(r.Currency), Charge: r.Charge, Granted: r.Granted, CreditShareBasisPoints: v.BasisPoints, Credit: r.Credit,
		ClosesAt: r.CloseAt, ClosedAt: optional(r.ClosedAt),
	}
	for _, o := range v.Outages {
		out.Outages = append(out.Outages, api.SLAOutage{Start: o.Start, End: o.End, HostFault: o.Host, Evidence: evidenceJSON(o.Evidence)})
	}
	return &body[api.LeaseSLA]{out}, nil
}

func evidenceJSON(list []pricing.Evidence) []api.SLAEvidence {
	out := []api.SLAEvidence{}
	for _, e := range list {
		out = append(out, api.SLAEvidence{Cause: string(e.Cause), Source: e.Source, Reference: e.Reference, Start: e.Start, End: e.End})
	}
	return out
}

func statusJSON(u sla.Uptime) api.Status {
	out := api.Status{At: u.At, Since: optional(u.Since), Windows: []api.StatusWindow{}, Gaps: []api.StatusGap{}, GapsLeft: u.GapsLeft}
	for _, w := range u.Windows {
		out.Windows = append(out.Windows, api.StatusWindow{Days: w.Days, MeasuredMinutes: w.Minutes, UpMinutes: w.Up, AvailabilityPPM: w.Available})
	}
	for _, g := range u.Gaps {
		out.Gaps = append(out.Gaps, api.StatusGap(g))
	}
	return out
}
