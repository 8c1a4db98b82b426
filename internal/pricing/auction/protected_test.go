package auction

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWhatWaitsSetsThePriceOfWhoCannotBeOutbidYet(t *testing.T) {
	t.Parallel()
	m := Market{Zone: "z", Model: "m", Params: Standard(), Hosts: []Host{{ID: "h", GPUs: 1, Floor: 400_000_000}}}
	m.Bids = []Bid{
		{ID: "new", GPUs: 1, Price: 800_000_000, PlacedAt: noon, Run: &Run{Host: "h", Since: noon, Floor: 400_000_000, Price: 400_000_000}},
		{ID: "lower", GPUs: 1, Price: 600_000_000, PlacedAt: noon},
	}
	first := mustClear(t, m, noon.Add(time.Second))
	if g, _ := first.Good(1); g.Price != 600_100_000 {
		t.Errorf("with 0.60 waiting the first minute costs %s, want 0.6001", g.Price.Display())
	}
	m.Bids[1].Price = 900_000_000
	r := mustClear(t, m, noon.Add(time.Second))
	if g, _ := r.Good(1); g.Price != 800_000_000 || r.Decisions[0].Action != Keep {
		t.Errorf("with 0.90 waiting it is told to %s and pays %s, want keep and its own bid of 0.80", r.Decisions[0].Action, g.Price.Display())
	}
}

// In a market of one size the price is one tick above the best bid that waits,
// whether or not who runs could be outbid by it; not below the floors that are in
// use, and never above the bid of anybody who runs.
func TestOnePriceHoldsForProtectedRunsTooAndIsNeverAboveABid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := Market{Zone: "z", Model: "m", Params: Standard()}
		amount := func(name string) Price { return Price(rapid.IntRange(1, 300).Draw(t, name)) * 10_000_000 }
		floor := amount("floor")
		room := rapid.IntRange(1, 6).Draw(t, "room")
		m.Hosts = []Host{{ID: "h", GPUs: room, Floor: floor}}
		now := noon.Add(time.Hour)
		limit, best := MaxPrice, Price(0)
		runs := rapid.IntRange(1, room).Draw(t, "runs")
		for i := range runs {
			b := Bid{ID: fmt.Sprint("r", i), GPUs: 1, Price: floor + amount("bid"), PlacedAt: noon, Run: &Run{Host: "h", Floor: floor, Price: floor}}
			b.Run.Since = now.Add(-time.Duration(rapid.IntRange(0, 59).Draw(t, "age")) * time.Second)
			limit = min(limit, b.Price)
			m.Bids = append(m.Bids, b)
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "waiting") {
			m.Bids = append(m.Bids, Bid{ID: fmt.Sprint("w", i), GPUs: 1, Price: amount("bid"), PlacedAt: noon.Add(time.Duration(i) * time.Second)})
		}
		r, err := Clear(m, now)
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range m.Bids {
			switch d := r.Decisions[i]; {
			case b.Run != nil && d.Action != Keep:
				t.Fatalf("%s is told to %s within its minimum run", b.ID, d.Action)
			case d.Action == Start:
				limit = min(limit, b.Price)
			case d.Action == Wait && b.Price >= floor:
				best = max(best, b.Price)
			}
		}
		want := floor
		if best > 0 {
			want = max(floor, best+m.Params.Tick)
		}
		if g, _ := r.Good(1); g.Price != min(want, limit) {
			t.Fatalf("the price is %s, want %s (best that waits %s, lowest that runs %s): %+v", g.Price.Display(), min(want, limit).Display(), best.Display(), limit.Display(), m.Bids)
		}
	})
}
