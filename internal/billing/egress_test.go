package billing_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

const gb = 1_000_000_000

// A host may claim what it likes. The renter pays for it while there is money, the
// provider earns no more than that, and what was refused is not charged later.
func TestEgressBeyondTheBalanceIsNeverCharged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "4")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Second))
		w.watch()
		if err := w.egress("ls-1", 10*gb); err != nil {
			t.Fatal(err)
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(16*time.Second))
		w.watch()
		if !slices.Equal(w.orders, []string{"ls-1 balance"}) {
			t.Errorf("orders %v, want a stop", w.orders)
		}
		w.stopCompute("ls-1", w.pass(time.Second))
		b := w.bill("ls-1")
		if b.Total.String() != "4.000000" { // 1 + 3
			t.Errorf("total %s, want 4.000000", b.Total)
		}
		if missing := 6_250_000_000 - b.EgressRefused; missing < 0 || missing > 1000 { // less than a micro-unit buys
			t.Errorf("%d bytes are said to be refused, want 6250000000", b.EgressRefused)
		}
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		w.wantBalance(ledger.Payable("ac-provider"), "3.200000")

		w.deposit("ac-renter", "100")
		for range 2 {
			if err := w.egress("ls-1", 11*gb); err != nil {
				t.Fatal(err)
			}
		}
		w.end("ls-1", w.pass(time.Second))
		if b := w.bill("ls-1"); b.Total.String() != "4.800000" {
			t.Errorf("total %s, want 4.800000: what was refused, and 1 GB more", b.Total)
		}
		w.right()
	})
}

func TestEgressBeyondTheSpendingCapIsNeverCharged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		terms := w.terms("ls-1")
		terms.SpendingCap = must(t, "2")
		w.begin(terms)
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Second))
		w.watch()
		for _, total := range []int64{gb, 500 * gb, 900 * gb} {
			if err := w.egress("ls-1", total); err != nil {
				t.Fatal(err)
			}
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(16*time.Second))
		w.watch()
		if !slices.Equal(w.orders, []string{"ls-1 spending_cap"}) {
			t.Errorf("orders %v, want a stop", w.orders)
		}
		w.end("ls-1", w.pass(time.Second))
		if b := w.bill("ls-1"); b.Total.String() != "2.000000" {
			t.Errorf("total %s, want the cap, 2.000000", b.Total)
		}
		w.right()
	})
}

func TestEgressDoesNotTakeWhatIsSetAsideForOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.begin(w.terms("ls-1"))
		w.begin(w.terms("ls-2")) // has 3.60 set aside
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(100*time.Second))
		if err := w.egress("ls-1", 500*gb); err != nil {
			t.Fatal(err)
		}
		w.end("ls-1", w.pass(time.Second))
		if b := w.bill("ls-1"); b.Total.String() != "6.400000" {
			t.Errorf("total %s, want 6.400000", b.Total)
		}
		w.wantBalance(ledger.Hold("ac-renter"), "3.600000")
		w.right()
	})
}

// An account with plenty is charged from memory; that has an end as well.
func TestManyClaimsTogetherAreBoundedByTheBalance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "2000")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		for i := range int64(60) {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(10*time.Second))
			if i%7 == 0 {
				w.watch()
			}
			if err := w.egress("ls-1", (i+1)*100*gb); err != nil {
				t.Fatal(err)
			}
		}
		w.settle()
		w.end("ls-1", w.pass(time.Second))
		if b := w.bill("ls-1"); b.Total.String() != "2000.000000" {
			t.Errorf("total %s, want all that there was, 2000.000000", b.Total)
		}
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		w.right()
	})
}

func TestEgressIsBoundedByTheTimeThatALeaseRan(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100000000")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(40*time.Second))
		w.pass(10 * time.Hour)
		wantCode(t, w.egress("ls-1", 110*50*gb), "egress_implausible")
		if err := w.egress("ls-1", 90*50*gb); err != nil {
			t.Fatal(err)
		}
	})
}

// Who was asked to stop runs on at the host's cost, whatever the host says.
func TestComputeIsNotChargedBeyondTheLimitOfARequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		limit := func(d time.Duration) {
			w.do(func(ctx context.Context, tx *store.Tx) error {
				return w.LimitCompute(ctx, tx, "ls-1", w.clock().Add(d))
			})
		}
		total := func(want string) {
			t.Helper()
			if b := w.bill("ls-1"); b.Total.String() != want {
				t.Errorf("total %s, want %s", b.Total, want)
			}
		}
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(100*time.Second))
		limit(30 * time.Second)
		w.ConfirmAlive([]string{"ls-1"}, w.pass(10*time.Second))
		total("0.110000")
		for range 10 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Minute))
			w.watch()
			w.settle()
			w.restart()
		}
		total("0.130000")
		limit(30 * time.Second) // another request does not make it longer
		w.stopCompute("ls-1", w.clock())
		total("0.130000")
		if len(w.orders) != 0 {
			t.Errorf("what is being stopped was ordered to stop: %v", w.orders)
		}
		w.startCompute("ls-1", w.pass(time.Second)) // a new run has no limit
		w.ConfirmAlive([]string{"ls-1"}, w.pass(100*time.Second))
		total("0.230000")
		w.end("ls-1", w.clock())
		w.right()
	})
}

// The money may end sooner than the grace of a request.
func TestMoneyThatEndsBeforeTheLimitOfARequestStillEndsTheCharge(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "3.6")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(3590*time.Second))
		w.watch()
		w.do(func(ctx context.Context, tx *store.Tx) error {
			return w.LimitCompute(ctx, tx, "ls-1", w.clock().Add(30*time.Second))
		})
		w.ConfirmAlive([]string{"ls-1"}, w.pass(20*time.Second))
		w.watch()
		w.end("ls-1", w.pass(20*time.Second))
		if b := w.bill("ls-1"); b.Total != 3*money.Amount(1_200_000) {
			t.Errorf("total %s, want 3.600000", b.Total)
		}
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		w.right()
	})
}
