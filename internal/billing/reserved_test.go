package billing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// reservation is one of GPUs of the model and zone of bundle, at 2.00 an hour
// where 3.60 is the price on demand, with 20 % commission.
func (w *world) reservation(id string, gpus int64, hours int, payment pricing.Upfront) billing.ReservedTerms {
	w.t.Helper()
	from := w.clock()
	p, err := pricing.Reserve(pricing.Purchase{
		ID: id, GPUModel: "H100", Zone: "z-1", GPUs: gpus, Currency: "CNY", ListHourly: mustRate(w.t, "2"), From: from, TimeZone: "UTC",
		Until: from.Add(time.Duration(hours) * time.Hour), Payment: payment, Commission: 2000,
	}, pricing.Curve{}, pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 5000})
	if err != nil {
		w.t.Fatal(err)
	}
	r := p.Reservation
	r.ListHourly = mustRate(w.t, "3.6")
	return billing.ReservedTerms{Reservation: r, AccountID: "ac-renter", ProviderID: "ac-provider", TimeZone: "UTC"}
}

func (w *world) buy(t billing.ReservedTerms) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error {
		if err := w.BeginReserved(ctx, tx, t); err != nil {
			return err
		}
		return w.Deliver(ctx, tx, t.Reservation.ID, t.Reservation.From.Truncate(time.Hour))
	})
}

// bundle are the terms of a lease that reservations may pay for.
func (w *world) bundle(leaseID string, gpus int64) billing.Terms {
	t := w.terms(leaseID, func(f *pricing.Tariff, _ *pricing.Request) { f.MinimumSeconds = 0 })
	t.GPUModel, t.Zone, t.GPUs = "H100", "z-1", gpus
	return t
}

func (w *world) reserved(id string) billing.Reserved {
	w.t.Helper()
	r, err := w.Reserved(w.ctx, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestAReservationPaysForWhatRunsAndItsIdleHoursArePaidToo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.buy(w.reservation("rv-1", 1, 10, pricing.NoUpfront))
		w.begin(w.bundle("ls-1", 1))
		w.startCompute("ls-1", w.clock())
		w.pass(90 * time.Minute)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.settle()
		w.right()
		if b := w.bill("ls-1"); b.Total != 0 || b.Lines[0].Kind != billing.LineCovered {
			t.Errorf("the lease costs %s: %+v", b.Total, b.Lines)
		}
		w.begin(w.bundle("ls-2", 1))
		w.startCompute("ls-2", w.clock())
		w.pass(30 * time.Minute)
		w.stopCompute("ls-1", w.clock())
		w.stopCompute("ls-2", w.clock())
		w.right()
		// From 13:00 to 14:00 one ran 3,600 s and the other 1,800 s; 2,400 s and 1,200 s
		// of them are covered.
		if a, b := w.bill("ls-1"), w.bill("ls-2"); a.Total.String() != "1.200000" || b.Total.String() != "0.600000" || a.Posted != a.Total || b.Posted != b.Total {
			t.Errorf("the leases cost %s and %s, posted %s and %s", a.Total, b.Total, a.Posted, b.Posted)
		}
		w.pass(8 * time.Hour)
		w.end("ls-1", w.clock())
		w.end("ls-2", w.clock())
		w.end("rv-1", w.clock())
		w.right()
		if r := w.reserved("rv-1"); r.Due.String() != "20.000000" || r.Posted != r.Due {
			t.Errorf("the reservation costs %s, posted %s; want 20", r.Due, r.Posted)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "78.200000")
		w.wantBalance(ledger.Payable("ac-provider"), "17.440000")
		use, err := w.ReservedUse(w.ctx, "rv-1", noon, noon.Add(10*time.Hour))
		if err != nil || len(use) != 10 || use[0].Used != 3600 || use[1].Used != 3600 || use[2].Unused != 3600 || use[2].UnusedCost.String() != "2.000000" {
			t.Errorf("use %+v, %v", use, err)
		}
	})
}

// A lease that has ended already pays more when another has a part of its hour.
func TestALeaseThatEndedIsChargedWhatTheHourLeavesForIt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.buy(w.reservation("rv-1", 1, 10, pricing.NoUpfront))
		for _, id := range []string{"ls-1", "ls-2"} {
			w.begin(w.bundle(id, 1))
			w.startCompute(id, w.clock())
		}
		w.pass(30 * time.Minute)
		w.ConfirmAlive([]string{"ls-2"}, w.clock())
		w.end("ls-1", w.clock())
		w.right()
		if b := w.bill("ls-1"); b.Total != 0 {
			t.Errorf("after half an hour it costs %s", b.Total)
		}
		w.pass(30 * time.Minute)
		w.ConfirmAlive([]string{"ls-2"}, w.clock())
		w.settle()
		w.right()
		if a, b := w.bill("ls-1"), w.bill("ls-2"); a.Posted.String() != "0.600000" || b.Posted.String() != "1.200000" {
			t.Errorf("the leases were charged %s and %s, want 0.60 and 1.20", a.Posted, b.Posted)
		}
	})
}

// A host that was not heard while others were is heard again: what its lease used
// meanwhile is of hours that were looked at before.
func TestAReservationPaysForUseThatIsLearnedHoursLater(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(w *world){
		"heard again": func(w *world) { w.ConfirmAlive([]string{"ls-1"}, w.clock()); w.settle() },
		"stopped":     func(w *world) { w.stopCompute("ls-1", w.clock()) },
		"ended":       func(w *world) { w.end("ls-1", w.clock()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, w *world) {
				w.deposit("ac-renter", "100")
				w.buy(w.reservation("rv-1", 2, 10, pricing.NoUpfront))
				for _, id := range []string{"ls-1", "ls-2"} {
					w.begin(w.bundle(id, 1))
					w.startCompute(id, w.clock())
				}
				w.pass(30 * time.Minute)
				w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.clock())
				w.settle()
				for range 4 {
					w.pass(time.Hour)
					w.restart() // whoever heard of a lease may forget it
					w.ConfirmAlive([]string{"ls-2"}, w.clock())
					w.settle()
					w.right()
				}
				w.pass(10 * time.Minute)
				how(w)
				w.right()
				if a, b := w.bill("ls-1"), w.bill("ls-2"); a.Total != 0 || b.Total != 0 {
					t.Errorf("the leases cost %s and %s, and the reservation pays for all of both", a.Total, b.Total)
				}
			})
		})
	}
}

func TestWhatIsPaidUpfrontIsTakenAtOnceAndForLostTimeComesBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		terms := w.reservation("rv-1", 2, 10, pricing.AllUpfront)
		w.deposit("ac-renter", "39.999999")
		wantCode(t, w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginReserved(ctx, tx, terms) }), "insufficient_balance")
		w.deposit("ac-renter", "0.000001")
		w.buy(terms)
		w.buy(terms)
		w.wantBalance(ledger.Wallet("ac-renter"), "0.000000")
		w.wantBalance(ledger.Payable("ac-provider"), "32.000000")
		lost := w.pass(time.Hour)
		w.pass(20 * time.Second)
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-1", lost) })
		w.pass(2*time.Hour - 20*time.Second)
		w.settle()
		w.right()
		w.wantBalance(ledger.Wallet("ac-renter"), "8.000000")
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Deliver(ctx, tx, "rv-1", w.clock()) })
		w.pass(7 * time.Hour)
		w.end("rv-1", w.clock())
		w.right()
		w.wantBalance(ledger.Wallet("ac-renter"), "8.000000")
		if r := w.reserved("rv-1"); r.Due.String() != "32.000000" || r.Posted != r.Due {
			t.Errorf("it costs %s, posted %s", r.Due, r.Posted)
		}
	})
}

func TestAnEarlyEndCostsTheListPriceForWhatWasHeld(t *testing.T) {
	t.Parallel()
	for payment, want := range map[pricing.Upfront]string{pricing.NoUpfront: "92.800000", pricing.AllUpfront: "92.800000", pricing.PartialUpfront: "92.800000"} {
		each(t, func(t *testing.T, w *world) {
			w.deposit("ac-renter", "100")
			w.buy(w.reservation("rv-1", 1, 10, payment))
			w.pass(90 * time.Minute)
			w.do(func(ctx context.Context, tx *store.Tx) error {
				e, err := w.EndReserved(ctx, tx, "rv-1", false)
				if err == nil && (e.Hours != 2 || e.Owed.String() != "7.200000") {
					t.Errorf("%s: %+v", payment, e)
				}
				return err
			})
			w.do(func(ctx context.Context, tx *store.Tx) error {
				_, err := w.EndReserved(ctx, tx, "rv-1", false)
				return err
			})
			w.right()
			w.pass(30 * time.Minute)
			w.end("rv-1", w.clock())
			w.pass(5 * time.Hour)
			w.settle()
			w.right()
			w.wantBalance(ledger.Wallet("ac-renter"), want)
		})
	}
}

func TestAReservationWhoseGPUsAreGoneEndsWithoutALoss(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.buy(w.reservation("rv-1", 1, 10, pricing.AllUpfront))
		at := w.pass(2 * time.Hour)
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-1", at) })
		w.pass(3 * time.Hour)
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := w.EndReserved(ctx, tx, "rv-1", true)
			return err
		})
		w.end("rv-1", w.clock())
		w.right()
		w.wantBalance(ledger.Wallet("ac-renter"), "96.000000")
	})
}

func TestAReservationThatCannotBePaidIsChargedNoFurther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "5")
		w.buy(w.reservation("rv-1", 1, 10, pricing.NoUpfront))
		w.pass(4 * time.Hour)
		w.watch()
		if len(w.orders) != 1 || w.orders[0] != "rv-1 balance" {
			t.Fatalf("orders %v", w.orders)
		}
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-1", w.clock()) })
		w.right()
		w.wantBalance(ledger.Wallet("ac-renter"), "0.000000")
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		has := func() (ok bool) {
			w.do(func(ctx context.Context, tx *store.Tx) (err error) { ok, err = w.HasFunds(ctx, tx, "rv-1"); return err })
			return ok
		}
		if has() {
			t.Error("it has the funds to go on")
		}
		w.deposit("ac-renter", "2")
		if !has() {
			t.Error("it has not the funds to go on")
		}
	})
}

func TestTheOutlookCountsOnWhatReservationsPayFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "30")
		w.buy(w.reservation("rv-1", 1, 10, pricing.AllUpfront))
		w.begin(w.bundle("ls-1", 1))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(30*time.Minute))
		r, err := w.Runway(w.ctx, "ac-renter", w.clock())
		if err != nil || r.BurnPerHour != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		// 10 hours are covered, and what is left pays for 10 ÷ 3.6 more.
		if want := noon.Add(10*time.Hour + 10_000*time.Second); !r.Until.Equal(want) {
			t.Errorf("the money lasts until %s, want %s", r.Until, want)
		}
		if b, err := w.Balance(w.ctx, "ac-renter"); err != nil || b.UnbilledDue != 0 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func TestOtherModelsZonesProvidersAndBidsAreNotPaidFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.buy(w.reservation("rv-1", 9, 10, pricing.NoUpfront))
		for id, change := range map[string]func(*billing.Terms){
			"ls-model": func(t *billing.Terms) { t.GPUModel = "A100" }, "ls-zone": func(t *billing.Terms) { t.Zone = "z-2" },
			"ls-provider": func(t *billing.Terms) { t.ProviderID = "ac-other" }, "ls-simulated": func(t *billing.Terms) { t.Simulated = true },
			"ls-account": func(t *billing.Terms) { t.AccountID = "ac-stranger" },
		} {
			terms := w.bundle(id, 1)
			change(&terms)
			if id == "ls-account" {
				w.deposit("ac-stranger", "10")
			}
			w.begin(terms)
			w.startCompute(id, w.clock())
		}
		at := w.pass(time.Hour)
		for _, id := range []string{"ls-model", "ls-zone", "ls-provider", "ls-simulated", "ls-account"} {
			w.end(id, at)
			if b := w.bill(id); b.Posted.String() != "3.600000" {
				t.Errorf("%s was charged %s, want 3.60", id, b.Posted)
			}
		}
		w.right()
	})
}

// Random histories of leases and reservations, told late and in any order: the
// books say at every step what the rule says of all that is known.
func TestReservationsAreAppliedByTheRuleWhateverHappens(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		serial := 0
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(rt, t.Context(), db)
			serial++
			renter := fmt.Sprintf("ac-renter-%s-%d", rapid.StringMatching(`[a-z]{8}`).Draw(rt, "name"), serial)
			w.deposit(renter, rapid.SampledFrom([]string{"40", "100000"}).Draw(rt, "money"))
			id := func(kind string, n int) string { return fmt.Sprintf("%s-%s-%d", kind, renter, n) }
			open, running, reserved, held := map[int]bool{}, map[int]bool{}, map[int]bool{}, map[int]bool{}
			pick := func(of map[int]bool) (int, bool) {
				for n := range 100 {
					if of[n] {
						return n, true
					}
				}
				return 0, false
			}
			try := func(op func(ctx context.Context, tx *store.Tx) error) bool {
				err := w.db.Update(w.ctx, op)
				if err != nil {
					wantCode(rt, err, "insufficient_balance")
				}
				return err == nil
			}
			for n := range rapid.IntRange(2, 25).Draw(rt, "steps") {
				late := w.clock().Add(-time.Duration(rapid.IntRange(0, 4000).Draw(rt, "late")) * 500 * time.Millisecond)
				switch rapid.SampledFrom([]string{"buy", "begin", "start", "stop", "stop", "end", "lose", "deliver", "settle", "watch", "pass", "pass", "pass", "early", "restart"}).Draw(rt, "act") {
				case "buy":
					terms := w.reservation(id("rv", n), rapid.Int64Range(1, 3).Draw(rt, "gpus"), rapid.IntRange(1, 8).Draw(rt, "hours"),
						rapid.SampledFrom([]pricing.Upfront{pricing.NoUpfront, pricing.PartialUpfront, pricing.AllUpfront}).Draw(rt, "payment"))
					terms.AccountID = renter
					if try(func(ctx context.Context, tx *store.Tx) error {
						if err := w.BeginReserved(ctx, tx, terms); err != nil {
							return err
						}
						return w.Deliver(ctx, tx, terms.Reservation.ID, terms.Reservation.From.Truncate(time.Hour))
					}) {
						reserved[n], held[n] = true, true
					}
				case "begin":
					terms := w.bundle(id("ls", n), rapid.Int64Range(1, 4).Draw(rt, "gpus"))
					terms.AccountID = renter
					if try(func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, terms) }) {
						open[n] = true
					}
				case "start":
					if n, ok := pick(open); ok && !running[n] {
						w.startCompute(id("ls", n), late)
						running[n] = true
					}
				case "stop":
					if n, ok := pick(running); ok {
						w.stopCompute(id("ls", n), late)
						delete(running, n)
					}
				case "end":
					if n, ok := pick(open); ok {
						w.end(id("ls", n), w.clock())
						delete(open, n)
						delete(running, n)
					}
				case "lose":
					if n, ok := pick(held); ok {
						w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, id("rv", n), late) })
						delete(held, n)
					}
				case "deliver":
					if n, ok := pick(reserved); ok && !held[n] {
						w.do(func(ctx context.Context, tx *store.Tx) error { return w.Deliver(ctx, tx, id("rv", n), w.clock()) })
						held[n] = true
					}
				case "early":
					if n, ok := pick(reserved); ok {
						w.do(func(ctx context.Context, tx *store.Tx) error {
							_, err := w.EndReserved(ctx, tx, id("rv", n), !held[n])
							return err
						})
						delete(reserved, n)
						delete(held, n)
					}
				case "settle":
					w.settle()
				case "watch":
					w.watch()
				case "restart":
					w.restart()
				case "pass":
					w.pass(time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "seconds")) * 700 * time.Millisecond)
					var alive []string
					for n := range running {
						alive = append(alive, id("ls", n))
					}
					w.ConfirmAlive(alive, w.clock())
				}
				w.right()
			}
		})
	})
}

// The money ends in an hour that reservations were applied to already.
func TestALimitThatReachesBackLeavesItsPartOfAnHourToOthers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "36")
		w.buy(w.reservation("rv-1", 1, 10, pricing.AllUpfront))
		for _, id := range []string{"ls-1", "ls-2"} {
			terms := w.bundle(id, 1)
			if id == "ls-2" {
				terms.SpendingCap = must(w.t, "1.8")
			}
			w.begin(terms)
			w.startCompute(id, w.clock())
		}
		for range 4 {
			w.pass(time.Hour)
			w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.clock())
			w.watch()
			w.right()
		}
		w.settle()
		w.right()
	})
}

// When a lease stops, its part of the hour goes to others, and what was posted of them
// will be given back; until it is, it is nothing to spend, and less than nothing is not due.
func TestWhatAReservationWillGiveBackIsNotLessThanNothingDue(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.buy(w.reservation("rv-1", 1, 10, pricing.AllUpfront))
		both := []string{"ls-1", "ls-2"}
		for _, id := range both {
			w.begin(w.bundle(id, 1))
			w.startCompute(id, w.clock())
		}
		balance := func() billing.Balance {
			t.Helper()
			b, err := w.Balance(w.ctx, "ac-renter")
			if err != nil {
				t.Fatal(err)
			}
			if b.UnbilledDue < 0 || b.Available != b.Settled+b.Credit-b.Held-b.UnbilledDue {
				t.Errorf("the balance is %+v", b)
			}
			return b
		}
		w.ConfirmAlive(both, w.pass(50*time.Minute))
		w.settle() // each has 2,400 s covered less what the other has: 600 s over are charged
		w.right()
		before := balance()
		// From here on one is silent, so the other has more of the hour.
		w.ConfirmAlive(both[:1], w.pass(9*time.Minute))
		if b := balance(); b.Available > before.Available {
			t.Errorf("more is available, %s after %s, before anything was given back", b.Available, before.Available)
		}
		w.end("ls-2", w.clock().Add(-30*time.Minute)) // it is learned late
		w.right()
		balance()
		w.end("ls-1", w.clock())
		w.right()
		balance()
	})
}
