package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"suanli.dev/internal/placement"
	"suanli.dev/internal/pricing"
)

// KindLabel is the label of a [Room]'s host that names its kind.
const KindLabel = "kind"

// Room is a host on the market, as those see it who plan for requests that wait.
type Room struct {
	// Host is what is free there now and what is held for whom. Each kind that it is of
	// is a label "kind:…", so that a request can do without hosts of a kind.
	placement.Host
	// Claimable are its GPUs that leases of the spot market have and a lease on demand
	// may claim.
	Claimable []string
	// Kind is the same for hosts whose bundles cost and are the same, whatever is free.
	Kind string
}

// Rooms returns the hosts that are on the market, simulated ones or the others, as the
// service remembers them.
func (s *Service) Rooms(simulated bool) []Room {
	var out []Room
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, h := range s.hosts {
		if state, _ := s.state(h); (state != StateListed && state != StateDegraded) || h.record.Simulated != simulated || h.record.Inventory == nil {
			continue
		}
		r := h.record
		room := Room{Host: r.snapshot(), Kind: s.kind(h)}
		room.Region, room.Zone, room.Rack = r.Region, r.Zone, r.Rack
		room.Labels = map[string]string{KindLabel + ":" + room.Kind: "1"}
		for k, held := range r.held() {
			if n := held - r.used[k]; n > 0 {
				room.Holds = append(room.Holds, placement.Hold{Owner: k.account, Model: k.model, GPUs: n})
			}
		}
		slices.SortFunc(room.Holds, func(a, b placement.Hold) int { return strings.Compare(a.Owner+a.Model, b.Owner+b.Model) })
		for _, g := range r.GPUs {
			if r.claimable(g) {
				room.Claimable = append(room.Claimable, g.UUID)
			}
		}
		out = append(out, room)
	}
	slices.SortFunc(out, func(a, b Room) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// kind is all of a host that decides what a bundle of it is and costs. It needs s.mu.
func (s *Service) kind(h *host) string {
	e := s.emptied(h)
	if e == nil {
		return "none"
	}
	var b strings.Builder
	fmt.Fprint(&b, e.region, "/", e.storage, "/", e.egress)
	for _, g := range e.groups {
		fmt.Fprintf(&b, "/%s:%d:%d:%d:%d:%s:%s:%s:%d", g.model, g.rate, g.units, g.cpuMillis, g.memoryMiB, g.capability, g.driver, g.maxCUDA, g.counts[0])
	}
	return b.String()
}

// emptied is what a host would offer if nothing ran there; nil: nothing. It needs s.mu.
func (s *Service) emptied(h *host) *entry {
	r := *h.record
	r.GPUs = slices.Clone(r.GPUs)
	for i := range r.GPUs {
		r.GPUs[i].LeaseID, r.GPUs[i].ClaimedBy = "", ""
	}
	r.CPUMillis, r.MemoryMiB, r.DiskMiB = 0, 0, 0
	r.Holdings, r.used, r.Spot, r.Leaving = nil, nil, nil, nil
	return s.entry(&host{record: &r, live: h.live}, "")
}

// OfferWhenEmpty returns the offer of a bundle as it would be if nothing ran on its
// host, priced as [Service.Offer] does. false: the host has no such bundle at all.
func (s *Service) OfferWhenEmpty(_ context.Context, hostID, gpuModel string, gpus int, diskGiB int64, timeZone string) (Offer, bool, error) {
	month, err := pricing.SecondsOfMonth(timeZone, s.clock())
	if err != nil {
		return Offer{}, false, err
	}
	s.mu.RLock()
	var e *entry
	if h := s.hosts[hostID]; h != nil {
		e = s.emptied(h)
	}
	s.mu.RUnlock()
	if e == nil {
		return Offer{}, false, nil
	}
	for i := range e.groups {
		if g := &e.groups[i]; g.model == gpuModel && slices.Contains(g.counts, gpus) {
			o, err := s.offer(e, g, gpus, diskGiB, month)
			return o, err == nil, err
		}
	}
	return Offer{}, false, nil
}
