package billing_test

import (
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/pricing"
)

// volume is of 100 GiB at 0.36 a month each, which is kept and never runs.
func (w *world) volume(id string) billing.Terms {
	w.t.Helper()
	t := w.terms(id, func(tariff *pricing.Tariff, r *pricing.Request) {
		tariff.Compute, tariff.Egress, tariff.MinimumSeconds, tariff.Storage = 0, 0, 0, mustRate(w.t, "0.36")
		r.DiskGiB = 100
	})
	t.Kept = true
	return t
}

func TestWhatIsKeptIsChargedFromWhenItIsThereToWhenItIsGone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.volume("vo-1"))
		w.pass(time.Hour)
		w.settle()
		if b := w.bill("vo-1"); b.Total != 0 {
			t.Fatalf("before it is there it costs %s", b.Total)
		}
		w.startStorage("vo-1", w.clock())
		w.pass(10 * 24 * time.Hour)
		w.settle()
		// Ten of the thirty days of the month.
		w.restart()
		w.end("vo-1", w.clock())
		want := must(t, "36") * 10 / 31
		if got := w.bill("vo-1").Total; got < want-1_000_000 || got > want+2_000_000 || got == 0 {
			t.Errorf("ten days of 100 GiB came to %s, want about %s", got, want)
		}
		before := w.bill("vo-1").Total
		w.pass(24 * time.Hour)
		w.settle()
		if got := w.bill("vo-1").Total; got != before {
			t.Errorf("after it was gone it came to %s, and to %s before", got, before)
		}
		w.right()
		w.explains("ac-renter")
		w.explainsTransfers("ac-renter")
	})
}

func TestWhatIsKeptWithoutMoneyIsGivenUpAfterTheGrace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1")
		w.begin(w.volume("vo-1"))
		w.startStorage("vo-1", w.clock())
		for range 16 {
			w.pass(24 * time.Hour)
			w.settle()
			w.watch()
		}
		w.mu.Lock()
		orders := w.orders
		w.mu.Unlock()
		if len(orders) == 0 || orders[0] != "vo-1 "+string(billing.ReasonGraceOver) {
			t.Errorf("the orders are %q", orders)
		}
		w.right()
	})
}
