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

// affords reports whether an account has so much that a lease with this hold can
// begin without a look at its other leases, and returns what is set aside now.
// That it does not report so means nothing. The caller holds the account's lock.
func (s *Service) affords(ctx context.Context, tx *store.Tx, a *accountRow, hold money.Amount, now time.Time) (held money.Amount, ok bool, err error) {
	s.mu.Lock()
	o, known := s.outlooks[a.id]
	known = known && s.comfortable(o, now) && len(o.limits) == 0
	s.mu.Unlock()
	if !known || !a.exhaustedAt.IsZero() {
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
	if !ok || !s.comfortable(o, now) || l.cap != 0 {
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
	if !ok || !s.comfortable(o, s.cfg.Clock()) || !o.covered[l.id] || l.cap != 0 {
		delete(s.outlooks, l.accountID)
	}
}
