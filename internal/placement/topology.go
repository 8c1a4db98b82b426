package placement

import (
	"cmp"
	"math/bits"
	"slices"
)

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

// pick returns which count of gpus hang together best, by position, and how well.
// All of them may be given out. Count is at least 1 and at most their number.
func pick(gpus []GPU, count int) ([]int, score) {
	t := newTopology(gpus)
	if sets(len(gpus), count) > maxSets || len(gpus) > 63 {
		chosen := t.greedy(count)
		slices.Sort(chosen)
		return chosen, score{islands: 1}
	}
	var best uint64
	var bestScore score
	found := false
	// Sets in the order of their bits; the first of equals is kept.
	for set := uint64(1)<<count - 1; set < 1<<len(gpus); set = nextSet(set) {
		s := t.score(set)
		if !found || s.less(bestScore) {
			best, bestScore, found = set, s, true
		}
	}
	var chosen []int
	for set := best; set != 0; set &= set - 1 {
		chosen = append(chosen, bits.TrailingZeros64(set))
	}
	return chosen, bestScore
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
