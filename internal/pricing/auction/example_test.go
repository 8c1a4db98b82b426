package auction_test

import (
	"fmt"
	"time"

	"suanli.dev/internal/pricing/auction"
)

// One host has four GPUs and wants at least 0.40 for each. Three renters want
// two each: those who bid 1.00 and 0.80 win, and both pay one tick more than the
// third would have. At one o'clock the third raises its bid. The second has its
// two minutes, is interrupted, and is back when the first has gone.
func Example() {
	one := time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)
	price := func(s string) auction.Price {
		p, err := auction.ParsePrice(s)
		if err != nil {
			panic(err)
		}
		return p
	}
	m := auction.Market{
		Zone: "z1", Model: "RTX 4090", Params: auction.Standard(),
		Hosts: []auction.Host{{ID: "host", GPUs: 4, Floor: price("0.40")}},
		Bids: []auction.Bid{
			{ID: "first", GPUs: 2, Price: price("1.00"), PlacedAt: one.Add(-3 * time.Hour)},
			{ID: "second", GPUs: 2, Price: price("0.80"), PlacedAt: one.Add(-2 * time.Hour)},
			{ID: "third", GPUs: 2, Price: price("0.60"), PlacedAt: one.Add(-1 * time.Hour)},
		},
	}
	round := func(now time.Time) {
		r, err := auction.Clear(m, now)
		if err != nil {
			panic(err)
		}
		good, _ := r.Good(2)
		fmt.Printf("%s at %s", now.Format(time.TimeOnly), good.Price.Display())
		for i, d := range r.Decisions {
			fmt.Printf(", %s: %s", m.Bids[i].ID, d.Action)
			if d.Reason != "" {
				fmt.Printf(" (%s)", d.Reason)
			}
		}
		fmt.Println()
		m = auction.Apply(m, r, now)
	}

	round(one.Add(-time.Hour))
	m.Bids[2].Price = price("0.90")
	round(one)
	round(one.Add(2 * time.Minute)) // what Result.Next said
	round(one.Add(2 * time.Minute)) // and at once again, as GPUs became free
	m.Bids = m.Bids[1:]
	round(one.Add(3 * time.Minute))

	// Output:
	// 12:00:00 at 0.6001, first: start, second: start, third: wait (outbid)
	// 13:00:00 at 0.80, first: keep, second: notify (outbid), third: await
	// 13:02:00 at 0.80, first: keep, second: interrupt (outbid), third: await
	// 13:02:00 at 0.40, first: keep, second: wait (cooling), third: start
	// 13:03:00 at 0.40, second: start, third: keep
}
