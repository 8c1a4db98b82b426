package placement

import "strings"

// profile is a MIG profile: how many memory slices it covers and where it may start.
type profile struct {
	size   int
	starts []int
}

// geometry is what a GPU can be cut into: its memory slices, and the profiles with
// where each may start. Two instances never cover the same slice; that is all
// there is to legality, as the driver places them the same way.
type geometry struct {
	slices   int
	profiles map[string]profile
}

// eighths is the geometry of NVIDIA's large GPUs: seven compute and eight memory
// slices (NVIDIA MIG user guide, "supported MIG profiles"). Names carry the memory
// that a slice has.
func eighths(one, two, half, full string) geometry {
	return geometry{8, map[string]profile{
		"1g." + one:         {1, []int{0, 1, 2, 3, 4, 5, 6}},
		"1g." + one + "+me": {1, []int{0, 1, 2, 3, 4, 5, 6}},
		"1g." + two:         {2, []int{0, 2, 4, 6}},
		"2g." + two:         {2, []int{0, 2, 4}},
		"3g." + half:        {4, []int{0, 4}},
		"4g." + half:        {4, []int{0}},
		"7g." + full:        {8, []int{0}},
	}}
}

var (
	a30 = geometry{4, map[string]profile{
		"1g.6gb": {1, []int{0, 1, 2, 3}}, "1g.6gb+me": {1, []int{0, 1, 2, 3}},
		"2g.12gb": {2, []int{0, 2}}, "2g.12gb+me": {2, []int{0, 2}},
		"4g.24gb": {4, []int{0}}, "4g.24gb+me": {4, []int{0}},
	}}
	geometries = []struct {
		in []string // of the model's name, all of them
		geometry
	}{
		{[]string{"A30"}, a30},
		{[]string{"A100", "80"}, eighths("10gb", "20gb", "40gb", "80gb")},
		{[]string{"A100"}, eighths("5gb", "10gb", "20gb", "40gb")},
		{[]string{"H200"}, eighths("18gb", "35gb", "71gb", "141gb")},
		{[]string{"GH200"}, eighths("12gb", "24gb", "48gb", "96gb")},
		{[]string{"H100", "96"}, eighths("12gb", "24gb", "48gb", "96gb")},
		{[]string{"H100"}, eighths("10gb", "20gb", "40gb", "80gb")},
		{[]string{"B200"}, eighths("23gb", "45gb", "90gb", "180gb")},
	}
)

func geometryOf(model string) (geometry, bool) {
	words := strings.FieldsFunc(model, func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	has := func(part string) bool {
		for _, w := range words {
			if w == part || strings.TrimSuffix(strings.ToUpper(w), "GB") == part {
				return true
			}
		}
		return false
	}
next:
	for _, g := range geometries {
		for _, part := range g.in {
			if !has(part) {
				continue next
			}
		}
		return g.geometry, true
	}
	return geometry{}, false
}

// Profiles returns how many instances of each MIG profile a GPU of the model can
// have at once when it has no others; nil if it has no MIG.
func Profiles(model string) map[string]int {
	g, ok := geometryOf(model)
	if !ok {
		return nil
	}
	out := map[string]int{}
	for name, p := range g.profiles {
		out[name] = len(p.starts)
	}
	return out
}

func (p profile) mask(start int) uint8 { return uint8((1<<p.size - 1) << start) }

// room is how many places are left for instances of all kinds.
func (g geometry) room(used uint8) int {
	n := 0
	for _, p := range g.profiles {
		for _, s := range p.starts {
			if used&p.mask(s) == 0 {
				n++
			}
		}
	}
	return n
}

// place finds where an instance costs the fewest places for others; -1: nowhere.
func (g geometry) place(used uint8, name string) int {
	p, best, most := g.profiles[name], -1, -1
	for _, s := range p.starts {
		if m := p.mask(s); used&m == 0 {
			if n := g.room(used | m); n > most {
				best, most = s, n
			}
		}
	}
	return best
}
