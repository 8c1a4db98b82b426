package lease

import (
	"context"
	"testing"
	"time"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// rentSpot makes a lease of one GPU as the market does for a bid, at 0.36 an
// hour with a bid of twice that.
func (w *world) rentSpot() *Lease {
	w.t.Helper()
	offers, _, err := w.fleet.Search(w.ctx, fleet.Query{Expression: "count = 1", Limit: 1})
	if err != nil || len(offers) == 0 {
		w.t.Fatalf("no offer: %v", err)
	}
	place, err := w.PrepareSpot(w.ctx, SpotPlace{BidID: "bd-1", Principal: w.ada, OfferID: offers[0].ID, TimeZone: "UTC",
		Wish: SpotWish{Image: "debian:12", DiskGiB: 10, Create: Create{NoticeSignal: "SIGUSR1", NoticeCommand: "./save.sh"}}, Rate: money.Rate(360_000_000), Bid: money.Rate(720_000_000)})
	if err != nil {
		w.t.Fatal(err)
	}
	var l *Lease
	if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		l, err = place.Accept(ctx, tx)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	place.Announce(w.ctx)
	return l
}

// market does one of the market's acts.
func (w *world) market(act func(ctx context.Context, tx *store.Tx) (func(context.Context), error)) {
	w.t.Helper()
	var done func(context.Context)
	if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		done, err = act(ctx, tx)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	done(w.ctx)
}

func (w *world) interrupt(id, reason string) {
	w.t.Helper()
	w.market(func(ctx context.Context, tx *store.Tx) (func(context.Context), error) {
		return w.SpotInterrupt(ctx, tx, id, reason)
	})
}

func TestAnOutbidLeaseHasItsGPUsUntilItsHostHasLetThemGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rentSpot()
	w.until(l.ID, Running)
	w.pass(2 * time.Minute)
	h.set(func() { h.deaf[protocol.WantStopped] = 2 })
	w.interrupt(l.ID, "outbid")
	w.pass(beat)
	w.wantState(l.ID, Stopping)
	if held := w.holders(); held[l.ID] != 1 || w.free() != 0 {
		t.Fatalf("while it stops the lease has %d GPUs and %d are on offer, want 1 and 0", held[l.ID], w.free())
	}
	w.until(l.ID, Interrupted)
	if held := w.holders(); held[l.ID] != 0 || w.free() != 1 {
		t.Fatalf("when its host has let go the lease has %d GPUs and %d are on offer, want 0 and 1", held[l.ID], w.free())
	}
	if l := w.get(l.ID); l.Code != "outbid" || len(l.GPUs) != 0 {
		t.Errorf("the lease is %s with the GPUs %v, want outbid and none", l.Code, l.GPUs)
	}
	first := w.bill(l.ID)
	w.pass(time.Minute)
	if used, _ := w.charged(l.ID); used > h.runtime(l.ID) || used < 2*time.Minute {
		t.Errorf("it ran %s and is charged for %s", h.runtime(l.ID), used)
	}
	if b := w.bill(l.ID); b.Total-first.Total > 100 {
		t.Errorf("a minute of waiting costs %s more than its disk", b.Total-first.Total)
	}
	w.market(func(ctx context.Context, tx *store.Tx) (func(context.Context), error) {
		return w.SpotResume(ctx, tx, l.ID)
	})
	w.until(l.ID, Running)
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Ended)
	w.wantClosed(l.ID)
}

func TestANoticeReachesTheHostAndCanBeTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rentSpot()
	w.until(l.ID, Running)
	told := func() time.Duration {
		t.Helper()
		desired, _, _, err := w.OnReport(w.ctx, h.id, h.report(), w.clock())
		if err != nil || len(desired) != 1 {
			t.Fatalf("the host is told %v (%v)", desired, err)
		}
		if l := desired[0].Limits; (l.InterruptIn > 0) != (l.InterruptReason == "outbid") {
			t.Errorf("the host is told of a notice in %s for %q", l.InterruptIn, l.InterruptReason)
		}
		return desired[0].Limits.InterruptIn
	}
	if s, err := w.instanceSpec(w.ctx, w.get(l.ID)); err != nil || s.NoticeSignal != "SIGUSR1" || s.NoticeCommand != "./save.sh" {
		t.Errorf("the host runs %+v (%v), which does not say what to do at the notice", s, err)
	}
	if d := told(); d != 0 {
		t.Errorf("without a notice the host is told of one in %s", d)
	}
	events, cancel := context.WithCancel(w.ctx)
	defer cancel()
	news := w.Watch(events, l.AccountID)
	w.market(func(ctx context.Context, tx *store.Tx) (func(context.Context), error) {
		return w.SpotNotice(ctx, tx, l.ID, "outbid", w.clock().Add(2*time.Minute))
	})
	if c := <-news; c.Event != Notice || c.Code != "outbid" || c.To != Running {
		t.Errorf("who watches is told %+v, want a notice", c)
	}
	w.pass(time.Minute)
	if d := told(); d != time.Minute {
		t.Errorf("a minute after a notice of two the host is told of %s", d)
	}
	w.restart()
	if d := told(); d != time.Minute {
		t.Errorf("a restart of the control plane changes the notice to %s", d)
	}
	w.market(func(ctx context.Context, tx *store.Tx) (func(context.Context), error) {
		return w.SpotReprieve(ctx, tx, l.ID)
	})
	if d := told(); d != 0 {
		t.Errorf("a notice that was taken back is still told: %s", d)
	}
}

func TestALeaseThatIsOutbidBeforeItRanCostsNothingAndLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	h.set(func() { h.slow = true })
	l := w.rentSpot()
	w.until(l.ID, Provisioning)
	w.pass(time.Minute)
	w.interrupt(l.ID, "outbid")
	w.until(l.ID, Ended)
	w.wantClosed(l.ID)
	if b := w.bill(l.ID); b.Total != 0 {
		t.Errorf("it costs %s", b.Total)
	}
	other := w.rentSpot()
	w.interrupt(other.ID, "displaced") // before its host was told
	w.wantClosed(other.ID)
}

func TestAStoppedSpotLeaseIsStartedByItsBidAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1)
	l := w.rentSpot()
	w.until(l.ID, Running)
	if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Stopped)
	for range 2 {
		got, err := w.Start(w.ctx, w.ada, l.ID)
		if err != nil || got.State != Interrupted {
			t.Fatalf("its renter starts it: %v, %v; want it to wait for the market", got, err)
		}
	}
	w.pass(time.Minute)
	w.wantState(l.ID, Interrupted)
	if held := w.holders(); len(held) != 0 {
		t.Errorf("a lease that waits holds %v", held)
	}
	if got, err := w.Stop(w.ctx, w.ada, l.ID); err != nil || got.State != Stopped {
		t.Errorf("its renter stops it: %v, %v", got, err)
	}
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Ended)
	w.wantClosed(l.ID)
}
