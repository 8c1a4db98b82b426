package billing

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Revenue is what a provider's leases were charged for a time.
type Revenue struct {
	Charges []Charge                      // in the order of their end
	Runs    map[string][]pricing.Interval // when each lease ran, up to its last charge
}

// Revenue returns the charges of a provider's leases whose stretch overlaps a time
// or ends in it, and when those leases ran: what a charge is divided by. They are by
// the prices and in the currency that the provider is paid by.
func (s *Service) Revenue(ctx context.Context, providerID string, from, until time.Time) (Revenue, error) {
	out := Revenue{Runs: map[string][]pricing.Interval{}}
	const where = `provider_id = ? AND to_at >= ? AND from_at < ?`
	args := []any{providerID, store.Micros(from), store.Micros(until)}
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, lease_id, meter, `+earnedCurrency+`, `+earnedOf+`, `+earnedShare+`, `+earnedLess+`, simulated, from_at, to_at, posted_at
			FROM billing_charges WHERE `+where+` ORDER BY to_at, id`, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		last := map[string]time.Time{}
		for rows.Next() {
			c := Charge{ProviderID: providerID}
			var simulated, from, to, posted int64
			if err := rows.Scan(&c.ID, &c.LeaseID, &c.Meter, &c.Currency, &c.Amount, &c.ProviderShare, &c.Commission, &simulated, &from, &to, &posted); err != nil {
				return err
			}
			c.Simulated = simulated != 0
			c.From, c.To, c.PostedAt = store.Time(from), store.Time(to), store.Time(posted)
			out.Charges = append(out.Charges, c)
			last[c.LeaseID] = latest(last[c.LeaseID], c.To)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		rows.Close()
		runs, err := tx.Query(ctx, `SELECT lease_id, start_at, end_at, limit_at FROM billing_intervals
			WHERE meter = ? AND lease_id IN (SELECT lease_id FROM billing_charges WHERE `+where+`) ORDER BY lease_id, number`,
			append([]any{string(pricing.Compute)}, args...)...)
		if err != nil {
			return err
		}
		defer runs.Close()
		for runs.Next() {
			var id string
			var start, end, limit int64
			if err := runs.Scan(&id, &start, &end, &limit); err != nil {
				return err
			}
			run := pricing.Interval{Start: store.Time(start), End: earliest(store.Time(end), store.Time(limit), last[id])}
			if run.Start.Before(run.End) {
				out.Runs[id] = append(out.Runs[id], run)
			}
		}
		return runs.Err()
	})
	if err != nil {
		return Revenue{}, fmt.Errorf("revenue of %s: %w", providerID, err)
	}
	return out, nil
}

// RealEarnings returns what a provider has earned in one currency with real
// hardware, for its balance at a moment: what was posted since a moment one by
// one, and what was posted before it summed up by lease, gains and corrections
// apart. Simulated hardware earns nothing that is ever paid.
func (s *Service) RealEarnings(ctx context.Context, tx *store.Tx, providerID string, currency money.Currency, since, at time.Time) ([]pricing.Earning, error) {
	var out []pricing.Earning
	read := func(query string, args ...any) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e pricing.Earning
			var posted int64
			if err := rows.Scan(&e.Reference, &posted, &e.Amount); err != nil {
				return err
			}
			e.At = store.Time(posted)
			out = append(out, e)
		}
		return rows.Err()
	}
	err := read(`SELECT lease_id, MAX(posted_at), CAST(SUM(`+earnedShare+`) AS BIGINT) FROM billing_charges
		WHERE provider_id = ? AND `+earnedCurrency+` = ? AND simulated = 0 AND posted_at <= ?
		GROUP BY lease_id, CASE WHEN `+earnedShare+` > 0 THEN 1 ELSE 0 END ORDER BY lease_id`, providerID, string(currency), store.Micros(since))
	if err == nil {
		err = read(`SELECT lease_id, posted_at, `+earnedShare+` FROM billing_charges
			WHERE provider_id = ? AND `+earnedCurrency+` = ? AND simulated = 0 AND posted_at > ? AND posted_at <= ? ORDER BY id`,
			providerID, string(currency), store.Micros(since), store.Micros(at))
	}
	if err != nil {
		return nil, fmt.Errorf("real earnings of %s: %w", providerID, err)
	}
	return out, nil
}

// Payee is a provider that has earned with real hardware, in one currency.
type Payee struct {
	AccountID string
	Currency  money.Currency
}

// Payees lists who has earned with real hardware, by account and currency.
func (s *Service) Payees(ctx context.Context) ([]Payee, error) {
	var out []Payee
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT DISTINCT provider_id, `+earnedCurrency+` AS paid_in FROM billing_charges WHERE simulated = 0 ORDER BY provider_id, paid_in`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var p Payee
			if err := rows.Scan(&p.AccountID, &p.Currency); err != nil {
				return err
			}
			out = append(out, p)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list payees: %w", err)
	}
	return out, nil
}

// Charged returns what a lease was charged, its provider's part of it, and what
// grants paid of it, by charges whose stretch ended after a moment and not after
// another.
func (s *Service) Charged(ctx context.Context, tx *store.Tx, leaseID string, after, until time.Time) (amount, provider, granted money.Amount, err error) {
	err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT), CAST(COALESCE(SUM(provider), 0) AS BIGINT), CAST(COALESCE(SUM(granted), 0) AS BIGINT)
		FROM billing_charges WHERE lease_id = ? AND to_at > ? AND to_at <= ?`, leaseID, store.Micros(after), store.Micros(until)).Scan(&amount, &provider, &granted)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("charges of lease %s: %w", leaseID, err)
	}
	return amount, provider, granted, nil
}

// Give posts transfers to an account's wallet under the account's lock, and pays
// its debt and fills its hold from what came in.
func (s *Service) Give(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, transfers ...ledger.Transfer) error {
	a, err := s.lockAccount(ctx, tx, accountID, currency)
	if err != nil {
		return err
	}
	if err := s.cfg.Ledger.Post(ctx, tx, transfers...); err != nil {
		return err
	}
	s.changed(accountID)
	return s.rebalance(ctx, tx, a, s.cfg.Clock())
}
