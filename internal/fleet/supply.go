package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

// StandardFloor is the floor of hosts whose listing says nothing of it: 30 % of
// the median price on demand of the model in the zone, under which power and wear
// are hardly paid for.
var StandardFloor = auction.FloorRule{OfOnDemand: 3000}

// checkFloors reports what is wrong with the floors of a change.
func checkFloors(c ListingChange) error {
	if len(c.SpotFloorPerGPUHour) > 64 {
		return fault.New(fault.Invalid, "bad_price", "floors of %d GPU models were given; a host has at most 64", len(c.SpotFloorPerGPUHour)).At("body.spot_floor_per_gpu_hour")
	}
	for model, r := range c.SpotFloorPerGPUHour {
		if model == "" || len(model) > 100 {
			return fault.New(fault.Invalid, "bad_price", "a GPU model's name has 1 to 100 bytes").At("body.spot_floor_per_gpu_hour")
		}
		if err := checkRate(r); err != nil {
			return fault.New(fault.Invalid, "bad_price", "spot_floor_per_gpu_hour: %w", err).At("body.spot_floor_per_gpu_hour")
		}
	}
	if c.SpotFloorRule != nil {
		if err := c.SpotFloorRule.Validate(); err != nil {
			return fault.New(fault.Invalid, "bad_price", "spot_floor_rule: %w", err).At("body.spot_floor_rule")
		}
	}
	return nil
}

// floorRule is the rule of a model's floor.
func (l Listing) floorRule(model string) auction.FloorRule {
	fixed, given := l.SpotFloorPerGPUHour[model]
	rule := StandardFloor
	switch {
	case l.SpotFloorRule != nil:
		rule = *l.SpotFloorRule
	case given:
		rule = auction.FloorRule{}
	}
	rule.Fixed = max(rule.Fixed, auction.Price(fixed))
	return rule
}

// MarketKey names a spot market: what is real and what is simulated never meet.
type MarketKey struct {
	Zone      string
	Model     string
	Simulated bool
}

// Supply is what one host has of a market.
type Supply struct {
	HostID     string
	Open       bool // it takes new leases now
	MinGPUs    int  // the smallest bundle offered, at least 1
	PerGPUHour money.Rate
	Floor      auction.FloorRule
	// Free are its GPUs that could be rented now, Leases those that leases have.
	Free   int
	Leases map[string]int
	// Claimed are those of Leases that are promised to a lease on demand as soon as
	// the lease that has them has left.
	Claimed map[string]int
}

// Markets lists the markets that have GPUs, in order.
func (s *Service) Markets() []MarketKey {
	s.mu.RLock()
	defer s.mu.RUnlock()
	seen := map[MarketKey]bool{}
	for _, h := range s.hosts {
		for _, g := range h.record.GPUs {
			if g.Present || g.LeaseID != "" {
				seen[MarketKey{h.record.Zone, g.Model, h.record.Simulated}] = true
			}
		}
	}
	out := make([]MarketKey, 0, len(seen))
	for k := range seen {
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b MarketKey) int {
		if c := cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Model, b.Model)); c != 0 || a.Simulated == b.Simulated {
			return c
		}
		if a.Simulated {
			return 1
		}
		return -1
	})
	return out
}

// Supply returns what each host has of a market, by host. Who has which GPU is
// read in tx; the rest is what the hosts last said.
func (s *Service) Supply(ctx context.Context, tx *store.Tx, k MarketKey) ([]Supply, error) {
	var out []Supply
	devices := map[string][]gpu{} // of the model, by host
	records := map[string]*record{}
	s.mu.RLock()
	for id, h := range s.hosts {
		r := h.record
		if r.Zone != k.Zone || r.Simulated != k.Simulated {
			continue
		}
		for _, g := range r.GPUs {
			if g.Model == k.Model {
				devices[id] = append(devices[id], g)
			}
		}
		if len(devices[id]) == 0 {
			continue
		}
		state, _ := s.state(h)
		records[id] = r
		out = append(out, Supply{HostID: id, Open: state == StateListed || state == StateDegraded, MinGPUs: max(1, r.Listing.MinGPUs),
			PerGPUHour: s.terms(r.Listing).gpu(k.Model), Floor: r.Listing.floorRule(k.Model), Leases: map[string]int{}, Claimed: map[string]int{}})
	}
	s.mu.RUnlock()
	slices.SortFunc(out, func(a, b Supply) int { return strings.Compare(a.HostID, b.HostID) })
	holder, claimed := map[string]string{}, map[string]string{} // GPU → lease
	for part := range slices.Chunk(out, 500) {
		ids := make([]any, len(part))
		for i, h := range part {
			ids[i] = h.HostID
		}
		rows, err := tx.Query(ctx, `SELECT gpu_uuid, lease_id FROM fleet_allocations WHERE host_id IN (?`+strings.Repeat(", ?", len(ids)-1)+`)`, ids...)
		if err != nil {
			return nil, fmt.Errorf("supply: %w", err)
		}
		err = each(rows, func() error {
			var uuid, lease string
			err := rows.Scan(&uuid, &lease)
			holder[uuid] = lease
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("supply: %w", err)
		}
		promised, err := claims(ctx, tx, ids)
		if err != nil {
			return nil, fmt.Errorf("supply: %w", err)
		}
		maps.Copy(claimed, promised)
	}
	for i := range out {
		h := &out[i]
		for _, g := range devices[h.HostID] {
			switch lease, waits := holder[g.UUID], claimed[g.UUID]; {
			case lease != "":
				h.Leases[lease]++
				if waits != "" {
					h.Claimed[lease]++
				}
			case waits != "":
				h.Leases[waits]++ // which is about to get it
			case h.Open && records[h.HostID].fit(g):
				h.Free++
			}
		}
	}
	return out, nil
}

// OfferID is the ID of the offer of so many GPUs of a model on a host, if there
// is such an offer.
func OfferID(hostID, model string, gpus int) string {
	return hostID + "." + slug(model) + "." + strconv.Itoa(gpus)
}
