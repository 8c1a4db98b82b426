package billing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Report is the outcome of VerifyLedger.
type Report struct {
	ledger.Report
	Leases   int64
	Charges  int64
	Invoices int64 // and credit notes
	Wrong    []Wrong
}

// OK reports whether everything is right.
func (r Report) OK() bool { return r.Report.OK() && len(r.Wrong) == 0 }

// Wrong is a thing that is not what follows from use, quotes and postings.
type Wrong struct {
	Subject string // such as a lease's identifier or an invoice's number
	What    string // for people
}

// maxWrong bounds the list: the first is what matters.
const maxWrong = 100

// VerifyLedger proves the books from the recorded use, the quotes and the postings
// alone: every balance is the sum of its transfers; every lease's charges are what
// its use comes to by its quote, and are split as it says; what accounts paid and
// providers earned is their charges; every invoice has its month's charges, and its
// sums, taxes, number and digest are right; every tax, rounding and credit note was
// posted as it says, and nothing else was; statements follow each other and have
// what was paid. It reads everything, changes nothing, and lists what is not so, in
// this order.
func (s *Service) VerifyLedger(ctx context.Context) (Report, error) {
	var r Report
	var err error
	if r.Report, err = s.cfg.Ledger.Verify(ctx); err != nil {
		return r, err
	}
	books := r.Report
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err = s.Proof(ctx, tx)
		return err
	})
	r.Report = books
	return r, err
}

// Proof is VerifyLedger without the balances, within the caller's transaction.
func (s *Service) Proof(ctx context.Context, tx *store.Tx) (Report, error) {
	var r Report
	for _, check := range []func(context.Context, *store.Tx, *Report) error{
		s.verifyTerms, s.verifyLeases, s.verifyExchange, s.verifyReserved, verifyAgreed, s.verifyCharges, s.verifyPayments, s.verifyDocuments, s.verifyInvoices, s.verifyPapers, s.verifyStatements, s.verifyMonths, s.verifyGiven, s.verifyShares, s.verifyVolumes, s.verifyGrants, s.verifyTold, s.verifyOwed, s.verifyStandings, s.verifyLimited, s.verifyCredit,
	} {
		if err := check(ctx, tx, &r); err != nil {
			return r, fmt.Errorf("verify the books: %w", err)
		}
	}
	return r, nil
}

func (r *Report) wrong(subject, format string, args ...any) {
	if len(r.Wrong) < maxWrong {
		r.Wrong = append(r.Wrong, Wrong{subject, fmt.Sprintf(format, args...)})
	}
}

// chargeSum is what the charges of one meter come to.
type chargeSum struct{ count, amount, provider, commission, granted, listed, earned int64 }

type meterOf struct {
	lease string
	meter pricing.Meter
}

// leasesAtOnce is how many leases are in memory together.
const leasesAtOnce = 500

func (s *Service) verifyLeases(ctx context.Context, tx *store.Tx, r *Report) error {
	lists, err := allPriceLists(ctx, tx)
	if err != nil {
		return err
	}
	for last := ""; ; {
		leases, err := s.loadLeases(ctx, tx, `lease_id IN (SELECT lease_id FROM billing_leases WHERE lease_id > ? ORDER BY lease_id LIMIT ?)`, last, leasesAtOnce)
		if err != nil || len(leases) == 0 {
			return err
		}
		first := leases[0].id
		last = leases[len(leases)-1].id
		sums, err := chargeSums(ctx, tx, `lease_id >= ? AND lease_id <= ?`, first, last)
		if err != nil {
			return err
		}
		for _, l := range leases {
			r.Leases++
			lists.verify(r, l)
			if err := s.verifyLease(r, l, sums); err != nil {
				return err
			}
		}
	}
}

func chargeSums(ctx context.Context, tx *store.Tx, where string, args ...any) (map[meterOf]chargeSum, error) {
	rows, err := tx.Query(ctx, `SELECT lease_id, meter, COUNT(*), CAST(SUM(amount) AS BIGINT), CAST(SUM(provider) AS BIGINT), CAST(SUM(commission) AS BIGINT), CAST(SUM(granted) AS BIGINT), CAST(SUM(listed) AS BIGINT), CAST(SUM(earned) AS BIGINT)
		FROM billing_charges WHERE `+where+` GROUP BY lease_id, meter`, args...)
	if err != nil {
		return nil, fmt.Errorf("sum charges: %w", err)
	}
	defer rows.Close()
	sums := map[meterOf]chargeSum{}
	for rows.Next() {
		var k meterOf
		var c chargeSum
		if err := rows.Scan(&k.lease, &k.meter, &c.count, &c.amount, &c.provider, &c.commission, &c.granted, &c.listed, &c.earned); err != nil {
			return nil, fmt.Errorf("sum charges: %w", err)
		}
		sums[k] = c
	}
	return sums, rows.Err()
}

func (s *Service) verifyLease(r *Report, l *leaseRow, sums map[meterOf]chargeSum) error {
	due := map[pricing.Meter]money.Amount{}
	_, apart := l.quote.Apart()
	var shares map[pricing.Meter]pricing.Share
	if !l.settled.IsZero() || l.prepayments() != nil {
		// By what is stored alone, up to the last posting.
		use := usageUntil(l, latest(l.settled, l.begun), l.confirmed, time.Time{})
		var err error
		if due, err = l.rated(use); err == nil && apart {
			shares, err = l.shares(use)
		}
		if err != nil {
			r.wrong(l.id, "its use cannot be priced: %v", err)
			return nil
		}
	}
	for _, m := range pricing.Meters {
		c := sums[meterOf{l.id, m}]
		r.Charges += c.count
		charged := money.Amount(c.amount)
		if charged != l.posted[m] {
			r.wrong(l.id, "its charges for %s come to %s, and it says that %s is posted", m, charged, l.posted[m])
		}
		// Use that was learned of and is not posted yet is no fault, but a lease
		// that is over has no more to come.
		if charged > due[m] || charged < due[m] && !l.ended.IsZero() {
			r.wrong(l.id, "it was charged %s for %s, and its use comes to %s by its quote", charged, m, due[m])
		}
		if apart {
			s.verifyApart(r, l, shares, m, c)
			continue
		}
		p, q, err := pricing.Split(charged, l.quote.Tariff.CommissionBasisPoints)
		if err != nil {
			return err
		}
		if int64(p) != c.provider || int64(q) != c.commission {
			r.wrong(l.id, "%s for %s is split into %s and %s, and by its quote it is %s and %s", charged, m, money.Amount(c.provider), money.Amount(c.commission), p, q)
		}
	}
	return nil
}

// verifyPayments compares charges with the transfers that paid them.
func (s *Service) verifyPayments(ctx context.Context, tx *store.Tx, r *Report) error {
	for _, side := range []struct {
		column, currency, sum, what string
		paths                       func(id string) []string
		sign                        money.Amount
	}{
		{"account_id", "currency", "amount - granted", "paid", ownMoney, -1},
		{"account_id", "currency", "granted", "was given by grants", func(id string) []string { return []string{ledger.Grant(id)} }, -1},
		{"provider_id", earnedCurrency, earnedShare, "earned", func(id string) []string { return []string{ledger.Payable(id)} }, 1},
	} {
		rows, err := tx.Query(ctx, `SELECT `+side.column+`, `+side.currency+`, CAST(SUM(`+side.sum+`) AS BIGINT) FROM billing_charges GROUP BY `+side.column+`, `+side.currency+` ORDER BY `+side.column)
		if err != nil {
			return fmt.Errorf("sum charges: %w", err)
		}
		type sum struct {
			id       string
			currency money.Currency
			amount   money.Amount
		}
		var sums []sum
		for rows.Next() {
			var x sum
			if err := rows.Scan(&x.id, &x.currency, &x.amount); err != nil {
				rows.Close()
				return fmt.Errorf("sum charges: %w", err)
			}
			sums = append(sums, x)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return fmt.Errorf("sum charges: %w", err)
		}
		for _, x := range sums {
			var moved money.Amount
			for _, path := range side.paths(x.id) {
				for _, code := range []string{CodeCharge, CodeCorrection, CodePrepayment, CodeUnusedPaid, CodeVolume} {
					in, out, err := s.cfg.Ledger.Flow(ctx, tx, path, x.currency, code, endOfTime)
					if err != nil {
						return err
					}
					moved += in - out
				}
			}
			if side.sign*moved != x.amount {
				r.wrong(x.id, "it %s %s %s by its transfers, and %s by its charges", side.what, side.sign*moved, x.currency, x.amount)
			}
		}
	}
	return nil
}

// verifyDocuments follows each series: no number is missing, and no document was
// changed or taken away.
func (s *Service) verifyDocuments(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT s.series, i.number, i.document, i.digest, s.next, s.digest FROM billing_series s LEFT JOIN billing_invoices i ON i.series = s.series ORDER BY s.series, i.number`)
	if err != nil {
		return fmt.Errorf("read documents: %w", err)
	}
	defer rows.Close()
	var at seriesRow
	var end seriesRow
	finish := func() {
		if end.next != 0 && (at.next != end.next || at.digest != end.digest) {
			r.wrong(end.name, "its last document is number %d, and it says that the next one is %d", at.next-1, end.next)
		}
	}
	for rows.Next() {
		var series, last string
		var digest *string
		var number *int64
		var text []byte
		var next int64
		if err := rows.Scan(&series, &number, &text, &digest, &next, &last); err != nil {
			return fmt.Errorf("read documents: %w", err)
		}
		if at.name != series {
			finish()
			at, end = seriesRow{series, 1, ""}, seriesRow{series, next, last}
		}
		if number == nil {
			continue // there is none in it
		}
		r.Invoices++
		name := seriesRow{series, *number, ""}.number()
		if *number != at.next {
			r.wrong(name, "the number before it is missing")
		} else if want := chained(at.digest, bytes.TrimSpace(text)); want != *digest {
			r.wrong(name, "the document is not the one that was written")
		}
		at.next, at.digest = *number+1, *digest
	}
	finish()
	return rows.Err()
}

// invoicesAtOnce is how many invoices are in memory together.
const invoicesAtOnce = 500

// verifyInvoices computes every invoice again from its month's charges.
func (s *Service) verifyInvoices(ctx context.Context, tx *store.Tx, r *Report) error {
	for last := int64(-1); ; {
		// Each page is read to its end before its invoices are looked into:
		// PostgreSQL answers one query of a transaction at a time.
		page, err := invoicesAfter(ctx, tx, last)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, d := range page {
			last = d.next
			var v Invoice
			if err := json.Unmarshal(d.text, &v); err != nil {
				r.wrong(d.number(), "it cannot be read: %v", err)
				continue
			}
			if err := s.verifyInvoice(ctx, tx, r, v); err != nil {
				return err
			}
		}
	}
}

// writtenInvoice is an invoice as it is stored, under its number.
type writtenInvoice struct {
	seriesRow
	text []byte
}

func invoicesAfter(ctx context.Context, tx *store.Tx, number int64) ([]writtenInvoice, error) {
	rows, err := tx.Query(ctx, `SELECT number, document FROM billing_invoices WHERE series = ? AND number > ? ORDER BY number LIMIT ?`, invoiceSeries, number, invoicesAtOnce)
	if err != nil {
		return nil, fmt.Errorf("read invoices: %w", err)
	}
	defer rows.Close()
	var page []writtenInvoice
	for rows.Next() {
		d := writtenInvoice{seriesRow: seriesRow{name: invoiceSeries}}
		if err := rows.Scan(&d.next, &d.text); err != nil {
			return nil, fmt.Errorf("read invoices: %w", err)
		}
		page = append(page, d)
	}
	return page, rows.Err()
}

func (s *Service) verifyInvoice(ctx context.Context, tx *store.Tx, r *Report, v Invoice) error {
	sums, err := chargeSums(ctx, tx, `account_id = ? AND booked_at > ? AND booked_at <= ?`, v.AccountID, store.Micros(v.Start), store.Micros(v.End))
	if err != nil {
		return err
	}
	var lines []pricing.InvoiceLine
	for _, l := range v.Lines {
		k := meterOf{l.LeaseID, l.Meter}
		c := sums[k]
		c.amount, c.granted = c.amount-int64(l.Amount), c.granted-int64(l.Granted)
		sums[k] = c
		lines = append(lines, pricing.InvoiceLine{Reference: l.LeaseID, Meter: l.Meter, Amount: l.Amount, Granted: l.Granted})
	}
	for _, l := range v.Lines {
		if left := sums[meterOf{l.LeaseID, l.Meter}].amount; left != 0 {
			r.wrong(v.Number, "the charges of lease %s for %s in its month come to %s more than its lines", l.LeaseID, l.Meter, money.Amount(left))
		}
		if left := sums[meterOf{l.LeaseID, l.Meter}].granted; left != 0 {
			r.wrong(v.Number, "what grants paid for %s of lease %s in its month comes to %s more than its lines", l.Meter, l.LeaseID, money.Amount(left))
		}
		delete(sums, meterOf{l.LeaseID, l.Meter})
	}
	for k, c := range sums {
		if c.amount != 0 || c.granted != 0 {
			r.wrong(v.Number, "it has no line for %s of lease %s, which was charged %s", k.meter, k.lease, money.Amount(c.amount))
		}
	}
	var rules []pricing.TaxRule
	for _, t := range v.Taxes {
		rules = append(rules, pricing.TaxRule{Jurisdiction: t.Jurisdiction, Name: t.Name, PPM: t.PPM, Inclusive: t.Inclusive})
	}
	want, err := pricing.NewInvoice(v.Currency, lines, rules)
	if err != nil {
		return err
	}
	if got := v.arithmetic(); got.Total != want.Total || got.Discount != want.Discount || got.Subtotal != want.Subtotal || got.Rounding != want.Rounding {
		r.wrong(v.Number, "it comes to %s, and its lines and taxes to %s", got.Total, want.Total)
	}
	for n := range want.Taxes {
		if v.Taxes[n].Amount != want.Taxes[n].Amount {
			r.wrong(v.Number, "its tax %s is %s, and by its rate %s", v.Taxes[n].Name, v.Taxes[n].Amount, want.Taxes[n].Amount)
		}
	}
	return nil
}

// verifyStatements follows each account's months.
func (s *Service) verifyStatements(ctx context.Context, tx *store.Tx, r *Report) error {
	rows, err := tx.Query(ctx, `SELECT s.account_id, s.start_at, s.end_at, s.opening, s.closing, s.invoice_id, s.invoiced, COALESCE(i.document, '')
		FROM billing_statements s LEFT JOIN billing_invoices i ON i.id = s.invoice_id ORDER BY s.account_id, s.start_at`)
	if err != nil {
		return fmt.Errorf("read statements: %w", err)
	}
	defer rows.Close()
	var account, invoice string
	var end int64
	var closing money.Amount
	for rows.Next() {
		var id, document string
		var from, to int64
		var opening, closed, invoiced money.Amount
		if err := rows.Scan(&id, &from, &to, &opening, &closed, &invoice, &invoiced, &document); err != nil {
			return fmt.Errorf("read statements: %w", err)
		}
		if id != account {
			closing, end = 0, from
		}
		if from != end || opening != closing {
			r.wrong(id, "the statement from %s opens with %s, and the one before it ended at %s with %s", store.Time(from), opening, store.Time(end), closing)
		}
		var v Invoice
		if document != "" {
			if err := json.Unmarshal([]byte(document), &v); err != nil {
				return fmt.Errorf("read statements: %w", err)
			}
		}
		if v.Total != invoiced || (invoice != "") != (document != "") {
			r.wrong(id, "the statement from %s says that %s was invoiced, and the invoice says %s", store.Time(from), invoiced, v.Total)
		}
		account, end, closing = id, to, closed
	}
	return rows.Err()
}
