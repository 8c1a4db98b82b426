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
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// CodeVolume is the code of transfers that give back what a month's volume takes off.
const CodeVolume = "volume_discount"

// GrantVolume is the kind of the grant by which a month's volume discount is given: it
// is spent when the month is closed, and by nothing else.
const GrantVolume = "volume_discount"

// maxTiers bounds what is looked through for each month.
const maxTiers = 50

// VolumeTiers are what a calendar month's compute takes off for accounts in a currency.
type VolumeTiers struct {
	ID       string
	Currency money.Currency
	Tiers    []pricing.Tier // none: nothing is taken off
	SetBy    string         // a user
	SetAt    time.Time      // they are for months that begin later
}

// SetVolumeTiers sets what months that begin from now on take off, for all accounts in
// a currency. It is an Invalid fault "invalid_tiers" if they are not in order, or take
// off less than nothing or more than all. It is an operator's act.
func (s *Service) SetVolumeTiers(ctx context.Context, p account.Principal, currency money.Currency, tiers []pricing.Tier) (VolumeTiers, error) {
	if !p.May(account.Operate) {
		return VolumeTiers{}, fault.New(fault.Forbidden, "forbidden", "only an operator can set volume discounts")
	}
	if !currency.Valid() {
		return VolumeTiers{}, fault.New(fault.Invalid, "invalid_tiers", "tiers in %q; want CNY or USD", currency).At("body.currency")
	}
	if len(tiers) > maxTiers {
		return VolumeTiers{}, fault.New(fault.Invalid, "invalid_tiers", "%d tiers; want at most %d", len(tiers), maxTiers).At("body.tiers")
	}
	if _, err := pricing.VolumeDiscount(tiers, 0); err != nil {
		return VolumeTiers{}, fault.New(fault.Invalid, "invalid_tiers", "%v", err).At("body.tiers")
	}
	if tiers == nil {
		tiers = []pricing.Tier{}
	}
	text, err := json.Marshal(tiers)
	if err != nil {
		return VolumeTiers{}, fmt.Errorf("set volume discounts: %w", err)
	}
	out := VolumeTiers{ID: ident.New(ident.Tiers), Currency: currency, Tiers: tiers, SetBy: p.UserID, SetAt: s.cfg.Clock().UTC().Truncate(time.Microsecond)}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_volume_tiers (id, currency, tiers, set_by, set_at) VALUES (?, ?, ?, ?, ?)`, out.ID, string(currency), string(text), p.UserID, store.Micros(out.SetAt)); err != nil {
			return err
		}
		return s.audit(ctx, tx, p, "volume.set", out.ID, map[string]string{"currency": string(currency), "tiers": string(text)})
	})
	if err != nil {
		return VolumeTiers{}, fmt.Errorf("set volume discounts: %w", err)
	}
	return out, nil
}

// AllVolumeTiers lists what was set, newest first.
func (s *Service) AllVolumeTiers(ctx context.Context) ([]VolumeTiers, error) {
	var out []VolumeTiers
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = volumeTiers(ctx, tx, `1 = 1`)
		return err
	})
	return out, err
}

func volumeTiers(ctx context.Context, tx *store.Tx, where string, args ...any) ([]VolumeTiers, error) {
	rows, err := tx.Query(ctx, `SELECT id, currency, tiers, set_by, set_at FROM billing_volume_tiers WHERE `+where+` ORDER BY set_at DESC, id DESC`, args...)
	if err != nil {
		return nil, fmt.Errorf("read volume discounts: %w", err)
	}
	defer rows.Close()
	var out []VolumeTiers
	for rows.Next() {
		var v VolumeTiers
		var text []byte
		var at int64
		if err := rows.Scan(&v.ID, &v.Currency, &text, &v.SetBy, &at); err != nil {
			return nil, fmt.Errorf("read volume discounts: %w", err)
		}
		if err := json.Unmarshal(text, &v.Tiers); err != nil {
			return nil, fmt.Errorf("read volume discount %s: %w", v.ID, err)
		}
		v.SetAt = store.Time(at)
		out = append(out, v)
	}
	return out, rows.Err()
}

// volumePart is what a lease has of a month's discount.
type volumePart struct {
	lease        string
	base, amount money.Amount
}

// volumeOf computes what a month takes off: by the tiers that were set last before it
// began, of what the account itself paid for compute on demand and on the spot market
// that is booked in it, shared out by the leases' parts. Corrections count in the month
// in which they are booked.
func (s *Service) volumeOf(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, p period) (VolumeTiers, money.Amount, []volumePart, error) {
	var none VolumeTiers
	set, err := volumeTiers(ctx, tx, `currency = ? AND set_at < ?`, string(currency), store.Micros(p.start))
	if err != nil || len(set) == 0 || len(set[0].Tiers) == 0 {
		return none, 0, nil, err
	}
	rows, err := tx.Query(ctx, `SELECT lease_id, CAST(SUM(amount - granted) AS BIGINT) FROM billing_charges
		WHERE account_id = ? AND meter = ? AND booked_at > ? AND booked_at <= ? AND id NOT IN (SELECT charge_id FROM billing_volumes WHERE account_id = ?)
		AND lease_id NOT IN (SELECT lease_id FROM billing_monthly) AND lease_id NOT IN (SELECT lease_id FROM billing_reserved) GROUP BY lease_id ORDER BY lease_id`,
		accountID, string(pricing.Compute), store.Micros(p.start), store.Micros(p.end), accountID)
	if err != nil {
		return none, 0, nil, fmt.Errorf("compute of a month: %w", err)
	}
	defer rows.Close()
	var total money.Amount
	var parts []volumePart
	var weights []int64
	for rows.Next() {
		var v volumePart
		if err := rows.Scan(&v.lease, &v.base); err != nil {
			return none, 0, nil, fmt.Errorf("compute of a month: %w", err)
		}
		if total, err = total.Add(v.base); err != nil {
			return none, 0, nil, err
		}
		if v.base > 0 {
			parts, weights = append(parts, v), append(weights, int64(v.base))
		}
	}
	if err := rows.Err(); err != nil {
		return none, 0, nil, fmt.Errorf("compute of a month: %w", err)
	}
	off, err := pricing.VolumeDiscount(set[0].Tiers, max(0, total))
	if err != nil || off == 0 {
		return set[0], total, nil, err
	}
	shares, err := pricing.Allocate(off, weights)
	if err != nil {
		return none, 0, nil, err
	}
	for i := range parts {
		parts[i].amount = shares[i]
	}
	return set[0], total, slices.DeleteFunc(parts, func(v volumePart) bool { return v.amount == 0 }), nil
}

// volume gives what a month that is being closed takes off, before its invoice is
// written: as a grant that is spent at once on the month's compute, so that it is a
// discount on the invoice, without tax, and the provider keeps its part.
func (s *Service) volume(ctx context.Context, tx *store.Tx, a *accountRow, p period, now time.Time) error {
	tiers, _, parts, err := s.volumeOf(ctx, tx, a.id, a.currency, p)
	if err != nil || len(parts) == 0 {
		return err
	}
	// Before the ledger's accounts, in the order of locks.
	if _, err := s.nextNumber(ctx, tx, invoiceSeries); err != nil {
		return err
	}
	g := Grant{ID: ident.New(ident.Grant), AccountID: a.id, Kind: GrantVolume, Currency: a.currency, Meters: []pricing.Meter{pricing.Compute},
		ActiveFrom: p.start, ExpiresAt: p.end, Reference: tiers.ID, CreatedAt: now}
	for _, v := range parts {
		g.Amount += v.amount
	}
	if err := s.give(ctx, tx, a, g, "volume:"+a.id+":"+p.start.Format(time.RFC3339Nano), now); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE billing_grants SET spent = cap, expired = 1 WHERE id = ?`, g.ID); err != nil {
		return fmt.Errorf("volume discount of %s: %w", a.id, err)
	}
	var batch []ledger.Transfer
	for _, v := range parts {
		l, err := s.lease(ctx, tx, v.lease)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_draws (grant_id, lease_id, meter, amount) VALUES (?, ?, ?, ?)`, g.ID, l.id, string(pricing.Compute), int64(v.amount)); err != nil {
			return fmt.Errorf("volume discount of %s: %w", a.id, err)
		}
		id, _, _, err := s.insertCharge(ctx, tx, a, l, pricing.Compute, l.posted[pricing.Compute], v.amount, latest(p.start, earliest(l.begun, p.end)), p.end, nil)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_volumes (charge_id, grant_id, tiers_id, account_id, lease_id, start_at, end_at, base, amount) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, g.ID, tiers.ID, a.id, l.id, store.Micros(p.start), store.Micros(p.end), int64(v.base), int64(v.amount)); err != nil {
			return fmt.Errorf("volume discount of %s: %w", a.id, err)
		}
		batch = append(batch, s.transfer(a, ledger.Grant(a.id), ledger.Wallet(a.id), v.amount, CodeVolume, id, p.end))
	}
	if err := s.cfg.Ledger.Post(ctx, tx, batch...); err != nil {
		return fmt.Errorf("volume discount of %s: %w", a.id, err)
	}
	return s.rebalance(ctx, tx, a, now)
}

// volumeRow is a row of billing_volumes.
type volumeRow struct {
	volumePart
	charge, grant, tiers, account string
	month                         period
}

func volumeRows(ctx context.Context, tx *store.Tx, where string, args ...any) ([]volumeRow, error) {
	rows, err := tx.Query(ctx, `SELECT charge_id, grant_id, tiers_id, account_id, lease_id, start_at, end_at, base, amount FROM billing_volumes WHERE `+where+` ORDER BY lease_id`, args...)
	if err != nil {
		return nil, fmt.Errorf("read volume discounts: %w", err)
	}
	defer rows.Close()
	var out []volumeRow
	for rows.Next() {
		var v volumeRow
		var start, end int64
		if err := rows.Scan(&v.charge, &v.grant, &v.tiers, &v.account, &v.lease, &start, &end, &v.base, &v.amount); err != nil {
			return nil, fmt.Errorf("read volume discounts: %w", err)
		}
		v.month = period{store.Time(start), store.Time(end)}
		out = append(out, v)
	}
	return out, rows.Err()
}

// explainVolume says how a charge came to be that is a lease's part of a month's
// discount; not if it is none.
func (s *Service) explainVolume(ctx context.Context, tx *store.Tx, e *Explanation, c chargeRow) (bool, error) {
	found, err := volumeRows(ctx, tx, `charge_id = ?`, c.ID)
	if err != nil || len(found) == 0 {
		return false, err
	}
	v := found[0]
	tiers, total, parts, err := s.volumeOf(ctx, tx, c.AccountID, c.Currency, v.month)
	if err != nil {
		return false, err
	}
	var off, part money.Amount
	for _, x := range parts {
		off += x.amount
		if x.lease == v.lease {
			part = x.amount
		}
	}
	e.say("volume", "from", e.time(v.month.start), "to", e.time(v.month.end), "total", total.String(), "tiers", tiers.ID)
	for i, t := range tiers.Tiers {
		if total <= t.From {
			break
		}
		until := total
		if i+1 < len(tiers.Tiers) {
			until = min(until, tiers.Tiers[i+1].From)
		}
		e.say("volume_tier", "from", t.From.String(), "within", (until - t.From).String(), "off", percent(t.BasisPoints))
	}
	e.say("volume_part", "off", off.String(), "base", v.base.String(), "part", part.String())
	e.Recomputed = part - c.granted // the charge itself is of nothing
	return true, nil
}

// explainVolumeTransfer says of which charge a transfer gave a discount back.
func (s *Service) explainVolumeTransfer(ctx context.Context, tx *store.Tx, e *Explanation, t ledger.Transfer) error {
	found, err := volumeRows(ctx, tx, `charge_id = ?`, t.Reference)
	if err != nil {
		return err
	}
	e.Recomputed = 0
	for _, v := range found {
		e.Recomputed, e.LeaseID = v.amount, v.lease
		e.say("of_volume", "charge", v.charge, "lease", v.lease)
	}
	return nil
}

// verifyVolumes computes the discount of every month that is closed again.
func (s *Service) verifyVolumes(ctx context.Context, tx *store.Tx, r *Report) error {
	all, err := volumeRows(ctx, tx, `1 = 1`)
	if err != nil {
		return err
	}
	type month struct {
		account string
		start   int64
	}
	given := map[month][]volumeRow{}
	for _, v := range all {
		k := month{v.account, store.Micros(v.month.start)}
		given[k] = append(given[k], v)
	}
	var first int64
	if err := tx.QueryRow(ctx, `SELECT COALESCE(MIN(set_at), 0) FROM billing_volume_tiers`).Scan(&first); err != nil || first == 0 {
		return errors.Join(err)
	}
	rows, err := tx.Query(ctx, `SELECT account_id, currency, start_at, end_at FROM billing_statements WHERE start_at > ? ORDER BY account_id, start_at`, first)
	if err != nil {
		return fmt.Errorf("read statements: %w", err)
	}
	type closed struct {
		account  string
		currency money.Currency
		p        period
	}
	var months []closed
	for rows.Next() {
		var c closed
		var start, end int64
		if err := rows.Scan(&c.account, &c.currency, &start, &end); err != nil {
			rows.Close()
			return fmt.Errorf("read statements: %w", err)
		}
		c.p = period{store.Time(start), store.Time(end)}
		months = append(months, c)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read statements: %w", err)
	}
	for _, c := range months {
		k := month{c.account, store.Micros(c.p.start)}
		got := given[k]
		delete(given, k)
		tiers, total, want, err := s.volumeOf(ctx, tx, c.account, c.currency, c.p)
		if err != nil {
			return err
		}
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i].volumePart != want[i] || got[i].tiers != tiers.ID || !got[i].month.end.Equal(c.p.end) {
				r.wrong(c.account, "what its compute of %s in the month from %s takes off is not what was given: %d parts by the tiers %s, and %d were given", total, c.p.start.Format(time.RFC3339), len(want), tiers.ID, len(got))
				break
			}
		}
	}
	for k := range given {
		r.wrong(k.account, "it was given a volume discount of the month from %s, which is not closed or has none", store.Time(k.start).Format(time.RFC3339))
	}
	return nil
}
