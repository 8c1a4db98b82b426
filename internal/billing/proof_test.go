package billing_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// has is what an account has, set aside or not, less what it owes.
func (w *world) has(accountID string) money.Amount {
	w.t.Helper()
	return w.ledgerBalance(ledger.Wallet(accountID)) + w.ledgerBalance(ledger.Hold(accountID)) + w.ledgerBalance(ledger.Receivable(accountID))
}

var vat = pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 200_000}

// Case: grants that paid were invoiced as if the wallet had, and credits for bad
// service were on no statement.
func TestAStatementClosesWithWhatTheAccountHas(t *testing.T) {
	t.Parallel()
	for name, tax := range map[string]pricing.TaxRule{"added": vat, "included": {Jurisdiction: "X", Name: "VAT", PPM: 200_000, Inclusive: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWith(t, func(t *testing.T, w *world) {
				w.deposit("ac-renter", "100")
				w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "40"), ExpiresAt: w.clock().Add(1000 * time.Hour)})
				w.begin(w.terms("ls-1"))
				w.closeMonths()
				w.startCompute("ls-1", w.clock())
				w.ConfirmAlive([]string{"ls-1"}, w.pass(20*time.Hour))
				w.settle()
				w.do(func(ctx context.Context, tx *store.Tx) error {
					return w.Give(ctx, tx, "ac-renter", money.CNY, ledger.Transfer{Key: "sla", Debit: ledger.Commission, Credit: ledger.Wallet("ac-renter"),
						Amount: must(t, "7"), Currency: money.CNY, Code: "sla_credit", EffectiveAt: w.clock()})
				})
				w.end("ls-1", w.clock())
				w.goTo("2026-04-10T00:00:00Z")
				w.closeMonths()
				v, st := w.invoices("ac-renter")[0], w.statements("ac-renter")[0]
				// 72 were used, of which the grant paid 40.
				total := map[string]string{"added": "38.400000", "included": "32.000000"}[name]
				if v.Exact.String() != "32.000000" || v.Discount.String() != "40.000000" || v.Total.String() != total || v.Lines[0].Granted.String() != "40.000000" {
					t.Errorf("%+v", v)
				}
				if st.Given.String() != "7.000000" || st.Paid.String() != "100.000000" || st.Closing != w.has("ac-renter") {
					t.Errorf("it has %s: %+v", w.has("ac-renter"), st)
				}
				w.right()
				// All of it back is what was paid, and not what the grant paid.
				promotions := w.ledgerBalance(ledger.Promotions)
				if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
					t.Fatal(err)
				}
				if has := w.has("ac-renter"); has.String() != "107.000000" {
					t.Errorf("it has %s", has)
				}
				if back := w.ledgerBalance(ledger.Promotions) - promotions; back.String() != "40.000000" {
					t.Errorf("%s went back to where the grant came from", back)
				}
				w.wantBalance(ledger.Payable("ac-provider"), "0.000000")
				w.wantBalance(ledger.Tax("X"), "0.000000")
				w.right()
				for what, act := range map[string]string{
					"was given by grants": `UPDATE billing_charges SET granted = granted + 1`,
					"by what it paid":     `UPDATE billing_draws SET amount = amount - 1`,
					"was given otherwise": `UPDATE billing_statements SET given = given + 1, closing = closing + 1`,
					"what grants paid":    `UPDATE billing_charges SET granted = granted - 1`,
				} {
					if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
						if _, err := tx.Exec(ctx, act); err != nil {
							return err
						}
						r, err := w.Proof(ctx, tx)
						if err == nil && !strings.Contains(fmt.Sprint(r.Wrong), what) {
							t.Errorf("%s: %+v", act, r.Wrong)
						}
						if err == nil {
							err = errCrash
						}
						return err
					}); err == nil {
						t.Fatal("it was kept")
					}
				}
			}, taxed(tax))
		})
	}
}

// A correction of one meter gave its grant's money to another meter's use.
func TestACorrectionGivesBackToGrantsWhatTheyPaidForThatMeter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		g := w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "50"), Meters: []pricing.Meter{pricing.Compute}, ExpiresAt: w.clock().Add(1000 * time.Hour)})
		w.begin(w.terms("ls-1", func(p *pricing.Tariff, r *pricing.Request) { p.Storage, r.DiskGiB = mustRate(t, "7440"), 1 })) // 10 an hour in March
		w.startStorage("ls-1", w.clock())
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(2*time.Hour))
		w.settle()
		w.stopCompute("ls-1", w.clock().Add(-time.Hour)) // it was learned that it ran for an hour only
		w.settle()
		w.end("ls-1", w.clock())
		list, err := w.Grants(w.ctx, "ac-renter")
		if err != nil || list[0].ID != g.ID {
			t.Fatal(list, err)
		}
		charges, err := w.Charges(w.ctx, "ac-renter", "ls-1", "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var compute, storage money.Amount
		for _, c := range charges {
			if c.Meter == pricing.Compute {
				compute += c.Amount
			} else {
				storage += c.Amount
			}
		}
		if list[0].Spent != compute || compute == 0 {
			t.Errorf("the grant paid %s of %s", list[0].Spent, compute)
		}
		if has := w.has("ac-renter"); has != must(t, "100")-storage {
			t.Errorf("it has %s", has)
		}
		w.right()
	})
}

// Any lines, grants, taxes, payments, credits and notes: each closed month ends with
// what the account has, and notes for all of it give back what was paid.
func TestWhateverHappensStatementsCloseWithTheBalance(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		serial := 0
		w := newWorld(t, t.Context(), db, taxed(vat))
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			w.config.Taxes[0].Inclusive = rapid.Bool().Draw(rt, "included")
			w.config.Taxes[0].PPM = rapid.SampledFrom([]int64{0, 60_000, 88_750, 200_000}).Draw(rt, "tax")
			w.config.Taxes[0].Name = fmt.Sprint("tax ", serial)
			w.restart()
			renter := fmt.Sprintf("ac-%d", serial)
			w.deposit(renter, "1000")
			w.closeMonths()
			ids := []string{}
			for n := range rapid.IntRange(1, 3).Draw(rt, "leases") {
				terms := w.terms(fmt.Sprintf("ls-%d-%d", serial, n))
				terms.AccountID = renter
				w.begin(terms)
				ids = append(ids, terms.LeaseID)
				w.startCompute(terms.LeaseID, w.clock())
			}
			given := money.Amount(0)
			for range rapid.IntRange(2, 12).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 100*3600).Draw(rt, "pass s")) * time.Second)
				w.ConfirmAlive(ids, now)
				switch rapid.SampledFrom([]string{"settle", "grant", "credit", "deposit", "refund", "close"}).Draw(rt, "step") {
				case "settle":
					w.settle()
				case "grant":
					w.grant(billing.CreateGrant{AccountID: renter, Amount: money.Amount(rapid.Int64Range(1, 60_000_000).Draw(rt, "cap")),
						ExpiresAt: now.Add(time.Duration(rapid.Int64Range(1, 500*3600).Draw(rt, "valid s")) * time.Second)})
				case "credit":
					amount := money.Amount(rapid.Int64Range(1, 9_000_000).Draw(rt, "credit"))
					given += amount
					w.do(func(ctx context.Context, tx *store.Tx) error {
						return w.Give(ctx, tx, renter, money.CNY, ledger.Transfer{Key: fmt.Sprint("sla", serial, now.UnixMicro()), Debit: ledger.Commission, Credit: ledger.Wallet(renter),
							Amount: amount, Currency: money.CNY, Code: "sla_credit", EffectiveAt: now})
					})
				case "deposit":
					w.deposit(renter, "3.33")
				case "refund":
					if _, err := w.Refund(w.ctx, operator, renter, 1_230_000, "", ""); err != nil {
						t.Log(err) // it has less
					}
				case "close":
					w.closeMonths()
				}
			}
			for _, id := range ids {
				w.stopCompute(id, w.clock())
				w.end(id, w.clock())
			}
			w.pass(45 * 24 * time.Hour)
			w.settle()
			w.closeMonths()
			list := w.statements(renter)
			if len(list) == 0 {
				rt.Fatal("no month was closed")
			}
			if last := list[len(list)-1]; last.Closing != w.has(renter) {
				rt.Fatalf("it has %s: %+v", w.has(renter), last)
			}
			before := w.has(renter)
			var total money.Amount
			for _, v := range w.invoices(renter) {
				total += v.Total
				var shown, discount money.Amount
				for _, l := range v.Lines {
					shown, discount = shown+l.Shown, discount+l.Discount
				}
				if shown != v.Subtotal || discount != v.Discount {
					rt.Fatalf("%s and %s: %+v", shown, discount, v)
				}
				if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
					wantCode(rt, err, "nothing_to_credit") // grants paid all of it
				}
			}
			if back := w.has(renter) - before; back != total {
				rt.Fatalf("notes for everything gave back %s of %s", back, total)
			}
			w.wantBalance(ledger.Tax("X"), "0.000000")
		})
		w.t = t
		w.right()
	})
}
