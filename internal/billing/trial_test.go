package billing_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

func (w *world) trial(accountID, amount string) billing.Grant {
	w.t.Helper()
	var g billing.Grant
	w.do(func(ctx context.Context, tx *store.Tx) (err error) {
		g, err = w.GiveTrial(ctx, tx, accountID, money.CNY, must(w.t, amount), 72*time.Hour)
		return err
	})
	return g
}

func (w *world) onlyTrial(accountID string) (only bool) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) (err error) {
		only, err = w.OnlyTrial(ctx, tx, accountID)
		return err
	})
	return only
}

// Looked at every half minute, as in production often, for three days.
func TestWhatATrialPaysForEndsWithItToTheSecondAfterNotices(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.trial("ac-renter", "1000")
		w.begin(w.terms("ls-1"))
		w.pass(50 * time.Hour) // its time has not begun
		w.startCompute("ls-1", w.clock())
		if p, err := w.PaidFor(w.ctx, "ls-1", w.clock()); err != nil || p != 72*time.Hour {
			t.Errorf("it is paid for %s, %v", p, err)
		}
		for _, until := range []time.Duration{47 * time.Hour, 49 * time.Hour, 71*time.Hour + time.Minute, 71*time.Hour + 51*time.Minute, 72*time.Hour - time.Second} {
			now := w.pass(noon.Add(50*time.Hour + until).Sub(w.clock()))
			w.ConfirmAlive([]string{"ls-1"}, now)
			w.settle()
			w.watch()
		}
		if len(w.orders) != 0 || !slices.Contains(w.warnings, "balance 24h0m0s") || !slices.Contains(w.warnings, "balance 1h0m0s") || !slices.Contains(w.warnings, "balance 10m0s") {
			t.Errorf("orders %v, warnings %v", w.orders, w.warnings)
		}
		w.pass(20 * time.Second) // the host is slow to stop it
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.watch()
		if len(w.orders) != 1 || w.orders[0] != "ls-1 balance" {
			t.Errorf("orders %v", w.orders)
		}
		w.end("ls-1", w.clock())
		w.settle()
		w.wantBalance(ledger.Receivable("ac-renter"), "0.000000")
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		w.wantBalance(ledger.Promotions, "-259.200000") // 72 h at 3.60
		w.right()
	})
}

func TestAnAccountIsOnItsTrialOnlyUntilItPays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "5"), ExpiresAt: w.clock().Add(time.Hour)})
		if w.onlyTrial("ac-renter") {
			t.Error("who was given a promotion is bound as on a trial")
		}
		w.trial("ac-renter", "10")
		if !w.onlyTrial("ac-renter") {
			t.Error("a trial is not seen")
		}
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := w.GiveTrial(ctx, tx, "ac-renter", money.CNY, 1, time.Hour)
			return err
		})
		wantCode(t, err, "trial_given")
		w.deposit("ac-renter", "1")
		if w.onlyTrial("ac-renter") {
			t.Error("who has paid is bound as on a trial")
		}
		w.right()
	})
}
