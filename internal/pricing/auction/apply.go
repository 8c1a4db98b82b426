package auction

import (
	"slices"
	"time"
)

// Apply is the market after everything that a round decided has been done at
// once: what a service does step by step, for simulations, and the rules of what
// it has to write down. Bids keep their order.
func Apply(m Market, r Result, now time.Time) Market {
	floors := make(map[string]Price, len(m.Hosts))
	for _, h := range m.Hosts {
		floors[h.ID] = h.Floor
	}
	m.Bids = slices.Clone(m.Bids)
	for i, d := range r.Decisions {
		b := &m.Bids[i]
		good, _ := r.Good(b.GPUs)
		switch d.Action {
		case Keep, Reprieve:
			run := *b.Run
			run.LeaveAt, run.Price = time.Time{}, good.Price
			b.Run = &run
		case Notify, OnNotice:
			run := *b.Run
			run.LeaveAt, run.Price = d.At, good.Price
			b.Run = &run
		case Interrupt:
			b.Run, b.CoolUntil = nil, d.At
		case Start:
			b.Run = &Run{Host: d.Host, Since: now, Floor: floors[d.Host], Price: good.Price}
		case Await, Wait:
		}
	}
	return m
}

// Avoiding is the bid with a host that it does not go to before until. What has
// passed by now is forgotten.
func (b Bid) Avoiding(host string, until, now time.Time) Bid {
	avoid := slices.DeleteFunc(slices.Clone(b.Avoid), func(a Avoid) bool { return a.Host == host || !a.Until.After(now) })
	b.Avoid = append(avoid, Avoid{host, until})
	return b
}
