package billing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Each column of each table of money, changed by itself, has the thing that is wrong
// named first.
func TestEachForgedRowIsNamed(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.invoiced("68.33", "57.5")
		if _, err := w.CreditInvoice(w.ctx, operator, "INV-000001", billing.Credit{Lines: []billing.CreditLine{{Position: 0, Amount: must(t, "5")}}, Refund: true}, ""); err != nil {
			t.Fatal(err)
		}
		w.deposit("ac-renter", "1000")
		w.begin(w.monthly("ls-m", "UTC", 3, false))
		w.pass(32 * 24 * time.Hour)
		w.closeMonths()
		w.right()
		exec := func(statements ...string) func(ctx context.Context, tx *store.Tx) error {
			return func(ctx context.Context, tx *store.Tx) error {
				for _, s := range statements {
					if _, err := tx.Exec(ctx, s); err != nil {
						return err
					}
				}
				return nil
			}
		}
		post := func(tr ledger.Transfer) func(ctx context.Context, tx *store.Tx) error {
			tr.Key, tr.Currency, tr.Amount = "forged", money.CNY, 7
			return func(ctx context.Context, tx *store.Tx) error { return w.books.Post(ctx, tx, tr) }
		}
		const ls0 = ` WHERE lease_id = 'ls-0'`
		for name, c := range map[string]struct {
			act           func(ctx context.Context, tx *store.Tx) error
			subject, what string
		}{
			"billing_charges.amount":             {exec(`UPDATE billing_charges SET amount = amount + 1, provider = provider + 1` + ls0), "ls-0", "its charges for compute come to"},
			"billing_charges.provider":           {exec(`UPDATE billing_charges SET provider = provider - 1, commission = commission + 1` + ls0), "ls-0", "is split into"},
			"billing_charges.account_id":         {exec(`UPDATE billing_charges SET account_id = 'ac-x'` + ls0), "ch-", "it was charged to ac-x"},
			"billing_charges.provider_id":        {exec(`UPDATE billing_charges SET provider_id = 'ac-x'` + ls0), "ch-", "it was earned by ac-x"},
			"billing_charges.currency":           {exec(`UPDATE billing_charges SET currency = 'USD'` + ls0), "ch-", "it was charged in USD"},
			"billing_charges.simulated":          {exec(`UPDATE billing_charges SET simulated = 1 - simulated` + ls0), "ch-", "simulated"},
			"billing_charges.to_at":              {exec(`UPDATE billing_charges SET to_at = from_at - 1` + ls0), "ch-", "before it begins"},
			"billing_charges.booked_at":          {exec(`UPDATE billing_charges SET booked_at = booked_at - 8640000000000` + ls0), "INV-000001", "more than its lines"},
			"billing_charges.meter":              {exec(`UPDATE billing_charges SET meter = 'egress'` + ls0), "ls-0", "its charges for compute come to"},
			"billing_charges.lease_id":           {exec(`UPDATE billing_charges SET lease_id = 'ls-nobody'` + ls0), "ls-0", "its charges for compute come to"},
			"billing_leases.posted_compute":      {exec(`UPDATE billing_leases SET posted_compute = posted_compute + 1` + ls0), "ls-0", "it says that"},
			"billing_leases.egress_bytes":        {exec(`UPDATE billing_leases SET egress_bytes = 1000000000` + ls0), "ls-0", "for egress, and its use comes to"},
			"billing_leases.quote":               {exec(`UPDATE billing_leases SET quote = replace(quote, '"compute_per_hour":"68.33', '"compute_per_hour":"68.32')` + ls0), "ls-0", "its use comes to"},
			"billing_intervals.end_at":           {exec(`UPDATE billing_intervals SET end_at = end_at - 1000000` + ls0), "ls-0", "its use comes to"},
			"billing_intervals.start_at":         {exec(`UPDATE billing_intervals SET start_at = start_at + 1000000` + ls0), "ls-0", "its use comes to"},
			"billing_intervals.limit_at":         {exec(`UPDATE billing_intervals SET limit_at = start_at + 1000000` + ls0), "ls-0", "its use comes to"},
			"billing_intervals gone":             {exec(`DELETE FROM billing_intervals` + ls0), "ls-0", "its use comes to"},
			"billing_prepayments.amount":         {exec(`UPDATE billing_prepayments SET amount = amount - 1`), "ls-m", "its use comes to"},
			"billing_invoices.document":          {exec(`UPDATE billing_invoices SET document = replace(document, '68.330000', '68.340000') WHERE series = 'INV' AND number = 1`), "INV-000001", "not the one that was written"},
			"billing_invoices.digest":            {exec(`UPDATE billing_invoices SET digest = 'x' WHERE series = 'INV' AND number = 1`), "INV-000001", "not the one that was written"},
			"billing_invoices.number":            {exec(`UPDATE billing_invoices SET number = 9 WHERE series = 'CN'`), "CN-000009", "the number before it is missing"},
			"billing_invoices.account_id":        {exec(`INSERT INTO billing_accounts (account_id, currency, sequence, exhausted_at, warned, grace_warned) VALUES ('ac-x', 'CNY', 0, 0, 0, 0)`, `UPDATE billing_invoices SET account_id = 'ac-x' WHERE series = 'INV' AND number = 1`), "INV-000001", "filed under another account"},
			"billing_invoices.period_start":      {exec(`UPDATE billing_invoices SET period_start = period_start + 1 WHERE series = 'INV' AND number = 1`), "INV-000001", "filed under another account"},
			"billing_invoices.period_end":        {exec(`UPDATE billing_invoices SET period_end = period_end + 1 WHERE series = 'CN'`), "CN-000001", "filed under another account"},
			"billing_invoices.issued_at":         {exec(`UPDATE billing_invoices SET issued_at = issued_at + 1 WHERE series = 'CN'`), "CN-000001", "filed under another account"},
			"billing_invoices.corrects":          {exec(`UPDATE billing_invoices SET corrects = id WHERE series = 'CN'`), "CN-000001", "filed under another account"},
			"billing_series.next":                {exec(`UPDATE billing_series SET next = next + 1 WHERE series = 'INV'`), "INV", "the next one is"},
			"billing_series.digest":              {exec(`UPDATE billing_series SET digest = 'x' WHERE series = 'CN'`), "CN", "its last document"},
			"billing_invoice_lines.amount":       {exec(`UPDATE billing_invoice_lines SET amount = amount + 1 WHERE position = 0`), "INV-000001", "its line 0 is kept as"},
			"billing_invoice_lines.meter":        {exec(`UPDATE billing_invoice_lines SET meter = 'egress' WHERE position = 0`), "INV-000001", "its line 0 is kept as"},
			"billing_invoice_lines.lease_id":     {exec(`UPDATE billing_invoice_lines SET lease_id = 'ls-x' WHERE position = 1`), "INV-000001", "its line 1 is kept as"},
			"billing_invoice_lines gone":         {exec(`DELETE FROM billing_invoice_lines WHERE position = 1`), "INV-000001", "its line 1 is not kept"},
			"billing_credits.amount":             {exec(`UPDATE billing_credits SET amount = amount - 1`), "CN-000001", "which is not what it says"},
			"billing_credits.total":              {exec(`UPDATE billing_credits SET total = total - 1`), "CN-000001", "which is not what it says"},
			"billing_credits.account_id":         {exec(`UPDATE billing_credits SET account_id = 'ac-x'`), "CN-000001", "which is not what it says"},
			"billing_credits.position":           {exec(`UPDATE billing_credits SET position = 1`), "CN-000001", "which is not what it says"},
			"billing_credits gone":               {exec(`DELETE FROM billing_credits`), "CN-000001", "is not kept"},
			"billing_statements.opening":         {exec(`UPDATE billing_statements SET opening = opening + 1, closing = closing + 1`), "ac-renter", "opens with"},
			"billing_statements.invoiced":        {exec(`UPDATE billing_statements SET invoiced = invoiced + 1, closing = closing - 1 WHERE invoice_id <> ''`), "ac-renter", "was invoiced"},
			"billing_statements.paid":            {exec(`UPDATE billing_statements SET paid = paid + 1, closing = closing + 1 WHERE start_at = (SELECT MAX(start_at) FROM billing_statements)`), "ac-renter", "was paid"},
			"billing_statements.refunded":        {exec(`UPDATE billing_statements SET refunded = refunded + 1, closing = closing - 1 WHERE start_at = (SELECT MAX(start_at) FROM billing_statements)`), "ac-renter", "was refunded"},
			"billing_statements.credited":        {exec(`UPDATE billing_statements SET credited = credited + 1, closing = closing + 1 WHERE start_at = (SELECT MAX(start_at) FROM billing_statements)`), "ac-renter", "was credited"},
			"billing_periods.start_at":           {exec(`UPDATE billing_periods SET start_at = start_at + 1`), "ac-renter", "its open month begins"},
			"a transfer of tax":                  {post(ledger.Transfer{Debit: ledger.Wallet("ac-renter"), Credit: ledger.Tax("X"), Code: billing.CodeTax, Reference: "in-nothing"}), "tr-", "no document has it"},
			"a transfer of rounding":             {post(ledger.Transfer{Debit: ledger.Wallet("ac-renter"), Credit: ledger.Rounding, Code: billing.CodeRounding, Reference: w.invoices("ac-renter")[0].ID}), "tr-", "no document has it"},
			"a transfer of a credit":             {post(ledger.Transfer{Debit: ledger.Commission, Credit: ledger.Wallet("ac-renter"), Code: billing.CodeCredit, Reference: ""}), "tr-", "no document has it"},
			"a transfer of a charge":             {post(ledger.Transfer{Debit: ledger.Wallet("ac-renter"), Credit: ledger.Payable("ac-provider"), Code: billing.CodeCharge, Reference: "ls-0"}), "ac-renter", "by its transfers"},
			"a charge of an account that is not": {exec(`INSERT INTO billing_charges (id, lease_id, account_id, provider_id, meter, currency, amount, provider, commission, simulated, from_at, to_at, posted_at, booked_at) VALUES ('ch-x', 'ls-none', 'ac-none', 'ac-provider', 'compute', 'CNY', 0, 0, 0, 0, 0, 0, 0, 0)`), "ch-x", "a lease that is not there"},
		} {
			w.restart() // what it keeps in memory is not evidence
			var found []billing.Wrong
			err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				if err := c.act(ctx, tx); err != nil {
					t.Errorf("%s: %v", name, err)
					return context.Canceled
				}
				r, err := w.Proof(ctx, tx)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				found = r.Wrong
				return context.Canceled // what the act changed is taken back
			})
			if err == nil {
				t.Fatal("it was kept")
			}
			if len(found) == 0 || !strings.HasPrefix(found[0].Subject, c.subject) || !strings.Contains(found[0].What, c.what) {
				t.Errorf("%s: found %+v, want %s: %s", name, found, c.subject, c.what)
			}
		}
		w.restart()
		w.right()
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 200_000}, pricing.TaxRule{Jurisdiction: "X", Name: "Levy", PPM: 10_000}))
}
