package server

import (
	"context"
	"fmt"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
)

func (a *API) compareQuotes(ctx context.Context, p account.Principal, in *body[api.PlanQuestion]) (*body[api.PlanComparison], error) {
	acc, err := a.Accounts.Account(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	r, err := quoteRequest(api.QuoteRequest{
		OfferID: in.Body.OfferID, Template: in.Body.Template, Image: in.Body.Image, DiskGiB: in.Body.DiskGiB,
		RunSeconds: in.Body.RunSeconds, EgressBytes: in.Body.EgressBytes,
	})
	if err != nil {
		return nil, err
	}
	c, err := a.Leases.Compare(ctx, p, r, acc.TimeZone)
	if err != nil {
		return nil, err
	}
	out := api.PlanComparison{
		OfferID: c.Offer.ID, GPUModel: c.Offer.GPUModel, GPUCount: c.Offer.GPUCount, Zone: c.Offer.Zone, Image: c.Request.Image, DiskGiB: c.Request.DiskGiB,
		RunSeconds: c.Prices.Request.RunSeconds, TimeZone: c.Prices.Request.TimeZone, Currency: string(c.Prices.Currency), Simulated: c.Offer.Simulated,
		QuotedAt: c.Prices.QuotedAt, Options: []api.PlanOption{},
	}
	for _, o := range c.Prices.Options {
		option := api.PlanOption{
			Plan: o.Plan, TermMonths: o.TermMonths, Payment: string(o.Payment), Buyable: o.Available, Why: o.Why, DueNow: o.DueNow,
			PerHour: o.Totals.PerHour, PerDay: o.Totals.PerDay, PerMonth: o.Totals.PerMonth, ForRun: o.Totals.ForRun,
			NotIncluded: o.NotIncluded, Lines: []api.QuoteLine{},
		}
		if o.Quote != nil {
			option.Lines = quoteLines(*o.Quote)
			if out.PriceList == nil {
				out.PriceList = appliedJSON(o.Quote.PriceList)
			}
			if out.Exchange == nil {
				out.Exchange = exchangeJSON(o.Quote.Exchange)
			}
		}
		out.Options = append(out.Options, option)
	}
	return &body[api.PlanComparison]{out}, nil
}

func (a *API) registerMonths() {
	const path = "/v1/leases/{lease_id}/monthly"
	register(a, operation{ID: "getMonths", Method: http.MethodGet, Path: path, Summary: "Show what is paid in advance for a lease", Tag: tagLease, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *LeasePath) (*body[api.Months], error) {
			return monthsBody(a.Leases.Months(ctx, p, in.LeaseID))
		})
	register(a, operation{ID: "updateMonths", Method: http.MethodPatch, Path: path, Summary: "Change what happens when the paid months of a lease end", Tag: tagLease, Action: account.WriteLeases, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *struct {
			LeasePath
			Body api.MonthsUpdate
		}) (*body[api.Months], error) {
			return monthsBody(a.Leases.SetMonths(ctx, p, in.LeaseID, billing.MonthsChange{Renews: in.Body.Renews, OnLapse: (*billing.Lapse)(in.Body.OnLapse)}))
		})
	register(a, operation{ID: "previewReprice", Method: http.MethodGet, Path: path + "/reprice", Summary: "What the price of today would change of a lease's months", Tag: tagLease, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *LeasePath) (*body[api.Repricing], error) {
			r, err := a.Leases.PreviewReprice(ctx, p, in.LeaseID)
			if err != nil {
				return nil, err
			}
			return &body[api.Repricing]{api.Repricing{
				PerMonth: r.PerMonth, DiscountPercent: basisPercent(r.BasisPoints), At: r.Proration.At, Until: r.Proration.Term.End,
				Credit: r.Proration.Credit, Charge: r.Proration.Charge, Net: r.Proration.Net,
			}}, nil
		})
	register(a, operation{ID: "repriceMonths", Method: http.MethodPost, Path: path + "/reprice", Summary: "Change a lease's months to the price of today", Tag: tagLease, Action: account.WriteLeases, Idempotent: true, Once: true,
		Description: "The rest of the term is credited at the old price and charged at the new one, and later terms cost the new one. It is refused if more than the agreed net would have to be paid."},
		func(ctx context.Context, p account.Principal, in *struct {
			LeasePath
			Body api.RepriceRequest
		}) (*body[api.Months], error) {
			return monthsBody(a.Leases.Reprice(ctx, p, in.LeaseID, in.Body.AgreedNet))
		})
}

func monthsBody(m billing.Months, err error) (*body[api.Months], error) {
	if err != nil {
		return nil, err
	}
	out := api.Months{
		LeaseID: m.LeaseID, Currency: string(m.Currency), Anchor: m.Terms.Anchor, TimeZone: m.Terms.TimeZone, PerMonth: m.Terms.PerMonth,
		TermMonths: m.Terms.TermMonths, DiscountPercent: basisPercent(m.Terms.BasisPoints), Renews: m.Renews, OnLapse: string(m.OnLapse),
		PaidFrom: m.From, PaidUntil: m.Until, NextTermPrice: m.NextPrice, EndedAt: optional(m.Ended), EndCode: m.EndCode,
		GivenBackIfEnded: m.Back, Payments: []api.Prepayment{},
	}
	for _, p := range m.Payments {
		out.Payments = append(out.Payments, api.Prepayment{Kind: string(p.Kind), Amount: p.Amount, From: p.From, Until: p.Until})
	}
	return &body[api.Months]{out}, nil
}

func basisPercent(basisPoints int64) string {
	return fmt.Sprintf("%d.%02d", basisPoints/100, basisPoints%100)
}
