package billing

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// The codes of billing's transfers.
const (
	CodeDeposit    = "deposit"
	CodeHold       = "hold"
	CodeRelease    = "release"
	CodeCharge     = "charge"
	CodeCorrection = "correction"      // usage turned out to be less than was charged
	CodeRepayment  = "repayment"       // of debt
	CodePrepayment = "prepayment"      // of months
	CodeUnusedPaid = "prepayment_back" // of months not used
)

// leg is money on one side of a charge.
type leg struct {
	path   string
	amount money.Amount
}

// chargeCodes are the codes of the transfers of a charge, and of what comes back.
type chargeCodes struct{ out, back string }

// chargeUntil posts the difference between what is due for a lease and what has
// been posted, for each meter, with the provider's share and the platform's. Where
// a grant begins or ends in between, it is charged up to there first, so that a
// grant pays for use in its time and no other. See charge, which cuts at the ends of
// months.
func (s *Service) chargeUntil(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, at time.Time) error {
	// A clock that was set back gives nothing back.
	at = latest(at, l.settled)
	grants, err := s.usableGrants(ctx, tx, a.id)
	if err != nil {
		return fmt.Errorf("charge lease %s: %w", l.id, err)
	}
	grants = slices.DeleteFunc(grants, func(g *Grant) bool { return g.ExpiresAt.IsZero() })
	from := latest(l.begun, l.settled)
	for _, cut := range cuts(grants, from, at) {
		if err := s.chargeStretch(ctx, tx, a, l, grants, from, cut, false); err != nil {
			return fmt.Errorf("charge lease %s: %w", l.id, err)
		}
		from = cut
	}
	if err := s.chargeStretch(ctx, tx, a, l, grants, from, at, true); err != nil {
		return fmt.Errorf("charge lease %s: %w", l.id, err)
	}
	return nil
}

// chargeStretch charges what came to be due from one moment to another, bytes only
// if it is the last stretch.
func (s *Service) chargeStretch(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, grants []*Grant, from, at time.Time, last bool) error {
	usage := s.usage(l, at)
	due, err := l.rated(usage)
	if err != nil {
		return err
	}
	apart, err := s.sharesApart(ctx, tx, l, usage)
	if err != nil {
		return err
	}
	var spends []pricing.Spend
	for _, m := range pricing.Meters {
		if delta := due[m] - l.posted[m]; delta > 0 && (last || timed(m)) {
			spends = append(spends, pricing.Spend{Reference: l.id, Meter: m, GPUModel: l.gpuModel, From: from, Until: latest(from, at), Amount: delta})
		}
	}
	draws, err := draw(grants, spends, at)
	if err != nil {
		return err
	}
	granted, shares, err := s.drawn(ctx, tx, l, grants, spends, draws)
	if err != nil {
		return err
	}
	var out, back struct{ provider, commission, granted money.Amount }
	var earned money.Amount
	var lost money.Amount
	for _, m := range pricing.Meters {
		delta := due[m] - l.posted[m]
		if delta == 0 && apart[m] == (share{}) || (!last && !timed(m)) {
			continue
		}
		side := &out
		if delta < 0 {
			// A correction gives back to grants what they paid for this meter, first.
			// Of what shares leave, as they were taken first.
			parts, live, gone, err := s.unshared(ctx, tx, l, m, -delta)
			if err != nil {
				return err
			}
			rest, over, err := s.undrawn(ctx, tx, l, m, -delta-live-gone)
			if err != nil {
				return err
			}
			live, gone = live+rest, gone+over
			side, granted[m], lost, shares[m] = &back, -live-gone, lost+gone, parts
		}
		id, p, c, err := s.insertCharge(ctx, tx, a, l, m, due[m], granted[m], from, latest(from, at), apart)
		if err != nil {
			return err
		}
		if err := saveShared(ctx, tx, id, shares[m]); err != nil {
			return err
		}
		earned += apart[m].earned
		side.provider, side.commission, side.granted = side.provider+p, side.commission+c, side.granted+granted[m]
	}
	// What comes back and what is owed are posted apart: what grants paid for one
	// meter must not pay for another's use in the wallet's stead.
	batch, err := s.chargeTransfers(ctx, tx, a, l, back.provider, back.commission, at, chargeCodes{CodeCharge, CodeCorrection}, back.granted)
	if err != nil {
		return err
	}
	if lost > 0 {
		batch = append(batch, s.transfer(a, ledger.Grant(a.id), ledger.Promotions, lost, CodeGrantExpired, l.id, at))
	}
	owed, err := s.chargeTransfers(ctx, tx, a, l, out.provider, out.commission, at, chargeCodes{CodeCharge, CodeCorrection}, out.granted)
	if err != nil {
		return err
	}
	batch = append(batch, owed...)
	batch = append(batch, s.soldTransfers(a, l, earned, at, chargeCodes{CodeCharge, CodeCorrection})...)
	told := l.measured
	if err := s.tell(ctx, tx, l, usage, at, last); err != nil {
		return err
	}
	if len(batch) == 0 && told == l.measured {
		return nil
	}
	// The sign of life that was relied on must survive a restart, or what is due
	// would fall under what is posted.
	if seen := s.lastAlive(l.id); !seen.IsZero() {
		l.confirmed = latest(l.confirmed, earliest(seen, at))
	}
	if len(batch) == 0 {
		return l.saveMeasured(ctx, tx)
	}
	if err := s.cfg.Ledger.Post(ctx, tx, batch...); err != nil {
		return err
	}
	l.settled = latest(l.settled, at)
	return l.savePosted(ctx, tx)
}

// insertCharge writes the charge that brings what is posted of a meter to due, and
// returns its identifier and the provider's and the platform's part of it. Grants pay granted of it;
// less than 0: that much goes back to them.
func (s *Service) insertCharge(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, m pricing.Meter, due, granted money.Amount, from, to time.Time, apart map[pricing.Meter]share) (id string, provider, commission money.Amount, err error) {
	p, c, err := shareOf(due, l.posted[m], l.quote.Tariff.CommissionBasisPoints)
	if err != nil {
		return "", 0, 0, err
	}
	own := share{}
	if apart != nil {
		own = apart[m]
		p, c = own.provider, due-l.posted[m]-own.provider
	}
	id = ident.New(ident.Charge)
	simulated := 0
	if l.simulated {
		simulated = 1
	}
	booked, err := s.bookedAt(ctx, tx, a.id, to)
	if err != nil {
		return "", 0, 0, err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_charges (id, lease_id, account_id, provider_id, meter, currency, amount, provider, commission, granted, listed, earned, earned_currency, simulated, from_at, to_at, posted_at, booked_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, l.id, l.accountID, l.providerID, string(m), string(a.currency), int64(due-l.posted[m]), int64(p), int64(c), int64(granted), int64(own.listed), int64(own.earned), string(l.earnsIn()), simulated,
		store.Micros(from), store.Micros(to), store.Micros(s.cfg.Clock()), store.Micros(booked)); err != nil {
		return "", 0, 0, err
	}
	l.posted[m] = due
	return id, p, c, nil
}

// savePosted writes what is posted of a lease, and what the posting relied on.
func (l *leaseRow) savePosted(ctx context.Context, tx *store.Tx) error {
	args := make([]any, 0, len(pricing.Meters)+7)
	for _, m := range pricing.Meters {
		args = append(args, int64(l.posted[m]))
	}
	args = append(args, store.Micros(l.confirmed), store.Micros(l.settled), l.measured.totals[0], l.measured.totals[1], l.measured.totals[2], store.Micros(l.measured.at), l.id)
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET `+postedColumns(" = ?, ")+` = ?, confirmed_at = ?, settled_at = ?, measured_compute = ?, measured_storage = ?, measured_egress = ?, measured_at = ? WHERE lease_id = ?`, args...); err != nil {
		return fmt.Errorf("charge lease %s: %w", l.id, err)
	}
	return nil
}

// shareOf returns how much the provider's and the platform's shares grow when a
// meter's total goes from posted to due.
func shareOf(due, posted money.Amount, commissionBasisPoints int64) (provider, commission money.Amount, err error) {
	p1, c1, err := pricing.Split(due, commissionBasisPoints)
	if err != nil {
		return 0, 0, err
	}
	p0, c0, err := pricing.Split(posted, commissionBasisPoints)
	return p1 - p0, c1 - c0, err
}

// chargeTransfers moves provider and commission out of what grants have given for
// it, then the renter's wallet, then its hold, then into debt; or, where they are
// negative, -given back to the grants that have paid for it, and the rest to the
// wallet. Where one of them is negative and the other is not, it pays the other.
func (s *Service) chargeTransfers(ctx context.Context, tx *store.Tx, a *accountRow, l *leaseRow, provider, commission money.Amount, at time.Time, codes chargeCodes, given money.Amount) ([]ledger.Transfer, error) {
	if provider == 0 && commission == 0 {
		return nil, nil
	}
	wallet, hold, _, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return nil, err
	}
	var owed, back []leg
	for _, to := range []leg{{l.payee(), provider}, {ledger.Commission, commission}} {
		if to.amount > 0 {
			owed = append(owed, to)
		}
		if to.amount < 0 {
			back = append(back, leg{to.path, -to.amount})
		}
	}
	var batch []ledger.Transfer
	spread := func(from, to []leg, code string) {
		for i := range from {
			for j := range to {
				part := min(from[i].amount, to[j].amount)
				if part <= 0 {
					continue
				}
				batch = append(batch, s.transfer(a, from[i].path, to[j].path, part, code, l.id, at))
				from[i].amount -= part
				to[j].amount -= part
			}
		}
	}
	const all = 1<<62 - 1
	// What the platform adds to a price of the account's own is the provider's first.
	spread(back, owed, codes.out)
	spread(back, []leg{{ledger.Grant(a.id), -given}, {ledger.Wallet(a.id), all}}, codes.back)
	spread([]leg{{ledger.Grant(a.id), given}, {ledger.Wallet(a.id), wallet}, {ledger.Hold(a.id), hold}, {ledger.Receivable(a.id), all}}, owed, codes.out)
	return batch, nil
}

// transfer makes a transfer of an account's next key. The account's row must be
// saved in the same transaction.
func (s *Service) transfer(a *accountRow, debit, credit string, amount money.Amount, code, reference string, at time.Time) ledger.Transfer {
	a.sequence++
	return ledger.Transfer{
		Key:   ledger.Key(at, a.id, strconv.FormatInt(a.sequence, 10)),
		Debit: debit, Credit: credit, Amount: amount, Currency: a.currency, Code: code, Reference: reference, EffectiveAt: at,
	}
}

// funds returns an account's wallet and hold, at least 0, and debt, at most 0.
func (s *Service) funds(ctx context.Context, tx *store.Tx, accountID string, c money.Currency) (wallet, hold, debt money.Amount, err error) {
	if wallet, err = s.cfg.Ledger.Balance(ctx, tx, ledger.Wallet(accountID), c); err != nil {
		return 0, 0, 0, err
	}
	if hold, err = s.cfg.Ledger.Balance(ctx, tx, ledger.Hold(accountID), c); err != nil {
		return 0, 0, 0, err
	}
	debt, err = s.cfg.Ledger.Balance(ctx, tx, ledger.Receivable(accountID), c)
	return wallet, hold, debt, err
}

// holds returns what the open leases of an account want set aside together.
func (s *Service) holds(ctx context.Context, tx *store.Tx, accountID string) (money.Amount, error) {
	var want money.Amount
	err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(hold), 0) AS BIGINT) FROM billing_leases WHERE account_id = ? AND ended_at = 0`, accountID).Scan(&want)
	if err != nil {
		return 0, fmt.Errorf("holds of %s: %w", accountID, err)
	}
	return want, nil
}

// rebalance gives back what is held beyond the open leases' holds, pays debt from
// the wallet, and fills the hold up again from what is left. It saves the account.
func (s *Service) rebalance(ctx context.Context, tx *store.Tx, a *accountRow, at time.Time) error {
	want, err := s.holds(ctx, tx, a.id)
	if err != nil {
		return err
	}
	return s.rebalanceTo(ctx, tx, a, want, at)
}

// rebalanceTo is rebalance for known holds.
func (s *Service) rebalanceTo(ctx context.Context, tx *store.Tx, a *accountRow, want money.Amount, at time.Time) error {
	wallet, hold, debt, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return fmt.Errorf("rebalance %s: %w", a.id, err)
	}
	var batch []ledger.Transfer
	move := func(from, to string, amount money.Amount, code string) {
		if amount > 0 {
			batch = append(batch, s.transfer(a, from, to, amount, code, a.id, at))
		}
	}
	release := max(0, hold-want)
	move(ledger.Hold(a.id), ledger.Wallet(a.id), release, CodeRelease)
	wallet, hold = wallet+release, hold-release
	repay := max(0, min(wallet, -debt))
	move(ledger.Wallet(a.id), ledger.Receivable(a.id), repay, CodeRepayment)
	wallet -= repay
	move(ledger.Wallet(a.id), ledger.Hold(a.id), min(wallet, max(0, want-hold)), CodeHold)
	if err := s.cfg.Ledger.Post(ctx, tx, batch...); err != nil {
		return fmt.Errorf("rebalance %s: %w", a.id, err)
	}
	return a.save(ctx, tx)
}
