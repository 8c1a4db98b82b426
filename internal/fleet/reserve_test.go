package fleet

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func (c *cloud) reservePorts(lease, hostID string, ports ...int) (a Allocation, err error) {
	err = c.tx(hostID, func(ctx context.Context, tx *store.Tx) error {
		a, err = c.Reserve(ctx, tx, Reservation{
			LeaseID: lease, HostID: hostID, GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 1000, MemoryMiB: 1024, DiskGiB: 1, Ports: ports,
		})
		return err
	})
	return a, err
}

func TestOfManyThatReserveTheSameGPUExactlyOneWins(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCloudOn(t, db)
		host, _ := c.rtx4090s(1)
		const takers = 16
		errs := make([]error, takers)
		var group sync.WaitGroup
		for i := range takers {
			group.Go(func() { _, errs[i] = c.reserve(fmt.Sprintf("ls-%d", i), host, 1) })
		}
		group.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
				continue
			}
			wantCode(t, err, "offer_taken")
		}
		if won != 1 {
			t.Fatalf("%d of %d got the GPU, want 1", won, takers)
		}
		if n := c.offered(""); n != 0 {
			t.Errorf("%d offers of a taken host", n)
		}
	})
}

func TestTwoReplicasNeverGiveAwayTheSameGPU(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCloudOn(t, db)
		host, inv := c.rtx4090s(8)
		// A second replica with a view of its own of the same store.
		other := &cloud{Service: nil, t: t, db: db, now: c.now, seq: map[string]int64{}}
		other.Service = other.start()
		if err := other.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		other.report(host, protocol.Report{Session: "other", Ready: true, Inventory: inv})
		var mu sync.Mutex
		taken := map[string]string{}
		var group sync.WaitGroup
		for i := range 24 {
			group.Go(func() {
				replica := []*cloud{c, other}[i%2]
				lease := fmt.Sprintf("ls-%d", i)
				a, err := replica.reserve(lease, host, 1)
				if err != nil {
					wantCode(t, err, "offer_taken")
					return
				}
				mu.Lock()
				defer mu.Unlock()
				for _, uuid := range a.GPUs {
					if before, ok := taken[uuid]; ok {
						t.Errorf("GPU %s is in %s and %s", uuid, before, lease)
					}
					taken[uuid] = lease
				}
			})
		}
		group.Wait()
		if len(taken) != 8 {
			t.Errorf("%d of 8 GPUs were given away to 24 takers", len(taken))
		}
	})
}

func TestStopKeepsDiskAndPortsAndStartTakesGPUsAgain(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(2)
	inv.DirectPorts = &protocol.PortRange{Address: "192.0.2.1", First: 40000, Last: 40009}
	c.report(host, protocol.Report{Ready: true, Inventory: inv})
	before, err := c.reservePorts("ls-1", host, 22, 8888)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseCompute(ctx, tx, "ls-1") }); err != nil {
		t.Fatal(err)
	}
	h := c.view(host)
	if h.Free.GPUs != 2 || h.Free.CPUMillis != h.Total.CPUMillis || h.Free.DiskMiB != h.Total.DiskMiB-1024 {
		t.Fatalf("after the stop free is %+v of %+v, want all but the disk", h.Free, h.Total)
	}
	start := func() (a Allocation, err error) {
		err = c.tx(host, func(ctx context.Context, tx *store.Tx) error {
			a, err = c.ReserveCompute(ctx, tx, "ls-1")
			return err
		})
		return a, err
	}
	if _, err := c.reserve("ls-2", host, 2); err != nil {
		t.Fatal(err)
	}
	_, err = start()
	wantCode(t, err, "no_capacity")
	if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, "ls-2") }); err != nil {
		t.Fatal(err)
	}
	after, err := start()
	if err != nil {
		t.Fatal(err)
	}
	if len(after.GPUs) != 1 || after.CPUMillis != 1000 || after.DiskMiB != 1024 || fmt.Sprint(after.DirectPorts) != fmt.Sprint(before.DirectPorts) {
		t.Errorf("started with %+v, had %+v", after, before)
	}
	// Unlisting is about new leases, draining about new starts.
	if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseCompute(ctx, tx, "ls-1") }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Unlist(t.Context(), ada, host); err != nil {
		t.Fatal(err)
	}
	if _, err := start(); err != nil {
		t.Errorf("a lease on an unlisted host does not start: %v", err)
	}
	if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseCompute(ctx, tx, "ls-1") }); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Drain(t.Context(), ada, host, true); err != nil {
		t.Fatal(err)
	}
	_, err = start()
	wantCode(t, err, "no_capacity")
}

func TestMoreThanAHostHasIsRefused(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(2)
	for name, r := range map[string]Reservation{
		"GPUs":          {GPUModel: "RTX 4090", GPUCount: 3, CPUMillis: 1, MemoryMiB: 1, DiskGiB: 1},
		"another model": {GPUModel: "H100 SXM", GPUCount: 1, CPUMillis: 1, MemoryMiB: 1, DiskGiB: 1},
		"CPU":           {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 16001, MemoryMiB: 1, DiskGiB: 1},
		"memory":        {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 1, MemoryMiB: 65536, DiskGiB: 1},
		"disk":          {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 1, MemoryMiB: 1, DiskGiB: 1025},
		"ports":         {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 1, MemoryMiB: 1, DiskGiB: 1, Ports: []int{80}},
		"negative disk": {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 1, MemoryMiB: 1, DiskGiB: -1},
		"huge disk":     {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 1, MemoryMiB: 1, DiskGiB: 1 << 60},
		"no CPU":        {GPUModel: "RTX 4090", GPUCount: 1, CPUMillis: 0, MemoryMiB: 1, DiskGiB: 1},
		"negative GPUs": {GPUModel: "RTX 4090", GPUCount: -1, CPUMillis: 1, MemoryMiB: 1, DiskGiB: 1},
	} {
		r.LeaseID, r.HostID = "ls-1", host
		err := c.tx(host, func(ctx context.Context, tx *store.Tx) error {
			_, err := c.Reserve(ctx, tx, r)
			return err
		})
		if _, ok := fault.As(err); !ok {
			t.Errorf("%s: got %v, want a fault", name, err)
		}
	}
	if h := c.view(host); h.Free != h.Total {
		t.Errorf("after refusals free is %+v of %+v", h.Free, h.Total)
	}
}

// For any order of reserving, stopping, starting, ending, losing GPUs and
// getting them back: each GPU is in at most one lease, and taken and free make
// up the whole.
func TestAllocatedAndFreeAreTheWholeInAnyOrderOfEvents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCloudOn(t, db)
		rapid.Check(t, func(t *rapid.T) {
			n := rapid.IntRange(1, 8).Draw(t, "gpus")
			host, inv := c.rtx4090s(n)
			held := map[string]map[string]bool{} // by lease: nil while stopped
			serial := 0
			pick := func() string {
				leases := []string{""}
				for i := range serial {
					if l := fmt.Sprintf("%s-ls-%d", host, i); held[l] != nil {
						leases = append(leases, l)
					}
				}
				return rapid.SampledFrom(leases).Draw(t, "lease")
			}
			check := func() {
				owner := map[string]string{}
				for lease, gpus := range held {
					for uuid := range gpus {
						if owner[uuid] != "" {
							t.Fatalf("GPU %s is in %s and %s", uuid, owner[uuid], lease)
						}
						owner[uuid] = lease
					}
				}
				h := c.view(host)
				taken, free, unfit := 0, 0, 0
				for _, g := range h.GPUs {
					if g.LeaseID != owner[g.UUID] {
						t.Fatalf("GPU %s is in %q, want %q", g.UUID, g.LeaseID, owner[g.UUID])
					}
					switch {
					case g.LeaseID != "":
						taken++
					case g.Present && g.Health == protocol.Healthy:
						free++
					default:
						unfit++
					}
				}
				if taken+free+unfit != n || taken != len(owner) || free != h.Free.GPUs {
					t.Fatalf("%d taken + %d free + %d unfit of %d; %d in leases, %d shown free", taken, free, unfit, n, len(owner), h.Free.GPUs)
				}
				if got := c.offered(fmt.Sprintf("host_id = %q", host)); got != free {
					t.Fatalf("%d bundles on offer of %d free GPUs", got, free)
				}
			}
			take := func(lease string, a Allocation) {
				held[lease] = map[string]bool{}
				for _, uuid := range a.GPUs {
					held[lease][uuid] = true
				}
			}
			t.Repeat(map[string]func(*rapid.T){
				"": func(*rapid.T) { check() },
				"reserve": func(t *rapid.T) {
					lease := fmt.Sprintf("%s-ls-%d", host, serial)
					serial++
					if a, err := c.reserve(lease, host, rapid.IntRange(1, 4).Draw(t, "count")); err == nil {
						take(lease, a)
					}
				},
				"stop": func(t *rapid.T) {
					if lease := pick(); lease != "" {
						if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseCompute(ctx, tx, lease) }); err != nil {
							t.Fatal(err)
						}
						held[lease] = map[string]bool{}
					}
				},
				"start": func(t *rapid.T) {
					if lease := pick(); lease != "" {
						var a Allocation
						err := c.tx(host, func(ctx context.Context, tx *store.Tx) (err error) {
							a, err = c.ReserveCompute(ctx, tx, lease)
							return err
						})
						if err == nil {
							take(lease, a)
						}
					}
				},
				"end": func(t *rapid.T) {
					if lease := pick(); lease != "" {
						if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, lease) }); err != nil {
							t.Fatal(err)
						}
						delete(held, lease)
					}
				},
				"lose GPUs": func(t *rapid.T) {
					some := *inv
					some.GPUs = inv.GPUs[:rapid.IntRange(0, n).Draw(t, "left")]
					c.report(host, protocol.Report{Ready: true, Inventory: &some})
				},
				"dirty GPU": func(t *rapid.T) {
					uuid := inv.GPUs[rapid.IntRange(0, n-1).Draw(t, "gpu")].UUID
					c.report(host, protocol.Report{Ready: true, Health: map[string]protocol.Health{uuid: {State: protocol.Dirty}}})
				},
				"all well": func(*rapid.T) { c.report(host, protocol.Report{Ready: true, Inventory: inv}) },
			})
			for lease := range held {
				if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, lease) }); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
}

// A replica keeps pictures of hosts and of their inventories in memory. They may
// be old, and nothing that is given away or decided may rest on them.
func TestAReplicaWithAnOldPictureOfAHostReservesByWhatIsStored(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		c := newCloudOn(t, db)
		host, inv := c.rtx4090s(2)
		other := &cloud{t: t, db: db, now: c.now, elapsed: c.elapsed, seq: map[string]int64{}, boot: map[string]time.Duration{}}
		other.Service = other.start()
		if err := other.Load(ctx); err != nil {
			t.Fatal(err)
		}
		other.report(host, protocol.Report{Session: "first", Ready: true})

		// One GPU is taken out, and only the first replica hears of it.
		less := *inv
		less.GPUs = inv.GPUs[1:]
		c.report(host, protocol.Report{Session: "first", Ready: true, Inventory: &less})
		if got := len(other.record(host).Inventory.GPUs); got != 2 {
			t.Fatalf("the other replica knows of %d GPUs; the test means it to be behind, with 2", got)
		}
		reserve := func(s *Service, lease string, n int) (a Allocation, err error) {
			err = db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				a, err = s.Reserve(ctx, tx, Reservation{LeaseID: lease, HostID: host, GPUModel: "RTX 4090", GPUCount: n, CPUMillis: 1000, MemoryMiB: 1024, DiskGiB: 1})
				return err
			})
			return a, err
		}
		if _, err := reserve(other.Service, "ls-both", 2); err == nil {
			t.Error("both GPUs of a host that has one were given away")
		} else {
			wantCode(t, err, "offer_taken")
		}
		a, err := reserve(other.Service, "ls-one", 1)
		if err != nil || len(a.GPUs) != 1 || a.GPUs[0] != less.GPUs[0].UUID {
			t.Fatalf("got %v (%v), want the GPU that is left", a.GPUs, err)
		}
		// The picture follows when it is asked for, though most of it was kept.
		other.Refresh(ctx, host)
		if got := len(other.record(host).Inventory.GPUs); got != 1 {
			t.Errorf("after a refresh the other replica knows of %d GPUs, want 1", got)
		}
		before := other.record(host).Inventory
		other.Refresh(ctx, host)
		if other.record(host).Inventory != before {
			t.Error("an inventory that did not change was decoded again")
		}
	})
}
