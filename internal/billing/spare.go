package billing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Most accounts have money for far longer than anybody asks. That such an account
// can afford one more lease, and for how long one is paid for, is answered from
// its outlook and the one lease alone: what renting costs must not grow with the
// leases that an account has. An outlook says what is left at least at a moment,
// its reach, beyond which nobody asks, if every open lease runs until then.

// reach is how far ahead answers go that are given from outlooks of up to now.
func (s *Service) reach() time.Duration {
	return max(s.cfg.MaxPaidFor, slices.Max(append([]time.Duration{0}, s.cfg.Warnings...))) + outlookLifeFar + s.cfg.WatchEvery
}

// comfortable reports whether an outlook that can still be used has something to
// spare. The caller holds mu.
func (s *Service) comfortable(o outlook, now time.Time) bool {
	return o.covered != nil && o.spare >= 0 && !now.Before(o.at) && now.Sub(o.at) <= outlookLifeFar+s.cfg.WatchEvery
}

// sound reports whether nothing of an account is at a limit, or can have come to
// one. The caller holds mu.
func (s *Service) sound(a *accountRow, o outlook, now time.Time) bool {
	return s.comfortable(o, now) && o.credit == a.credit && len(o.limits) == 0 && len(o.caps) == 0 && a.stoppedSince().IsZero()
}

// plenty reports whether a lease is paid for as long as any is. The caller holds mu.
func (s *Service) plenty(o outlook, leaseID string, now time.Time) bool {
	_, capped := o.caps[leaseID]
	_, limited := o.limits[leaseID]
	return s.comfortable(o, now) && o.covered[leaseID] && !capped && !limited
}

// spared returns what is left of budget by reach, at least, if all leases run
// from now until then.
func spared(leases []*leaseRow, budget money.Amount, now, reach time.Time) (money.Amount, error) {
	for _, l := range leases {
		cost, err := dueBy(l, reach, now)
		if err != nil {
			return 0, err
		}
		if budget, err = budget.Add(-cost); err != nil {
			return 0, err
		}
	}
	return budget, nil
}

// richFor reports whether an account has so much that a lease with this hold can
// begin without a look at its other leases, and returns what is set aside now.
// That it does not report so means nothing. The caller holds the account's lock.
func (s *Service) richFor(ctx context.Context, tx *store.Tx, a *accountRow, t Terms, hold money.Amount, now time.Time) (held money.Amount, ok bool, err error) {
	s.mu.Lock()
	o := s.outlooks[a.id]
	sound := s.sound(a, o, now)
	s.mu.Unlock()
	if !sound || t.Quote.Prepaid != nil {
		return 0, false, nil
	}
	wallet, held, debt, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil || debt != 0 {
		return 0, false, err
	}
	// Used and not posted are at most what all leases in the outlook come to by its
	// reach. Those that other replicas began since have used less than their holds,
	// so what is held counts a second time.
	most := o.settled - o.spare
	return held, wallet-held-most >= hold, nil
}

// begun counts a lease that begins now into its account's outlook, or has the
// outlook computed anew if that has not enough to spare.
func (s *Service) begun(l *leaseRow, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payers[l.id] = l.accountID
	o, ok := s.outlooks[l.accountID]
	if !ok || !s.comfortable(o, now) || l.cap != 0 || l.quote.Prepaid != nil {
		delete(s.outlooks, l.accountID)
		return nil
	}
	l.intervals = []interval{{meter: pricing.Storage, number: 1, start: now}}
	spare, err := spared([]*leaseRow{l}, o.spare, now, o.at.Add(s.reach()))
	if err != nil {
		return fmt.Errorf("begin lease %s: %w", l.id, err)
	}
	o.spare = spare
	o.covered[l.id] = true
	s.outlooks[l.accountID] = o
	if spare < 0 {
		delete(s.outlooks, l.accountID)
	}
	return nil
}

// started has an account's outlook computed anew unless it counts on the lease's
// running already.
func (s *Service) started(l *leaseRow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.outlooks[l.accountID]
	if !ok || !s.comfortable(o, s.cfg.Clock()) || !o.covered[l.id] || l.cap != 0 || l.quote.Prepaid != nil {
		delete(s.outlooks, l.accountID)
	}
}

// enforced does what enforce does for the account of a lease, and returns the
// lease as it is after that, and whether nothing of the account was at a limit.
func (s *Service) enforced(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, now time.Time) (_ *leaseRow, sound bool, err error) {
	s.mu.Lock()
	o := s.outlooks[a.id]
	counted := o.covered[l.id] || l.openInterval(pricing.Compute) == nil // one that stopped was counted
	sound = s.sound(a, o, now) && counted && l.cap == 0
	s.mu.Unlock()
	if sound {
		return l, true, nil
	}
	open, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return nil, false, err
	}
	if i := slices.IndexFunc(open, func(o *leaseRow) bool { return o.id == l.id }); i >= 0 {
		l = open[i]
	}
	return l, false, s.enforce(ctx, tx, a, open, now)
}

// stopped takes a lease that stopped or ended out of its account's outlook, which
// stays right without it: what is left can only be more. Another start of it may
// cost another minimum and has to be counted anew.
func (s *Service) stopped(l *leaseRow, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.outlooks[l.accountID]
	if !ok || !s.comfortable(o, now) || l.cap != 0 || l.quote.Prepaid != nil {
		delete(s.outlooks, l.accountID)
		return
	}
	delete(o.covered, l.id)
}

// rebalanceLess is rebalance after the account's holds became less by freed, which
// may be 0. The caller's transaction has done nothing to the account but charges.
func (s *Service) rebalanceLess(ctx context.Context, tx *store.Tx, a *accountRow, sound bool, freed money.Amount, at time.Time) error {
	wallet, hold, debt, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return fmt.Errorf("rebalance %s: %w", a.id, err)
	}
	if sound && wallet > 0 && debt == 0 {
		// Holds are touched last and filled first, so this one is whole.
		return s.rebalanceTo(ctx, tx, a, hold-freed, at)
	}
	return s.rebalance(ctx, tx, a, at)
}
