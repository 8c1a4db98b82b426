package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func TestARunIsChargedToTheSecondAndSharedToTheMicro(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.begin(w.terms("ls-1"))
		w.wantBalance(ledger.Hold("ac-renter"), "3.600000")
		w.startCompute("ls-1", w.pass(5*time.Minute)) // pulling costs nothing
		w.end("ls-1", w.pass(97_222*time.Millisecond))
		b := w.bill("ls-1")
		if b.Total.String() != "0.097000" || b.Posted != b.Total || b.Unbilled != 0 {
			t.Errorf("total %s, posted %s, want 0.097000 for 97 s", b.Total, b.Posted)
		}
		w.wantBalance(ledger.Payable("ac-provider"), "0.077600")
		w.wantBalance(ledger.Commission, "0.019400")
		w.wantBalance(ledger.Wallet("ac-renter"), "9.903000")
		w.wantBalance(ledger.Hold("ac-renter"), "0.000000")
		w.wantBalance(ledger.Deposits, "-10.000000")
		w.right()
	})
}

func TestALeaseThatNeverRanCostsNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 1000 }))
		w.startStorage("ls-1", w.clock())
		w.pass(3 * time.Hour)
		w.settle()
		w.end("ls-1", w.clock())
		if b := w.bill("ls-1"); b.Total != 0 || len(b.Lines) != 0 {
			t.Errorf("billed %s in %d lines", b.Total, len(b.Lines))
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "100.000000")
		w.right()
	})
}

func TestADarkHostIsNotPaidFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(100*time.Second))
		w.pass(2 * time.Hour)
		w.settle()
		if b := w.bill("ls-1"); b.Posted.String() != "0.100000" {
			t.Errorf("posted %s, want 0.100000 for the 100 s up to the last sign of life", b.Posted)
		}
		w.stopCompute("ls-1", noon.Add(100*time.Second))
		w.end("ls-1", w.clock())
		if b := w.bill("ls-1"); b.Total.String() != "0.100000" {
			t.Errorf("total %s, want 0.100000", b.Total)
		}
		w.right()
	})
}

func TestARunThatItsHostBrokeGoesOnWithoutAnotherMinimum(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(10*time.Second))
		w.pass(5 * time.Minute)
		// When it stopped nobody knows: the last sign of life counts.
		w.stopCompute("ls-1", time.Time{})
		if b := w.bill("ls-1"); b.Lines[0].Used != 10 || b.Total.String() != "0.060000" {
			t.Errorf("the bill says %+v", b.Lines)
		}
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.ResumeCompute(ctx, tx, "ls-1", w.clock()) })
		w.ConfirmAlive([]string{"ls-1"}, w.pass(20*time.Second))
		w.restart()
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.settle()
		b := w.bill("ls-1")
		if b.Total.String() != "0.060000" || b.Unbilled != 0 || len(b.Lines) != 2 || b.Lines[1].Charged != 0 || !strings.Contains(b.Lines[1].Words, "counted as one") {
			t.Errorf("the bill says %+v", b.Lines)
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(40*time.Second))
		if got := w.bill("ls-1").Total.String(); got != "0.070000" {
			t.Errorf("70 s in two parts cost %s, want 0.070000", got)
		}
		w.end("ls-1", w.clock())
		w.right()
	})
}

func TestARunThatBeginsAndEndsWhenTheOneBeforeItEndedIsClosed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		end := w.pass(100 * time.Second)
		w.stopCompute("ls-1", end)
		w.startCompute("ls-1", end)
		w.stopCompute("ls-1", end)
		w.end("ls-1", w.pass(time.Hour))
		if got := w.bill("ls-1").Total.String(); got != "0.100000" {
			t.Errorf("100 s cost %s, want 0.100000", got)
		}
		w.right()
	})
}

func TestARestartForgetsNothingThatWasCharged(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Second))
		w.settle()
		w.restart()
		if b := w.bill("ls-1"); b.Total.String() != "1.000000" || b.Unbilled != 0 {
			t.Errorf("after a restart: total %s, unbilled %s", b.Total, b.Unbilled)
		}
		w.settle()
		w.ConfirmAlive([]string{"ls-1"}, w.pass(500*time.Second))
		w.settle()
		w.wantBalance(ledger.Wallet("ac-renter"), "94.900000") // 100 − 1.5 − hold of 3.6
		w.right()
	})
}

// After a restart nothing is known of a host; that something else of the lease is
// posted must not count as a sign of life.
func TestPostingStorageIsNoSignOfLife(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 744 }))
		w.startStorage("ls-1", w.clock())
		w.startCompute("ls-1", w.clock())
		w.restart()
		w.pass(2 * time.Hour)
		w.settle()
		w.settle()
		if b := w.bill("ls-1"); b.Total.String() != "0.700000" {
			t.Errorf("total %s, want 0.700000 for two hours of disk", b.Total)
		}
	})
}

func TestRepeatsAndStaleReportsChangeNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		terms := w.terms("ls-1")
		w.begin(terms)
		w.begin(terms)
		t0 := w.clock()
		t1, t2, t3 := t0.Add(100*time.Second), t0.Add(200*time.Second), t0.Add(300*time.Second)
		w.pass(time.Hour)
		for range 3 {
			w.startCompute("ls-1", t0)
		}
		for range 3 {
			w.stopCompute("ls-1", t1)
		}
		w.startCompute("ls-1", t0) // late, and known
		if b := w.bill("ls-1"); len(b.Lines) != 1 || b.Lines[0].Open {
			t.Fatalf("a late repeat of a start opened a run: %+v", b.Lines)
		}
		w.startCompute("ls-1", t2)
		w.stopCompute("ls-1", t1) // late, and known
		w.stopCompute("ls-1", t3)
		w.stopCompute("ls-1", t3)
		w.end("ls-1", t3)
		w.end("ls-1", w.clock())
		w.stopCompute("ls-1", w.clock())
		if b := w.bill("ls-1"); b.Total.String() != "0.200000" || len(b.Lines) != 2 {
			t.Errorf("total %s in %d lines, want 0.200000 in 2", b.Total, len(b.Lines))
		}
		w.right()
	})
}

func TestRunsNeverOverlapWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.pass(200 * time.Second)
		w.stopCompute("ls-1", w.clock().Add(time.Hour))         // the future is now
		w.startCompute("ls-1", w.clock().Add(-100*time.Second)) // before the end of the last run
		w.pass(100 * time.Second)
		w.stopCompute("ls-1", noon.Add(-time.Hour)) // before its own start
		if b := w.bill("ls-1"); b.Total.String() != "0.200000" {
			t.Errorf("total %s, want 0.200000: the second run ended where it started", b.Total)
		}
		w.right()
	})
}

func TestALeaseNeedsItsHold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "3.599999")
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, w.terms("ls-1")) })
		wantCode(t, err, "insufficient_balance")
		w.deposit("ac-renter", "0.000001")
		w.begin(w.terms("ls-1"))
		b, err := w.Balance(w.ctx, "ac-renter")
		if err != nil || b.Available != 0 || b.Held.String() != "3.600000" || b.Settled.String() != "3.600000" {
			t.Errorf("balance %+v, %v", b, err)
		}
	})
}

func TestALeaseIsPaidInTheAccountsCurrency(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		dollars := w.terms("ls-1", func(t *pricing.Tariff, _ *pricing.Request) { t.Currency = money.USD })
		begin := func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, dollars) }
		wantCode(t, w.db.Update(w.ctx, begin), "currency_mismatch") // before the first deposit, and after
		w.deposit("ac-renter", "100")
		wantCode(t, w.db.Update(w.ctx, begin), "currency_mismatch")
	})
}

func TestWhatIsUsedAndNotBilledYetIsNotAvailable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "8")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(801*time.Second)) // 0.801 due; 8 − 3.6 − 0.801 < 3.6
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, w.terms("ls-2")) })
		wantCode(t, err, "insufficient_balance")
	})
}

// Takers that come at once share what there is: money for five is not lent to six.
func TestConcurrentLeasesCannotHoldTheSameMoney(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "18") // five holds
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			terms := w.terms(fmt.Sprint("ls-", i))
			wg.Go(func() {
				errs[i] = w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, terms) })
			})
		}
		wg.Wait()
		begun := 0
		for _, err := range errs {
			if err == nil {
				begun++
			} else {
				wantCode(t, err, "insufficient_balance")
			}
		}
		if begun != 5 {
			t.Errorf("%d leases began, want 5", begun)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "0.000000")
		w.right()
	})
}

// The money ends 37 s after the last settlement. The stop is noticed late and the
// instance takes a while to stop; neither is charged, and nothing goes below zero.
func TestWhenTheMoneyEndsChargesEndAtThatSecond(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "3.637")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.settle()
		w.watch()
		if len(w.orders) != 0 {
			t.Fatalf("stopped with 37 s left: %v", w.orders)
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(41*time.Second))
		w.watch()
		if want := []string{"ls-1 balance"}; !slices.Equal(w.orders, want) {
			t.Fatalf("orders %v, want %v", w.orders, want)
		}
		w.restart() // the stop is ordered again until it has happened
		w.ConfirmAlive([]string{"ls-1"}, w.pass(5*time.Second))
		w.watch()
		if len(w.orders) != 2 {
			t.Errorf("orders %v, want the stop twice", w.orders)
		}
		w.deposit("ac-renter", "50") // too late for this run
		w.stopCompute("ls-1", w.pass(10*time.Second))
		w.end("ls-1", w.clock())
		b := w.bill("ls-1")
		if b.Total.String() != "3.637000" || b.ProviderShare+b.Commission != b.Total {
			t.Errorf("total %s = %s + %s, want 3.637000", b.Total, b.ProviderShare, b.Commission)
		}
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		w.wantBalance(ledger.Payable("ac-provider"), "2.909600")
		w.wantBalance(ledger.Wallet("ac-renter"), "50.000000")
		w.right()
	})
}

func TestTheEndOfTheMoneyIsAnnouncedOnceAtEachStep(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "93.6") // 26 hours
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		for range 26*12 - 1 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(5*time.Minute))
			w.watch()
			if w.clock().Minute() == 0 {
				w.settle()
			}
			if w.clock().Minute() == 30 {
				w.restart() // forgets nothing
			}
		}
		want := []string{"balance 24h0m0s", "balance 1h0m0s", "balance 10m0s"}
		if !slices.Equal(w.warnings, want) {
			t.Errorf("warnings %v, want %v", w.warnings, want)
		}
		w.deposit("ac-renter", "3.6") // an hour more, and the last steps come again
		w.watch()
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.watch()
		if got := w.warnings[len(want):]; !slices.Equal(got, []string{"balance 10m0s"}) {
			t.Errorf("after the deposit: %v", got)
		}
	})
}

func TestASpendingCapStopsOneLeaseOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		capped := w.terms("ls-1")
		capped.SpendingCap = must(t, "0.5")
		w.begin(capped)
		w.begin(w.terms("ls-2"))
		w.startCompute("ls-1", w.clock())
		w.startCompute("ls-2", w.clock())
		paid, err := w.PaidFor(w.ctx, "ls-1", w.clock())
		if err != nil || paid != 500*time.Second {
			t.Errorf("paid for %s, %v; want 500 s", paid, err)
		}
		w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.pass(503*time.Second))
		w.watch()
		if want := []string{"ls-1 spending_cap"}; !slices.Equal(w.orders, want) {
			t.Errorf("orders %v, want %v", w.orders, want)
		}
		w.end("ls-1", w.pass(2*time.Second))
		if b := w.bill("ls-1"); b.Total != capped.SpendingCap {
			t.Errorf("total %s, want the cap", b.Total)
		}
		w.right()
	})
}

func TestUnpaidDisksAreKeptForTheGraceAndThenEnded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		terms := w.terms("ls-1", func(t *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 744 }) // 0.35 an hour in March
		w.deposit("ac-renter", "3.95")
		w.begin(terms)
		w.startStorage("ls-1", w.clock())
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Hour))
		w.settle() // all gone
		w.wantBalance(ledger.Hold("ac-renter"), "0.000000")
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.CheckFunds(ctx, tx, "ls-1") })
		wantCode(t, err, "insufficient_balance")
		for range 6 * 24 {
			w.pass(time.Hour)
			w.settle()
			w.watch()
		}
		if len(w.orders) != 0 {
			t.Fatalf("orders %v within the grace", w.orders)
		}
		w.wantBalance(ledger.Receivable("ac-renter"), "-50.400000") // 144 h of debt
		w.pass(25 * time.Hour)
		w.watch()
		if !slices.Equal(w.orders, []string{"ls-1 storage_grace"}) {
			t.Errorf("orders %v after the grace", w.orders)
		}
		if want := []string{"storage_grace 168h0m0s", "storage_grace 24h0m0s"}; !slices.Equal(w.warnings, want) {
			t.Errorf("warnings %v, want %v", w.warnings, want)
		}
		w.deposit("ac-renter", "100")
		w.watch()
		if len(w.orders) != 1 {
			t.Errorf("orders %v after a deposit", w.orders)
		}
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.CheckFunds(ctx, tx, "ls-1") })
		w.end("ls-1", w.clock())
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000") // debt is paid first
		b := w.bill("ls-1")
		if b.Total.String() != "63.100000" { // 3.60 + 170 h × 0.35
			t.Errorf("total %s, want 63.100000", b.Total)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), (must(t, "103.95") - b.Total).String())
		w.right()
	})
}

func TestAStoppedLeaseCostsItsDiskOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 744 }))
		w.startStorage("ls-1", w.clock())
		w.startCompute("ls-1", w.pass(time.Hour)) // storage before the first run is free
		w.stopCompute("ls-1", w.pass(time.Hour))
		w.pass(10 * time.Hour)
		b := w.bill("ls-1")
		if b.Total.String() != "7.450000" { // 3.60 + 11 h × 0.35
			t.Errorf("total %s, want 7.450000", b.Total)
		}
		if r, err := w.Runway(w.ctx, "ac-renter", w.clock()); err != nil || r.BurnPerHour.String() != "0.350000" {
			t.Errorf("burn %s, %v; want 0.350000", r.BurnPerHour, err)
		}
	})
}

func TestEgressNeverDecreasesAndMustBePlausible(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.pass(100 * time.Second)
		for _, total := range []int64{5_000_000_000, 3_000_000_000, 5_000_000_000, -1} {
			if err := w.egress("ls-1", total); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, w.egress("ls-1", 1<<62), "egress_implausible")
		w.end("ls-1", w.clock())
		if b := w.bill("ls-1"); b.Total.String() != "4.100000" { // 0.1 + 5 × 0.8
			t.Errorf("total %s, want 4.100000", b.Total)
		}
		w.right()
	})
}

func TestDepositsAreForOperatorsAndHappenOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		owner := account.Principal{UserID: "us-1", AccountID: "ac-renter", Role: account.Owner}
		_, err := w.Deposit(w.ctx, owner, "ac-renter", 1, "", "k")
		wantCode(t, err, "forbidden")
		_, err = w.Deposit(w.ctx, operator, "ac-renter", 0, "", "k")
		wantCode(t, err, "amount_invalid")
		first, err := w.Deposit(w.ctx, operator, "ac-renter", 110_000_000, "wire 7", "k")
		if err != nil {
			t.Fatal(err)
		}
		for _, much := range []money.Amount{billing.Largest + 1, math.MaxInt64} {
			_, err = w.Deposit(w.ctx, operator, "ac-renter", much, "", "too much")
			wantCode(t, err, "amount_too_large")
			_, err = w.Grant(w.ctx, operator, billing.CreateGrant{AccountID: "ac-renter", Amount: much, ValidFor: time.Hour}, "")
			wantCode(t, err, "amount_too_large")
			_, err = w.SetCreditLimit(w.ctx, operator, "ac-renter", billing.CreditChange{Limit: much})
			wantCode(t, err, "amount_too_large")
			_, err = w.Refund(w.ctx, operator, "ac-renter", much, "", "")
			wantCode(t, err, "amount_too_large")
		}
		again, err := w.Deposit(w.ctx, operator, "ac-renter", 110_000_000, "wire 7", "k")
		if err != nil || again.ID != first.ID {
			t.Errorf("again: %+v, %v; want the first, %s", again, err, first.ID)
		}
		_, err = w.Deposit(w.ctx, operator, "ac-renter", 100_000_000, "wire 7", "k")
		wantCode(t, err, "idempotency_conflict")
		if _, err = w.Deposit(w.ctx, operator, "ac-other", 100_000_000, "wire 7", "k"); err != nil {
			t.Errorf("another account's key of the same name: %v", err)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "110.000000")
		w.right()
	})
}

func TestAnAgentMayGoOnAsLongAsTheMoneyLasts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "7.2")
		w.begin(w.terms("ls-1"))
		want := func(leaseID string, d time.Duration) {
			t.Helper()
			if got, err := w.PaidFor(w.ctx, leaseID, w.clock()); err != nil || got != d {
				t.Errorf("%s is paid for %s, %v; want %s", leaseID, got, err, d)
			}
		}
		want("ls-1", 2*time.Hour) // as if it started now
		w.startCompute("ls-1", w.clock())
		want("ls-1", 2*time.Hour)
		w.begin(w.terms("ls-2"))
		w.startCompute("ls-2", w.clock())
		want("ls-1", time.Hour)
		w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.pass(30*time.Minute))
		want("ls-2", 30*time.Minute)
		w.pass(time.Hour)
		want("ls-1", time.Second) // never 0, which would mean no limit
		w.deposit("ac-renter", "1000000")
		want("ls-1", 7*24*time.Hour)
	})
}

func TestHourlyGranularityStopsBeforeAnHourThatIsNotPaid(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "8")
		w.begin(w.terms("ls-1", func(t *pricing.Tariff, _ *pricing.Request) { t.Granularity = pricing.Hour }))
		w.startCompute("ls-1", w.clock())
		if got, err := w.PaidFor(w.ctx, "ls-1", w.clock()); err != nil || got != 2*time.Hour {
			t.Errorf("paid for %s, %v; want 2 h", got, err)
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(2*time.Hour+3*time.Second))
		w.watch()
		if len(w.orders) != 1 {
			t.Errorf("orders %v, want a stop", w.orders)
		}
		w.end("ls-1", w.pass(5*time.Second))
		if b := w.bill("ls-1"); b.Total.String() != "7.200000" {
			t.Errorf("total %s, want two hours", b.Total)
		}
		w.right()
	})
}

func TestSimulatedLeasesAreChargedAndSaySo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.begin(w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.Simulated = true }))
		w.startCompute("ls-1", w.clock())
		w.end("ls-1", w.pass(100*time.Second))
		b := w.bill("ls-1")
		if !b.Simulated || b.Total.String() != "0.100000" || !strings.Contains(b.Lines[0].Words, "simulated") {
			t.Errorf("simulated %v, total %s, %q", b.Simulated, b.Total, b.Lines[0].Words)
		}
		cs, err := w.Charges(w.ctx, "ac-renter", "", "", 10)
		if err != nil || len(cs) != 1 || !cs[0].Simulated {
			t.Errorf("charges %+v, %v", cs, err)
		}
		es, err := w.Earnings(w.ctx, "ac-provider")
		if err != nil || len(es) != 1 || es[0].Simulated.String() != "0.080000" || es[0].Payable != es[0].Earned {
			t.Errorf("earnings %+v, %v", es, err)
		}
	})
}

func TestABillExplainsItself(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.begin(w.terms("ls-1", func(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 10 }))
		w.startStorage("ls-1", w.clock())
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(5*time.Second))
		w.startCompute("ls-1", w.pass(5*time.Second))
		w.ConfirmAlive([]string{"ls-1"}, w.pass(90*time.Second))
		if err := w.egress("ls-1", 1_000_000_000); err != nil {
			t.Fatal(err)
		}
		var words []string
		var total money.Amount
		for _, l := range w.bill("ls-1").Lines {
			words = append(words, fmt.Sprint(l.Words, " open=", l.Open))
			total += l.Amount
		}
		want := []string{
			"ran 5 s, charged as 60 s (the minimum at each start is 60 s), at 3.60 CNY per hour: 0.06 CNY open=false",
			"ran 90 s, at 3.60 CNY per hour: 0.09 CNY open=true",
			"kept 10 GiB for 100 s of the month's 2678400 s, at 0.35 CNY per GiB-month: 0.000131 CNY open=true",
			"sent 1000000000 bytes (a GB is 1,000,000,000), at 0.80 CNY per GB: 0.80 CNY open=false",
		}
		if !slices.Equal(words, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(words, "\n"), strings.Join(want, "\n"))
		}
		if b := w.bill("ls-1"); b.Total != total {
			t.Errorf("lines add up to %s, the total is %s", total, b.Total)
		}
	})
}

func TestOneBrokenLeaseDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.deposit("ac-other", "100")
		broken := w.terms("ls-0")
		broken.AccountID = "ac-other"
		w.begin(broken)
		w.begin(w.terms("ls-1"))
		w.begin(w.terms("ls-2"))
		for _, id := range []string{"ls-0", "ls-1", "ls-2"} {
			w.startCompute(id, w.clock())
		}
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE billing_leases SET quote = '{' WHERE lease_id IN ('ls-0', 'ls-1')`)
			return err
		})
		w.restart()
		w.ConfirmAlive([]string{"ls-0", "ls-1", "ls-2"}, w.pass(time.Hour))
		w.settle()
		w.watch()
		if b := w.bill("ls-2"); b.Posted.String() != "3.600000" {
			t.Errorf("posted %s, want 3.600000", b.Posted)
		}
		w.right()
	})
}

// Two control planes settle at the same moment, again and again.
func TestReplicasThatSettleTogetherChargeOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		second, err := billing.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		w.deposit("ac-renter", "1000")
		for i := range 4 {
			w.begin(w.terms(fmt.Sprint("ls-", i)))
			w.startCompute(fmt.Sprint("ls-", i), w.clock())
		}
		for range 5 {
			now := w.pass(time.Hour)
			var wg sync.WaitGroup
			for _, s := range []*billing.Service{w.Service, second, w.Service, second} {
				wg.Go(func() {
					s.ConfirmAlive([]string{"ls-0", "ls-1", "ls-2", "ls-3"}, now)
					if err := s.Settle(w.ctx, now); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		w.wantBalance(ledger.Payable("ac-provider"), "57.600000") // 4 × 5 h × 3.60 × 80 %
		w.wantBalance(ledger.Commission, "14.400000")
		w.right()
	})
}

func TestARunningLeaseCostsNoWrites(t *testing.T) {
	t.Parallel()
	address := storetest.Address(t)
	w := newWorld(t, t.Context(), storetest.Open(t, address))
	w.deposit("ac-renter", "1000")
	w.begin(w.terms("ls-1"))
	w.startCompute("ls-1", w.clock())
	w.watch()
	size := func() int64 {
		s, err := os.Stat(strings.TrimPrefix(address, "sqlite:") + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return s.Size()
	}
	before := size()
	for range 600 {
		w.ConfirmAlive([]string{"ls-1"}, w.pass(5*time.Second))
		w.watch()
		if _, err := w.PaidFor(w.ctx, "ls-1", w.clock()); err != nil {
			t.Fatal(err)
		}
	}
	if after := size(); after != before {
		t.Errorf("50 minutes of running wrote %d bytes", after-before)
	}
}

func TestRunSettlesOnTheHourAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Address(t))
	w := newWorld(t, t.Context(), db, func(c *billing.Config) { c.WatchEvery = time.Millisecond })
	w.deposit("ac-renter", "100")
	w.begin(w.terms("ls-1"))
	w.startCompute("ls-1", w.clock())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.ConfirmAlive([]string{"ls-1"}, noon.Add(time.Hour))
	posted := false
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !posted {
		select {
		case <-deadline:
			t.Fatal("nothing was settled")
		case <-tick.C:
			w.pass(time.Minute)
			posted = w.bill("ls-1").Posted > 0
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if b := w.bill("ls-1"); b.Posted.String() != "3.600000" {
		t.Errorf("posted %s, want 3.600000", b.Posted)
	}
}

func TestAFailedTransactionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		crash := errors.New("crash")
		try := func(op func(ctx context.Context, tx *store.Tx) error) {
			t.Helper()
			err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				if err := op(ctx, tx); err != nil {
					return err
				}
				return crash
			})
			if !errors.Is(err, crash) {
				t.Fatal(err)
			}
			w.right()
			w.do(op)
		}
		terms := w.terms("ls-1")
		try(func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, terms) })
		at := w.clock()
		try(func(ctx context.Context, tx *store.Tx) error { return w.StartCompute(ctx, tx, "ls-1", at) })
		end := w.pass(1000 * time.Second)
		try(func(ctx context.Context, tx *store.Tx) error { return w.StopCompute(ctx, tx, "ls-1", end) })
		try(func(ctx context.Context, tx *store.Tx) error { return w.EndLease(ctx, tx, "ls-1", end) })
		w.wantBalance(ledger.Wallet("ac-renter"), "99.000000")
		w.right()
	})
}
