package lease

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/store"
)

// withNews has the world's renters told what happens, and returns what of was told
// so far, the oldest first.
func (w *world) withNews() (told func() []string) {
	w.t.Helper()
	vault, err := account.NewVault(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	news, err := notify.New(notify.Config{DB: w.db, Vault: vault, Clock: w.clock, Audit: w.accounts.Audit})
	if err == nil {
		err = news.Migrate(w.ctx)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.News = news
	return func() (out []string) {
		w.t.Helper()
		list, err := news.List(w.ctx, w.ada, notify.Filter{}, "", 1000)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, n := range slices.Backward(list) {
			out = append(out, n.Kind)
		}
		return out
	}
}

func TestARenterIsToldWhatTheSpotMarketDoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := w.withNews()
	w.join(1)
	l := w.rentSpot()
	w.until(l.ID, Running)
	w.market(func(ctx context.Context, tx *store.Tx) (func(context.Context), error) {
		return w.SpotNotice(ctx, tx, l.ID, "outbid", w.clock().Add(2*time.Minute))
	})
	w.pass(2 * time.Minute)
	w.interrupt(l.ID, "outbid")
	w.until(l.ID, Interrupted)
	w.market(func(ctx context.Context, tx *store.Tx) (func(context.Context), error) {
		return w.SpotResume(ctx, tx, l.ID)
	})
	w.until(l.ID, Running)
	if got, want := told(), []string{notify.KindSpotNotice, notify.KindInterrupted, notify.KindResumed}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestARenterIsToldOnceThatALeaseStoppedForWantOfMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := w.withNews()
	h := w.join(1)
	l := w.rent(h, 1, func(c *Create) { c.SpendingCap = new(money.Amount(1_000_000)) })
	w.until(l.ID, Running)
	for range 3 {
		if err := w.Exhaust(w.ctx, l.ID, "spending_cap", false); err != nil {
			t.Fatal(err)
		}
	}
	w.until(l.ID, Stopped)
	if err := w.Exhaust(w.ctx, l.ID, "storage_grace", true); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Ended)
	if got, want := told(), []string{notify.KindStoppedForBalance, notify.KindDeleted}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}
