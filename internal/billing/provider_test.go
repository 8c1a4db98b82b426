package billing_test

import (
	"context"
	"testing"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

func TestRealEarningsLeaveSimulatedHardwareOut(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		real, fake := w.terms("ls-real"), w.terms("ls-fake")
		fake.Simulated = true
		w.begin(real)
		w.begin(fake)
		for _, id := range []string{"ls-real", "ls-fake"} {
			w.startCompute(id, w.clock())
		}
		begin := w.clock()
		w.pass(time.Hour)
		for _, id := range []string{"ls-real", "ls-fake"} {
			w.stopCompute(id, w.clock())
		}
		for _, since := range []time.Time{begin, w.clock()} { // one by one, and summed up
			var got []pricing.Earning
			w.do(func(ctx context.Context, tx *store.Tx) (err error) {
				got, err = w.RealEarnings(ctx, tx, "ac-provider", money.CNY, since, w.clock())
				return err
			})
			if len(got) != 1 || got[0].Reference != "ls-real" || got[0].Amount.String() != "2.880000" {
				t.Errorf("since %s: %+v", since, got)
			}
		}
		payees, err := w.Payees(t.Context())
		if err != nil || len(payees) != 1 || payees[0].AccountID != "ac-provider" {
			t.Errorf("%+v, %v", payees, err)
		}
		r, err := w.Revenue(t.Context(), "ac-provider", begin, w.clock())
		if err != nil || len(r.Charges) != 2 || len(r.Runs["ls-real"]) != 1 || r.Runs["ls-real"][0].End.Sub(begin) != time.Hour {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
