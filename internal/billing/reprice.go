package billing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Agreement is a renter's consent to another price of a lease on demand.
type Agreement struct {
	LeaseID    string
	PerHour    money.Rate // of the whole bundle's compute
	From       time.Time
	ProposalID string
	UserID     string // who agreed
}

// AgreePrice has a lease on demand cost another price from a moment on that is to
// come: what was used before costs what it did. More is set aside if it costs more; it is a Payment fault
// "insufficient_balance" if that is not available. The same again changes nothing.
//
// Other replicas see it by their next look at the lease's row: no cache has agreed
// prices. Their outlooks are older by a minute at most, so agreements have to come
// earlier than that before From to be in time.
func (s *Service) AgreePrice(ctx context.Context, tx *store.Tx, c Agreement) error {
	from := c.From.UTC().Truncate(time.Microsecond)
	a, l, err := s.lockOne(ctx, tx, c.LeaseID)
	if err != nil {
		return err
	}
	now := s.cfg.Clock()
	switch {
	case c.PerHour < 0:
		return fault.New(fault.Invalid, "rate_invalid", "a price of %s an hour for lease %s: want at least 0", c.PerHour.Display(), l.id)
	case l.quote.Plan != pricing.OnDemand:
		return fault.New(fault.Conflict, "not_on_demand", "lease %s is paid by the plan %s; only prices on demand change by agreement", l.id, l.quote.Plan)
	case l.earnsIn() != "":
		return fault.New(fault.Conflict, "price_frozen", "lease %s is paid by other prices than its provider listed; its price does not change, so rent anew for another", l.id)
	case !l.ended.IsZero():
		return fault.New(fault.Conflict, "lease_ended", "lease %s has ended; its price does not change any more", l.id)
	}
	for _, known := range l.quote.PriceChanges {
		if known.From.Equal(from) {
			if known.Compute == c.PerHour {
				return nil
			}
			return fault.New(fault.Conflict, "rate_set", "lease %s costs %s an hour from %s on, and was to cost %s", l.id, known.Compute.Display(), from.Format(time.RFC3339), c.PerHour.Display())
		}
	}
	if !from.After(now) || !from.After(l.settled) {
		return fault.New(fault.Gone, "price_change_over", "the price of lease %s was to change at %s, which is over; what was used since costs what it did", l.id, from.Format(time.RFC3339))
	}
	q := l.quote
	q.Tariff.Compute = c.PerHour
	hold, err := q.Hold()
	if err != nil {
		return fmt.Errorf("price of lease %s: %w", l.id, err)
	}
	if more := hold - l.hold; more > 0 {
		b, err := s.balance(ctx, tx, a.id, a.currency, now)
		if err != nil {
			return err
		}
		if b.Available+b.grantedFor(l.gpuModel) < more {
			return fault.New(fault.Payment, "insufficient_balance", "at %s %s an hour %s %s more have to be set aside, and %s %s are available; add money to the account",
				c.PerHour.Display(), a.currency, more.Display(), a.currency, (b.Available + b.grantedFor(l.gpuModel)).Display(), a.currency)
		}
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_price_changes (lease_id, from_at, rate, proposal_id, agreed_by, agreed_at) VALUES (?, ?, ?, ?, ?, ?)`,
		l.id, store.Micros(from), int64(c.PerHour), c.ProposalID, c.UserID, store.Micros(now)); err != nil {
		return fmt.Errorf("price of lease %s: %w", l.id, err)
	}
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET repriced = 1, hold = ? WHERE lease_id = ?`, int64(max(hold, l.hold)), l.id); err != nil {
		return fmt.Errorf("price of lease %s: %w", l.id, err)
	}
	s.changed(a.id)
	return s.rebalance(ctx, tx, a, now)
}

// loadAgreed puts the prices that renters have agreed to into the quotes of leases.
// Quotes of version 1 know none; by version 2 the same use costs the same.
func loadAgreed(ctx context.Context, tx *store.Tx, leases []*leaseRow) error {
	byID := map[string]*leaseRow{}
	var ids []any
	for _, l := range leases {
		l.quote.PriceChanges = slices.Clone(l.quote.PriceChanges)
		l.quote.Version = 2
		byID[l.id] = l
		ids = append(ids, l.id)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT lease_id, from_at, rate FROM billing_price_changes WHERE lease_id IN (?`+strings.Repeat(", ?", len(ids)-1)+`) ORDER BY lease_id, from_at`, ids...)
	if err != nil {
		return fmt.Errorf("load agreed prices: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var from, price int64
		if err := rows.Scan(&id, &from, &price); err != nil {
			return fmt.Errorf("load agreed prices: %w", err)
		}
		q := &byID[id].quote
		q.PriceChanges = append(q.PriceChanges, pricing.PriceChange{From: store.Time(from), Compute: money.Rate(price)})
	}
	return rows.Err()
}

// agreedAt is what an hour of compute costs at a moment by what was agreed.
func agreedAt(q pricing.Quote, at time.Time) money.Rate {
	price := q.Tariff.Compute
	for _, c := range q.PriceChanges {
		if !c.From.After(at) {
			price = c.Compute
		}
	}
	return price
}

// verifyAgreed proves that no lease's price changed but by consent that came before.
func verifyAgreed(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT c.lease_id, c.from_at, c.proposal_id, c.agreed_by, c.agreed_at, l.repriced FROM billing_price_changes c JOIN billing_leases l ON l.lease_id = c.lease_id ORDER BY c.lease_id, c.from_at`)
	if err != nil {
		return fmt.Errorf("verify agreed prices: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, proposal, by string
		var from, at, repriced int64
		if err := rows.Scan(&id, &from, &proposal, &by, &at, &repriced); err != nil {
			return fmt.Errorf("verify agreed prices: %w", err)
		}
		if proposal == "" || by == "" || at >= from || repriced != 1 {
			r.wrong(id, "its price changes at %s, and nobody is known to have agreed to that before", store.Time(from).Format(time.RFC3339))
		}
	}
	return rows.Err()
}
