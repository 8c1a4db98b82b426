package lease

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// trial gives an account a trial, and bounds what such accounts may rent.
func (w *world) trial(p account.Principal) {
	w.t.Helper()
	w.Trial = TrialTerms{MaxGPUs: 1, EgressPorts: []int{53, 443}}
	if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := w.billing.GiveTrial(ctx, tx, p.AccountID, money.USD, 50_000_000, 72*time.Hour)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

func broke(o *options) { o.money = "" }

func (w *world) refused(p account.Principal, h *fakeHost, n int, code string) {
	w.t.Helper()
	q, err := w.quote(p, h, n)
	if err == nil {
		_, err = w.Accept(w.ctx, p, Create{QuoteID: q.ID})
	}
	if f, ok := fault.As(err); !ok || f.Code != code {
		w.t.Errorf("got %v, want the fault %s", err, code)
	}
}

func TestALeaseOnATrialIsOneGPUAndReachesFewPorts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, broke)
	h := w.join(4)
	w.trial(w.ada)
	w.refused(w.ada, h, 2, "trial_gpus")
	l := w.accept(w.ada, h, 1)
	w.until(l.ID, Running)
	w.refused(w.ada, h, 1, "trial_gpus")
	sent := func(id string) []int {
		t.Helper()
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, c := range slices.Backward(h.commands) {
			if c.LeaseID == id && c.Spec != nil {
				return c.Spec.EgressPorts
			}
		}
		t.Fatalf("the host was not told what lease %s is", id)
		return nil
	}
	if got := sent(l.ID); !slices.Equal(got, []int{53, 443}) {
		t.Errorf("the host lets it reach %v", got)
	}
	// A restart of the lease and of the cloud changes nothing of it.
	if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Stopped)
	terms := w.Trial
	w.restart()
	w.Trial = terms
	w.beat(h)
	if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Running)
	if got := sent(l.ID); !slices.Equal(got, []int{53, 443}) {
		t.Errorf("after a restart it may reach %v", got)
	}
	// Who has paid rents like everybody, with its trial or not.
	if _, err := w.billing.Deposit(w.ctx, w.operator, w.ada.AccountID, 100_000_000, "wire", ""); err != nil {
		t.Fatal(err)
	}
	paid := w.accept(w.ada, h, 2)
	w.until(paid.ID, Running)
	if got := sent(paid.ID); len(got) != 0 {
		t.Errorf("who has paid may reach %v only", got)
	}
}

// Its price would come back to the account as earnings, which are paid out.
func TestATrialDoesNotPayForTheAccountsOwnHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, broke)
	h := w.join(1)
	w.trial(w.operator)
	w.refused(w.operator, h, 1, "trial_own_host")
	if w.free() != 1 {
		t.Error("the refused lease holds its GPU")
	}
}

func TestTwoLeasesAtOnceOnATrialAreOne(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, t.Context(), db, broke)
		h := w.join(4)
		w.trial(w.ada)
		var quotes []*Quote
		for range 4 {
			q, err := w.quote(w.ada, h, 1)
			if err != nil {
				t.Fatal(err)
			}
			quotes = append(quotes, q)
		}
		var all sync.WaitGroup
		var mu sync.Mutex
		accepted := 0
		for _, q := range quotes {
			all.Go(func() {
				_, err := w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					accepted++
				} else if f, ok := fault.As(err); !ok || f.Code != "trial_gpus" {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if accepted != 1 {
			t.Errorf("%d leases were accepted", accepted)
		}
	})
}
