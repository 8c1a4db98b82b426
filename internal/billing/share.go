package billing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// shared is what a grant of a share pays of one charge, or gives back to it.
type shared struct {
	grantID      string
	base, amount money.Amount
}

// loadTaken reads what grants of a share were taken of, and what they have paid.
func loadTaken(ctx context.Context, tx *store.Tx, grants []*Grant) error {
	for _, g := range grants {
		if g.SharePPM == 0 {
			continue
		}
		g.taken = map[pricing.SpendKey]pricing.Taken{}
		rows, err := tx.Query(ctx, `SELECT lease_id, meter, base, amount FROM billing_draws WHERE grant_id = ?`, g.ID)
		if err != nil {
			return fmt.Errorf("draws of grant %s: %w", g.ID, err)
		}
		for rows.Next() {
			var k pricing.SpendKey
			var t pricing.Taken
			if err := rows.Scan(&k.Reference, &k.Meter, &t.Base, &t.Amount); err != nil {
				rows.Close()
				return fmt.Errorf("draws of grant %s: %w", g.ID, err)
			}
			g.taken[k] = t
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return fmt.Errorf("draws of grant %s: %w", g.ID, err)
		}
	}
	return nil
}

// unshared takes what is not due of a meter of a lease out of what shares were taken
// of, in the order in which they paid, and gives back what they paid too much. live
// goes to grants that can still be used, lost to those that are over.
func (s *Service) unshared(ctx context.Context, tx *store.Tx, l *leaseRow, m pricing.Meter, amount money.Amount) (parts []shared, live, lost money.Amount, err error) {
	grants, err := s.loadGrants(ctx, tx, `share_ppm > 0 AND id IN (SELECT grant_id FROM billing_draws WHERE lease_id = ? AND meter = ? AND base > 0)`, l.id, string(m))
	if err != nil || len(grants) == 0 {
		return nil, 0, 0, err
	}
	if err := loadTaken(ctx, tx, grants); err != nil {
		return nil, 0, 0, err
	}
	slices.SortFunc(grants, inOrder)
	for _, g := range grants {
		taken := g.taken[pricing.SpendKey{Reference: l.id, Meter: m}]
		base := min(taken.Base, amount-live-lost)
		back, err := taken.Less(base, g.SharePPM)
		if err != nil {
			return nil, 0, 0, fmt.Errorf("give back to grant %s: %w", g.ID, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_draws SET base = base - ?, amount = amount - ? WHERE grant_id = ? AND lease_id = ? AND meter = ?`, int64(base), int64(back), g.ID, l.id, string(m)); err != nil {
			return nil, 0, 0, fmt.Errorf("give back to grant %s: %w", g.ID, err)
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_grants SET spent = spent - ? WHERE id = ?`, int64(back), g.ID); err != nil {
			return nil, 0, 0, fmt.Errorf("give back to grant %s: %w", g.ID, err)
		}
		parts = append(parts, shared{g.ID, -base, -back})
		if g.expired {
			lost += back
		} else {
			live += back
		}
	}
	return parts, live, lost, nil
}

// inOrder is the order in which shares are taken.
func inOrder(a, b *Grant) int {
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.ID, b.ID))
}

// saveShared writes what shares paid of a charge.
func saveShared(ctx context.Context, tx *store.Tx, chargeID string, parts []shared) error {
	for _, p := range parts {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_shares (grant_id, number, charge_id, base, amount)
			SELECT ?, COALESCE(MAX(number), 0) + 1, ?, ?, ? FROM billing_shares WHERE grant_id = ?`, p.grantID, chargeID, int64(p.base), int64(p.amount), p.grantID); err != nil {
			return fmt.Errorf("share of charge %s: %w", chargeID, err)
		}
	}
	return nil
}

// explainShares says what coupons of a share paid of a charge.
func (s *Service) explainShares(ctx context.Context, tx *store.Tx, e *Explanation, c chargeRow) error {
	rows, err := tx.Query(ctx, `SELECT x.base, x.amount, g.id, g.reference, g.share_ppm, g.cap,
		CAST((SELECT COALESCE(SUM(o.base), 0) FROM billing_shares o JOIN billing_charges oc ON oc.id = o.charge_id WHERE o.grant_id = x.grant_id AND o.number < x.number AND oc.lease_id = ? AND oc.meter = ?) AS BIGINT),
		CAST((SELECT COALESCE(SUM(o.amount), 0) FROM billing_shares o JOIN billing_charges oc ON oc.id = o.charge_id WHERE o.grant_id = x.grant_id AND o.number < x.number AND oc.lease_id = ? AND oc.meter = ?) AS BIGINT),
		CAST((SELECT COALESCE(SUM(o.amount), 0) FROM billing_shares o WHERE o.grant_id = x.grant_id AND o.number < x.number) AS BIGINT)
		FROM billing_shares x JOIN billing_grants g ON g.id = x.grant_id WHERE x.charge_id = ? ORDER BY g.expires_at, g.id`, c.LeaseID, string(c.Meter), c.LeaseID, string(c.Meter), c.ID)
	if err != nil {
		return fmt.Errorf("shares of charge %s: %w", c.ID, err)
	}
	defer rows.Close()
	for rows.Next() {
		var base, amount, limit, all money.Amount
		var before pricing.Taken
		var id, code string
		var share int64
		if err := rows.Scan(&base, &amount, &id, &code, &share, &limit, &before.Base, &before.Amount, &all); err != nil {
			return fmt.Errorf("shares of charge %s: %w", c.ID, err)
		}
		values := []string{
			"grant", id, "coupon", code, "share", percentOf(share), "base", base.String(), "bases", (before.Base + base).String(), "before", before.Amount.String(),
			"part", amount.String(), "back", (-amount).String(), "less", (-base).String(), "cap", limit.Display(), "left", (limit - all).String(),
		}
		if base < 0 {
			e.say("share_back", values...)
			continue
		}
		e.say("share", values...)
		if full, err := before.More(base, 1<<62, share); err == nil && amount < full {
			e.say("share_full", values...)
		}
	}
	return rows.Err()
}

// sharedCharge is a row of billing_shares with its charge.
type sharedCharge struct {
	shared
	number         int64
	chargeID       string
	lease          string
	meter          pricing.Meter
	account, model string
	charged        money.Amount
	from, to       time.Time
}

// verifyShares proves what coupons of a share have paid: of each charge in their time
// their share, in order, of what coupons before them left, and never more than their
// cap in all.
func (s *Service) verifyShares(ctx context.Context, tx *store.Tx, r *Report) error {
	grants, err := s.loadGrants(ctx, tx, `share_ppm > 0`)
	if err != nil {
		return err
	}
	if len(grants) == 0 {
		var n int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM billing_shares`).Scan(&n); err != nil {
			return fmt.Errorf("read shares: %w", err)
		}
		if n > 0 {
			r.wrong("billing_shares", "%d shares of charges are by coupons that are none", n)
		}
		return nil
	}
	if err := loadTaken(ctx, tx, grants); err != nil {
		return err
	}
	slices.SortFunc(grants, inOrder)
	earlier := map[string]money.Amount{} // of a charge: what coupons before took
	for _, g := range grants {
		rows, err := sharesOf(ctx, tx, g.ID)
		if err != nil {
			return err
		}
		taken := map[pricing.SpendKey]pricing.Taken{}
		seen := map[string]bool{}
		var spent money.Amount
		for i, x := range rows {
			key := pricing.SpendKey{Reference: x.lease, Meter: x.meter}
			t := taken[key]
			seen[x.chargeID] = true
			var want money.Amount
			var err error
			rest := x.charged - earlier[x.chargeID]
			if x.base >= 0 {
				want, err = t.More(x.base, g.Amount-spent, g.SharePPM)
			} else if want, err = t.Less(-x.base, g.SharePPM); err == nil {
				want, rest = -want, -min(t.Base, -rest)
			}
			switch {
			case err != nil:
				r.wrong(x.chargeID, "what the coupon %s (%s) paid of it cannot be computed: %v", g.Reference, g.ID, err)
			case x.number != int64(i+1):
				r.wrong(g.ID, "what it paid has the number %d after %d: one is missing", x.number, i)
			case x.account != g.AccountID || !g.isFor(x.meter, x.model):
				r.wrong(x.chargeID, "the coupon %s (%s) paid of it, and it is not for it", g.Reference, g.ID)
			case x.base > 0 && (x.from.Before(g.ActiveFrom) || x.to.After(g.ExpiresAt)):
				r.wrong(x.chargeID, "the coupon %s (%s) paid of it, and is from %s until %s only", g.Reference, g.ID, g.ActiveFrom, g.ExpiresAt)
			case x.base != rest:
				r.wrong(x.chargeID, "the coupon %s (%s) paid a share of %s of it, and %s was left of it", g.Reference, g.ID, x.base, rest)
			case x.amount != want:
				r.wrong(x.chargeID, "the coupon %s (%s) paid %s of it, and by its share of %s %% it is %s", g.Reference, g.ID, x.amount, percentOf(g.SharePPM), want)
			}
			taken[key] = pricing.Taken{Base: t.Base + x.base, Amount: t.Amount + x.amount}
			spent += x.amount
			earlier[x.chargeID] += x.amount
		}
		for key, t := range taken {
			if g.taken[key] != t {
				r.wrong(g.ID, "it paid %s of %s for %s of lease %s by its charges, and %s of %s by its draws", t.Amount, t.Base, key.Meter, key.Reference, g.taken[key].Amount, g.taken[key].Base)
			}
		}
		if spent != g.Spent {
			r.wrong(g.ID, "%s of it is spent, and %s by what it paid of charges", g.Spent, spent)
		}
		if err := verifyUnshared(ctx, tx, r, g, seen, earlier); err != nil {
			return err
		}
	}
	return nil
}

func sharesOf(ctx context.Context, tx *store.Tx, grantID string) ([]sharedCharge, error) {
	rows, err := tx.Query(ctx, `SELECT x.grant_id, x.number, x.charge_id, x.base, x.amount, c.lease_id, c.meter, c.account_id, l.gpu_model, c.amount, c.from_at, c.to_at
		FROM billing_shares x JOIN billing_charges c ON c.id = x.charge_id JOIN billing_leases l ON l.lease_id = c.lease_id WHERE x.grant_id = ? ORDER BY x.number`, grantID)
	if err != nil {
		return nil, fmt.Errorf("read shares: %w", err)
	}
	defer rows.Close()
	var out []sharedCharge
	for rows.Next() {
		var x sharedCharge
		var from, to int64
		if err := rows.Scan(&x.grantID, &x.number, &x.chargeID, &x.base, &x.amount, &x.lease, &x.meter, &x.account, &x.model, &x.charged, &from, &to); err != nil {
			return nil, fmt.Errorf("read shares: %w", err)
		}
		x.from, x.to = store.Time(from), store.Time(to)
		out = append(out, x)
	}
	return out, rows.Err()
}

// verifyUnshared names charges that were posted in a coupon's time, that it is for, and
// of which it paid nothing. What is paid in advance is for no coupon.
func verifyUnshared(ctx context.Context, tx *store.Tx, r *Report, g *Grant, seen map[string]bool, earlier map[string]money.Amount) error {
	if g.ActiveFrom.IsZero() {
		return nil
	}
	rows, err := tx.Query(ctx, `SELECT c.id, c.meter, l.gpu_model, c.amount FROM billing_charges c JOIN billing_leases l ON l.lease_id = c.lease_id
		WHERE c.account_id = ? AND c.amount > 0 AND c.from_at >= ? AND c.to_at <= ? AND c.from_at < ? AND c.posted_at > ? AND c.posted_at <= ?
		AND c.lease_id NOT IN (SELECT lease_id FROM billing_prepayments) AND c.lease_id NOT IN (SELECT lease_id FROM billing_reserved) ORDER BY c.id`,
		g.AccountID, store.Micros(g.ActiveFrom), store.Micros(g.ExpiresAt), store.Micros(g.ExpiresAt), store.Micros(g.CreatedAt), store.Micros(g.ExpiresAt))
	if err != nil {
		return fmt.Errorf("read charges of coupons: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, model string
		var m pricing.Meter
		var amount money.Amount
		if err := rows.Scan(&id, &m, &model, &amount); err != nil {
			return fmt.Errorf("read charges of coupons: %w", err)
		}
		if g.isFor(m, model) && !seen[id] && amount > earlier[id] {
			r.wrong(id, "the coupon %s (%s) is for it, and it paid nothing of it", g.Reference, g.ID)
		}
	}
	return rows.Err()
}
