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
	exchange *pricing.Exchanged   // nil: it is priced in the account's currency
	listed   *pricing.Tariff      // before list, in the account's currency; nil: there is none
	list     *pricing.AppliedList // of the account; nil: none applies
}

// beforeOwn is the tariff without the account's price list.
func (o own) beforeOwn() pricing.Tariff {
	if o.listed != nil {
		return *o.listed
	}
	return o.Tariff
}

// ownTariff returns the tariff by which an account pays for an offer at a moment. An
// offer in another currency is converted by the rate in force; of the plans only on
// demand can be had so, since the others promise prices that a provider sets in its
// own. For the same reason only on demand follows the account's price list.
func (s *Service) ownTariff(ctx context.Context, accountID string, o fleet.Offer, plan string, at time.Time) (own, error) {
	out := own{Tariff: tariff(o)}
	currency, err := s.Money.OwnCurrency(ctx, accountID)
	if err != nil {
		return out, err
	}
	if currency != out.Currency {
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
		out.Tariff, out.exchange = converted, &x
	}
	if plan != pricing.OnDemand {
		return out, nil
	}
	list, err := s.Money.PriceListInForce(ctx, accountID, at)
	if err != nil || list == nil {
		return out, err
	}
	listed := out.Tariff
	mine, applied, err := list.Tariff(listed, o.GPUModel, int64(o.GPUCount), at)
	if err != nil {
		return out, unpriceable(err)
	}
	if applied != nil {
		out.Tariff, out.listed, out.list = mine, &listed, applied
	}
	return out, nil
}

// quote freezes the price of a request, and how it came about.
func (o own) quote(r pricing.Request, at time.Time) (pricing.Quote, error) {
	q, err := pricing.NewQuote(o.Tariff, r, at)
	q.Exchange, q.Listed, q.PriceList = o.exchange, o.listed, o.list
	return q, err
}
