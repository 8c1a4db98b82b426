package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/earning"
)

func (a *API) registerEarning() {
	if a.Earnings == nil {
		return
	}
	register(a, operation{
		ID: "getEarnings", Method: http.MethodGet, Path: "/v1/earnings/breakdown", Summary: "Show what your hosts earned, by host, GPU or day", Tag: tagBilling, Action: account.ReadBilling,
		Description: "A charge counts on the days, by your account's time zone, on which what it is for was used. The rows of any period add up.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		By    string `query:"by" enum:"host,gpu,day" default:"host"`
		From  string `query:"from" maxLength:"10" doc:"First day; absent: the first of this month" example:"2026-03-01"`
		Until string `query:"until" maxLength:"10" doc:"The day after the last; absent: tomorrow" example:"2026-04-01"`
	}) (*body[api.Earnings], error) {
		b, err := a.Earnings.Breakdown(ctx, p.AccountID, earning.By(in.By), in.From, in.Until)
		if err != nil {
			return nil, err
		}
		return &body[api.Earnings]{earningsJSON(b)}, nil
	})
	register(a, operation{
		ID: "listEarningStatements", Method: http.MethodGet, Path: "/v1/earnings/statements", Summary: "Show your statements as a provider for a month", Tag: tagBilling, Action: account.ReadBilling,
		Description: "One for each currency. They are by the moment of posting: the statement of a month that is over never changes.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		Month string `query:"month" maxLength:"7" doc:"Absent: this month, so far" example:"2026-03"`
	}) (*body[page[api.ProviderStatement]], error) {
		list, err := a.Earnings.Statements(ctx, p.AccountID, in.Month)
		if err != nil {
			return nil, err
		}
		return whole(list, statementJSON), nil
	})
}

func earningsJSON(b earning.Breakdown) api.Earnings {
	out := api.Earnings{By: string(b.By), From: b.From, Until: b.Until, TimeZone: b.TimeZone, Rows: []api.EarningsRow{}}
	for _, r := range b.Rows {
		row := api.EarningsRow{
			Day: r.Day, HostID: r.HostID, GPU: r.GPU, GPUModel: r.Model, Simulated: r.Simulated,
			RentedGPUSeconds: r.RentedSeconds, ListedGPUSeconds: r.ListedSeconds, Sums: []api.EarningsSum{},
		}
		if o, ok := r.Occupancy(); ok {
			row.OccupancyBasisPoints = &o
		}
		for _, s := range r.Sums {
			row.Sums = append(row.Sums, api.EarningsSum{Currency: string(s.Currency), Charged: s.Charged, Commission: s.Commission, Earned: s.Earned})
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func statementJSON(s earning.Statement) api.ProviderStatement {
	out := api.ProviderStatement{
		From: s.Month.Start, Until: s.Month.End, TimeZone: s.TimeZone, Currency: string(s.Currency), Opening: s.Opening, Closing: s.Closing,
		Lines: []api.ProviderStatementLine{},
	}
	for _, l := range s.Lines {
		out.Lines = append(out.Lines, api.ProviderStatementLine(l))
	}
	return out
}
