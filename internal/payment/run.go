package payment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/store"
)

const (
	batch = 50 // looked at in one go
	// eventsEvery is between looks at a provider's own list of events, which begin
	// overlap before the last one's end.
	eventsEvery = 5 * time.Minute
	overlap     = time.Hour
	longest     = 29 * 24 * time.Hour // providers forget events after a month
)

// patience is how long to wait after a number of looks.
func patience(tries int64) time.Duration {
	return min(10*time.Minute, 15*time.Second<<min(tries, 6))
}

// Run finds what callbacks did not say and finishes what a crash left, until ctx
// ends. Several replicas may run it.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.PollEvery)
	defer tick.Stop()
	for {
		if err := s.Pass(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "look after payments", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Pass looks once at all that is due. What is wrong with one payment keeps no other
// waiting.
func (s *Service) Pass(ctx context.Context) error {
	var errs []error
	for _, part := range []struct {
		table string
		look  func(context.Context, string) error
	}{{"payments", s.lookAfter}, {"payment_refunds", s.send}} {
		due, err := s.claimDue(ctx, part.table)
		errs = append(errs, err)
		for _, id := range due {
			if err := part.look(ctx, id); err != nil && ctx.Err() == nil {
				s.cfg.Log.WarnContext(ctx, "look after a payment", "id", id, "error", err)
			}
		}
	}
	for _, p := range s.cfg.Providers {
		if err := s.readEvents(ctx, p); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "read a provider's events", "provider", p.Name(), "error", err)
		}
	}
	errs = append(errs, s.takeEarly(ctx), s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM payment_early WHERE at < ?`, store.Micros(s.cfg.Clock().Add(-longest)))
		return err
	}))
	return errors.Join(errs...)
}

// claimDue takes rows whose time has come, so that another replica does not, and
// says when they are due again should this process die now.
func (s *Service) claimDue(ctx context.Context, table string) (due []string, err error) {
	now := s.cfg.Clock()
	var ripe []struct {
		id   string
		next int64
	}
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT id, next_at FROM `+table+` WHERE next_at > 0 AND next_at <= ? ORDER BY next_at LIMIT ?`, store.Micros(now), batch)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var r struct {
				id   string
				next int64
			}
			if err := rows.Scan(&r.id, &r.next); err != nil {
				return err
			}
			ripe = append(ripe, r)
		}
		return rows.Err()
	})
	if err != nil || len(ripe) == 0 {
		return nil, err
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		due = nil
		for _, r := range ripe {
			wait, count := patience(4), ""
			if table == "payments" {
				var tries int64
				if err := tx.QueryRow(ctx, `SELECT tries FROM payments WHERE id = ?`, r.id).Scan(&tries); err != nil {
					return err
				}
				wait, count = patience(tries+1), `, tries = tries + 1`
			}
			n, err := tx.Exec(ctx, `UPDATE `+table+` SET next_at = ?`+count+` WHERE id = ? AND next_at = ?`, store.Micros(now.Add(wait)), r.id, r.next)
			if err != nil {
				return err
			}
			if n == 1 {
				due = append(due, r.id)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim what is due: %w", err)
	}
	return due, nil
}

// lookAfter takes one payment a step further.
func (s *Service) lookAfter(ctx context.Context, id string) error {
	p, err := s.find(ctx, id)
	if err != nil {
		return err
	}
	with := s.providers[p.Provider]
	switch {
	case p.State == Succeeded:
		return s.credit(ctx, id)
	case with == nil:
		return fmt.Errorf("the provider %q is not set up any more", p.Provider)
	case p.State == Created && p.ExpiresAt.Sub(s.cfg.Clock()) < time.Hour:
		// Nobody was ever told where to pay.
		return s.take(ctx, id, Observation{Kind: SawExpired})
	case p.State == Created:
		return s.offer(ctx, with, id)
	case p.State == Pending:
		o, err := p.order()
		if err != nil {
			return err
		}
		seen, err := with.Look(ctx, o, p.Ref)
		if err != nil {
			return err
		}
		seen.PaymentID = p.ID
		return s.Observe(ctx, p.Provider, seen)
	}
	return s.change(ctx, id, func(_ context.Context, _ *store.Tx, p *Payment, _ time.Time) error {
		p.nextAt = time.Time{}
		return nil
	})
}

// readEvents takes what happened at a provider since the last look.
func (s *Service) readEvents(ctx context.Context, with Provider) error {
	now := s.cfg.Clock()
	var until int64
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		err := tx.QueryRow(ctx, `SELECT until_at FROM payment_cursors WHERE provider = ?`, with.Name()).Scan(&until)
		if errors.Is(err, store.ErrNoRows) {
			until = store.Micros(now.Add(-eventsEvery))
			return nil
		}
		return err
	})
	if err != nil || now.Sub(store.Time(until)) < eventsEvery {
		return err
	}
	from := store.Time(until).Add(-overlap)
	if oldest := now.Add(-longest); from.Before(oldest) {
		from = oldest
	}
	seen, err := with.Since(ctx, from)
	if err != nil {
		return err
	}
	for _, o := range seen {
		if err := s.Observe(ctx, with.Name(), o); err != nil {
			return err
		}
	}
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO payment_cursors (provider, until_at) VALUES (?, ?) ON CONFLICT (provider) DO UPDATE SET until_at = excluded.until_at`,
			with.Name(), store.Micros(now))
		return err
	})
}
