package billing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

func (w *world) agree(leaseID, price string, from time.Time) error {
	return w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		return w.AgreePrice(ctx, tx, billing.Agreement{LeaseID: leaseID, PerHour: mustRate(w.t, price), From: from, ProposalID: "pc-1", UserID: "us-renter"})
	})
}

func TestAnAgreedPriceCountsFromItsMomentOnEveryReplica(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", noon)
		other, err := billing.New(w.config) // has the lease's quote in its memory
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		other.ConfirmAlive([]string{"ls-1"}, w.clock())
		if err := other.Settle(t.Context(), w.clock()); err != nil {
			t.Fatal(err)
		}
		wantCode(t, w.agree("ls-1", "7.2", noon.Add(30*time.Minute)), "price_change_over")
		wantCode(t, w.agree("ls-1", "72000", noon.Add(2*time.Hour)), "insufficient_balance")
		if err := w.agree("ls-1", "7.2", noon.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := w.agree("ls-1", "7.2", noon.Add(2*time.Hour)); err != nil {
			t.Errorf("again: %v", err)
		}
		wantCode(t, w.agree("ls-1", "1", noon.Add(2*time.Hour)), "rate_set")
		w.wantBalance("account/ac-renter/hold", "7.200000")
		now := w.pass(2 * time.Hour)
		other.ConfirmAlive([]string{"ls-1"}, now)
		w.ConfirmAlive([]string{"ls-1"}, now)
		if err := other.Settle(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		b := w.bill("ls-1")
		if b.Total != must(t, "14.4") || b.Unbilled != 0 || len(b.Lines) != 2 || b.Lines[0].Rate != mustRate(t, "3.6") || b.Lines[1].Rate != mustRate(t, "7.2") {
			t.Errorf("bill %+v", b)
		}
		if r, err := other.Runway(t.Context(), "ac-renter", now); err != nil || r.BurnPerHour != must(t, "7.2") {
			t.Errorf("runway %+v, %v", r, err)
		}
		w.right()
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE billing_price_changes SET agreed_by = ''`)
			return err
		})
		if r, err := w.VerifyLedger(t.Context()); err != nil || r.OK() {
			t.Errorf("a price without consent is not found: %+v, %v", r, err)
		}
	})
}

// Random runs, settlements, restarts and agreements: what is charged is what the
// quote with the agreed prices comes to for all use, whenever it was posted.
func TestChargesFollowAgreedPricesWhateverWasPostedWhen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		db, err := store.Open(t.Context(), fmt.Sprintf("sqlite:%s/%d.db", dir, n))
		if err != nil {
			r.Fatal(err)
		}
		defer db.Close()
		w := newWorld(r, t.Context(), db)
		w.deposit("ac-renter", "1000000")
		terms := w.terms("ls-1", func(t *pricing.Tariff, _ *pricing.Request) {
			t.Granularity = rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(r, "granularity")
		})
		w.begin(terms)
		q := terms.Quote
		q.Version = 2
		var use []pricing.Interval
		running := false
		for range rapid.IntRange(3, 20).Draw(r, "steps") {
			now := w.pass(time.Duration(rapid.Int64Range(1, int64(5*time.Hour/time.Microsecond)).Draw(r, "passes")) * time.Microsecond)
			w.ConfirmAlive([]string{"ls-1"}, now)
			switch rapid.SampledFrom([]string{"switch", "settle", "agree", "agree", "restart"}).Draw(r, "act") {
			case "switch":
				if running {
					w.stopCompute("ls-1", now)
					use[len(use)-1].End = now
				} else {
					w.startCompute("ls-1", now)
					use = append(use, pricing.Interval{Start: now})
				}
				running = !running
			case "settle":
				w.settle()
			case "agree":
				price := money.Rate(rapid.Int64Range(0, 20_000_000_000).Draw(r, "price"))
				from := now.Add(time.Duration(rapid.Int64Range(1, int64(10*time.Hour/time.Microsecond)).Draw(r, "ahead")) * time.Microsecond)
				if k := len(q.PriceChanges); k > 0 && !from.After(q.PriceChanges[k-1].From) {
					continue
				}
				if err := w.agree("ls-1", price.String(), from); err != nil {
					r.Fatal(err)
				}
				q.PriceChanges = append(q.PriceChanges, pricing.PriceChange{From: from, Compute: price})
			case "restart":
				w.settle()
				w.restart()
			}
		}
		end := w.pass(time.Second)
		w.ConfirmAlive([]string{"ls-1"}, end)
		if running {
			use[len(use)-1].End = end
		}
		w.end("ls-1", end)
		due, err := pricing.Due(q, pricing.Usage{Compute: use})
		if err != nil {
			r.Fatal(err)
		}
		if b := w.bill("ls-1"); b.Total != due[pricing.Compute] || b.Unbilled != 0 {
			r.Fatalf("charged %s with %s to come, and by the agreed prices it is %s", b.Total, b.Unbilled, due[pricing.Compute])
		}
		w.right()
	})
}
