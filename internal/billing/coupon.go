package billing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Coupon is a code by which accounts give themselves a grant, each once.
type Coupon struct {
	Rule      pricing.Coupon
	ValidFor  time.Duration // of the grant, from when it is redeemed
	Used      int64         // by so many accounts
	CreatedAt time.Time
}

// CreateCoupon makes a coupon, as operators write it: see pricing.ParseCoupon. One of
// a share that does not say up to what sum is an Invalid fault "coupon_share", since
// the sum is set aside when it is redeemed.
func (s *Service) CreateCoupon(ctx context.Context, p account.Principal, rule string, validFor time.Duration) (Coupon, error) {
	if !p.May(account.Operate) {
		return Coupon{}, fault.New(fault.Forbidden, "forbidden", "only an operator can make coupons")
	}
	r, err := pricing.ParseCoupon(rule)
	if err != nil {
		return Coupon{}, fault.New(fault.Invalid, "invalid_coupon", "%v", err).At("body.rule")
	}
	if r.Fixed == 0 && r.UpTo == 0 {
		return Coupon{}, fault.New(fault.Invalid, "coupon_share", "coupon %s takes off a share of anything; say up to what sum, such as \"WELCOME 10%% upto=50.00CNY\"", r.Code).At("body.rule")
	}
	if err := checkLargest(max(r.Fixed, r.UpTo), "body.rule"); err != nil {
		return Coupon{}, err
	}
	now := s.cfg.Clock()
	if !r.Until.IsZero() && !r.Until.After(now) {
		return Coupon{}, fault.New(fault.Invalid, "invalid_coupon", "coupon %s is over at %s; want a time to come", r.Code, r.Until.Format(time.RFC3339)).At("body.rule")
	}
	if validFor < time.Second || validFor > maxGrantFor || validFor%time.Second != 0 {
		return Coupon{}, fault.New(fault.Invalid, "invalid_grant", "valid for %d seconds: want 1 to %d", int64(validFor/time.Second), int64(maxGrantFor/time.Second)).At("body.valid_seconds")
	}
	c := Coupon{Rule: r, ValidFor: validFor, CreatedAt: now}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_coupons (code, rule, valid_seconds, used, created_at) VALUES (?, ?, ?, 0, ?)`,
			r.Code, r.String(), int64(validFor/time.Second), store.Micros(now)); store.IsUnique(err) {
			return fault.New(fault.Conflict, "coupon_exists", "there is a coupon %s already; choose another code", r.Code)
		} else if err != nil {
			return err
		}
		if s.cfg.Audit == nil {
			return nil
		}
		return s.cfg.Audit(ctx, tx, p, "coupon.create", r.Code, map[string]string{"rule": r.String()})
	})
	if err != nil {
		return Coupon{}, fmt.Errorf("make coupon: %w", err)
	}
	return c, nil
}

// Coupons lists all coupons by their codes.
func (s *Service) Coupons(ctx context.Context) ([]Coupon, error) {
	var out []Coupon
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT rule, valid_seconds, used, created_at FROM billing_coupons ORDER BY code`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			c, err := scanCoupon(rows)
			if err != nil {
				return err
			}
			out = append(out, c)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list coupons: %w", err)
	}
	return out, nil
}

func scanCoupon(row interface{ Scan(...any) error }) (c Coupon, err error) {
	var rule string
	var valid, created int64
	if err := row.Scan(&rule, &valid, &c.Used, &created); err != nil {
		return c, err
	}
	c.ValidFor, c.CreatedAt = time.Duration(valid)*time.Second, store.Time(created)
	c.Rule, err = pricing.ParseCoupon(rule)
	return c, err
}

// Redeem gives the caller's account the grant of a coupon. An account that has
// redeemed it gets the same grant again, and nothing more.
func (s *Service) Redeem(ctx context.Context, p account.Principal, code string) (Grant, error) {
	currency, err := s.cfg.CurrencyOf(ctx, p.AccountID)
	if err != nil {
		return Grant{}, fmt.Errorf("redeem: %w", err)
	}
	code = strings.ToUpper(strings.TrimSpace(code))
	now := s.cfg.Clock()
	var g Grant
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, err := s.lockAccount(ctx, tx, p.AccountID, currency)
		if err != nil {
			return err
		}
		c, err := scanCoupon(tx.QueryRow(ctx, `SELECT rule, valid_seconds, used, created_at FROM billing_coupons WHERE code = ?`+tx.ForUpdate(), code))
		if errors.Is(err, store.ErrNoRows) {
			return fault.New(fault.NotFound, "coupon_not_found", "there is no coupon %q; check how it is written", code).At("body.code")
		}
		if err != nil {
			return err
		}
		list, err := s.loadGrants(ctx, tx, `id IN (SELECT grant_id FROM billing_coupon_uses WHERE code = ? AND account_id = ?)`, code, a.id)
		if err != nil {
			return err
		}
		if len(list) == 1 {
			g = *list[0]
			g.Currency = currency
			return nil
		}
		if err := c.Rule.Usable(c.Used, now); err != nil {
			return fault.New(fault.Conflict, "coupon_unusable", "%v", err)
		}
		if c.Rule.Currency != currency {
			return fault.New(fault.Invalid, "currency_mismatch", "coupon %s is in %s and the account in %s", code, c.Rule.Currency, currency)
		}
		g = Grant{ID: ident.New(ident.Grant), AccountID: a.id, Kind: GrantCoupon, Currency: currency, Amount: max(c.Rule.Fixed, c.Rule.UpTo), SharePPM: c.Rule.PPM, Meters: c.Rule.Meters, Reference: code, CreatedAt: now}
		g.ActiveFrom = now.UTC().Truncate(time.Microsecond)
		g.ExpiresAt = g.ActiveFrom.Add(c.ValidFor)
		if g.SharePPM > 0 && !c.Rule.Until.IsZero() {
			g.ExpiresAt = earliest(g.ExpiresAt, c.Rule.Until).Truncate(time.Microsecond) // a sum is the account's when it has it
			if !g.ActiveFrom.Before(g.ExpiresAt) {
				return fault.New(fault.Conflict, "coupon_unusable", "coupon %s is over", code)
			}
		}
		if err := s.give(ctx, tx, a, g, "coupon:"+code+":"+a.id, now); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_coupon_uses (code, account_id, grant_id, used_at) VALUES (?, ?, ?, ?)`, code, a.id, g.ID, store.Micros(now)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE billing_coupons SET used = used + 1 WHERE code = ?`, code); err != nil {
			return err
		}
		if s.cfg.Audit != nil {
			if err := s.cfg.Audit(ctx, tx, p, "coupon.redeem", code, map[string]string{"grant": g.ID}); err != nil {
				return fmt.Errorf("audit: %w", err)
			}
		}
		return s.rebalance(ctx, tx, a, now)
	})
	if errors.Is(err, money.ErrOverflow) {
		return Grant{}, fault.New(fault.Invalid, "amount_too_large", "with this coupon the books would hold more than they can count")
	}
	if err != nil {
		return Grant{}, fmt.Errorf("redeem: %w", err)
	}
	s.changed(p.AccountID)
	return g, nil
}
