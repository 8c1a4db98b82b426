package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// A postpaid account is one with a credit limit: wherever compute is judged by what
// an account has, it has that much more. What is used beyond the wallet is debt in
// account/…/receivable as it is for everybody, and the limit is no money: it is in
// no posting. Compute is cut at the second that would exceed it. What may exceed it
// is what may exceed an empty wallet: kept disks, taxes and rounding of invoices,
// and debt from before the limit was lowered.

// defaultNet stands for the operator's default of days to pay.
const defaultNet = -1

// maxNetDays bounds how long an account may take to pay an invoice.
const maxNetDays = 366

// CreditLimit is how far below zero an account's compute may run.
type CreditLimit struct {
	AccountID string
	Currency  money.Currency
	Limit     money.Amount // 0: prepaid
	Used      money.Amount // of the limit, by what is posted and what is used and not posted; at most Limit
	NetDays   int          // to pay an invoice; the operator's default if the account has none of its own
	SetAt     time.Time    // zero: never
	SetBy     string
	Reason    string
}

// CreditChange asks for another credit limit.
type CreditChange struct {
	Limit   money.Amount
	NetDays *int // nil: the operator's default
	Reason  string
}

// CreditLimit returns an account's credit limit, or is a NotFound fault if there is
// no such account.
func (s *Service) CreditLimit(ctx context.Context, accountID string) (CreditLimit, error) {
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return CreditLimit{}, fmt.Errorf("credit limit: %w", err)
	}
	var out CreditLimit
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out, err = s.creditLimit(ctx, tx, accountID)
		if err != nil {
			return err
		}
		b, err := s.balance(ctx, tx, accountID, currency, s.cfg.Clock())
		out.Used = max(0, min(out.Limit, b.UnbilledDue-b.Settled))
		return err
	})
	out.AccountID, out.Currency = accountID, currency
	return out, err
}

// creditLimit reads the limit in force, without Used.
func (s *Service) creditLimit(ctx context.Context, tx *store.Tx, accountID string) (CreditLimit, error) {
	out := CreditLimit{NetDays: s.cfg.NetDays}
	var at int64
	var net int
	err := tx.QueryRow(ctx, `SELECT credit_limit, net_days, set_at, set_by, reason FROM billing_credit_limits WHERE account_id = ? ORDER BY number DESC LIMIT 1`, accountID).
		Scan(&out.Limit, &net, &at, &out.SetBy, &out.Reason)
	if errors.Is(err, store.ErrNoRows) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("credit limit of %s: %w", accountID, err)
	}
	out.SetAt = store.Time(at)
	if net != defaultNet {
		out.NetDays = net
	}
	return out, nil
}

// SetCreditLimit gives an account another credit limit; 0 makes it prepaid. All
// that is used up to now is charged under the old limit. If debt is beyond the new
// one, what runs stops as it does when a wallet is empty. It is an operator's act;
// the same limit again is no change.
func (s *Service) SetCreditLimit(ctx context.Context, p account.Principal, accountID string, c CreditChange) (CreditLimit, error) {
	if !p.May(account.Operate) {
		return CreditLimit{}, fault.New(fault.Forbidden, "forbidden", "only an operator can set credit limits")
	}
	if c.Limit < 0 {
		return CreditLimit{}, fault.New(fault.Invalid, "credit_limit_invalid", "a credit limit of %s: want 0 for none, or more", c.Limit.Display()).At("body.credit_limit")
	}
	if err := checkLargest(c.Limit, "body.credit_limit"); err != nil {
		return CreditLimit{}, err
	}
	net := defaultNet
	if c.NetDays != nil {
		if net = *c.NetDays; net < 0 || net > maxNetDays {
			return CreditLimit{}, fault.New(fault.Invalid, "net_days_invalid", "%d days to pay an invoice: want 0 to %d, or none for the default", net, maxNetDays).At("body.net_days")
		}
	}
	if len(c.Reason) > 400 {
		return CreditLimit{}, fault.New(fault.Invalid, "text_too_long", "want a reason of at most 400 bytes").At("body.reason")
	}
	if r, found := ident.Hidden(c.Reason); found {
		return CreditLimit{}, fault.New(fault.Invalid, "text_invalid", "the reason holds the control character %U, which nobody sees; leave it out", r).At("body.reason")
	}
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return CreditLimit{}, fmt.Errorf("set a credit limit: %w", err)
	}
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		a, err := s.lockAccount(ctx, tx, accountID, currency)
		if err != nil {
			return err
		}
		return s.setCreditLimit(ctx, tx, p, a, c, net, s.cfg.Clock())
	})
	// Also after a failure: outlooks may have been computed with what was given up.
	s.changed(accountID)
	if err != nil {
		return CreditLimit{}, fmt.Errorf("set the credit limit of %s: %w", accountID, err)
	}
	return s.CreditLimit(ctx, accountID)
}

func (s *Service) setCreditLimit(ctx context.Context, tx *store.Tx, p account.Principal, a *accountRow, c CreditChange, net int, now time.Time) error {
	var number int64
	var limit money.Amount
	var days int
	err := tx.QueryRow(ctx, `SELECT number, credit_limit, net_days FROM billing_credit_limits WHERE account_id = ? ORDER BY number DESC LIMIT 1`, a.id).Scan(&number, &limit, &days)
	if errors.Is(err, store.ErrNoRows) {
		limit, days, err = 0, defaultNet, nil
	}
	if err != nil {
		return err
	}
	if limit == c.Limit && days == net {
		return nil
	}
	leases, err := s.openLeases(ctx, tx, a.id)
	if err != nil {
		return err
	}
	if err := s.enforce(ctx, tx, a, leases, now); err != nil {
		return err
	}
	for _, l := range leases {
		if err := s.charge(ctx, tx, a, l, now); err != nil {
			return err
		}
	}
	a.credit = c.Limit
	if _, err := tx.Exec(ctx, `UPDATE billing_accounts SET credit_limit = ? WHERE account_id = ?`, int64(c.Limit), a.id); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_credit_limits (account_id, number, credit_limit, net_days, set_at, set_by, reason) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		a.id, number+1, int64(c.Limit), net, store.Micros(now), p.UserID, c.Reason); err != nil {
		return err
	}
	// Limits are written on what runs in this transaction, so that no other replica
	// charges beyond them by what it remembers.
	if err := s.enforce(ctx, tx, a, leases, now); err != nil {
		return err
	}
	if s.cfg.Audit != nil {
		detail := map[string]any{"credit_limit": c.Limit.String(), "before": limit.String(), "currency": string(a.currency), "net_days": net, "reason": c.Reason}
		if err := s.cfg.Audit(ctx, tx, p, "credit_limit.set", a.id, detail); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
	}
	return s.rebalance(ctx, tx, a, now)
}

// limitOf returns an account's credit limit; 0 if it has none or is not known here.
func (s *Service) limitOf(ctx context.Context, tx *store.Tx, accountID string) (limit money.Amount, err error) {
	err = tx.QueryRow(ctx, `SELECT credit_limit FROM billing_accounts WHERE account_id = ?`, accountID).Scan(&limit)
	if err != nil && !errors.Is(err, store.ErrNoRows) {
		return 0, fmt.Errorf("credit limit of %s: %w", accountID, err)
	}
	return limit, nil
}

// spendable is what an account's leases can use up: wallet, hold and credit, less
// debt.
func (s *Service) spendable(ctx context.Context, tx *store.Tx, accountID string, c money.Currency) (total, limit money.Amount, err error) {
	wallet, hold, debt, err := s.funds(ctx, tx, accountID, c)
	if err != nil {
		return 0, 0, err
	}
	if limit, err = s.limitOf(ctx, tx, accountID); err != nil {
		return 0, 0, err
	}
	total, err = (wallet + hold + debt).Add(limit)
	return total, limit, err
}

// onCredit is what of an account's credit stands for holds that no money covers:
// without it an account could begin any number of leases on one limit.
func (s *Service) onCredit(ctx context.Context, tx *store.Tx, accountID string, limit, held money.Amount) (money.Amount, error) {
	if limit == 0 {
		return 0, nil
	}
	want, err := s.holds(ctx, tx, accountID)
	return min(limit, max(0, want-held)), err
}
