package billing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Whoever repairs a clock that was ahead must not find the books in question.
func TestAClockThatIsSetBackLeavesPriceListsProvable(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		list := w.priceList(billing.NewPriceList{Name: "steel", Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 100_000}}})
		w.pass(time.Hour) // ahead
		w.assign(list.ID, "ac-renter")
		w.pass(time.Minute)
		w.begin(w.listed("ls-1", "ac-renter", "RTX"))
		w.startCompute("ls-1", w.clock())
		w.pass(-50 * time.Minute) // repaired
		if err := w.WithdrawPriceList(w.ctx, operator, list.ID, "ac-renter"); err != nil {
			t.Fatal(err)
		}
		w.right()
		w.assign(list.ID, "ac-renter")
		w.begin(w.listed("ls-2", "ac-renter", "RTX"))
		w.pass(2 * time.Hour)
		w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.clock())
		w.end("ls-1", w.clock())
		w.end("ls-2", w.clock())
		w.right()
	})
}

func TestAQuoteThatWasOnItsWayWhileItsListWasTakenAwayIsProvable(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		list := w.priceList(billing.NewPriceList{Name: "steel", Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 100_000}}})
		w.assign(list.ID, "ac-renter")
		w.pass(20 * time.Millisecond)
		quoted := w.listed("ls-1", "ac-renter", "RTX") // by what it read before it was taken away
		w.pass(-10 * time.Millisecond)                 // which began before, and took a while
		if err := w.WithdrawPriceList(w.ctx, operator, list.ID, "ac-renter"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		w.begin(quoted)
		w.right()
	})
}

func TestACorrectionAfterAMonthsVolumeIsExplainedExportedAndCreditedExactly(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10000")
		w.tiers(pricing.Tier{From: 0, BasisPoints: 3333})
		w.closeMonths()
		w.pass(32 * 24 * time.Hour)
		w.closeMonths()
		w.coupon("HALF 50% upto=5.00CNY")
		w.redeem("ac-renter", "HALF")
		w.begin(w.of("ls-1", "ac-renter", "RTX"))
		w.startCompute("ls-1", w.clock())
		began := w.clock()
		w.ConfirmAlive([]string{"ls-1"}, w.pass(9*24*time.Hour))
		w.settle()
		for range 30 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(24*time.Hour))
			w.settle()
			w.closeMonths()
		}
		w.right()
		// Its host says late that it stopped after an hour.
		w.stopCompute("ls-1", began.Add(time.Hour))
		w.end("ls-1", w.clock())
		w.right()
		w.ran("ls-2", "ac-renter", 3)
		w.pass(40 * 24 * time.Hour)
		w.settle()
		w.closeMonths()
		w.right()
		w.explains("ac-renter")
		w.explainsTransfers("ac-renter")
		w.addsUp("ac-renter", noon)
		for _, v := range w.invoices("ac-renter") {
			if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
				t.Logf("%s: %v", v.Number, err)
			}
			w.right()
		}
		w.pass(40 * 24 * time.Hour)
		w.closeMonths()
		w.right()
		w.addsUp("ac-renter", noon)
	}, taxed(vat))
}

func TestTwoAtOnceRedeemACouponAndGetAPriceListOnce(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.coupon("FEW 5.00CNY max=3")
		var lists []string
		for i := range 4 {
			lists = append(lists, w.priceList(billing.NewPriceList{Name: fmt.Sprint("list ", i), Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 1}}}).ID)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		given, assigned := map[string]bool{}, 0
		for i := range 8 {
			for range 2 {
				all.Go(func() {
					g, err := w.Redeem(context.Background(), owner(fmt.Sprint("ac-", i)), "few")
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						given[g.ID] = true
					}
				})
			}
			all.Go(func() {
				_, err := w.AssignPriceList(context.Background(), operator, lists[i%4], "ac-renter")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					assigned++
				}
			})
		}
		all.Wait()
		if len(given) != 3 {
			t.Errorf("a coupon for 3 was given to %d", len(given))
		}
		has, err := w.PriceListsOf(w.ctx, "ac-renter")
		if err != nil || len(has) != 1 || assigned < 1 || assigned > 2 {
			t.Errorf("%d assigned, and it has %+v, %v", assigned, has, err)
		}
		w.right()
	})
}

func TestVolumeIsOfTheMonthsOfTheAccountsZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"America/New_York", "Asia/Shanghai"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			eachWith(t, func(t *testing.T, w *world) {
				w.deposit("ac-renter", "10000")
				w.tiers(pricing.Tier{From: must(t, "100"), BasisPoints: 5000})
				w.closeMonths()
				w.begin(w.of("ls-1", "ac-renter", "RTX"))
				w.startCompute("ls-1", w.clock())
				for range 60 {
					w.ConfirmAlive([]string{"ls-1"}, w.pass(25*time.Hour))
					w.settle()
					w.closeMonths()
				}
				w.end("ls-1", w.clock())
				w.pass(40 * 24 * time.Hour)
				w.closeMonths()
				w.right()
				w.explains("ac-renter")
			}, in(zone))
		})
	}
}

// A charge must never fail for a grant that was never in force.
func TestAGrantThatIsOverAtOnceHoldsUpNothing(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		if _, err := w.Grant(w.ctx, operator, billing.CreateGrant{AccountID: "ac-renter", Amount: 5, ExpiresAt: w.clock().Add(200 * time.Nanosecond)}, ""); err != nil {
			wantCode(t, err, "invalid_grant")
		}
		until := w.clock().Add(time.Hour)
		w.coupon("SHORT 50% upto=5.00CNY until=" + until.Add(700*time.Nanosecond).Format(time.RFC3339Nano))
		w.pass(time.Hour)
		if _, err := w.Redeem(w.ctx, owner("ac-renter"), "SHORT"); err != nil {
			wantCode(t, err, "coupon_unusable")
		}
		w.begin(w.of("ls-1", "ac-renter", "RTX"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.EndLease(ctx, tx, "ls-1", w.clock()) })
		w.right()
	})
}

func TestTheSameKeyWithAnotherEndIsAnotherGrant(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		c := billing.CreateGrant{AccountID: "ac-renter", Amount: money.Amount(5_000_000), ExpiresAt: w.clock().Add(time.Hour)}
		if _, err := w.Grant(w.ctx, operator, c, "k"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Grant(w.ctx, operator, c, "k"); err != nil {
			t.Fatal(err)
		}
		c.ExpiresAt = c.ExpiresAt.Add(time.Hour)
		_, err := w.Grant(w.ctx, operator, c, "k")
		wantCode(t, err, "idempotency_conflict")
	})
}
