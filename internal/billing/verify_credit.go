package billing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// verifyCredit proves for every account that was ever postpaid that its compute
// never made a debt beyond the limit of that time, from the postings to its
// receivable, the limits that were in force and the charges alone; and that what is
// due of invoices is what their documents say.
//
// A posting of compute may leave a debt of the highest limit that was in force
// while that compute was used, or of what was owed before it was. Only what is not
// compute may come on top, if it was posted in that time, and the hold that the
// lease began with, which stood for its minimum.
func (s *Service) verifyCredit(ctx context.Context, tx *store.Tx, r *Report) error {
	accounts, err := creditAccounts(ctx, tx)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		if err := s.verifyLimit(ctx, tx, r, a); err != nil {
			return err
		}
	}
	return s.verifyDues(ctx, tx, r)
}

// limitedAccount is an account with its limits in order.
type limitedAccount struct {
	id       string
	currency money.Currency
	inForce  money.Amount
	limits   []limitSince
}

type limitSince struct {
	limit money.Amount
	at    time.Time
}

func creditAccounts(ctx context.Context, tx *store.Tx) ([]*limitedAccount, error) {
	rows, err := tx.Query(ctx, `SELECT a.account_id, a.currency, a.credit_limit, l.credit_limit, l.set_at
		FROM billing_credit_limits l JOIN billing_accounts a ON a.account_id = l.account_id ORDER BY a.account_id, l.number`)
	if err != nil {
		return nil, fmt.Errorf("read credit limits: %w", err)
	}
	defer rows.Close()
	var out []*limitedAccount
	for rows.Next() {
		var a limitedAccount
		var l limitSince
		var at int64
		if err := rows.Scan(&a.id, &a.currency, &a.inForce, &l.limit, &at); err != nil {
			return nil, fmt.Errorf("read credit limits: %w", err)
		}
		l.at = store.Time(at)
		if n := len(out); n == 0 || out[n-1].id != a.id {
			out = append(out, &a)
		}
		last := out[len(out)-1]
		last.limits = append(last.limits, l)
	}
	return out, rows.Err()
}

// highest is the highest limit that was in force at some moment from one to another,
// the one that was replaced at the first included.
func (a *limitedAccount) highest(from, to time.Time) (limit money.Amount) {
	for i, l := range a.limits {
		over := i+1 < len(a.limits) && a.limits[i+1].at.Before(from)
		if !over && !l.at.After(to) {
			limit = max(limit, l.limit)
		}
	}
	return limit
}

// debtAt is what was owed after all that was posted up to a moment.
type debtAt struct {
	at   time.Time
	debt money.Amount
}

func (s *Service) verifyLimit(ctx context.Context, tx *store.Tx, r *Report, a *limitedAccount) error {
	if last := a.limits[len(a.limits)-1].limit; last != a.inForce {
		r.wrong(a.id, "its credit limit is %s, and the last one that was set %s", a.inForce, last)
	}
	postings, err := s.cfg.Ledger.History(ctx, tx, ledger.Receivable(a.id), a.currency)
	if err != nil {
		return err
	}
	var debts []debtAt
	var debt money.Amount
	for i := 0; i < len(postings); {
		// What was posted at one moment is judged by where it led to.
		at := postings[i].PostedAt
		var made []ledger.Transfer
		for ; i < len(postings) && postings[i].PostedAt.Equal(at); i++ {
			t := postings[i]
			if t.Debit == ledger.Receivable(a.id) {
				debt += t.Amount
				if t.Code == CodeCharge || t.Code == CodePrepayment {
					made = append(made, t)
				}
			} else {
				debt -= t.Amount
			}
		}
		for _, t := range made {
			if debt <= a.highest(at, at) {
				break
			}
			if err := s.verifyDebt(ctx, tx, r, a, t, debt, debts); err != nil {
				return err
			}
		}
		debts = append(debts, debtAt{at, debt})
	}
	return nil
}

// verifyDebt judges one posting that made a debt beyond the limit of its moment.
func (s *Service) verifyDebt(ctx context.Context, tx *store.Tx, r *Report, a *limitedAccount, t ledger.Transfer, debt money.Amount, before []debtAt) error {
	from := t.EffectiveAt
	if t.Code == CodeCharge {
		var first int64
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MIN(from_at), 0) FROM billing_charges WHERE lease_id = ? AND meter = ? AND to_at = ?`,
			t.Reference, string(pricing.Compute), store.Micros(t.EffectiveAt)).Scan(&first); err != nil {
			return fmt.Errorf("charges of lease %s: %w", t.Reference, err)
		}
		if first == 0 {
			return nil // it is not for compute
		}
		from = store.Time(first)
	}
	allowed := a.highest(from, t.PostedAt)
	for _, d := range before {
		if d.at.After(from) {
			break
		}
		allowed = max(a.highest(from, t.PostedAt), d.debt)
	}
	var other, hold money.Amount
	if err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM billing_charges WHERE account_id = ? AND meter <> ? AND amount > 0 AND to_at >= ? AND from_at <= ?`,
		a.id, string(pricing.Compute), store.Micros(from), store.Micros(t.PostedAt)).Scan(&other); err != nil {
		return fmt.Errorf("charges of %s: %w", a.id, err)
	}
	for _, path := range []string{ledger.Wallet(a.id), ledger.Hold(a.id), ledger.Receivable(a.id)} {
		for _, code := range []string{CodeTax, CodeRounding} {
			_, until, err := s.cfg.Ledger.Flow(ctx, tx, path, a.currency, code, t.PostedAt.Add(time.Microsecond))
			if err != nil {
				return err
			}
			_, earlier, err := s.cfg.Ledger.Flow(ctx, tx, path, a.currency, code, from)
			if err != nil {
				return err
			}
			other += until - earlier
		}
	}
	l, err := s.lease(ctx, tx, t.Reference)
	if err != nil {
		return err
	}
	if hold, err = l.quote.Hold(); err != nil {
		return err
	}
	if debt > allowed+other+hold {
		r.wrong(a.id, "compute of lease %s took its debt to %s on %s, and its credit limit was %s", t.Reference, debt, t.PostedAt.Format(time.RFC3339), allowed)
	}
	return nil
}

// verifyDues compares what is due of invoices with their documents and with what
// was written off.
func (s *Service) verifyDues(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT d.invoice_id, d.account_id, a.currency, d.number, d.total, d.written_off, d.due_at, i.document FROM billing_dues d
		JOIN billing_accounts a ON a.account_id = d.account_id JOIN billing_invoices i ON i.id = d.invoice_id ORDER BY d.number`)
	if err != nil {
		return fmt.Errorf("read dues: %w", err)
	}
	defer rows.Close()
	type row struct {
		due
		currency money.Currency
	}
	var off []row
	given := map[string]money.Amount{}
	for rows.Next() {
		var d row
		var until int64
		var text []byte
		if err := rows.Scan(&d.invoiceID, &d.accountID, &d.currency, &d.number, &d.Total, &d.WrittenOff, &until, &text); err != nil {
			return fmt.Errorf("read dues: %w", err)
		}
		var v Invoice
		if err := json.Unmarshal(text, &v); err != nil {
			r.wrong(d.name(), "it cannot be read: %v", err)
			continue
		}
		if d.Total != v.Total || !v.DueAt.IsZero() && !v.DueAt.Equal(store.Time(until)) {
			r.wrong(d.name(), "%s is due of it at %s, and it says %s at %s", d.Total, store.Time(until), v.Total, v.DueAt)
		}
		if d.WrittenOff != 0 {
			off = append(off, d)
			given[d.accountID] += d.WrittenOff
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read dues: %w", err)
	}
	rows.Close()
	for _, d := range off {
		in, _, err := s.cfg.Ledger.Flow(ctx, tx, ledger.Receivable(d.accountID), d.currency, CodeWriteOff, endOfTime)
		if err != nil {
			return err
		}
		if in != given[d.accountID] {
			r.wrong(d.name(), "%s was written off of its account's invoices, and %s by its transfers", given[d.accountID], in)
		}
	}
	return nil
}
