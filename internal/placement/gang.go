package placement

import (
	"cmp"
	"slices"
	"strings"
)

// path is where a host is, from the widest place to the narrowest; each element
// holds the ones before, so that two racks of one name in two zones differ.
func (h *Host) path() []string {
	out := make([]string, 0, 4+len(h.Fabric))
	at := ""
	for _, part := range append(append([]string{h.Region, h.Zone}, h.Fabric...), h.Rack) {
		at += "\x00" + part
		out = append(out, at)
	}
	return out
}

// domain is the place of a host on a level.
func (h *Host) domain(l Level) string {
	path := h.path()
	switch l {
	case LevelRegion:
		return path[0]
	case LevelZone:
		return path[1]
	case LevelSpine:
		return path[min(2, len(path)-2)]
	case LevelLeaf:
		return path[len(path)-2]
	case LevelRack:
		return path[len(path)-1]
	}
	return ""
}

// Distance is how many levels two hosts have to go up to meet: 0 in one rack, 1
// under one leaf, and so on.
func Distance(a, b Host) int {
	x, y := a.path(), b.path()
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	return max(len(x), len(y)) - same
}

// gang places all nodes on different hosts, or none.
func (f *Fleet) gang(r Request) (Placement, bool) {
	all := f.options(r)
	if len(all) < r.Nodes {
		return Placement{}, false
	}
	// A gang is as strong as its weakest node: those whose GPUs hang together
	// worse come last in any place.
	slices.SortFunc(all, func(a, b option) int { return cmp.Or(a.compare(b), strings.Compare(a.node.host.ID, b.node.host.ID)) })
	var chosen []option
	switch {
	case r.Spread != LevelAny:
		chosen = spread(all, r)
	case r.Within != LevelAny:
		// The domain with the fewest hosts that hold the request, so that large
		// ones stay whole for larger gangs.
		var best []option
		for _, group := range grouped(all, func(o option) string { return o.node.host.domain(r.Within) }) {
			if len(group) >= r.Nodes && (best == nil || len(group) < len(best)) {
				best = group
			}
		}
		chosen = pack(best, r.Nodes, 0)
	default:
		chosen = pack(all, r.Nodes, 0)
	}
	if len(chosen) < r.Nodes {
		return Placement{}, false
	}
	p := Placement{Nodes: make([]Choice, 0, r.Nodes)}
	for _, o := range chosen {
		p.Nodes = append(p.Nodes, o.choice(r))
	}
	return p, true
}

// options is one option for each host that holds a node of the request. Of a class
// one is tried, and the others only where their GPUs are not the same.
func (f *Fleet) options(r Request) []option {
	need := r.need()
	var all []option
	seen := map[*class]bool{}
	for _, root := range f.roots(r) {
		root.walk(need, func(c *class) bool {
			if seen[c] {
				return true
			}
			seen[c] = true
			first, ok := f.try(c.members[0], r, need, f.classWorth)
			if !ok {
				return true
			}
			for i, n := range c.members {
				o := first
				if i > 0 {
					if o.node = n; n.hw.flat && !slices.Equal(n.slots, c.members[0].slots) {
						if o, ok = f.try(n, r, need, f.classWorth); !ok {
							continue
						}
					}
				}
				all = append(all, o)
			}
			return true
		})
	}
	return all
}

// grouped splits options by a key, in the order of keys.
func grouped(all []option, key func(option) string) [][]option {
	at := map[string]int{}
	var out [][]option
	var keys []string
	for _, o := range all {
		k := key(o)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out, keys = append(out, nil), append(keys, k)
		}
		out[i] = append(out[i], o)
	}
	order := make([]int, len(out))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	sorted := make([][]option, len(out))
	for i, k := range order {
		sorted[i] = out[k]
	}
	return sorted
}

// pack chooses n options as close to each other as they go: in the smallest place
// below this level that holds all, or else in as few places as can be, the largest
// filled first, and what remains in the smallest that holds it.
func pack(all []option, n, level int) []option {
	if len(all) <= n {
		return all[:min(n, len(all))]
	}
	deepest := true
	groups := grouped(all, func(o option) string {
		if path := o.node.host.path(); level < len(path) {
			deepest = false
			return path[level]
		}
		return ""
	})
	if deepest {
		return all[:n]
	}
	smallest := func(n int) int {
		best := -1
		for i, g := range groups {
			if len(g) >= n && (best < 0 || len(g) < len(groups[best])) {
				best = i
			}
		}
		return best
	}
	var chosen []option
	for n > 0 {
		if i := smallest(n); i >= 0 {
			return append(chosen, pack(groups[i], n, level+1)...)
		}
		largest := 0
		for i, g := range groups {
			if len(g) > len(groups[largest]) {
				largest = i
			}
		}
		chosen = append(chosen, groups[largest]...)
		n -= len(groups[largest])
		groups = slices.Delete(groups, largest, largest+1)
	}
	return chosen
}

// spread takes one after another from each domain.
func spread(all []option, r Request) []option {
	groups := grouped(all, func(o option) string { return o.node.host.domain(r.Spread) })
	var chosen []option
	for round := 0; len(chosen) < r.Nodes; round++ {
		had := len(chosen)
		for _, g := range groups {
			if round < len(g) && len(chosen) < r.Nodes {
				chosen = append(chosen, g[round])
			}
		}
		if len(chosen) == had {
			return nil
		}
	}
	return chosen
}
