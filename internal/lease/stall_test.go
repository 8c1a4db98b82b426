package lease

import (
	"fmt"
	"testing"
	"time"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/store/storetest"
)

// A control plane that stands still for a minute must not take a thousand hosts
// for silent when it goes on: no lease loses its place, its run or its money.
func TestAStallOfTheControlPlaneCostsNoLeaseAnything(t *testing.T) {
	t.Parallel()
	const hosts = 1000
	w := newWorld(t)
	for range hosts {
		w.enrol(1)
	}
	w.pass(beat)
	var leases []string
	renter := w.ada
	for i, h := range w.joined {
		if i%20 == 0 {
			renter = w.tenant(fmt.Sprint("renter", i))
		}
		q, err := w.Price(w.ctx, renter, QuoteRequest{OfferID: h.id + ".rtx-4090.1", Image: "debian:12", DiskGiB: 10}, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		l, err := w.Accept(w.ctx, renter, Create{QuoteID: q.ID, Name: fmt.Sprint("l", len(leases))})
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l.ID)
	}
	w.pass(6 * beat)
	generations := map[string]int64{}
	for _, id := range leases {
		l := w.get(id)
		if l.State != Running {
			t.Fatalf("lease %s is %s before the stall", id, l.State)
		}
		generations[id] = l.Generation
	}

	w.jump(time.Minute) // nothing ran, nobody was heard
	w.fleet.Silent(w.ctx)
	w.tick()
	w.check(t, leases, generations, "when it goes on")
	before := w.elapsed
	w.pass(2 * 2 * beat) // two heartbeats, of which fleet's default is two of the world's
	if took := w.elapsed - before; took > 20*time.Second {
		t.Fatalf("two heartbeats took %s", took)
	}
	w.check(t, leases, generations, "two heartbeats later")
	online := 0
	for _, h := range w.fleet.Hosts(w.ctx, w.operator) {
		if h.State == fleet.StateListed {
			online++
		}
	}
	if online != hosts || w.fleet.Suspect() {
		t.Errorf("two heartbeats after the stall %d of %d hosts are on the market, suspect %v", online, hosts, w.fleet.Suspect())
	}
	// What ran on through the stall is charged, to the second.
	used, _ := w.charged(leases[0])
	if ran := w.host(w.get(leases[0]).HostID).runtime(leases[0]); used < ran-2*beat || used > ran {
		t.Errorf("charged for %s of the %s that it ran", used, ran)
	}
	w.booksAreRight()
}

// check fails if a lease has moved.
func (w *world) check(t *testing.T, leases []string, generations map[string]int64, when string) {
	t.Helper()
	moved := 0
	for _, id := range leases {
		if l := w.get(id); l.State != Running || l.Generation != generations[id] || len(l.GPUs) != 1 {
			moved++
		}
	}
	if moved != 0 {
		t.Fatalf("%s, %d of %d leases do not run as before", when, moved, len(leases))
	}
	for _, h := range w.joined {
		if n := len(h.containers()); n != 1 {
			t.Fatalf("%s, host %s has %d containers, want 1", when, h.id, n)
		}
	}
}

// A heartbeat, from the decoded report to the reply: what a control plane does
// hundreds of times a second when nothing happens.
func BenchmarkReportOfAHostWithFiveLeases(b *testing.B) {
	w := newWorldOn(b, b.Context(), storetest.Open(b, storetest.Address(b)), func(o *options) { o.money = "1000000" })
	h := w.join(8)
	for range 5 {
		w.rent(h, 1)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.jump(beat)
		h.work()
		if reply, err := w.fleet.Report(w.ctx, h.id, h.report(), w.clock()); err != nil || !reply.Accepted || len(reply.Desired) != 5 {
			b.Fatal(reply, err)
		}
	}
}
