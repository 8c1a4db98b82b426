package billing

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Egress is the one thing that a host alone counts: no clock of the control plane
// bounds it. So what a host claims is charged only as far as there is money for
// it when it is claimed, and a provider never earns what its renter did not have.

// No interface of a machine that is rented out moves more than this; a host that
// says so is mistaken or lies. What its self-test measured is its own word too.
const maxEgressPerSecond = 50_000_000_000 // bytes: 400 Gbit/s

// tinyEgress is a price for which nobody's funds are looked at: small overdrafts
// are what every meter has, and a look costs as much as the account has leases.
const tinyEgress = money.Amount(1000) // a tenth of a cent or fen

// RecordEgress says how many bytes a lease's instance has sent since the lease
// began. A total that is not more than the last one changes nothing. One that no
// network could have carried in the time that it ran is an Invalid fault
// "egress_implausible".
//
// Bytes beyond the lease's spending cap, or beyond what its account has available
// and set aside for it, are not charged, now or later: they are logged, kept as
// evidence (Bill.EgressRefused), and what runs is not paid for from then on.
func (s *Service) RecordEgress(ctx context.Context, tx *store.Tx, leaseID string, totalBytes int64, at time.Time) error {
	a, l, err := s.lockOne(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	if totalBytes <= l.egressClaimed || !l.ended.IsZero() {
		return nil
	}
	now := s.cfg.Clock()
	at = earliest(at, now)
	// A minute more, for the clocks and for what went out before the first report.
	seconds := int64(60)
	for _, run := range usageUntil(l, at, at, time.Time{}).Compute {
		seconds += int64(max(0, run.End.Sub(run.Start)) / time.Second)
	}
	if totalBytes/maxEgressPerSecond > seconds {
		return fault.New(fault.Invalid, "egress_implausible",
			"lease %s is said to have sent %d bytes in %d s of running, more than any network here carries; the figure is not used", leaseID, totalBytes, seconds)
	}
	fresh, reason, err := s.affordable(ctx, tx, a, l, totalBytes-l.egressClaimed, now)
	if err != nil {
		return fmt.Errorf("record egress of lease %s: %w", leaseID, err)
	}
	refused := totalBytes - l.egressClaimed - fresh
	l.egressBytes, l.egressClaimed = l.egressBytes+fresh, totalBytes
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET egress_bytes = ?, egress_claimed = ? WHERE lease_id = ?`, l.egressBytes, l.egressClaimed, leaseID); err != nil {
		return fmt.Errorf("record egress of lease %s: %w", leaseID, err)
	}
	if refused == 0 {
		return nil
	}
	s.cfg.Log.WarnContext(ctx, "a host claims more egress than there is money for; the rest is not charged",
		"lease", leaseID, "account", l.accountID, "provider", l.providerID, "claimed_bytes", totalBytes, "charged_bytes", l.egressBytes, "refused_bytes", refused, "reason", string(reason))
	return s.limit(ctx, tx, l, now, reason)
}

// affordable returns how many of the bytes that a lease is newly said to have sent
// there is money for, and what ends them if that is not all. The caller holds the
// account's lock and records them.
func (s *Service) affordable(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, fresh int64, now time.Time) (int64, Reason, error) {
	cost := func(bytes int64) (money.Amount, error) {
		due, err := pricing.Due(l.quote, pricing.Usage{EgressBytes: l.egressBytes + bytes})
		return due[pricing.Egress], err
	}
	known, err := cost(0)
	if err != nil {
		return 0, "", err
	}
	// Beyond any price that fits there is certainly no money; see the search below.
	all, tooMuch := cost(fresh)
	price := all - known
	if tooMuch == nil && l.cap == 0 && s.spend(l, price, now) {
		return fresh, "", nil
	}
	defer s.changed(a.id) // also if nothing comes of this transaction
	if tooMuch == nil && l.cap == 0 && price <= tinyEgress && a.exhaustedAt.IsZero() {
		return fresh, "", nil
	}
	left, reason, err := s.leftFor(ctx, tx, a, l, now)
	if err != nil {
		return 0, "", err
	}
	if tooMuch == nil && price <= left {
		return fresh, "", nil
	}
	n := sort.Search(int(fresh), func(i int) bool {
		c, err := cost(int64(i) + 1)
		return err != nil || c-known > left
	})
	return int64(n), reason, nil
}

// leftFor returns what a lease may still cost, and what bounds it: its spending
// cap, or what its account has available and set aside for it.
func (s *Service) leftFor(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, now time.Time) (money.Amount, Reason, error) {
	leases, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return 0, "", err
	}
	o, err := s.lookAt(ctx, tx, a.id, a.currency, leases, now)
	if err != nil {
		return 0, "", err
	}
	_, held, _, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return 0, "", err
	}
	onCredit, err := s.onCredit(ctx, tx, a.id, a.credit, held)
	if err != nil {
		return 0, "", err
	}
	held += onCredit
	var others money.Amount // set aside for them
	for _, other := range leases {
		if other.id != l.id {
			others += other.hold
		}
	}
	left, reason := o.funds-min(held, others), ReasonBalance
	if l.cap == 0 {
		return left, reason, nil
	}
	if i := slices.IndexFunc(leases, func(o *leaseRow) bool { return o.id == l.id }); i >= 0 {
		due, err := dueBy(leases[i], now, time.Time{})
		if err != nil {
			return 0, "", err
		}
		if under := l.cap - due; under < left {
			left, reason = under, ReasonSpendingCap
		}
	}
	return left, reason, nil
}

// spend takes the price of egress from what an account's outlook has to spare, and
// reports whether it has so much; that needs no look at the account's leases.
func (s *Service) spend(l *leaseRow, price money.Amount, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.outlooks[l.accountID]
	if !s.plenty(o, l.id, now) || o.spare < price {
		return false
	}
	o.spare, o.funds = o.spare-price, o.funds-price
	s.outlooks[l.accountID] = o
	return true
}
