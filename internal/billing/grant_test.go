package billing_test

import (
	"context"
	"errors"
	"fmt"
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

func (w *world) grant(c billing.CreateGrant) billing.Grant {
	w.t.Helper()
	g, err := w.Grant(w.ctx, operator, c, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// The example of docs/pricing.md, at 3.60 an hour.
func TestATrialPaysToTheSecondInWhichItEndsAndTheWalletFromThereOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "10")
		w.grant(billing.CreateGrant{AccountID: "ac-renter", Kind: billing.GrantTrial, Amount: must(t, "1000")})
		w.pass(100 * time.Hour) // nothing is lost before the first use
		w.begin(w.terms("ls-1", func(t *pricing.Tariff, _ *pricing.Request) { t.MinimumSeconds = 0 }))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Second))
		w.startCompute("ls-1", w.pass(72*time.Hour-61*time.Second))
		w.ConfirmAlive([]string{"ls-1"}, w.pass(2*time.Minute))
		w.stopCompute("ls-1", w.clock())
		w.wantBalance(ledger.Promotions, "-1000.000000")
		w.settle()
		w.settle()
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		w.wantBalance(ledger.Promotions, "-0.061000") // a second at first, and a minute at the end
		if spent := 10_000_000 - w.ledgerBalance(ledger.Wallet("ac-renter")) - w.ledgerBalance(ledger.Hold("ac-renter")); spent.String() != "0.060000" {
			t.Errorf("the wallet paid %s", spent)
		}
		w.right()
	})
}

// Case: 1,000 were given, nothing runs when they expire, and nobody posts anything.
func TestWhatHasExpiredCannotBeSpentWhetherItsExpiryIsPostedOrNot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "1000"), ExpiresAt: w.clock().Add(30 * 24 * time.Hour)})
		if b, err := w.Balance(w.ctx, "ac-renter"); err != nil || b.Granted.String() != "1000.000000" || b.Available != 0 {
			t.Errorf("balance %+v, %v", b, err)
		}
		w.pass(30 * 24 * time.Hour)
		if b, err := w.Balance(w.ctx, "ac-renter"); err != nil || b.Granted != 0 {
			t.Errorf("balance %+v, %v", b, err)
		}
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, w.terms("ls-1")) })
		wantCode(t, err, "insufficient_balance")
		w.wantBalance(ledger.Grant("ac-renter"), "1000.000000")
		w.settle()
		w.restart()
		w.settle()
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		w.wantBalance(ledger.Promotions, "0.000000")
		list, err := w.Transfers(w.ctx, "ac-renter", "", 10)
		if err != nil || len(list) != 2 || list[0].Code != billing.CodeGrantExpired || list[0].Amount.String() != "1000.000000" {
			t.Errorf("transfers %+v, %v", list, err)
		}
		w.right()
	})
}

func TestWithNothingButAGrantALeaseRunsToItsLastSecondAndNotIntoDebt(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "7.2"), ValidFor: 1000 * time.Hour})
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		if p, err := w.PaidFor(w.ctx, "ls-1", w.clock()); err != nil || p != 2*time.Hour {
			t.Errorf("it is paid for %s, %v; want 2 h", p, err)
		}
		w.ConfirmAlive([]string{"ls-1"}, w.pass(119*time.Minute))
		w.watch()
		w.settle()
		w.ConfirmAlive([]string{"ls-1"}, w.pass(2*time.Minute))
		w.watch()
		if len(w.orders) != 1 || w.orders[0] != "ls-1 balance" {
			t.Errorf("orders %v", w.orders)
		}
		w.end("ls-1", w.clock())
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		w.wantBalance(ledger.Payable("ac-provider"), "5.760000")
		w.right()
	})
}

func TestOfSeveralGrantsTheOneThatExpiresFirstPaysFirstAndOnlyForItsMeters(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		late := w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "100"), ExpiresAt: w.clock().Add(900 * time.Hour)})
		soon := w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "1.8"), ExpiresAt: w.clock().Add(100 * time.Hour)})
		disk := w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "5"), ExpiresAt: w.clock().Add(10 * time.Hour), Meters: []pricing.Meter{pricing.Storage}})
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.settle()
		list, err := w.Grants(w.ctx, "ac-renter")
		if err != nil {
			t.Fatal(err)
		}
		spent := map[string]string{}
		for _, g := range list {
			spent[g.ID] = g.Spent.String()
		}
		if spent[soon.ID] != "1.800000" || spent[late.ID] != "1.800000" || spent[disk.ID] != "0.000000" {
			t.Errorf("spent %v", spent)
		}
		w.wantBalance(ledger.Wallet("ac-renter"), "96.400000")
		w.wantBalance(ledger.Hold("ac-renter"), "3.600000")
	})
}

func TestOneTrialAnAccountAndOneGrantAKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		trial := billing.CreateGrant{AccountID: "ac-renter", Kind: billing.GrantTrial, Amount: must(t, "5")}
		first, err := w.Grant(w.ctx, operator, trial, "k")
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.Grant(w.ctx, operator, trial, "k")
		if err != nil || again.ID != first.ID {
			t.Errorf("the same key gives %+v, %v", again, err)
		}
		_, err = w.Grant(w.ctx, operator, trial, "other")
		wantCode(t, err, "trial_given")
		trial.Amount++
		_, err = w.Grant(w.ctx, operator, trial, "k")
		wantCode(t, err, "idempotency_conflict")
		_, err = w.Grant(w.ctx, account.Principal{UserID: "us", AccountID: "ac-renter", Role: account.Owner}, trial, "")
		wantCode(t, err, "forbidden")
		for _, bad := range []billing.CreateGrant{
			{Kind: "gift", Amount: 1, ValidFor: time.Hour}, {Amount: 1}, {Amount: 1, ValidFor: time.Hour, ExpiresAt: w.clock().Add(time.Hour)},
			{Amount: 1, ExpiresAt: w.clock()}, {Amount: 1, ValidFor: -time.Hour}, {Amount: 1, ValidFor: time.Hour, Meters: []pricing.Meter{"love"}},
		} {
			bad.AccountID = "ac-renter"
			_, err := w.Grant(w.ctx, operator, bad, "")
			wantCode(t, err, "invalid_grant")
		}
		w.wantBalance(ledger.Grant("ac-renter"), "5.000000")
	})
}

// Renters of whom some have a wallet, with grants that begin and end at any time:
// whatever happens, all money is somewhere, no grant pays outside of its time or
// more than there is of it, compute never makes debt, and a single grant pays exactly
// what was used in its time.
func TestWhateverHappensGrantsPayWhatWasUsedInTheirTime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, t.Context(), db)
		serial := 0
		var renters []string
		var allSpent money.Amount
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			renter, provider := fmt.Sprintf("ac-given-%d", serial), fmt.Sprintf("ac-provider-%d", serial)
			commission := w.ledgerBalance(ledger.Commission)
			paid := money.Amount(rapid.Int64Range(0, 40_000_000).Draw(rt, "wallet"))
			if paid > 0 {
				w.deposit(renter, paid.String())
			}
			single := rapid.Bool().Draw(rt, "single")
			var grants []billing.Grant
			give := func() {
				c := billing.CreateGrant{AccountID: renter, Amount: money.Amount(rapid.Int64Range(1, 30_000_000).Draw(rt, "cap"))}
				if c.Amount < 4_000_000 {
					c.Amount += 4_000_000 // the first hour
				}
				length := time.Duration(rapid.Int64Range(1, 20*3600).Draw(rt, "length s")) * time.Second
				if rapid.Bool().Draw(rt, "from first use") {
					c.ValidFor = length
				} else {
					c.ExpiresAt = w.clock().Add(length)
				}
				grants = append(grants, w.grant(c))
			}
			give()
			terms := w.terms("ls-given-"+fmt.Sprint(serial), func(t *pricing.Tariff, _ *pricing.Request) { t.MinimumSeconds = 0 })
			terms.AccountID, terms.ProviderID = renter, provider
			w.begin(terms)
			id := terms.LeaseID
			running := false
			for range rapid.IntRange(1, 15).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 4*3600).Draw(rt, "pass s")) * time.Second)
				w.ConfirmAlive([]string{id}, now)
				w.watch()
				switch step := rapid.SampledFrom([]string{"start", "stop", "settle", "restart", "give", "crash", "watch"}).Draw(rt, "step"); step {
				case "start":
					if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.CheckFunds(ctx, tx, id) }); !running && err == nil {
						w.startCompute(id, now)
						running = true
					}
				case "stop":
					w.stopCompute(id, now)
					running = false
				case "settle":
					w.settle()
				case "restart":
					w.restart()
					w.ConfirmAlive([]string{id}, now)
				case "crash":
					err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
						return errors.Join(w.StopCompute(ctx, tx, id, now), errCrash)
					})
					if !errors.Is(err, errCrash) {
						rt.Fatal(err)
					}
					w.restart()
					w.ConfirmAlive([]string{id}, now)
				case "give":
					if !single {
						give()
					}
				}
			}
			w.end(id, w.pass(time.Second))
			w.settle()
			b := w.bill(id)
			if debt := w.ledgerBalance(ledger.Receivable(renter)); debt != 0 {
				rt.Fatalf("a debt of %s", debt)
			}
			wallet := w.ledgerBalance(ledger.Wallet(renter)) + w.ledgerBalance(ledger.Hold(renter))
			fromGrants := b.Total - (paid - wallet)
			list, err := w.Grants(w.ctx, renter)
			if err != nil {
				rt.Fatal(err)
			}
			var spent, left money.Amount
			for _, g := range list {
				spent += g.Spent
				if g.ExpiresAt.IsZero() || w.clock().Before(g.ExpiresAt) {
					left += g.Amount - g.Spent
				}
			}
			if spent != fromGrants || left != w.ledgerBalance(ledger.Grant(renter)) {
				rt.Fatalf("grants say that %s is spent and %s left; the books say %s and %s", spent, left, fromGrants, w.ledgerBalance(ledger.Grant(renter)))
			}
			allSpent += spent
			renters = append(renters, renter)
			if got := w.ledgerBalance(ledger.Payable(provider)) + w.ledgerBalance(ledger.Commission) - commission; got != b.Total {
				rt.Fatalf("provider and cloud have %s of %s", got, b.Total)
			}
			if single && len(list) == 1 {
				// All use costs 0.001 a second, and use in the grant's time is paid by it.
				g, in := list[0], money.Amount(0)
				for _, line := range b.Lines {
					in += money.Amount(overlap(line.Start, line.End, g.ActiveFrom, g.ExpiresAt)/time.Second) * 1000
				}
				// Of a run that begins between two seconds one may fall on either side.
				if want := min(g.Amount, in); spent > g.Amount || want-spent > 1000 || spent-want > 1000 {
					rt.Fatalf("%s was used in the grant's time of %s, and it paid %s: %+v", in, g.Amount, spent, b.Lines)
				}
			}
		})
		w.t = t
		w.right()
		for _, renter := range renters {
			allSpent += w.ledgerBalance(ledger.Grant(renter))
		}
		if given := -w.ledgerBalance(ledger.Promotions); given != allSpent {
			t.Errorf("the cloud has given %s, and %s is spent or left", given, allSpent)
		}
	})
}

func overlap(a, b, c, d time.Time) time.Duration {
	if c.After(a) {
		a = c
	}
	if d.Before(b) {
		b = d
	}
	return max(0, b.Sub(a))
}
