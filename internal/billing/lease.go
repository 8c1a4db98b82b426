package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Terms are what a lease is billed by. They never change.
type Terms struct {
	LeaseID     string
	AccountID   string // who pays
	ProviderID  string // who earns
	Quote       pricing.Quote
	Simulated   bool
	SpendingCap money.Amount // the instance is stopped when the lease has cost this much; 0: no cap
	OnLapse     Lapse        // of months in advance; empty: LapseStop
	// What it has, for reservations to be applied to; without GPUs they are not.
	GPUModel string
	Zone     string
	GPUs     int64
	// Kept is of a thing that is kept and never runs, such as a volume: its storage
	// counts from StartStorage on, not from a first run.
	Kept bool
}

// BeginLease records the terms of a lease and sets a hold aside, in the
// transaction that makes the lease: one hour or the minimum charge, all-in. Months
// in advance are paid at once, from then on. It is a Payment fault "insufficient_balance" if the account has less than that
// available. The same terms again are no change.
func (s *Service) BeginLease(ctx context.Context, tx *store.Tx, t Terms) error {
	hold, err := t.Quote.Hold()
	if err != nil {
		return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
	}
	if _, err := pricing.Due(t.Quote, pricing.Usage{}); err != nil {
		return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
	}
	if t.SpendingCap < 0 {
		return fault.New(fault.Invalid, "spending_cap_invalid", "a spending cap of %s: want more than 0, or none", t.SpendingCap.Display())
	}
	a, err := scanAccount(tx.QueryRow(ctx, selectAccount+tx.ForUpdate(), t.AccountID))
	if errors.Is(err, store.ErrNoRows) {
		// Only the first time, as it may take a second connection of the database.
		currency, cerr := s.cfg.CurrencyOf(ctx, t.AccountID)
		if cerr != nil {
			return fmt.Errorf("begin lease %s: %w", t.LeaseID, cerr)
		}
		a, err = s.lockAccount(ctx, tx, t.AccountID, currency)
	}
	if err != nil {
		return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
	}
	currency := a.currency
	if currency != t.Quote.Currency {
		return fault.New(fault.Invalid, "currency_mismatch", "the quote is in %s and the account in %s; ask for a quote in %s", t.Quote.Currency, currency, currency)
	}
	if t.Quote.Listed != nil && t.Quote.Plan != pricing.OnDemand {
		return fmt.Errorf("begin lease %s: the plan %s has no prices but the listed ones", t.LeaseID, t.Quote.Plan)
	}
	if err := s.notOverdue(ctx, tx, a); err != nil {
		return err
	}
	if known, err := s.lease(ctx, tx, t.LeaseID); err == nil {
		if known.accountID == t.AccountID && known.providerID == t.ProviderID && known.cap == t.SpendingCap {
			return nil
		}
		return fault.New(fault.Conflict, "lease_exists", "lease %s has been begun under other terms", t.LeaseID)
	} else if f, ok := fault.As(err); !ok || f.Kind != fault.NotFound {
		return err
	}
	now := s.cfg.Clock()
	held, rich, err := s.richFor(ctx, tx, a, t, hold, now)
	if err != nil {
		return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
	}
	if !rich {
		b, err := s.balance(ctx, tx, t.AccountID, currency, now)
		if err != nil {
			return err
		}
		if p := t.Quote.Prepaid; p != nil {
			price, err := p.TermPrice()
			if err != nil {
				return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
			}
			if t.SpendingCap > 0 && t.SpendingCap < price {
				return fault.New(fault.Invalid, "spending_cap_invalid", "a spending cap of %s is less than the %s that the months cost at once; raise it, or leave it out", t.SpendingCap.Display(), price.Display()).At("body.spending_cap")
			}
			if b.Available-price < hold {
				return fault.New(fault.Payment, "insufficient_balance",
					"this needs %s %s for %d months in advance and %s set aside for the rest, and %s is available; add money to the account",
					price.Display(), currency, p.TermMonths, hold.Display(), b.Available.Display())
			}
		}
		holds, err := s.holds(ctx, tx, t.AccountID)
		if err != nil {
			return err
		}
		// What grants stand for is not set aside, so the holds of others count again.
		if b.Available < hold && b.Available+b.grantedFor(t.GPUModel) < hold+max(0, holds-b.Held) {
			return fault.New(fault.Payment, "insufficient_balance",
				"this needs %s %s set aside (one hour, or the minimum charge, all-in) and %s %s is available; add money to the account",
				hold.Display(), currency, (b.Available + b.grantedFor(t.GPUModel)).Display(), currency)
		}
	}
	quote, err := json.Marshal(t.Quote)
	if err != nil {
		return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
	}
	rateID := ""
	if x := t.Quote.Exchange; x != nil {
		rateID = x.RateID
	}
	simulated, kept := 0, 0
	if t.Simulated || t.Quote.Simulated {
		simulated = 1
	}
	if t.Kept {
		kept = 1
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_leases (lease_id, account_id, provider_id, quote, simulated, spending_cap, hold, egress_bytes,
		posted_compute, posted_storage, posted_egress, confirmed_at, settled_at, begun_at, ended_at, gpu_model, zone, gpu_count, exchange_rate_id, kept) VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, ?, 0, ?, ?, ?, ?, ?)`,
		t.LeaseID, t.AccountID, t.ProviderID, string(quote), simulated, int64(t.SpendingCap), int64(hold), store.Micros(now), t.GPUModel, t.Zone, t.GPUs, rateID, kept); err != nil {
		return fmt.Errorf("begin lease %s: %w", t.LeaseID, err)
	}
	if err := s.begun(&leaseRow{id: t.LeaseID, accountID: t.AccountID, quote: t.Quote, cap: t.SpendingCap, kept: t.Kept}, now); err != nil {
		return err
	}
	if rich {
		// There is money and no debt, so what is held is what the other leases want.
		return s.rebalanceTo(ctx, tx, a, held+hold, now)
	}
	if err := s.rebalance(ctx, tx, a, now); err != nil || t.Quote.Prepaid == nil {
		return err
	}
	l, err := s.lease(ctx, tx, t.LeaseID)
	if err != nil {
		return err
	}
	if t.OnLapse == "" {
		t.OnLapse = LapseStop
	}
	if err := s.beginTerm(ctx, tx, a, l, t.Quote.Prepaid.Renews, t.OnLapse, now); err != nil {
		return err
	}
	return s.rebalance(ctx, tx, a, now)
}

// CheckFunds is a Payment fault "insufficient_balance" unless the account that
// pays for a lease has all holds of its leases covered; to be asked before a
// stopped lease is started again.
func (s *Service) CheckFunds(ctx context.Context, tx *store.Tx, leaseID string) error {
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if err := s.notOverdue(ctx, tx, a); err != nil {
		return err
	}
	if m := l.monthly; m != nil && !m.inForce() && m.again.IsZero() {
		// Who starts it again wants it on demand.
		m.again = s.cfg.Clock()
		if err := errors.Join(m.save(ctx, tx, l.id), s.holdOnDemand(ctx, tx, l)); err != nil {
			return err
		}
	}
	b, err := s.balance(ctx, tx, a.id, a.currency, s.cfg.Clock())
	if err != nil {
		return err
	}
	want, err := s.holds(ctx, tx, a.id)
	if err != nil {
		return err
	}
	// b.Held may have been drawn down; what is missing of it must be there too.
	if missing := want - b.Held; b.Available+b.grantedFor(l.gpuModel) < missing || b.Available+b.grantedFor(l.gpuModel) < 0 {
		return fault.New(fault.Payment, "insufficient_balance",
			"starting lease %s needs %s %s set aside and %s %s is missing; add money to the account",
			l.id, l.hold.Display(), a.currency, (missing - b.Available - b.grantedFor(l.gpuModel)).Display(), a.currency)
	}
	return nil
}

// LimitOf returns what put a limit on the last run of a lease, ReasonBalance or
// ReasonSpendingCap, or nothing if it was paid for to its end.
func (s *Service) LimitOf(ctx context.Context, tx *store.Tx, leaseID string) (Reason, error) {
	_, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return "", err
	}
	var reason Reason
	for _, i := range l.intervals {
		if i.meter == pricing.Compute {
			reason = i.limitReason // they are in order
			if reason == ReasonRequested {
				reason = ""
			}
		}
	}
	return reason, nil
}

// StartCompute says that a lease's instance was confirmed running at a moment. If
// it is running already, or the same moment was reported before, nothing changes.
// A moment before the end of an earlier run counts as that end, one in the future
// as now.
func (s *Service) StartCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	return s.start(ctx, tx, leaseID, pricing.Compute, at, false)
}

// ResumeCompute is StartCompute for a run that goes on after a break that was not
// the renter's doing, such as a host that was silent: the run has no second
// minimum charge, and is rounded as one.
func (s *Service) ResumeCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	return s.start(ctx, tx, leaseID, pricing.Compute, at, true)
}

// StopCompute says that a lease's instance was confirmed not to run since a
// moment, or was last seen at it, and posts what is due. The zero time stands for
// the last sign of life that there was. If it is not running, or
// the same moment was reported before, nothing changes. A moment before the run's
// start counts as its start, one in the future as now.
func (s *Service) StopCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	return s.stop(ctx, tx, leaseID, pricing.Compute, at)
}

// LimitCompute says that a lease was asked to stop: what runs of it now is charged
// until a moment at most, whatever is reported of it later. An earlier limit stands.
func (s *Service) LimitCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	if _, err := s.lockPayer(ctx, tx, leaseID); err != nil {
		return err
	}
	limit := store.Micros(at)
	if _, err := tx.Exec(ctx, `UPDATE billing_intervals SET limit_at = ?, limit_reason = ?
		WHERE lease_id = ? AND meter = ? AND end_at = 0 AND (limit_at = 0 OR limit_at > ?)`,
		limit, string(ReasonRequested), leaseID, string(pricing.Compute), limit); err != nil {
		return fmt.Errorf("limit lease %s: %w", leaseID, err)
	}
	return nil
}

// StartStorage says that a lease's disk is kept from a moment on. The rules are
// those of StartCompute; what is kept before the first run is not charged.
func (s *Service) StartStorage(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	return s.start(ctx, tx, leaseID, pricing.Storage, at, false)
}

// StopStorage says that a lease's disk is gone since a moment. The rules are
// those of StopCompute.
func (s *Service) StopStorage(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	return s.stop(ctx, tx, leaseID, pricing.Storage, at)
}

func (s *Service) start(ctx context.Context, tx *store.Tx, leaseID string, m pricing.Meter, at time.Time, resumes bool) error {
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	at = at.UTC().Truncate(time.Microsecond)
	start, number := earliest(at, s.cfg.Clock().UTC().Truncate(time.Microsecond)), int64(1)
	for _, i := range l.intervals {
		if i.meter != m {
			continue
		}
		if i.open() || i.askedStart.Equal(at) {
			return nil
		}
		number = max(number, i.number+1)
		start = latest(start, i.end)
	}
	if !l.ended.IsZero() {
		return fault.New(fault.Conflict, "lease_ended", "lease %s has ended; nothing of it can start", leaseID)
	}
	flag := int64(0)
	if resumes {
		flag = 1
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_intervals (lease_id, meter, number, asked_start, start_at, asked_end, end_at, limit_at, limit_reason, resumes) VALUES (?, ?, ?, ?, ?, 0, 0, 0, '', ?)`,
		leaseID, string(m), number, store.Micros(at), store.Micros(start), flag); err != nil {
		return fmt.Errorf("start %s of lease %s: %w", m, leaseID, err)
	}
	s.started(l)
	if m == pricing.Compute && a.reserves && start.Before(a.applied) {
		a.dirty = earliest(a.dirty, start) // it is told of late
		if err := s.recharge(ctx, tx, a); err != nil {
			return err
		}
	}
	if m == pricing.Compute {
		if err := s.firstUse(ctx, tx, a.id, l.gpuModel, start); err != nil {
			return err
		}
	}
	if m == pricing.Compute && l.overForGood() {
		l.intervals = append(l.intervals, interval{meter: m, number: number, start: start})
		return s.limit(ctx, tx, l, start, ReasonTermOver)
	}
	return nil
}

func (s *Service) stop(ctx context.Context, tx *store.Tx, leaseID string, m pricing.Meter, at time.Time) error {
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if at.IsZero() {
		at = latest(l.confirmed, s.lastAlive(l.id))
		if i := l.openInterval(m); i != nil {
			at = latest(at, i.start)
		}
	}
	at = at.UTC().Truncate(time.Microsecond)
	run := l.openInterval(m)
	if run == nil {
		return nil
	}
	for _, i := range l.intervals {
		// A run that began at the very moment is what stops, however short it was.
		if i.meter == m && i.askedEnd.Equal(at) && !run.askedStart.Equal(at) {
			return nil
		}
	}
	now := s.cfg.Clock()
	// The money may have run out before the stop; that moment still counts.
	l, sound, err := s.enforced(ctx, tx, a, l, now)
	if err != nil {
		return err
	}
	if err := s.close(ctx, tx, l, m, at, now); err != nil {
		return err
	}
	a.dirty = earliest(a.dirty, at)
	if err := s.charge(ctx, tx, a, l, now); err != nil {
		return err
	}
	s.stopped(l, now)
	return s.rebalanceLess(ctx, tx, a, sound, 0, now)
}

// close ends the open interval of a meter, if there is one.
func (s *Service) close(ctx context.Context, tx *store.Tx, l *leaseRow, m pricing.Meter, at, now time.Time) error {
	i := l.openInterval(m)
	if i == nil {
		return nil
	}
	i.askedEnd = at
	i.end = latest(i.start, earliest(at, now.UTC().Truncate(time.Microsecond)))
	if _, err := tx.Exec(ctx, `UPDATE billing_intervals SET asked_end = ?, end_at = ? WHERE lease_id = ? AND meter = ? AND number = ?`,
		store.Micros(i.askedEnd), store.Micros(i.end), l.id, string(m), i.number); err != nil {
		return fmt.Errorf("stop %s of lease %s: %w", m, l.id, err)
	}
	return nil
}

// EndLease closes what is open of a lease at a moment, posts the rest of what is
// due and gives its hold back. A lease that never ran has cost nothing. A lease
// that has ended stays as it is.
func (s *Service) EndLease(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error {
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if !l.ended.IsZero() {
		return nil
	}
	now := s.cfg.Clock()
	l, sound, err := s.enforced(ctx, tx, a, l, now)
	if err != nil {
		return err
	}
	at = at.UTC().Truncate(time.Microsecond)
	if err := s.endTerm(ctx, tx, a, l, at, TermGivenUp, now); err != nil {
		return err
	}
	for _, m := range []pricing.Meter{pricing.Compute, pricing.Storage} {
		if err := s.close(ctx, tx, l, m, at, now); err != nil {
			return err
		}
	}
	a.dirty = earliest(a.dirty, at)
	if err := s.charge(ctx, tx, a, l, now); err != nil {
		return err
	}
	ended := latest(l.begun, earliest(at, now))
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET ended_at = ?, hold = 0 WHERE lease_id = ?`, store.Micros(ended), l.id); err != nil {
		return fmt.Errorf("end lease %s: %w", l.id, err)
	}
	s.stopped(l, now)
	return s.rebalanceLess(ctx, tx, a, sound, l.hold, now)
}
