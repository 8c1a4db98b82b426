package auction

import (
	"math/bits"
	"slices"
)

// greedy gives places to bidders in their order, the best first, each on the
// host that loses least by it. A bidder that comes earlier finds at least the
// room that it would find later, so raising a bid never loses a place. It is
// for markets of more hosts than exact can look at, where a bundle is small
// beside the whole and little is lost.
func (r *round) greedy() []int32 {
	f := newFilling(r)
	for i := range r.bids {
		if b := &r.bids[i]; b.safe && f.fits(i, b.own) {
			f.put(i, b.own)
		}
	}
	for i := range r.bids {
		b := &r.bids[i]
		if f.place[i] != none {
			continue
		}
		f.left(b)
		if b.own != none && f.fits(i, b.own) {
			f.put(i, b.own)
		} else if h := f.find(i); h != none {
			f.put(i, h)
		}
	}
	// Hosts that want more than the market pays for what it needs get those who
	// pay even that, unless it would raise the price over what others pay.
	f.marginal, f.closed = MaxPrice, make([]bool, len(r.goods))
	for i := range r.bids {
		if f.place[i] == none {
			if h := f.find(i); h != none {
				f.put(i, h)
			}
		}
	}
	return f.place
}

// filling is a market in the making.
type filling struct {
	*round
	place  []int32
	rest   []int // GPUs of each host that nobody better has
	staked []int // GPUs of each host whose bids run there and had no turn yet
	seats  [][]int32
	prices []bounds
	closed []bool // a good for which no host is left
	// marginal is the highest floor among the cheapest GPUs for which somebody
	// pays as much. Dearer hosts are left alone: a single one would raise the
	// price for all.
	marginal Price
	// levels has the hosts by how many of their GPUs nobody uses, as bit sets in
	// the order of hosts, which is that of their floors.
	levels [][]uint64
}

func newFilling(r *round) *filling {
	f := &filling{round: r, place: make([]int32, len(r.bids)), rest: make([]int, len(r.hosts)), staked: make([]int, len(r.hosts)),
		seats: make([][]int32, len(r.hosts)), prices: make([]bounds, len(r.goods)), closed: make([]bool, len(r.goods))}
	most := 0
	for h := range r.hosts {
		f.rest[h] = r.hosts[h].room
		most = max(most, f.rest[h])
	}
	f.levels = make([][]uint64, most+1)
	for i := range r.bids {
		f.place[i] = none
		if b := &r.bids[i]; b.own != none {
			f.staked[b.own] += b.GPUs
			f.seats[b.own] = append(f.seats[b.own], int32(i))
		}
	}
	f.marginal = r.marginalFloor()
	for h := range r.hosts {
		f.mark(h, true)
	}
	return f
}

// marginalFloor is where demand meets supply when bundles are taken apart.
func (r *round) marginalFloor() Price {
	marginal, h, room := Price(0), 0, 0
	byLimit := slices.Clone(r.bids)
	if len(byLimit) > 0 && byLimit[0].safe {
		slices.SortStableFunc(byLimit, func(a, b bidder) int { return int(min(1, max(-1, b.limit-a.limit))) })
	}
	for i := range byLimit {
		for need := byLimit[i].GPUs; need > 0; {
			if room == 0 {
				if h == len(r.hosts) {
					return marginal
				}
				room, h = r.hosts[h].room, h+1
				continue
			}
			if r.hosts[h-1].Floor > byLimit[i].limit {
				return marginal
			}
			marginal = r.hosts[h-1].Floor
			n := min(need, room)
			need, room = need-n, room-n
		}
	}
	return marginal
}

func (f *filling) idle(h int) int { return max(f.rest[h]-f.staked[h], 0) }

func (f *filling) mark(h int, in bool) {
	l := &f.levels[f.idle(h)]
	if *l == nil {
		*l = make([]uint64, (len(f.hosts)+63)/64)
	}
	if bit := uint64(1) << (h % 64); in {
		(*l)[h/64] |= bit
	} else {
		(*l)[h/64] &^= bit
	}
}

// left says that a bid that runs has its turn, so that its GPUs are open.
func (f *filling) left(b *bidder) {
	if b.own == none {
		return
	}
	h := int(b.own)
	f.mark(h, false)
	f.staked[h] -= b.GPUs
	f.seats[h] = f.seats[h][1:] // seats are in the order of turns
	f.mark(h, true)
}

func (f *filling) put(i int, h int32) {
	b := &f.bids[i]
	f.prices[b.good].take(f.floor(b, h), b.limit)
	f.place[i] = h
	f.mark(int(h), false)
	f.rest[h] -= b.GPUs
	if b.safe {
		f.staked[h] -= b.GPUs
		f.seats[h] = slices.DeleteFunc(f.seats[h], func(s int32) bool { return int(s) == i })
	}
	f.mark(int(h), true)
}

// fits is whether a bid may have a host, whoever with a lower one runs there.
func (f *filling) fits(i int, h int32) bool {
	b := &f.bids[i]
	return f.rest[h] >= b.GPUs && f.prices[b.good].admits(f.floor(b, h), b.limit) && (h == b.own || !b.picky || b.takes(f.hosts[h].ID, f.now))
}

// find looks for a host: of those with enough idle GPUs the one that is left
// with the fewest, so that large bundles find room, and of those the cheapest;
// else the one on which the lowest bid runs.
func (f *filling) find(i int) int32 {
	b := &f.bids[i]
	if f.closed[b.good] {
		return none
	}
	for n := b.GPUs; n < len(f.levels); n++ {
		for w, word := range f.levels[n] {
			for ; word != 0; word &= word - 1 {
				h := int32(w*64 + bits.TrailingZeros64(word))
				if f.hosts[h].Floor > f.marginal {
					break // and so are all after it
				}
				if f.fits(i, h) {
					return h
				}
			}
		}
	}
	best, open := int32(none), false
	for h := range f.hosts {
		if f.rest[h] < b.GPUs {
			continue
		}
		if f.hosts[h].Floor > min(f.marginal, b.limit) {
			break
		}
		open = true
		if f.fits(i, int32(h)) && len(f.seats[h]) > 0 && (best == none || f.last(h) > f.last(int(best))) {
			best = int32(h)
		}
	}
	// Later bids are lower and find less, so none of this size has to look again.
	f.closed[b.good] = !open
	return best
}

// last is the bidder with the lowest bid that runs on a host.
func (f *filling) last(h int) int32 { return f.seats[h][len(f.seats[h])-1] }
