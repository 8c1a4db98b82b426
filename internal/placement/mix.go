package placement

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// shape is what requests ask for, as far as the mix tells them apart.
type shape struct {
	cpu, memory int64
	count       int
	milli       int    // of each GPU
	models      uint64 // bits; 0: any
}

func (s shape) compare(o shape) int {
	return cmp.Or(cmp.Compare(s.cpu, o.cpu), cmp.Compare(s.memory, o.memory), cmp.Compare(s.count, o.count),
		cmp.Compare(s.milli, o.milli), cmp.Compare(s.models, o.models))
}

func (s shape) gpuMilli() float64 { return float64(s.count * s.milli) }

const (
	typicalShapes  = 60      // that decisions look at: the most frequent
	knownShapes    = 4096    // that are counted
	mixMemory      = 1 << 16 // requests after which older ones count half
	reweigh        = 20      // requests after which scarcity is measured again
	sampledClasses = 2048    // that it is measured on, at most twice as many
	floorScarcity  = 0.01    // part of the fleet below which nothing gets scarcer
)

// mix is the requests that usually come.
type mix struct {
	counts  map[shape]float64
	total   float64
	relearn float64 // total at which the typical shapes are chosen again
	since   int     // requests since scarcity was measured
	asked   float64 // milli of GPU that was asked for, of late
	got     float64 // of that, what was taken

	typical  []shape
	shares   []float64 // of typical; together 1
	weights  []float64
	version  int // of typical
	weighing int // of weights

	weightSum float64

	futures  [][]shape // see draw
	smallest int       // milli in them

	yields map[int]float64 // of whole GPUs that shares of a size open
}

func newMix() mix { return mix{counts: map[shape]float64{}, relearn: 32} }

// Observe counts a request that came, whether it was placed or not.
func (f *Fleet) Observe(r Request) {
	m := &f.mix
	s := f.shape(r)
	if _, known := m.counts[s]; known || len(m.counts) < knownShapes {
		for range max(1, r.Nodes) {
			m.counts[s]++
			m.total++
		}
	}
	m.since++
	m.asked += r.gpus()
	if m.total >= mixMemory {
		for k, v := range m.counts {
			if m.counts[k] = v / 2; v < 1 {
				delete(m.counts, k)
			}
		}
		m.total /= 2
		m.asked, m.got = m.asked/2, m.got/2
		m.relearn = m.total
	}
	if m.total >= m.relearn {
		m.relearn = m.total * 1.5
		m.learn()
	}
}

func (f *Fleet) shape(r Request) shape {
	s := shape{cpu: r.CPUMillis, memory: r.MemoryMiB, count: r.Count, milli: r.milli()}
	for _, m := range r.Models {
		s.models |= 1 << f.bit(m)
	}
	return s
}

// milli is how much of each GPU is asked for; of a MIG profile its part of the
// memory, by the first model that has it.
func (r Request) milli() int {
	switch {
	case r.Count < 1:
		return 0
	case r.Share.Kind == MIG:
		for _, g := range geometries {
			if p, ok := g.profiles[r.Share.Profile]; ok {
				return WholeMilli * p.size / g.slices
			}
		}
		return WholeMilli
	case r.Share.Milli > 0:
		return r.Share.Milli
	}
	return WholeMilli
}

// gpus is how much GPU is asked for together, in thousandths.
func (r Request) gpus() float64 { return float64(r.Count * r.milli() * max(1, r.Nodes)) }

func (m *mix) learn() {
	m.typical = m.typical[:0]
	for s := range m.counts {
		if s.count > 0 {
			m.typical = append(m.typical, s)
		}
	}
	slices.SortFunc(m.typical, func(a, b shape) int {
		return cmp.Or(cmp.Compare(m.counts[b], m.counts[a]), a.compare(b))
	})
	m.typical = m.typical[:min(len(m.typical), typicalShapes)]
	total := 0.0
	for _, s := range m.typical {
		total += m.counts[s]
	}
	m.shares = m.shares[:0]
	for _, s := range m.typical {
		m.shares = append(m.shares, m.counts[s]/total)
	}
	m.version++
	m.draw()
	m.weights = nil
	m.yields = nil
}

// weigh measures for each shape which part of the free GPUs is left for it, on a
// sample of the classes.
func (f *Fleet) weigh() {
	m := &f.mix
	if len(m.typical) == 0 || (m.weights != nil && m.since < reweigh) {
		return
	}
	m.since = 0
	left := make([]float64, len(m.typical))
	free := 0.0
	for _, c := range f.sampled() {
		n := float64(len(c.members))
		for _, s := range c.members[0].slots {
			free += n * float64(s.milli)
		}
		for i, u := range f.usable(c) {
			left[i] += n * u
		}
	}
	m.weights, m.weightSum = make([]float64, len(m.typical)), 0
	for i, share := range m.shares {
		part := 1.0
		if free > 0 {
			part = left[i] / free
		}
		m.weights[i] = share / math.Pow(part+floorScarcity, f.policy.Scarcity)
		m.weightSum += m.weights[i]
	}
	m.weighing++
}

// sampled is a part of the classes, by their hashes alone: all while they are few,
// and of more a half, a quarter and so on.
func (f *Fleet) sampled() []*class {
	if level := bits.Len(uint(len(f.list) / sampledClasses)); level != f.sampling {
		for _, c := range f.sample {
			c.sampled = -1
		}
		f.sampling, f.sample = level, f.sample[:0]
		for _, c := range f.list {
			f.addSample(c)
		}
	}
	return f.sample
}

func (f *Fleet) addSample(c *class) {
	if c.sampled = -1; f.sampling == 0 || c.hash>>(64-f.sampling) == 0 {
		c.sampled = len(f.sample)
		f.sample = append(f.sample, c)
	}
}

func (f *Fleet) dropSample(c *class) {
	if c.sampled >= 0 {
		last := f.sample[len(f.sample)-1]
		f.sample[c.sampled], last.sampled = last, c.sampled
		f.sample = f.sample[:len(f.sample)-1]
	}
}

// usable is how much of the free GPUs of a class's hosts each shape could use.
func (f *Fleet) usable(c *class) []float64 {
	m := &f.mix
	if c.version != m.version {
		c.version = m.version
		c.usable = slices.Grow(c.usable[:0], len(m.typical))[:len(m.typical)]
		n := c.members[0]
		view := f.view(n.hw, n.slots)
		for i, s := range m.typical {
			c.usable[i] = s.usable(view, n.free)
		}
	}
	return c.usable
}

// worth is what the mix could still use of a host in this state.
func (f *Fleet) worth(hw *hardware, slots []slot, free amounts) float64 {
	m := &f.mix
	view := f.view(hw, slots)
	if len(view.milli) == 0 {
		return 0
	}
	total := 0.0
	for i, s := range m.typical {
		total += m.weights[i] * s.usable(view, free)
	}
	return total
}

func (f *Fleet) classWorth(c *class) float64 {
	m := &f.mix
	if c.weighed != m.weighing {
		c.weighed, c.worth = m.weighing, 0
		for i, u := range f.usable(c) {
			c.worth += m.weights[i] * u
		}
	}
	return c.worth
}

// view is the free parts of a host's GPUs, the largest first.
type view struct {
	milli []int32
	model []int // bit of each
	one   uint64
	mixed bool // more than one model
}

func (f *Fleet) view(hw *hardware, slots []slot) view {
	v := view{milli: f.sorted[:0]}
	if len(hw.kinds) == 1 {
		v.one = 1 << hw.bits[0]
	} else {
		v.mixed = true
	}
	for i, s := range slots {
		if s.milli == 0 {
			continue
		}
		at := len(v.milli)
		v.milli = append(v.milli, int32(s.milli))
		for at > 0 && v.milli[at-1] < int32(s.milli) {
			v.milli[at] = v.milli[at-1]
			at--
		}
		v.milli[at] = int32(s.milli)
		if v.mixed {
			v.model = slices.Insert(v.model, at, hw.bits[i])
		}
	}
	f.sorted = v.milli
	return v
}

// usable is how much of a host's free GPU requests of this shape could use: all
// GPUs that hold one of it, and half of that as far as CPU and memory last. A host
// that holds not one is of no use for it.
func (s shape) usable(v view, free amounts) float64 {
	if free[0] < s.cpu || free[1] < s.memory || (!v.mixed && s.models != 0 && s.models&v.one == 0) {
		return 0
	}
	sum, n := int32(0), 0
	for i, g := range v.milli {
		if g < int32(s.milli) {
			break
		}
		if v.mixed && s.models != 0 && s.models>>v.model[i]&1 == 0 {
			continue
		}
		sum += g
		n++
	}
	if n < s.count {
		return 0
	}
	gpu := float64(sum)
	lasts := gpu
	if s.cpu > 0 {
		lasts = min(lasts, float64(free[0])/float64(s.cpu)*s.gpuMilli())
	}
	if s.memory > 0 {
		lasts = min(lasts, float64(free[1])/float64(s.memory)*s.gpuMilli())
	}
	// A whole number, so that a sum does not depend on its order.
	return math.Floor((gpu + lasts) / 2)
}

// guarded reports whether a share is refused a whole GPU under [Policy.Yield].
func (f *Fleet) guarded(milli int) bool {
	m := &f.mix
	if f.policy.Yield <= 0 || m.total < 32 {
		return false
	}
	own := m.yield(milli)
	const margin = 0.1
	better, volume := 0.0, 0.0
	for s, n := range m.counts {
		if s.count == 0 {
			continue
		}
		volume += n * s.gpuMilli()
		y := 1.0
		if s.milli < WholeMilli {
			y = m.yield(s.milli)
		}
		if y > own+margin {
			better += n * s.gpuMilli() / y
		}
	}
	// What found no place has been asked for once and is not expected again.
	expected := f.policy.Yield * max(0, float64(f.freeMilli)-max(0, m.asked-m.got))
	return volume > 0 && float64(f.whole)*WholeMilli < better/volume*expected
}

// yield is how much of a whole GPU gets used in the end when a share of this size
// opens it, if all shares of the mix are packed together as well as they go: the
// largest first, each GPU filled with the largest that still fit.
func (m *mix) yield(milli int) float64 {
	if m.yields == nil {
		m.yields = map[int]float64{}
		left := map[int]int{}
		for s, n := range m.counts {
			if s.count == 1 && s.milli < WholeMilli {
				left[s.milli] += int(n)
			}
		}
		sizes := slices.Sorted(maps.Keys(left))
		slices.Reverse(sizes)
		for _, size := range sizes {
			opened, filled := 0, 0
			for left[size] > 0 {
				left[size]--
				room := WholeMilli - size
				for _, other := range sizes {
					for other <= room && left[other] > 0 {
						left[other]--
						room -= other
					}
				}
				opened++
				filled += WholeMilli - room
			}
			if opened > 0 {
				m.yields[size] = float64(filled) / float64(opened*WholeMilli)
			}
		}
	}
	if y, ok := m.yields[milli]; ok {
		return y
	}
	return 1
}
