package lease

import (
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/protocol"
)

func TestGPUsThatAHostTakesFromARunningInstanceAreItsFaultUntilTheRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	l, other := w.rent(h, 1), w.rent(h, 1)
	w.pass(time.Minute)
	lost := w.clock()
	h.set(func() {
		h.mangle = func(st *protocol.InstanceStatus) {
			if st.LeaseID == l.ID && st.Generation == l.Generation {
				st.GPUFault = &protocol.GPUFault{Since: *h.instant(lost), Reason: "operation not permitted"}
			}
		}
	})
	w.pass(5 * time.Minute)
	got := w.get(l.ID)
	if got.State != Running || got.Code != CodeGPUsRefused || !strings.Contains(got.Message, "not permitted") || !strings.Contains(got.Message, "restart") {
		t.Errorf("the lease is %s, %q: %q; want it running, with the fault and what to do", got.State, got.Code, got.Message)
	}
	if o := w.get(other.ID); o.Code != "" {
		t.Errorf("its neighbour has the fault %q", o.Code)
	}
	// A new process of the control plane does not tell it again.
	w.restart()
	w.pass(time.Minute)
	if n := w.count(l.ID, HostFault); n != 1 {
		t.Errorf("one fault is %d events", n)
	}

	before := len(w.get(l.ID).GPUs)
	if _, err := w.Restart(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	restarted := w.clock()
	w.until(l.ID, Running)
	if got := w.get(l.ID); got.Code != "" || len(got.GPUs) != before {
		t.Errorf("after the restart it has %d GPUs, and %q: %q", len(got.GPUs), got.Code, got.Message)
	}
	for _, c := range h.commands {
		if c.LeaseID == l.ID && c.Want != protocol.WantRunning {
			t.Errorf("a restart told the host %s, which does not keep the disk", c.Want)
		}
	}
	outages, err := w.Outages(w.ctx, w.ada, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Outage{{lost, restarted, CodeGPUsRefused}}; !slices.Equal(outages, want) {
		t.Errorf("the record of outages is %v, want %v", outages, want)
	}
	if list, _ := w.Outages(w.ctx, w.ada, other.ID); len(list) != 0 {
		t.Errorf("its neighbour has outages: %v", list)
	}
	if _, err := w.Outages(w.ctx, w.tenant("eve"), l.ID); err == nil {
		t.Error("another tenant reads the outages")
	}
}

func TestGPUsThatComeBackByThemselvesEndTheOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	lost := w.clock()
	h.set(func() {
		h.mangle = func(st *protocol.InstanceStatus) {
			st.GPUFault = &protocol.GPUFault{Since: *h.instant(lost), Reason: "operation not permitted"}
		}
	})
	w.pass(time.Minute)
	h.set(func() { h.mangle = nil })
	w.pass(time.Minute)
	if got := w.get(l.ID); got.State != Running || got.Code != "" || got.Message != "" {
		t.Errorf("the lease is %s, %q: %q", got.State, got.Code, got.Message)
	}
	list, err := w.Outages(w.ctx, w.ada, l.ID)
	if err != nil || len(list) != 1 || !list[0].From.Equal(lost) || list[0].Until.Sub(lost) < time.Minute || list[0].Until.Sub(lost) > time.Minute+2*beat {
		t.Errorf("outages: %v %v; want one of a minute", list, err)
	}
}

func TestOneLostGPUOfEightIsToldToItsRenterAndSevenStayRentable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(8)
	unlucky, other := w.rent(h, 1), w.rent(h, 1)
	lost := unlucky.GPUs[0]
	h.set(func() {
		h.gpus = slices.DeleteFunc(slices.Clone(h.gpus), func(g protocol.GPU) bool { return g.UUID == lost })
		h.inventory = false
	})
	w.pass(10 * time.Minute)
	if w.free() != 6 {
		t.Errorf("%d GPUs are on offer, want the 6 that are neither lost nor rented", w.free())
	}
	got := w.get(unlucky.ID)
	if got.State != Running || got.Code != CodeGPUFault || !strings.Contains(got.Message, lost) {
		t.Errorf("its renter sees %s, %q: %q", got.State, got.Code, got.Message)
	}
	if n := w.count(unlucky.ID, HostFault); n != 1 {
		t.Errorf("its renter is told %d times", n)
	}
	if list, err := w.Outages(w.ctx, w.ada, unlucky.ID); err != nil || len(list) != 1 || !list[0].Until.IsZero() {
		t.Errorf("outages of its lease: %v %v; want one that goes on", list, err)
	}
	if got := w.get(other.ID); got.State != Running || w.count(other.ID, HostFault) != 0 {
		t.Errorf("its neighbour is %s, with %d faults", got.State, w.count(other.ID, HostFault))
	}
	// All that is left can still be rented, the whole of it at once, and no request
	// was tried on the lost one.
	rest := w.rent(h, 6)
	if slices.Contains(rest.GPUs, lost) {
		t.Error("the lost GPU was rented")
	}
	if _, err := w.Stop(w.ctx, w.ada, unlucky.ID); err != nil {
		t.Fatal(err)
	}
	w.until(unlucky.ID, Stopped)
	_, err := w.Start(w.ctx, w.ada, unlucky.ID)
	if err == nil {
		t.Fatal("it started again, with no GPU left for it")
	}
	w.wantState(unlucky.ID, Stopped) // with its disk
	if _, err := w.End(w.ctx, w.ada, rest.ID); err != nil {
		t.Fatal(err)
	}
	w.until(rest.ID, Ended)
	if _, err := w.Start(w.ctx, w.ada, unlucky.ID); err != nil {
		t.Fatal(err)
	}
	w.until(unlucky.ID, Running)
	if got := w.get(unlucky.ID); len(got.GPUs) != 1 || got.GPUs[0] == lost || got.Code != "" {
		t.Errorf("it runs on %v, with %q", got.GPUs, got.Code)
	}
}

func TestFortyMissedReportsOfOneHostCloseNoLeaseAndStartItsOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad, good, third := w.join(4), w.join(1), w.join(1)
	var leases []*Lease
	for range 4 {
		leases = append(leases, w.rent(bad, 1))
	}
	elsewhere, other := w.rent(good, 1), w.rent(third, 1)
	heard := w.clock()
	bad.set(func() { bad.up = false })
	w.pass(40 * 10 * time.Second)
	for _, l := range leases {
		w.wantState(l.ID, Unreachable)
		if used, _ := w.charged(l.ID); used > heard.Sub(l.RunningSince)+beat {
			t.Errorf("lease %s is charged %s, and was last heard of after %s", l.ID, used, heard.Sub(l.RunningSince))
		}
	}
	w.wantState(elsewhere.ID, Running)
	w.wantState(other.ID, Running)
	bad.set(func() { bad.up = true })
	w.pass(time.Minute)
	for _, l := range leases {
		w.wantState(l.ID, Running)
		list, err := w.Outages(w.ctx, w.ada, l.ID)
		if err != nil || len(list) != 1 || list[0].From.Sub(heard).Abs() > beat || list[0].Until.Sub(list[0].From) < 400*time.Second {
			t.Errorf("outages of lease %s: %v %v; want one from %s on for its whole silence", l.ID, list, err, heard)
		}
	}
	for _, l := range leases {
		if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
			t.Fatal(err)
		}
		w.until(l.ID, Ended)
		w.wantClosed(l.ID)
	}
}

func TestMaintenanceOfAHostStopsTheChargeAndKeepsTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, other, third := w.join(1), w.join(1), w.join(1)
	l := w.rent(h, 1)
	w.rent(other, 1)
	w.rent(third, 1)
	from := w.clock()
	if _, err := w.fleet.SetMaintenance(w.ctx, w.operator, h.id, fleet.Window{From: from, Until: from.Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	w.pass(beat)
	h.set(func() { h.up = false })
	w.pass(time.Hour)
	w.wantState(l.ID, Unreachable)
	h.crash()
	h.set(func() { h.up = true })
	w.pass(time.Minute)
	if used, _ := w.charged(l.ID); used > from.Sub(l.RunningSince)+2*beat {
		t.Errorf("%s are charged, and it ran %s before its host's maintenance", used, from.Sub(l.RunningSince))
	}
	w.wantState(l.ID, Stopped) // the reboot ended it; its disk is there
	if _, err := w.Start(w.ctx, w.ada, l.ID); err == nil || !strings.Contains(err.Error(), "maintenance") {
		t.Errorf("a start during the maintenance: %v", err)
	}
	w.pass(time.Hour)
	if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.until(l.ID, Running)
}

func TestAnInventoryOfNonsenseWithdrawsOffersAndTouchesNoLease(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*protocol.GPU){
		"less than nothing": func(g *protocol.GPU) { g.VRAMMiB = -3 },
		"more used than there is": func(g *protocol.GPU) {
			g.Stats.UsedMiB = g.VRAMMiB + 17179869145
		},
		"less than nothing used": func(g *protocol.GPU) { g.Stats.UsedMiB = -17179869145 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			h := w.join(4)
			l := w.rent(h, 1)
			good := slices.Clone(h.gpus)
			h.set(func() {
				h.gpus = slices.Clone(h.gpus)
				for i := range h.gpus {
					spoil(&h.gpus[i])
				}
				h.inventory = false
			})
			w.pass(10 * time.Minute)
			if w.free() != 0 {
				t.Errorf("%d GPUs of a host that makes no sense are on offer", w.free())
			}
			w.wantState(l.ID, Running)
			h.set(func() { h.gpus, h.inventory = good, false })
			w.pass(time.Minute)
			if w.free() != 3 {
				t.Errorf("%d GPUs are on offer after the host made sense again, want 3", w.free())
			}
			if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
				t.Fatal(err)
			}
			w.until(l.ID, Ended)
			w.wantClosed(l.ID)
		})
	}
}

// count counts one kind of event in a lease's history.
func (w *world) count(id string, e Event) int {
	w.t.Helper()
	list, err := w.History(w.ctx, w.operator, id)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, c := range list {
		if c.Event == e {
			n++
		}
	}
	return n
}
