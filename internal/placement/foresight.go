package placement

import (
	"math/rand/v2"
	"slices"
)

const (
	futures   = 16 // that a host is tried against
	futureLen = 40 // requests in each
	// foresightWeight is what a thousandth of a GPU that stays unused counts, against
	// one less for the mean shape of the mix.
	foresightWeight = 1
	futuresSeed     = 1 // any number: all that matters is that it is always the same
)

// draw imagines what may come: requests of the mix, each as often as it comes. All
// hosts are tried against the same ones, so that a difference between two is theirs
// and not that of the draw.
func (m *mix) draw() {
	shapes := make([]shape, 0, len(m.counts))
	for s, n := range m.counts {
		if s.count > 0 && n > 0 {
			shapes = append(shapes, s)
		}
	}
	m.futures = m.futures[:0]
	if len(shapes) == 0 {
		return
	}
	slices.SortFunc(shapes, shape.compare)
	m.smallest = shapes[0].milli
	upTo := make([]float64, len(shapes))
	sum := 0.0
	for i, s := range shapes {
		m.smallest = min(m.smallest, s.milli)
		sum += m.counts[s]
		upTo[i] = sum
	}
	r := rand.New(rand.NewPCG(futuresSeed, futuresSeed)) //nolint:gosec // it decides nothing that anybody may not know
	for range futures {
		future := make([]shape, futureLen)
		for i := range future {
			at, _ := slices.BinarySearch(upTo, r.Float64()*sum)
			future[i] = shapes[min(at, len(shapes)-1)]
		}
		m.futures = append(m.futures, future)
	}
}

// holds is how much of a host's free GPUs gets used, in the sum of all imagined
// futures, if all requests come to it one after the other and each takes the
// smallest place that it fits into.
func (f *Fleet) holds(hw *hardware, slots []slot, free amounts) int64 {
	most, gpus := 0, int64(0)
	for _, s := range slots {
		most = max(most, int(s.milli))
		gpus += int64(s.milli)
	}
	if most < f.mix.smallest {
		return 0
	}
	total := int64(0)
	for _, future := range f.mix.futures {
		f.filled = f.filled[:0]
		for _, s := range slots {
			f.filled = append(f.filled, s.milli)
		}
		g, cpu, memory, left := f.filled, free[0], free[1], gpus
		for i := range future {
			s := &future[i]
			if cpu < s.cpu || memory < s.memory || left < int64(s.count*s.milli) {
				continue
			}
			if !hw.hold(g, s) {
				continue
			}
			cpu -= s.cpu
			memory -= s.memory
			if left -= int64(s.count * s.milli); left < int64(f.mix.smallest) {
				break
			}
		}
		total += gpus - left
	}
	return total
}

// hold takes from g, which is free of each GPU, what a request needs, if it is there.
func (hw *hardware) hold(g []int16, s *shape) bool {
	milli := int16(s.milli) //nolint:gosec // 1 to 1000
	if s.count == 1 {
		best := -1
		for k, m := range g {
			if m >= milli && (best < 0 || m < g[best]) && (s.models == 0 || s.models>>hw.bits[k]&1 == 1) {
				if best = k; m == milli {
					break
				}
			}
		}
		if best >= 0 {
			g[best] -= milli
		}
		return best >= 0
	}
	fit := 0
	for k, m := range g {
		if m >= milli && (s.models == 0 || s.models>>hw.bits[k]&1 == 1) {
			fit++
		}
	}
	if fit < s.count {
		return false
	}
	for k, left := 0, s.count; left > 0; k++ {
		if g[k] >= milli && (s.models == 0 || s.models>>hw.bits[k]&1 == 1) {
			g[k] -= milli
			left--
		}
	}
	return true
}

// regret is how much GPU would stay unused for good, in the mean of all futures, if
// the request went there (what the host could have held less what it then can), and
// the worth that is lost: futures that come to one host do not show that others are
// too few for a shape, and worth does not show which requests go together.
func (f *Fleet) regret(o option, r Request, need amounts) float64 {
	c, n := o.node.class, o.node
	if c.foreseen != f.mix.version {
		c.foreseen, c.holds = f.mix.version, f.holds(n.hw, n.slots, n.free)
	}
	f.scratch = append(f.scratch[:0], n.slots...)
	milli := r.milli()
	for _, i := range o.at {
		s := &f.scratch[i]
		if s.milli -= int16(milli); r.Share.Kind == MIG || s.milli < 0 { //nolint:gosec // 1 to 1000
			s.milli = 0
		}
	}
	lost := c.holds - f.holds(n.hw, f.scratch, n.free.minus(need))
	waste := float64(lost)/futures - float64(r.Count*milli)
	return foresightWeight*waste + (o.cost-o.base)/f.mix.weightSum + o.base
}

// foresee is the one of the options, sorted, that is regretted least among those
// whose GPUs hang together as well as the first's.
func (f *Fleet) foresee(options []option, r Request, need amounts) option {
	best := options[0]
	if len(f.mix.futures) == 0 || f.mix.weightSum <= 0 || len(options) == 1 {
		return best
	}
	least := f.regret(best, r, need)
	for _, o := range options[1:] {
		if o.score.islands != best.score.islands || o.score.links != best.score.links || o.score.nodes != best.score.nodes {
			break
		}
		if x := f.regret(o, r, need); x < least {
			best, least = o, x
		}
	}
	return best
}
