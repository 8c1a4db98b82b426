package fleet

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"suanli.dev/internal/money"
)

// index answers searches. All offers lie in columns, in two segments: a large
// one that is built rarely, sorted by price, and a small one of the hosts that
// changed since, which is built anew by the next search. A host in the small
// one is dead in the large one. When the small one has grown, both are merged.
type index struct {
	mu      sync.RWMutex
	entries map[string]*entry
	base    *segment
	changed map[string]uint64 // hosts that changed since base was built, and when
	now     uint64            // counts changes
	delta   *segment          // of changed; nil: to be built

	merging sync.Mutex
}

// A small segment of this many hosts is merged by Run, or, at the latest, by a
// search that finds the larger number.
const (
	mergeSoon = 256
	mergeNow  = 4096
)

func newIndex() *index {
	return &index{entries: map[string]*entry{}, changed: map[string]uint64{}, base: newSegment(nil)}
}

// put replaces the offers of a host; nil: it has none.
func (x *index) put(hostID string, e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e == nil {
		if x.entries[hostID] == nil {
			return
		}
		delete(x.entries, hostID)
	} else {
		x.entries[hostID] = e
	}
	x.now++
	x.changed[hostID] = x.now
	x.base.bury(hostID)
	x.delta = nil
}

func (x *index) entry(hostID string) *entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.entries[hostID]
}

func (x *index) compactIfLarge() {
	x.mu.RLock()
	n := len(x.changed)
	x.mu.RUnlock()
	if n >= mergeSoon {
		x.compact()
	}
}

// compact builds the large segment from all hosts, without keeping searches
// and changes waiting.
func (x *index) compact() {
	x.merging.Lock()
	defer x.merging.Unlock()
	x.mu.RLock()
	all := make([]*entry, 0, len(x.entries))
	for _, e := range x.entries {
		all = append(all, e)
	}
	upTo := x.now
	x.mu.RUnlock()
	base := newSegment(all)
	x.mu.Lock()
	defer x.mu.Unlock()
	for id, at := range x.changed {
		if at <= upTo {
			delete(x.changed, id)
			continue
		}
		base.bury(id)
	}
	x.base, x.delta = base, nil
}

// read calls fn with both segments, which do not change meanwhile.
func (x *index) read(fn func(base, delta *segment)) {
	x.mu.RLock()
	if len(x.changed) > mergeNow {
		x.mu.RUnlock()
		x.compact()
		x.mu.RLock()
	}
	for x.delta == nil {
		x.mu.RUnlock()
		x.mu.Lock()
		if x.delta == nil {
			some := make([]*entry, 0, len(x.changed))
			for id := range x.changed {
				if e := x.entries[id]; e != nil {
					some = append(some, e)
				}
			}
			x.delta = newSegment(some)
		}
		x.mu.Unlock()
		x.mu.RLock()
	}
	defer x.mu.RUnlock()
	fn(x.base, x.delta)
}

// segment is offers in columns. Groups are sorted by host and model, so that
// the number of a group is an order of hosts; rows, one a bundle, by the price
// of compute and then by group and count. All but dead is immutable.
type segment struct {
	hosts   []*entry // of each group
	groups  []*group
	dead    []bool    // of each group
	numbers [][]int64 // by field and group
	texts   []dictionary
	storage []uint16 // of each group: which of rates
	rates   []money.Rate

	// Of each group, for the fields of rows; side by side with the columns, since
	// rows jump between groups and a pointer to follow would be a cache miss each.
	share []share

	rowGroup   []int32
	rowCount   []int32
	rowCompute []int64  // micro-units per hour
	rowStorage []uint16 // which of rates
	rowCPU     []int32  // thousandths
	rowMemory  []int32  // MiB; the limits of an inventory fit

	// The rows of group g are groupRows[groupFirst[g]:groupFirst[g+1]].
	groupFirst, groupRows []int32
}

// share is what one unit of a group has.
type share struct {
	vramGB int32
	gpus   int32 // 1, or 0 without GPUs
}

// dictionary is a text column: each group's number of its distinct value, lower case.
type dictionary struct {
	codes  []uint32
	values []string
	lookup map[string]uint32
}

func newSegment(all []*entry) *segment {
	slices.SortFunc(all, func(a, b *entry) int { return strings.Compare(a.hostID, b.hostID) })
	s := &segment{}
	for _, e := range all {
		for i := range e.groups {
			s.hosts = append(s.hosts, e)
			s.groups = append(s.groups, &e.groups[i])
		}
	}
	n := len(s.groups)
	s.dead = make([]bool, n)
	s.storage = make([]uint16, n)
	s.share = make([]share, n)
	for j, g := range s.groups {
		s.share[j] = share{vramGB: int32(g.vramGB())}
		if g.model != "" {
			s.share[j].gpus = 1
		}
	}
	for i := range fields {
		f := &fields[i]
		switch {
		case f.row:
		case f.kind == text:
			d := dictionary{codes: make([]uint32, n), lookup: map[string]uint32{}}
			for j := range n {
				v := strings.ToLower(f.text(s.hosts[j], s.groups[j]))
				code, ok := d.lookup[v]
				if !ok {
					code = uint32(len(d.values))
					d.lookup[v] = code
					d.values = append(d.values, v)
				}
				d.codes[j] = code
			}
			s.texts = append(s.texts, d)
		default:
			column := make([]int64, n)
			for j := range n {
				column[j] = f.number(s.hosts[j], s.groups[j])
			}
			s.numbers = append(s.numbers, column)
		}
	}
	rates := map[money.Rate]uint16{}
	for j, e := range s.hosts {
		code, ok := rates[e.storage]
		if !ok {
			// There are few storage prices; should there be more than the codes
			// hold, the last stands for the rest in sorting, and offers show the
			// right one.
			code = uint16(min(len(s.rates), 1<<16-1))
			if len(s.rates) < 1<<16 {
				rates[e.storage] = code
				s.rates = append(s.rates, e.storage)
			}
		}
		s.storage[j] = code
	}
	type row struct {
		compute int64
		group   int32
		count   int32
	}
	var rows []row
	for j, g := range s.groups {
		for _, count := range g.counts {
			rows = append(rows, row{micro(g.rate * money.Rate(count)), int32(j), int32(count)})
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.compute, b.compute), cmp.Compare(a.group, b.group), cmp.Compare(a.count, b.count))
	})
	s.rowGroup, s.rowCount = make([]int32, len(rows)), make([]int32, len(rows))
	s.rowCompute, s.rowStorage = make([]int64, len(rows)), make([]uint16, len(rows))
	s.rowCPU, s.rowMemory = make([]int32, len(rows)), make([]int32, len(rows))
	for i, r := range rows {
		g := s.groups[r.group]
		s.rowCPU[i], s.rowMemory[i] = int32(g.share(g.cpuMillis, int(r.count))), int32(g.share(g.memoryMiB, int(r.count)))
		s.rowGroup[i], s.rowCount[i], s.rowCompute[i], s.rowStorage[i] = r.group, r.count, r.compute, s.storage[r.group]
	}
	s.groupFirst, s.groupRows = make([]int32, n+1), make([]int32, len(rows))
	for j, g := range s.groups {
		s.groupFirst[j+1] = s.groupFirst[j] + int32(len(g.counts))
	}
	fill := slices.Clone(s.groupFirst)
	for i, r := range rows {
		s.groupRows[fill[r.group]] = int32(i)
		fill[r.group]++
	}
	return s
}

// first returns the number of the first group that is not before (hostID, model).
func (s *segment) first(hostID, model string) int {
	lo, hi := 0, len(s.groups)
	for lo < hi {
		mid := (lo + hi) / 2
		if cmp.Or(strings.Compare(s.hosts[mid].hostID, hostID), strings.Compare(s.groups[mid].model, model)) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// bury marks all groups of a host as dead.
func (s *segment) bury(hostID string) {
	for i := s.first(hostID, ""); i < len(s.groups) && s.hosts[i].hostID == hostID; i++ {
		s.dead[i] = true
	}
}
