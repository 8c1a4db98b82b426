package billing

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// rate is what a spot lease costs an hour from a moment on, until the next.
type rate struct {
	from   time.Time
	price  money.Rate
	listed money.Rate // in the provider's currency, if that is another
}

// SetRate says what a spot lease costs an hour, as a whole, from a moment on:
// the price that the market cleared at. It is in the currency of the market; an
// account that pays in another pays what the rate in its quote makes of it. Rates may come in any order and more
// than once, and also when the lease has ended: what is due depends on the rates
// that there are, and a lease that is over is charged the difference at once. A
// second rate for the same moment is a Conflict fault "rate_set".
func (s *Service) SetRate(ctx context.Context, tx *store.Tx, leaseID string, price money.Rate, at time.Time) error {
	if price < 0 {
		return fault.New(fault.Invalid, "rate_invalid", "a price of %s an hour for lease %s: want at least 0", price.Display(), leaseID)
	}
	at = at.UTC().Truncate(time.Microsecond)
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if l.quote.Plan != pricing.Spot {
		return fault.New(fault.Conflict, "not_spot", "lease %s is paid by the plan %s; only spot leases follow the market's price", leaseID, l.quote.Plan)
	}
	var listed money.Rate
	if x := l.quote.Exchange; x != nil {
		if listed = price; price > 0 {
			if price, err = x.Price(listed); err != nil {
				return fmt.Errorf("set rate of lease %s: %w", leaseID, err)
			}
		}
	}
	for _, r := range l.rates {
		if r.from.Equal(at) {
			if r.price == price && r.listed == listed {
				return nil
			}
			return fault.New(fault.Conflict, "rate_set", "lease %s costs %s an hour from %s on, and was to cost %s", leaseID, r.price.Display(), at.Format(time.RFC3339Nano), price.Display())
		}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_rates (lease_id, from_at, rate, listed) VALUES (?, ?, ?, ?)`, leaseID, store.Micros(at), int64(price), int64(listed)); err != nil {
		return fmt.Errorf("set rate of lease %s: %w", leaseID, err)
	}
	s.changed(a.id)
	if l.ended.IsZero() {
		return nil
	}
	if l, err = s.lease(ctx, tx, leaseID); err != nil {
		return err
	}
	now := s.cfg.Clock()
	if err := s.charge(ctx, tx, a, l, now); err != nil {
		return err
	}
	return s.rebalance(ctx, tx, a, now)
}

// SetBid changes what is set aside for a spot lease to an hour at a new bid, for
// the whole of it and in the currency of the market. It is a Payment fault "insufficient_balance" if it is more than
// before and not available.
func (s *Service) SetBid(ctx context.Context, tx *store.Tx, leaseID string, bid money.Rate) error {
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if !l.ended.IsZero() {
		return nil
	}
	q := l.quote
	if q.Exchange != nil {
		if bid, err = q.Exchange.Price(bid); err != nil {
			return fmt.Errorf("bid for lease %s: %w", leaseID, err)
		}
	}
	q.Bid = bid
	hold, err := q.Hold()
	if err != nil {
		return fmt.Errorf("bid for lease %s: %w", leaseID, err)
	}
	now := s.cfg.Clock()
	if more := hold - l.hold; more > 0 {
		b, err := s.balance(ctx, tx, a.id, a.currency, now)
		if err != nil {
			return err
		}
		if b.Available < more {
			return fault.New(fault.Payment, "insufficient_balance",
				"a bid of %s %s an hour needs %s %s more set aside and %s %s is available; add money to the account, or bid less",
				bid.Display(), a.currency, more.Display(), a.currency, b.Available.Display(), a.currency)
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET hold = ? WHERE lease_id = ?`, int64(hold), leaseID); err != nil {
		return fmt.Errorf("bid for lease %s: %w", leaseID, err)
	}
	s.changed(a.id)
	return s.rebalance(ctx, tx, a, now)
}

// EvictCompute is StopCompute for a run that the platform ended: a spot lease
// that was interrupted within its first minute costs nothing.
func (s *Service) EvictCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	_, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if i := l.openInterval(pricing.Compute); i != nil {
		// Before it is charged, so that what is due knows it.
		if _, err := tx.Exec(ctx, `UPDATE billing_intervals SET evicted = 1 WHERE lease_id = ? AND meter = ? AND number = ?`, leaseID, string(i.meter), i.number); err != nil {
			return fmt.Errorf("evict lease %s: %w", leaseID, err)
		}
	}
	return s.StopCompute(ctx, tx, leaseID, at)
}

// loadRates fills in the rates of those of the leases that have any.
func loadRates(ctx context.Context, tx *store.Tx, byID map[string]*leaseRow) error {
	var ids []any
	for id, l := range byID {
		if l.quote.Plan == pricing.Spot {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT lease_id, from_at, rate, listed FROM billing_rates WHERE lease_id IN (?`+strings.Repeat(", ?", len(ids)-1)+`) ORDER BY lease_id, from_at`, ids...)
	if err != nil {
		return fmt.Errorf("load rates: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var from, price, listed int64
		if err := rows.Scan(&id, &from, &price, &listed); err != nil {
			return fmt.Errorf("load rates: %w", err)
		}
		byID[id].rates = append(byID[id].rates, rate{store.Time(from), money.Rate(price), money.Rate(listed)})
	}
	return rows.Err()
}

// rateAt is what an hour of a lease's compute costs at a moment. Before the first
// rate that was set it is the one of the quote.
func (l *leaseRow) rateAt(at time.Time) money.Rate {
	price, _ := l.ratesAt(at)
	return price
}

// ratesAt is rateAt, and the same in the provider's currency if that is another.
func (l *leaseRow) ratesAt(at time.Time) (price, listed money.Rate) {
	n := sort.Search(len(l.rates), func(i int) bool { return l.rates[i].from.After(at) })
	if n > 0 {
		return l.rates[n-1].price, l.rates[n-1].listed
	}
	if x := l.quote.Exchange; x != nil {
		listed = x.Listed.Compute
	}
	return agreedAt(l.quote, at), listed
}

// priced cuts a run where its rate changes. Only spot use has rates.
func (l *leaseRow) priced(run pricing.Interval) []pricing.Interval {
	if l.quote.Plan != pricing.Spot {
		return []pricing.Interval{run}
	}
	var out []pricing.Interval
	part := run
	part.Rate, part.Listed = l.ratesAt(run.Start)
	n := sort.Search(len(l.rates), func(i int) bool { return l.rates[i].from.After(run.Start) })
	for ; n < len(l.rates) && l.rates[n].from.Before(run.End); n++ {
		part.End, part.Evicted = l.rates[n].from, false
		out = append(out, part)
		part = pricing.Interval{Start: part.End, Rate: l.rates[n].price, Listed: l.rates[n].listed}
	}
	part.End, part.Evicted = run.End, run.Evicted
	return append(out, part)
}
