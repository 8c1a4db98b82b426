package billing_test

import (
	"context"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// manyPlans is a world whose renter has a month with grants, reservations and credits,
// which is paid, taken back, given up and paid again.
func (w *world) manyPlans() {
	w.t.Helper()
	w.deposit("ac-renter", "400")
	w.closeMonths()
	w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(w.t, "5"), Meters: []pricing.Meter{pricing.Compute}, ExpiresAt: w.clock().Add(50 * time.Hour), Reference: "spring"})
	w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(w.t, "9"), Meters: []pricing.Meter{pricing.Egress}, ExpiresAt: w.clock().Add(20 * time.Hour)})
	w.buy(w.reservation("rv-1", 1, 20, pricing.PartialUpfront))
	w.buy(w.reservation("rv-2", 1, 20, pricing.AllUpfront))
	for _, id := range []string{"ls-1", "ls-2", "ls-3"} {
		w.begin(w.bundle(id, 1))
		w.startCompute(id, w.clock())
		w.ConfirmAlive([]string{"ls-1", "ls-2", "ls-3"}, w.pass(25*time.Minute))
		w.settle()
	}
	w.ConfirmAlive([]string{"ls-1", "ls-2", "ls-3"}, w.pass(45*time.Minute))
	lost := w.clock()
	w.settle()
	w.pass(10 * time.Minute)
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-1", lost) })
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-2", lost) })
	w.ConfirmAlive([]string{"ls-1", "ls-2", "ls-3"}, w.pass(2*time.Hour))
	w.settle()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.Deliver(ctx, tx, "rv-1", w.clock()) })
	w.ConfirmAlive([]string{"ls-1", "ls-2", "ls-3"}, w.pass(3*time.Hour))
	w.do(func(ctx context.Context, tx *store.Tx) error {
		if _, err := w.EndReserved(ctx, tx, "rv-2", true); err != nil {
			return err
		}
		_, err := w.EndReserved(ctx, tx, "rv-1", false)
		return err
	})
	w.stopCompute("ls-1", w.clock().Add(-time.Hour)) // it is learned that it ran for less
	for _, id := range []string{"ls-1", "ls-2", "ls-3"} {
		w.end(id, w.clock())
	}
	w.pass(time.Hour)
	for _, id := range []string{"rv-1", "rv-2"} {
		w.end(id, w.clock())
	}
	w.begin(w.spotTerms("ls-4", "0.20", "0.37"))
	w.startCompute("ls-4", w.clock())
	w.evict("ls-4", w.pass(777*time.Second)) // somebody wants its GPU on demand
	w.end("ls-4", w.clock())
	w.do(func(ctx context.Context, tx *store.Tx) error {
		return w.Give(ctx, tx, "ac-renter", money.CNY, ledger.Transfer{Key: ledger.Key(w.clock(), "sla"), Debit: ledger.Commission, Credit: ledger.Wallet("ac-renter"),
			Amount: must(w.t, "0.7"), Currency: money.CNY, Code: "sla_credit", Reference: "ls-3", EffectiveAt: w.clock()})
	})
	w.goTo("2026-04-01T02:00:00Z")
	w.settle()
	w.closeMonths()
	v := w.invoices("ac-renter")[0]
	if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: 1, Amount: must(w.t, "0.5")}}, Refund: true, Reason: "goodwill"}, ""); err != nil {
		w.t.Fatal(err)
	}
	in := billing.Receipt{AccountID: "ac-renter", Currency: money.CNY, Amount: must(w.t, "395"), Reference: "chargeback", Key: "taken", At: w.clock()}
	w.do(func(ctx context.Context, tx *store.Tx) error { _, _, err := w.GiveBack(ctx, tx, in, true); return err })
	w.Changed("ac-renter")
	w.goTo("2026-05-20T02:00:00Z")
	w.dun()
	if _, err := w.WriteOff(w.ctx, operator, v.ID, "gone"); err != nil {
		w.t.Fatal(err)
	}
	w.deposit("ac-renter", "50")
	w.closeMonths()
}

// in the order of postings.
func (w *world) explainedTransfers(accountID string) []billing.Explanation {
	w.t.Helper()
	list, err := w.Transfers(w.ctx, accountID, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []billing.Explanation
	seen := map[string]int{}
	for i := len(list) - 1; i >= 0; i-- {
		// The first two of each kind say it all.
		if seen[list[i].Code+list[i].Debit]++; seen[list[i].Code+list[i].Debit] > 2 {
			continue
		}
		e, err := w.Explain(w.ctx, accountID, list[i].ID)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func TestChargesAndTransfersOfEachPlanAreExplainedInWords(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.manyPlans()
		byLease := map[string][]billing.Explanation{}
		for _, e := range w.explained("ac-renter", pricing.Compute) {
			byLease[e.LeaseID] = append(byLease[e.LeaseID], e)
		}
		golden(t, "granted", byLease["ls-3"]...)
		golden(t, "covered", append(byLease["ls-1"], byLease["ls-2"]...)...)
		golden(t, "reservation_partial", byLease["rv-1"]...)
		golden(t, "reservation_upfront", byLease["rv-2"]...)
		golden(t, "interrupted", byLease["ls-4"]...)
		golden(t, "money", w.explainedTransfers("ac-renter")...)
		w.explains("ac-renter")
		w.explainsTransfers("ac-renter")
		w.addsUp("ac-renter", noon)
		w.right()
	}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 80_000}))
}

func TestAChargeOnCreditIsExplainedInWords(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "20")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Hour))
		w.deposit("ac-renter", "2")
		golden(t, "on_credit", append(w.explained("ac-renter", pricing.Compute), w.explainedTransfers("ac-renter")...)...)
	})
}
