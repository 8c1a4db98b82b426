package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Reason is why a host does not get a request.
type Reason string

// The reasons, in the order in which they are looked for: a host is counted under
// the first that holds.
const (
	ReasonInvalid Reason = "invalid" // of the request: nothing could hold it
	ReasonRegion  Reason = "region"
	ReasonZone    Reason = "zone"
	ReasonLabel   Reason = "label"
	ReasonAvoided Reason = "avoided" // something runs there that the request keeps away from
	ReasonModel   Reason = "gpu_model"
	ReasonGPU     Reason = "gpu"     // too few whole ones free, or parts too small
	ReasonHeld    Reason = "held"    // they are free, but kept for others
	ReasonGuarded Reason = "guarded" // see [Policy.Yield]
	ReasonCPU     Reason = "cpu"
	ReasonMemory  Reason = "memory"
	ReasonDisk    Reason = "disk"
	ReasonNetwork Reason = "network"
	ReasonPorts   Reason = "ports"
	ReasonGang    Reason = "gang" // it holds a node, but too few others do
)

var amountReasons = [...]Reason{ReasonCPU, ReasonMemory, ReasonDisk, ReasonNetwork, ReasonPorts}

// Explanation is a decision with what was looked at.
type Explanation struct {
	Fits      bool
	Placement Placement
	Hosts     int // that were looked at
	Suitable  int // of those, how many hold a node of the request
	Groups    []Group
	Changes   []Change
}

// Group is hosts that were refused for one reason.
type Group struct {
	Reason Reason
	Hosts  []string // ids, sorted
	// Wanted and Most are what was asked for and the most that a host of the group
	// has, in the request's unit; both 0 where there is nothing to count.
	Wanted, Most int64
}

// Change is one change of the request that makes it fit, all else as it is.
type Change struct {
	Field Reason // what of the request
	From  int64
	To    int64    // for amounts, GPUs (ReasonGPU) and nodes (ReasonGang)
	Any   []string // models, regions or zones that would do, or labels and tags to leave out
}

// Explain decides as [Fleet.Place] does and says what was looked at: all hosts,
// each under the first reason that rules it out, and the smallest single changes
// that would make the request fit.
func (f *Fleet) Explain(r Request) Explanation {
	e := Explanation{Hosts: len(f.nodes)}
	if reason, bad := r.check(); bad {
		e.Groups = []Group{{Reason: reason}}
		return e
	}
	e.Placement, e.Fits = f.Place(r)
	groups := map[Reason]*Group{}
	var fit []string
	count := func(reason Reason, wanted, most int64, n *node) {
		g := groups[reason]
		if g == nil {
			g = &Group{Reason: reason, Wanted: wanted}
			groups[reason] = g
		}
		g.Most = max(g.Most, most)
		g.Hosts = append(g.Hosts, n.host.ID)
	}
	for _, c := range f.list {
		reason, wanted, most := f.why(c.members[0], r)
		for _, n := range c.members {
			if reason == "" {
				fit = append(fit, n.host.ID)
				continue
			}
			count(reason, wanted, most, n)
		}
	}
	e.Suitable = len(fit)
	if !e.Fits && len(fit) > 0 {
		for _, id := range fit {
			count(ReasonGang, int64(r.Nodes), int64(f.together(r)), f.nodes[id])
		}
	}
	for _, g := range groups {
		slices.Sort(g.Hosts)
		e.Groups = append(e.Groups, *g)
	}
	slices.SortFunc(e.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(len(b.Hosts), len(a.Hosts)), strings.Compare(string(a.Reason), string(b.Reason)))
	})
	if !e.Fits {
		e.Changes = f.changes(r)
	}
	return e
}

// check finds what no host could hold.
func (r Request) check() (Reason, bool) {
	s := r.Share
	bad := r.Nodes < 0 || r.Count < 0 || s.Milli < 0 || (s.Kind == Whole) != (s.Milli == 0 && s.Profile == "") || s.Milli >= WholeMilli ||
		(s.Kind == MIG) != (s.Profile != "") || (s.Kind == MIG && s.Milli != 0) || (s.Kind != Whole && r.Count == 0)
	return ReasonInvalid, bad
}

// why is the first reason why a host does not hold a node; empty: it does.
func (f *Fleet) why(n *node, r Request) (reason Reason, wanted, most int64) {
	if reason := n.refuses(r); reason != "" {
		return reason, 0, 0
	}
	if reason, wanted, most := f.whyGPU(n, r); reason != "" {
		return reason, wanted, most
	}
	need := r.need()
	for i, reason := range amountReasons {
		if n.free[i] < need[i] {
			return reason, need[i], n.free[i]
		}
	}
	return "", 0, 0
}

func (f *Fleet) whyGPU(n *node, r Request) (reason Reason, wanted, most int64) {
	if r.Count == 0 {
		return "", 0, 0
	}
	reason = ReasonModel
	for _, model := range n.hw.kinds {
		if len(r.Models) > 0 && !slices.Contains(r.Models, model) {
			continue
		}
		free, part, whole := 0, int16(0), 0
		for i, s := range n.slots {
			if n.hw.models[i] != model {
				continue
			}
			if s.whole() {
				whole++
			}
			if s.whole() || (r.Share.Kind != Whole && s.kind == r.Share.Kind && s.milli >= int16(r.Share.Milli)) {
				free++
			}
			if s.whole() || s.kind == r.Share.Kind {
				part = max(part, s.milli)
			}
		}
		var got bool
		switch r.Share.Kind {
		case Whole:
			got = free-n.held(r.Owner, model) >= r.Count
		case MIG:
			at, _ := n.cuts(r, model)
			got = at != nil
			free = 0
			for k := r.Count; k > 0 && free == 0; k-- {
				less := r
				less.Count = k
				if at, _ := n.cuts(less, model); at != nil {
					free = k
				}
			}
		default:
			got = free-min(whole, n.held(r.Owner, model)) >= r.Count
			if got && f.guarded(r.Share.Milli) && free-whole < r.Count {
				return ReasonGuarded, 0, 0
			}
		}
		switch {
		case got:
			return "", 0, 0
		case free >= r.Count && r.Share.Kind != MIG:
			reason, wanted, most = ReasonHeld, int64(r.Count), max(most, int64(free-n.held(r.Owner, model)))
		case r.Share.Milli > 0 && r.Count == 1:
			reason, wanted, most = ReasonGPU, int64(r.Share.Milli), max(most, int64(part))
		default:
			reason, wanted, most = ReasonGPU, int64(r.Count), max(most, int64(free))
		}
	}
	return reason, wanted, most
}

// together is how many nodes of a gang could start in one place of the level that
// it has to be within.
func (f *Fleet) together(r Request) int {
	all := f.options(r)
	most := 0
	for _, g := range grouped(all, func(o option) string { return o.node.host.domain(r.Within) }) {
		most = max(most, len(g))
	}
	return most
}

// changes tries one thing after another, the amounts that change least first.
func (f *Fleet) changes(r Request) []Change {
	var out []Change
	with := func(c Change, changed Request) bool {
		_, fits := f.Place(changed)
		if fits {
			out = append(out, c)
		}
		return fits
	}
	need := r.need()
	for i, field := range amountReasons {
		if need[i] == 0 {
			continue
		}
		changed := r
		changed.set(i, 0)
		if p, fits := f.Place(changed); fits {
			if most, ok := f.mostOf(changed, i, p); ok && most < need[i] {
				changed.set(i, most)
				with(Change{Field: field, From: need[i], To: most}, changed)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Change) int {
		return cmp.Compare(float64(b.To)/float64(b.From), float64(a.To)/float64(a.From))
	})
	if changed := r; len(r.Avoid) > 0 {
		changed.Avoid = nil
		with(Change{Field: ReasonAvoided, Any: r.Avoid}, changed)
	}
	if changed := r; len(r.Require)+len(r.Forbid) > 0 {
		changed.Require, changed.Forbid = nil, nil
		var names []string
		for k := range r.Require {
			names = append(names, k)
		}
		for k := range r.Forbid {
			names = append(names, k)
		}
		slices.Sort(names)
		with(Change{Field: ReasonLabel, Any: slices.Compact(names)}, changed)
	}
	if changed := r; len(r.Zones) > 0 {
		changed.Zones = nil
		if p, fits := f.Place(changed); fits {
			out = append(out, Change{Field: ReasonZone, Any: f.of(p, func(n *node, _ string) string { return n.hw.zone })})
		}
	}
	if changed := r; len(r.Regions) > 0 {
		changed.Regions, changed.Zones = nil, nil
		if p, fits := f.Place(changed); fits {
			out = append(out, Change{Field: ReasonRegion, Any: f.of(p, func(n *node, _ string) string { return n.hw.region })})
		}
	}
	if changed := r; r.Count > 0 && len(r.Models) > 0 {
		changed.Models = nil
		if p, fits := f.Place(changed); fits {
			out = append(out, Change{Field: ReasonModel, Any: f.of(p, func(n *node, uuid string) string {
				return n.host.GPUs[slices.IndexFunc(n.host.GPUs, func(g GPU) bool { return g.UUID == uuid })].Model
			})})
		}
	}
	for k := r.Count - 1; k > 0; k-- {
		changed := r
		changed.Count = k
		if with(Change{Field: ReasonGPU, From: int64(r.Count), To: int64(k)}, changed) {
			break
		}
	}
	if r.Nodes > 1 {
		if k := min(f.together(r), r.Nodes-1); k > 0 {
			changed := r
			changed.Nodes = k
			with(Change{Field: ReasonGang, From: int64(r.Nodes), To: int64(k)}, changed)
		}
	}
	return out
}

// mostOf is how much of an amount all nodes of the request can have.
func (f *Fleet) mostOf(r Request, i int, p Placement) (int64, bool) {
	if r.Nodes > 1 {
		// What the hosts of this placement have is enough to be told; others might
		// have more in a place that is less close.
		least := int64(-1)
		for _, c := range p.Nodes {
			if free := f.nodes[c.HostID].free[i]; least < 0 || free < least {
				least = free
			}
		}
		return least, least > 0
	}
	most := int64(0)
	need := r.need()
	for _, root := range f.roots(r) {
		root.walk(need, func(c *class) bool {
			if c.free[i] > most {
				if _, ok := f.try(c.members[0], r, need, f.classWorth); ok {
					most = c.free[i]
				}
			}
			return true
		})
	}
	return most, most > 0
}

func (r *Request) set(i int, v int64) {
	*[...]*int64{&r.CPUMillis, &r.MemoryMiB, &r.DiskMiB, &r.NetworkMbps, &r.Ports}[i] = v
}

// of lists what a placement uses, sorted and each once.
func (f *Fleet) of(p Placement, what func(n *node, uuid string) string) []string {
	var out []string
	for _, c := range p.Nodes {
		n := f.nodes[c.HostID]
		uuids := c.GPUs
		if len(uuids) == 0 {
			uuids = []string{""}
		}
		for _, uuid := range uuids {
			out = append(out, what(n, uuid))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Refusal says why a request got no place.
type Refusal struct {
	Request Request
	Explanation
}

func (r *Refusal) Error() string {
	if r.Hosts == 0 {
		return "there is no host to choose from"
	}
	texts := make([]string, 0, 4)
	for i, g := range r.Groups {
		if i == 3 {
			texts = append(texts, fmt.Sprintf("and %d more reasons", len(r.Groups)-i))
			break
		}
		text := map[Reason]string{
			ReasonInvalid: "nothing could hold this", ReasonRegion: "in other regions", ReasonZone: "in other zones", ReasonLabel: "not labelled so",
			ReasonAvoided: "with something to keep away from", ReasonModel: "without such GPUs", ReasonGuarded: "with only whole GPUs that are kept for whole ones",
		}[g.Reason]
		if g.Wanted > 0 {
			unit := map[Reason]string{ReasonGPU: "GPUs", ReasonHeld: "GPUs that are not held for others", ReasonCPU: "m CPU", ReasonMemory: "MiB of memory",
				ReasonDisk: "MiB of disk", ReasonNetwork: "Mbit/s", ReasonPorts: "ports", ReasonGang: "nodes together"}[g.Reason]
			if g.Reason == ReasonGPU && r.Request.Count == 1 && r.Request.Share.Milli > 0 {
				unit = "thousandths of a GPU"
			}
			text = fmt.Sprintf("%d %s wanted, at most %d free", g.Wanted, unit, g.Most)
		}
		texts = append(texts, fmt.Sprintf("%d hosts: %s", len(g.Hosts), text))
	}
	return strings.Join(texts, "; ")
}

// Choose finds a place for a request of one node among these hosts, or returns a
// *[Refusal].
func Choose(hosts []Host, r Request) (Choice, error) {
	f := NewFleet(Standard())
	for _, h := range hosts {
		f.Set(h)
	}
	if p, ok := f.Place(r); ok {
		return p.Nodes[0], nil
	}
	return Choice{}, &Refusal{Request: r, Explanation: f.Explain(r)}
}
