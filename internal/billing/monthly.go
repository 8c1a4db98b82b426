package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Lapse is what happens to a running lease when its months are over and the next
// ones are not paid for. Its renter chooses.
type Lapse string

// The choices.
const (
	LapseStop     Lapse = "stop"      // the instance stops, the disk stays
	LapseOnDemand Lapse = "on_demand" // it runs on at the quote's price an hour
)

// Why months in advance are over.
const (
	TermLapsed   = "lapsed"    // the term ended and no further one was paid for
	TermGivenUp  = "given_up"  // the renter ended the lease
	TermHostLost = "host_lost" // the host or its disk was lost
	TermUnused   = "never_ran"
)

// monthlyRow is what was agreed and paid for a lease in months in advance. All
// paid time is one stretch: from the anchor to end.
type monthlyRow struct {
	terms   pricing.Prepaid
	renews  bool
	onLapse Lapse
	from    time.Time // of the term
	until   time.Time
	since   time.Time // begin of the part of the term that has the price in force
	paid    money.Amount
	warned  time.Duration

	// In the provider's currency, if that is another than the account's.
	listedPerMonth money.Amount
	listedPaid     money.Amount

	ended    time.Time // zero: in force
	code     string
	again    time.Time
	payments []Prepayment
}

// PrepaymentKind is what a prepayment is for.
type PrepaymentKind string

// The kinds of prepayments.
const (
	PaidTerm    PrepaymentKind = "term"    // the first
	PaidRenewal PrepaymentKind = "renewal" // a further one
	PaidChange  PrepaymentKind = "change"  // of price: the rest at the new one less the rest at the old one
	PaidBack    PrepaymentKind = "refund"
)

// Prepayment is money that was paid in advance, or given back of it.
type Prepayment struct {
	Kind        PrepaymentKind
	Amount      money.Amount // negative: given back
	PerMonth    money.Amount // of the price that it is at, without discount
	BasisPoints int64        // the discount
	From, Until time.Time    // what it is for
	// Listed is Amount in the provider's currency, by its own price, where that is
	// another than the account's.
	Listed money.Amount
}

// covered is the time whose compute is paid for in advance.
func (m *monthlyRow) covered() pricing.Interval {
	return pricing.Interval{Start: m.terms.Anchor, End: earliest(m.ended, m.until)}
}

func (m *monthlyRow) inForce() bool { return m.ended.IsZero() }

// renewing returns the terms for questions about any term, not the first alone.
func (m *monthlyRow) renewing() pricing.Prepaid {
	p := m.terms
	p.Renews = true
	return p
}

// inListed is m in the provider's currency: the same rules make of its prices what it
// is paid and gives back.
func (m *monthlyRow) inListed() *monthlyRow {
	o := *m
	o.terms.PerMonth, o.paid = m.listedPerMonth, m.listedPaid
	return &o
}

// next returns the term after the one that is paid for.
func (m *monthlyRow) next() (from, until time.Time, price money.Amount, err error) {
	p := m.renewing()
	if price, err = p.TermPrice(); err != nil {
		return from, until, 0, err
	}
	t, err := pricing.PeriodAt(p.Anchor, p.TimeZone, p.TermMonths, m.until)
	return t.Start, t.End, price, err
}

// back is what the end of the months at a moment gives back: to who gives them up
// what was paid less what was used at the price without discount; to who lost the
// host, what was paid for the rest.
func (m *monthlyRow) back(at time.Time, code string) (money.Amount, error) {
	at = latest(at, m.since)
	if !at.Before(m.until) {
		return 0, nil
	}
	p := m.renewing()
	if code == TermHostLost {
		c, err := p.Change(0, 0, at)
		return c.Credit, err
	}
	now, err := p.End(at)
	if err != nil {
		return 0, err
	}
	then, err := p.End(m.since)
	if err != nil {
		return 0, err
	}
	return max(0, m.paid-(now.Used-then.Used)), nil
}

// rated is all that a lease has cost, by meter: its use, and what was paid in
// advance.
func (l *leaseRow) rated(u pricing.Usage) (map[pricing.Meter]money.Amount, error) {
	due, err := pricing.Due(l.quote, u)
	paid := l.prepayments()
	if err != nil || paid == nil {
		return due, err
	}
	for _, p := range *paid {
		if due[pricing.Compute], err = due[pricing.Compute].Add(p.Amount); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// loadMonthly adds to leases what was agreed and paid in advance.
func (s *Service) loadMonthly(ctx context.Context, tx *store.Tx, leases []*leaseRow) error {
	for _, l := range leases {
		if l.quote.Plan != pricing.Monthly {
			continue
		}
		var m monthlyRow
		var terms []byte
		var renews, from, until, since, warned, ended, again int64
		err := tx.QueryRow(ctx, `SELECT terms, renews, on_lapse, term_from, term_until, since, paid, warned, ended_at, end_code, again_at, listed_per_month, listed_paid FROM billing_monthly WHERE lease_id = ?`, l.id).
			Scan(&terms, &renews, &m.onLapse, &from, &until, &since, &m.paid, &warned, &ended, &m.code, &again, &m.listedPerMonth, &m.listedPaid)
		if errors.Is(err, store.ErrNoRows) {
			continue // it is just being begun
		}
		if err == nil {
			err = json.Unmarshal(terms, &m.terms)
		}
		if err != nil {
			return fmt.Errorf("load months of lease %s: %w", l.id, err)
		}
		m.renews, m.warned = renews == 1, time.Duration(warned)*time.Second
		m.from, m.until, m.since = store.Time(from), store.Time(until), store.Time(since)
		m.ended, m.again = store.Time(ended), store.Time(again)
		if m.payments, err = loadPrepayments(ctx, tx, l.id); err != nil {
			return fmt.Errorf("load months of lease %s: %w", l.id, err)
		}
		l.monthly = &m
	}
	return nil
}

// save writes all of m but its payments, which are written once.
func (m *monthlyRow) save(ctx context.Context, tx *store.Tx, leaseID string) error {
	terms, err := json.Marshal(m.terms)
	if err != nil {
		return err
	}
	renews := 0
	if m.renews {
		renews = 1
	}
	_, err = tx.Exec(ctx, `INSERT INTO billing_monthly (lease_id, terms, renews, on_lapse, term_from, term_until, since, paid, warned, ended_at, end_code, again_at, listed_per_month, listed_paid)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (lease_id) DO UPDATE SET terms = excluded.terms, renews = excluded.renews, on_lapse = excluded.on_lapse,
		term_from = excluded.term_from, term_until = excluded.term_until, since = excluded.since, paid = excluded.paid, warned = excluded.warned,
		ended_at = excluded.ended_at, end_code = excluded.end_code, again_at = excluded.again_at, listed_per_month = excluded.listed_per_month, listed_paid = excluded.listed_paid`,
		leaseID, string(terms), renews, string(m.onLapse), store.Micros(m.from), store.Micros(m.until), store.Micros(m.since), int64(m.paid),
		int64(m.warned/time.Second), store.Micros(m.ended), m.code, store.Micros(m.again), int64(m.listedPerMonth), int64(m.listedPaid))
	if err != nil {
		return fmt.Errorf("save months of lease %s: %w", leaseID, err)
	}
	return nil
}

// prepay posts what is paid in advance for a lease, or given back of it, as a
// charge of its own, so that it is seen apart from use.
func (s *Service) prepay(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, p Prepayment, at time.Time) error {
	if _, err := tx.Exec(ctx, `INSERT INTO billing_prepayments (lease_id, number, kind, amount, per_month, basis_points, from_at, until_at, listed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		l.id, len(*l.prepayments())+1, string(p.Kind), int64(p.Amount), int64(p.PerMonth), p.BasisPoints, store.Micros(p.From), store.Micros(p.Until), int64(p.Listed)); err != nil {
		return fmt.Errorf("prepay lease %s: %w", l.id, err)
	}
	paid := l.prepayments()
	*paid = append(*paid, p)
	if p.Amount == 0 && p.Listed == 0 {
		return nil
	}
	apart, err := s.prepaidApart(ctx, tx, l, p)
	if err != nil {
		return fmt.Errorf("prepay lease %s: %w", l.id, err)
	}
	_, provider, commission, err := s.insertCharge(ctx, tx, a, l, pricing.Compute, l.posted[pricing.Compute]+p.Amount, 0, p.From, p.Until, apart)
	if err != nil {
		return fmt.Errorf("prepay lease %s: %w", l.id, err)
	}
	codes := chargeCodes{CodePrepayment, CodeUnusedPaid}
	batch, err := s.chargeTransfers(ctx, tx, a, l, provider, commission, at, codes, 0)
	if err != nil {
		return fmt.Errorf("prepay lease %s: %w", l.id, err)
	}
	batch = append(batch, s.soldTransfers(a, l, apart[pricing.Compute].earned, at, codes)...)
	if err := s.cfg.Ledger.Post(ctx, tx, batch...); err != nil {
		return fmt.Errorf("prepay lease %s: %w", l.id, err)
	}
	return l.savePosted(ctx, tx)
}

// beginTerm pays for the first term of a lease that has just been begun.
func (s *Service) beginTerm(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, renews bool, onLapse Lapse, now time.Time) error {
	p := *l.quote.Prepaid
	// Months are counted from the acceptance: what is paid for begins with it.
	p.Anchor = now.UTC().Truncate(time.Microsecond)
	p.Renews = renews
	payments, err := p.Payments(p.Anchor)
	if err != nil {
		return fmt.Errorf("begin lease %s: %w", l.id, err)
	}
	first := payments[0]
	l.monthly = &monthlyRow{terms: p, renews: renews, onLapse: onLapse, from: first.Period.Start, until: first.Period.End, since: first.Period.Start, paid: first.Amount}
	if x := l.quote.Exchange; x != nil {
		l.monthly.listedPerMonth = x.PerMonth
		if l.monthly.listedPaid, err = l.monthly.inListed().terms.TermPrice(); err != nil {
			return fmt.Errorf("begin lease %s: %w", l.id, err)
		}
	}
	if err := l.monthly.save(ctx, tx, l.id); err != nil {
		return err
	}
	return s.prepay(ctx, tx, a, l, Prepayment{PaidTerm, first.Amount, p.PerMonth, p.BasisPoints, first.Period.Start, first.Period.End, l.monthly.listedPaid}, now)
}

// renew pays for the next term of every lease whose term is over by now, or ends
// its months there if it does not renew or the money is not there. It comes before
// whatever is charged, under the account's lock, so that a term is paid for once,
// whichever replica is first, and no use behind its end is ever rated before it is
// known how it is paid.
func (s *Service) renew(ctx context.Context, tx *store.Tx, a *accountRow, leases []*leaseRow, now time.Time) error {
	for _, l := range leases {
		m := l.monthly
		for m != nil && m.inForce() && !m.until.After(now) {
			from, until, price, err := m.next()
			if err != nil {
				return fmt.Errorf("renew lease %s: %w", l.id, err)
			}
			old := m.until
			m.until = until // what is used since is covered, should it be paid for
			can, err := s.affords(ctx, tx, a, leases, price, now)
			if err != nil {
				return err
			}
			if m.renews && can {
				m.from, m.since, m.paid, m.warned = from, from, price, 0
				if m.listedPaid, err = m.inListed().terms.TermPrice(); err != nil {
					return fmt.Errorf("renew lease %s: %w", l.id, err)
				}
				if err := m.save(ctx, tx, l.id); err != nil {
					return err
				}
				if err := s.prepay(ctx, tx, a, l, Prepayment{PaidRenewal, price, m.terms.PerMonth, m.terms.BasisPoints, from, until, m.listedPaid}, now); err != nil {
					return err
				}
				continue
			}
			m.until = old
			if err := s.lapse(ctx, tx, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// affords reports whether an account has an amount beside what is held and due.
func (s *Service) affords(ctx context.Context, tx *store.Tx, a *accountRow, leases []*leaseRow, amount money.Amount, now time.Time) (bool, error) {
	available, err := s.available(ctx, tx, a, leases, now)
	return available >= amount, err
}

// available is what an account has beside what is held and due.
func (s *Service) available(ctx context.Context, tx *store.Tx, a *accountRow, leases []*leaseRow, now time.Time) (money.Amount, error) {
	wallet, held, debt, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return 0, err
	}
	undo, err := foresee(leases, now, now, func(l *leaseRow) time.Time { return latest(l.confirmed, s.lastAlive(l.id)) })
	if err != nil {
		return 0, err
	}
	defer undo()
	onCredit, err := s.onCredit(ctx, tx, a.id, a.credit, held)
	if err != nil {
		return 0, err
	}
	left := wallet + debt + a.credit - onCredit
	for _, l := range leases {
		due, err := s.due(l, now)
		if err != nil {
			return 0, err
		}
		left -= due - l.posted.total()
	}
	grants, err := s.usableGrants(ctx, tx, a.id)
	if err != nil {
		return 0, err
	}
	covered, err := s.coveredNow(grants, leases, now)
	return left + inAll(covered), err
}

// lapse ends the months of a lease where the paid term ends.
func (s *Service) lapse(ctx context.Context, tx *store.Tx, l *leaseRow) error {
	m := l.monthly
	m.ended, m.code = m.until, TermLapsed
	if err := m.save(ctx, tx, l.id); err != nil {
		return err
	}
	if m.onLapse == LapseStop {
		return s.limit(ctx, tx, l, m.ended, ReasonTermOver)
	}
	return s.holdOnDemand(ctx, tx, l)
}

// holdOnDemand makes the hold of a lease that of one on demand.
func (s *Service) holdOnDemand(ctx context.Context, tx *store.Tx, l *leaseRow) error {
	onDemand := l.quote
	onDemand.Plan = pricing.OnDemand
	hold, err := onDemand.Hold()
	if err != nil {
		return fmt.Errorf("hold of lease %s: %w", l.id, err)
	}
	l.hold = hold
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET hold = ? WHERE lease_id = ?`, int64(hold), l.id); err != nil {
		return fmt.Errorf("hold of lease %s: %w", l.id, err)
	}
	return nil
}

// limit ends the charged time of a lease's run at a moment, if it has none yet.
// What is posted stays posted.
func (s *Service) limit(ctx context.Context, tx *store.Tx, l *leaseRow, at time.Time, reason Reason) error {
	c := l.openInterval(pricing.Compute)
	if c == nil {
		return nil
	}
	at = latest(at, c.start)
	if !c.limit.IsZero() && (c.limitReason != ReasonRequested || !at.Before(c.limit)) {
		return nil
	}
	c.limit, c.limitReason = at, reason
	if _, err := tx.Exec(ctx, `UPDATE billing_intervals SET limit_at = ?, limit_reason = ? WHERE lease_id = ? AND meter = ? AND number = ?`,
		store.Micros(c.limit), string(reason), l.id, string(c.meter), c.number); err != nil {
		return fmt.Errorf("limit lease %s: %w", l.id, err)
	}
	return nil
}

// overForGood reports whether what starts now of a lease must stop at once: its
// months are over, its renter wanted it to stop then, and has not started it since.
func (l *leaseRow) overForGood() bool {
	m := l.monthly
	return m != nil && !m.inForce() && m.again.IsZero() && (m.code != TermLapsed || m.onLapse == LapseStop)
}

// EndTerm ends the months in advance of a lease, if it has any in force, and gives
// back what its rule says: by TermHostLost what was paid for the rest, else what
// was paid less what was used at the price without discount. Of a lease that never
// ran everything is given back. Compute is not charged behind it.
func (s *Service) EndTerm(ctx context.Context, tx *store.Tx, leaseID string, at time.Time, code string) error {
	a, open, l, err := s.lockLease(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if l.monthly == nil || !l.monthly.inForce() {
		return nil
	}
	now := s.cfg.Clock()
	if err := s.enforce(ctx, tx, a, open, now); err != nil {
		return err
	}
	if err := s.endTerm(ctx, tx, a, l, at, code, now); err != nil {
		return err
	}
	s.changed(a.id)
	return s.rebalance(ctx, tx, a, now)
}

func (s *Service) endTerm(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, at time.Time, code string, now time.Time) error {
	m := l.monthly
	if m == nil || !m.inForce() {
		return nil
	}
	at = latest(m.terms.Anchor, earliest(at, now)).UTC().Truncate(time.Microsecond)
	ran := slices.ContainsFunc(l.intervals, func(i interval) bool { return i.meter == pricing.Compute })
	var back, listed money.Amount
	if !ran {
		code = TermUnused
		for _, p := range m.payments {
			back, listed = back+p.Amount, listed+p.Listed
		}
	} else {
		var err error
		if back, err = m.back(at, code); err == nil {
			listed, err = m.inListed().back(at, code)
		}
		if err != nil {
			return fmt.Errorf("end months of lease %s: %w", l.id, err)
		}
	}
	until := m.until
	m.ended, m.code = earliest(at, m.until), code
	if err := m.save(ctx, tx, l.id); err != nil {
		return err
	}
	if err := s.limit(ctx, tx, l, m.ended, ReasonTermOver); err != nil {
		return err
	}
	if back == 0 && listed == 0 {
		return nil
	}
	return s.prepay(ctx, tx, a, l, Prepayment{PaidBack, -back, m.terms.PerMonth, m.terms.BasisPoints, m.ended, until, -listed}, now)
}

// HoldsTerm reports whether a lease is paid for in advance at a moment, so that its
// GPUs are its own also while it is stopped.
func (s *Service) HoldsTerm(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) (bool, error) {
	l, err := s.lease(ctx, tx, leaseID)
	if err != nil {
		return false, err
	}
	m := l.monthly
	// One that is over and not yet renewed is about to be, or to lapse.
	return m != nil && m.inForce() && (m.renews || at.Before(m.until)), nil
}

// termEdge is the next moment at which somebody has to look at the months of a
// lease: a warning or the end.
func (m *monthlyRow) termEdge(steps []time.Duration) time.Time {
	edge := m.until
	for _, w := range steps {
		if m.warned == 0 || w < m.warned {
			edge = earliest(edge, m.until.Add(-w))
		}
	}
	return edge
}

// warnTerms returns what is to be said before terms end: that one does not renew,
// or that the money for the next one is missing.
func (s *Service) warnTerms(ctx context.Context, tx *store.Tx, a *accountRow, leases []*leaseRow, now time.Time) ([]Warning, error) {
	var out []Warning
	for _, l := range leases {
		m := l.monthly
		if m == nil || !m.inForce() {
			continue
		}
		var reached time.Duration
		for _, w := range s.cfg.TermWarnings {
			if m.until.Sub(now) <= w && (reached == 0 || w < reached) {
				reached = w
			}
		}
		if reached == 0 || (m.warned != 0 && reached >= m.warned) {
			continue
		}
		m.warned = reached
		if err := m.save(ctx, tx, l.id); err != nil {
			return nil, err
		}
		if !m.renews {
			out = append(out, Warning{Kind: WarnTerm, LeaseID: l.id, Until: m.until, Left: reached})
			continue
		}
		_, _, price, err := m.next()
		if err != nil {
			return nil, err
		}
		if can, err := s.affords(ctx, tx, a, leases, price, now); err != nil {
			return nil, err
		} else if !can {
			out = append(out, Warning{Kind: WarnRenewal, LeaseID: l.id, Until: m.until, Left: reached})
		}
	}
	return out, nil
}

// Months is what is agreed and paid in advance for a lease.
type Months struct {
	LeaseID, AccountID string
	Currency           money.Currency
	Terms              pricing.Prepaid
	Renews             bool
	OnLapse            Lapse
	From, Until        time.Time    // the term that is paid for
	NextPrice          money.Amount // of a term, at the price in force
	Ended              time.Time    // zero: in force
	EndCode            string
	Back               money.Amount // what would be given back if it were ended now
	Payments           []Prepayment
}

// Months returns what is agreed and paid in advance for a lease: a Conflict fault
// "not_monthly" if it is paid otherwise.
func (s *Service) Months(ctx context.Context, leaseID string) (Months, error) {
	var out Months
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, leaseID)
		if err == nil {
			out, err = s.months(l)
		}
		return err
	})
	return out, err
}

func (s *Service) months(l *leaseRow) (out Months, err error) {
	m := l.monthly
	if m == nil {
		return Months{}, fault.New(fault.Conflict, "not_monthly", "lease %s is paid by the plan %s and has no months in advance", l.id, l.quote.Plan)
	}
	out = Months{LeaseID: l.id, AccountID: l.accountID, Currency: l.quote.Currency, Terms: m.terms, Renews: m.renews, OnLapse: m.onLapse,
		From: m.from, Until: m.until, Ended: m.ended, EndCode: m.code, Payments: m.payments}
	if _, _, out.NextPrice, err = m.next(); err == nil && m.inForce() {
		out.Back, err = m.back(s.cfg.Clock(), TermGivenUp)
	}
	return out, err
}

// MonthsChange changes what happens at the end of a term. Nil fields stay.
type MonthsChange struct {
	Renews  *bool
	OnLapse *Lapse
}

// SetMonths changes what happens when the paid term of a lease ends.
func (s *Service) SetMonths(ctx context.Context, p account.Principal, leaseID string, c MonthsChange) (Months, error) {
	if c.OnLapse != nil && *c.OnLapse != LapseStop && *c.OnLapse != LapseOnDemand {
		return Months{}, fault.New(fault.Invalid, "invalid_on_lapse", "on_lapse is %q; want stop or on_demand", *c.OnLapse).At("body.on_lapse")
	}
	return s.changeMonths(ctx, p, leaseID, "monthly.set", c, func(_ context.Context, _ *store.Tx, _ *accountRow, _ []*leaseRow, l *leaseRow, _ time.Time) error {
		if c.Renews != nil {
			l.monthly.renews, l.monthly.terms.Renews = *c.Renews, *c.Renews
		}
		if c.OnLapse != nil {
			l.monthly.onLapse = *c.OnLapse
		}
		l.monthly.warned = 0
		return nil
	})
}

// RepriceMonths changes the price of a lease's months at once: the rest of the
// term is given back at the old price and paid at the new one, and what follows
// costs the new one. expect is the net of the two that the renter has agreed to; it
// is a Conflict fault "price_moved" if more would have to be paid by now.
// perMonth is in the currency of the market; an account that pays in another pays what
// the rate in its quote makes of it.
func (s *Service) RepriceMonths(ctx context.Context, p account.Principal, leaseID string, perMonth money.Amount, basisPoints int64, expect money.Amount) (Months, error) {
	detail := map[string]string{"per_month": perMonth.String(), "agreed": expect.String()}
	return s.changeMonths(ctx, p, leaseID, "monthly.reprice", detail, func(ctx context.Context, tx *store.Tx, a *accountRow, open []*leaseRow, l *leaseRow, now time.Time) error {
		m := l.monthly
		at := latest(now, m.since).UTC().Truncate(time.Microsecond)
		perMonth, listedPerMonth, err := l.monthlyPrice(perMonth)
		if err != nil {
			return err
		}
		c, err := m.renewing().Change(perMonth, basisPoints, at)
		if err != nil {
			return err
		}
		if c.Net > max(expect, 0) { // what is given back shrinks as time passes
			return fault.New(fault.Conflict, "price_moved", "the change costs %s by now, and %s was agreed to; look at it again", c.Net.Display(), expect.Display())
		}
		if can, err := s.affords(ctx, tx, a, open, c.Net, now); err != nil {
			return err
		} else if c.Net > 0 && !can {
			return fault.New(fault.Payment, "insufficient_balance", "the rest of the term costs %s %s more at the new price, and that is not available; add money to the account", c.Net.Display(), l.quote.Currency)
		}
		listed, err := m.inListed().renewing().Change(listedPerMonth, basisPoints, at)
		if err != nil {
			return err
		}
		m.listedPerMonth, m.listedPaid = listedPerMonth, listed.Charge
		m.terms.PerMonth, m.terms.BasisPoints, m.since, m.paid = perMonth, basisPoints, at, c.Charge
		return s.prepay(ctx, tx, a, l, Prepayment{PaidChange, c.Net, perMonth, basisPoints, at, m.until, listed.Net}, now)
	})
}

// monthlyPrice is what the price of a month on the market is for the account; listed is
// that price, if it is in another currency.
func (l *leaseRow) monthlyPrice(perMonth money.Amount) (own, listed money.Amount, err error) {
	x := l.quote.Exchange
	if x == nil {
		return perMonth, 0, nil
	}
	own, err = x.Amount(perMonth)
	return own, perMonth, err
}

// PreviewReprice says what RepriceMonths would come to now.
func (s *Service) PreviewReprice(ctx context.Context, leaseID string, perMonth money.Amount, basisPoints int64) (pricing.Proration, error) {
	var c pricing.Proration
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, leaseID)
		if err != nil {
			return err
		}
		if _, err := s.months(l); err != nil {
			return err
		}
		m, now := l.monthly, s.cfg.Clock()
		if !m.inForce() || !now.Before(m.until) {
			return monthsOver(l)
		}
		own, _, err := l.monthlyPrice(perMonth)
		if err == nil {
			c, err = m.renewing().Change(own, basisPoints, latest(now, m.since))
		}
		return err
	})
	return c, err
}

func monthsOver(l *leaseRow) error {
	return fault.New(fault.Gone, "months_over", "the months of lease %s are over since %s; rent anew to have others", l.id, earliest(l.monthly.ended, l.monthly.until).Format(time.RFC3339))
}

// changeMonths makes one change of the months of a lease that are in force.
func (s *Service) changeMonths(ctx context.Context, p account.Principal, leaseID, action string, detail any,
	change func(ctx context.Context, tx *store.Tx, a *accountRow, open []*leaseRow, l *leaseRow, now time.Time) error) (out Months, err error) {
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, open, l, err := s.lockLease(ctx, tx, leaseID)
		if err != nil {
			return err
		}
		if _, err := s.months(l); err != nil {
			return err
		}
		now := s.cfg.Clock()
		if err := s.enforce(ctx, tx, a, open, now); err != nil {
			return err
		}
		if !l.monthly.inForce() {
			return monthsOver(l)
		}
		if err := change(ctx, tx, a, open, l, now); err != nil {
			return err
		}
		if err := l.monthly.save(ctx, tx, l.id); err != nil {
			return err
		}
		if s.cfg.Audit != nil {
			if err := s.cfg.Audit(ctx, tx, p, action, leaseID, detail); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		if out, err = s.months(l); err != nil {
			return err
		}
		s.changed(a.id)
		return s.rebalance(ctx, tx, a, now)
	})
	return out, err
}
