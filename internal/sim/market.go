package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
)

// market is all hosts and bids of one model. There is one zone.
type market struct {
	model   string
	hosts   []*host
	groups  []*Group
	largest int           // GPUs of the largest host
	list    auction.Price // the cheapest price on demand
	median  auction.Price // by GPUs of the fleet

	bids  []auction.Bid
	jobs  map[string]*job // of bids that are not the others'
	dirty bool
	last  time.Time // of the last round
	wake  time.Time // when a turn is due already, if after last
	price auction.Price
	steps map[int][]auction.Step // by bundle size

	others    bool
	othersBid auction.Price

	claims                 []*host // with pending leases
	onDemandGPUs, spotGPUs int     // in use, the others' left out
	interrupted            map[string]int
	notices, reprieves     int
}

func newMarket(model string) *market {
	return &market{model: model, jobs: map[string]*job{}, steps: map[int][]auction.Step{}, interrupted: map[string]int{}}
}

// setListPrice computes what floors and bids refer to.
func (m *market) setListPrice() {
	groups := slices.Clone(m.groups)
	slices.SortStableFunc(groups, func(a, b *Group) int { return cmp.Compare(a.Price, b.Price) })
	m.list = groups[0].Price
	total := 0
	for _, g := range groups {
		total += max(g.Count, 1) * g.GPUs
	}
	seen := 0
	for _, g := range groups {
		if seen += max(g.Count, 1) * g.GPUs; 2*seen >= total {
			m.median = g.Price
			return
		}
	}
}

func (m *market) join(j *job, now time.Time) {
	id := fmt.Sprintf("bd-%08d", j.index)
	m.bids = append(m.bids, auction.Bid{ID: id, GPUs: j.GPUs, Price: j.Bid, PlacedAt: now})
	m.jobs[id] = j
	m.dirty = true
}

func (m *market) leave(j *job) {
	id := fmt.Sprintf("bd-%08d", j.index)
	m.bids = slices.DeleteFunc(m.bids, func(b auction.Bid) bool { return b.ID == id })
	delete(m.jobs, id)
	m.dirty = true
}

// lose takes all bids off a host that is lost.
func (m *market) lose(e *engine, h *host, reason string) {
	for i := range m.bids {
		b := &m.bids[i]
		if b.Run == nil || b.Run.Host != h.id {
			continue
		}
		b.Run = nil
		if j := m.jobs[b.ID]; j != nil {
			m.stops(e, j, reason)
		}
	}
	h.spot = 0
}

func (m *market) stops(e *engine, j *job, reason string) {
	e.pause(j, true)
	m.spotGPUs -= j.GPUs
	j.host.spot -= j.GPUs
	j.host = nil
	j.stopped[reason]++
}

// turn holds a round if something changed or the last one said so, and rounds
// until nothing follows from it at this moment.
func (e *engine) turn(m *market) {
	if !m.dirty || e.err != nil {
		return
	}
	if len(m.bids) == 0 && !m.others {
		m.dirty = false
		return
	}
	if due := m.last.Add(e.policy.Round); !m.last.IsZero() && due.After(e.now) {
		e.wake(m, due)
		return
	}
	m.dirty, m.last = false, e.now
	m.placeOthers(e)
	// An interruption makes room for a start, and a start for a price; a bound, so
	// that a mistake is an error and not a simulation that never ends.
	for range 64 {
		changed, next := e.round(m)
		if e.err != nil {
			return
		}
		if !changed {
			if !next.IsZero() {
				e.wake(m, next)
			}
			return
		}
	}
	e.err = fmt.Errorf("the market of %s does not come to rest at %s", m.model, e.now)
}

// wake makes a market look again at a moment.
func (e *engine) wake(m *market, at time.Time) {
	if m.wake.After(e.now) && !at.Before(m.wake) {
		return // something is due before; it asks again
	}
	m.wake = at
	e.at(at, marketTurn, nil, func() { m.dirty = true })
}

// placeOthers makes others bid for every GPU that there is, so that the price is
// that of the price trace, and at most a tick above where jobs have all GPUs.
func (m *market) placeOthers(e *engine) {
	if !m.others || m.othersBid == 0 {
		return
	}
	tick := e.policy.Market.Tick
	bid := max(m.othersBid-m.othersBid%tick, tick)
	gpus := 1 // one of them always waits, and sets the price
	for _, h := range m.hosts {
		if h.present {
			gpus += h.group.GPUs
		}
	}
	n := 0
	m.bids = slices.DeleteFunc(m.bids, func(b auction.Bid) bool {
		if m.jobs[b.ID] != nil {
			return false
		}
		if n++; n <= gpus {
			return false
		}
		if b.Run != nil {
			m.host(b.Run.Host).spot--
		}
		return true
	})
	for ; n < gpus; n++ {
		m.bids = append(m.bids, auction.Bid{ID: fmt.Sprintf("others-%06d-%d", n, e.now.Unix()), GPUs: 1, PlacedAt: e.start})
	}
	for i := range m.bids {
		if m.jobs[m.bids[i].ID] == nil {
			// They are a crowd, of which somebody always comes at once.
			m.bids[i].Price, m.bids[i].CoolUntil = bid, time.Time{}
		}
	}
}

func (m *market) host(id string) *host {
	for _, h := range m.hosts {
		if h.id == id {
			return h
		}
	}
	return nil
}

// round clears the market once and does what it decides.
func (e *engine) round(m *market) (changed bool, next time.Time) {
	e.rounds++
	in := auction.Market{Zone: "simulated", Model: m.model, Bids: m.bids, Sizes: []int{1}, Params: e.policy.Market}
	byID := make(map[string]*host, len(m.hosts))
	for _, h := range m.hosts {
		if h.present {
			byID[h.id] = h
			in.Hosts = append(in.Hosts, auction.Host{ID: h.id, GPUs: h.group.GPUs, OnDemand: h.claimed,
				Floor: h.group.Floor.Floor(m.median, m.price, e.policy.Market.Tick)})
		}
	}
	r, err := auction.Clear(in, e.now)
	if err != nil {
		e.err = err
		return false, next
	}
	after := auction.Apply(in, r, e.now).Bids
	for i := range after {
		was, is, j := m.bids[i].Run, after[i].Run, m.jobs[m.bids[i].ID]
		d := r.Decisions[i]
		if j != nil && d.Action == auction.Notify {
			m.notices++
			j.reason = d.Reason
		}
		if j != nil && d.Action == auction.Reprieve {
			m.reprieves++
		}
		switch {
		case was == nil && is == nil:
		case was == nil:
			changed = true
			e.won(m, j, byID[is.Host], after[i])
		case is == nil:
			changed = true
			if j == nil {
				byID[was.Host].spot--
				after[i].CoolUntil = time.Time{}
				continue
			}
			m.stops(e, j, string(cmp.Or(j.reason, d.Reason, auction.Outbid)))
			e.freed = true
		case was.Price != is.Price && j != nil:
			e.reprice(j, is.Price)
		}
		if e.err != nil {
			return false, next
		}
	}
	m.bids = after
	for _, g := range r.Goods {
		if n := len(m.steps[g.GPUs]); n == 0 || m.steps[g.GPUs][n-1].Price != g.Price || m.steps[g.GPUs][n-1].Ask != g.Ask {
			m.steps[g.GPUs] = append(m.steps[g.GPUs], g.Step(e.now))
		}
		if g.Price > 0 && g.GPUs == 1 {
			m.price = g.Price
		}
	}
	return changed, r.Next
}

// won starts a bid: of a job, or of others if j is nil.
func (e *engine) won(m *market, j *job, h *host, b auction.Bid) {
	h.spot += b.GPUs
	if j == nil {
		return
	}
	m.spotGPUs += b.GPUs
	rate, err := b.Run.Price.Bundle(b.GPUs)
	bid, err2 := b.Limit().Bundle(b.GPUs)
	list, err3 := h.group.Price.Bundle(b.GPUs)
	if e.err = cmp.Or(err, err2, err3); e.err != nil {
		return
	}
	if len(j.leases) == 0 { // a lease that is interrupted goes on as the same one
		q, err := e.quote(pricing.Spot, list, bid)
		if err != nil {
			e.err = err
			return
		}
		j.leases = append(j.leases, rated{quote: q})
	}
	j.list, j.reason = list, ""
	e.run(j, h, rate)
}

// reprice goes on at another price.
func (e *engine) reprice(j *job, p auction.Price) {
	rate, err := p.Bundle(j.GPUs)
	if err != nil {
		e.err = err
		return
	}
	l := &j.leases[len(j.leases)-1]
	last := &l.usage[len(l.usage)-1]
	if last.Rate == rate {
		return
	}
	if last.Start.Equal(e.now) {
		last.Rate = rate
		return
	}
	last.End = e.now
	l.usage = append(l.usage, pricing.Interval{Start: e.now, Rate: rate})
}
