package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// MonthlyTerms is how an operator sells months in advance. Without Discounts none
// are sold.
type MonthlyTerms struct {
	Hours     int64                  // on demand that a month costs
	Discounts []pricing.TermDiscount // of the terms that can be bought
}

// perMonth is what a month of a bundle costs.
func (m MonthlyTerms) perMonth(hourly money.Rate) (money.Amount, error) {
	return hourly.Times(m.Hours, 1)
}

// discount is what a term takes off.
func (m MonthlyTerms) discount(months int) (basisPoints int64, sold bool) {
	for _, d := range m.Discounts {
		if d.Months == months {
			return d.BasisPoints, true
		}
	}
	return 0, false
}

// market is all that an offer's prices depend on.
func (s *Service) market(o fleet.Offer) (pricing.Market, error) {
	m := pricing.Market{GPUModel: o.GPUModel, Zone: o.Zone, GPUs: int64(o.GPUCount), Tariff: tariff(o)}
	if s.Reserve.MaxMonths > 0 && o.GPUCount > 0 {
		m.Curve, m.Bounds = o.Reserve, s.Reserve
	}
	if len(s.Monthly.Discounts) == 0 {
		return m, nil
	}
	per, err := s.Monthly.perMonth(m.Tariff.Compute)
	m.PerMonth, m.Terms = &per, s.Monthly.Discounts
	return m, err
}

// checkPlan checks which plan is asked for and with what, and fills in the rest.
func (s *Service) checkPlan(r *QuoteRequest) error {
	plans := []string{pricing.OnDemand}
	if len(s.Monthly.Discounts) > 0 {
		plans = append(plans, pricing.Monthly)
	}
	if !slices.Contains(plans, r.Plan) {
		return invalid("body.plan", "unknown_plan", "there is no plan %q; this cloud has %s", r.Plan, strings.Join(plans, ", "))
	}
	if r.Plan != pricing.Monthly {
		if r.TermMonths != 0 || r.Renews || r.OnLapse != "" {
			return invalid("body.term_months", "term_without_plan", "a term was given and the plan is %s; terms are of the plan monthly", r.Plan)
		}
		return nil
	}
	if r.TermMonths == 0 {
		r.TermMonths = 1
	}
	if _, sold := s.Monthly.discount(r.TermMonths); !sold {
		var terms []string
		for _, d := range s.Monthly.Discounts {
			terms = append(terms, fmt.Sprint(d.Months))
		}
		return invalid("body.term_months", "invalid_term", "a term of %d months was asked for; this cloud sells %s", r.TermMonths, strings.Join(terms, ", "))
	}
	if r.OnLapse == "" {
		r.OnLapse = billing.LapseStop
	}
	if r.OnLapse != billing.LapseStop && r.OnLapse != billing.LapseOnDemand {
		return invalid("body.on_lapse", "invalid_on_lapse", "on_lapse is %q; want stop or on_demand", r.OnLapse)
	}
	return nil
}

// Months returns what is paid in advance for a lease of the caller's.
func (s *Service) Months(ctx context.Context, p account.Principal, id string) (billing.Months, error) {
	l, err := s.Resolve(ctx, p, id)
	if err != nil {
		return billing.Months{}, err
	}
	return s.Money.Months(ctx, l.ID)
}

// SetMonths changes what happens when the paid term of a lease of the caller's ends.
func (s *Service) SetMonths(ctx context.Context, p account.Principal, id string, c billing.MonthsChange) (billing.Months, error) {
	l, err := s.Resolve(ctx, p, id)
	if err != nil {
		return billing.Months{}, err
	}
	return s.Money.SetMonths(ctx, p, l.ID, c)
}

// Repricing is what a change of a lease's months to the price of today comes to.
type Repricing struct {
	PerMonth    money.Amount // of today, without discount
	BasisPoints int64        // what the lease's term takes off today
	Proration   pricing.Proration

	listed money.Amount // PerMonth in the provider's currency
}

// PreviewReprice says what it would come to now if the months of a lease of the
// caller's were changed to the price of today.
func (s *Service) PreviewReprice(ctx context.Context, p account.Principal, id string) (Repricing, error) {
	l, err := s.Resolve(ctx, p, id)
	if err != nil {
		return Repricing{}, err
	}
	return s.repricing(ctx, l)
}

func (s *Service) repricing(ctx context.Context, l *Lease) (r Repricing, err error) {
	m, err := s.Money.Months(ctx, l.ID)
	if err != nil {
		return r, err
	}
	var sold bool
	if r.BasisPoints, sold = s.Monthly.discount(m.Terms.TermMonths); !sold {
		return r, fault.New(fault.Conflict, "invalid_term", "this cloud no longer sells terms of %d months, so there is no price of today", m.Terms.TermMonths)
	}
	rate, err := s.Capacity.ComputeRate(ctx, l.HostID, l.GPUModel, l.Bundle.GPUCount)
	if err != nil {
		return r, err
	}
	if r.PerMonth, err = s.Monthly.perMonth(rate); err != nil {
		return r, err
	}
	r.listed = r.PerMonth
	if x := l.Price.Exchange; x != nil {
		if r.PerMonth, err = x.Amount(r.listed); err != nil {
			return r, unpriceable(err)
		}
	}
	r.Proration, err = s.Money.PreviewReprice(ctx, l.ID, r.listed, r.BasisPoints)
	return r, err
}

// Reprice changes the months of a lease of the caller's to the price of today, if
// no more than agreed has to be paid for it.
func (s *Service) Reprice(ctx context.Context, p account.Principal, id string, agreed money.Amount) (billing.Months, error) {
	l, err := s.Resolve(ctx, p, id)
	if err != nil {
		return billing.Months{}, err
	}
	r, err := s.repricing(ctx, l)
	if err != nil {
		return billing.Months{}, err
	}
	return s.Money.RepriceMonths(ctx, p, l.ID, r.listed, r.BasisPoints, agreed)
}

// holder is whose held GPUs a lease may have. What is reserved is for leases that a
// reservation pays for: months are paid otherwise, and bids have no claim.
func holder(plan, accountID string) string {
	if plan != pricing.OnDemand {
		return ""
	}
	return accountID
}

// keepsCompute reports whether a stopped lease keeps its GPUs, since it is paid for
// in advance.
func (s *Service) keepsCompute(ctx context.Context, tx *store.Tx, l *Lease) (bool, error) {
	if l.Price.Plan != pricing.Monthly {
		return false, nil
	}
	return s.Money.HoldsTerm(ctx, tx, l.ID, s.Clock())
}

// releaseLapsed gives back what stopped leases have kept whose months are over by
// now.
func (s *Service) releaseLapsed(ctx context.Context) {
	var kept []string
	s.mu.Lock()
	for id, t := range s.live {
		if t.lease.State == Stopped && t.lease.Price.Plan == pricing.Monthly && t.released != t.lease.version {
			kept = append(kept, id)
		}
	}
	s.mu.Unlock()
	for _, id := range kept {
		var l *Lease
		err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			l = nil
			now, err := loadLease(ctx, tx, id)
			if err != nil || now.State != Stopped {
				return err
			}
			if keeps, err := s.keepsCompute(ctx, tx, now); err != nil || keeps {
				return err
			}
			l, now.GPUs = now, nil
			if err := s.Capacity.ReleaseCompute(ctx, tx, id); err != nil {
				return err
			}
			return saveState(ctx, tx, now)
		})
		if err != nil {
			s.Log.WarnContext(ctx, "release what a lease kept whose months are over", "lease", id, "error", err)
		}
		if err != nil || l == nil {
			continue
		}
		s.track(l)
		s.mu.Lock()
		if t := s.live[id]; t != nil {
			t.released = l.version
		}
		s.mu.Unlock()
		s.Capacity.Refresh(ctx, l.HostID)
	}
}

// Comparison is what an offer costs under all plans, side by side. Nothing of it
// is frozen: a quote is.
type Comparison struct {
	Offer   fleet.Offer
	Request QuoteRequest // as it was priced, with the template's image and disk
	Prices  pricing.Comparison
}

// Compare prices an offer for the caller's account under all plans. An option is
// available only if a quote for it can be had and accepted now. The request's own
// plan is ignored; timeZone is the account's.
func (s *Service) Compare(ctx context.Context, p account.Principal, r QuoteRequest, timeZone string) (*Comparison, error) {
	offer, err := s.priceable(ctx, p.AccountID, &r, timeZone)
	if err != nil {
		return nil, err
	}
	r.Plan = ""
	now := s.Clock()
	mine, err := s.ownTariff(ctx, p.AccountID, tariff(offer))
	if err != nil {
		return nil, err
	}
	market, err := s.market(offer)
	if err != nil {
		return nil, unpriceable(err)
	}
	market.Tariff = mine.Tariff
	if mine.exchange != nil && market.PerMonth != nil {
		own, err := mine.month(*market.PerMonth)
		if err != nil {
			return nil, unpriceable(err)
		}
		market.PerMonth = &own
	}
	prices, err := pricing.Compare(market, r.pricing(offer, timeZone), now)
	if err != nil {
		return nil, unpriceable(err)
	}
	onDemand, err := s.byPriceList(ctx, mine, p.AccountID, offer, now)
	if err != nil {
		return nil, err
	}
	for i, o := range prices.Options {
		if o.Quote == nil {
			continue
		}
		if o.Plan != pricing.OnDemand {
			o.Quote.Exchange = mine.exchange
			continue
		}
		ask := prices.Request
		ask.Plan, ask.Bid = pricing.OnDemand, 0
		q, err := onDemand.quote(ask, now)
		if err != nil {
			return nil, unpriceable(err)
		}
		prices.Options[i].Quote, prices.Options[i].Totals, prices.Options[i].NotIncluded = &q, q.Totals, q.NotIncluded
	}
	// The rules of price know a month's price for every term; not each is sold.
	prices.Options = slices.DeleteFunc(prices.Options, func(o pricing.Option) bool {
		_, sold := s.Monthly.discount(o.TermMonths)
		return o.Plan == pricing.Monthly && o.Available && !sold
	})
	return &Comparison{Offer: offer, Request: r, Prices: prices}, nil
}
