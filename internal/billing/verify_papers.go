package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// verifyCharges looks for charges that are not of their lease as it was agreed.
func (s *Service) verifyCharges(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT c.id, COALESCE(l.lease_id, ''), c.account_id, COALESCE(l.account_id, ''), c.provider_id, COALESCE(l.provider_id, ''), c.currency, COALESCE(a.currency, ''),
		c.simulated, COALESCE(l.simulated, 0), c.from_at, c.to_at FROM billing_charges c LEFT JOIN billing_leases l ON l.lease_id = c.lease_id LEFT JOIN billing_accounts a ON a.account_id = l.account_id
		WHERE l.lease_id IS NULL OR a.account_id IS NULL OR c.account_id <> l.account_id OR c.provider_id <> l.provider_id OR c.currency <> a.currency OR c.simulated <> l.simulated OR c.to_at < c.from_at
		ORDER BY c.id LIMIT ?`, maxWrong)
	if err != nil {
		return fmt.Errorf("read charges: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, lease, account, payer, provider, earner, currency, agreed string
		var simulated, leased, from, to int64
		if err := rows.Scan(&id, &lease, &account, &payer, &provider, &earner, &currency, &agreed, &simulated, &leased, &from, &to); err != nil {
			return fmt.Errorf("read charges: %w", err)
		}
		switch {
		case lease == "":
			r.wrong(id, "the charge is for a lease that is not there")
		case account != payer:
			r.wrong(id, "it was charged to %s, and %s pays for lease %s", account, payer, lease)
		case provider != earner:
			r.wrong(id, "it was earned by %s, and lease %s is of %s", provider, lease, earner)
		case currency != agreed:
			r.wrong(id, "it was charged in %s, and the account of lease %s is in %s", currency, lease, agreed)
		case simulated != leased:
			r.wrong(id, "it says otherwise than lease %s whether the GPUs are simulated", lease)
		default:
			r.wrong(id, "it is for use up to %s, before it begins at %s", store.Time(to), store.Time(from))
		}
	}
	return rows.Err()
}

// paper is a stored document with what is stored beside it.
type paper struct {
	id, account, corrects string
	start, end, issued    int64
	text                  []byte
}

func papersAfter(ctx context.Context, tx *store.Tx, series string, number int64) (list []paper, last int64, err error) {
	rows, err := tx.Query(ctx, `SELECT number, id, account_id, corrects, period_start, period_end, issued_at, document FROM billing_invoices WHERE series = ? AND number > ? ORDER BY number LIMIT ?`,
		series, number, invoicesAtOnce)
	if err != nil {
		return nil, 0, fmt.Errorf("read documents: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var p paper
		if err := rows.Scan(&last, &p.id, &p.account, &p.corrects, &p.start, &p.end, &p.issued, &p.text); err != nil {
			return nil, 0, fmt.Errorf("read documents: %w", err)
		}
		list = append(list, p)
	}
	return list, last, rows.Err()
}

// flow is what the transfers of a document moved, by code and ledger account;
// what an account has is one place, whichever money it was.
type flow map[[2]string]money.Amount

func (f flow) move(code, from, to string, amount money.Amount) {
	f[[2]string{code, from}] -= amount
	f[[2]string{code, to}] += amount
}

// theirs is where an account's money is: its wallet, hold and debt together.
func theirs(accountID string) string { return "account/" + accountID }

// post adds a transfer; what is in another currency than the document is apart.
func (f flow) post(t ledger.Transfer, document money.Currency) {
	place := func(path string) string {
		if t.Currency != document {
			return path + " " + string(t.Currency)
		}
		if strings.HasPrefix(path, "account/") {
			return path[:strings.LastIndex(path, "/")]
		}
		return path
	}
	f.move(t.Code, place(t.Debit), place(t.Credit), t.Amount)
}

// compare names the first place at which the transfers of a document are not those
// that follow from it.
func (f flow) compare(r *Report, number string, want flow) {
	var keys [][2]string
	for _, m := range []flow{f, want} {
		for k := range m {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	for _, k := range slices.Compact(keys) {
		if f[k] != want[k] {
			r.wrong(number, "its transfers of code %s come to %s at %s, and by what it says to %s", k[0], f[k], k[1], want[k])
			return
		}
	}
}

// totals is what documents say that all transfers of a code come to.
type totals map[string]int64

// verifyPapers proves every invoice line, tax, rounding and credit note from the
// transfers, and that there are no others.
func (s *Service) verifyPapers(ctx context.Context, tx *store.Tx, r *Report) error {
	count := totals{}
	for _, series := range []string{invoiceSeries, creditSeries} {
		for last := int64(-1); ; {
			page, next, err := papersAfter(ctx, tx, series, last)
			if err != nil {
				return err
			}
			if len(page) == 0 {
				break
			}
			last = next
			for _, p := range page {
				check := s.verifyInvoicePaper
				if series == creditSeries {
					check = s.verifyNotePaper
				}
				if err := check(ctx, tx, r, p, count); err != nil {
					return err
				}
			}
		}
	}
	return s.verifyStrays(ctx, tx, r, count)
}

func (s *Service) transfersOf(ctx context.Context, tx *store.Tx, issued time.Time, id string, currency money.Currency, count totals) (flow, error) {
	list, err := s.cfg.Ledger.About(ctx, tx, issued, issued, id)
	if err != nil {
		return nil, err
	}
	f := flow{}
	for _, t := range list {
		f.post(t, currency)
		count[t.Code]++
	}
	return f, nil
}

func (s *Service) verifyInvoicePaper(ctx context.Context, tx *store.Tx, r *Report, p paper, count totals) error {
	var v Invoice
	if json.Unmarshal(p.text, &v) != nil {
		return nil // it is named already
	}
	if p.id != v.ID || p.account != v.AccountID || p.corrects != "" || p.start != store.Micros(v.Start) || p.end != store.Micros(v.End) || p.issued != store.Micros(v.IssuedAt) {
		r.wrong(v.Number, "it is filed under another account, month or time than it says")
	}
	if err := s.verifyLines(ctx, tx, r, v); err != nil {
		return err
	}
	rules := make([]pricing.TaxRule, 0, len(v.Taxes))
	for _, t := range v.Taxes {
		rules = append(rules, pricing.TaxRule{Jurisdiction: t.Jurisdiction, Name: t.Name, PPM: t.PPM, Inclusive: t.Inclusive})
	}
	lines := make([]pricing.InvoiceLine, len(v.Lines))
	for i, l := range v.Lines {
		lines[i] = pricing.InvoiceLine{Reference: l.LeaseID, Meter: l.Meter, Amount: l.Amount, Granted: l.Granted}
	}
	sums, err := pricing.NewInvoice(v.Currency, lines, rules)
	if err != nil {
		r.wrong(v.Number, "it cannot be computed again: %v", err)
		return nil
	}
	for i, l := range v.Lines {
		if l.Shown != sums.Lines[i].Shown || l.Discount != sums.Lines[i].Discount || !slices.Equal(l.Tax, sums.Lines[i].Tax) {
			r.wrong(v.Number, "line %d shows %s with taxes of %s, and by the rules it is %s with %s", i, l.Shown, l.Tax, sums.Lines[i].Shown, sums.Lines[i].Tax)
		}
	}
	want := flow{}
	for n, t := range v.Taxes {
		path := ledger.Tax(t.Jurisdiction)
		if !t.Inclusive {
			want.move(CodeTax, theirs(v.AccountID), path, t.Amount)
			continue
		}
		for _, l := range v.Lines {
			want.move(CodeTax, l.payee(), path, l.theirTax(n))
			for _, t := range s.sold(&accountRow{id: v.AccountID, currency: v.Currency}, l, l.earnedIn(l.theirTax(n)), CodeTax, v.ID, v.IssuedAt) {
				want.post(t, v.Currency)
			}
			want.move(CodeTax, ledger.Commission, path, l.Tax[n]-l.theirTax(n))
		}
	}
	want.move(CodeRounding, theirs(v.AccountID), ledger.Rounding, v.Rounding)
	got, err := s.transfersOf(ctx, tx, v.IssuedAt, v.ID, v.Currency, count)
	if err != nil {
		return err
	}
	got.compare(r, v.Number, want)
	return nil
}

// verifyLines compares an invoice's lines with what is kept of them for later
// invoices.
func (s *Service) verifyLines(ctx context.Context, tx *store.Tx, r *Report, v Invoice) error {
	rows, err := tx.Query(ctx, `SELECT position, lease_id, meter, amount FROM billing_invoice_lines WHERE invoice_id = ? ORDER BY position`, v.ID)
	if err != nil {
		return fmt.Errorf("read lines: %w", err)
	}
	defer rows.Close()
	next := 0
	for rows.Next() {
		var position int
		var lease string
		var meter pricing.Meter
		var amount money.Amount
		if err := rows.Scan(&position, &lease, &meter, &amount); err != nil {
			return fmt.Errorf("read lines: %w", err)
		}
		if position != next || next >= len(v.Lines) || lease != v.Lines[next].LeaseID || meter != v.Lines[next].Meter || amount != v.Lines[next].Amount {
			r.wrong(v.Number, "its line %d is kept as %s of %s for lease %s, which is not what it says", position, amount, meter, lease)
			return rows.Err()
		}
		next++
	}
	if next < len(v.Lines) {
		r.wrong(v.Number, "its line %d is not kept", next)
	}
	return rows.Err()
}

func (s *Service) verifyNotePaper(ctx context.Context, tx *store.Tx, r *Report, p paper, count totals) error {
	var n CreditNote
	if err := json.Unmarshal(p.text, &n); err != nil {
		r.wrong(p.id, "the credit note cannot be read: %v", err)
		return nil
	}
	found, err := documents[Invoice](ctx, tx, `id = ? AND corrects = ''`, n.InvoiceID)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		r.wrong(n.Number, "the invoice %s that it takes back of is not there", n.Invoice)
		return nil
	}
	v := found[0]
	if p.id != n.ID || p.account != n.AccountID || n.AccountID != v.AccountID || p.corrects != n.InvoiceID || p.start != store.Micros(v.Start) || p.end != store.Micros(v.End) || p.issued != store.Micros(n.IssuedAt) {
		r.wrong(n.Number, "it is filed under another account, invoice or time than it says")
	}
	done, err := creditedBefore(ctx, tx, v, n.ID)
	if err != nil {
		return err
	}
	take := make([]money.Amount, len(v.Lines))
	for _, l := range n.Lines {
		if l.Position < 0 || l.Position >= len(take) || take[l.Position] != 0 {
			r.wrong(n.Number, "it takes back of line %d, and its invoice has %d", l.Position, len(take))
			return nil
		}
		take[l.Position] = l.Amount
	}
	sums, _, err := v.arithmetic().Credit(done, take)
	if err != nil {
		r.wrong(n.Number, "%v", err)
		return nil
	}
	if sums.Total != n.Total {
		r.wrong(n.Number, "it comes to %s, and by its lines and taxes to %s", n.Total, sums.Total)
	}
	for _, l := range n.Lines {
		if !slices.Equal(l.Tax, sums.Tax[l.Position]) {
			r.wrong(n.Number, "it takes back taxes of %s of line %d, and by the rules it is %s", l.Tax, l.Position, sums.Tax[l.Position])
		}
	}
	if err := s.verifyCredits(ctx, tx, r, n, v); err != nil {
		return err
	}
	want := flow{}
	for _, t := range s.creditTransfers(&accountRow{id: v.AccountID, currency: v.Currency}, v, done, n, n.IssuedAt) {
		want.post(t, v.Currency)
	}
	if n.Refunded && n.Total > 0 {
		want.move(CodePaidBack, theirs(n.AccountID), ledger.Deposits, n.Total)
	}
	got, err := s.transfersOf(ctx, tx, n.IssuedAt, n.ID, v.Currency, count)
	if err != nil {
		return err
	}
	got.compare(r, n.Number, want)
	return nil
}

// verifyCredits compares a note's lines with what is kept of them.
func (s *Service) verifyCredits(ctx context.Context, tx *store.Tx, r *Report, n CreditNote, v Invoice) error {
	rows, err := tx.Query(ctx, `SELECT position, invoice_id, account_id, amount, total, issued_at FROM billing_credits WHERE note_id = ? ORDER BY position`, n.ID)
	if err != nil {
		return fmt.Errorf("read credits: %w", err)
	}
	defer rows.Close()
	next := 0
	for rows.Next() {
		var position int
		var invoice, account string
		var amount, total money.Amount
		var issued int64
		if err := rows.Scan(&position, &invoice, &account, &amount, &total, &issued); err != nil {
			return fmt.Errorf("read credits: %w", err)
		}
		right := next < len(n.Lines)
		if right {
			l := n.Lines[next]
			with := l.Amount
			for i, t := range l.Tax {
				if !v.Taxes[i].Inclusive {
					with += t
				}
			}
			right = position == l.Position && invoice == n.InvoiceID && account == n.AccountID && amount == l.Amount && total == with && issued == store.Micros(n.IssuedAt)
		}
		if !right {
			r.wrong(n.Number, "what it takes back of line %d is kept as %s (%s with tax), which is not what it says", position, amount, total)
			return rows.Err()
		}
		next++
	}
	if next < len(n.Lines) {
		r.wrong(n.Number, "what it takes back of line %d is not kept", n.Lines[next].Position)
	}
	return rows.Err()
}

// verifyStrays looks for transfers of documents' codes that no document has.
func (s *Service) verifyStrays(ctx context.Context, tx *store.Tx, r *Report, count totals) error {
	all, err := s.cfg.Ledger.Totals(ctx, tx, CodeTax, CodeRounding, CodeCredit)
	if err != nil {
		return err
	}
	have := totals{}
	for _, t := range all {
		have[t.Code] += t.Transfers
	}
	for _, code := range []string{CodeTax, CodeRounding, CodeCredit} {
		if have[code] == count[code] {
			continue
		}
		for last := ""; ; {
			page, err := s.cfg.Ledger.OfCode(ctx, tx, code, last, invoicesAtOnce)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, t := range page {
				last = t.ID
				var issued int64
				err := tx.QueryRow(ctx, `SELECT issued_at FROM billing_invoices WHERE id = ?`, t.Reference).Scan(&issued)
				if err != nil && !errors.Is(err, store.ErrNoRows) {
					return err
				}
				if err != nil || !strings.HasPrefix(t.Key, ledger.Key(store.Time(issued))) {
					r.wrong(t.ID, "the transfer of %s %s of code %s is about %q, and no document has it", t.Amount, t.Currency, t.Code, t.Reference)
				}
			}
		}
	}
	return nil
}

// verifyMonths compares each account's last statement with its transfers, and its
// open month with where the last one ended.
func (s *Service) verifyMonths(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT s.account_id, s.currency, CAST(SUM(s.paid) AS BIGINT), CAST(SUM(s.refunded) AS BIGINT), CAST(SUM(s.credited) AS BIGINT), MAX(s.end_at), COALESCE(MAX(p.start_at), 0)
		FROM billing_statements s LEFT JOIN billing_periods p ON p.account_id = s.account_id GROUP BY s.account_id, s.currency ORDER BY s.account_id`)
	if err != nil {
		return fmt.Errorf("read statements: %w", err)
	}
	type stated struct {
		id                       string
		currency                 money.Currency
		paid, refunded, credited money.Amount
		end, next                int64
	}
	var list []stated
	for rows.Next() {
		var x stated
		if err := rows.Scan(&x.id, &x.currency, &x.paid, &x.refunded, &x.credited, &x.end, &x.next); err != nil {
			rows.Close()
			return fmt.Errorf("read statements: %w", err)
		}
		list = append(list, x)
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read statements: %w", err)
	}
	for _, x := range list {
		if x.next != x.end {
			r.wrong(x.id, "its open month begins at %s, and the last one ended at %s", store.Time(x.next), store.Time(x.end))
		}
		end := store.Time(x.end)
		f, err := s.funded(ctx, tx, x.id, x.currency, end)
		if err != nil {
			return err
		}
		credited, err := forgiven(ctx, tx, x.id, end)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			what       string
			said, want money.Amount
		}{{"paid", x.paid, f.paid}, {"refunded", x.refunded, f.refunded}, {"credited", x.credited, credited}} {
			if c.said != c.want {
				r.wrong(x.id, "its statements up to %s say that %s was %s, and its transfers and notes %s", end, c.said, c.what, c.want)
			}
		}
	}
	return nil
}
