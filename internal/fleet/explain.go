package fleet

import (
	"slices"

	"suanli.dev/internal/placement"
)

// ExplainPlacement says where a request of an account would go now, on the hosts
// that are on the market, or why each of them does not hold it and what would.
// It reserves nothing. Simulated hosts are looked at only if simulated, and then
// alone. It is of hosts as the service remembers them.
func (s *Service) ExplainPlacement(accountID string, r placement.Request, simulated bool) placement.Explanation {
	r.Owner = accountID
	var records []*record
	s.mu.RLock()
	for _, h := range s.hosts {
		if state, _ := s.state(h); (state == StateListed || state == StateDegraded) && h.record.Simulated == simulated {
			records = append(records, h.record)
		}
	}
	s.mu.RUnlock() // records do not change, and looking at many takes a while
	f := placement.NewFleet(placement.Standard())
	for _, h := range records {
		f.Set(h.placeable(accountID))
	}
	return f.Explain(r)
}

// placeable is the host with where it is and what an account must leave to others.
func (r *record) placeable(accountID string) placement.Host {
	h := r.snapshot()
	h.Region, h.Zone, h.Rack = r.Region, r.Zone, r.Rack
	var models []string
	for _, g := range h.GPUs {
		if slices.Contains(models, g.Model) {
			continue
		}
		models = append(models, g.Model)
		if n := r.heldFrom(accountID, g.Model); n > 0 {
			h.Holds = append(h.Holds, placement.Hold{Model: g.Model, GPUs: n})
		}
	}
	return h
}
