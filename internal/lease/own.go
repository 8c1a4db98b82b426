package lease

import (
	"context"
	"time"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// own is the tariff of an offer as one account pays it.
type own struct {
	pricing.Tariff
	exchange *pricing.Exchanged   // nil: it is priced in the account's currency
	listed   *pricing.Tariff      // before list, in the account's currency; nil: there is none
	list     *pricing.AppliedList // of the account; nil: none applies
}

// ownTariff returns the tariff by which an account pays for what is listed. One in
// another currency is converted by the rate in force, which its quote keeps.
func (s *Service) ownTariff(ctx context.Context, accountID string, listed pricing.Tariff) (own, error) {
	out := own{Tariff: listed}
	currency, err := s.Money.OwnCurrency(ctx, accountID)
	if err != nil || currency == out.Currency {
		return out, err
	}
	rate, err := s.Money.ExchangeInForce(ctx, out.Currency, currency)
	if err != nil {
		return out, err
	}
	converted, x, err := rate.Tariff(out.Tariff)
	if err != nil {
		return out, unpriceable(err)
	}
	return own{Tariff: converted, exchange: &x}, nil
}

// byPriceList applies the price list that an account has at a moment to the tariff
// of an offer. It is for what is rented on demand: the other plans promise prices
// that a provider sets.
func (s *Service) byPriceList(ctx context.Context, before own, accountID string, o fleet.Offer, at time.Time) (own, error) {
	list, err := s.Money.PriceListInForce(ctx, accountID, at)
	if err != nil || list == nil {
		return before, err
	}
	listed := before.Tariff
	mine, applied, err := list.Tariff(listed, o.GPUModel, int64(o.GPUCount), at)
	if err != nil {
		return before, unpriceable(err)
	}
	if applied != nil {
		before.Tariff, before.listed, before.list = mine, &listed, applied
	}
	return before, nil
}

// month is what the listed price of a month in advance is for the account.
func (o *own) month(listed money.Amount) (money.Amount, error) {
	if o.exchange == nil {
		return listed, nil
	}
	o.exchange.PerMonth = listed
	return o.exchange.Amount(listed)
}

// quote freezes the price of a request, and how it came about.
func (o own) quote(r pricing.Request, at time.Time) (pricing.Quote, error) {
	q, err := pricing.NewQuote(o.Tariff, r, at)
	q.Exchange, q.Listed, q.PriceList = o.exchange, o.listed, o.list
	return q, err
}
