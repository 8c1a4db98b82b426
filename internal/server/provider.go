package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/earning"
	"suanli.dev/internal/money"
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
		return whole(list, hostStatementJSON), nil
	})
	a.registerPayouts()
}

type payoutList struct {
	Paging
	State string `query:"state" enum:"requested,approved,paid,failed,declined,returned" doc:"Only payouts in this state"`
}

func (a *API) registerPayouts() {
	register(a, operation{
		ID: "listPayables", Method: http.MethodGet, Path: "/v1/earnings/payable", Summary: "Show what can be paid out to you as a provider", Tag: tagBilling, Action: account.ReadBilling,
		Description: "By currency. Earnings are held for the operator's holding period first. What simulated GPUs earn is never paid out and not in it.",
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Payable]], error) {
		list, err := a.Earnings.Payables(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		return whole(list, payableJSON), nil
	})
	register(a, operation{
		ID: "listPayouts", Method: http.MethodGet, Path: "/v1/payouts", Summary: "List payouts to your account, newest first", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *payoutList) (*body[page[api.Payout]], error) {
		return a.payouts(ctx, p.AccountID, in)
	})
	register(a, operation{
		ID: "listAllPayouts", Method: http.MethodGet, Path: "/v1/operator/payouts", Summary: "List payouts to all providers, newest first", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *payoutList) (*body[page[api.Payout]], error) {
		return a.payouts(ctx, "", in)
	})
	register(a, operation{
		ID: "createPayouts", Method: http.MethodPost, Path: "/v1/operator/payouts", Summary: "Request payouts to providers", Tag: tagBilling, Action: account.Operate, Status: http.StatusCreated,
		Description: "To each provider all that is available, in whole cents, which is set aside. A provider is in a batch once, so the same batch can be sent again; the answer has all payouts of the batch.",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreatePayouts]) (*body[page[api.Payout]], error) {
		list, err := a.Earnings.CreatePayouts(ctx, p, earning.Batch{
			Name: in.Body.Batch, Currency: money.Currency(in.Body.Currency), Accounts: in.Body.AccountIDs, Minimum: in.Body.Minimum,
		})
		if err != nil {
			return nil, err
		}
		return whole(list, payoutJSON), nil
	})
	register(a, operation{
		ID: "markPayout", Method: http.MethodPost, Path: "/v1/operator/payouts/{payout_id}/mark", Summary: "Say what happened to a payout", Tag: tagBilling, Action: account.Operate,
		Description: "What is declined or returned is the provider's again. The same event again changes nothing.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		PayoutID string `path:"payout_id" maxLength:"64"`
		Body     api.MarkPayout
	}) (*body[api.Payout], error) {
		out, err := a.Earnings.Mark(ctx, p, in.PayoutID, earning.PayoutEvent(in.Body.Event), in.Body.Reference, in.Body.Reason)
		if err != nil {
			return nil, err
		}
		return &body[api.Payout]{payoutJSON(out)}, nil
	})
}

func (a *API) payouts(ctx context.Context, providerID string, in *payoutList) (*body[page[api.Payout]], error) {
	list, err := a.Earnings.Payouts(ctx, providerID, earning.PayoutState(in.State), in.Cursor, in.Limit+1)
	if err != nil {
		return nil, err
	}
	return paged(list, in.Limit, func(p earning.Payout) string { return p.ID }, payoutJSON), nil
}

func payoutJSON(p earning.Payout) api.Payout {
	return api.Payout{
		ID: p.ID, AccountID: p.AccountID, Currency: string(p.Currency), Amount: p.Amount, Batch: p.Batch, State: string(p.State),
		Reference: p.Reference, Reason: p.Reason, CreatedAt: p.CreatedAt, ChangedAt: p.ChangedAt,
	}
}

func payableJSON(p earning.Payable) api.Payable {
	return api.Payable{
		Currency: string(p.Currency), Earned: p.Earned, Held: p.Held, Available: p.Available, Reserved: p.Reserved, Owed: p.Owed, Paid: p.Paid,
		NextAt: optional(p.NextAt),
	}
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

func hostStatementJSON(s earning.Statement) api.ProviderStatement {
	out := api.ProviderStatement{
		From: s.Month.Start, Until: s.Month.End, TimeZone: s.TimeZone, Currency: string(s.Currency), Opening: s.Opening, Closing: s.Closing,
		Lines: []api.ProviderStatementLine{},
	}
	for _, l := range s.Lines {
		out.Lines = append(out.Lines, api.ProviderStatementLine(l))
	}
	return out
}
