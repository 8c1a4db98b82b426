package billing_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// Another lease whose row cannot be read (SQLite takes any text for a number) stops
// whoever reads it.
func TestALeaseOfAnAccountWithMoneyIsBegunAndEndedWithoutALookAtItsOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	w.deposit("ac-renter", "100000")
	w.begin(w.terms("ls-1"))
	w.startCompute("ls-1", w.clock())
	w.watch()
	w.do(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE billing_leases SET posted_compute = 'unreadable' WHERE lease_id = 'ls-1'`)
		return err
	})
	for i := 2; i < 20; i++ {
		id := fmt.Sprintf("ls-%d", i)
		w.begin(w.terms(id, disk))
		for range 2 { // before it runs and after
			paid, err := w.PaidFor(w.ctx, id, w.pass(time.Second))
			if err != nil || paid != 7*24*time.Hour {
				t.Fatalf("lease %s is paid for %s, %v", id, paid, err)
			}
			w.startCompute(id, w.clock())
			w.startStorage(id, w.clock())
		}
	}
	for i := 2; i < 20; i++ {
		id := fmt.Sprintf("ls-%d", i)
		w.ConfirmAlive([]string{id}, w.pass(time.Second))
		w.stopCompute(id, w.clock())
		w.end(id, w.clock())
	}
	if err := w.Watch(w.ctx, w.pass(2*time.Minute)); err == nil {
		t.Fatal("the row can be read, so this shows nothing")
	}
	w.do(func(ctx context.Context, tx *store.Tx) error { // nothing was posted of it
		_, err := tx.Exec(ctx, `UPDATE billing_leases SET posted_compute = 0 WHERE lease_id = 'ls-1'`)
		return err
	})
	w.right()
}

func disk(_ *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 100 }

// Random lives of an account that is rich at times and poor at others: what is
// answered from memory is what a process that has none answers.
func TestAnAnswerFromMemoryIsTheOneFromTheDatabase(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Address(t))
	w := newWorld(t, t.Context(), db)
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		w.restart()
		renter := fmt.Sprintf("ac-%d", round)
		var ids []string
		holds := map[string]money.Amount{} // of open leases
		deposits := 0
		pay := func() {
			deposits++
			amount := must(r, rapid.SampledFrom([]string{"1", "5", "700", "5000", "100000"}).Draw(r, "amount"))
			if _, err := w.Deposit(w.ctx, operator, renter, amount, "wire", fmt.Sprintf("%s-%d", renter, deposits)); err != nil {
				r.Fatal(err)
			}
		}
		pay()
		some := func() string { return rapid.SampledFrom(ids).Draw(r, "lease") }
		for range rapid.IntRange(5, 40).Draw(r, "steps") {
			step := rapid.SampledFrom([]string{"begin", "begin", "begin", "start", "start", "start", "stop", "end", "pass", "pass", "deposit", "watch", "settle", "egress"}).Draw(r, "step")
			if len(ids) == 0 && step != "begin" && step != "deposit" && step != "pass" {
				continue
			}
			switch step {
			case "begin":
				terms := w.terms(fmt.Sprintf("%s-ls-%d", renter, len(ids)), disk)
				terms.AccountID = renter
				if rapid.IntRange(0, 5).Draw(r, "capped") == 0 {
					terms.SpendingCap = must(r, "2")
				}
				hold, err := terms.Quote.Hold()
				if err != nil {
					r.Fatal(err)
				}
				before, err := w.Balance(w.ctx, renter)
				if err != nil {
					r.Fatal(err)
				}
				err = db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, terms) })
				f, refused := fault.As(err)
				if refused && f.Code != "insufficient_balance" || err != nil && !refused {
					r.Fatal(err)
				}
				if refused != (before.Available < hold) {
					r.Fatalf("a lease that needs %s with %s available: refused %v", hold, before.Available, refused)
				}
				if !refused {
					ids = append(ids, terms.LeaseID)
					holds[terms.LeaseID] = hold
				}
			case "start":
				id := some()
				err := db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
					if err := w.StartCompute(ctx, tx, id, w.clock()); err != nil {
						return err
					}
					return w.StartStorage(ctx, tx, id, w.clock())
				})
				if f, ok := fault.As(err); err != nil && (!ok || f.Code != "lease_ended") {
					r.Fatal(err)
				}
			case "stop":
				w.stopCompute(some(), w.clock())
			case "end":
				id := some()
				w.end(id, w.clock())
				delete(holds, id)
			case "pass":
				now := w.pass(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, time.Minute, time.Hour, 30 * time.Hour}).Draw(r, "time"))
				w.ConfirmAlive(ids, now)
			case "deposit":
				pay()
			case "watch":
				w.watch()
			case "settle":
				w.settle()
			case "egress":
				if err := w.egress(some(), rapid.Int64Range(0, 500_000_000_000).Draw(r, "bytes")); err != nil {
					if f, ok := fault.As(err); !ok || f.Code != "egress_implausible" {
						r.Fatal(err)
					}
				}
			}
			var want money.Amount
			for _, h := range holds {
				want += h
			}
			held := w.ledgerBalance(ledger.Hold(renter))
			if wallet := w.ledgerBalance(ledger.Wallet(renter)); held > want || wallet > 0 && held != want {
				r.Fatalf("%s is held and %s in the wallet, and the open leases want %s held", held, wallet, want)
			}
			if len(ids) == 0 {
				continue
			}
			id := some()
			got, err := w.PaidFor(w.ctx, id, w.clock())
			if err != nil {
				r.Fatal(err)
			}
			other, err := billing.New(w.config) // one that has no memory
			if err != nil {
				r.Fatal(err)
			}
			fresh, err := other.PaidFor(w.ctx, id, w.clock())
			if err != nil {
				r.Fatal(err)
			}
			const longest = 7 * 24 * time.Hour
			if got == longest != (fresh == longest) {
				r.Fatalf("lease %s is paid for %s, and %s by the database", id, got, fresh)
			}
		}
		w.right()
	})
}
