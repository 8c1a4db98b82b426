package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Statement is an account's closed month: where it stood, what came in, what was
// invoiced. Statements follow each other without a gap, and each opens with what
// the one before closed with.
type Statement struct {
	AccountID string
	Currency  money.Currency
	pricing.Statement
	InvoiceID string // empty: nothing was used
	ClosedAt  time.Time
}

// funding is what has moved an account's own money, in all, by what it was.
type funding struct{ paid, refunded, given, used money.Amount }

// ownMoney are the places of what an account has or owes.
func ownMoney(accountID string) []string {
	return []string{ledger.Wallet(accountID), ledger.Hold(accountID), ledger.Receivable(accountID)}
}

// funded sums up what came to an account and left it before a moment, beside what
// credit notes gave. used is what it paid for use and on invoices.
func (s *Service) funded(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, before time.Time) (f funding, err error) {
	moved, err := s.cfg.Ledger.Moved(ctx, tx, currency, before, ownMoney(accountID)...)
	if err != nil {
		return f, err
	}
	for code, m := range moved {
		switch code {
		case CodeDeposit:
			f.paid += m.In - m.Out
		case CodePaidBack:
			f.refunded += m.Out - m.In
		case CodeCharge, CodeCorrection, CodePrepayment, CodeUnusedPaid, CodeTax, CodeRounding, CodeVolume:
			f.used += m.Out - m.In
		case CodeCredit, CodeWriteOff: // by the notes, and by the dues
		default:
			f.given += m.In - m.Out
		}
	}
	return f, nil
}

// forgiven is what an account need not pay of its invoices, by what was decided
// before a moment: what was written off is not owed any more, as if it had been
// credited.
func forgiven(ctx context.Context, tx *store.Tx, accountID string, before time.Time) (sum money.Amount, err error) {
	at := store.Micros(before)
	if err = tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(total), 0) AS BIGINT) FROM (
		SELECT total FROM billing_credits WHERE account_id = ? AND issued_at < ?
		UNION ALL SELECT written_off FROM billing_dues WHERE account_id = ? AND written_off_at > 0 AND written_off_at < ?) AS x`,
		accountID, at, accountID, at).Scan(&sum); err != nil {
		return 0, fmt.Errorf("credits of %s: %w", accountID, err)
	}
	return sum, nil
}

// state writes the statement of a month. What was paid, credited, refunded and given
// is the difference between all of it up to the month's end and that on earlier
// statements, so that each is on exactly one.
func (s *Service) state(ctx context.Context, tx *store.Tx, a *accountRow, p period, invoiceID string, invoiced money.Amount, now time.Time) error {
	st := pricing.Statement{Invoiced: invoiced}
	var paid, credited, refunded, given money.Amount
	err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(paid), 0) AS BIGINT), CAST(COALESCE(SUM(credited), 0) AS BIGINT), CAST(COALESCE(SUM(refunded), 0) AS BIGINT),
		CAST(COALESCE(SUM(given), 0) AS BIGINT) FROM billing_statements WHERE account_id = ?`, a.id).Scan(&paid, &credited, &refunded, &given)
	if err != nil {
		return fmt.Errorf("statements of %s: %w", a.id, err)
	}
	f, err := s.funded(ctx, tx, a.id, a.currency, p.end)
	if err != nil {
		return err
	}
	st.Paid, st.Refunded, st.Given = f.paid, f.refunded, f.given
	if st.Credited, err = forgiven(ctx, tx, a.id, p.end); err != nil {
		return err
	}
	st.Paid, st.Credited, st.Refunded, st.Given = st.Paid-paid, st.Credited-credited, st.Refunded-refunded, st.Given-given
	err = tx.QueryRow(ctx, `SELECT closing FROM billing_statements WHERE account_id = ? ORDER BY start_at DESC LIMIT 1`, a.id).Scan(&st.Opening)
	if err != nil && !errors.Is(err, store.ErrNoRows) {
		return fmt.Errorf("statements of %s: %w", a.id, err)
	}
	if st, err = st.Close(); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_statements (account_id, start_at, end_at, currency, opening, invoiced, credited, paid, refunded, given, closing, invoice_id, closed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, a.id, store.Micros(p.start), store.Micros(p.end), string(a.currency),
		int64(st.Opening), int64(st.Invoiced), int64(st.Credited), int64(st.Paid), int64(st.Refunded), int64(st.Given), int64(st.Closing), invoiceID, store.Micros(now)); err != nil {
		return fmt.Errorf("state %s: %w", a.id, err)
	}
	return nil
}

// Statements lists up to limit closed months of an account, newest first, of
// those that began before a moment; the zero time: from the newest.
func (s *Service) Statements(ctx context.Context, accountID string, before time.Time, limit int) ([]Statement, error) {
	if before.IsZero() {
		before = endOfTime
	}
	var out []Statement
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT account_id, start_at, end_at, currency, opening, invoiced, credited, paid, refunded, given, closing, invoice_id, closed_at
			FROM billing_statements WHERE account_id = ? AND start_at < ? ORDER BY start_at DESC LIMIT ?`, accountID, store.Micros(before), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var st Statement
			var start, end, closed int64
			if err := rows.Scan(&st.AccountID, &start, &end, &st.Currency, &st.Opening, &st.Invoiced, &st.Credited, &st.Paid, &st.Refunded, &st.Given, &st.Closing,
				&st.InvoiceID, &closed); err != nil {
				return err
			}
			st.Period = pricing.Period{Start: store.Time(start), End: store.Time(end)}
			st.ClosedAt = store.Time(closed)
			out = append(out, st)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list statements: %w", err)
	}
	return out, nil
}
