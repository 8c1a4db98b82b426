package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// A reservation is billed as a lease of its own: its run is the time in which its
// GPUs are held, whether anybody uses them or not, and what is paid upfront is a
// prepayment. So it is settled, limited when the money ends, invoiced and verified
// like any lease. What it pays for of other leases is applied before each charge:
// see apply.

// The kinds of prepayments of reservations.
const (
	PaidUpfront PrepaymentKind = "upfront"
	PaidLost    PrepaymentKind = "lost"      // back, for time that was not delivered
	PaidEarly   PrepaymentKind = "early_end" // what an early end comes to, or gives back
)

// lateUse is how far back reservations are applied anew: use that is learned of
// later than that is not paid for by them.
const lateUse = 35 * 24 * time.Hour

// reservedRow is what was agreed for a reservation.
type reservedRow struct {
	terms    pricing.Reservation
	end      time.Time // of its last clock hour
	payments []Prepayment
}

// window is the clock hours that a reservation was bought for.
func window(r pricing.Reservation) (from, until time.Time) {
	from = r.From.UTC().Truncate(time.Hour)
	return from, from.Add(time.Duration(r.Hours()) * time.Hour)
}

// lost returns when a reservation was not delivered, up to a moment, and all that
// is behind its end.
func (l *leaseRow) lost(at time.Time) []pricing.Interval {
	from, until := window(l.reserved.terms)
	end := earliest(at, l.reserved.end)
	var out []pricing.Interval
	for _, i := range l.intervals { // in order
		if i.meter != pricing.Compute {
			continue
		}
		if start := earliest(i.start, end); from.Before(start) {
			out = append(out, pricing.Interval{Start: from, End: start})
		}
		from = latest(from, earliest(i.end, i.limit, end))
	}
	if from.Before(end) {
		out = append(out, pricing.Interval{Start: from, End: end})
	}
	if l.reserved.end.Before(until) {
		out = append(out, pricing.Interval{Start: l.reserved.end, End: until})
	}
	return out
}

// delivered is the reservation's terms with what was lost up to a moment.
func (l *leaseRow) delivered(at time.Time) pricing.Reservation {
	r := l.reserved.terms
	r.Zone, r.Lost = l.place(), l.lost(at)
	return r
}

// inListed is a reservation in the provider's currency: the same rules make of its
// prices what is paid and given back. It is nil if that is the account's currency.
func (l *leaseRow) inListed() *leaseRow {
	if l.reserved.terms.Listed == nil {
		return nil
	}
	o, r := *l, *l.reserved
	r.terms = *l.reserved.terms.Listed
	r.payments = slices.Clone(r.payments)
	for i := range r.payments {
		r.payments[i].Amount = r.payments[i].Listed
	}
	o.reserved = &r
	return &o
}

// place is what reservations and leases must have alike, beside the model: a
// provider earns what is reserved of its own hosts and no other's.
func (l *leaseRow) place() string {
	kind := "real"
	if l.simulated {
		kind = "simulated"
	}
	return l.zone + "/" + l.providerID + "/" + kind
}

// loadReserved adds to leases their terms as reservations, and what reservations
// pay for of them.
func loadReserved(ctx context.Context, tx *store.Tx, byID map[string]*leaseRow, where string, args []any) error {
	for _, l := range byID {
		if l.quote.Plan != pricing.Reserved {
			continue
		}
		var terms []byte
		var end int64
		err := tx.QueryRow(ctx, `SELECT terms, end_at FROM billing_reserved WHERE lease_id = ?`, l.id).Scan(&terms, &end)
		l.reserved = &reservedRow{end: store.Time(end)}
		if err == nil {
			err = json.Unmarshal(terms, &l.reserved.terms)
		}
		if err == nil {
			l.reserved.payments, err = loadPrepayments(ctx, tx, l.id)
		}
		if err != nil {
			return fmt.Errorf("load reservation %s: %w", l.id, err)
		}
	}
	rows, err := tx.Query(ctx, `SELECT lease_id, from_at, until_at FROM billing_covered
		WHERE lease_id IN (SELECT lease_id FROM billing_leases WHERE `+where+`) ORDER BY lease_id, from_at`, args...)
	if err != nil {
		return fmt.Errorf("load what is reserved: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var from, until int64
		if err := rows.Scan(&id, &from, &until); err != nil {
			return fmt.Errorf("load what is reserved: %w", err)
		}
		if l := byID[id]; l != nil {
			l.covered = append(l.covered, pricing.Interval{Start: store.Time(from), End: store.Time(until)})
		}
	}
	return rows.Err()
}

func loadPrepayments(ctx context.Context, tx *store.Tx, leaseID string) ([]Prepayment, error) {
	rows, err := tx.Query(ctx, `SELECT kind, amount, per_month, basis_points, from_at, until_at, listed FROM billing_prepayments WHERE lease_id = ? ORDER BY number`, leaseID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Prepayment
	for rows.Next() {
		var p Prepayment
		var from, until int64
		if err := rows.Scan(&p.Kind, &p.Amount, &p.PerMonth, &p.BasisPoints, &from, &until, &p.Listed); err != nil {
			return nil, err
		}
		p.From, p.Until = store.Time(from), store.Time(until)
		out = append(out, p)
	}
	return out, rows.Err()
}

// prepayments is all that was paid in advance for a lease; nil: nothing ever is.
func (l *leaseRow) prepayments() *[]Prepayment {
	switch {
	case l.monthly != nil:
		return &l.monthly.payments
	case l.reserved != nil:
		return &l.reserved.payments
	}
	return nil
}

// ReservedTerms are what a reservation is billed by. They never change.
type ReservedTerms struct {
	Reservation pricing.Reservation // its ID is the one that it is billed under
	AccountID   string              // who pays
	ProviderID  string              // who earns
	TimeZone    string
	Simulated   bool
	// Exchange is by what the reservation came to be in the account's currency; nil:
	// its provider is paid in that. Then the reservation has Listed.
	Exchange *pricing.Exchanged
}

// BeginReserved records the terms of a reservation, takes what is paid upfront and
// sets an hour of the rest aside, in the transaction that makes it. It is a Payment
// fault "insufficient_balance" if that is not available. The same again is no
// change. Its hours are charged from Deliver on.
func (s *Service) BeginReserved(ctx context.Context, tx *store.Tx, t ReservedTerms) error {
	r := t.Reservation
	if err := r.Check(); err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	q, err := pricing.NewQuote(pricing.Tariff{
		Currency: r.Currency, Compute: r.Hourly * money.Rate(r.GPUs), Granularity: pricing.Second, CommissionBasisPoints: r.Commission,
	}, pricing.Request{Plan: pricing.Reserved, TimeZone: t.TimeZone, Simulated: t.Simulated}, s.cfg.Clock())
	if err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	rateID := ""
	if t.Exchange != nil {
		if err := r.CheckListed(*t.Exchange); err != nil {
			return fmt.Errorf("begin reservation %s: %w", r.ID, err)
		}
		x := *t.Exchange
		x.Listed = q.Tariff
		x.Listed.Currency, x.Listed.Compute = r.Listed.Currency, r.Listed.Hourly*money.Rate(r.GPUs)
		q.Exchange, rateID = &x, x.RateID
	} else if r.Listed != nil {
		return fmt.Errorf("begin reservation %s: it is listed in %s and not exchanged", r.ID, r.Listed.Currency)
	}
	hold, err := q.Hold()
	if err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	currency, err := s.cfg.CurrencyOf(ctx, t.AccountID)
	if err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	if currency != r.Currency {
		return fault.New(fault.Invalid, "currency_mismatch", "the reservation is in %s and the account in %s; ask for one in %s", r.Currency, currency, currency)
	}
	a, err := s.lockAccount(ctx, tx, t.AccountID, currency)
	if err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	if _, err := s.lease(ctx, tx, r.ID); err == nil {
		return nil
	} else if f, ok := fault.As(err); !ok || f.Kind != fault.NotFound {
		return err
	}
	now := s.cfg.Clock()
	open, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return err
	}
	if err := s.enforce(ctx, tx, a, open, now); err != nil {
		return err
	}
	b, err := s.balance(ctx, tx, a.id, a.currency, now)
	if err != nil {
		return err
	}
	need, err := r.UpfrontDue.Add(hold)
	if err != nil {
		return err
	}
	if b.Available < need {
		return fault.New(fault.Payment, "insufficient_balance", "this needs %s %s at once and %s set aside for its hours, and %s is available; add money to the account",
			r.UpfrontDue.Display(), currency, hold.Display(), b.Available.Display())
	}
	quote, err := json.Marshal(q)
	if err != nil {
		return err
	}
	terms, err := json.Marshal(r)
	if err != nil {
		return err
	}
	simulated := 0
	if t.Simulated {
		simulated = 1
	}
	from, until := window(r)
	if _, err := tx.Exec(ctx, `INSERT INTO billing_leases (lease_id, account_id, provider_id, quote, simulated, spending_cap, hold, egress_bytes,
		posted_compute, posted_storage, posted_egress, confirmed_at, settled_at, begun_at, ended_at, gpu_model, zone, gpu_count, exchange_rate_id) VALUES (?, ?, ?, ?, ?, 0, ?, 0, 0, 0, 0, 0, 0, ?, 0, ?, ?, ?, ?)`,
		r.ID, t.AccountID, t.ProviderID, string(quote), simulated, int64(hold), store.Micros(earliest(now, from)), r.GPUModel, r.Zone, r.GPUs, rateID); err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_reserved (lease_id, terms, end_at) VALUES (?, ?, ?)`, r.ID, string(terms), store.Micros(until)); err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	if _, err := tx.Exec(ctx, `UPDATE billing_accounts SET reserves = 1 WHERE account_id = ?`, a.id); err != nil {
		return fmt.Errorf("begin reservation %s: %w", r.ID, err)
	}
	a.reserves = true
	l, err := s.lease(ctx, tx, r.ID)
	if err != nil {
		return err
	}
	s.changed(a.id)
	var listed money.Amount
	if r.Listed != nil {
		listed = r.Listed.UpfrontDue
	}
	if r.UpfrontDue > 0 || listed > 0 {
		if err := s.prepay(ctx, tx, a, l, Prepayment{Kind: PaidUpfront, Amount: r.UpfrontDue, BasisPoints: r.Discount, From: from, Until: until, Listed: listed}, now); err != nil {
			return err
		}
	}
	return s.rebalance(ctx, tx, a, now)
}

// Deliver says that the GPUs of a reservation are held from a moment on. If they
// are already, nothing changes.
func (s *Service) Deliver(ctx context.Context, tx *store.Tx, id string, at time.Time) error {
	a, l, err := s.lockOne(ctx, tx, id)
	if err != nil {
		return err
	}
	if l.reserved == nil {
		return noReserved(id)
	}
	if l.openInterval(pricing.Compute) != nil || !l.ended.IsZero() {
		return nil
	}
	from, _ := window(l.reserved.terms)
	// What was lost is in whole seconds, in favour of who pays.
	start, number := latest(ceilSecond(at), from), int64(1)
	for _, i := range l.intervals {
		number, start = max(number, i.number+1), latest(start, i.end)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_intervals (lease_id, meter, number, asked_start, start_at, asked_end, end_at, limit_at, limit_reason, resumes) VALUES (?, ?, ?, ?, ?, 0, 0, ?, ?, 0)`,
		id, string(pricing.Compute), number, store.Micros(start), store.Micros(start), store.Micros(latest(start, l.reserved.end)), string(ReasonRequested)); err != nil {
		return fmt.Errorf("deliver reservation %s: %w", id, err)
	}
	s.changed(a.id)
	a.dirty = earliest(a.dirty, start)
	return s.recharge(ctx, tx, a)
}

// Lose says that the GPUs of a reservation are not there since a moment, which is
// not charged. If they were not, nothing changes.
func (s *Service) Lose(ctx context.Context, tx *store.Tx, id string, at time.Time) error {
	a, l, err := s.lockOne(ctx, tx, id)
	if err != nil {
		return err
	}
	i := l.openInterval(pricing.Compute)
	if l.reserved == nil || i == nil {
		return nil
	}
	now := s.cfg.Clock()
	open, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return err
	}
	if err := s.enforce(ctx, tx, a, open, now); err != nil {
		return err
	}
	if l, err = s.lease(ctx, tx, id); err != nil {
		return err
	}
	// Hosts go unheard for a while before that is known: what was charged since comes
	// back.
	at = at.UTC().Truncate(time.Second)
	if err := s.close(ctx, tx, l, pricing.Compute, latest(at, i.start), now); err != nil {
		return err
	}
	s.changed(a.id)
	a.dirty = earliest(a.dirty, at)
	if err := s.charge(ctx, tx, a, l, now); err != nil {
		return err
	}
	return s.rebalance(ctx, tx, a, now)
}

// recharge applies an account's reservations and charges what changes by that. It
// saves the account.
func (s *Service) recharge(ctx context.Context, tx *store.Tx, a *accountRow) error {
	now := s.cfg.Clock()
	if err := s.apply(ctx, tx, a, now); err != nil {
		return err
	}
	return s.rebalance(ctx, tx, a, now)
}

// PreviewEarlyEnd says what it would come to if a reservation were ended now.
func (s *Service) PreviewEarlyEnd(ctx context.Context, id string, blameless bool) (pricing.EarlyEnd, error) {
	var e pricing.EarlyEnd
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, id)
		if err != nil {
			return err
		}
		if l.reserved == nil {
			return noReserved(id)
		}
		e, err = l.earlyEnd(s.cfg.Clock(), blameless)
		return err
	})
	return e, err
}

// earlyEnd is what ending a reservation comes to. If its GPUs are not there, which
// is no fault of who pays, it ends without a loss: what was paid for the rest comes
// back.
func (l *leaseRow) earlyEnd(now time.Time, blameless bool) (pricing.EarlyEnd, error) {
	from, until := window(l.reserved.terms)
	r := l.delivered(now)
	if l.reserved.end.Before(until) {
		return pricing.EarlyEnd{Until: l.reserved.end}, nil // it was ended before
	}
	if !now.Before(until) || (blameless && !now.Before(from)) {
		end := earliest(now, until)
		due, err := r.Due(end)
		return pricing.EarlyEnd{Until: end, Due: due, Owed: due}, err
	}
	return r.EndEarly(now)
}

// EndReserved ends a reservation before its time by the rule of an early end, or
// without a loss if it is blameless, and returns what that came to. It holds
// until Until, at which EndLease is to be called. Asked again it changes nothing.
func (s *Service) EndReserved(ctx context.Context, tx *store.Tx, id string, blameless bool) (pricing.EarlyEnd, error) {
	var e pricing.EarlyEnd
	a, l, err := s.lockOne(ctx, tx, id)
	if err != nil {
		return e, err
	}
	if l.reserved == nil {
		return e, noReserved(id)
	}
	now := s.cfg.Clock()
	a.dirty = earliest(a.dirty, now)
	// What was lost so far is given back first.
	if err := s.charge(ctx, tx, a, l, now); err != nil {
		return e, err
	}
	var theirs pricing.EarlyEnd
	if e, err = l.earlyEnd(now, blameless); err == nil && l.inListed() != nil {
		theirs, err = l.inListed().earlyEnd(now, blameless)
	}
	if err != nil {
		return e, fmt.Errorf("end reservation %s: %w", id, err)
	}
	if !e.Until.Before(l.reserved.end) {
		return e, s.rebalance(ctx, tx, a, now)
	}
	_, until := window(l.reserved.terms)
	l.reserved.end = e.Until
	if _, err := tx.Exec(ctx, `UPDATE billing_reserved SET end_at = ? WHERE lease_id = ?`, store.Micros(e.Until), id); err != nil {
		return e, fmt.Errorf("end reservation %s: %w", id, err)
	}
	if i := l.openInterval(pricing.Compute); i != nil {
		i.limit = earliest(i.limit, latest(i.start, e.Until))
		if _, err := tx.Exec(ctx, `UPDATE billing_intervals SET limit_at = ? WHERE lease_id = ? AND meter = ? AND number = ?`,
			store.Micros(i.limit), id, string(i.meter), i.number); err != nil {
			return e, fmt.Errorf("end reservation %s: %w", id, err)
		}
	}
	// In the hour in which it ends it pays for less than it would have.
	a.dirty = earliest(a.dirty, e.Until)
	if err := s.apply(ctx, tx, a, now); err != nil {
		return e, err
	}
	amount := func(l *leaseRow, net money.Amount) (money.Amount, error) {
		if !blameless || net != 0 {
			return net, nil
		}
		// The rest was not to be had: its part of what was paid upfront comes back.
		back, err := l.delivered(e.Until).LostBy(until)
		return -(back + l.paid(PaidLost)), err
	}
	if e.Net, err = amount(l, e.Net); err != nil {
		return e, err
	}
	if o := l.inListed(); o != nil {
		if theirs.Net, err = amount(o, theirs.Net); err != nil {
			return e, err
		}
	}
	if e.Net != 0 || theirs.Net != 0 {
		if err := s.prepay(ctx, tx, a, l, Prepayment{Kind: PaidEarly, Amount: e.Net, From: earliest(now, e.Until), Until: latest(now, e.Until), Listed: theirs.Net}, now); err != nil {
			return e, err
		}
	}
	s.changed(a.id)
	return e, s.rebalance(ctx, tx, a, now)
}

// paid is the sum of prepayments of a kind.
func (l *leaseRow) paid(kind PrepaymentKind) (sum money.Amount) {
	for _, p := range *l.prepayments() {
		if p.Kind == kind {
			sum += p.Amount
		}
	}
	return sum
}

// giveBackLost posts what comes back of what was paid upfront for time that was
// lost by now.
func (s *Service) giveBackLost(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, now time.Time) error {
	back, err := l.lostBack(now)
	if err != nil {
		return fmt.Errorf("reservation %s: %w", l.id, err)
	}
	var listed money.Amount
	if o := l.inListed(); o != nil {
		if listed, err = o.lostBack(now); err != nil {
			return fmt.Errorf("reservation %s: %w", l.id, err)
		}
	}
	if back == 0 && listed == 0 {
		return nil
	}
	from, _ := window(l.reserved.terms)
	return s.prepay(ctx, tx, a, l, Prepayment{Kind: PaidLost, Amount: -back, From: latest(from, l.settled), Until: latest(from, l.settled, now), Listed: -listed}, now)
}

// lostBack is what is to come back of what was paid upfront for time that was lost by
// a moment, beyond what came back already.
func (l *leaseRow) lostBack(now time.Time) (money.Amount, error) {
	r := l.reserved.terms
	from, _ := window(r)
	at := earliest(now, l.reserved.end)
	if r.UpfrontDue == 0 || at.Before(from) {
		return 0, nil
	}
	for _, i := range l.lost(now) {
		if i.Start.Before(l.reserved.end) {
			r.Lost = append(r.Lost, i)
		}
	}
	back, err := r.LostBy(at)
	return back + l.paid(PaidLost), err
}

func noReserved(id string) error {
	return fault.New(fault.NotFound, "reservation_not_found", "there is no reservation %q", id)
}

func ceilSecond(t time.Time) time.Time {
	whole := t.UTC().Truncate(time.Second)
	if whole.Before(t) {
		whole = whole.Add(time.Second)
	}
	return whole
}

// reservable reports whether reservations may pay for a lease.
func (l *leaseRow) reservable() bool {
	return l.quote.Plan == pricing.OnDemand && l.gpus > 0 && l.gpuModel != ""
}

// inputs are what of an account's leases is given to the rule by which
// reservations are applied, as of a moment.
func inputs(leases []*leaseRow, at time.Time, seen func(*leaseRow) time.Time) (reservations []pricing.Reservation, runs []pricing.Run) {
	for _, l := range leases {
		switch {
		case l.reserved != nil:
			reservations = append(reservations, l.delivered(at))
		case l.reservable():
			if u := usageUntil(l, at, seen(l), time.Time{}); len(u.Compute) > 0 {
				runs = append(runs, pricing.Run{LeaseID: l.id, GPUModel: l.gpuModel, Zone: l.place(), GPUs: l.gpus, Compute: u.Compute})
			}
		}
	}
	return reservations, runs
}

// apply applies an account's reservations to its leases by all that is known now,
// writes down what they pay for, and charges the differences that this makes to
// leases, ended ones too. In one transaction it does so once for each moment. The
// caller holds the account's lock and saves it.
func (s *Service) apply(ctx context.Context, tx *store.Tx, a *accountRow, now time.Time) error {
	if !a.reserves || a.applied.Equal(now) && a.dirty.IsZero() {
		return nil
	}
	since := earliest(a.applied, a.dirty, now)
	// A lease may be heard again long after, of hours that were looked at without it.
	known, err := knownUntil(ctx, tx, a.id)
	if err != nil {
		return err
	}
	for _, at := range known {
		since = earliest(since, at)
	}
	if a.applied.IsZero() || a.whole {
		since = now.Add(-lateUse)
	}
	since = latest(since.Add(-time.Hour), now.Add(-lateUse)).UTC().Truncate(time.Hour)
	leases, err := s.loadLeases(ctx, tx, `account_id = ? AND (ended_at = 0 OR ended_at >= ?)`, a.id, store.Micros(since))
	if err != nil {
		return err
	}
	alive := map[string]time.Time{}
	reservations, runs := inputs(leases, now, func(l *leaseRow) time.Time {
		alive[l.id] = latest(l.confirmed, s.lastAlive(l.id))
		return alive[l.id]
	})
	applied, err := pricing.ApplySince(reservations, runs, since, now)
	if err != nil {
		return fmt.Errorf("apply reservations of %s: %w", a.id, err)
	}
	a.applied, a.dirty, a.whole = now, time.Time{}, false
	if _, err := tx.Exec(ctx, `UPDATE billing_accounts SET applied_at = ? WHERE account_id = ?`, store.Micros(now), a.id); err != nil {
		return fmt.Errorf("apply reservations of %s: %w", a.id, err)
	}
	for _, l := range leases {
		if !l.reservable() {
			continue
		}
		if i := l.openInterval(pricing.Compute); i != nil {
			delete(known, l.id)
			if _, err := tx.Exec(ctx, `INSERT INTO billing_applied (lease_id, seen_at) VALUES (?, ?) ON CONFLICT (lease_id) DO UPDATE SET seen_at = excluded.seen_at`, l.id, store.Micros(latest(alive[l.id], i.start))); err != nil {
				return fmt.Errorf("apply reservations of %s: %w", a.id, err)
			}
		}
		covered := append(before(l.covered, since), applied.Covered[l.id]...)
		if slices.Equal(covered, l.covered) {
			continue
		}
		if err := saveCovered(ctx, tx, l.id, since, l.covered, covered); err != nil {
			return err
		}
		l.covered = covered
		if err := s.chargeOne(ctx, tx, a, l, now); err != nil {
			return err
		}
	}
	for id := range known { // all of it is known now
		if _, err := tx.Exec(ctx, `DELETE FROM billing_applied WHERE lease_id = ?`, id); err != nil {
			return fmt.Errorf("apply reservations of %s: %w", a.id, err)
		}
	}
	return nil
}

// knownUntil is until when the use of each of an account's running leases was known when
// reservations were applied last.
func knownUntil(ctx context.Context, tx *store.Tx, accountID string) (map[string]time.Time, error) {
	rows, err := tx.Query(ctx, `SELECT x.lease_id, x.seen_at FROM billing_applied x JOIN billing_leases l ON l.lease_id = x.lease_id WHERE l.account_id = ?`, accountID)
	if err != nil {
		return nil, fmt.Errorf("read what reservations were applied to: %w", err)
	}
	defer rows.Close()
	out := map[string]time.Time{}
	for rows.Next() {
		var id string
		var at int64
		if err := rows.Scan(&id, &at); err != nil {
			return nil, fmt.Errorf("read what reservations were applied to: %w", err)
		}
		out[id] = store.Time(at)
	}
	return out, rows.Err()
}

// before returns the parts of what is covered that belong to hours before one: a
// second is of the hour in which it begins, and begins where its run's seconds do.
func before(in []pricing.Interval, hour time.Time) []pricing.Interval {
	var out []pricing.Interval
	for _, i := range in {
		if !i.Start.Before(hour) {
			continue
		}
		seconds := (hour.Sub(i.Start) + time.Second - 1) / time.Second
		i.End = earliest(i.End, i.Start.Add(seconds*time.Second))
		out = append(out, i)
	}
	return out
}

// saveCovered replaces what is covered of a lease from a moment on. What is in
// both stays, as most of it is.
func saveCovered(ctx context.Context, tx *store.Tx, leaseID string, since time.Time, old, now []pricing.Interval) error {
	for _, i := range old {
		if slices.Contains(now, i) {
			continue
		}
		if _, err := tx.Exec(ctx, `DELETE FROM billing_covered WHERE lease_id = ? AND from_at = ?`, leaseID, store.Micros(i.Start)); err != nil {
			return fmt.Errorf("apply reservations to lease %s: %w", leaseID, err)
		}
	}
	for _, i := range now {
		if slices.Contains(old, i) {
			continue
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_covered (lease_id, from_at, until_at) VALUES (?, ?, ?)`, leaseID, store.Micros(i.Start), store.Micros(i.End)); err != nil {
			return fmt.Errorf("apply reservations to lease %s: %w", leaseID, err)
		}
	}
	return nil
}

// fresh brings up to date what applying reservations may have changed of a lease
// that was read before.
func (s *Service) fresh(ctx context.Context, tx *store.Tx, l *leaseRow) error {
	now, err := s.lease(ctx, tx, l.id)
	if err != nil {
		return err
	}
	l.posted, l.measured, l.confirmed, l.settled, l.covered = now.posted, now.measured, latest(l.confirmed, now.confirmed), now.settled, now.covered
	return nil
}

// foresee makes an account's open leases count with what reservations will pay for
// of them until a moment, if all goes on as it is, and returns how to undo that.
func foresee(leases []*leaseRow, now, until time.Time, seen func(*leaseRow) time.Time) (undo func(), err error) {
	undo = func() {}
	if !slices.ContainsFunc(leases, func(l *leaseRow) bool { return l.reserved != nil }) {
		return undo, nil
	}
	since := now.Add(-time.Hour).UTC().Truncate(time.Hour)
	end := since
	for _, l := range leases {
		if l.reserved != nil {
			end = latest(end, l.reserved.end)
		}
	}
	reservations, runs := inputs(leases, earliest(until, end), seen)
	applied, err := pricing.ApplySince(reservations, runs, since, earliest(until, end))
	if err != nil {
		return undo, fmt.Errorf("reservations: %w", err)
	}
	stored := map[*leaseRow][]pricing.Interval{}
	for _, l := range leases {
		if l.reservable() {
			stored[l] = l.covered
			l.covered = append(before(l.covered, since), applied.Covered[l.id]...)
		}
	}
	return func() {
		for l, covered := range stored {
			l.covered = covered
		}
	}, nil
}

// Reserved is what was agreed and paid for a reservation.
type Reserved struct {
	ID, AccountID, ProviderID string
	Terms                     pricing.Reservation // with what was lost so far
	End                       time.Time           // of its last clock hour
	Ended                     time.Time           // zero: it is open
	Payments                  []Prepayment
	Due                       money.Amount // by now, payments in advance and back included
	Posted                    money.Amount
	Simulated                 bool
}

// Reserved returns what was agreed and paid for a reservation, or is a NotFound
// fault "reservation_not_found".
func (s *Service) Reserved(ctx context.Context, id string) (Reserved, error) {
	var out Reserved
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, id)
		if f, ok := fault.As(err); ok && f.Kind == fault.NotFound || err == nil && l.reserved == nil {
			return noReserved(id)
		}
		if err != nil {
			return err
		}
		now := s.cfg.Clock()
		r := l.delivered(now)
		r.Zone = l.zone
		out = Reserved{ID: l.id, AccountID: l.accountID, ProviderID: l.providerID, Terms: r, End: l.reserved.end, Ended: l.ended,
			Payments: l.reserved.payments, Posted: l.posted.total(), Simulated: l.simulated}
		out.Due, err = s.due(l, now)
		return err
	})
	return out, err
}

// ReservedUse returns what an account's reservation was worth in each clock hour
// that has begun from one moment to another: what leases had of it, and what nobody
// had. At most 31 days are answered at once; longer is an Invalid fault.
func (s *Service) ReservedUse(ctx context.Context, id string, from, to time.Time) ([]pricing.HourUse, error) {
	if to.Sub(from) > 31*24*time.Hour {
		return nil, fault.New(fault.Invalid, "span_too_long", "the hours from %s to %s were asked for; want at most 31 days at once", from.Format(time.RFC3339), to.Format(time.RFC3339)).At("query.from")
	}
	var out []pricing.HourUse
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, id)
		if err != nil || l.reserved == nil {
			return noReserved(id)
		}
		leases, err := s.loadLeases(ctx, tx, `account_id = ? AND (ended_at = 0 OR ended_at >= ?)`, l.accountID, store.Micros(from))
		if err != nil {
			return err
		}
		now := s.cfg.Clock()
		reservations, runs := inputs(leases, now, func(l *leaseRow) time.Time { return latest(l.confirmed, s.lastAlive(l.id)) })
		applied, err := pricing.ApplySince(reservations, runs, from.UTC().Truncate(time.Hour), earliest(to, now, l.reserved.end))
		if err != nil {
			return err
		}
		for _, h := range applied.Hours {
			if h.ReservationID == id {
				out = append(out, h)
			}
		}
		return nil
	})
	return out, err
}

// CoveredOf returns which time of a lease's compute reservations pay for, as it was
// applied last.
func (s *Service) CoveredOf(ctx context.Context, leaseID string) ([]pricing.Interval, error) {
	var out []pricing.Interval
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, leaseID)
		if err == nil {
			out = l.covered
		}
		return err
	})
	return out, err
}

// HasFunds reports whether an account has what a suspended reservation needs to go
// on: an hour of it, beside all that is held and due.
func (s *Service) HasFunds(ctx context.Context, tx *store.Tx, id string) (bool, error) {
	a, l, err := s.lockOne(ctx, tx, id)
	if err != nil {
		return false, err
	}
	b, err := s.balance(ctx, tx, a.id, a.currency, s.cfg.Clock())
	if err != nil {
		return false, err
	}
	want, err := s.holds(ctx, tx, a.id)
	if err != nil {
		return false, err
	}
	return b.Settled > 0 && b.Available+b.Held >= max(want, l.hold), nil
}

// verifyReserved compares what reservations pay for with the rule, from the first
// to the last hour.
func (s *Service) verifyReserved(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT account_id, applied_at FROM billing_accounts WHERE reserves = 1 ORDER BY account_id`)
	if err != nil {
		return fmt.Errorf("read reservations: %w", err)
	}
	type mark struct {
		id string
		at int64
	}
	var marks []mark
	for rows.Next() {
		var m mark
		if err := rows.Scan(&m.id, &m.at); err != nil {
			rows.Close()
			return fmt.Errorf("read reservations: %w", err)
		}
		marks = append(marks, m)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read reservations: %w", err)
	}
	for _, m := range marks {
		leases, err := s.loadLeases(ctx, tx, `account_id = ?`, m.id)
		if err != nil {
			return err
		}
		seen := map[string]time.Time{}
		for _, l := range leases {
			if l.openInterval(pricing.Compute) == nil || !l.reservable() {
				continue
			}
			var at int64
			if err := tx.QueryRow(ctx, `SELECT seen_at FROM billing_applied WHERE lease_id = ?`, l.id).Scan(&at); err != nil && !errors.Is(err, store.ErrNoRows) {
				return fmt.Errorf("read reservations: %w", err)
			}
			seen[l.id] = store.Time(at)
		}
		reservations, runs := inputs(leases, store.Time(m.at), func(l *leaseRow) time.Time { return seen[l.id] })
		want, err := pricing.ApplyReservations(reservations, runs, store.Time(m.at))
		if err != nil {
			r.wrong(m.id, "its reservations cannot be applied: %v", err)
			continue
		}
		for _, l := range leases {
			if !slices.Equal(stitched(l.covered), stitched(want.Covered[l.id])) {
				r.wrong(l.id, "reservations are said to pay for %v of it, and by the rule they pay for %v", l.covered, want.Covered[l.id])
			}
		}
	}
	return nil
}

// stitched joins intervals that touch: where hours were applied apart makes no
// difference.
func stitched(in []pricing.Interval) []pricing.Interval {
	var out []pricing.Interval
	for _, i := range in {
		if n := len(out); n > 0 && out[n-1].End.Equal(i.Start) {
			out[n-1].End = i.End
			continue
		}
		out = append(out, pricing.Interval{Start: i.Start, End: i.End})
	}
	return out
}
