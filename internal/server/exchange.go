package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func (a *API) registerExchange() {
	register(a, operation{
		ID: "listExchangeRates", Method: http.MethodGet, Path: "/v1/operator/exchange-rates", Summary: "List the exchange rates that were entered, newest first", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, _ *none) (*body[page[api.ExchangeRate]], error) {
		list, err := a.Billing.ExchangeRates(ctx)
		if err != nil {
			return nil, err
		}
		return whole(list, exchangeRateJSON), nil
	})
	register(a, operation{
		ID: "setExchangeRate", Method: http.MethodPost, Path: "/v1/operator/exchange-rates", Summary: "Enter an exchange rate", Tag: tagBilling, Action: account.Operate, Status: http.StatusCreated, Idempotent: true,
		Description: "Accounts rent what is priced in another currency by the rate in force, which their quotes keep. Of rates whose time has begun, the one that began last is in force; " +
			"once it is over nothing is quoted by it. Nothing is edited: to correct a rate, enter another.",
	}, func(ctx context.Context, p account.Principal, in *body[api.SetExchangeRate]) (*body[api.ExchangeRate], error) {
		n := billing.NewExchangeRate{From: money.Currency(in.Body.From), To: money.Currency(in.Body.To), Rate: in.Body.Rate, Source: in.Body.Source, Until: in.Body.ValidUntil}
		if in.Body.ValidFrom != nil {
			n.Since = *in.Body.ValidFrom
		}
		r, err := a.Billing.SetExchangeRate(ctx, p, n, requestKey(ctx))
		if err != nil {
			return nil, err
		}
		return &body[api.ExchangeRate]{exchangeRateJSON(r)}, nil
	})
}

func exchangeRateJSON(r billing.ExchangeRate) api.ExchangeRate {
	return api.ExchangeRate{ID: r.ID, From: string(r.From), To: string(r.To), Rate: r.Rate, Source: r.Source, ValidFrom: r.Date, ValidUntil: r.Until, EnteredBy: r.EnteredBy, EnteredAt: r.EnteredAt}
}

func exchangeJSON(x *pricing.Exchanged) *api.Exchange {
	if x == nil {
		return nil
	}
	return &api.Exchange{RateID: x.RateID, From: string(x.From), To: string(x.To), Rate: x.Rate, Source: x.Source, Since: x.Since}
}

// ownPrices adds to offers in another currency what they cost in the account's, and
// to those for which the account has prices of its own what they are, as a quote of
// now would have it. Where no rate holds they are shown all the same.
func (a *API) ownPrices(ctx context.Context, acc account.Account, offers []fleet.Offer, out []api.Offer) error {
	if a.Billing == nil {
		return nil
	}
	month, err := pricing.SecondsOfMonth(acc.TimeZone, a.clock())
	if err != nil {
		return err
	}
	list, err := a.Billing.PriceListInForce(ctx, acc.ID, a.clock())
	if err != nil {
		return err
	}
	rates := map[money.Currency]*pricing.ExchangeRate{}
	for i, o := range offers {
		own := pricing.Tariff{Currency: o.Price.Currency, Compute: o.Price.Compute, Storage: o.Price.Storage, Egress: o.Price.Egress}
		var exchanged *pricing.Exchanged
		rate, known := rates[o.Price.Currency]
		if !known && o.Price.Currency != acc.Currency {
			r, err := a.Billing.ExchangeInForce(ctx, o.Price.Currency, acc.Currency)
			if f, ok := fault.As(err); err != nil && (!ok || f.Kind != fault.Conflict) {
				return err
			}
			if err == nil {
				rate = &r
			}
			rates[o.Price.Currency] = rate
		}
		switch {
		case rate != nil:
			converted, x, err := rate.Tariff(own)
			if err != nil {
				return err
			}
			own, exchanged = converted, &x
		case o.Price.Currency != acc.Currency:
			continue
		}
		var applied *pricing.AppliedList
		if list != nil {
			if own, applied, err = list.Tariff(own, o.GPUModel, int64(o.GPUCount), a.clock()); err != nil {
				return err
			}
		}
		if applied == nil && exchanged == nil {
			continue
		}
		compute, err := own.Compute.Times(1, 1)
		if err != nil {
			return err
		}
		disk, err := own.Storage.Times(o.DiskGiB*3600, month)
		if err != nil {
			return err
		}
		out[i].Price.Own = &api.OwnPrice{Currency: string(acc.Currency), PerHour: compute + disk, Compute: own.Compute, Storage: own.Storage, Egress: own.Egress, Exchange: exchangeJSON(exchanged), PriceList: appliedJSON(applied)}
	}
	return nil
}
