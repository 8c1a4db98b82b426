package auction

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// surplus is what bidders would pay at most less what hosts want at least.
func surplus(m Market, r Result) int64 {
	floors := map[string]Price{}
	for _, h := range m.Hosts {
		floors[h.ID] = h.Floor
	}
	sum := int64(0)
	for i, d := range r.Decisions {
		if b := m.Bids[i]; d.Action == Start {
			sum += int64(b.GPUs) * int64(b.Limit()-floors[d.Host])
		}
	}
	return sum
}

// optimum tries all ways to place all bids, and knows nothing of how Clear works.
func optimum(m Market) int64 {
	free := make([]int, len(m.Hosts))
	for i, h := range m.Hosts {
		free[i] = h.GPUs - h.OnDemand
	}
	bids := slices.Clone(m.Bids)
	slices.SortFunc(bids, func(a, b Bid) int { return int(b.Price)*b.GPUs - int(a.Price)*a.GPUs })
	possible := make([]int64, len(bids)+1) // at most, from each on
	for i, b := range slices.Backward(bids) {
		possible[i] = possible[i+1]
		for _, h := range m.Hosts {
			possible[i] = max(possible[i], possible[i+1]+int64(b.GPUs)*int64(b.Limit()-h.Floor))
		}
	}
	best := int64(0)
	var try func(i int, sum int64)
	try = func(i int, sum int64) {
		best = max(best, sum)
		if i == len(bids) || sum+possible[i] <= best {
			return
		}
		for h := range m.Hosts {
			if b := bids[i]; free[h] >= b.GPUs && b.Limit() >= m.Hosts[h].Floor {
				free[h] -= b.GPUs
				try(i+1, sum+int64(b.GPUs)*int64(b.Limit()-m.Hosts[h].Floor))
				free[h] += b.GPUs
			}
		}
		try(i+1, sum)
	}
	try(0, 0)
	return best
}

func small(r *rand.Rand) Market {
	m := Market{Zone: "z", Model: "m", Params: Standard()}
	for i := range 1 + r.IntN(4) {
		m.Hosts = append(m.Hosts, Host{ID: fmt.Sprintf("h%d", i), GPUs: 1 + r.IntN(8), Floor: Price(r.IntN(20)) * 50_000_000})
	}
	for i := range 3 + r.IntN(10) {
		m.Bids = append(m.Bids, Bid{ID: fmt.Sprintf("b%d", i), GPUs: 1 + r.IntN(8), Price: Price(1+r.IntN(40)) * 50_000_000, PlacedAt: noon.Add(-time.Duration(r.IntN(9)) * time.Hour)})
	}
	return m
}

func TestASmallMarketIsClearedWithTheHighestWelfareThereIs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 1))
	worst, total := 1.0, 0.0
	for i := range 300 {
		m := small(r)
		want := optimum(m)
		rd := newRound(&m, noon)
		packed, ok := rd.packed()
		if !ok {
			t.Fatalf("market %d is too large: %+v", i, m)
		}
		for way, got := range map[string]Result{"Clear": mustClear(t, m, noon), "packed": rd.result(packed)} {
			if got := surplus(m, got); got != want {
				t.Errorf("market %d: welfare %d by %s, and the optimum is %d: %+v", i, got, way, want, m)
			}
		}
		if want > 0 {
			rd := newRound(&m, noon)
			q := float64(surplus(m, rd.result(rd.greedy()))) / float64(want)
			worst = min(worst, q)
			total += q
		}
	}
	t.Logf("by rank: worst %.3f, mean %.3f", worst, total/300)
}

// divided is the welfare if bundles could be taken apart, of bids and hosts sorted
// by price: nothing possible is above it.
func divided(bids []Bid, hosts []Host, free []int) (sum int64) {
	h, room := -1, 0
	for _, b := range bids {
		for need := b.GPUs; need > 0; {
			if room == 0 {
				if h++; h == len(hosts) {
					return sum
				}
				room = free[h]
				continue
			}
			if b.Limit() <= hosts[h].Floor {
				return sum
			}
			n := min(need, room)
			sum += int64(n) * int64(b.Limit()-hosts[h].Floor)
			need, room = need-n, room-n
		}
	}
	return sum
}

// most is the highest welfare of a market of bundles of 1 to 8 GPUs in which nobody
// runs, if it is above known, and else known: host after host, it keeps for each
// number of bids of each size that have a place the best that these can make, the
// best bids of each size first, unless even dividing the rest reaches no more than
// is known.
func most(m Market, known int64) int64 {
	type taken [9]uint8
	bids, hosts := slices.Clone(m.Bids), slices.Clone(m.Hosts)
	slices.SortFunc(bids, func(a, b Bid) int { return cmp.Compare(b.Price, a.Price) })
	slices.SortFunc(hosts, func(a, b Host) int { return cmp.Compare(a.Floor, b.Floor) })
	var sizes [9][]Bid
	for _, b := range bids {
		sizes[b.GPUs] = append(sizes[b.GPUs], b)
	}
	free := make([]int, len(hosts))
	for i, h := range hosts {
		free[i] = h.GPUs
	}
	left := make([]Bid, 0, len(bids))
	rest := func(t taken, h int) int64 {
		left = left[:0]
		for _, b := range bids {
			if t[b.GPUs] > 0 {
				t[b.GPUs]--
				continue
			}
			left = append(left, b)
		}
		return divided(left, hosts[h:], free[h:])
	}
	layer := map[taken]int64{{}: 0}
	for h := range hosts {
		next := map[taken]int64{}
		var fill func(t taken, size, room int, sum int64)
		fill = func(t taken, size, room int, sum int64) {
			if known = max(known, sum); size == 0 {
				if was, ok := next[t]; (!ok || sum > was) && sum+rest(t, h+1) > known {
					next[t] = sum
				}
				return
			}
			fill(t, size-1, room, sum)
			for n := int(t[size]); n < len(sizes[size]) && room >= size; n++ {
				sum += int64(size) * int64(sizes[size][n].Limit()-hosts[h].Floor)
				t[size]++
				room -= size
				fill(t, size-1, room, sum)
			}
		}
		for t, sum := range layer {
			if sum+rest(t, h) > known {
				fill(t, 8, hosts[h].GPUs, sum)
			}
		}
		layer = next
	}
	return known
}

func TestAThousandMarketsOfUpToEightHostsHaveTheHighestWelfareAtOnePrice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 2))
	for i := range 1000 {
		hosts := 1 + r.IntN(8)
		if i%4 == 0 {
			hosts = 8
		}
		m := fresh(r, hosts, hosts*(1+r.IntN(5)), i%2 == 0)
		cleared := mustClear(t, m, noon)
		got := surplus(m, cleared)
		if want := most(m, got); got != want {
			t.Errorf("market %d of %d hosts: welfare %d, and the optimum is %d: %+v", i, hosts, got, want, m)
		}
		if hosts < 4 && optimum(m) != got {
			t.Errorf("market %d of %d hosts: welfare %d, and the optimum of all ways is %d", i, hosts, got, optimum(m))
		}
		goods := map[int]Price{}
		for _, g := range cleared.Goods {
			if _, twice := goods[g.GPUs]; twice {
				t.Errorf("market %d: bundles of %d have two prices", i, g.GPUs)
			}
			goods[g.GPUs] = g.Price
		}
		for n, d := range cleared.Decisions {
			if d.Action != Start {
				continue
			}
			h := m.Hosts[slices.IndexFunc(m.Hosts, func(h Host) bool { return h.ID == d.Host })]
			if b, p := m.Bids[n], goods[m.Bids[n].GPUs]; p > b.Limit() || p < h.Floor {
				t.Errorf("market %d: %s bids %s on a host that wants %s, and pays %s", i, b.ID, b.Limit(), h.Floor, p)
			}
		}
	}
}

// fresh is a market in which nobody runs.
func fresh(r *rand.Rand, hosts, bids int, even bool) Market {
	m := Market{Zone: "z", Model: "m", Params: Standard()}
	for i := range hosts {
		m.Hosts = append(m.Hosts, Host{ID: fmt.Sprintf("h%d", i), GPUs: 1 + r.IntN(8), Floor: Price(r.IntN(20)) * 50_000_000})
	}
	for i := range bids {
		gpus := 1 + r.IntN(8)
		if even {
			gpus = 1 << r.IntN(4)
		}
		m.Bids = append(m.Bids, Bid{ID: fmt.Sprintf("b%d", i), GPUs: gpus, Price: Price(1+r.IntN(40)) * 50_000_000, PlacedAt: noon.Add(-time.Duration(r.IntN(9)) * time.Hour)})
	}
	return m
}
