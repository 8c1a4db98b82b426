package server

import (
	"context"

	"suanli.dev/api"
	"suanli.dev/internal/account"
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
			option.Lines = quoteLines(o.Quote.Lines)
		}
		out.Options = append(out.Options, option)
	}
	return &body[api.PlanComparison]{out}, nil
}
