package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Run watches who runs out of money and settles on the hour, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.WatchEvery)
	defer tick.Stop()
	next := s.cfg.Clock().Truncate(s.cfg.SettleEvery).Add(s.cfg.SettleEvery)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := s.cfg.Clock()
		if err := s.Watch(ctx, now); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "watching balances failed; it is tried again", "error", err)
		}
		if now.Before(next) {
			continue
		}
		if err := s.Settle(ctx, now); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "settling failed for some accounts; they are tried again at the next settlement", "error", err)
		}
		next = now.Truncate(s.cfg.SettleEvery).Add(s.cfg.SettleEvery)
	}
}

// Settle posts what is due and not posted for all open leases. One account's
// failure does not stop the others; all failures are in the error.
func (s *Service) Settle(ctx context.Context, now time.Time) (err error) {
	ctx, span := s.cfg.Tracer.Start(ctx, "settlement")
	defer func() { end(span, err) }()
	accounts, err := s.accountsWithLeases(ctx)
	if err != nil {
		return err
	}
	over, err := s.accountsWithGrantsOver(ctx, now)
	if err != nil {
		return err
	}
	accounts = slices.Compact(slices.Sorted(slices.Values(append(accounts, over...))))
	span.SetAttributes(attribute.Int("suanli.accounts", len(accounts)))
	var mu sync.Mutex
	var failed []error
	known := map[string]bool{}
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(settlers, len(accounts)) {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(accounts) {
					return
				}
				found, err := s.settleAccount(ctx, accounts[i], now)
				mu.Lock()
				if err != nil {
					failed = append(failed, fmt.Errorf("settle %s: %w", accounts[i], err))
				}
				for _, id := range found {
					known[id] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(failed) == 0 {
		s.forget(known)
	}
	return errors.Join(failed...)
}

// settlers is how many accounts are settled at the same time, so that they share
// commits.
const settlers = 16

func (s *Service) accountsWithLeases(ctx context.Context) ([]string, error) {
	var out []string
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT DISTINCT account_id FROM billing_leases WHERE ended_at = 0 ORDER BY account_id`)
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
		return nil, fmt.Errorf("list accounts with leases: %w", err)
	}
	return out, nil
}

// settleAccount posts what is due for an account's leases, and returns the
// identifiers of the account and the leases.
func (s *Service) settleAccount(ctx context.Context, accountID string, now time.Time) (known []string, err error) {
	ctx, span := s.cfg.Tracer.Start(ctx, "settle account", trace.WithAttributes(attribute.String("suanli.account_id", accountID)))
	defer func() { end(span, err) }()
	err = s.cfg.Ledger.Update(ctx, accountID, func(ctx context.Context, tx *store.Tx) error {
		known = []string{accountID}
		a, err := s.lockAccount(ctx, tx, accountID, "")
		if err != nil {
			return err
		}
		leases, err := s.openLeases(ctx, tx, accountID)
		if err != nil {
			return err
		}
		if err := s.enforce(ctx, tx, a, leases, now); err != nil {
			return err
		}
		for _, l := range leases {
			known = append(known, l.id)
			if err := s.charge(ctx, tx, a, l, now); err != nil {
				return err
			}
		}
		if err := s.expire(ctx, tx, a, now); err != nil {
			return err
		}
		s.changed(accountID)
		return s.rebalance(ctx, tx, a, now)
	})
	return known, err
}

// end ends a span with how it went.
func end(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// enforce writes the moment at which an account's money or a lease's spending cap
// ran out on what is running, if it has: nothing after it is charged, though the
// instance may take a while to stop. The limit stands even if money comes in
// before the instance has stopped; it is started again by its renter.
//
// Terms of months that are over come first: what pays for the time behind them
// decides how long the money lasts.
func (s *Service) enforce(ctx context.Context, tx *store.Tx, a *accountRow, leases []*leaseRow, now time.Time) error {
	if err := s.renew(ctx, tx, a, leases, now); err != nil {
		return err
	}
	o, err := s.lookAt(ctx, tx, a.id, a.currency, leases, now)
	if err != nil {
		return err
	}
	over := !o.until.IsZero() && !o.until.After(now)
	switch {
	case over && a.exhaustedAt.IsZero():
		a.exhaustedAt = latest(o.until)
		if err := s.announceExhausted(ctx, tx, a, now); err != nil {
			return err
		}
	case !over && o.funds >= 0:
		a.exhaustedAt = time.Time{}
		a.paidAgain()
	}
	for _, l := range leases {
		c := l.openInterval(pricing.Compute)
		if c == nil || (!c.limit.IsZero() && c.limitReason != ReasonRequested) {
			continue
		}
		end, reason := o.caps[l.id], ReasonSpendingCap
		if over && (end.IsZero() || !o.until.After(end)) {
			end, reason = o.until, ReasonBalance
		}
		if overdue := a.overdueSince; !overdue.IsZero() && (end.IsZero() || overdue.Before(end)) {
			end, reason = overdue, ReasonOverdue
		}
		if end.IsZero() || end.After(now) || (!c.limit.IsZero() && !end.Before(c.limit)) {
			continue
		}
		// What is posted stays posted.
		c.limit, c.limitReason = latest(end, c.start, l.settled), reason
		if _, err := tx.Exec(ctx, `UPDATE billing_intervals SET limit_at = ?, limit_reason = ? WHERE lease_id = ? AND meter = ? AND number = ?`,
			store.Micros(c.limit), string(reason), l.id, string(c.meter), c.number); err != nil {
			return fmt.Errorf("limit lease %s: %w", l.id, err)
		}
	}
	return nil
}

// order is a call of OnExhausted to be made.
type order struct {
	leaseID string
	reason  Reason
}

// Watch looks at every account with open leases whose money may have run out or
// come near it, puts limits on what runs, and calls OnExhausted and OnWarning.
func (s *Service) Watch(ctx context.Context, now time.Time) error {
	accounts, err := s.accountsWithLeases(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range accounts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if s.quiet(id, now) {
			continue
		}
		if err := s.watchAccount(ctx, id, now); err != nil {
			failed = append(failed, fmt.Errorf("watch %s: %w", id, err))
		}
	}
	return errors.Join(failed...)
}

// quiet reports whether nothing can have happened to an account since it was
// last looked at, as far as this process knows.
func (s *Service) quiet(accountID string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.outlooks[accountID]
	if !ok || now.Before(o.at) || now.Sub(o.at) > o.life() || o.funds < 0 || len(o.limits) > 0 {
		return false
	}
	if !o.edge.IsZero() && !o.edge.After(now) {
		return false
	}
	for _, until := range o.caps {
		if !until.After(now) {
			return false
		}
	}
	if o.until.IsZero() {
		return true
	}
	for _, w := range append([]time.Duration{0}, s.cfg.Warnings...) {
		if edge := o.until.Add(-w); edge.After(o.at) && !edge.After(now) {
			return false
		}
	}
	return o.until.After(now)
}

func (s *Service) watchAccount(ctx context.Context, accountID string, now time.Time) error {
	var o outlook
	var a *accountRow
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if a, err = scanAccount(tx.QueryRow(ctx, selectAccount, accountID)); err != nil {
			return err
		}
		o, err = s.look(ctx, tx, accountID, a.currency, now)
		return err
	})
	if err != nil {
		return err
	}
	if !s.needsWrite(a, o, now) && len(o.limits) == 0 {
		return nil
	}
	var orders []order
	var warnings []Warning
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		orders, warnings = nil, nil // the function may run again
		a, err := s.lockAccount(ctx, tx, accountID, "")
		if err != nil {
			return err
		}
		leases, err := s.openLeases(ctx, tx, accountID)
		if err != nil {
			return err
		}
		if err := s.enforce(ctx, tx, a, leases, now); err != nil {
			return err
		}
		fresh := false
		for _, l := range leases {
			c := l.openInterval(pricing.Compute)
			if c == nil || c.limit.IsZero() || c.limit.After(now) || c.limitReason == ReasonRequested {
				continue
			}
			orders = append(orders, order{l.id, c.limitReason})
			fresh = true
		}
		if at := s.deletionAt(a, now); !at.IsZero() && !a.deletionTold.IsZero() && !now.Before(at) {
			orders = nil
			for _, l := range leases {
				orders = append(orders, order{l.id, ReasonGraceOver})
			}
		}
		if o, err = s.lookAt(ctx, tx, a.id, a.currency, leases, now); err != nil {
			return err
		}
		warnings = s.warn(a, o, now)
		ending, err := s.warnTerms(ctx, tx, a, leases, now)
		if err != nil {
			return err
		}
		warnings = append(warnings, ending...)
		if err := s.announceWarnings(ctx, tx, a, leases, o, warnings, now); err != nil {
			return err
		}
		if fresh {
			for _, l := range leases {
				if err := s.charge(ctx, tx, a, l, now); err != nil {
					return err
				}
			}
			return s.rebalance(ctx, tx, a, now)
		}
		return a.save(ctx, tx)
	})
	if err != nil {
		return err
	}
	// After the commit, so that nobody is told what did not happen.
	for _, w := range warnings {
		s.cfg.OnWarning(ctx, accountID, w)
	}
	for _, do := range orders {
		s.cfg.OnExhausted(ctx, accountID, do.leaseID, do.reason)
	}
	return nil
}

// needsWrite reports whether a look at an account has to be followed by a change,
// so that accounts in good order cost no writes.
func (s *Service) needsWrite(a *accountRow, o outlook, now time.Time) bool {
	if !o.edge.IsZero() && !o.edge.After(now) {
		return true
	}
	if !o.until.IsZero() && !o.until.After(now) || !a.stoppedSince().IsZero() || o.funds < 0 {
		return true
	}
	for _, until := range o.caps {
		if !until.After(now) {
			return true
		}
	}
	c := *a
	s.warn(&c, o, now)
	return c != *a
}

// warn returns the warnings that are due and notes them in a. When money comes
// in, the notes go back, so that the warnings can be given again.
func (s *Service) warn(a *accountRow, o outlook, now time.Time) []Warning {
	var out []Warning
	step := func(kind WarningKind, given *time.Duration, until time.Time, steps []time.Duration) {
		var reached time.Duration
		if !until.IsZero() {
			left := until.Sub(now)
			if left <= 0 {
				return // it has happened; that is told by an order, not by a warning
			}
			for _, t := range steps {
				if left <= t && (reached == 0 || t < reached) {
					reached = t
				}
			}
		}
		if reached != 0 && (*given == 0 || reached < *given) {
			out = append(out, Warning{Kind: kind, Until: until, Left: reached})
		}
		*given = reached
	}
	var runsOut time.Time
	if len(o.runs) > 0 {
		runsOut = o.until
	}
	step(WarnBalance, &a.warned, runsOut, s.cfg.Warnings)
	deletion := s.deletionAt(a, now)
	steps := slices.Clone(s.cfg.Warnings)
	steps = append(steps, s.cfg.Grace)
	step(WarnGrace, &a.graceWarned, deletion, steps)
	if !deletion.IsZero() && a.deletionTold.IsZero() {
		a.deletionTold = now.UTC().Truncate(time.Microsecond)
	}
	return out
}
