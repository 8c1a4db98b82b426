package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"

	"suanli.dev/internal/placement"
)

const (
	placementDecisions = 4000 // for each size and load
	placementGang      = 64   // nodes
	placementGangHosts = 10_000
)

// benchPlacementSpeed measures decisions a second on one core (GOMAXPROCS=1), each
// a request that is observed, placed and taken, with leases that end so that the
// load stays, in fleets of 1,000, 10,000 and 100,000 hosts of eight GPUs that are a
// half and nine tenths full of a mix of whole GPUs, shares and CPU alone; no two
// such hosts are in the same state for long. Ours is the time of a decision in the
// largest fleet that is nine tenths full, the peer the same in the smallest: the
// goal is that a hundred times the hosts cost less than twice as much. Two gangs of
// 64 whole hosts are placed in a fleet of 10,000 hosts beside: one that finds just 64
// empty ones, one that finds 63 and is refused; none of the others has room for a
// node. Each has to take less than 10 ms.
func benchPlacementSpeed(_ context.Context, _ *world) (result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	each := map[int]time.Duration{}
	for _, hosts := range []int{1_000, 10_000, 100_000} {
		for _, load := range []float64{.5, .9} {
			d, failed := placementTime(hosts, load)
			fmt.Printf("  %d hosts, %.0f %% full: %.0f decisions/s, %d of %d found no place\n", hosts, 100*load, float64(time.Second)/float64(d), failed, placementDecisions)
			each[hosts] = d
		}
	}
	found, refused := placementGangTime(placementGang), placementGangTime(placementGang-1)
	fmt.Printf("  a gang of %d in %d hosts: found in %s, refused in %s\n", placementGang, placementGangHosts, found, refused)
	ours, peer := each[100_000], each[1_000]
	pass := ours < 2*peer && max(found, refused) < 10*time.Millisecond
	return result{fmt.Sprintf("%.0fus", float64(ours.Nanoseconds())/1e3), fmt.Sprintf("%.0fus", float64(peer.Nanoseconds())/1e3), float64(ours) / float64(peer), pass}, nil
}

func placementHost(i int) placement.Host {
	h := placement.Host{ID: fmt.Sprintf("h%06d", i), Region: "r1", Zone: "z" + strconv.Itoa(i%4), Rack: strconv.Itoa(i / 16), Fabric: []string{"s" + strconv.Itoa(i/512), "l" + strconv.Itoa(i/32)},
		CPUMillis: 128_000, MemoryMiB: 1 << 20, DiskMiB: 8 << 20}
	model := []string{"H100", "H100", "A100 80GB", "RTX 4090"}[i%4]
	for k := range 8 {
		g := placement.GPU{UUID: strconv.Itoa(k), Index: k, Model: model, NUMA: k / 4, Free: true}
		if model != "RTX 4090" {
			g.Links = []placement.Link{{Count: 18}}
		}
		h.GPUs = append(h.GPUs, g)
	}
	return h
}

func placementRequest(r *rand.Rand) placement.Request {
	q := placement.Request{CPUMillis: int64(1+r.IntN(12)) * 1000, MemoryMiB: int64(1+r.IntN(96)) << 10, DiskMiB: int64(1+r.IntN(200)) << 10}
	switch r.IntN(10) {
	case 0:
	case 1, 2, 3:
		q.Count, q.Share = 1, placement.Share{Kind: placement.HAMi, Milli: (1 + r.IntN(9)) * 100}
	default:
		q.Count = []int{1, 1, 1, 2, 4, 8}[r.IntN(6)]
		q.CPUMillis *= int64(q.Count)
	}
	if q.Count > 0 && r.IntN(3) > 0 {
		q.Models = []string{[]string{"H100", "A100 80GB", "RTX 4090"}[r.IntN(3)]}
	}
	return q
}

// placementLease is a request with its place.
type placementLease struct {
	r placement.Request
	p placement.Placement
}

// placementFill puts requests on a host as they come, each on the next GPUs, until
// about this much of it is let.
func placementFill(h *placement.Host, r *rand.Rand, load float64) (live []placementLease) {
	part := -1 // the GPU that is divided
	for next, tries := 0, 0; float64(next) < load*float64(len(h.GPUs)) && tries < 30; tries++ {
		q := placementRequest(r)
		q.Models = nil
		if q.CPUMillis > h.CPUMillis || q.MemoryMiB > h.MemoryMiB || q.DiskMiB > h.DiskMiB {
			continue
		}
		c := placement.Choice{HostID: h.ID}
		switch {
		case q.Share.Milli > 0:
			sum := q.Share.Milli
			if part >= 0 {
				for _, p := range h.GPUs[part].Parts {
					sum += p.Milli
				}
			}
			if part < 0 || sum > placement.WholeMilli {
				part = next
				next++
			}
			h.GPUs[part].Parts = append(h.GPUs[part].Parts, placement.Part{Kind: q.Share.Kind, Milli: q.Share.Milli})
			c.GPUs = []string{h.GPUs[part].UUID}
		case next+q.Count > len(h.GPUs):
			continue
		default:
			for range q.Count {
				h.GPUs[next].Free = false
				c.GPUs = append(c.GPUs, h.GPUs[next].UUID)
				next++
			}
		}
		h.CPUMillis -= q.CPUMillis
		h.MemoryMiB -= q.MemoryMiB
		h.DiskMiB -= q.DiskMiB
		live = append(live, placementLease{q, placement.Placement{Nodes: []placement.Choice{c}}})
	}
	return live
}

func placementTime(hosts int, load float64) (mean time.Duration, failed int) {
	f := placement.NewFleet(placement.Standard())
	var live []placementLease
	r := rand.New(rand.NewPCG(1, uint64(hosts)))
	for i := range hosts {
		h := placementHost(i)
		live = append(live, placementFill(&h, r, load)...)
		f.Set(h)
	}
	keep := f.Free()
	decide := func(n int) {
		for range n {
			q := placementRequest(r)
			f.Observe(q)
			if p, ok := f.Place(q); ok {
				f.Take(q, p)
				live = append(live, placementLease{q, p})
			} else {
				failed++
			}
			for f.Free() < keep {
				k := r.IntN(len(live))
				f.Release(live[k].r, live[k].p)
				live[k] = live[len(live)-1]
				live = live[:len(live)-1]
			}
		}
	}
	decide(placementDecisions / 4) // the mix is known then
	failed = 0
	runtime.GC()
	used := processTime()
	decide(placementDecisions)
	return (processTime() - used) / placementDecisions, failed
}

// placementGangTime is the median time to find or refuse 64 hosts where so many
// are empty, spread over the fleet.
func placementGangTime(empty int) time.Duration {
	f := placement.NewFleet(placement.Standard())
	for i := range placementGangHosts {
		h := placementHost(i)
		h.Labels = map[string]string{"row": strconv.Itoa(i % 7)}
		for k := range h.GPUs {
			// Those without room have 0 to 6 GPUs free.
			h.GPUs[k].Model = "H100"
			h.GPUs[k].Free = i%(placementGangHosts/placementGang) == 0 && i/(placementGangHosts/placementGang) < empty || k < i%7
		}
		f.Set(h)
	}
	var t timing
	r := placement.Request{Nodes: placementGang, Models: []string{"H100"}, Count: 8, CPUMillis: 1000}
	for range 25 {
		_ = t.add(func() error { f.Place(r); return nil })
	}
	return quantile(t.wall, .5)
}
