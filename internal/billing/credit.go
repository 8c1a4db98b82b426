package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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

// The codes of what is given back.
const (
	CodeCredit   = "credit"    // by a credit note, to the wallet
	CodePaidBack = "paid_back" // out of the wallet, to where the money came from
)

// CreditNote takes back a part of an invoice. The invoice stays as it is.
type CreditNote struct {
	ID        string         `json:"id"`
	AccountID string         `json:"account_id"`
	Number    string         `json:"number"` // such as CN-000001, without gaps
	InvoiceID string         `json:"invoice_id"`
	Invoice   string         `json:"invoice"` // its number
	Currency  money.Currency `json:"currency"`
	Lines     []CreditLine   `json:"lines"`
	Total     money.Amount   `json:"total"`    // with the taxes that were added
	Refunded  bool           `json:"refunded"` // it was paid out, and not kept as balance
	Reason    string         `json:"reason"`
	IssuedAt  time.Time      `json:"issued_at"`
}

// CreditLine is what is taken back of one line of an invoice.
type CreditLine struct {
	Position int            `json:"position"` // of the invoice's line, from 0
	Amount   money.Amount   `json:"amount"`   // in whole minor units
	Tax      []money.Amount `json:"tax"`      // of each of the invoice's taxes
}

// Credit asks for a credit note.
type Credit struct {
	Lines  []CreditLine // without Tax, which follows; none: all that is left of every line
	Reason string
	// Refund pays the note out in the same transaction, or neither is done.
	Refund bool
}

// same reports whether a note is what was asked for.
func (c Credit) same(n CreditNote) bool {
	if len(c.Lines) == 0 || c.Reason != n.Reason || c.Refund != n.Refunded {
		return c.Reason == n.Reason && c.Refund == n.Refunded
	}
	return slices.EqualFunc(c.Lines, n.Lines, func(a, b CreditLine) bool { return a.Position == b.Position && a.Amount == b.Amount })
}

// CreditInvoice takes back a part of an invoice of any account: as new postings,
// which give the provider's part, the commission, the rounding and the taxes back
// in proportion. Notes for everything come to the invoice exactly. Asking for more
// than is left is a Conflict fault "credit_too_large". The same key returns the
// first note. It is an operator's act.
func (s *Service) CreditInvoice(ctx context.Context, p account.Principal, invoiceID string, c Credit, key string) (CreditNote, error) {
	if !p.May(account.Operate) {
		return CreditNote{}, fault.New(fault.Forbidden, "forbidden", "only an operator can credit invoices")
	}
	if len(c.Reason) > 400 {
		return CreditNote{}, fault.New(fault.Invalid, "text_too_long", "want a reason of at most 400 bytes").At("body.reason")
	}
	request := ""
	if key != "" {
		sum := sha256.Sum256([]byte(key))
		request = hex.EncodeToString(sum[:])
	}
	c.Lines = slices.Clone(c.Lines)
	slices.SortFunc(c.Lines, func(a, b CreditLine) int { return a.Position - b.Position })
	var note CreditNote
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		where, args := named(invoiceID)
		found, err := documents[Invoice](ctx, tx, `corrects = '' AND `+where, args...)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return noInvoice(invoiceID)
		}
		note, err = s.credit(ctx, tx, p, found[0], c, request)
		return err
	})
	if err != nil {
		return CreditNote{}, fmt.Errorf("credit: %w", err)
	}
	s.changed(note.AccountID)
	return note, nil
}

func (s *Service) credit(ctx context.Context, tx *store.Tx, p account.Principal, v Invoice, c Credit, request string) (CreditNote, error) {
	a, err := s.lockAccount(ctx, tx, v.AccountID, v.Currency)
	if err != nil {
		return CreditNote{}, err
	}
	if request != "" {
		known, err := documents[CreditNote](ctx, tx, `account_id = ? AND request = ?`, v.AccountID, request)
		if err != nil {
			return CreditNote{}, err
		}
		if len(known) > 0 {
			if known[0].InvoiceID != v.ID || !c.same(known[0]) {
				return CreditNote{}, fault.New(fault.Conflict, "idempotency_conflict", "the key was used for the credit note %s; use a new key for another", known[0].Number)
			}
			return known[0], nil
		}
	}
	series, err := s.nextNumber(ctx, tx, creditSeries)
	if err != nil {
		return CreditNote{}, err
	}
	done, err := credited(ctx, tx, v)
	if err != nil {
		return CreditNote{}, err
	}
	take, err := v.take(done, c.Lines)
	if err != nil {
		return CreditNote{}, err
	}
	sums, _, err := v.arithmetic().Credit(done, take)
	if err != nil {
		return CreditNote{}, fault.New(fault.Conflict, "credit_too_large", "%v; see what the invoice's other credit notes have", err)
	}
	now := s.cfg.Clock().UTC().Truncate(time.Microsecond)
	note := CreditNote{
		ID: ident.New(ident.Invoice), AccountID: v.AccountID, Number: series.number(), InvoiceID: v.ID, Invoice: v.Number, Currency: v.Currency,
		Lines: []CreditLine{}, Total: sums.Total, Refunded: c.Refund, Reason: c.Reason, IssuedAt: now,
	}
	for i := range take {
		if take[i] != 0 {
			note.Lines = append(note.Lines, CreditLine{i, take[i], sums.Tax[i]})
		}
	}
	if len(note.Lines) == 0 {
		return CreditNote{}, fault.New(fault.Conflict, "nothing_to_credit", "nothing is left of the invoice %s to take back", v.Number)
	}
	if err := s.cfg.Ledger.Post(ctx, tx, s.creditTransfers(a, v, done, note, now)...); err != nil {
		return CreditNote{}, err
	}
	if err := s.write(ctx, tx, series, document{note.ID, a.id, v.ID, request, period{v.Start, v.End}, now}, note); err != nil {
		return CreditNote{}, err
	}
	for _, l := range note.Lines {
		total := l.Amount
		for n, t := range l.Tax {
			if !v.Taxes[n].Inclusive {
				total += t
			}
		}
		if _, err := tx.Exec(ctx, `INSERT INTO billing_credits (note_id, invoice_id, account_id, position, amount, total, issued_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			note.ID, v.ID, a.id, l.Position, int64(l.Amount), int64(total), store.Micros(now)); err != nil {
			return CreditNote{}, err
		}
	}
	// Debt is paid from it first, and what is paid out is free money only.
	if err := s.paid(ctx, tx, a, now); err != nil {
		return CreditNote{}, err
	}
	if c.Refund && note.Total > 0 {
		if err := s.cfg.Ledger.Post(ctx, tx, s.transfer(a, ledger.Wallet(a.id), ledger.Deposits, note.Total, CodePaidBack, note.ID, now)); err != nil {
			return CreditNote{}, err
		}
		if err := a.save(ctx, tx); err != nil {
			return CreditNote{}, err
		}
	}
	if s.cfg.Audit != nil {
		if err := s.cfg.Audit(ctx, tx, p, "invoice.credit", note.ID, note); err != nil {
			return CreditNote{}, fmt.Errorf("audit: %w", err)
		}
	}
	return note, nil
}

// arithmetic is what pricing knows an invoice as.
func (v Invoice) arithmetic() pricing.Invoice {
	out := pricing.Invoice{Currency: v.Currency, Discount: v.Discount, Exact: v.Exact, Subtotal: v.Subtotal, Rounding: v.Rounding, Total: v.Total}
	for _, l := range v.Lines {
		out.Lines = append(out.Lines, pricing.ShownLine{InvoiceLine: pricing.InvoiceLine{Reference: l.LeaseID, Meter: l.Meter, Amount: l.Amount, Granted: l.Granted}, Shown: l.Shown, Discount: l.Discount, Tax: l.Tax})
	}
	for _, t := range v.Taxes {
		out.Taxes = append(out.Taxes, pricing.TaxLine{Rule: pricing.TaxRule{Jurisdiction: t.Jurisdiction, Name: t.Name, PPM: t.PPM, Inclusive: t.Inclusive}, Amount: t.Amount})
	}
	return out
}

// take is what is asked for of each line; all that is left if nothing is said.
func (v Invoice) take(done pricing.Credited, lines []CreditLine) ([]money.Amount, error) {
	take := make([]money.Amount, len(v.Lines))
	if len(lines) == 0 {
		for i, l := range v.Lines {
			take[i] = l.Shown - done[i]
		}
		return take, nil
	}
	unit, err := pricing.MinorUnit(v.Currency)
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		if l.Position < 0 || l.Position >= len(v.Lines) || take[l.Position] != 0 {
			return nil, fault.New(fault.Invalid, "line_invalid", "line %d of an invoice with %d lines, counted from 0: want each line once", l.Position, len(v.Lines)).At("body.lines")
		}
		if l.Amount == 0 || l.Amount%unit != 0 {
			return nil, fault.New(fault.Invalid, "amount_invalid", "%s of line %d: want whole cents or fen, and not 0", l.Amount.Display(), l.Position).At("body.lines")
		}
		take[l.Position] = l.Amount
	}
	return take, nil
}

// credited is what notes have taken back of each line of an invoice.
func credited(ctx context.Context, tx *store.Tx, v Invoice) (pricing.Credited, error) {
	done := make(pricing.Credited, len(v.Lines))
	rows, err := tx.Query(ctx, `SELECT position, CAST(SUM(amount) AS BIGINT) FROM billing_credits WHERE invoice_id = ? GROUP BY position`, v.ID)
	if err != nil {
		return nil, fmt.Errorf("credits of %s: %w", v.Number, err)
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var sum money.Amount
		if err := rows.Scan(&i, &sum); err != nil {
			return nil, fmt.Errorf("credits of %s: %w", v.Number, err)
		}
		done[i] = sum
	}
	return done, rows.Err()
}

// creditTransfers gives back a note's lines: each part as the difference of what
// of it belongs to all that is taken back, after and before. So notes for all of a
// line give back exactly what its postings took. What grants paid goes back to
// where they came from, and not to the wallet: nobody is given money for what a
// grant paid.
func (s *Service) creditTransfers(a *accountRow, v Invoice, done pricing.Credited, note CreditNote, at time.Time) []ledger.Transfer {
	var batch []ledger.Transfer
	move := func(from, to string, amount money.Amount) {
		if amount < 0 {
			from, to, amount = to, from, -amount
		}
		if amount > 0 {
			batch = append(batch, s.transfer(a, from, to, amount, CodeCredit, note.ID, at))
		}
	}
	wallet := ledger.Wallet(a.id)
	for _, c := range note.Lines {
		l := v.Lines[c.Position]
		grown := func(whole money.Amount) money.Amount {
			return portion(whole, done[c.Position]+c.Amount, l.Shown) - portion(whole, done[c.Position], l.Shown)
		}
		provider, commission, granted := grown(l.Earned), grown(l.Amount-l.Earned), grown(l.Granted)
		// Out of the provider's part first, then the commission, to the micro.
		theirs := between(granted, provider)
		move(l.payee(), ledger.Promotions, theirs)
		move(l.payee(), wallet, provider-theirs)
		batch = append(batch, s.sold(a, l, grown(l.Exchanged), CodeCredit, note.ID, at)...)
		move(ledger.Commission, ledger.Promotions, granted-theirs)
		move(ledger.Commission, wallet, commission-granted+theirs)
		move(ledger.Rounding, wallet, c.Amount-(provider+commission-granted))
		for n, t := range v.Taxes {
			path := ledger.Tax(t.Jurisdiction)
			if !t.Inclusive {
				move(path, wallet, c.Tax[n])
				continue
			}
			theirs := grown(l.theirTax(n))
			move(path, l.payee(), theirs)
			batch = append(batch, s.sold(a, l, -grown(l.earnedIn(l.theirTax(n))), CodeCredit, note.ID, at)...)
			move(path, ledger.Commission, c.Tax[n]-theirs)
		}
	}
	return batch
}

// between is as much of want as lies from 0 to limit, on either side of 0.
func between(want, limit money.Amount) money.Amount {
	if limit < 0 {
		return max(limit, min(want, 0))
	}
	return min(limit, max(want, 0))
}

// CreditNotes returns the credit notes of an account's invoice, oldest first, or
// is a NotFound fault "invoice_not_found".
func (s *Service) CreditNotes(ctx context.Context, accountID, invoiceID string) ([]CreditNote, error) {
	v, err := s.Invoice(ctx, accountID, invoiceID)
	if err != nil {
		return nil, err
	}
	var out []CreditNote
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = documents[CreditNote](ctx, tx, `corrects = ? ORDER BY id`, v.ID)
		return err
	})
	return out, err
}

// Refund pays free money of an account's balance out, to where it came from: more
// than the wallet has is a Payment fault "insufficient_balance". The same key with
// the same account, amount and reference returns the first refund. It is an
// operator's act.
func (s *Service) Refund(ctx context.Context, p account.Principal, accountID string, amount money.Amount, reference, key string) (ledger.Transfer, error) {
	if !p.May(account.Operate) {
		return ledger.Transfer{}, fault.New(fault.Forbidden, "forbidden", "only an operator can enter refunds")
	}
	if amount <= 0 {
		return ledger.Transfer{}, fault.New(fault.Invalid, "amount_invalid", "a refund of %s: want more than 0", amount.Display()).At("body.amount")
	}
	if err := checkLargest(amount, "body.amount"); err != nil {
		return ledger.Transfer{}, err
	}
	if len(reference) > 200 || len(key) > 500 {
		return ledger.Transfer{}, fault.New(fault.Invalid, "text_too_long", "want a reference of at most 200 characters and a key of at most 500")
	}
	if r, found := ident.Hidden(reference); found {
		return ledger.Transfer{}, fault.New(fault.Invalid, "text_invalid", "the reference holds the control character %U, which nobody sees; leave it out", r).At("body.reference")
	}
	currency, err := s.cfg.CurrencyOf(ctx, accountID)
	if err != nil {
		return ledger.Transfer{}, fmt.Errorf("refund: %w", err)
	}
	if key == "" {
		key = ident.New(ident.Transfer)
	}
	now := s.cfg.Clock()
	sum := sha256.Sum256([]byte(key))
	in := Receipt{AccountID: accountID, Currency: currency, Amount: amount, Reference: reference, Key: hex.EncodeToString(sum[:]), At: now}
	var posted ledger.Transfer
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var fresh bool
		if posted, fresh, err = s.GiveBack(ctx, tx, in, false); err != nil || !fresh || s.cfg.Audit == nil {
			return err
		}
		detail := map[string]string{"account": accountID, "amount": amount.String(), "currency": string(currency), "reference": reference}
		if err := s.cfg.Audit(ctx, tx, p, "refund", posted.ID, detail); err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		return nil
	})
	s.changed(accountID)
	if err != nil {
		return ledger.Transfer{}, fmt.Errorf("refund: %w", err)
	}
	return posted, nil
}
