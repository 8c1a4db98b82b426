package placement

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Policy is how a fleet weighs.
type Policy struct {
	// Look is how many classes of hosts a decision compares at most.
	Look int
	// Foresight is how many of the hosts that lose the least worth are then tried
	// against imagined future requests; below 2 none are.
	Foresight int
	// Scarcity is how much more a shape of request weighs where little is left for
	// it: its weight is its frequency over what is left of the fleet for it to this
	// power.
	Scarcity float64
	// Yield keeps whole GPUs for those who use all of one: a share that would break
	// a whole GPU and leave much of it idle is refused when the whole ones left are
	// no more than better users are expected to want while as much more is asked
	// for as is free, times this, less what was refused already; 0 refuses nothing that fits.
	Yield float64
}

// Standard is what the product uses.
func Standard() Policy { return Policy{Look: 48, Foresight: 4, Scarcity: 3} }

// Fleet is a picture of hosts, indexed. Use [NewFleet]; it is not safe for
// concurrent use, since even reading it fills what it remembers.
type Fleet struct {
	policy   Policy
	nodes    map[string]*node
	profiles map[uint64]*hardware
	classes  map[string]*class
	list     []*class // all of them, in the order of place
	shelves  map[string]*shelf
	models   map[string]int // to the bit in sets of models
	order    []string       // models with a shelf, sorted

	whole     int   // GPUs of which nothing is taken
	freeMilli int64 // of all GPUs, MIG aside

	sample   []*class // see sampled
	sampling int      // how often the classes were halved for it

	mix     mix
	scratch []slot
	sorted  []int32
	filled  []int16
}

// NewFleet returns a fleet without hosts.
func NewFleet(p Policy) *Fleet {
	if p.Look < 1 {
		p.Look = Standard().Look
	}
	return &Fleet{policy: p, nodes: map[string]*node{}, profiles: map[uint64]*hardware{}, classes: map[string]*class{},
		shelves: map[string]*shelf{}, models: map[string]int{}, mix: newMix()}
}

// slot is what of a GPU is free.
type slot struct {
	milli int16       // in a share of kind, or whole
	kind  Enforcement // of the parts that are taken
	used  uint8       // memory slices of MIG instances
}

const noSlices = 0xff

func (s slot) whole() bool { return s.milli == WholeMilli }

// hardware is what hosts of a kind have in common and what does not change with
// rentals: all that decides whether and how well a request fits, beside state.
type hardware struct {
	key          string
	hash         uint64
	region, zone string
	labels       map[string]string
	price        int64
	reliability  int
	models       []string // of each GPU
	bits         []int    // of those
	kinds        []string // of models, sorted, each once
	gpus         []GPU    // one host's, with links by position
	flat         bool     // all GPUs are alike in all ways
	picks        map[pickKey]picked
}

type pickKey struct {
	free  uint64
	count int
}

type picked struct {
	at    []int
	score score
}

// node is a host as the fleet keeps it.
type node struct {
	host  Host
	hw    *hardware
	slots []slot
	free  amounts
	class *class
	at    int // in the class's members
}

// class is all hosts that a request cannot tell apart.
type class struct {
	key     string
	hash    uint64
	free    amounts
	members []*node
	byID    []string // a heap; members and some that have left
	place   int      // in Fleet.list
	sampled int      // place in Fleet.sample; -1: it is not there

	usable  []float64 // by each shape of the mix
	version int       // of the mix that usable is of
	worth   float64
	weighed int // version of the weights that worth is of

	holds    int64 // see Fleet.holds
	foreseen int   // version of the mix that holds is of
}

// shelf is the classes that have GPUs of one model, by whole GPUs free and by
// tenths of the largest part free.
type shelf [maxWhole + 1][parts + 2]*tree

const (
	maxWhole = 17 // this many or more
	parts    = 10
	cut      = parts + 1 // with a GPU that has MIG instances and room for more
)

// Set tells what a host has and has free, new or again.
func (f *Fleet) Set(h Host) {
	n := f.nodes[h.ID]
	if n == nil {
		n = &node{}
		f.nodes[h.ID] = n
	} else {
		f.leave(n)
	}
	h.GPUs = slices.Clone(h.GPUs)
	slices.SortFunc(h.GPUs, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	})
	n.host, n.hw = h, f.hardware(h)
	f.join(n)
}

// Remove forgets a host.
func (f *Fleet) Remove(id string) {
	if n := f.nodes[id]; n != nil {
		f.leave(n)
		delete(f.nodes, id)
	}
}

// Host returns what is known of a host.
func (f *Fleet) Host(id string) (Host, bool) {
	n := f.nodes[id]
	if n == nil {
		return Host{}, false
	}
	return n.host, true
}

// Len is how many hosts there are.
func (f *Fleet) Len() int { return len(f.nodes) }

// Free is what is left of all GPUs, in thousandths of one, MIG instances aside.
func (f *Fleet) Free() int64 { return f.freeMilli }

// hardware finds or makes what hosts like h have in common.
func (f *Fleet) hardware(h Host) *hardware {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %d %d", h.Region, h.Zone, h.Price, h.Reliability)
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		fmt.Fprintf(&b, " %q=%q", k, h.Labels[k])
	}
	at := map[string]int{}
	for i, g := range h.GPUs {
		at[g.UUID] = i
	}
	hw := &hardware{region: h.Region, zone: h.Zone, labels: h.Labels, price: h.Price, reliability: h.Reliability, flat: true, picks: map[pickKey]picked{}}
	for i, g := range h.GPUs {
		fmt.Fprintf(&b, "\n%q %d", g.Model, g.NUMA)
		for _, l := range g.Links {
			peer := "switch"
			if l.Peer != "" {
				peer = fmt.Sprint(at[l.Peer]) // one that is not there counts for nothing
				if j, ok := at[l.Peer]; !ok || j == i {
					continue
				}
			}
			fmt.Fprintf(&b, " %s×%d", peer, l.Count)
		}
		hw.flat = hw.flat && len(g.Links) == 0 && g.NUMA == h.GPUs[0].NUMA && g.Model == h.GPUs[0].Model
		hw.models = append(hw.models, g.Model)
		if !slices.Contains(hw.kinds, g.Model) {
			hw.kinds = append(hw.kinds, g.Model)
		}
	}
	hw.key = b.String()
	hw.hash = hashOf(hw.key)
	for known := f.profiles[hw.hash]; known != nil; known = f.profiles[hw.hash] {
		if known.key == hw.key {
			return known
		}
		hw.hash++
	}
	slices.Sort(hw.kinds)
	for _, m := range hw.models {
		hw.bits = append(hw.bits, f.bit(m))
	}
	hw.gpus = slices.Clone(h.GPUs)
	f.profiles[hw.hash] = hw
	return hw
}

// bit numbers the models; all from the 63rd on share the last bit, which makes the
// mix blur them and nothing else.
func (f *Fleet) bit(model string) int {
	b, ok := f.models[model]
	if !ok {
		b = min(len(f.models), 63)
		f.models[model] = b
	}
	return b
}

// slotOf is what of a GPU is free. A GPU that is divided in two ways at once, or
// of which more is taken than there is, has nothing free: what is known of it is
// wrong, and guessing would let two renters meet on it.
func slotOf(g GPU) slot {
	if !g.Free {
		return slot{used: noSlices}
	}
	s := slot{milli: WholeMilli}
	taken := 0
	for i, p := range g.Parts {
		if i > 0 && p.Kind != s.kind {
			return slot{kind: p.Kind, used: noSlices}
		}
		s.kind = p.Kind
		if p.Kind != MIG {
			if p.Kind == Whole || p.Milli < 1 {
				return slot{used: noSlices}
			}
			taken += min(p.Milli, WholeMilli+1)
			continue
		}
		geo, _ := geometryOf(g.Model)
		pr := geo.profiles[p.Profile]
		if !slices.Contains(pr.starts, p.Start) || s.used&pr.mask(p.Start) != 0 {
			return slot{kind: MIG, used: noSlices}
		}
		s.used |= pr.mask(p.Start)
	}
	switch {
	case s.kind == MIG:
		s.milli = 0
	case s.kind != Whole:
		s.used = noSlices
		s.milli = int16(max(0, WholeMilli-taken))
	}
	return s
}

func (f *Fleet) join(n *node) {
	h := &n.host
	n.free = amounts{max(0, h.CPUMillis), max(0, h.MemoryMiB), max(0, h.DiskMiB), max(0, h.NetworkMbps), max(0, h.Ports)}
	n.slots = n.slots[:0]
	for _, g := range h.GPUs {
		s := slotOf(g)
		n.slots = append(n.slots, s)
		f.freeMilli += int64(s.milli)
		if s.whole() {
			f.whole++
		}
	}
	key := n.key()
	c := f.classes[key]
	if c == nil {
		c = &class{key: key, hash: hashOf(key), free: n.free, place: len(f.list), version: -1, weighed: -1, foreseen: -1}
		c.members = []*node{n}
		f.classes[key] = c
		f.list = append(f.list, c)
		f.addSample(c)
		f.shelve(c, true)
	} else {
		c.members = append(c.members, n)
	}
	n.class, n.at = c, len(c.members)-1
	c.push(h.ID)
}

func (f *Fleet) leave(n *node) {
	for _, s := range n.slots {
		f.freeMilli -= int64(s.milli)
		if s.whole() {
			f.whole--
		}
	}
	c := n.class
	if len(c.members) == 1 {
		f.shelve(c, false)
		f.dropSample(c)
		delete(f.classes, c.key)
		last := f.list[len(f.list)-1]
		f.list[c.place], last.place = last, c.place
		f.list = f.list[:len(f.list)-1]
		return
	}
	last := c.members[len(c.members)-1]
	c.members[n.at], last.at = last, n.at
	c.members = c.members[:len(c.members)-1]
	n.class = nil
}

// key is all that tells hosts of the same hardware apart. Where GPUs are alike,
// which of them is free does not.
func (n *node) key() string {
	b := make([]byte, 0, 64+4*len(n.slots))
	b = binary.LittleEndian.AppendUint64(b, n.hw.hash)
	for _, a := range n.free {
		b = binary.AppendVarint(b, a)
	}
	slots := n.slots
	if n.hw.flat && len(slots) > 1 {
		slots = slices.Clone(slots)
		slices.SortFunc(slots, slot.compare)
	}
	for _, s := range slots {
		b = binary.LittleEndian.AppendUint16(b, uint16(s.milli))
		b = append(b, s.used, byte(len(s.kind)))
		b = append(b, s.kind...)
	}
	for _, h := range n.host.Holds {
		b = fmt.Appendf(b, "\x00%q%q%d", h.Owner, h.Model, h.GPUs)
	}
	for _, t := range n.host.Tags {
		b = fmt.Appendf(b, "\x01%q", t)
	}
	return string(b)
}

func (s slot) compare(o slot) int {
	return cmp.Or(cmp.Compare(s.milli, o.milli), cmp.Compare(s.used, o.used), strings.Compare(string(s.kind), string(o.kind)))
}

// shelve puts a class where decisions find it, or takes it away.
func (f *Fleet) shelve(c *class, in bool) {
	n := c.members[0]
	kinds := n.hw.kinds
	if len(kinds) == 0 {
		kinds = []string{""}
	}
	for _, model := range kinds {
		sh := f.shelves[model]
		if sh == nil {
			sh = &shelf{}
			f.shelves[model] = sh
			at, _ := slices.BinarySearch(f.order, model)
			f.order = slices.Insert(f.order, at, model)
		}
		k, q, m := n.stand(model)
		for _, root := range []**tree{&sh[k][q], &sh[k][cut]} {
			if root == &sh[k][cut] && !m {
				continue
			}
			if in {
				*root = (*root).insert(c)
			} else {
				*root = (*root).remove(c)
			}
		}
	}
}

// stand is where a host stands on the shelf of a model.
func (n *node) stand(model string) (whole, part int, mig bool) {
	for i, s := range n.slots {
		switch {
		case n.hw.models[i] != model:
		case s.whole():
			whole++
		case s.kind == MIG && s.used != noSlices:
			mig = true
		default:
			part = max(part, (int(s.milli)+99)/100)
		}
	}
	return min(whole, maxWhole), part, mig
}

// push keeps the smallest id at the front of the heap.
func (c *class) push(id string) {
	c.byID = append(c.byID, id)
	for i := len(c.byID) - 1; i > 0; {
		p := (i - 1) / 2
		if c.byID[p] <= c.byID[i] {
			break
		}
		c.byID[p], c.byID[i] = c.byID[i], c.byID[p]
		i = p
	}
}

// first is the member with the smallest id. Ids of hosts that have left are
// dropped when they get to the front.
func (c *class) first(nodes map[string]*node) *node {
	for {
		if n := nodes[c.byID[0]]; n != nil && n.class == c {
			return n
		}
		last := len(c.byID) - 1
		c.byID[0] = c.byID[last]
		c.byID = c.byID[:last]
		for i := 0; ; {
			s := i
			for _, k := range []int{2*i + 1, 2*i + 2} {
				if k < last && c.byID[k] < c.byID[s] {
					s = k
				}
			}
			if s == i {
				break
			}
			c.byID[s], c.byID[i] = c.byID[i], c.byID[s]
			i = s
		}
	}
}

// Take marks as taken what a request got by a placement, and Release as free
// again. What has vanished from the picture meanwhile is passed over.
func (f *Fleet) Take(r Request, p Placement) {
	f.mix.got += r.gpus()
	f.change(r, p, true)
}

// Release undoes [Fleet.Take].
func (f *Fleet) Release(r Request, p Placement) { f.change(r, p, false) }

// Restore undoes [Fleet.Release] where something was released only to see what would fit
// then: it is not counted as a request that got a place.
func (f *Fleet) Restore(r Request, p Placement) { f.change(r, p, true) }

func (f *Fleet) change(r Request, p Placement, take bool) {
	need := r.need()
	if !take {
		need = amounts{}.minus(need)
	}
	for _, c := range p.Nodes {
		n := f.nodes[c.HostID]
		if n == nil {
			continue
		}
		f.leave(n)
		h := &n.host
		h.CPUMillis -= need[0]
		h.MemoryMiB -= need[1]
		h.DiskMiB -= need[2]
		h.NetworkMbps -= need[3]
		h.Ports -= need[4]
		if r.Tag != "" {
			h.Tags = slices.Clone(h.Tags)
			if take {
				h.Tags = append(h.Tags, r.Tag)
			} else if i := slices.Index(h.Tags, r.Tag); i >= 0 {
				h.Tags = slices.Delete(h.Tags, i, i+1)
			}
			slices.Sort(h.Tags)
		}
		for i, uuid := range c.GPUs {
			at := slices.IndexFunc(h.GPUs, func(g GPU) bool { return g.UUID == uuid })
			if at < 0 {
				continue
			}
			g := &h.GPUs[at]
			if r.Share == (Share{}) {
				g.Free = !take
				continue
			}
			part := Part{Kind: r.Share.Kind, Milli: r.Share.Milli, Profile: r.Share.Profile}
			if part.Kind == MIG {
				part.Start = c.Starts[i]
			}
			g.Parts = slices.Clone(g.Parts)
			if take {
				g.Parts = append(g.Parts, part)
			} else if k := slices.Index(g.Parts, part); k >= 0 {
				g.Parts = slices.Delete(g.Parts, k, k+1)
			}
		}
		f.join(n)
	}
}

func (r Request) need() amounts {
	return amounts{max(0, r.CPUMillis), max(0, r.MemoryMiB), max(0, r.DiskMiB), max(0, r.NetworkMbps), max(0, r.Ports)}
}
