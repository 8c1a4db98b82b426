package auction

import (
	"cmp"
	"math"
	"slices"
)

const (
	// packingWork bounds states × ways to fill a host of one pass, of which most
	// are given up at once.
	packingWork = 60_000_000
	// packingStates bounds the memory: one has 56 bytes.
	packingStates = 1 << 21
	// packingWays bounds in how many ways one host can be filled.
	packingWays = 4096
	// packingClasses are as many counts of up to 127 as fit into 64 bits.
	packingClasses = 8
	// packingBeam is how many states of each host are followed to find a first
	// good solution.
	packingBeam = 64
)

// packed does what exact does for markets of more hosts, in which bidders are
// alike: of those of one size that several hosts would do for, the winners are
// always the best ones, so that how many of each size have a place says who has.
// Host after host, and for each number of winners, it finds the best way to fill
// it. What is lost against exact is that who runs has its own host or, until
// rescue, none: nobody is moved to another host to make room.
//
// As in exact, only numbers of hosts, GPUs and bids decide whether a market is
// too large. A bound on what is left to gain gives most states up early, but
// never one that leads to an optimum, so it changes nothing but the time.
func (r *round) packed() ([]int32, bool) {
	p := &packing{round: r}
	if !p.shape() {
		return nil, false
	}
	b := brancher{round: r, pass: p.pass}
	if !b.solve() {
		return nil, false
	}
	return r.rescue(b.place), true
}

// packing is the state of packed.
type packing struct {
	*round
	classes []class
	local   [][]int32 // bidders of each host that go nowhere else, the best first
	ways    [][]way   // of each host

	limits []bounds
	fills  []fill // of each host
	rest   []int64
	made   index // states of the layer that is made
}

// class is bidders that differ in price and age only.
type class struct {
	gpus  int
	good  int32
	who   []int32 // the best first
	hosts []bool  // that will do; nil: all
	most  int     // that the limits of a pass leave
	// Of the first n: what they pay at most, twice, and a nano-unit for each GPU;
	// their ranks; and the first with the most that all others could add.
	value, rank, reach []int64
}

// way is how many bidders of each class a host has.
type way struct {
	counts uint64 // eight bits for each class
	gpus   int
}

// fill is what a host makes.
type fill struct {
	local []filled // by GPUs that those who go nowhere else have at most
	ways  []option // those that the limits leave
}

type filled struct {
	value, rank int64
	who         []int32
}

type option struct {
	way
	value, rank int64
}

// guards are the highest bits of the counts: one that gets lost shows which
// count is too large.
const guards uint64 = 0x8080808080808080

func count(counts uint64, class int) int { return int(counts >> (8 * class) & 0x7f) }

func (p *packing) shape() bool {
	p.local = make([][]int32, len(p.hosts))
	gpus := 0
	for h := range p.hosts {
		if gpus += p.hosts[h].room; gpus > exactGPUs {
			return false
		}
	}
	if len(p.hosts) == 0 {
		return true
	}
	if !p.sort() {
		return false
	}
	for h := range p.hosts {
		ways, ok := p.fillings(h)
		if !ok {
			return false
		}
		p.ways = append(p.ways, ways)
	}
	states, work := p.work()
	return states <= packingStates && work <= packingWork
}

// sort finds who is alike.
func (p *packing) sort() bool {
	classes := map[string]int{}
	for i := range p.bids {
		b := &p.bids[i]
		if b.own != none {
			p.local[b.own] = append(p.local[b.own], int32(i))
			continue
		}
		var hosts []bool
		key, last, n, fit := []byte{byte(b.good), byte(b.good >> 8)}, 0, 0, 0
		for h := range p.hosts {
			ok := p.hosts[h].room >= b.GPUs
			if b.picky {
				if hosts == nil {
					hosts = make([]bool, len(p.hosts))
				}
				ok = ok && b.takes(p.hosts[h].ID, p.now)
				hosts[h] = ok
			}
			if !ok {
				key = append(key, 0)
				continue
			}
			key = append(key, 1)
			last, n, fit = h, n+1, fit+p.hosts[h].room/b.GPUs
		}
		switch n {
		case 0:
			continue
		case 1:
			p.local[last] = append(p.local[last], int32(i))
			continue
		}
		c, ok := classes[string(key)]
		if !ok {
			if c = len(p.classes); c == packingClasses {
				return false
			}
			classes[string(key)] = c
			p.classes = append(p.classes, class{gpus: b.GPUs, good: b.good, hosts: hosts})
		}
		if who := p.classes[c].who; len(who) < fit {
			if len(who) == 127 {
				return false
			}
			p.classes[c].who = append(who, int32(i))
		}
	}
	return true
}

// fillings are all ways to fill a host with bidders of classes.
func (p *packing) fillings(h int) ([]way, bool) {
	out := []way{{}}
	for c := range p.classes {
		k := &p.classes[c]
		if k.hosts != nil && !k.hosts[h] {
			continue
		}
		for i := 0; i < len(out); i++ {
			w := out[i]
			if n := count(w.counts, c); n < len(k.who) && w.gpus+k.gpus <= p.hosts[h].room {
				if len(out) == packingWays {
					return nil, false
				}
				out = append(out, way{w.counts + 1<<(8*c), w.gpus + k.gpus})
			}
		}
	}
	return out, true
}

// work is how many states a pass has and how many steps it takes at most: at each
// host the sets of winners that have no more GPUs than the hosts before, and these
// times the ways to fill it.
func (p *packing) work() (all, work int64) {
	total := 0
	for h := range p.hosts {
		total += p.hosts[h].room
	}
	sets := make([]int64, total+1)
	sets[0] = 1
	for c := range p.classes {
		k := &p.classes[c]
		for w := total; w >= 0; w-- {
			for n := 1; n <= len(k.who) && n*k.gpus <= w; n++ {
				sets[w] += sets[w-n*k.gpus]
			}
		}
	}
	states, room, w := int64(0), 0, 0
	for h := range p.hosts {
		for ; w <= room; w++ {
			states += sets[w]
		}
		all, work = all+states, work+states*int64(len(p.ways[h]))
		room += p.hosts[h].room
	}
	return all, work
}

// state is a set of winners, as it is best reached.
type state struct {
	counts uint64
	from   int32 // state of the layer before
	way    int32
	value  int64 // without what those of classes pay
	rank   int64
	bound  int64 // what it can come to at most
}

// pass finds the best places within limits, and their value.
func (p *packing) pass(limits []bounds) ([]int32, int64) {
	p.limits = limits
	p.prepare()
	first := p.run(math.MinInt64, packingBeam)
	lower := first[len(first)-1][0].value
	layers := p.run(lower, math.MaxInt)
	return p.places(layers), layers[len(layers)-1][0].value
}

// run goes from host to host. The last layer is the one best set of winners, with
// its whole value.
func (p *packing) run(lower int64, width int) [][]state {
	layers := [][]state{{{}}}
	var full uint64
	for c := range p.classes {
		full |= uint64(p.classes[c].most) << (8 * c)
	}
	full |= guards
	for h := range p.hosts {
		var next []state
		before := layers[h]
		for s := range before {
			from := &before[s]
			for i := range p.fills[h].ways {
				o := &p.fills[h].ways[i]
				if (full-from.counts-o.counts)&guards != guards {
					continue
				}
				counts, value, rank := from.counts+o.counts, from.value+o.value, from.rank+o.rank
				at, fresh := p.made.put(counts, int32(len(next)))
				if fresh {
					next = append(next, state{counts: counts, value: math.MinInt64, bound: p.reach(counts) + p.rest[h+1]})
				}
				if to := &next[at]; value > to.value || value == to.value && rank > to.rank {
					to.value, to.rank, to.from, to.way = value, rank, int32(s), int32(i)
				}
			}
		}
		p.made.clear()
		kept := next[:0]
		for i := range next {
			if next[i].bound += next[i].value; next[i].bound >= lower {
				kept = append(kept, next[i])
			}
		}
		if len(kept) > width {
			slices.SortStableFunc(kept, func(a, b state) int { return cmp.Compare(b.bound, a.bound) })
			kept = kept[:width]
		}
		layers = append(layers, kept)
	}
	last := layers[len(layers)-1]
	best := 0
	for i := range last {
		for c := range p.classes {
			n := count(last[i].counts, c)
			last[i].value += p.classes[c].value[n]
			last[i].rank += p.classes[c].rank[n]
		}
		if last[i].value > last[best].value || last[i].value == last[best].value && last[i].rank > last[best].rank {
			best = i
		}
	}
	layers[len(layers)-1] = last[best : best+1]
	return layers
}

// reach is what those in the classes make at most, given how many have a place.
func (p *packing) reach(counts uint64) (sum int64) {
	for c := range p.classes {
		sum += p.classes[c].reach[counts>>(8*c)&0x7f]
	}
	return sum
}

// prepare computes what the limits of a pass make of hosts and classes.
func (p *packing) prepare() {
	p.fills = make([]fill, len(p.hosts))
	for h := range p.hosts {
		f := &p.fills[h]
		f.local = p.knapsack(h)
		room := p.hosts[h].room
	ways:
		for _, w := range p.ways[h] {
			for c := range p.classes {
				if count(w.counts, c) > 0 && p.hosts[h].Floor > p.limits[p.classes[c].good].limit {
					continue ways
				}
			}
			l := f.local[room-w.gpus]
			used := w.gpus
			for _, i := range l.who {
				used += p.bids[i].GPUs
			}
			// Of ways that are worth the same, GPUs that stay idle are best together.
			idle := int64(room - used)
			f.ways = append(f.ways, option{w, l.value - 2*int64(p.hosts[h].Floor)*int64(w.gpus), l.rank<<20 + idle*idle})
		}
	}
	for c := range p.classes {
		k := &p.classes[c]
		k.value, k.rank = make([]int64, 1, len(k.who)+1), make([]int64, 1, len(k.who)+1)
		for n, i := range k.who {
			b := &p.bids[i]
			value := (2*int64(b.limit) + 1) * int64(b.GPUs)
			if b.limit < p.limits[b.good].floor {
				break // and so are all after it
			}
			k.value = append(k.value, k.value[n]+value)
			k.rank = append(k.rank, k.rank[n]+p.rank(i)<<20)
		}
		k.most = len(k.value) - 1
	}
	p.relax()
}

// rank is the more, the earlier a bidder comes.
func (p *packing) rank(i int32) int64 { return int64(len(p.bids)-int(i)) * int64(p.bids[i].GPUs) }

// relax bounds what is left to gain, by a price per GPU at which hosts sell to
// classes in parts: whatever the price, nothing possible makes more. The one with
// the lowest bound is used.
func (p *packing) relax() {
	prices := []Price{0}
	for c := range p.classes {
		for _, i := range p.classes[c].who {
			prices = append(prices, p.bids[i].limit)
		}
	}
	for h := range p.hosts {
		prices = append(prices, p.hosts[h].Floor)
	}
	slices.Sort(prices)
	best := int64(math.MaxInt64)
	var at Price
	for _, price := range slices.Compact(prices) {
		sum := int64(0)
		for c := range p.classes {
			sum += p.unused(c, 0, price)
		}
		for h := range p.hosts {
			sum += p.sells(h, price)
		}
		if sum < best {
			best, at = sum, price
		}
	}
	p.rest = make([]int64, len(p.hosts)+1)
	for h := range slices.Backward(p.hosts) {
		p.rest[h] = p.rest[h+1] + p.sells(h, at)
	}
	for c := range p.classes {
		k := &p.classes[c]
		k.reach = make([]int64, k.most+1)
		for n := range k.reach {
			k.reach[n] = k.value[n] + p.unused(c, n, at)
		}
	}
}

// unused is what those of a class after the first n would gain at most at a price.
func (p *packing) unused(c, n int, price Price) (sum int64) {
	k := &p.classes[c]
	for ; n < k.most; n++ {
		sum += max(0, k.value[n+1]-k.value[n]-2*int64(price)*int64(k.gpus))
	}
	return sum
}

// sells is what a host makes at most if it can sell any number of GPUs at a price.
func (p *packing) sells(h int, price Price) int64 {
	best := int64(math.MinInt64)
	room := p.hosts[h].room
	for n := range room + 1 {
		best = max(best, p.fills[h].local[room-n].value+2*int64(price-p.hosts[h].Floor)*int64(n))
	}
	return best
}

// knapsack finds for each number of GPUs of a host which of those that go nowhere
// else make the most.
func (p *packing) knapsack(h int) []filled {
	out := make([]filled, p.hosts[h].room+1)
	for _, i := range p.local[h] {
		b := &p.bids[i]
		gain, ok := p.gain(b, int32(h))
		if !ok {
			continue
		}
		rank := p.rank(i)
		for n := p.hosts[h].room; n >= b.GPUs; n-- {
			with := out[n-b.GPUs]
			with.value, with.rank = with.value+gain, with.rank+rank
			if with.value > out[n].value || with.value == out[n].value && with.rank > out[n].rank {
				with.who = append(slices.Clone(with.who), i)
				out[n] = with
			}
		}
	}
	return out
}

// gain is what a bidder that goes to no other host makes on its own.
func (p *packing) gain(b *bidder, h int32) (int64, bool) {
	floor, limits := p.floor(b, h), p.limits[b.good]
	if floor > b.limit || floor > limits.limit || b.limit < limits.floor {
		return 0, false
	}
	each := 2*int64(b.limit-max(floor, p.hosts[h].Floor)) + 1
	if b.own == h {
		// Who runs may be under a new floor; any newcomer is better then.
		if each += 2 * int64(p.m.Params.Tick); each <= 2*int64(p.m.Params.Tick) {
			each = 0
		}
		if b.safe {
			each += 2 * int64(safety)
		}
	}
	return each * int64(b.GPUs), true
}

// places says who has which host.
func (p *packing) places(layers [][]state) []int32 {
	place := slices.Repeat([]int32{none}, len(p.bids))
	next := make([]int, len(p.classes))
	ways := make([]option, len(p.hosts))
	s := &layers[len(layers)-1][0]
	for h := range slices.Backward(p.hosts) {
		ways[h] = p.fills[h].ways[s.way]
		s = &layers[h][s.from]
	}
	for h, w := range ways {
		for _, i := range p.fills[h].local[p.hosts[h].room-w.gpus].who {
			place[i] = int32(h)
		}
		for c := range p.classes {
			for range count(w.counts, c) {
				place[p.classes[c].who[next[c]]] = int32(h)
				next[c]++
			}
		}
	}
	return place
}

// index finds the states of a layer by their counts.
type index struct {
	slots []slot // a power of two
	used  []uint64
}

type slot struct {
	key uint64 // counts and guards; 0: free
	at  int32
}

// put keeps at for counts, or says what is kept for them.
func (x *index) put(counts uint64, at int32) (kept int32, fresh bool) {
	if 2*len(x.used) >= len(x.slots) {
		x.grow()
	}
	s := x.find(counts | guards)
	if s.key != 0 {
		return s.at, false
	}
	s.key, s.at = counts|guards, at
	x.used = append(x.used, s.key)
	return at, true
}

func (x *index) find(key uint64) *slot {
	mask := uint64(len(x.slots) - 1)
	// The high bits of the product depend on all bits of the key.
	for i := key * 0x9e3779b97f4a7c15 >> 20 & mask; ; i = (i + 1) & mask {
		if s := &x.slots[i]; s.key == 0 || s.key == key {
			return s
		}
	}
}

func (x *index) grow() {
	old := x.slots
	x.slots = make([]slot, max(1024, 2*len(old)))
	for _, o := range old {
		if o.key != 0 {
			*x.find(o.key) = o
		}
	}
}

func (x *index) clear() {
	if len(x.used) > len(x.slots)/8 {
		clear(x.slots)
	} else {
		// One after the other would break the chains of those that are still there,
		// so they are looked up before any is freed.
		free := make([]*slot, len(x.used))
		for i, key := range x.used {
			free[i] = x.find(key)
		}
		for _, s := range free {
			*s = slot{}
		}
	}
	x.used = x.used[:0]
}
