package billing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// The codes of an invoice's transfers.
const (
	CodeTax      = "tax"
	CodeRounding = "rounding" // from the exact sum to the minor unit
)

// Series of documents; each is numbered from 1 without a gap.
const (
	invoiceSeries = "INV"
	creditSeries  = "CN"
)

// Party is who an account is on paper.
type Party struct {
	Name         string `json:"name"`
	Address      string `json:"address,omitempty"`
	TaxNumber    string `json:"tax_number,omitempty"`
	Jurisdiction string `json:"jurisdiction,omitempty"` // whose taxes apply; empty: the operator's
	TimeZone     string `json:"time_zone"`              // IANA name; months are months there
}

// Invoice is a month of an account on paper. It is written once and never
// changes; what is learned later is on the next one.
type Invoice struct {
	ID        string         `json:"id"`
	AccountID string         `json:"account_id"`
	Number    string         `json:"number"` // such as INV-000001, without gaps
	Start     time.Time      `json:"start"`
	End       time.Time      `json:"end"` // not in it
	IssuedAt  time.Time      `json:"issued_at"`
	Issuer    string         `json:"issuer,omitempty"`
	Customer  Party          `json:"customer"`
	Currency  money.Currency `json:"currency"`
	Lines     []InvoiceLine  `json:"lines"`
	Discount  money.Amount   `json:"discount,omitempty"` // what grants paid of all lines, as shown
	Exact     money.Amount   `json:"exact"`              // what grants left to pay of the lines
	Subtotal  money.Amount   `json:"subtotal"`           // Exact, rounded once
	Rounding  money.Amount   `json:"rounding"`
	Taxes     []InvoiceTax   `json:"taxes"`
	Total     money.Amount   `json:"total"`
	Simulated bool           `json:"simulated"`       // some line is for simulated hardware
	DueAt     time.Time      `json:"due_at,omitzero"` // the end of the day on which it is due; zero: written before invoices had one
}

// InvoiceLine is one meter of one lease, or what was learned about it after its
// month had been closed.
type InvoiceLine struct {
	LeaseID    string         `json:"lease_id"`
	Meter      pricing.Meter  `json:"meter"`
	From       time.Time      `json:"from"`
	To         time.Time      `json:"to"`
	Correction bool           `json:"correction,omitempty"` // of use before Start
	Amount     money.Amount   `json:"amount"`               // to the micro
	Granted    money.Amount   `json:"granted,omitempty"`    // what grants paid of Amount
	Shown      money.Amount   `json:"shown"`                // what they left to pay, in whole minor units, by largest remainder
	Discount   money.Amount   `json:"discount,omitempty"`   // what they paid, likewise: Shown + Discount is Amount as shown
	Tax        []money.Amount `json:"tax"`                  // of each of the taxes
	Simulated  bool           `json:"simulated,omitempty"`
	ProviderID string         `json:"provider_id"`
	Earned     money.Amount   `json:"earned"` // the provider's part of Amount, before tax that is in it
	// What the provider was paid for Earned in another currency than the account's.
	Exchanged         money.Amount   `json:"exchanged,omitempty"`
	ExchangedCurrency money.Currency `json:"exchanged_currency,omitempty"`
}

// InvoiceTax is one tax of an invoice.
type InvoiceTax struct {
	Jurisdiction string       `json:"jurisdiction"`
	Name         string       `json:"name"`
	PPM          int64        `json:"rate_ppm"`
	Inclusive    bool         `json:"inclusive"` // in the prices; else added
	Amount       money.Amount `json:"amount"`
}

// invoice writes the invoice of a month, posts its taxes and its rounding, and
// returns its identifier and total; none if nothing was used.
func (s *Service) invoice(ctx context.Context, tx *store.Tx, a *accountRow, p period, party Party, now time.Time) (string, money.Amount, error) {
	lines, err := s.invoiceLines(ctx, tx, a, p)
	if err != nil || len(lines) == 0 {
		return "", 0, err
	}
	if party, err = s.onPaper(ctx, tx, a.id, party); err != nil {
		return "", 0, err
	}
	// The rules of the month's last moment.
	rules, err := pricing.TaxesOf(s.cfg.Taxes, party.Jurisdiction, p.end.Add(-time.Microsecond))
	if err != nil {
		return "", 0, err
	}
	sums := make([]pricing.InvoiceLine, len(lines))
	for i, l := range lines {
		sums[i] = pricing.InvoiceLine{Reference: l.LeaseID, Meter: l.Meter, Amount: l.Amount, Granted: l.Granted}
	}
	v, err := pricing.NewInvoice(a.currency, sums, rules)
	if err != nil {
		return "", 0, err
	}
	doc := Invoice{
		ID: ident.New(ident.Invoice), AccountID: a.id, Start: p.start, End: p.end, IssuedAt: now.UTC().Truncate(time.Microsecond), Issuer: s.cfg.Issuer,
		Customer: party, Currency: a.currency, Lines: lines, Discount: v.Discount, Exact: v.Exact, Subtotal: v.Subtotal, Rounding: v.Rounding, Total: v.Total,
		Taxes: []InvoiceTax{},
	}
	for i := range lines {
		lines[i].Shown, lines[i].Discount, lines[i].Tax = v.Lines[i].Shown, v.Lines[i].Discount, v.Lines[i].Tax
		doc.Simulated = doc.Simulated || lines[i].Simulated
	}
	for _, t := range v.Taxes {
		doc.Taxes = append(doc.Taxes, InvoiceTax{t.Rule.Jurisdiction, t.Rule.Name, t.Rule.PPM, t.Rule.Inclusive, t.Amount})
	}
	from, until, err := s.dueDay(ctx, tx, a.id, party.TimeZone, now)
	if err != nil {
		return "", 0, err
	}
	doc.DueAt = until
	series, err := s.nextNumber(ctx, tx, invoiceSeries)
	if err != nil {
		return "", 0, err
	}
	doc.Number = series.number()
	if err := s.postInvoice(ctx, tx, a, &doc, now); err != nil {
		return "", 0, err
	}
	if err := s.write(ctx, tx, series, document{doc.ID, a.id, "", "", p, doc.IssuedAt}, doc); err != nil {
		return "", 0, err
	}
	if err := insertDue(ctx, tx, a.id, doc.ID, series.next, doc.Total, from, until, party.TimeZone); err != nil {
		return "", 0, err
	}
	for i, l := range lines {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_invoice_lines (invoice_id, position, lease_id, meter, amount) VALUES (?, ?, ?, ?, ?)`,
			doc.ID, i, l.LeaseID, string(l.Meter), int64(l.Amount)); err != nil {
			return "", 0, err
		}
	}
	return doc.ID, doc.Total, s.announceInvoice(ctx, tx, doc)
}

// invoiceLines sums up a month's charges by lease and meter. What of them is for
// use before the month, which was learned after that was closed, is a line of its
// own.
func (s *Service) invoiceLines(ctx context.Context, tx *store.Tx, a *accountRow, p period) ([]InvoiceLine, error) {
	rows, err := tx.Query(ctx, `SELECT lease_id, meter, provider_id, MAX(simulated), MIN(from_at), MAX(to_at), CAST(SUM(amount) AS BIGINT), CAST(SUM(provider) AS BIGINT), CAST(SUM(granted) AS BIGINT),
		CAST(SUM(CASE WHEN earned_currency <> currency THEN earned ELSE 0 END) AS BIGINT), MAX(CASE WHEN earned_currency <> currency THEN earned_currency ELSE '' END)
		FROM billing_charges WHERE account_id = ? AND booked_at > ? AND booked_at <= ? GROUP BY lease_id, meter, provider_id ORDER BY lease_id, meter, provider_id`,
		a.id, store.Micros(p.start), store.Micros(p.end))
	if err != nil {
		return nil, fmt.Errorf("charges of a month: %w", err)
	}
	defer rows.Close()
	var sums []InvoiceLine
	for rows.Next() {
		var l InvoiceLine
		var simulated, from, to int64
		if err := rows.Scan(&l.LeaseID, &l.Meter, &l.ProviderID, &simulated, &from, &to, &l.Amount, &l.Earned, &l.Granted, &l.Exchanged, &l.ExchangedCurrency); err != nil {
			return nil, fmt.Errorf("charges of a month: %w", err)
		}
		l.Simulated, l.From, l.To = simulated != 0, latest(p.start, store.Time(from)), store.Time(to)
		sums = append(sums, l)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("charges of a month: %w", err)
	}
	rows.Close()
	var lines []InvoiceLine
	for _, l := range sums {
		late, err := s.learnedLate(ctx, tx, l, p.start)
		if err != nil {
			return nil, err
		}
		if late != 0 {
			c := l
			c.Correction, c.Amount, c.Earned, c.Granted, c.To = true, late, portion(l.Earned, late, l.Amount), portion(l.Granted, late, l.Amount), p.start
			c.From, c.Exchanged = c.To, portion(l.Exchanged, late, l.Amount)
			l.Exchanged -= c.Exchanged
			l.Amount, l.Earned, l.Granted = l.Amount-late, l.Earned-c.Earned, l.Granted-c.Granted
			lines = append(lines, c)
		}
		if l.Amount != 0 || l.Granted != 0 {
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// learnedLate returns what is due for a lease's meter up to a moment by all that
// is known now, less what earlier invoices have.
func (s *Service) learnedLate(ctx context.Context, tx *store.Tx, l InvoiceLine, until time.Time) (money.Amount, error) {
	if l.Meter != pricing.Compute && l.Meter != pricing.Storage {
		return 0, nil // what is sent has no time but that of its report
	}
	row, err := s.lease(ctx, tx, l.LeaseID)
	if f, ok := fault.As(err); ok && f.Kind == fault.NotFound {
		return 0, nil // it is not for a lease's use
	}
	if err != nil {
		return 0, err
	}
	if !row.begun.Before(until) || row.prepayments() != nil {
		return 0, nil // months in advance are booked when they are paid
	}
	due, err := row.rated(s.usage(row, until))
	if err != nil {
		return 0, fmt.Errorf("due for lease %s: %w", l.LeaseID, err)
	}
	var invoiced money.Amount
	if err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM billing_invoice_lines WHERE lease_id = ? AND meter = ?`,
		l.LeaseID, string(l.Meter)).Scan(&invoiced); err != nil {
		return 0, fmt.Errorf("lines of lease %s: %w", l.LeaseID, err)
	}
	return due[l.Meter] - invoiced, nil
}

// theirTax is how much of a tax that is in the price the provider bears.
func (l InvoiceLine) theirTax(n int) money.Amount { return portion(l.Earned, l.Tax[n], l.Amount) }

// portion is a × num ÷ den, rounded towards zero; 0 of nothing.
func portion(a, num, den money.Amount) money.Amount {
	if den == 0 {
		return 0
	}
	n := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(int64(num)))
	return money.Amount(n.Quo(n, big.NewInt(int64(den))).Int64())
}

// postInvoice posts the taxes and the rounding of an invoice. Its lines are posted
// already: they are charges. Tax that is in the prices comes from those who got
// the price, in proportion.
func (s *Service) postInvoice(ctx context.Context, tx *store.Tx, a *accountRow, doc *Invoice, at time.Time) error {
	wallet, hold, _, err := s.funds(ctx, tx, a.id, a.currency)
	if err != nil {
		return err
	}
	var batch []ledger.Transfer
	sources := []leg{{ledger.Wallet(a.id), wallet}, {ledger.Hold(a.id), hold}, {ledger.Receivable(a.id), 1<<62 - 1}}
	take := func(path, code string, amount money.Amount) {
		if amount < 0 {
			batch = append(batch, s.transfer(a, path, ledger.Wallet(a.id), -amount, code, doc.ID, at))
		}
		for i := range sources {
			if part := min(amount, sources[i].amount); part > 0 {
				batch = append(batch, s.transfer(a, sources[i].path, path, part, code, doc.ID, at))
				sources[i].amount -= part
				amount -= part
			}
		}
	}
	move := func(from, to string, amount money.Amount) {
		if amount < 0 {
			from, to, amount = to, from, -amount
		}
		if amount > 0 {
			batch = append(batch, s.transfer(a, from, to, amount, CodeTax, doc.ID, at))
		}
	}
	for n, t := range doc.Taxes {
		path := ledger.Tax(t.Jurisdiction)
		if !t.Inclusive {
			take(path, CodeTax, t.Amount)
			continue
		}
		for _, l := range doc.Lines {
			theirs := l.theirTax(n)
			move(l.payee(), path, theirs)
			batch = append(batch, s.sold(a, l, l.earnedIn(theirs), CodeTax, doc.ID, at)...)
			move(ledger.Commission, path, l.Tax[n]-theirs)
		}
	}
	take(ledger.Rounding, CodeRounding, doc.Rounding)
	return s.cfg.Ledger.Post(ctx, tx, batch...)
}

// seriesRow is the locked counter of a series.
type seriesRow struct {
	name   string
	next   int64
	digest string
}

func (r seriesRow) number() string { return fmt.Sprintf("%s-%06d", r.name, r.next) }

// nextNumber locks a series and returns its next number, which is taken by write.
// It comes after the account's lock and before the ledger's accounts.
func (s *Service) nextNumber(ctx context.Context, tx *store.Tx, series string) (seriesRow, error) {
	r := seriesRow{name: series}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_series (series, next, digest) VALUES (?, 1, '') ON CONFLICT DO NOTHING`, series); err != nil {
		return r, fmt.Errorf("open the series %s: %w", series, err)
	}
	if err := tx.QueryRow(ctx, `SELECT next, digest FROM billing_series WHERE series = ?`+tx.ForUpdate(), series).Scan(&r.next, &r.digest); err != nil {
		return r, fmt.Errorf("lock the series %s: %w", series, err)
	}
	return r, nil
}

// document is what is known of a stored document without reading it.
type document struct {
	id, accountID string
	corrects      string // of a credit note: the invoice
	request       string // of a credit note: the digest of its idempotency key
	period        period
	issued        time.Time
}

// write stores a document under its series' next number.
func (s *Service) write(ctx context.Context, tx *store.Tx, r seriesRow, d document, content any) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("write %s: %w", r.number(), err)
	}
	digest := chained(r.digest, text)
	if _, err := tx.Exec(ctx, `INSERT INTO billing_invoices (id, account_id, series, number, corrects, request, period_start, period_end, issued_at, document, digest)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, d.id, d.accountID, r.name, r.next, d.corrects, d.request, store.Micros(d.period.start), store.Micros(d.period.end),
		store.Micros(d.issued), string(text), digest); err != nil {
		return fmt.Errorf("write %s: %w", r.number(), err)
	}
	if _, err := tx.Exec(ctx, `UPDATE billing_series SET next = ?, digest = ? WHERE series = ?`, r.next+1, digest, r.name); err != nil {
		return fmt.Errorf("write %s: %w", r.number(), err)
	}
	return nil
}

// chained is the digest of a document, which has that of the one before it in its
// series in it: none can be changed or left out unseen.
func chained(before string, document []byte) string {
	sum := sha256.Sum256(append([]byte(before+"\n"), document...))
	return hex.EncodeToString(sum[:])
}

// Invoices lists up to limit invoices of an account, newest first, older than the
// one with the identifier before; empty: from the newest.
func (s *Service) Invoices(ctx context.Context, accountID, before string, limit int) ([]Invoice, error) {
	if before == "" {
		before = "~" // sorts after every identifier
	}
	var out []Invoice
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = documents[Invoice](ctx, tx, `account_id = ? AND id < ? AND corrects = '' ORDER BY id DESC LIMIT ?`, accountID, before, limit)
		return err
	})
	return out, err
}

// Invoice returns an invoice by its identifier or its number, or is a NotFound
// fault "invoice_not_found".
func (s *Service) Invoice(ctx context.Context, accountID, id string) (Invoice, error) {
	var out []Invoice
	where, args := named(id)
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = documents[Invoice](ctx, tx, `account_id = ? AND corrects = '' AND `+where, append([]any{accountID}, args...)...)
		return err
	})
	if err == nil && len(out) == 0 {
		err = noInvoice(id)
	}
	if err != nil {
		return Invoice{}, err
	}
	return out[0], nil
}

// named is the WHERE clause of a document that is named by identifier or number.
func named(id string) (where string, args []any) {
	series, digits, _ := strings.Cut(id, "-")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		number = 0 // which no document has
	}
	return `(id = ? OR (series = ? AND number = ?))`, []any{id, strings.ToUpper(series), number}
}

func noInvoice(id string) error {
	return fault.New(fault.NotFound, "invoice_not_found", "there is no invoice %q", id)
}

// documents reads the documents that a WHERE clause selects.
func documents[T any](ctx context.Context, tx *store.Tx, where string, args ...any) ([]T, error) {
	rows, err := tx.Query(ctx, `SELECT document FROM billing_invoices WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var text []byte
		var d T
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("read documents: %w", err)
		}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("read documents: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// onPaper adds to a party what the operator has written down of it.
func (s *Service) onPaper(ctx context.Context, tx *store.Tx, accountID string, p Party) (Party, error) {
	p.Jurisdiction = s.cfg.Jurisdiction
	var name, jurisdiction string
	err := tx.QueryRow(ctx, `SELECT name, address, tax_number, jurisdiction FROM billing_profiles WHERE account_id = ?`, accountID).
		Scan(&name, &p.Address, &p.TaxNumber, &jurisdiction)
	if errors.Is(err, store.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("billing profile of %s: %w", accountID, err)
	}
	if name != "" {
		p.Name = name
	}
	if jurisdiction != "" {
		p.Jurisdiction = jurisdiction
	}
	return p, nil
}

// Profile returns who an account is on its next invoice.
func (s *Service) Profile(ctx context.Context, accountID string) (Party, error) {
	p, err := s.cfg.PartyOf(ctx, accountID)
	if err != nil {
		return p, err
	}
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		p, err = s.onPaper(ctx, tx, accountID, p)
		return err
	})
	return p, err
}

// SetProfile writes down who an account is on paper and whose taxes apply to it,
// for invoices that are written from now on. It is an operator's act, as taxes
// follow from it.
func (s *Service) SetProfile(ctx context.Context, p account.Principal, accountID string, to Party) (Party, error) {
	if !p.May(account.Operate) {
		return Party{}, fault.New(fault.Forbidden, "forbidden", "only an operator can change a billing profile")
	}
	if len(to.Name) > 400 || len(to.Address) > 1000 || len(to.TaxNumber) > 100 || len(to.Jurisdiction) > 32 {
		return Party{}, fault.New(fault.Invalid, "text_too_long", "want a name of at most 400 bytes, an address of at most 1,000, a tax number of at most 100 and a jurisdiction of at most 32")
	}
	for _, text := range []string{to.Name, strings.NewReplacer("\n", " ", "\r", " ").Replace(to.Address), to.TaxNumber, to.Jurisdiction} {
		if r, found := ident.Hidden(text); found {
			return Party{}, fault.New(fault.Invalid, "text_invalid", "the profile holds the control character %U, which nobody sees; leave it out", r).At("body")
		}
	}
	if _, err := s.cfg.PartyOf(ctx, accountID); err != nil {
		return Party{}, err
	}
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO billing_profiles (account_id, name, address, tax_number, jurisdiction) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (account_id) DO UPDATE SET name = excluded.name, address = excluded.address, tax_number = excluded.tax_number, jurisdiction = excluded.jurisdiction`,
			accountID, to.Name, to.Address, to.TaxNumber, to.Jurisdiction); err != nil {
			return err
		}
		if s.cfg.Audit == nil {
			return nil
		}
		return s.cfg.Audit(ctx, tx, p, "billing.profile", accountID, to)
	})
	if err != nil {
		return Party{}, fmt.Errorf("set the billing profile of %s: %w", accountID, err)
	}
	return s.Profile(ctx, accountID)
}
