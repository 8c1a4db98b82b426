package lease

import (
	"testing"
	"time"
)

// A host that comes back, to this control plane or to another one, must not wait for
// the end of a pause that grew while it could not be reached.
func TestAHostThatIsHeardAgainIsCommandedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.accept(w.ada, h, 1)
	h.set(func() { h.up = false })
	for range 8 { // each time after a longer pause
		w.tick()
		w.jump(maxBackoff)
	}
	w.tick()
	h.set(func() { h.up = true })
	w.tick()
	if got := w.get(l.ID).State; got != Provisioning {
		t.Fatalf("the lease is %s", got)
	}
	back := w.clock()
	w.beat(h)
	w.tick()
	w.beat(h)
	w.wantState(l.ID, Running)
	if waited := w.clock().Sub(back); waited > time.Second {
		t.Errorf("it was commanded %s after it was heard", waited)
	}
}
