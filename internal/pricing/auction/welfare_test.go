package auction

import (
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

// Optimum is optimum, for the tests outside of the package.
func Optimum(m Market) int64 { return optimum(m) }

// Fresh is fresh, for the tests outside of the package.
func Fresh(r *rand.Rand, hosts, bids int, even bool) (Market, time.Time) {
	return fresh(r, hosts, bids, even), noon
}
