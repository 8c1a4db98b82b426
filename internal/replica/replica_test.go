package replica

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// clock is a monotonic clock that a test moves.
type clock struct{ now atomic.Int64 }

func (c *clock) elapsed() time.Duration   { return time.Duration(c.now.Load()) }
func (c *clock) advance(by time.Duration) { c.now.Add(int64(by)) }

func join(t *testing.T, db *store.DB, c *clock) *Service {
	t.Helper()
	s, err := New(Config{DB: db, Address: "here:1", Elapsed: c.elapsed})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func renew(t *testing.T, all ...*Service) {
	t.Helper()
	for _, s := range all {
		if err := s.renew(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheOnlyControlPlaneLeads(t *testing.T) {
	t.Parallel()
	s := join(t, storetest.Open(t, storetest.Address(t)), &clock{})
	if !s.Leads() || !s.Alone() || s.Lost() || len(s.List()) != 1 {
		t.Fatal("the control plane of an embedded database does not lead")
	}
}

func TestOneOfSeveralLeadsAndAnotherTakesOverWhenItIsGone(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.PostgresAddress(t))
	c := &clock{}
	a, b, d := join(t, db, c), join(t, db, c), join(t, db, c)
	renew(t, a, b, d)
	if !a.Leads() || b.Leads() || d.Leads() {
		t.Fatalf("leads: %v %v %v, want the first only", a.Leads(), b.Leads(), d.Leads())
	}
	for range 4 { // a is silent, within its time
		c.advance(time.Second)
		renew(t, b, d)
	}
	if b.Leads() || d.Leads() || !b.Alive(a.ID()) {
		t.Fatal("another took the lead before the leader's time was over")
	}
	if a.Leads() {
		t.Fatal("the leader still believes that it leads when others are about to take over")
	}
	for range 2 {
		c.advance(time.Second)
		renew(t, b, d)
	}
	if !b.Leads() || d.Leads() || b.Alive(a.ID()) {
		t.Fatalf("after the leader's time: leads %v %v, the old one alive: %v", b.Leads(), d.Leads(), b.Alive(a.ID()))
	}
	if !a.Lost() {
		t.Fatal("a replica that showed no sign of life for so long does not know that it is lost")
	}
	renew(t, a)
	if a.Leads() || a.Lost() {
		t.Fatalf("the former leader, back: leads %v, lost %v", a.Leads(), a.Lost())
	}
}

func TestALeaderThatLeavesHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.PostgresAddress(t))
	c := &clock{}
	a, b := join(t, db, c), join(t, db, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	renew(t, b)
	if a.Leads() || !b.Leads() {
		t.Fatalf("leads: %v %v, want the one that stayed", a.Leads(), b.Leads())
	}
	if len(b.List()) != 1 {
		t.Fatalf("%v are listed, one has left", b.List())
	}
}

func TestWorkOfTheLeaderStopsWhenItNoLongerLeads(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.PostgresAddress(t))
	c := &clock{}
	a := join(t, db, c)
	began, over := make(chan struct{}), make(chan struct{})
	go func() {
		_ = a.Leading(func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			close(over)
			return nil
		})(t.Context())
	}()
	<-began
	c.advance(4 * time.Second)
	<-over
}
