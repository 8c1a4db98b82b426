package cluster

import (
	"testing"
	"time"

	"suanli.dev/internal/lease"
)

func TestAClusterStartsWholeAndIsChargedFromThatMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hosts := w.join(3, 2)
	hosts[1].slow = true
	q, err := w.Quote(t.Context(), w.ada, Request{Nodes: 3, GPUs: 2, GPUModel: "RTX 4090", Run: lease.QuoteRequest{Image: "debian:12", DiskGiB: 10}})
	if err != nil || len(q.Nodes) != 3 || q.PerHour != q.Nodes[0].Price.Totals.PerHour*3 {
		t.Fatalf("the quote is %+v (%v)", q, err)
	}
	_, err = w.Create(t.Context(), w.ada, Create{Request: q.Request, Agreed: q.PerHour - 1})
	wantCode(t, err, "price_moved")
	k, err := w.Create(t.Context(), w.ada, Create{Request: q.Request, Name: "train", Agreed: q.PerHour})
	if err != nil || k.State != Forming || len(k.Members) != 3 || k.PerHour != q.PerHour {
		t.Fatalf("the cluster is %+v (%v)", k, err)
	}
	w.until("the quick ones run", time.Minute, func() bool {
		n := 0
		for _, l := range w.cluster(k.ID).Leases {
			if l.State == lease.Running {
				n++
			}
		}
		return n == 2
	})
	for range 20 {
		w.pass()
	}
	d := w.cluster("train")
	if d.State != Forming || w.due(d) != 0 {
		t.Fatalf("while one node does not run the cluster is %s and costs %s", d.State, w.due(d))
	}
	hosts[1].mu.Lock()
	hosts[1].slow = false
	hosts[1].mu.Unlock()
	d = w.reach(k.ID, Running, time.Minute)
	began := w.clock()
	if w.due(d) != 0 {
		t.Errorf("it costs %s in the moment in which it is whole", w.due(d))
	}
	for _, n := range d.Members {
		c := hosts[0].w.host(n.HostID).instances[n.LeaseID].spec.Cluster
		if c == nil || c.Rank != n.Rank || len(c.Nodes) != 3 || c.Nodes[2].Name != "node-2" || c.GPUsPerNode != 2 {
			t.Errorf("node %d is told %+v", n.Rank, c)
		}
	}
	for range 12 * 60 { // an hour
		w.pass()
	}
	got, want := w.due(d), q.PerHour
	if hours := w.clock().Sub(began); hours < time.Hour || got < want || got > want+want/20 {
		t.Errorf("after %s it costs %s, and an hour of it %s", hours, got, want)
	}
	if _, err := w.End(t.Context(), w.ada, "train"); err != nil {
		t.Fatal(err)
	}
	if again, err := w.End(t.Context(), w.ada, "train"); err != nil || again.State != Ending && again.State != Ended {
		t.Errorf("ended again it is %+v (%v)", again, err)
	}
	d = w.reach(k.ID, Ended, 2*time.Minute)
	cost := w.due(d)
	for range 20 {
		w.pass()
	}
	if w.due(d) != cost {
		t.Errorf("it is ended, and costs %s more", w.due(d)-cost)
	}
	w.wantFree()
}

func TestOneNodeThatCannotStartReleasesTheWholeGangAndNothingIsCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hosts := w.join(2, 1)
	hosts[1].broken = true
	k := w.create(2, 1)
	d := w.reach(k.ID, Failed, 3*time.Minute)
	if d.Code != "node_failed" || w.due(d) != 0 || d.PerHour != 0 {
		t.Errorf("it failed as %s (%s), and costs %s", d.Code, d.Message, w.due(d))
	}
	for _, l := range d.Leases {
		if !l.State.Over() {
			t.Errorf("lease %s is %s", l.ID, l.State)
		}
	}
	w.wantFree()
}

func TestAGangThatIsNotWholeInTimeIsReleasedAndQueuedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hosts := w.join(2, 1)
	hosts[0].slow = true
	k := w.create(2, 1, func(c *Create) { c.StartWithin, c.WaitFor = 2*time.Minute, time.Hour })
	before := w.clock()
	d := w.reach(k.ID, Queued, 4*time.Minute)
	if d.Code != "start_timeout" || w.due(d) != 0 || w.clock().Sub(before) > 3*time.Minute {
		t.Errorf("after %s it is queued as %s (%s), and costs %s", w.clock().Sub(before), d.Code, d.Message, w.due(d))
	}
	// The slow host is not chosen again; a third one makes it whole.
	w.join(1, 1)
	d = w.reach(k.ID, Running, 5*time.Minute)
	for _, n := range d.Members {
		if n.HostID == hosts[0].id {
			t.Error("the host that failed it is chosen again at once")
		}
	}
	if len(d.Leases) != 4 {
		t.Errorf("%d leases, want two of each try", len(d.Leases))
	}
}

func TestNodesThatDoNotReachEachOtherAreNoCluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hosts := w.join(2, 1)
	hosts[1].cutOff = true
	k := w.create(2, 1, func(c *Create) { c.StartWithin = time.Minute })
	d := w.reach(k.ID, Failed, 3*time.Minute)
	if d.Code != "start_timeout" || w.due(d) != 0 {
		t.Errorf("it is %s (%s), and costs %s", d.Code, d.Message, w.due(d))
	}
}

func TestALostNodeEndsTheClusterOrIsReplacedAlone(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{PolicyFail, PolicyReplace} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.join(4, 1)
			k := w.create(2, 1, func(c *Create) { c.Policy = policy })
			d := w.reach(k.ID, Running, time.Minute)
			lost, kept := d.Members[1], d.Members[0]
			h := w.host(lost.HostID)
			h.mu.Lock()
			h.up = false
			h.mu.Unlock()
			if policy == PolicyFail {
				d = w.reach(k.ID, Failed, 5*time.Minute)
				if d.Code != "node_lost" || d.Leases[kept.LeaseID].State != lease.Ended {
					t.Errorf("it is %s (%s), and the other node's lease %s", d.Code, d.Message, d.Leases[kept.LeaseID].State)
				}
				return
			}
			w.reach(k.ID, Repairing, 2*time.Minute)
			d = w.reach(k.ID, Running, 3*time.Minute)
			if d.Members[0].LeaseID != kept.LeaseID || d.Members[1].LeaseID == lost.LeaseID || d.Members[1].HostID == lost.HostID {
				t.Errorf("the nodes are %+v, were %+v and %+v", d.Members, kept, lost)
			}
			if d.Leases[kept.LeaseID].State != lease.Running || d.Leases[kept.LeaseID].Generation != 1 {
				t.Errorf("the node that was not lost was touched: %+v", d.Leases[kept.LeaseID])
			}
			if d.Leases[d.Members[1].LeaseID].GangWaits {
				t.Error("the node that took its place is not charged for")
			}
		})
	}
}

func TestANodeThatItsRenterStopsIsNotReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(3, 1)
	k := w.create(2, 1, func(c *Create) { c.Policy = PolicyReplace })
	d := w.reach(k.ID, Running, time.Minute)
	if _, err := w.leases.End(t.Context(), w.ada, d.Members[0].LeaseID); err != nil {
		t.Fatal(err)
	}
	d = w.reach(k.ID, Failed, 2*time.Minute)
	if len(d.Leases) != 2 {
		t.Errorf("%d leases, want the two that there were", len(d.Leases))
	}
}

func TestNoHostsIsSaidBeforeAnythingIsRentedAndWaitedForIfWanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1, 2)
	c := Create{Request: Request{Nodes: 2, GPUs: 2, GPUModel: "RTX 4090", Run: lease.QuoteRequest{Image: "debian:12", DiskGiB: 10}}, Agreed: 1_000_000_000}
	_, err := w.Create(t.Context(), w.ada, c)
	wantCode(t, err, "cluster_no_hosts")
	c.WaitFor, c.Name = 10*time.Minute, "patient"
	k, err := w.Create(t.Context(), w.ada, c)
	if err != nil || k.State != Queued {
		t.Fatalf("the cluster is %+v (%v)", k, err)
	}
	_, err = w.Create(t.Context(), w.ada, c)
	wantCode(t, err, "cluster_name_taken")
	w.join(1, 2)
	w.reach(k.ID, Running, 2*time.Minute)
	c.Name = "never"
	k2, err := w.Create(t.Context(), w.ada, c)
	if err != nil {
		t.Fatal(err)
	}
	if d := w.reach(k2.ID, Failed, 12*time.Minute); d.Code != "cluster_no_hosts" || len(d.Leases) != 0 {
		t.Errorf("it is %s with %d leases", d.Code, len(d.Leases))
	}
}

func TestAControlPlaneThatDiesAtAnyMomentLosesNoClusterAndChargesNoneTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	hosts := w.join(2, 1)
	k := w.create(2, 1)
	for range 3 {
		w.restart()
		w.pass()
	}
	d := w.reach(k.ID, Running, time.Minute)
	w.restart()
	for range 12 {
		w.pass()
	}
	got := w.due(d)
	if most := k.PerHour / 30; got == 0 || got > most {
		t.Errorf("after a minute it costs %s, want more than 0 and at most %s", got, most)
	}
	if _, err := w.End(t.Context(), w.ada, k.ID); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.reach(k.ID, Ended, 3*time.Minute)
	w.wantFree()
	_ = hosts
}

func TestClustersAreTheirAccountsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, 1)
	k := w.create(2, 1, func(c *Create) { c.Name = "mine" })
	eve := w.tenant("eve")
	for _, name := range []string{k.ID, "mine"} {
		_, err := w.Get(t.Context(), eve, name)
		wantCode(t, err, "cluster_not_found")
		_, err = w.End(t.Context(), eve, name)
		wantCode(t, err, "cluster_not_found")
	}
	if list, _, err := w.List(t.Context(), eve, false, "", 0); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %v (%v)", list, err)
	}
}
