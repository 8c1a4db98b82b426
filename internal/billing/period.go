package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// period is an account's month that is not closed. All charges that are booked
// after its start and not after its end are on its invoice.
type period struct{ start, end time.Time }

// shortestPeriod keeps a change of time zone from making a month of hours: a
// month that began in one zone ends with the next month's end of the other that is
// at least this far away.
const shortestPeriod = 14 * 24 * time.Hour

// after returns the month that follows one that ended at a moment.
func after(end time.Time, timeZone string) (period, error) {
	m, err := pricing.MonthOf(end.Add(shortestPeriod), timeZone)
	return period{end, m.End}, err
}

// openPeriod returns an account's open month; the zero one if it has none yet.
func (s *Service) openPeriod(ctx context.Context, tx *store.Tx, accountID string) (period, error) {
	var start, end int64
	err := tx.QueryRow(ctx, `SELECT start_at, end_at FROM billing_periods WHERE account_id = ?`, accountID).Scan(&start, &end)
	if errors.Is(err, store.ErrNoRows) {
		return period{}, nil
	}
	if err != nil {
		return period{}, fmt.Errorf("open month of %s: %w", accountID, err)
	}
	return period{store.Time(start), store.Time(end)}, nil
}

// bookedAt returns when a charge for use up to a moment counts: at that moment,
// what is paid in advance now, and nothing in a month that is closed.
func (s *Service) bookedAt(ctx context.Context, tx *store.Tx, accountID string, to time.Time) (time.Time, error) {
	p, err := s.openPeriod(ctx, tx, accountID)
	return latest(earliest(to, s.cfg.Clock()), p.start.Add(time.Microsecond)), err
}

// charge posts what is due for a lease and not posted, cut at the end of the
// account's open month, so that no charge is of two months. Nothing is posted into
// a month that is closed: what is learned about it later is of the open one.
// Reservations are applied first, as they decide what is due. The caller holds the
// account's lock and saves it (see rebalance).
func (s *Service) charge(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, at time.Time) error {
	if a.reserves {
		if err := s.apply(ctx, tx, a, at); err != nil {
			return err
		}
		if err := s.fresh(ctx, tx, l); err != nil {
			return err
		}
	}
	if l.reserved != nil {
		if err := s.giveBackLost(ctx, tx, a, l, at); err != nil {
			return err
		}
	}
	return s.chargeOne(ctx, tx, a, l, at)
}

// chargeOne is charge by what reservations were applied to before.
func (s *Service) chargeOne(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, at time.Time) error {
	p, err := s.openPeriod(ctx, tx, a.id)
	if err != nil {
		return err
	}
	if p.end.IsZero() {
		return s.chargeUntil(ctx, tx, a, l, at)
	}
	if first := p.start.Add(time.Microsecond); at.Before(first) {
		at = first // a clock that was set back
	}
	// Also if it was cut there before: the last sign of life may have been from
	// before the end, and the rest of the month is known only now.
	if at.After(p.end) && !l.settled.After(p.end) && l.begun.Before(p.end) {
		if err := s.chargeUntil(ctx, tx, a, l, p.end); err != nil {
			return err
		}
	}
	return s.chargeUntil(ctx, tx, a, l, at)
}

// RunInvoices closes months until ctx ends. Several replicas may run it.
func (s *Service) RunInvoices(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.CloseEvery)
	defer tick.Stop()
	for {
		if err := s.CloseMonths(ctx, s.cfg.Clock()); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "closing months failed for some accounts; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// CloseMonths closes every month that is over, account by account: it settles
// what is due, writes the invoice and the statement, and opens the next month, in
// one transaction each. Asked again it finds nothing to do; ended anywhere, it
// goes on there. One account's failure does not stop the others.
func (s *Service) CloseMonths(ctx context.Context, now time.Time) error {
	fresh, err := s.accountsWhere(ctx, `SELECT account_id FROM billing_accounts WHERE account_id NOT IN (SELECT account_id FROM billing_periods) ORDER BY account_id`)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range fresh {
		if err := s.openFirst(ctx, id, now); err != nil {
			failed = append(failed, fmt.Errorf("open the first month of %s: %w", id, err))
		}
	}
	due, err := s.accountsWhere(ctx, `SELECT account_id FROM billing_periods WHERE end_at <= ? ORDER BY account_id`, store.Micros(now.Add(-s.cfg.InvoiceDelay)))
	if err != nil {
		return err
	}
	for _, id := range due {
		for closed := true; closed; {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if closed, err = s.closeMonth(ctx, id, now); err != nil {
				failed = append(failed, fmt.Errorf("close the month of %s: %w", id, err))
				closed = false
			}
		}
	}
	return errors.Join(failed...)
}

func (s *Service) accountsWhere(ctx context.Context, query string, args ...any) ([]string, error) {
	var out []string
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			out = append(out, id)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list accounts: %w", err)
	}
	return out, nil
}

// openFirst opens the month of an account's first charge, or this one.
func (s *Service) openFirst(ctx context.Context, accountID string, now time.Time) error {
	party, err := s.cfg.PartyOf(ctx, accountID)
	if err != nil {
		return err
	}
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := s.lockAccount(ctx, tx, accountID, ""); err != nil {
			return err
		}
		var first int64
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MIN(booked_at), 0) FROM billing_charges WHERE account_id = ?`, accountID).Scan(&first); err != nil {
			return err
		}
		at := now
		if first != 0 {
			// A charge that ends as a month does is of that month.
			at = earliest(now, store.Time(first).Add(-time.Microsecond))
		}
		m, err := pricing.MonthOf(at, party.TimeZone)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO billing_periods (account_id, start_at, end_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`,
			accountID, store.Micros(m.Start), store.Micros(m.End))
		return err
	})
}

// closeMonth closes an account's open month if it is over, and reports whether it
// did.
func (s *Service) closeMonth(ctx context.Context, accountID string, now time.Time) (closed bool, err error) {
	party, err := s.cfg.PartyOf(ctx, accountID)
	if err != nil {
		return false, err
	}
	// In a transaction of its own, so that the next one takes the series before any
	// of the ledger's accounts.
	if _, err := s.settleAccount(ctx, accountID, now); err != nil {
		return false, err
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		closed = false
		a, err := s.lockAccount(ctx, tx, accountID, "")
		if err != nil {
			return err
		}
		p, err := s.openPeriod(ctx, tx, accountID)
		if err != nil || p.end.IsZero() || now.Before(p.end.Add(s.cfg.InvoiceDelay)) {
			return err // another replica was first
		}
		next, err := after(p.end, party.TimeZone)
		if err != nil {
			return err
		}
		if err := s.volume(ctx, tx, a, p, now); err != nil {
			return err
		}
		id, total, err := s.invoice(ctx, tx, a, p, party, now)
		if err != nil {
			return err
		}
		if err := s.state(ctx, tx, a, p, id, total, now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_periods SET start_at = ?, end_at = ? WHERE account_id = ?`,
			store.Micros(next.start), store.Micros(next.end), accountID); err != nil {
			return err
		}
		closed = true
		return s.paid(ctx, tx, a, now)
	})
	s.changed(accountID)
	return closed, err
}
