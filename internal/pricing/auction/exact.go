package auction

import "slices"

const (
	// exactWork bounds bidders × hosts × states of one pass, which takes about as
	// many nanoseconds.
	exactWork = 8_000_000
	// exactGPUs bounds the GPUs of a market that is solved exactly, so that sums
	// of prices with safety on top fit in 63 bits.
	exactGPUs = 800
	// exactPasses bounds how often bounds of prices are tried.
	exactPasses = 20
)

// exact finds the places with the highest value, that is what bidders would pay
// at most less what hosts want at least, among all that leave each good a price.
// Who runs counts a tick more where it is, and nowhere more than there, so that
// nobody is moved for a cheaper host. It says false where the market is too
// large: that is decided by numbers of hosts, GPUs and bids and never by prices,
// so that raising a bid cannot change which of the two ways is taken. An optimum
// keeps whoever raises a bid, and prefers the bidder that comes first among
// equals.
//
// The method is dynamic programming over bidders and what is left of each host;
// where somebody runs on a host that is dearer than another bidder of the same
// size can pay, no price would do for both, and both ways out are tried.
func (r *round) exact() ([]int32, bool) {
	e := &program{round: r}
	if !e.shape() {
		return nil, false
	}
	b := brancher{round: r, pass: e.pass}
	if !b.solve() {
		return nil, false
	}
	return r.rescue(b.place), true
}

// program is the state of exact.
type program struct {
	*round
	who    []int32 // bidders that can be in an optimum
	stride []int   // of each host in a state's number
	digits []uint16
	states int
	value  []int64 // by bidder of who and state: the best that it and all after it make
	gain   []int64 // by bidder of who and host, below 0 where it may not go
}

// shape lays out the states, or says that there are too many.
func (e *program) shape() bool {
	e.states = 1
	gpus := 0
	for h := range e.hosts {
		e.stride = append(e.stride, e.states)
		gpus += e.hosts[h].room
		e.states *= e.hosts[h].room + 1
		if gpus > exactGPUs || e.states > exactWork {
			return false
		}
	}
	if len(e.hosts) == 0 {
		return true
	}
	// Of those of one size that differ in price and age only, no more than fit
	// can win.
	fit := make([]int, len(e.goods))
	for g := range fit {
		for h := range e.hosts {
			fit[g] += e.hosts[h].room / e.goods[g].gpus
		}
	}
	for i := range e.bids {
		b := &e.bids[i]
		if b.Run == nil && !b.picky {
			if fit[b.good] == 0 {
				continue
			}
			fit[b.good]--
		}
		e.who = append(e.who, int32(i))
	}
	if (len(e.who)+1)*e.states > exactWork/len(e.hosts) {
		return false
	}
	e.digits = make([]uint16, e.states*len(e.hosts))
	for s := range e.states {
		for h := range e.hosts {
			e.digits[s*len(e.hosts)+h] = uint16(s / e.stride[h] % (e.hosts[h].room + 1))
		}
	}
	e.value = make([]int64, (len(e.who)+1)*e.states)
	e.gain = make([]int64, len(e.who)*len(e.hosts))
	return true
}

// gains fills in what each bidder makes on each host.
func (e *program) gains(limits []bounds) {
	tick := e.m.Params.Tick
	for n, i := range e.who {
		b := &e.bids[i]
		for h := range e.hosts {
			floor := e.floor(b, int32(h))
			surplus := b.limit - floor
			ok := floor <= b.limit && floor <= limits[b.good].limit && b.limit >= limits[b.good].floor
			switch {
			case b.own == int32(h):
				// Where the host wants more than before, all are measured against the
				// new floor; who runs may be under it, and any newcomer is then better.
				if surplus = b.limit - max(floor, e.hosts[h].Floor); surplus < 0 {
					surplus = -1
				} else {
					surplus += tick
				}
				if b.safe {
					surplus += safety
				}
			case b.safe || b.picky && !b.takes(e.hosts[h].ID, e.now):
				ok = false
			case b.own != none:
				surplus = max(min(surplus, b.limit-max(b.Run.Floor, e.hosts[b.own].Floor)), 0)
			}
			e.gain[n*len(e.hosts)+h] = none
			if ok {
				// A nano-unit for each GPU, so that who bids no more than the floor
				// is not left out where there is room for it.
				e.gain[n*len(e.hosts)+h] = (int64(surplus) + 1) * int64(b.GPUs)
			}
		}
	}
}

// pass finds the best places within limits, and their value.
func (e *program) pass(limits []bounds) ([]int32, int64) {
	e.gains(limits)
	hosts := len(e.hosts)
	clear(e.value[len(e.who)*e.states:])
	for n := len(e.who) - 1; n >= 0; n-- {
		after := e.value[(n+1)*e.states : (n+2)*e.states]
		here := e.value[n*e.states : (n+1)*e.states]
		copy(here, after)
		gpus := e.bids[e.who[n]].GPUs
		for h, gain := range e.gain[n*hosts : (n+1)*hosts] {
			if gain < 0 {
				continue
			}
			back := gpus * e.stride[h]
			for s := back; s < e.states; s++ {
				if int(e.digits[s*hosts+h]) >= gpus {
					here[s] = max(here[s], gain+after[s-back])
				}
			}
		}
	}
	place := make([]int32, len(e.bids))
	for i := range place {
		place[i] = none
	}
	state := e.states - 1
	for n, i := range e.who {
		if h := e.choose(n, state); h != none {
			place[i] = h
			state -= e.bids[i].GPUs * e.stride[h]
		}
	}
	return place, e.value[e.states-1]
}

// choose finds where bidder n goes in a state without loss: to where it runs,
// else to the host that is left with the fewest GPUs, else nowhere.
func (e *program) choose(n, state int) int32 {
	hosts := len(e.hosts)
	b := &e.bids[e.who[n]]
	best, least := int32(none), 0
	for h, gain := range e.gain[n*hosts : (n+1)*hosts] {
		left := int(e.digits[state*hosts+h]) - b.GPUs
		if gain < 0 || left < 0 || gain+e.value[(n+1)*e.states+state-b.GPUs*e.stride[h]] != e.value[n*e.states+state] {
			continue
		}
		if b.own == int32(h) {
			return b.own
		}
		if best == none || left < least {
			best, least = int32(h), left
		}
	}
	return best
}

// brancher looks for the best places among those that leave each good a price.
type brancher struct {
	*round
	pass   func(limits []bounds) ([]int32, int64)
	passes int
	best   int64
	place  []int32
}

func (e *brancher) solve() bool {
	if e.best = -1; len(e.hosts) == 0 {
		e.place = slices.Repeat([]int32{none}, len(e.bids))
		return true
	}
	limits := make([]bounds, len(e.goods))
	for g := range limits {
		limits[g] = bounds{floor: 0, limit: safety}
	}
	e.branch(limits)
	return e.passes <= exactPasses
}

// branch looks for the best within limits and below, where each good has a
// price.
func (e *brancher) branch(limits []bounds) {
	if e.passes++; e.passes > exactPasses {
		return
	}
	place, value := e.pass(limits)
	if value <= e.best {
		return
	}
	prices := make([]bounds, len(e.goods))
	for i, h := range place {
		if h != none {
			b := &e.bids[i]
			prices[b.good].take(e.floor(b, h), b.limit)
		}
	}
	for g, p := range prices {
		if p.any && p.floor > p.limit {
			// Either nobody is where it is as dear as this, or nobody pays less.
			cheap, dear := slices.Clone(limits), slices.Clone(limits)
			cheap[g].limit, dear[g].floor = p.floor-1, p.floor
			e.branch(cheap)
			e.branch(dear)
			return
		}
	}
	e.best, e.place = value, place
}

// rescue gives what is idle to whoever fits there still: an optimum can leave out
// one whose surplus is nothing where it would have to move.
func (r *round) rescue(place []int32) []int32 {
	f := newFilling(r)
	for i, h := range place {
		if h != none {
			f.put(i, h)
		}
	}
	clear(f.staked)
	clear(f.seats)
	f.levels = make([][]uint64, len(f.levels))
	for h := range f.hosts {
		f.mark(h, true)
	}
	f.marginal = MaxPrice
	for i := range f.bids {
		if f.place[i] != none {
			continue
		}
		if h := f.find(i); h != none {
			f.put(i, h)
		}
	}
	return f.place
}
