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

// spotTerms are terms at the market's price of now, with a bid.
func (w *world) spotTerms(leaseID, price, bid string) billing.Terms {
	w.t.Helper()
	return w.terms(leaseID, func(t *pricing.Tariff, r *pricing.Request) {
		t.Compute, t.MinimumSeconds = mustRate(w.t, price), 0
		r.Plan, r.Bid = pricing.Spot, mustRate(w.t, bid)
	})
}

func (w *world) setRate(leaseID, price string, at time.Time) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error {
		return w.SetRate(ctx, tx, leaseID, mustRate(w.t, price), at)
	})
}

func (w *world) evict(leaseID string, at time.Time) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.EvictCompute(ctx, tx, leaseID, at) })
}

// Four machines that ran 8 h at 0.20 and 2 h at 0.37 cost 9.36, and not ten hours
// of their bid of 0.37, which would be 14.80.
func TestSpotUseCostsTheMarketsPriceAndNotTheBid(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		for i := range 4 {
			id := fmt.Sprint("ls-", i)
			w.begin(w.spotTerms(id, "0.20", "0.37"))
			w.startCompute(id, w.clock())
		}
		change := w.pass(8 * time.Hour)
		for i := range 4 {
			w.setRate(fmt.Sprint("ls-", i), "0.37", change)
		}
		end := w.pass(2 * time.Hour)
		var total money.Amount
		for i := range 4 {
			id := fmt.Sprint("ls-", i)
			w.ConfirmAlive([]string{id}, end)
			w.end(id, end)
			total += w.bill(id).Total
		}
		if total.String() != "9.360000" {
			t.Errorf("four machines cost %s, want 9.36", total)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "90.640000")
		w.right()
		b := w.bill("ls-0")
		if len(b.Lines) != 2 || b.Lines[0].Used != 8*3600 || b.Lines[1].Used != 2*3600 || b.Lines[0].Rate != mustRate(t, "0.2") || b.Lines[1].Rate != mustRate(t, "0.37") {
			t.Fatalf("the bill has the lines %+v, want 8 h at 0.20 and 2 h at 0.37", b.Lines)
		}
		if want := "ran 7200 s, at the market's price of 0.37 CNY per hour: 0.74 CNY"; b.Lines[1].Words != want {
			t.Errorf("the second line says %q, want %q", b.Lines[1].Words, want)
		}
	})
}

func TestARunThatIsInterruptedInItsFirstMinuteCostsNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.spotTerms("ls-1", "3.6", "7.2"))
		w.startCompute("ls-1", w.clock())
		at := w.pass(50 * time.Second)
		w.ConfirmAlive([]string{"ls-1"}, at)
		w.settle() // what is posted too early goes back
		w.evict("ls-1", w.pass(9*time.Second))
		b := w.bill("ls-1")
		if b.Total != 0 || b.Posted != 0 || len(b.Lines) != 1 || !strings.Contains(b.Lines[0].Words, "interrupted in its first 60 s") {
			t.Errorf("the bill is %s, posted %s, lines %+v: want nothing, and why", b.Total, b.Posted, b.Lines)
		}
		w.startCompute("ls-1", w.pass(time.Minute))
		at = w.pass(time.Minute)
		w.ConfirmAlive([]string{"ls-1"}, at)
		w.evict("ls-1", at)
		if b := w.bill("ls-1"); b.Total.String() != "0.060000" || b.Unbilled != 0 {
			t.Errorf("a minute until the interruption costs %s (%s unbilled), want 0.06", b.Total, b.Unbilled)
		}
		w.right()
	})
}

func TestABidIsHeldForInFullAndPaidForAsItIsNow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.begin(w.spotTerms("ls-1", "1", "4"))
		w.wantBalance(ledger.Hold("ac-renter"), "4.000000")
		w.startCompute("ls-1", w.clock())
		left := func(want time.Duration) {
			t.Helper()
			w.ConfirmAlive([]string{"ls-1"}, w.clock())
			if got, err := w.PaidFor(w.ctx, "ls-1", w.clock()); err != nil || got != want {
				t.Errorf("paid for %s (%v), want %s", got, err, want)
			}
		}
		left(10 * time.Hour)
		w.setRate("ls-1", "2", w.pass(2*time.Hour))
		left(4 * time.Hour)
		r, err := w.Runway(w.ctx, "ac-renter", w.clock())
		if err != nil || r.BurnPerHour.String() != "2.000000" {
			t.Errorf("an hour burns %s (%v), want 2", r.BurnPerHour, err)
		}
		bid := func(price string) error {
			return w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.SetBid(ctx, tx, "ls-1", mustRate(t, price)) })
		}
		wantCode(t, bid("20"), "insufficient_balance")
		if err := bid("6"); err != nil {
			t.Fatal(err)
		}
		w.settle() // two hours at 1
		w.wantBalance(ledger.Hold("ac-renter"), "6.000000")
		w.wantBalance(ledger.Wallet("ac-renter"), "2.000000")
		if err := bid("2"); err != nil {
			t.Fatal(err)
		}
		w.wantBalance(ledger.Hold("ac-renter"), "2.000000")
		w.right()
	})
}

func TestARateIsOnlyForSpotLeasesAndStands(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.begin(w.spotTerms("ls-2", "1", "4"))
		set := func(id, price string) error {
			return w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				return w.SetRate(ctx, tx, id, mustRate(t, price), noon)
			})
		}
		wantCode(t, set("ls-1", "1"), "not_spot")
		wantCode(t, set("ls-3", "1"), "lease_not_found")
		for range 2 {
			if err := set("ls-2", "2"); err != nil {
				t.Fatal(err)
			}
		}
		wantCode(t, set("ls-2", "3"), "rate_set")
	})
}

// Rates come in any order, repeatedly, before, during and after the run, with
// settlements and restarts between them. The bill is what the price curve says.
func TestNoOrderOrRepeatOfRatesChangesWhatIsDue(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, t.Context(), db)
		serial := 0
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			id, renter := fmt.Sprint("ls-", serial), fmt.Sprint("ac-renter-", serial)
			w.deposit(renter, "100000")
			terms := w.spotTerms(id, "1", "10")
			terms.AccountID = renter
			w.begin(terms)
			start := w.clock()
			w.startCompute(id, start)
			run := rapid.IntRange(1, 5000).Draw(rt, "seconds")
			changes := rapid.MapOf(rapid.IntRange(-100, 6000), rapid.Int64Range(0, 10_000_000_000)).Draw(rt, "rates")
			var reports []int
			for at := range changes {
				reports = append(reports, at)
			}
			if len(reports) > 0 {
				reports = append(rapid.Permutation(reports).Draw(rt, "order"), rapid.SliceOf(rapid.SampledFrom(reports)).Draw(rt, "repeats")...)
			}
			endAfter := rapid.IntRange(0, len(reports)).Draw(rt, "ends after")
			end := func() {
				at := w.pass(time.Duration(run) * time.Second)
				w.ConfirmAlive([]string{id}, at)
				w.end(id, at)
			}
			for n, at := range reports {
				if n == endAfter {
					end()
				}
				w.do(func(ctx context.Context, tx *store.Tx) error {
					return w.SetRate(ctx, tx, id, money.Rate(changes[at]), start.Add(time.Duration(at)*time.Second))
				})
				if rapid.IntRange(0, 4).Draw(rt, "between") == 0 {
					w.settle()
					w.restart()
				}
			}
			if endAfter == len(reports) {
				end()
			}
			// Second by second.
			price, sum := int64(terms.Quote.Tariff.Compute), int64(0)
			for at := -100; at < run; at++ {
				if p, ok := changes[at]; ok {
					price = p
				}
				if at >= 0 {
					sum += price
				}
			}
			want := money.Amount(halfEvenQuotient(sum, 3_600_000))
			if b := w.bill(id); b.Total != want || b.Unbilled != 0 {
				rt.Fatalf("%d s cost %s (%s unbilled), want %s", run, b.Total, b.Unbilled, want)
			}
		})
		w.t = t
		w.right()
	})
}

func halfEvenQuotient(n, d int64) int64 {
	q, r := n/d, n%d
	if 2*r > d || 2*r == d && q%2 == 1 {
		q++
	}
	return q
}
