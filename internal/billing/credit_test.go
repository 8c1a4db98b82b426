package billing_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store/storetest"
)

// invoiced returns the invoice of leases that each ran an hour at a price.
func (w *world) invoiced(prices ...string) billing.Invoice {
	w.t.Helper()
	w.deposit("ac-renter", "1000")
	for i, price := range prices {
		id := fmt.Sprintf("ls-%d", i)
		w.begin(w.terms(id, func(tariff *pricing.Tariff, _ *pricing.Request) { tariff.Compute = mustRate(w.t, price) }))
		w.startCompute(id, w.clock())
	}
	w.pass(time.Hour)
	for i := range prices {
		w.end(fmt.Sprintf("ls-%d", i), w.clock())
	}
	w.closeMonths()
	w.pass(40 * 24 * time.Hour)
	w.closeMonths()
	list := w.invoices("ac-renter")
	if len(list) != 1 {
		w.t.Fatalf("%+v", list)
	}
	return list[0]
}

// flat are the balances that a charge moves.
func (w *world) flat() map[string]money.Amount {
	out := map[string]money.Amount{}
	for _, path := range []string{ledger.Payable("ac-provider"), ledger.Commission, ledger.Rounding, ledger.Tax("X")} {
		out[path] = w.ledgerBalance(path)
	}
	return out
}

// lago-api#2643: four notes for 334.99, each rounded by itself, came to 335.00. Here
// they come to the invoice, and every account is where it was before the charges.
func TestCreditNotesForAllOfAnInvoiceUndoItToTheMicro(t *testing.T) {
	t.Parallel()
	for _, inclusive := range []bool{false, true} {
		t.Run(fmt.Sprintf("inclusive %v", inclusive), func(t *testing.T) {
			t.Parallel()
			eachWith(t, func(t *testing.T, w *world) {
				v := w.invoiced("68.33", "68.33", "57.5", "85.0012345")
				var sum money.Amount
				for i, l := range v.Lines {
					note, err := w.CreditInvoice(w.ctx, operator, v.Number, billing.Credit{Lines: []billing.CreditLine{{Position: i, Amount: l.Shown}}, Reason: "host at fault"}, "")
					if err != nil {
						t.Fatal(err)
					}
					if want := fmt.Sprintf("CN-%06d", i+1); note.Number != want {
						t.Errorf("number %s, want %s", note.Number, want)
					}
					sum += note.Total
				}
				if sum != v.Total {
					t.Errorf("the notes come to %s, the invoice to %s", sum, v.Total)
				}
				for path, a := range w.flat() {
					if a != 0 {
						t.Errorf("%s stands at %s", path, a)
					}
				}
				w.wantBalance(ledger.Wallet("ac-renter"), "1000.000000")
				_, err := w.CreditInvoice(w.ctx, operator, v.Number, billing.Credit{}, "")
				wantCode(t, err, "nothing_to_credit")
				_, err = w.CreditInvoice(w.ctx, operator, v.Number, billing.Credit{Lines: []billing.CreditLine{{Position: 0, Amount: 10_000}}}, "")
				wantCode(t, err, "credit_too_large")
				notes, err := w.CreditNotes(w.ctx, "ac-renter", v.ID)
				if err != nil || len(notes) != 4 {
					t.Errorf("%+v, %v", notes, err)
				}
				w.right()
			}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 200_000, Inclusive: inclusive}))
		})
	}
}

// killbill#154: what had been taken back was billed again by the next run.
// dokan#905, lms-front#521: a refund left the seller's share, or took it twice.
func TestWhatIsTakenBackIsNotBilledAgain(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		v := w.invoiced("10", "20")
		note, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: 1, Amount: must(t, "5")}}}, "k")
		if err != nil || note.Total.String() != "5.400000" {
			t.Fatalf("%+v, %v", note, err)
		}
		again, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: 1, Amount: must(t, "5")}}}, "k")
		if err != nil || again.ID != note.ID {
			t.Errorf("a repeat is %+v, %v", again, err)
		}
		_, err = w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: 1, Amount: must(t, "6")}}}, "k")
		wantCode(t, err, "idempotency_conflict")
		w.wantBalance(ledger.Payable("ac-provider"), "20.000000") // 80 % of 30 − 5
		w.wantBalance(ledger.Commission, "5.000000")
		w.wantBalance(ledger.Tax("X"), "2.000000") // 8 % of 25
		w.pass(60 * 24 * time.Hour)
		w.settle()
		w.closeMonths()
		if list := w.invoices("ac-renter"); len(list) != 1 {
			t.Errorf("billed again: %+v", list)
		}
		st := w.statements("ac-renter")
		if last := st[len(st)-1]; last.Closing.String() != "973.000000" { // 1000 − 32.40 + 5.40
			t.Errorf("%+v", st)
		}
		var credited money.Amount
		for _, s := range st {
			credited += s.Credited
		}
		if credited != note.Total {
			t.Errorf("credits of %s on statements", credited)
		}
		w.right()
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 80_000}))
}

// killbill#1007: the money was paid out though the adjustment had failed.
func TestANoteAndItsRefundAreMadeTogetherOrNotAtAll(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		v := w.invoiced("10")
		if _, err := w.Refund(w.ctx, operator, "ac-renter", must(t, "990"), "", ""); err != nil {
			t.Fatal(err)
		}
		// Another lease has set money aside and used more than there is by its disk.
		w.deposit("ac-renter", "4")
		w.begin(w.terms("ls-9", func(tariff *pricing.Tariff, r *pricing.Request) { tariff.Storage, r.DiskGiB = mustRate(t, "100"), 1 }))
		w.startStorage("ls-9", w.clock())
		w.startCompute("ls-9", w.clock())
		w.ConfirmAlive([]string{"ls-9"}, w.pass(20*24*time.Hour))
		w.settle()
		debt := w.ledgerBalance(ledger.Receivable("ac-renter"))
		if debt >= 0 {
			t.Fatalf("no debt: %s", debt)
		}
		_, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Refund: true}, "")
		wantCode(t, err, "insufficient_balance")
		if notes, err := w.CreditNotes(w.ctx, "ac-renter", v.ID); err != nil || len(notes) != 0 || w.ledgerBalance(ledger.Receivable("ac-renter")) != debt {
			t.Errorf("half of it was done: %+v, %v", notes, err)
		}
		w.deposit("ac-renter", "500")
		wallet := w.ledgerBalance(ledger.Wallet("ac-renter"))
		note, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Refund: true}, "")
		if err != nil || note.Number != "CN-000001" || !note.Refunded {
			t.Fatalf("%+v, %v", note, err)
		}
		if now := w.ledgerBalance(ledger.Wallet("ac-renter")); now != wallet {
			t.Errorf("the wallet had %s and has %s", wallet, now)
		}
		w.right()
	})
}

func TestARefundCorrectsAMistakenDeposit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100000") // 1,000.00 was meant
		if _, err := w.Refund(w.ctx, operator, "ac-renter", must(t, "99000"), "bank 1", "correct-1"); err != nil {
			t.Fatal(err)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "1000.000000")
		w.wantBalance(ledger.Deposits, "-1000.000000")
		w.right()
	})
}

func TestReferencesHaveNoHiddenCharacters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		for _, reference := range []string{"bank \u202e811", "bank\u2066", "bank\x1b[2J", "bank\u009b"} {
			_, err := w.Deposit(w.ctx, operator, "ac-renter", must(t, "1"), reference, "")
			wantCode(t, err, "text_invalid")
			_, err = w.Refund(w.ctx, operator, "ac-renter", must(t, "1"), reference, "")
			wantCode(t, err, "text_invalid")
		}
	})
}

func TestARefundIsOfFreeMoneyOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.begin(w.terms("ls-1")) // sets 3.60 aside
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Second)) // has used 1.00 that is not posted
		_, err := w.Refund(w.ctx, operator, "ac-renter", must(t, "5.400001"), "", "")
		wantCode(t, err, "insufficient_balance")
		_, err = w.Refund(w.ctx, operator, "ac-renter", must(t, "6.5"), "", "")
		wantCode(t, err, "insufficient_balance")
		for range 3 {
			if _, err := w.Refund(w.ctx, operator, "ac-renter", must(t, "5.4"), "bank 7", "k"); err != nil {
				t.Fatal(err)
			}
		}
		_, err = w.Refund(w.ctx, operator, "ac-renter", must(t, "1"), "bank 7", "k")
		wantCode(t, err, "idempotency_conflict")
		w.wantBalance(ledger.Deposits, "-4.600000")
		_, err = w.Refund(w.ctx, account.Principal{UserID: "us", AccountID: "ac-renter", Role: account.Owner}, "ac-renter", 1, "", "")
		wantCode(t, err, "forbidden")
		w.right()
	})
}

// Whatever is taken back in whatever parts, the parts of the invoice follow, and
// together they undo it.
func TestCreditNotesInAnyPartsUndoTheInvoice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t.Context(), storetest.Open(t, storetest.Address(t)),
			taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: rapid.Int64Range(0, 300_000).Draw(rt, "rate"), Inclusive: rapid.Bool().Draw(rt, "inclusive")}))
		var prices []string
		for range rapid.IntRange(1, 4).Draw(rt, "lines") {
			prices = append(prices, money.Amount(rapid.Int64Range(1, 90_000_000).Draw(rt, "price")).String())
		}
		v := w.invoiced(prices...)
		for range rapid.IntRange(0, 4).Draw(rt, "parts") {
			i := rapid.IntRange(0, len(v.Lines)-1).Draw(rt, "line")
			part := v.Lines[i].Shown / 10_000 * money.Amount(rapid.Int64Range(0, 3).Draw(rt, "thirds")) / 3 * 10_000
			if part == 0 {
				continue
			}
			if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: i, Amount: part}}}, ""); err != nil {
				wantCode(rt, err, "credit_too_large")
			}
		}
		if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
			wantCode(rt, err, "nothing_to_credit")
		}
		var small money.Amount // lines of less than half a cent are shown as 0
		for _, l := range v.Lines {
			if l.Shown == 0 {
				small++
			}
		}
		for path, a := range w.flat() {
			if a != 0 && small == 0 {
				rt.Fatalf("%s stands at %s", path, a)
			}
		}
		w.right()
	})
}
