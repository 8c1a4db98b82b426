package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/protocol"
)

// State is what a host is doing, for people; the first that applies, in the
// order of their declaration.
type State string

// The states of a host. Only a Listed host has offers.
const (
	StateRefused     State = "refused"     // simulated, in a cloud that does not allow it
	StateJoining     State = "joining"     // enrolled, and has not reported yet
	StateAwaited     State = "awaited"     // the cloud has just started; the host is expected to report
	StateOffline     State = "offline"     // has missed three heartbeats
	StateInvalid     State = "invalid"     // its inventory contradicts itself
	StateNotReady    State = "not_ready"   // the agent says that it cannot run anything
	StateUntested    State = "untested"    // no passed self-test for what it runs now
	StateMaintenance State = "maintenance" // announced by its provider
	StateDraining    State = "draining"
	StateUnlisted    State = "unlisted"
	StateDegraded    State = "degraded" // listed, with GPUs missing, fenced or dirty
	StateListed      State = "listed"
)

// Host is a host as its provider sees it.
type Host struct {
	ID, AccountID, Name string
	Region, Zone, Rack  string
	Build               string
	Simulated           bool
	CreatedAt           time.Time
	State               State
	Reason              string // of the state, for people; may be empty
	LastSeen            time.Time
	ClockSkew           time.Duration // host minus cloud, at the last report
	ReliabilityBasis    int64         // basis points, 10,000 is perfect
	Inventory           *protocol.Inventory
	GPUs                []HostGPU
	Total, Free         Amounts
	Leases              []string // that have GPUs or CPU now
	Listing             Listing
	Maintenance         Window
}

// HostGPU is a GPU of a host.
type HostGPU struct {
	UUID    string
	Index   int
	Model   string
	Present bool
	Health  protocol.HealthState
	Reason  string
	LeaseID string
	Stats   protocol.GPUStats
}

// Amounts are sizes of what can be rented.
type Amounts struct {
	GPUs                          int
	CPUMillis, MemoryMiB, DiskMiB int64
}

// Host returns one host of p's account, or any for an operator.
func (s *Service) Host(_ context.Context, p account.Principal, hostID string) (Host, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	if h == nil || !owns(p, h.record) {
		return Host{}, noHost(hostID)
	}
	return s.view(h), nil
}

// Hosts lists the hosts of p's account, or all for an operator, by ID.
func (s *Service) Hosts(_ context.Context, p account.Principal) []Host {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Host
	for _, h := range s.hosts {
		if owns(p, h.record) {
			out = append(out, s.view(h))
		}
	}
	slices.SortFunc(out, func(a, b Host) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// Provider sums up the hosts of one account.
type Provider struct {
	AccountID        string
	Hosts            int
	Online           int
	GPUs, FreeGPUs   int // real ones
	SimulatedGPUs    int
	Models           []string
	Regions          []string
	ReliabilityBasis int64 // mean of its hosts
}

// Providers lists the accounts that have hosts, by ID.
func (s *Service) Providers(_ context.Context) []Provider {
	s.mu.RLock()
	defer s.mu.RUnlock()
	byID := map[string]*Provider{}
	for _, h := range s.hosts {
		p := byID[h.record.AccountID]
		if p == nil {
			p = &Provider{AccountID: h.record.AccountID}
			byID[p.AccountID] = p
		}
		p.Hosts++
		p.ReliabilityBasis += s.reliability(h)
		online := h.live.online
		if online {
			p.Online++
		}
		if !slices.Contains(p.Regions, h.record.Region) {
			p.Regions = append(p.Regions, h.record.Region)
		}
		for _, g := range h.record.GPUs {
			if !g.Present {
				continue
			}
			if h.record.Simulated {
				p.SimulatedGPUs++
				continue
			}
			p.GPUs++
			if online && g.LeaseID == "" && g.ClaimedBy == "" && h.record.fit(g) {
				p.FreeGPUs++
			}
			if !slices.Contains(p.Models, g.Model) {
				p.Models = append(p.Models, g.Model)
			}
		}
	}
	out := make([]Provider, 0, len(byID))
	for _, p := range byID {
		p.ReliabilityBasis /= int64(p.Hosts)
		slices.Sort(p.Models)
		slices.Sort(p.Regions)
		out = append(out, *p)
	}
	slices.SortFunc(out, func(a, b Provider) int { return strings.Compare(a.AccountID, b.AccountID) })
	return out
}

// view needs s.mu.
func (s *Service) view(h *host) Host {
	r, l := h.record, h.live
	v := Host{
		ID: r.ID, AccountID: r.AccountID, Name: r.Name, Region: r.Region, Zone: r.Zone, Rack: r.Rack, Build: r.Build,
		Simulated: r.Simulated, CreatedAt: r.CreatedAt, LastSeen: l.lastSeen, ClockSkew: l.skew,
		ReliabilityBasis: s.reliability(h), Inventory: r.Inventory, Listing: r.Listing, Maintenance: r.Maintenance,
	}
	v.State, v.Reason = s.state(h)
	c := r.capacity()
	v.Total = Amounts{CPUMillis: c.CPUMillis, MemoryMiB: c.MemoryMiB, DiskMiB: c.DiskMiB}
	v.Free = Amounts{CPUMillis: max(0, c.CPUMillis-r.CPUMillis), MemoryMiB: max(0, c.MemoryMiB-r.MemoryMiB), DiskMiB: max(0, c.DiskMiB-r.DiskMiB)}
	for _, g := range r.GPUs {
		v.Total.GPUs++
		if g.LeaseID == "" && g.ClaimedBy == "" && r.fit(g) {
			v.Free.GPUs++
		}
		if g.LeaseID != "" && !slices.Contains(v.Leases, g.LeaseID) {
			v.Leases = append(v.Leases, g.LeaseID)
		}
		v.GPUs = append(v.GPUs, HostGPU{
			UUID: g.UUID, Index: g.Position, Model: g.Model, Present: g.Present, Health: g.Health, Reason: g.Reason,
			LeaseID: g.LeaseID, Stats: l.stats[g.UUID],
		})
	}
	return v
}

// state needs s.mu.
func (s *Service) state(h *host) (State, string) {
	r, l := h.record, h.live
	now := s.clock()
	switch {
	case r.Simulated && !s.cfg.AllowSimulated:
		return StateRefused, "it has simulated GPUs, which this cloud does not allow"
	case l.awaited:
		return StateAwaited, ""
	case !l.online && l.lastSeen.IsZero():
		return StateJoining, ""
	case !l.online:
		return StateOffline, "last seen at " + l.lastSeen.UTC().Format(time.RFC3339)
	case r.Inventory == nil && r.InventoryProblem == "":
		return StateJoining, "its inventory has not arrived yet"
	case r.InventoryProblem != "":
		return StateInvalid, r.InventoryProblem
	case l.statsProblem != "":
		return StateInvalid, l.statsProblem
	case !l.ready:
		return StateNotReady, l.problem
	}
	if reason := untested(r); reason != "" {
		return StateUntested, reason
	}
	switch {
	case r.Maintenance.Contains(now):
		return StateMaintenance, "until " + r.Maintenance.Until.Format(time.RFC3339)
	case r.Draining:
		return StateDraining, ""
	case r.Listing.Unlisted:
		return StateUnlisted, ""
	case !r.Listing.EndsAt.IsZero() && !now.Before(r.Listing.EndsAt):
		return StateUnlisted, "its listing ended at " + r.Listing.EndsAt.Format(time.RFC3339)
	}
	var bad []string
	for _, g := range r.GPUs {
		switch {
		case !g.Present:
			bad = append(bad, fmt.Sprintf("GPU %d is missing", g.Position))
		case g.Health != protocol.Healthy:
			bad = append(bad, fmt.Sprintf("GPU %d is %s: %s", g.Position, g.Health, g.Reason))
		case !slices.Contains(r.Tested.GPUs, g.UUID):
			bad = append(bad, fmt.Sprintf("GPU %d came after the self-test", g.Position))
		}
	}
	if len(bad) > 0 {
		return StateDegraded, strings.Join(bad, "; ")
	}
	if l.duplicates > 0 {
		return StateListed, "another machine uses this host's key and is refused"
	}
	return StateListed, l.problem
}

// untested says why a host's self-test does not let it be offered, or "".
func untested(r *record) string {
	test := r.Inventory.SelfTest
	if test.RanAt == (protocol.Instant{}) {
		return "its self-test has not run yet"
	}
	if !test.Passed {
		var failed []string
		for _, c := range test.Checks {
			if !c.Passed && !c.Skipped {
				failed = append(failed, c.Name+": "+c.Detail)
			}
		}
		return "its self-test failed: " + strings.Join(failed, "; ")
	}
	if r.Tested.Engine != engine(r.Inventory) {
		return "its container engine or driver changed since the self-test; the agent runs it again"
	}
	return ""
}
