package placement

import (
	"cmp"
	"math"
	"slices"
)

// Place finds where a request goes, or reports false: nothing that is known of
// holds it. It changes nothing; [Fleet.Take] does, and [Fleet.Explain] says why not.
func (f *Fleet) Place(r Request) (Placement, bool) {
	if _, bad := r.check(); bad {
		return Placement{}, false
	}
	f.weigh()
	if r.Nodes > 1 {
		return f.gang(r)
	}
	best, found := f.best(r)
	if !found {
		return Placement{}, false
	}
	return Placement{Nodes: []Choice{best.choice(r)}}, true
}

// option is one way to put a node of a request on a host.
type option struct {
	node   *node
	at     []int // GPUs, by position
	starts []int
	model  string
	score  score   // how they hang together
	cost   float64 // worth that is lost, and what Weights add
	base   float64 // of cost, what Weights add
	left   int64   // GPU that stays free on the host
	id     string  // of the host that gets it, where node is one like it
	opens  bool    // a whole GPU for a share
}

func (o option) choice(r Request) Choice {
	c := Choice{HostID: o.node.host.ID, Starts: o.starts}
	for _, i := range o.at {
		c.GPUs = append(c.GPUs, o.node.host.GPUs[i].UUID)
	}
	return c
}

// compare orders options, the best first; equal ones are of hosts that differ in
// nothing but id and state beside GPUs.
func (o option) compare(p option) int {
	return cmp.Or(
		cmp.Compare(o.score.islands, p.score.islands), cmp.Compare(p.score.links, o.score.links), cmp.Compare(o.score.nodes, p.score.nodes),
		cmp.Compare(math.Round(o.cost*1e6), math.Round(p.cost*1e6)),
		slices.Compare(o.score.left, p.score.left), cmp.Compare(o.left, p.left))
}

// best looks through the shelves, the fullest hosts first.
func (f *Fleet) best(r Request) (option, bool) {
	need := r.need()
	roots := f.roots(r)
	if len(roots) == 0 {
		return option{}, false
	}
	each := max(8, f.policy.Look/len(roots))
	var best []option // the first of them, sorted
	keep, looked := max(1, f.policy.Foresight), 0
	for _, root := range roots {
		here := 0
		root.walk(need, func(c *class) bool {
			o, ok := f.try(c.members[0], r, need, f.classWorth)
			if !ok {
				return true
			}
			here++
			looked++
			if len(best) == keep && o.compare(best[keep-1]) > 0 {
				return here < each && looked < f.policy.Look
			}
			first := c.first(f.nodes)
			at := len(best)
			for ; at > 0; at-- {
				if order := o.compare(best[at-1]); order > 0 || (order == 0 && first.host.ID > best[at-1].id) {
					break
				}
			}
			o.id = first.host.ID
			best = slices.Insert(best, at, o)
			best = best[:min(len(best), keep)]
			return here < each && looked < f.policy.Look
		})
		if looked >= f.policy.Look {
			break
		}
	}
	if len(best) == 0 {
		return option{}, false
	}
	// Hosts of a class are alike, but not which of their GPUs is which.
	return f.try(f.nodes[f.foresee(best, r, need).id], r, need, f.classWorth)
}

// roots is where classes that may hold the request are, the fullest first.
func (f *Fleet) roots(r Request) []*tree {
	models := f.order
	if r.Count > 0 && len(r.Models) > 0 {
		models = r.Models
	}
	out := make([]*tree, 0, 64)
	add := func(k, q int) {
		for i, m := range models {
			if sh := f.shelves[m]; sh != nil && sh[k][q] != nil && !slices.Contains(models[:i], m) {
				out = append(out, sh[k][q])
			}
		}
	}
	switch {
	case r.Count == 0:
		for k := range maxWhole + 1 {
			for q := range parts + 1 {
				add(k, q)
			}
		}
	case r.Share == (Share{}):
		for k := min(r.Count, maxWhole); k <= maxWhole; k++ {
			for q := range parts + 1 {
				add(k, q)
			}
		}
	case r.Share.Kind == MIG:
		for k := range maxWhole + 1 {
			add(k, cut)
		}
		for k := 1; k <= maxWhole; k++ {
			for q := range parts + 1 {
				add(k, q)
			}
		}
	default:
		least := (r.Share.Milli + 99) / 100
		for q := least; q <= parts; q++ {
			for k := range maxWhole + 1 {
				add(k, q)
			}
		}
		for k := 1; k <= maxWhole; k++ {
			for q := range min(least, parts+1) {
				add(k, q)
			}
		}
	}
	return out
}

// try finds the best way to put a node of the request on a host.
func (f *Fleet) try(n *node, r Request, need amounts, worth func(*class) float64) (option, bool) {
	if !n.free.covers(need) || n.refuses(r) != "" {
		return option{}, false
	}
	before := 0.0
	if len(f.mix.weights) > 0 {
		before = worth(n.class)
	}
	base := r.Weights.Price*float64(n.hw.price)*float64(max(1, r.Count)) - r.Weights.Reliability*float64(n.hw.reliability)
	var best option
	found := false
	consider := func(o option) {
		o.node, o.cost, o.base = n, o.cost+base, base
		if !found || o.compare(best) < 0 {
			best, found = o, true
		}
	}
	after := func(at []int, change func(*slot)) (float64, int64) {
		f.scratch = append(f.scratch[:0], n.slots...)
		for _, i := range at {
			change(&f.scratch[i])
		}
		left := int64(0)
		for _, s := range f.scratch {
			left += int64(s.milli)
		}
		if len(f.mix.weights) == 0 {
			return 0, left
		}
		return before - f.worth(n.hw, f.scratch, n.free.minus(need)), left
	}
	if r.Count == 0 {
		cost, left := after(nil, nil)
		consider(option{cost: cost, left: left, score: score{islands: 1}})
		return best, found
	}
	for _, model := range n.hw.kinds {
		if len(r.Models) > 0 && !slices.Contains(r.Models, model) {
			continue
		}
		switch {
		case r.Share == (Share{}):
			at, s := n.wholes(r, model)
			if at == nil {
				continue
			}
			cost, left := after(at, func(s *slot) { *s = slot{used: noSlices} })
			consider(option{at: at, model: model, score: s, cost: cost, left: left})
		case r.Share.Kind == MIG:
			at, starts := n.cuts(r, model)
			if at == nil {
				continue
			}
			cost, left := after(at, func(s *slot) { s.milli = 0 })
			consider(option{at: at, starts: starts, model: model, cost: cost, left: left})
		default:
			f.shares(n, r, model, after, consider)
		}
	}
	return best, found
}

// wholes picks whole GPUs of a model that hang together best; nil: too few.
func (n *node) wholes(r Request, model string) ([]int, score) {
	free := make([]int, 0, len(n.slots))
	mask := uint64(0)
	for i, s := range n.slots {
		if s.whole() && n.hw.models[i] == model {
			free = append(free, i)
			mask |= 1 << (i & 63)
		}
	}
	if len(free)-n.held(r.Owner, model) < r.Count {
		return nil, score{}
	}
	if n.hw.flat {
		return free[:r.Count], score{islands: 1, nodes: 1}
	}
	key := pickKey{mask, r.Count}
	if p, ok := n.hw.picks[key]; ok && len(n.slots) <= 64 {
		return p.at, p.score
	}
	gpus := make([]GPU, len(free))
	for k, i := range free {
		gpus[k] = n.hw.gpus[i]
	}
	at, s := pick(gpus, r.Count)
	for k := range at {
		at[k] = free[at[k]]
	}
	if len(n.slots) <= 64 {
		n.hw.picks[key] = picked{at, s}
	}
	return at, s
}

// held is how many free GPUs of a model stay for others than owner.
func (n *node) held(owner, model string) int {
	sum := 0
	for _, h := range n.host.Holds {
		if h.Model == model && (owner == "" || h.Owner != owner) {
			sum += max(0, h.GPUs)
		}
	}
	return sum
}

// shares considers the GPUs that could be divided for the request: for one share
// each amount that is free once, for several the fullest GPUs.
func (f *Fleet) shares(n *node, r Request, model string, after func([]int, func(*slot)) (float64, int64), consider func(option)) {
	milli := int16(r.Share.Milli)
	fits := make([]int, 0, len(n.slots))
	whole := 0
	for i, s := range n.slots {
		if n.hw.models[i] != model || s.milli < milli || (!s.whole() && s.kind != r.Share.Kind) {
			continue
		}
		if s.whole() {
			whole++
		}
		fits = append(fits, i)
	}
	guarded := f.guarded(r.Share.Milli)
	spare := whole - n.held(r.Owner, model) // whole GPUs that may be divided
	if guarded {
		spare = 0
	}
	slices.SortStableFunc(fits, func(a, b int) int { return cmp.Compare(n.slots[a].milli, n.slots[b].milli) })
	divided := len(fits) - whole
	fits = fits[:divided+max(0, min(whole, spare))]
	if len(fits) < r.Count {
		return
	}
	for i := 0; i+r.Count <= len(fits); i++ {
		if i > 0 && n.slots[fits[i]].milli == n.slots[fits[i-1]].milli {
			continue
		}
		at := slices.Clone(fits[i : i+r.Count])
		slices.Sort(at)
		opens := false
		for _, k := range at {
			opens = opens || n.slots[k].whole()
		}
		cost, left := after(at, func(s *slot) { s.milli -= milli })
		consider(option{at: at, model: model, cost: cost, left: left, opens: opens})
		if r.Count > 1 {
			return
		}
	}
}

// cuts finds places for MIG instances, each on a GPU of its own: first on GPUs that
// have others, and there where they cost the fewest places.
func (n *node) cuts(r Request, model string) (at, starts []int) {
	geo, ok := geometryOf(model)
	if !ok {
		return nil, nil
	}
	type place struct{ at, start, room, whole int }
	var places []place
	whole := 0
	for i, s := range n.slots {
		if n.hw.models[i] != model || (s.kind != MIG && !s.whole()) || s.used == noSlices {
			continue
		}
		start := geo.place(s.used, r.Share.Profile)
		if start < 0 {
			continue
		}
		p := place{at: i, start: start, room: geo.room(s.used)}
		if s.whole() {
			p.whole = 1
			whole++
		}
		places = append(places, p)
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.whole, b.whole), cmp.Compare(a.room, b.room)) })
	places = places[:len(places)-min(whole, n.held(r.Owner, model))]
	if len(places) < r.Count {
		return nil, nil
	}
	places = places[:r.Count]
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	for _, p := range places {
		at, starts = append(at, p.at), append(starts, p.start)
	}
	return at, starts
}

// refuses says why a host may not have the request, whatever is free; empty: it may.
func (n *node) refuses(r Request) Reason {
	if len(r.Regions) > 0 && !slices.Contains(r.Regions, n.hw.region) {
		return ReasonRegion
	}
	if len(r.Zones) > 0 && !slices.Contains(r.Zones, n.hw.zone) {
		return ReasonZone
	}
	for k, v := range r.Require {
		if has, ok := n.hw.labels[k]; !ok || has != v {
			return ReasonLabel
		}
	}
	for k, v := range r.Forbid {
		if has, ok := n.hw.labels[k]; ok && has == v {
			return ReasonLabel
		}
	}
	for _, t := range r.Avoid {
		if slices.Contains(n.host.Tags, t) {
			return ReasonAvoided
		}
	}
	return ""
}
