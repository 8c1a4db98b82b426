package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"suanli.dev/internal/money"
)

// Host is a host that could be a node, by one of its offers.
type Host struct {
	OfferID, ID        string
	Region, Zone, Rack string
	Rate               money.Rate // of the node's bundle, per hour
	Waits              bool       // for leases of the spot market to leave
	NetMbps            int64      // the smaller of what it sends and takes; 0: not known
}

// fastMbps is what a host needs to be part of a fast network.
const fastMbps = 10_000

// Wish is which hosts a cluster wants.
type Wish struct {
	Nodes int
	// Fast keeps nodes in one zone, in one rack if there is one with room, on hosts
	// with 10 Gbit/s or more.
	Fast bool
	// Near are the hosts of nodes that there are already; they are not chosen again.
	Near []Host
	// Avoid are hosts that failed lately, by identifier.
	Avoid map[string]bool
}

// Shortage says why hosts do not suffice, and what would.
type Shortage struct {
	Wanted, Offered, Avoided, Slow int
	// Largest is the most nodes that one place has, when the cluster wants one place.
	Largest int
	Place   string
}

func (s *Shortage) Error() string {
	var why []string
	if s.Avoided > 0 {
		why = append(why, fmt.Sprintf("%d failed or has a node of it already", s.Avoided))
	}
	if s.Slow > 0 {
		why = append(why, fmt.Sprintf("%d have less than 10 Gbit/s", s.Slow))
	}
	text := fmt.Sprintf("%d hosts are wanted at once and %d have this many GPUs free", s.Wanted, s.Offered)
	if len(why) > 0 {
		text += " (of them " + strings.Join(why, ", ") + ")"
	}
	if s.Place != "" {
		text += fmt.Sprintf("; the most in one zone is %d, in %s", s.Largest, s.Place)
	}
	return text
}

// Choose returns hosts for a cluster's nodes: each on its own, as near to each other as
// there is room, and of equally near ones the cheapest. It is a pure function, and the
// order of what is offered does not matter. The error is a *Shortage.
func Choose(offered []Host, w Wish) ([]Host, error) {
	short := &Shortage{Wanted: w.Nodes}
	taken := map[string]bool{}
	for _, h := range w.Near {
		taken[h.ID] = true
	}
	best := map[string]Host{}
	for _, h := range offered {
		if was, ok := best[h.ID]; !ok || order(h, was) < 0 {
			best[h.ID] = h
		}
	}
	short.Offered = len(best)
	var fit []Host
	for _, h := range best {
		switch {
		case taken[h.ID] || w.Avoid[h.ID]:
			short.Avoided++
		case w.Fast && h.NetMbps < fastMbps:
			short.Slow++
		default:
			fit = append(fit, h)
		}
	}
	slices.SortFunc(fit, order)
	// The nearest scope first in which there is room for all of them.
	scopes := []func(Host) string{rack, zone}
	if !w.Fast {
		scopes = append(scopes, func(h Host) string { return "region " + h.Region }, func(Host) string { return "anywhere" })
	}
	for _, scope := range scopes {
		groups := map[string][]Host{}
		for _, h := range fit {
			if k := scope(h); k != "" && near(w.Near, scope, k) {
				groups[k] = append(groups[k], h)
			}
		}
		var chosen []Host
		for _, k := range slices.Sorted(keys(groups)) {
			if g := groups[k]; len(g) >= w.Nodes && (chosen == nil || sum(g[:w.Nodes]) < sum(chosen)) {
				chosen = g[:w.Nodes]
			}
		}
		if chosen != nil {
			return slices.Clone(chosen), nil
		}
	}
	if w.Fast {
		count := map[string]int{}
		for _, h := range fit {
			count[h.Zone]++
		}
		for _, z := range slices.Sorted(keys(count)) {
			if count[z] > short.Largest {
				short.Largest, short.Place = count[z], z
			}
		}
	}
	return nil, short
}

func rack(h Host) string {
	if h.Rack == "" {
		return ""
	}
	return strings.Join([]string{"rack", h.Region, h.Zone, h.Rack}, "/")
}

func zone(h Host) string { return strings.Join([]string{"zone", h.Region, h.Zone}, "/") }

// near reports whether a place is that of the nodes that there are.
func near(have []Host, scope func(Host) string, place string) bool {
	return !slices.ContainsFunc(have, func(h Host) bool { return scope(h) != place })
}

func order(a, b Host) int {
	waits := func(h Host) int {
		if h.Waits {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(waits(a), waits(b)), cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.ID, b.ID), cmp.Compare(a.OfferID, b.OfferID))
}

func sum(list []Host) (total money.Rate) {
	for _, h := range list {
		total += h.Rate
	}
	return total
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
