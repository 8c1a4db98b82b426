package billing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// limit gives an account a credit limit.
func (w *world) limit(accountID, amount string) billing.CreditLimit {
	w.t.Helper()
	c, err := w.SetCreditLimit(w.ctx, operator, accountID, billing.CreditChange{Limit: must(w.t, amount), Reason: "contract"})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// An hour costs 3.60, so 3.60 of credit is an hour without any money.
func TestAPostpaidAccountRunsIntoDebtUpToItsLimitAndNoFurther(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "7.2")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", noon)
		if left, err := w.PaidFor(w.ctx, "ls-1", noon); err != nil || left != 2*time.Hour {
			t.Errorf("it is paid for %s, %v, and should for two hours", left, err)
		}
		w.pass(time.Hour)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.settle()
		w.wantBalance(ledger.Receivable("ac-renter"), "-3.600000")
		w.wantBalance(ledger.Wallet("ac-renter"), "0.000000")
		if c, err := w.CreditLimit(w.ctx, "ac-renter"); err != nil || c.Used.String() != "3.600000" || c.Limit.String() != "7.200000" {
			t.Errorf("%+v, %v", c, err)
		}
		w.pass(3 * time.Hour)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.watch()
		if len(w.orders) != 1 || w.orders[0] != "ls-1 balance" {
			t.Errorf("orders %v", w.orders)
		}
		w.stopCompute("ls-1", w.clock())
		w.wantBalance(ledger.Receivable("ac-renter"), "-7.200000")
		w.right()
		// A deposit pays the debt first, and the limit is there again.
		w.deposit("ac-renter", "7.2")
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		if b, err := w.Balance(w.ctx, "ac-renter"); err != nil || b.Held.String() != "3.600000" || b.OnCredit != b.Held || b.Available.String() != "3.600000" {
			t.Errorf("%+v, %v", b, err)
		}
		w.right()
	})
}

func TestALimitStandsForNoMoreHoldsThanItCovers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "9")
		for i := range 2 {
			w.begin(w.terms(fmt.Sprintf("ls-%d", i)))
		}
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, w.terms("ls-2")) })
		wantCode(t, err, "insufficient_balance")
		b, err := w.Balance(w.ctx, "ac-renter")
		if err != nil || b.Held.String() != "7.200000" || b.Available.String() != "1.800000" || b.Settled != 0 {
			t.Errorf("%+v, %v", b, err)
		}
	})
}

func TestCreditIsNoMoneyToBePaidOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "100")
		w.deposit("ac-renter", "10")
		w.begin(w.terms("ls-1"))
		_, err := w.Refund(w.ctx, operator, "ac-renter", must(t, "6.5"), "", "")
		wantCode(t, err, "insufficient_balance")
		if _, err := w.Refund(w.ctx, operator, "ac-renter", must(t, "6.4"), "", ""); err != nil {
			t.Error(err)
		}
		w.right()
	})
}

func TestRevokingALimitStopsWhatRunsAsAnEmptyWalletDoes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", noon)
		w.pass(time.Hour)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.limit("ac-renter", "0")
		w.pass(time.Minute)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.watch()
		if len(w.orders) != 1 || w.orders[0] != "ls-1 balance" {
			t.Errorf("orders %v", w.orders)
		}
		w.stopCompute("ls-1", w.clock())
		// What was used under the limit is owed, and not a second more.
		w.wantBalance(ledger.Receivable("ac-renter"), "-3.600000")
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.CheckFunds(ctx, tx, "ls-1") })
		wantCode(t, err, "insufficient_balance")
		w.right()
		// With the limit back it may start again.
		w.limit("ac-renter", "100")
		if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.CheckFunds(ctx, tx, "ls-1") }); err != nil {
			t.Error(err)
		}
	})
}

// Another replica remembers what the account had before the limit was lowered.
func TestAnotherReplicaChargesNothingBeyondALimitThatWasLowered(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "10000")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", noon)
		w.watch() // this one knows an outlook with much to spare
		other, err := billing.New(w.config)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(20 * time.Second)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		if _, err := other.SetCreditLimit(w.ctx, operator, "ac-renter", billing.CreditChange{Limit: must(t, "0.03")}); err != nil {
			t.Fatal(err)
		}
		w.pass(25 * time.Second) // 45 s in all, of which 30 are covered
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.end("ls-1", w.clock())
		w.wantBalance(ledger.Receivable("ac-renter"), "-0.060000") // the minimum of 60 s was the first hold
		w.right()
	})
}

func TestOnlyAnOperatorSetsCreditLimits(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		renter := account.Principal{UserID: "us-1", AccountID: "ac-renter", Role: account.Owner}
		_, err := w.SetCreditLimit(w.ctx, renter, "ac-renter", billing.CreditChange{Limit: must(t, "1")})
		wantCode(t, err, "forbidden")
		_, err = w.SetCreditLimit(w.ctx, operator, "ac-renter", billing.CreditChange{Limit: -1})
		wantCode(t, err, "credit_limit_invalid")
		days := 1000
		_, err = w.SetCreditLimit(w.ctx, operator, "ac-renter", billing.CreditChange{NetDays: &days})
		wantCode(t, err, "net_days_invalid")
	})
}

// Concurrent replicas begin, run, settle, lower and raise: compute's debt is never
// beyond the highest limit, and the books can be proven.
func TestConcurrentReplicasNeverLetComputeBeyondTheLimit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "36")
		replicas := []*billing.Service{w.Service}
		for range 2 {
			r, err := billing.New(w.config)
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, r)
		}
		var wg sync.WaitGroup
		for n, r := range replicas {
			wg.Go(func() {
				for i := range 8 {
					id := fmt.Sprintf("ls-%d-%d", n, i)
					// The limit covers ten holds of the 24.
					begun := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return r.BeginLease(ctx, tx, w.terms(id)) }) == nil
					if begun {
						if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return r.StartCompute(ctx, tx, id, noon) }); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		b, err := w.Balance(w.ctx, "ac-renter")
		if err != nil || b.Available < 0 || b.Held.String() != "36.000000" {
			t.Fatalf("%+v, %v", b, err)
		}
		for range 8 {
			now := w.pass(17 * time.Minute)
			for n, r := range replicas {
				wg.Go(func() {
					var ids []string
					for n := range replicas {
						for i := range 8 {
							ids = append(ids, fmt.Sprintf("ls-%d-%d", n, i))
						}
					}
					r.ConfirmAlive(ids, now)
					if n == 0 {
						if err := r.Settle(w.ctx, now); err != nil {
							t.Error(err)
						}
					}
					if err := r.Watch(w.ctx, now); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		w.wantBalance(ledger.Receivable("ac-renter"), "-36.000000")
		w.right()
	})
}

// Random lives under random limits: at each moment what compute has cost is at most
// what was paid in and the highest limit that there was.
func TestWhateverHappensComputeIsNeverBeyondTheLimit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, t.Context(), db)
		serial := 0
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			renter := fmt.Sprintf("ac-renter-%d", serial)
			var highest, paid money.Amount
			set := func() {
				limit := money.Amount(rapid.Int64Range(0, 20_000_000).Draw(rt, "limit"))
				if _, err := w.SetCreditLimit(w.ctx, operator, renter, billing.CreditChange{Limit: limit}); err != nil {
					rt.Fatal(err)
				}
				highest = max(highest, limit)
			}
			set()
			var ids []string
			running := map[string]bool{}
			for range rapid.IntRange(5, 30).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 5400).Draw(rt, "pass s")) * time.Second)
				w.ConfirmAlive(ids, now)
				switch rapid.SampledFrom([]string{"begin", "begin", "stop", "settle", "watch", "limit", "deposit", "restart"}).Draw(rt, "step") {
				case "begin":
					terms := w.terms(fmt.Sprintf("ls-%d-%d", serial, len(ids)), func(t *pricing.Tariff, _ *pricing.Request) {
						t.Compute = money.Rate(rapid.Int64Range(1, 20_000_000_000).Draw(rt, "compute"))
						t.Granularity = rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(rt, "granularity")
					})
					terms.AccountID = renter
					if w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, terms) }) == nil {
						w.startCompute(terms.LeaseID, now)
						ids, running[terms.LeaseID] = append(ids, terms.LeaseID), true
					}
				case "stop":
					if len(ids) > 0 {
						id := rapid.SampledFrom(ids).Draw(rt, "lease")
						w.stopCompute(id, now)
					}
				case "settle":
					w.settle()
				case "watch":
					w.watch()
				case "limit":
					set()
				case "deposit":
					amount := money.Amount(rapid.Int64Range(1, 10_000_000).Draw(rt, "deposit"))
					if _, err := w.Deposit(w.ctx, operator, renter, amount, "", ""); err != nil {
						rt.Fatal(err)
					}
					paid += amount
				case "restart":
					w.settle() // signs of life that nothing was charged for are forgotten
					w.restart()
				}
				if debt := -w.ledgerBalance(ledger.Receivable(renter)); debt > highest {
					rt.Fatalf("compute made a debt of %s, and the highest limit was %s", debt, highest)
				}
			}
			for _, id := range ids {
				w.end(id, w.clock())
			}
			if debt := -w.ledgerBalance(ledger.Receivable(renter)); debt > highest {
				rt.Fatalf("compute made a debt of %s, and the highest limit was %s", debt, highest)
			}
		})
		w.t = t
		w.right()
	})
}

func TestComputeBeyondItsLimitIsNamed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.limit("ac-renter", "36")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", noon)
		w.pass(9 * time.Hour)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.end("ls-1", w.clock())
		w.right()
		back := context.Canceled
		for act, what := range map[string]string{
			`UPDATE billing_credit_limits SET credit_limit = 20000000`: "took its debt to 32.400000",
			`UPDATE billing_accounts SET credit_limit = 90000000`:      "the last one that was set",
		} {
			var found []billing.Wrong
			err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				if _, err := tx.Exec(ctx, act); err != nil {
					return err
				}
				r, err := w.Proof(ctx, tx)
				if err != nil {
					t.Error(err)
				}
				found = r.Wrong
				return back
			})
			if err == nil || len(found) == 0 || found[len(found)-1].Subject != "ac-renter" || !slices.ContainsFunc(found, func(x billing.Wrong) bool { return strings.Contains(x.What, what) }) {
				t.Errorf("%s: %v, found %+v", act, err, found)
			}
		}
		w.right()
	})
}
