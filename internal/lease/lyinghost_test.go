package lease

import (
	"testing"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

// deafen makes a host accept every command to stop or remove, and do nothing.
func deafen(h *fakeHost) {
	h.set(func() { h.deaf[protocol.WantStopped], h.deaf[protocol.WantAbsent] = 1_000_000, 1_000_000 })
}

func heed(h *fakeHost) {
	h.set(func() { clear(h.deaf) })
}

// wantUsed fails unless the compute that a lease is charged for is from..from+30 s.
func (w *world) wantUsed(id string, from time.Duration) {
	w.t.Helper()
	if used, _ := w.charged(id); used < from-beat || used > from+chargedAfterRequest {
		w.t.Errorf("%s are charged, want %s and at most %s more", used, from, chargedAfterRequest)
	}
	w.booksAreRight()
}

// storage is what a lease's disk has cost.
func (w *world) storage(id string) (cost money.Amount) {
	w.t.Helper()
	for _, line := range w.bill(id).Lines {
		if line.Meter == pricing.Storage {
			cost += line.Amount
		}
	}
	return cost
}

func TestAHostDoesNotDecideWhenChargingEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(5 * time.Minute)
	ran, _ := w.charged(l.ID)

	deafen(h)
	if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(10 * time.Minute)
	w.wantState(l.ID, Stopping)
	w.wantUsed(l.ID, ran)
	if err := w.billing.Settle(w.ctx, w.clock()); err != nil {
		t.Fatal(err)
	}
	w.restart() // what bounds it is not in memory alone
	w.beat(h)
	w.wantUsed(l.ID, ran)

	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	kept := w.storage(l.ID)
	w.pass(10 * time.Minute)
	w.wantState(l.ID, Ending)
	w.wantUsed(l.ID, ran)
	if got := w.storage(l.ID); got != kept || kept == 0 {
		t.Errorf("its disk cost %s when its renter ended it and %s ten minutes later", kept, got)
	}
	heed(h) // it stops at last, and says when: now
	w.until(l.ID, Ended)
	w.wantUsed(l.ID, ran)
	w.wantClosed(l.ID)
	if got := w.storage(l.ID); got != kept {
		t.Errorf("its disk cost %s when its renter ended it and %s when the host confirmed", kept, got)
	}
}

func TestAHostDoesNotDecideWhenChargingEndsOfWhatIsEndedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(5 * time.Minute)
	ran, _ := w.charged(l.ID)
	deafen(h)
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(10 * time.Minute)
	heed(h)
	w.until(l.ID, Ended)
	w.wantUsed(l.ID, ran)
	w.wantClosed(l.ID)
}

func TestAHostDoesNotRunBeyondADeadlineAtItsRentersCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1, func(c *Create) { c.Deadline = w.clock().Add(30 * time.Minute) })
	deafen(h)
	left := l.Deadline.Sub(l.RunningSince)
	w.pass(45 * time.Minute)
	w.wantState(l.ID, Stopping)
	w.wantUsed(l.ID, left)
	heed(h)
	w.until(l.ID, Stopped)
	w.wantUsed(l.ID, left)
}

// Nobody was there to stop it at its deadline; its host was to do it alone.
func TestADeadlineThatPassedWhileTheControlPlaneWasAwayEndsTheCharge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1, func(c *Create) { c.Deadline = w.clock().Add(30 * time.Minute) })
	deafen(h)
	left := l.Deadline.Sub(l.RunningSince)
	w.jump(2 * time.Hour)
	w.beat(h)
	w.tick()
	w.wantState(l.ID, Stopping)
	w.wantUsed(l.ID, left)
}

func TestAHostDoesNotRunBeyondASpendingCapAtItsRentersCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	limit := money.Amount(100_000)
	l := w.rent(h, 1, func(c *Create) { c.SpendingCap = &limit })
	deafen(h)
	// Much egress at once, and again and again.
	var sent int64
	h.set(func() {
		h.mangle = func(st *protocol.InstanceStatus) {
			sent += 100_000_000_000
			st.EgressBytes = sent
		}
	})
	w.pass(20 * time.Minute)
	h.set(func() { h.mangle = nil })
	w.wantState(l.ID, Stopping)
	if cost := w.bill(l.ID).Total - w.storage(l.ID); cost > limit {
		t.Errorf("it cost %s beside its disk, with a cap of %s", cost, limit)
	}
	w.booksAreRight()
}
