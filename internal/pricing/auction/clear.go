package auction

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Action is what is to be done about a bid.
type Action string

// The actions. Of those that run: Keep, Reprieve, Notify, OnNotice, Interrupt;
// of those that do not: Start, Await, Wait.
const (
	Keep      Action = "keep"      // it goes on
	Reprieve  Action = "reprieve"  // it was on notice and goes on: tell it so
	Notify    Action = "notify"    // it lost: tell it that it leaves at At
	OnNotice  Action = "on_notice" // it was told before, and leaves at At
	Interrupt Action = "interrupt" // its notice is over: stop it; it cools until At, if that is set
	Start     Action = "start"     // it won: start it on Host
	Await     Action = "await"     // it won Host, and starts when its GPUs are free, at At by what is known
	Wait      Action = "wait"      // it does not run, for Reason; at At that may change where At is set
)

// Reason says why a bid does not run, or will not go on.
type Reason string

// The reasons.
const (
	Outbid     Reason = "outbid"      // others bid more, or the same and before
	BelowFloor Reason = "below_floor" // no host that it may go to takes so little
	NoHost     Reason = "no_host"     // no host that it may go to has as many GPUs for bids
	NoRoom     Reason = "no_room"     // it bids more than the price, but its GPUs are not free on one host
	Cooling    Reason = "cooling"     // it was outbid a moment ago
	OnDemand   Reason = "on_demand"   // a lease on demand needs its GPUs
	Displaced  Reason = "displaced"   // a larger bundle gets its place, and it gets another
)

// Decision is what a round means for one bid.
type Decision struct {
	Action Action    `json:"action"`
	Host   string    `json:"host,omitempty"`
	Reason Reason    `json:"reason,omitempty"`
	At     time.Time `json:"at,omitzero"`
	// To is the host that is kept for a bid that leaves the one it runs on.
	To string `json:"to,omitempty"`
}

// Good is one bundle size of a market.
type Good struct {
	GPUs int `json:"gpus"`
	// Price is what everybody who runs pays per GPU-hour from now on, 0 where
	// nobody does. Settled is what it becomes when all notices are over.
	Price   Price `json:"price_per_gpu_hour"`
	Settled Price `json:"settled_price_per_gpu_hour"`
	// Ask is a price at which one more bundle would get a place by the bids of
	// now, on the host on which that is cheapest, and 0 where it would get none.
	// Where leases run already, or places are given by rank, it is an estimate:
	// one bid more can send others to other hosts.
	Ask Price `json:"ask_per_gpu_hour"`
	// Bids are all that take part, Won those that have a place.
	Bids int `json:"bids"`
	Won  int `json:"won"`
	// Marginal is the bid with the lowest limit of those that won: who is
	// outbid is outbid by it and all above it.
	Marginal string `json:"marginal_bid,omitempty"`
}

// Result is the outcome of a round.
type Result struct {
	// Decisions has one for each bid, in the order of Market.Bids.
	Decisions []Decision `json:"decisions"`
	// Goods are by size, the smallest first: Market.Sizes and those that somebody
	// bids for.
	Goods []Good `json:"goods"`
	// Next is when the outcome may change although nothing is changed but the
	// time: clear again then. Zero means never.
	Next time.Time `json:"next,omitzero"`
}

// Good returns the good of a size, and false for one that is not in Goods.
func (r *Result) Good(gpus int) (Good, bool) {
	i, ok := slices.BinarySearchFunc(r.Goods, gpus, func(g Good, n int) int { return cmp.Compare(g.GPUs, n) })
	if !ok {
		return Good{}, false
	}
	return r.Goods[i], true
}

// Clear holds one round. It never changes its arguments, and the order of hosts
// and bids makes no difference to what any of them gets. Errors are only about
// values out of their range.
func Clear(m Market, now time.Time) (Result, error) {
	if err := m.validate(); err != nil {
		return Result{}, err
	}
	r := newRound(&m, now)
	place, ok := r.exact()
	if !ok {
		place, ok = r.packed()
	}
	if r.ranked = !ok; r.ranked {
		place = r.greedy()
	}
	return r.result(place), nil
}

const none = -1

// round is a market, sorted.
type round struct {
	m     *Market
	now   time.Time
	hosts []place  // by floor, then id
	bids  []bidder // who takes part: by protection, price and age
	index []int32  // from Market.Bids to bids, or none
	goods []size   // by GPUs
	// ranked is that places were given by rank, and not for the highest value.
	ranked bool
}

// place is a host in a round.
type place struct {
	*Host
	room int // GPUs for bids
}

// bidder is a bid that takes part in a round.
type bidder struct {
	*Bid
	limit Price
	own   int32 // host that it runs on, or none
	good  int32
	// safe is that nobody may outbid it yet.
	safe  bool
	picky bool
	in    int32 // index in Market.Bids
}

// floor is what the bid has to pay at least on a host.
func (r *round) floor(b *bidder, h int32) Price {
	if b.own == h {
		return b.Run.Floor
	}
	return r.hosts[h].Floor
}

// size is one good in a round.
type size struct {
	gpus   int
	lowest Price // floor of the cheapest host that is large enough, none below 0
}

func newRound(m *Market, now time.Time) *round {
	r := &round{m: m, now: now, hosts: make([]place, len(m.Hosts)), index: make([]int32, len(m.Bids))}
	for i := range m.Hosts {
		r.hosts[i] = place{&m.Hosts[i], m.Hosts[i].spot()}
	}
	slices.SortFunc(r.hosts, func(a, b place) int { return cmp.Or(cmp.Compare(a.Floor, b.Floor), cmp.Compare(a.ID, b.ID)) })
	number := make(map[string]int32, len(r.hosts))
	for i := range r.hosts {
		number[r.hosts[i].ID] = int32(i)
	}
	r.sizes()
	keys := make([]key, 0, len(m.Bids))
	for i := range m.Bids {
		b := &m.Bids[i]
		r.index[i] = none
		k := key{price: b.Limit(), at: b.PlacedAt.UnixMicro(), in: int32(i), own: none, good: r.good(b.GPUs)}
		if b.Run == nil {
			// Where nobody would take it, it would only be in the way.
			if lowest := r.goods[k.good].lowest; b.CoolUntil.After(now) || lowest < 0 || k.price < lowest {
				continue
			}
		} else {
			if h, ok := number[b.Run.Host]; ok {
				k.own = h
			}
			if b.Run.Yields {
				k.price = nowhere
			}
			k.safe = k.own != none && now.Before(b.Run.Since.Add(m.Params.MinRun)) && b.Run.LeaveAt.IsZero() && k.price >= b.Run.Floor
			// A newcomer that is not better by a whole tick comes after who runs.
			k.price += m.Params.Tick - 1
			if k.safe {
				k.price += safety
			}
		}
		keys = append(keys, k)
	}
	// Of equal bids the older is first, to the microsecond, as databases keep it.
	slices.SortFunc(keys, func(a, b key) int {
		switch {
		case a.price != b.price:
			return cmp.Compare(b.price, a.price)
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(m.Bids[a.in].ID, m.Bids[b.in].ID)
	})
	r.bids = make([]bidder, len(keys))
	for i, k := range keys {
		b := &m.Bids[k.in]
		r.bids[i] = bidder{Bid: b, limit: b.Limit(), own: k.own, good: k.good, safe: k.safe, picky: b.picky(), in: k.in}
		if b.Run != nil && b.Run.Yields {
			r.bids[i].limit = nowhere
		}
		r.index[k.in] = int32(i)
	}
	return r
}

// key is what bidders are sorted by, and what was found out on the way.
type key struct {
	price         Price
	at            int64
	in, own, good int32
	safe          bool
}

// nowhere is less than any floor: who has it gets no place, and outbids nobody.
const nowhere Price = -1

// safety is more than any bid is: who may not be outbid comes first.
const safety = 10 * MaxPrice

func (r *round) sizes() {
	seen := map[int]bool{}
	add := func(n int) {
		if !seen[n] {
			seen[n] = true
			r.goods = append(r.goods, size{gpus: n, lowest: none})
		}
	}
	for _, n := range r.m.Sizes {
		add(n)
	}
	for i := range r.m.Bids {
		add(r.m.Bids[i].GPUs)
	}
	slices.SortFunc(r.goods, func(a, b size) int { return cmp.Compare(a.gpus, b.gpus) })
	for i := range r.goods {
		g := &r.goods[i]
		if h := slices.IndexFunc(r.hosts, func(h place) bool { return h.room >= g.gpus }); h >= 0 {
			g.lowest = r.hosts[h].Floor
		}
	}
}

func (r *round) good(gpus int) int32 {
	i, _ := slices.BinarySearchFunc(r.goods, gpus, func(g size, n int) int { return cmp.Compare(g.gpus, n) })
	return int32(i)
}

// result turns places into decisions and prices. place has the host of each
// bidder, or none.
func (r *round) result(place []int32) Result {
	d := &decider{round: r, place: place, decisions: make([]Decision, len(r.m.Bids)), taken: make([]int, len(r.hosts))}
	d.settle()
	d.running()
	d.waiting()
	return Result{Decisions: d.decisions, Goods: d.prices(), Next: d.next}
}

// decider is the second half of a round: places are known, and what becomes of
// each bid is not.
type decider struct {
	*round
	place     []int32 // of each bidder when all notices are over, or none
	present   []int32 // of each bidder now, or none
	decisions []Decision
	next      time.Time
	taken     []int       // GPUs of each host that are in use now, those on notice included
	leaving   [][]leave   // from each host
	claimed   []bool      // a host that somebody who does not run there yet has won
	settled   []bounds    // of each good, when all notices are over
	current   []bounds    // of each good, now
	lowest    []int32     // bidder with the lowest limit of each good that won, or none
	counts    [][2]int    // bids and winners of each good
	until     []time.Time // last end of a notice in each good
}

type leave struct {
	at   time.Time
	gpus int
}

// bounds are what a price has to lie between.
type bounds struct {
	floor, limit Price
	any          bool
}

func (b *bounds) take(floor, limit Price) {
	if !b.any {
		*b = bounds{floor, limit, true}
		return
	}
	b.floor, b.limit = max(b.floor, floor), min(b.limit, limit)
}

// admits is whether a price is left when one more pays at least floor and at
// most limit.
func (b *bounds) admits(floor, limit Price) bool {
	return floor <= limit && (!b.any || (floor <= b.limit && b.floor <= limit))
}

func (d *decider) settle() {
	n := len(d.goods)
	d.settled, d.current, d.counts, d.lowest, d.until = make([]bounds, n), make([]bounds, n), make([][2]int, n), make([]int32, n), make([]time.Time, n)
	d.leaving, d.claimed = make([][]leave, len(d.hosts)), make([]bool, len(d.hosts))
	for g := range d.lowest {
		d.lowest[g] = none
	}
	d.present = make([]int32, len(d.bids))
	for i := range d.bids {
		b := &d.bids[i]
		d.counts[b.good][0]++
		h := d.place[i]
		if h == none {
			continue
		}
		d.counts[b.good][1]++
		d.settled[b.good].take(d.floor(b, h), b.limit)
		if l := d.lowest[b.good]; l == none || b.limit <= d.bids[l].limit {
			d.lowest[b.good] = int32(i)
		}
		if h != b.own {
			d.claimed[h] = true
		}
	}
}

// soon remembers that something happens by itself at t.
func (d *decider) soon(t time.Time) {
	if t.After(d.now) && (d.next.IsZero() || t.Before(d.next)) {
		d.next = t
	}
}

func (d *decider) running() {
	for i := range d.bids {
		b := &d.bids[i]
		if d.present[i] = b.own; b.own != none {
			d.taken[b.own] += b.GPUs
		}
	}
	for i := range d.bids {
		b := &d.bids[i]
		if b.Run == nil {
			continue
		}
		d.current[b.good].take(b.Run.Floor, b.pays())
		if d.place[i] != none && d.place[i] == b.own {
			action := Keep
			if !b.Run.LeaveAt.IsZero() {
				action = Reprieve
			}
			d.decisions[b.in] = Decision{Action: action, Host: b.Run.Host}
			if b.safe {
				d.soon(b.Run.Since.Add(d.m.Params.MinRun))
			}
			continue
		}
		out := Decision{Action: OnNotice, Host: b.Run.Host, Reason: d.whyLeave(i), At: b.Run.LeaveAt}
		if h := d.place[i]; h != none {
			out.To = d.hosts[h].ID
		}
		switch {
		case b.Run.LeaveAt.IsZero():
			out.Action, out.At = Notify, d.now.Add(d.m.Params.Notice)
		case !b.Run.LeaveAt.After(d.now):
			out.Action, out.At = Interrupt, time.Time{}
			if out.To == "" && out.Reason != OnDemand {
				out.At = d.now.Add(d.m.Params.CoolDown)
			}
		}
		d.decisions[b.in] = out
		end := b.Run.LeaveAt
		if out.Action == Notify {
			end = out.At
			if !end.After(d.now) {
				d.soon(d.now.Add(1)) // without any notice, the interrupt is due at once
			}
		}
		d.soon(end)
		if end.After(d.until[b.good]) {
			d.until[b.good] = end
		}
		if b.own != none {
			d.leaving[b.own] = append(d.leaving[b.own], leave{end, b.GPUs})
		}
	}
}

func (d *decider) whyLeave(i int) Reason {
	b := &d.bids[i]
	switch {
	case b.Run.Yields:
		return OnDemand
	case b.own == none:
		return NoHost
	case b.limit < b.Run.Floor:
		return BelowFloor
	case d.taken[b.own] > d.hosts[b.own].room && !d.claimed[b.own]:
		return OnDemand
	case d.place[i] != none:
		return Displaced
	}
	return Outbid
}

// waiting decides about those who do not run, in their order: of two that won
// the same host, the better starts first.
func (d *decider) waiting() {
	for i := range d.bids {
		b := &d.bids[i]
		h := d.place[i]
		if b.Run != nil || h == none {
			continue
		}
		floor, out := d.floor(b, h), Decision{Action: Start, Host: d.hosts[h].ID}
		fits := d.taken[h]+b.GPUs <= d.hosts[h].room
		if fits && d.current[b.good].admits(floor, b.limit) {
			d.taken[h] += b.GPUs
			d.present[i] = h
			d.current[b.good].take(floor, b.limit)
		} else {
			// Its GPUs are in use still, or somebody on notice could not be made to
			// pay what this host wants.
			out.Action, out.At = Await, d.until[b.good]
			if !fits {
				out.At = d.free(h, d.taken[h]+b.GPUs-d.hosts[h].room)
			}
		}
		d.decisions[b.in] = out
	}
	for i := range d.m.Bids {
		b := &d.m.Bids[i]
		if b.Run != nil || (d.index[i] != none && d.place[d.index[i]] != none) {
			continue
		}
		d.decisions[i] = d.whyWait(b)
		d.soon(b.CoolUntil)
		for _, a := range b.Avoid {
			d.soon(a.Until)
		}
	}
}

// free is when so many GPUs of a host will have been left.
func (d *decider) free(h int32, gpus int) time.Time {
	all := d.leaving[h]
	slices.SortFunc(all, func(a, b leave) int { return a.at.Compare(b.at) })
	for _, l := range all {
		if gpus -= l.gpus; gpus <= 0 {
			return l.at
		}
	}
	return time.Time{}
}

func (d *decider) whyWait(b *Bid) Decision {
	g := d.good(b.GPUs)
	lowest := d.goods[g].lowest
	if b.picky() {
		lowest = none
		for h := range d.hosts {
			if d.hosts[h].room >= b.GPUs && b.takes(d.hosts[h].ID, d.now) {
				lowest = d.hosts[h].Floor
				break
			}
		}
	}
	switch settled := d.settled[g]; {
	case b.CoolUntil.After(d.now):
		return Decision{Action: Wait, Reason: Cooling, At: b.CoolUntil}
	case lowest < 0:
		return Decision{Action: Wait, Reason: NoHost}
	case b.Limit() < lowest:
		return Decision{Action: Wait, Reason: BelowFloor}
	case settled.any && b.Limit() <= settled.limit:
		return Decision{Action: Wait, Reason: Outbid}
	}
	return Decision{Action: Wait, Reason: NoRoom}
}

// prices finds the price of each good: one tick above the best bid that lost to
// it, not below the floors of the hosts that are used, and not above what
// anybody who runs pays.
func (d *decider) prices() []Good {
	now, then := d.pressure(d.present), d.pressure(d.place)
	asks := d.asks()
	goods := make([]Good, len(d.goods))
	for g := range goods {
		goods[g] = Good{GPUs: d.goods[g].gpus, Ask: asks[g], Bids: d.counts[g][0], Won: d.counts[g][1]}
		if b := d.settled[g]; b.any {
			goods[g].Settled = min(max(b.floor, then[g]), b.limit)
			goods[g].Marginal = d.bids[d.lowest[g]].ID
		}
		if b := d.current[g]; b.any {
			goods[g].Price = min(max(b.floor, now[g]), b.limit)
		}
	}
	return goods
}

// pressure is, for each good, what the best bids that have no place would pay for
// the GPUs of those that have one, and a tick.
func (d *decider) pressure(place []int32) []Price {
	used := make([][]int32, len(d.goods)) // hosts
	// Those of a bid within its minimum run are among them: it cannot be outbid yet,
	// and without what waits for them it would be let for less than it is worth to
	// others, to whom their own minute is as good.
	open := make([]int, len(d.hosts))
	for h := range d.hosts {
		open[h] = d.hosts[h].room
	}
	largest := 0
	for i, h := range place {
		if h == none {
			continue
		}
		b := &d.bids[i]
		largest = max(largest, b.GPUs)
		used[b.good] = append(used[b.good], h)
	}
	// Of each size, the best first, as many as the largest bundle holds.
	losers := make([][]int32, len(d.goods))
	wanted := len(d.goods)
	for i := 0; i < len(d.bids) && wanted > 0; i++ {
		b := &d.bids[i]
		if l, most := losers[b.good], max(1, largest/b.GPUs); place[i] == none && len(l) < most && b.limit >= d.goods[b.good].lowest {
			losers[b.good] = append(l, int32(i))
			if len(l)+1 == most {
				wanted--
			}
		}
	}
	out := make([]Price, len(d.goods))
	for g := range out {
		slices.Sort(used[g])
		used[g] = slices.Compact(used[g])
		for l := range losers {
			if best := d.press(losers[l], d.goods[g].gpus, used[g], open); best > 0 {
				out[g] = max(out[g], best.ceil(d.m.Params.Tick)+d.m.Params.Tick)
			}
		}
	}
	return out
}

// press is what losers of one size would pay per GPU-hour for a bundle of gpus on
// one of the hosts. A larger bundle would pay its price for all GPUs of this one;
// smaller ones only together.
func (d *decider) press(losers []int32, gpus int, hosts []int32, open []int) Price {
	var sum Price
	n := 0
	for _, i := range losers {
		b := &d.bids[i]
		if !slices.ContainsFunc(hosts, func(h int32) bool {
			return open[h] >= b.GPUs && d.hosts[h].Floor <= b.limit && b.takes(d.hosts[h].ID, d.now)
		}) {
			continue
		}
		if b.GPUs >= gpus {
			return b.limit
		}
		if n += b.GPUs; n > gpus {
			break
		}
		sum += b.limit * Price(b.GPUs)
	}
	return sum / Price(gpus)
}

// asks finds for each good what it takes to get one more bundle.
func (d *decider) asks() []Price {
	type seat struct {
		limit Price
		gpus  int
	}
	tick := d.m.Params.Tick
	seats := make([][]seat, len(d.hosts)) // that can be outbid, the cheapest first
	free := make([]int, len(d.hosts))
	for h := range d.hosts {
		free[h] = d.hosts[h].room
	}
	for i, h := range slices.Backward(d.place) {
		if h == none {
			continue
		}
		b := &d.bids[i]
		free[h] -= b.GPUs
		if !b.safe {
			seats[h] = append(seats[h], seat{b.limit, b.GPUs})
		}
	}
	out := make([]Price, len(d.goods))
	for g := range out {
		gpus, best := d.goods[g].gpus, Price(math.MaxInt64)
		for h := range d.hosts {
			floor := d.hosts[h].Floor
			if d.hosts[h].room < gpus || floor >= best || !d.settled[g].admits(floor, MaxPrice) {
				continue
			}
			// Each seat that is needed costs what it is worth and a tick, and idle
			// GPUs cost the floor; a nano-unit for each GPU that is let is in the
			// value, on both sides.
			got, top := min(free[h], gpus), Price(0)
			cost := floor*Price(got) - Price(gpus)
			for _, s := range seats[h] {
				if got >= gpus {
					break
				}
				got += s.gpus
				cost += (s.limit + tick + 1) * Price(s.gpus)
				top = max(top, s.limit+tick)
			}
			if got < gpus {
				continue
			}
			each := max(0, cost+Price(gpus)-1) / Price(gpus)
			switch {
			case d.ranked:
				each = top // it has to come before each of them, whatever their size
			case each < top && each*Price(gpus) == cost:
				each++ // of equal worth, those that bid more for each GPU have it
			}
			best = min(best, max(each, floor, d.settled[g].floor).ceil(tick))
		}
		if best <= MaxPrice {
			out[g] = best
		}
	}
	return out
}
