package billing

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// horizon is how far ahead an account's money is followed. Money that lasts
// longer counts as not running out.
const horizon = 400 * 24 * time.Hour

// outlookLife is how long an outlook is used without a look at the database:
// other replicas' changes show after it, and this one's at once. One by which
// nothing ends for more than farAway is used longer: most accounts are like that
// most of the time, and looking at all their leases is most of what metering costs.
const (
	outlookLife    = 15 * time.Second
	outlookLifeFar = time.Minute
	farAway        = 24 * time.Hour
)

// outlook is what an account's open leases and money come to.
type outlook struct {
	at    time.Time
	funds money.Amount // wallet + hold − debt + credit − what is due and not posted, at at
	burn  money.Amount // per hour, of what runs and is kept
	// until is the last moment that the money covers, to the second, if all goes
	// on as it is; zero: beyond the horizon.
	until time.Time
	caps  map[string]time.Time // lease → likewise for its spending cap
	// limits holds the leases whose charged time has an end already.
	limits map[string]time.Time
	runs   map[string]bool // leases with an open run
	// edge is when somebody has to look at months in advance next; zero: never.
	edge time.Time
	// terms holds the leases that stop when their months end.
	terms map[string]time.Time

	settled money.Amount // wallet + hold − debt + credit
	credit  money.Amount // the limit that it counts on
	// spare is what is left at least when reach has passed since at, if all leases
	// in covered run until then; see spare.go. Both may change under Service.mu.
	spare   money.Amount
	covered map[string]bool
}

// life is how long the outlook may be used.
func (o *outlook) life() time.Duration {
	near := func(t time.Time) bool { return !t.IsZero() && t.Sub(o.at) <= farAway }
	if near(o.until) || o.funds < 0 || len(o.limits) > 0 {
		return outlookLife
	}
	for _, until := range o.caps {
		if near(until) {
			return outlookLife
		}
	}
	return outlookLifeFar
}

// lookAhead computes an outlook of an account whose wallet, hold and debt are
// settled in sum, with its credit. Money is followed from the moment good returns for the account,
// and a spending cap from the one for its lease: what was covered up to there is
// not judged again. A lease named starting is taken to start running now. If there
// is something to spare after reach, grants left out, until stays zero; with a
// reach of 0 it is computed in any case.
func lookAhead(accountID string, leases []*leaseRow, grants []*Grant, settled money.Amount, now time.Time, good func(id string) time.Time, starting string, reach time.Duration) (outlook, error) {
	o := outlook{at: now, settled: settled, caps: map[string]time.Time{}, limits: map[string]time.Time{}, runs: map[string]bool{}, terms: map[string]time.Time{}}
	startOf := func(l *leaseRow) time.Time {
		if l.id == starting {
			return now
		}
		return time.Time{}
	}
	undo, err := foresee(leases, now, now.Add(horizon), func(*leaseRow) time.Time { return now.Add(horizon) })
	if err != nil {
		return o, err
	}
	defer undo()
	from := now
	var posted money.Amount
	for _, l := range leases {
		if posted, err = posted.Add(l.posted.total()); err != nil {
			return o, err
		}
		if c := l.openInterval(pricing.Compute); c != nil {
			o.runs[l.id] = true
			if !c.limit.IsZero() && c.limitReason != ReasonRequested { // that one is being stopped
				o.limits[l.id] = c.limit
			} else if begin := latest(c.start, l.settled); begin.Before(from) {
				from = begin
			}
		}
		burn, err := burnOf(l, !startOf(l).IsZero(), now)
		if err != nil {
			return o, err
		}
		if o.burn, err = o.burn.Add(burn); err != nil {
			return o, err
		}
	}
	from = latest(from, good(accountID))
	budget, err := settled.Add(posted)
	if err != nil {
		return o, err
	}
	due := func(at time.Time) (money.Amount, error) {
		var total money.Amount
		for _, l := range leases {
			d, err := dueBy(l, at, startOf(l))
			if err != nil {
				return 0, err
			}
			if total, err = total.Add(d); err != nil {
				return 0, err
			}
		}
		covered, err := coverage(grants, leases, at, now, func(l *leaseRow, at time.Time) (map[pricing.Meter]money.Amount, error) {
			return l.rated(projected(l, at, startOf(l)))
		})
		return total - inAll(covered), err
	}
	dueNow, err := due(now)
	if err != nil {
		return o, err
	}
	o.funds = budget - dueNow
	reserves := slices.ContainsFunc(leases, func(l *leaseRow) bool { return l.reserved != nil })
	if reserves {
		// Rates do not say what reservations pay for.
		hence, err := due(now.Add(time.Hour))
		if err != nil {
			return o, err
		}
		o.burn = max(0, hence-dueNow)
	}
	// What months in advance will cost is in no rate.
	if reach > 0 && !slices.ContainsFunc(leases, func(l *leaseRow) bool { return l.quote.Prepaid != nil }) {
		if o.spare, err = spared(leases, budget, now, now.Add(reach)); err != nil {
			return o, err
		}
		o.covered = make(map[string]bool, len(leases))
		for _, l := range leases {
			o.covered[l.id] = true
		}
	}
	if (o.burn > 0 || o.funds < 0 || reserves) && (o.covered == nil || o.spare < 0) {
		if o.until, err = lastCovered(due, budget, from, now); err != nil {
			return o, err
		}
	}
	for _, l := range leases {
		if l.cap == 0 || (!o.runs[l.id] && l.id != starting) {
			continue
		}
		begin := now
		if c := l.openInterval(pricing.Compute); c != nil {
			begin = latest(c.start, l.settled, good(l.id))
		}
		until, err := lastCovered(func(at time.Time) (money.Amount, error) { return dueBy(l, at, startOf(l)) }, l.cap, begin, now)
		if err != nil {
			return o, err
		}
		if !until.IsZero() {
			o.caps[l.id] = until
		}
	}
	return o, nil
}

// dueBy is all that a lease will have cost by a moment.
func dueBy(l *leaseRow, at, starting time.Time) (money.Amount, error) {
	d, err := l.rated(projected(l, at, starting))
	if err != nil {
		return 0, fmt.Errorf("lease %s: %w", l.id, err)
	}
	return sum(d)
}

// burnOf is what an hour of a lease costs as it is.
func burnOf(l *leaseRow, starting bool, now time.Time) (burn money.Amount, err error) {
	if m := l.monthly; m != nil && m.inForce() {
		// Its compute is paid for.
	} else if c := l.openInterval(pricing.Compute); starting || (c != nil && (c.limit.IsZero() || now.Before(c.limit))) {
		if burn, err = l.rateAt(now).Times(3600, 3600); err != nil {
			return 0, err
		}
	}
	if l.openInterval(pricing.Storage) == nil {
		return burn, nil
	}
	hour, err := pricing.StoragePerHour(l.quote, now)
	if err != nil {
		return 0, err
	}
	return burn.Add(hour)
}

// lastCovered returns the last moment, in whole seconds after from, at which due
// is within budget; from itself if it never is; zero if it is at the horizon.
func lastCovered(due func(time.Time) (money.Amount, error), budget money.Amount, from, now time.Time) (time.Time, error) {
	end := now.Add(horizon)
	if d, err := due(end); err != nil {
		return time.Time{}, err
	} else if d <= budget {
		return time.Time{}, nil
	}
	var failed error
	n := sort.Search(int(end.Sub(from)/time.Second)+1, func(s int) bool {
		d, err := due(from.Add(time.Duration(s) * time.Second))
		if err != nil {
			failed = err
		}
		return d > budget
	})
	return from.Add(time.Duration(max(0, n-1)) * time.Second), failed
}

// look computes an account's outlook in tx and remembers it.
func (s *Service) look(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, now time.Time) (outlook, error) {
	leases, err := s.openLeases(ctx, tx, accountID)
	if err != nil {
		return outlook{}, err
	}
	return s.lookAt(ctx, tx, accountID, currency, leases, now)
}

// lookAt is look for leases that have been read.
func (s *Service) lookAt(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, leases []*leaseRow, now time.Time) (outlook, error) {
	total, limit, err := s.spendable(ctx, tx, accountID, currency)
	if err != nil {
		return outlook{}, err
	}
	grants, err := s.usableGrants(ctx, tx, accountID)
	if err != nil {
		return outlook{}, err
	}
	o, err := lookAhead(accountID, leases, grants, total, now, s.goodAt, "", s.reach())
	if err != nil {
		return outlook{}, fmt.Errorf("outlook of %s: %w", accountID, err)
	}
	o.credit = limit
	for _, l := range leases {
		if m := l.monthly; m != nil && m.inForce() {
			o.edge = earliest(o.edge, m.termEdge(s.cfg.TermWarnings))
			if !m.renews && m.onLapse == LapseStop {
				o.terms[l.id] = m.until
			}
		}
	}
	s.mu.Lock()
	s.outlooks[accountID] = o
	if o.funds >= 0 {
		s.good[accountID] = now
	}
	for _, l := range leases {
		if until, ok := o.caps[l.id]; !ok || until.After(now) {
			s.good[l.id] = now
		}
	}
	s.mu.Unlock()
	return o, nil
}

// goodAt is the last moment at which an account was seen to have money, or a lease
// to be under its cap. A charge that comes in at once, such as much egress, must
// not reach back behind it.
func (s *Service) goodAt(id string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.good[id]
}

// Runway is how long an account's money lasts.
type Runway struct {
	BurnPerHour money.Amount
	Funds       money.Amount  // all that leases can use, holds included, less what is due
	Until       time.Time     // zero: more than a year away
	Left        time.Duration // until Until, at least 0; 0 too when Until is zero
}

// Runway returns how long an account's money lasts if all goes on as it is.
func (s *Service) Runway(ctx context.Context, accountID string, now time.Time) (Runway, error) {
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return Runway{}, fmt.Errorf("runway of %s: %w", accountID, err)
	}
	var o outlook
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		leases, err := s.openLeases(ctx, tx, accountID)
		if err != nil {
			return err
		}
		total, _, err := s.spendable(ctx, tx, accountID, currency)
		if err != nil {
			return err
		}
		grants, err := s.usableGrants(ctx, tx, accountID)
		if err != nil {
			return err
		}
		o, err = lookAhead(accountID, leases, grants, total, now, s.goodAt, "", 0)
		return err
	})
	if err != nil {
		return Runway{}, fmt.Errorf("runway of %s: %w", accountID, err)
	}
	r := Runway{BurnPerHour: o.burn, Funds: o.funds, Until: o.until}
	if !o.until.IsZero() {
		r.Left = max(0, o.until.Sub(now))
	}
	return r, nil
}

// PaidFor returns how long a lease's agent may let the instance run without
// hearing from the control plane: until the account's money, the spending cap or
// the configured maximum ends, whichever is first. It is never less than a
// second, since agents take 0 for "no limit". A lease that does not run yet is
// taken to start now.
func (s *Service) PaidFor(ctx context.Context, leaseID string, now time.Time) (time.Duration, error) {
	s.mu.Lock()
	accountID := s.payers[leaseID]
	o, ok := s.outlooks[accountID]
	plenty := s.plenty(o, leaseID, now)
	s.mu.Unlock()
	if plenty {
		return s.cfg.MaxPaidFor, nil
	}
	// Watch renews outlooks at its next turn; until then they are good enough here.
	if !ok || !o.runs[leaseID] || now.Sub(o.at) > o.life()+s.cfg.WatchEvery || now.Before(o.at) {
		err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			l, err := s.lease(ctx, tx, leaseID)
			if err != nil {
				return err
			}
			leases, err := s.openLeases(ctx, tx, l.accountID)
			if err != nil {
				return err
			}
			if o, err = s.lookAt(ctx, tx, l.accountID, l.quote.Currency, leases, now); err != nil {
				return err
			}
			s.mu.Lock()
			s.payers[leaseID] = l.accountID
			plenty = s.plenty(o, leaseID, now)
			s.mu.Unlock()
			if plenty || o.runs[leaseID] {
				return nil
			}
			total, _, err := s.spendable(ctx, tx, l.accountID, l.quote.Currency)
			if err != nil {
				return err
			}
			grants, err := s.usableGrants(ctx, tx, l.accountID)
			if err != nil {
				return err
			}
			o, err = lookAhead(l.accountID, leases, grants, total, now, s.goodAt, leaseID, 0)
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("paid-for of lease %s: %w", leaseID, err)
		}
	}
	end := earliest(o.until, o.caps[leaseID], o.limits[leaseID], o.terms[leaseID], now.Add(s.cfg.MaxPaidFor))
	return max(time.Second, end.Sub(now)), nil
}
