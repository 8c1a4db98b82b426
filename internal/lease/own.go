package lease

import (
	"context"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/pricing"
)

// own is the tariff of an offer as one account pays it.
type own struct {
	pricing.Tariff
	exchange *pricing.Exchanged // nil: it is priced in the account's currency
}

// ownTariff returns the tariff by which an account pays for an offer. An offer in
// another currency is converted by the rate in force; of the plans only on demand
// can be had so, since the others promise prices that a provider sets in its own.
func (s *Service) ownTariff(ctx context.Context, accountID string, o fleet.Offer, plan string) (own, error) {
	out := own{Tariff: tariff(o)}
	currency, err := s.Money.OwnCurrency(ctx, accountID)
	if err != nil || currency == out.Currency {
		return out, err
	}
	if plan != pricing.OnDemand {
		return out, fault.New(fault.Invalid, "currency_mismatch", "the offer is in %s and the account in %s, and the plan %s is not exchanged; rent it on demand, or an offer in %s", out.Currency, currency, plan, currency).At("body.plan")
	}
	rate, err := s.Money.ExchangeInForce(ctx, out.Currency, currency)
	if err != nil {
		return out, err
	}
	converted, x, err := rate.Tariff(out.Tariff)
	if err != nil {
		return out, unpriceable(err)
	}
	return own{converted, &x}, nil
}

// quote freezes the price of a request, and how it came about.
func (o own) quote(r pricing.Request, at time.Time) (pricing.Quote, error) {
	q, err := pricing.NewQuote(o.Tariff, r, at)
	q.Exchange = o.exchange
	return q, err
}
