package billing_test

import (
	"testing"
	"time"

	"suanli.dev/internal/money"
)

func TestPostedSumsAllChargesOfEachCurrency(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		if list, err := w.Posted(w.ctx); err != nil || len(list) != 0 {
			t.Fatalf("%v, %v; want nothing yet", list, err)
		}
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Second))
		w.settle()
		first, err := w.Posted(w.ctx)
		if err != nil || len(first) != 1 {
			t.Fatalf("%+v, %v; want one sum", first, err)
		}
		b := w.bill("ls-1")
		if p := first[0]; p.Currency != money.CNY || p.Simulated || p.Amount != b.Posted || p.Commission != b.Commission || p.Charges < 1 {
			t.Errorf("%+v; the bill says %s, of which %s commission", p, b.Posted, b.Commission)
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Second))
		w.settle()
		w.end("ls-1", w.clock())
		again, err := w.Posted(w.ctx)
		if err != nil || len(again) != 1 || again[0].Amount != w.bill("ls-1").Posted || again[0].Charges <= first[0].Charges {
			t.Errorf("%+v, %v; the bill says %s", again, err, w.bill("ls-1").Posted)
		}
	})
}
