package billing_test

import (
	"context"
	"strings"
	"testing"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Whatever somebody changes in the database behind the books' back is found and
// named.
func TestWhatIsChangedBehindTheBooksIsNamed(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.invoiced("68.33", "57.5")
		if _, err := w.CreditInvoice(w.ctx, operator, "INV-000001", billing.Credit{Lines: []billing.CreditLine{{Position: 0, Amount: must(t, "5")}}}, ""); err != nil {
			t.Fatal(err)
		}
		w.right()
		for name, c := range map[string]struct{ act, subject, what string }{
			"a charge":         {`UPDATE billing_charges SET amount = amount + 1, provider = provider + 1 WHERE lease_id = 'ls-1'`, "ls-1", "its charges for compute come to"},
			"a split":          {`UPDATE billing_charges SET commission = commission + 1, provider = provider - 1 WHERE lease_id = 'ls-0'`, "ls-0", "is split into"},
			"use":              {`UPDATE billing_intervals SET end_at = end_at - 1000000 WHERE lease_id = 'ls-0'`, "ls-0", "its use comes to"},
			"both":             {`UPDATE billing_leases SET posted_compute = posted_compute + 5 WHERE lease_id = 'ls-0'`, "ls-0", "it says that"},
			"a charge is gone": {`DELETE FROM billing_charges WHERE lease_id = 'ls-0'`, "ls-0", "its charges for compute come to"},
			"an invoice":       {`UPDATE billing_invoices SET document = replace(document, '68.330000', '68.340000') WHERE series = 'INV'`, "INV-000001", "not the one that was written"},
			"a note is gone":   {`DELETE FROM billing_invoices WHERE series = 'CN'`, "CN", "the next one is 2"},
			"a counter":        {`UPDATE billing_series SET next = next + 1 WHERE series = 'INV'`, "INV", "the next one is 3"},
			"a statement":      {`UPDATE billing_statements SET opening = opening + 1, closing = closing + 1`, "ac-renter", "opens with"},
		} {
			var found []billing.Wrong
			back := context.Canceled // what the act changed is taken back
			err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				if strings.HasPrefix(c.act, "DELETE FROM billing_invoices") {
					if _, err := tx.Exec(ctx, `DELETE FROM billing_credits`); err != nil {
						return err
					}
				}
				if _, err := tx.Exec(ctx, c.act); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				r, err := w.Proof(ctx, tx)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				found = r.Wrong
				return back
			})
			if err == nil {
				t.Fatal("it was kept")
			}
			if len(found) == 0 || found[0].Subject != c.subject || !strings.Contains(found[0].What, c.what) {
				t.Errorf("%s: found %+v, want %s: %s", name, found, c.subject, c.what)
			}
		}
		w.right()
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 200_000}))
}
