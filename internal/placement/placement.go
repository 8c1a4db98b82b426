package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// GPU is one device of a host.
type GPU struct {
	UUID  string
	Index int
	Model string
	NUMA  int // node; -1: unknown
	Free  bool
	Links []Link
}

// Link is NVLink to a peer, or to a switch if Peer is empty.
type Link struct {
	Peer  string // UUID
	Count int
}

// Host is what a host has, and what of it is free.
type Host struct {
	ID        string
	GPUs      []GPU
	CPUMillis int64 // free
	MemoryMiB int64 // free
	DiskMiB   int64 // free
}

// Request is what must fit on one host.
type Request struct {
	Model     string // empty with Count 0: CPU only
	Count     int
	CPUMillis int64
	MemoryMiB int64
	DiskMiB   int64
}

// Choice is where a request goes.
type Choice struct {
	HostID string
	GPUs   []string // UUIDs, by index
}

// Refusal says why no host fits. Reasons has one entry per host that was
// looked at, in the order given.
type Refusal struct {
	Reasons []Reason
}

// Reason is why one host does not fit.
type Reason struct {
	HostID string
	Lacks  string // "gpu", "cpu", "memory", "disk"
	Text   string
}

func (r *Refusal) Error() string {
	if len(r.Reasons) == 0 {
		return "there is no host to choose from"
	}
	texts := make([]string, 0, 4)
	for i, reason := range r.Reasons {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more hosts", len(r.Reasons)-i))
			break
		}
		texts = append(texts, reason.Text)
	}
	return strings.Join(texts, "; ")
}

// Choose finds the best host and the GPUs on it, or returns a *Refusal.
func Choose(hosts []Host, r Request) (Choice, error) {
	type candidate struct {
		host  Host
		score score
		gpus  []string
	}
	var best *candidate
	refusal := &Refusal{}
	for _, h := range hosts {
		if reason, ok := fits(h, r); !ok {
			refusal.Reasons = append(refusal.Reasons, reason)
			continue
		}
		gpus, s := pick(h, r)
		// What would stay free on the host decides between equal sets: the fuller
		// host is taken.
		s.left = append(s.left, len(free(h, r.Model))-r.Count)
		if best == nil || s.less(best.score) || (!best.score.less(s) && h.ID < best.host.ID) {
			best = &candidate{host: h, score: s, gpus: gpus}
		}
	}
	if best == nil {
		return Choice{}, refusal
	}
	return Choice{HostID: best.host.ID, GPUs: best.gpus}, nil
}

func fits(h Host, r Request) (Reason, bool) {
	lacks := func(what, format string, args ...any) (Reason, bool) {
		return Reason{HostID: h.ID, Lacks: what, Text: "host " + h.ID + ": " + fmt.Sprintf(format, args...)}, false
	}
	if n := len(free(h, r.Model)); r.Count > 0 && n < r.Count {
		return lacks("gpu", "%d × %s wanted, %d free", r.Count, r.Model, n)
	}
	if h.CPUMillis < r.CPUMillis {
		return lacks("cpu", "%d m CPU wanted, %d free", r.CPUMillis, max(0, h.CPUMillis))
	}
	if h.MemoryMiB < r.MemoryMiB {
		return lacks("memory", "%d MiB of memory wanted, %d free", r.MemoryMiB, max(0, h.MemoryMiB))
	}
	if h.DiskMiB < r.DiskMiB {
		return lacks("disk", "%d MiB of disk wanted, %d free", r.DiskMiB, max(0, h.DiskMiB))
	}
	return Reason{}, true
}

func free(h Host, model string) []GPU {
	var out []GPU
	for _, g := range h.GPUs {
		if g.Free && g.Model == model {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b GPU) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	})
	return out
}

// score of a set of GPUs; the smaller is the better.
type score struct {
	islands int   // that the set spans
	links   int   // between its members; the more the better
	nodes   int   // NUMA nodes that it spans
	left    []int // behind in the islands and nodes that it breaks, and on the host
}

func (s score) less(o score) bool {
	return cmp.Or(
		cmp.Compare(s.islands, o.islands), cmp.Compare(o.links, s.links),
		cmp.Compare(s.nodes, o.nodes), slices.Compare(s.left, o.left),
	) < 0
}

// maxSets bounds how many sets are compared one by one: all of 8 in 16 are 12,870.
const maxSets = 20_000

func pick(h Host, r Request) ([]string, score) {
	if r.Count == 0 {
		return nil, score{}
	}
	gpus := free(h, r.Model)
	t := newTopology(gpus)
	if sets(len(gpus), r.Count) > maxSets || len(gpus) > 63 {
		chosen := t.greedy(r.Count)
		return uuids(gpus, chosen), score{islands: 1}
	}
	var best uint64
	var bestScore score
	found := false
	// Sets in the order of their bits; the first of equals is kept.
	for set := uint64(1)<<r.Count - 1; set < 1<<len(gpus); set = nextSet(set) {
		s := t.score(set)
		if !found || s.less(bestScore) {
			best, bestScore, found = set, s, true
		}
	}
	var chosen []int
	for set := best; set != 0; set &= set - 1 {
		chosen = append(chosen, bits.TrailingZeros64(set))
	}
	return uuids(gpus, chosen), bestScore
}

func uuids(gpus []GPU, chosen []int) []string {
	slices.Sort(chosen)
	out := make([]string, len(chosen))
	for i, n := range chosen {
		out[i] = gpus[n].UUID
	}
	return out
}

// nextSet is the next larger number with as many bits set (Gosper's way).
func nextSet(set uint64) uint64 {
	low := set & -set
	carried := set + low
	return carried | ((set^carried)>>2)/low
}

// sets is how many sets of k there are in n, or more than maxSets.
func sets(n, k int) int {
	total := 1
	for i := range min(k, n-k) {
		total = total * (n - i) / (i + 1)
		if total > maxSets {
			return total
		}
	}
	return total
}

// topology is how the free GPUs of a host hang together.
type topology struct {
	island []int   // of each GPU
	node   []int   // NUMA node of each GPU
	links  [][]int // between each two
	size   []int   // free GPUs in each island
}

func newTopology(gpus []GPU) topology {
	n := len(gpus)
	t := topology{island: make([]int, n), node: make([]int, n), links: make([][]int, n), size: make([]int, n)}
	at := make(map[string]int, n)
	for i, g := range gpus {
		at[g.UUID] = i
		t.island[i] = i
		t.node[i] = g.NUMA
		t.links[i] = make([]int, n)
	}
	join := func(a, b int) {
		from, to := t.island[b], t.island[a]
		for i := range t.island {
			if t.island[i] == from {
				t.island[i] = to
			}
		}
	}
	viaSwitch := -1
	for i, g := range gpus {
		for _, l := range g.Links {
			if l.Peer == "" {
				if viaSwitch >= 0 {
					join(viaSwitch, i)
				}
				viaSwitch = i
				continue
			}
			if j, ok := at[l.Peer]; ok && j != i {
				t.links[i][j] = max(t.links[i][j], l.Count)
				t.links[j][i] = t.links[i][j]
				join(i, j)
			}
		}
	}
	for _, island := range t.island {
		t.size[island]++
	}
	return t
}

func (t topology) score(set uint64) score {
	var s score
	var islands, nodes [64]int // members taken, by island and by position of the first GPU on the node
	for rest := set; rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		if islands[t.island[i]]++; islands[t.island[i]] == 1 {
			s.islands++
		}
		first := slices.Index(t.node, t.node[i])
		if nodes[first]++; nodes[first] == 1 {
			s.nodes++
		}
		for other := rest & (rest - 1); other != 0; other &= other - 1 {
			s.links += t.links[i][bits.TrailingZeros64(other)]
		}
	}
	brokenIslands, brokenNodes := 0, 0
	for i := range t.island {
		if n := islands[t.island[i]]; n > 0 && set&(1<<i) == 0 {
			brokenIslands++
		}
		if n := nodes[slices.Index(t.node, t.node[i])]; n > 0 && set&(1<<i) == 0 {
			brokenNodes++
		}
	}
	s.left = []int{brokenIslands, brokenNodes}
	return s
}

// greedy fills from the smallest island that holds the request, or else from
// the largest ones; for hosts with more GPUs than can be compared set by set.
func (t topology) greedy(count int) []int {
	order := make([]int, len(t.island))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := t.size[t.island[a]], t.size[t.island[b]]
		fitsX, fitsY := x >= count, y >= count
		switch {
		case fitsX != fitsY:
			if fitsX {
				return -1
			}
			return 1
		case x != y && fitsX:
			return cmp.Compare(x, y)
		case x != y:
			return cmp.Compare(y, x)
		}
		return cmp.Or(cmp.Compare(t.island[a], t.island[b]), cmp.Compare(t.node[a], t.node[b]), cmp.Compare(a, b))
	})
	return order[:count]
}
