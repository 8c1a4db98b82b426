package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// plan is what is to be done about an invoice that is owed.
func (s *Service) plan(ctx context.Context, tx *store.Tx, d due, now time.Time) (pricing.DunningPlan, error) {
	steps, err := s.cfg.Dunning.Steps(d.DueFrom, d.zone)
	if err != nil {
		return pricing.DunningPlan{}, fmt.Errorf("schedule of %s: %w", d.name(), err)
	}
	done := map[string]time.Time{}
	rows, err := tx.Query(ctx, `SELECT step, done_at FROM billing_dunning WHERE invoice_id = ?`, d.invoiceID)
	if err != nil {
		return pricing.DunningPlan{}, fmt.Errorf("schedule of %s: %w", d.name(), err)
	}
	defer rows.Close()
	for rows.Next() {
		var step string
		var at int64
		if err := rows.Scan(&step, &at); err != nil {
			return pricing.DunningPlan{}, fmt.Errorf("schedule of %s: %w", d.name(), err)
		}
		done[step] = store.Time(at)
	}
	if err := rows.Err(); err != nil {
		return pricing.DunningPlan{}, fmt.Errorf("schedule of %s: %w", d.name(), err)
	}
	return s.cfg.Dunning.Next(steps, done, now), nil
}

// RunDunning takes the steps of invoices that are not paid until ctx ends. Several
// replicas may run it.
func (s *Service) RunDunning(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.CloseEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		now := s.cfg.Clock()
		if first {
			// The operator may have changed the schedule.
			if err := s.rescheduled(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.ErrorContext(ctx, "taking up a changed schedule of reminders failed", "error", err)
			}
		}
		if err := s.Dun(ctx, now); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "following up invoices failed for some accounts; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) rescheduled(ctx context.Context) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE billing_dues SET next_at = 0 WHERE settled_at = 0`)
		return err
	})
}

// Dun takes the steps that are due of invoices that are not paid: it reminds,
// announces that compute will stop, and stops it. Each step is taken once, in the
// transaction that writes it down and announces it; ended anywhere, it goes on
// there. One account's failure does not stop the others.
func (s *Service) Dun(ctx context.Context, now time.Time) error {
	if err := s.backfill(ctx, now); err != nil {
		return fmt.Errorf("make old invoices due: %w", err)
	}
	accounts, err := s.accountsWhere(ctx, `SELECT DISTINCT account_id FROM billing_dues WHERE settled_at = 0 AND next_at <= ? ORDER BY account_id`, store.Micros(now))
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range accounts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.dunAccount(ctx, id, now); err != nil {
			failed = append(failed, fmt.Errorf("follow up invoices of %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Service) dunAccount(ctx context.Context, accountID string, now time.Time) error {
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, err := s.lockAccount(ctx, tx, accountID, "")
		if err != nil {
			return err
		}
		// What was paid without a deposit, as by a credit, counts too.
		if err := s.settleDues(ctx, tx, a, now); err != nil {
			return err
		}
		list, err := s.dues(ctx, tx, a.id, a.currency)
		if err != nil {
			return err
		}
		for _, d := range list {
			if d.settled.IsZero() && d.Owed > 0 {
				if err := s.dun(ctx, tx, a, d, now); err != nil {
					return err
				}
			}
		}
		return a.save(ctx, tx)
	})
	s.changed(accountID)
	return err
}

// dun takes an invoice's steps.
func (s *Service) dun(ctx context.Context, tx *store.Tx, a *accountRow, d due, now time.Time) error {
	plan, err := s.plan(ctx, tx, d, now)
	if err != nil {
		return err
	}
	for n, step := range slices.Concat(plan.Missed, plan.Do) {
		missed := 0
		if n < len(plan.Missed) {
			missed = 1
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_dunning (invoice_id, step, done_at, missed) VALUES (?, ?, ?, ?)`, d.invoiceID, step.Name, store.Micros(now), missed); err != nil {
			return fmt.Errorf("step %s of %s: %w", step.Name, d.name(), err)
		}
	}
	stopAt, stopped := plan.StopAt, false
	for _, step := range plan.Do {
		if step.Act == pricing.ActStop {
			stopAt, stopped = time.Time{}, true
			if err := s.stopForInvoice(ctx, tx, a, now); err != nil {
				return err
			}
		}
		if err := s.announceDue(ctx, tx, a, d, now, stopAt, stopped); err != nil {
			return err
		}
	}
	// With what was done now, to be looked at next.
	if len(plan.Do) > 0 {
		if plan, err = s.plan(ctx, tx, d, now); err != nil {
			return err
		}
	}
	next := plan.Next
	if len(plan.Do) > 0 {
		next = now
	}
	if next.IsZero() {
		next = now.Add(24 * time.Hour) // it may have been paid otherwise
	}
	if _, err := tx.Exec(ctx, `UPDATE billing_dues SET next_at = ? WHERE invoice_id = ?`, store.Micros(next), d.invoiceID); err != nil {
		return fmt.Errorf("schedule of %s: %w", d.name(), err)
	}
	return nil
}

// stopForInvoice stops an account's compute: from now on nothing more of it is
// charged, and Watch has it stopped as when money has run out.
func (s *Service) stopForInvoice(ctx context.Context, tx *store.Tx, a *accountRow, now time.Time) error {
	if a.overdueSince.IsZero() {
		a.overdueSince = now.UTC().Truncate(time.Microsecond)
	}
	leases, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return err
	}
	return s.enforce(ctx, tx, a, leases, now)
}
