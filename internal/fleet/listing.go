package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

// Listing is what a provider asks for a host. Its zero value is on the market
// at the operator's default prices as soon as the host has passed its self-test.
type Listing struct {
	Unlisted bool `json:"unlisted,omitempty"`
	// PerGPUHour has prices of models on the host; others have the defaults.
	PerGPUHour         map[string]money.Rate `json:"per_gpu_hour,omitempty"`
	PerCPUHour         *money.Rate           `json:"per_cpu_hour,omitempty"`
	StoragePerGiBMonth *money.Rate           `json:"storage_per_gib_month,omitempty"`
	EgressPerGB        *money.Rate           `json:"egress_per_gb,omitempty"`
	// SpotFloorPerGPUHour is the least that bids pay, by model, and SpotFloorRule
	// how the floors of all models follow the market; the higher of the two counts.
	// Without either it is StandardFloor.
	SpotFloorPerGPUHour map[string]money.Rate `json:"spot_floor_per_gpu_hour,omitempty"`
	SpotFloorRule       *auction.FloorRule    `json:"spot_floor_rule,omitempty"`
	// Reserve is what is taken off for reservations; nil: none are offered.
	Reserve *pricing.Curve `json:"reserve,omitempty"`
	// MinGPUs is the smallest bundle offered; 0 and 1 mean any.
	MinGPUs int `json:"min_gpus,omitempty"`
	// EndsAt is when the host leaves the market; zero: never.
	EndsAt time.Time `json:"ends_at,omitzero"`
}

// ListingChange changes the fields that are not nil.
type ListingChange struct {
	PerGPUHour         map[string]money.Rate // by model; adds to and replaces
	PerCPUHour         *money.Rate
	StoragePerGiBMonth *money.Rate
	EgressPerGB        *money.Rate

	SpotFloorPerGPUHour map[string]money.Rate // by model; adds to and replaces
	SpotFloorRule       *auction.FloorRule    // the zero rule: none

	Reserve *pricing.Curve // one without terms: none

	MinGPUs *int
	EndsAt  *time.Time // the zero time: no end
}

// SetListing changes a host's prices and terms. Leases that run keep theirs.
func (s *Service) SetListing(ctx context.Context, p account.Principal, hostID string, c ListingChange) (Host, error) {
	// Whose it is comes first: a stranger learns nothing by what is wrong with the rest.
	h, err := s.Host(ctx, p, hostID)
	if err != nil {
		return Host{}, err
	}
	if err := s.checkChange(c); err != nil {
		return Host{}, err
	}
	if err := checkModels(h, c); err != nil {
		return Host{}, err
	}
	return s.change(ctx, p, hostID, "host.set_listing", c, func(r *record) {
		l := &r.Listing
		if len(c.PerGPUHour) > 0 {
			prices := map[string]money.Rate{}
			maps.Copy(prices, l.PerGPUHour)
			maps.Copy(prices, c.PerGPUHour)
			l.PerGPUHour = prices
		}
		if c.PerCPUHour != nil {
			l.PerCPUHour = c.PerCPUHour
		}
		if c.StoragePerGiBMonth != nil {
			l.StoragePerGiBMonth = c.StoragePerGiBMonth
		}
		if c.EgressPerGB != nil {
			l.EgressPerGB = c.EgressPerGB
		}
		if len(c.SpotFloorPerGPUHour) > 0 {
			floors := map[string]money.Rate{}
			maps.Copy(floors, l.SpotFloorPerGPUHour)
			maps.Copy(floors, c.SpotFloorPerGPUHour)
			l.SpotFloorPerGPUHour = floors
		}
		if c.SpotFloorRule != nil {
			if l.SpotFloorRule = c.SpotFloorRule; *c.SpotFloorRule == (auction.FloorRule{}) {
				l.SpotFloorRule = nil
			}
		}
		if c.Reserve != nil {
			if l.Reserve = c.Reserve; len(c.Reserve.Terms) == 0 {
				l.Reserve = nil
			}
		}
		if c.MinGPUs != nil {
			l.MinGPUs = *c.MinGPUs
		}
		if c.EndsAt != nil {
			l.EndsAt = c.EndsAt.UTC()
		}
	})
}

// checkModels refuses prices of models that a host does not have, which would be
// the price of nothing. One that has reported none yet may be priced ahead.
func checkModels(h Host, c ListingChange) error {
	var have []string
	for _, g := range h.GPUs {
		if !slices.Contains(have, g.Model) {
			have = append(have, g.Model)
		}
	}
	for model := range c.PerGPUHour {
		if _, priced := h.Listing.PerGPUHour[model]; len(have) > 0 && !priced && !slices.Contains(have, model) {
			return fault.New(fault.Invalid, "unknown_gpu_model", "host %s has no GPU of the model %q; it has: %s", h.ID, model, strings.Join(have, ", ")).At("body.per_gpu_hour")
		}
	}
	return nil
}

func (s *Service) checkChange(c ListingChange) error {
	check := func(field string, r *money.Rate) error {
		if r == nil {
			return nil
		}
		if err := checkRate(*r); err != nil {
			return fault.New(fault.Invalid, "bad_price", "%s: %w", field, err).At("body." + field)
		}
		return nil
	}
	if len(c.PerGPUHour) > 64 {
		return fault.New(fault.Invalid, "bad_price", "prices of %d GPU models were given; a host has at most 64", len(c.PerGPUHour)).At("body.per_gpu_hour")
	}
	for model, r := range c.PerGPUHour {
		if model == "" || len(model) > 100 {
			return fault.New(fault.Invalid, "bad_price", "a GPU model's name has 1 to 100 bytes").At("body.per_gpu_hour")
		}
		if err := check("per_gpu_hour", &r); err != nil {
			return err
		}
	}
	if err := checkFloors(c); err != nil {
		return err
	}
	if err := s.checkCurve(c.Reserve); err != nil {
		return err
	}
	for field, r := range map[string]*money.Rate{
		"per_cpu_hour": c.PerCPUHour, "storage_per_gib_month": c.StoragePerGiBMonth, "egress_per_gb": c.EgressPerGB,
	} {
		if err := check(field, r); err != nil {
			return err
		}
	}
	if c.MinGPUs != nil && (*c.MinGPUs < 0 || *c.MinGPUs > maxGPUs) {
		return fault.New(fault.Invalid, "bad_min_gpus", "min_gpus is %d; want 0 to %d", *c.MinGPUs, maxGPUs).At("body.min_gpus")
	}
	if c.EndsAt != nil && !c.EndsAt.IsZero() && c.EndsAt.Before(s.clock()) {
		return fault.New(fault.Invalid, "bad_end", "ends_at %s is in the past", c.EndsAt.Format(time.RFC3339)).At("body.ends_at")
	}
	return nil
}

// List puts a host on the market. Its self-test must hold for what it runs now.
func (s *Service) List(ctx context.Context, p account.Principal, hostID string) (Host, error) {
	h, err := s.Host(ctx, p, hostID)
	if err != nil {
		return Host{}, err
	}
	switch h.State {
	case StateUntested, StateInvalid:
		return Host{}, fault.New(fault.Conflict, "not_ready_to_list", "host %s cannot be listed: %s", hostID, h.Reason)
	}
	return s.change(ctx, p, hostID, "host.list", nil, func(r *record) { r.Listing.Unlisted = false })
}

// Unlist takes a host off the market. Leases on it go on, and may be stopped and started.
func (s *Service) Unlist(ctx context.Context, p account.Principal, hostID string) (Host, error) {
	return s.change(ctx, p, hostID, "host.unlist", nil, func(r *record) { r.Listing.Unlisted = true })
}

// Drain stops new leases and starts of stopped ones; what runs goes on. With
// on false the host takes leases again.
func (s *Service) Drain(ctx context.Context, p account.Principal, hostID string, on bool) (Host, error) {
	return s.change(ctx, p, hostID, "host.drain", map[string]bool{"on": on}, func(r *record) { r.Draining = on })
}

// SetMaintenance announces when a host will be away: nothing new starts on it
// within the window, and its absence then is no fault. A zero window takes the
// announcement back.
func (s *Service) SetMaintenance(ctx context.Context, p account.Principal, hostID string, w Window) (Host, error) {
	if _, err := s.Host(ctx, p, hostID); err != nil {
		return Host{}, err
	}
	if w != (Window{}) {
		if !w.Until.After(w.From) || w.Until.Before(s.clock()) || w.Until.Sub(w.From) > 90*24*time.Hour {
			return Host{}, fault.New(fault.Invalid, "bad_window", "maintenance from %s until %s: want an end after the beginning, in the future, and at most 90 days",
				w.From.Format(time.RFC3339), w.Until.Format(time.RFC3339)).At("body.until")
		}
	}
	w = Window{From: w.From.UTC(), Until: w.Until.UTC()}
	return s.change(ctx, p, hostID, "host.maintenance", w, func(r *record) { r.Maintenance = w })
}

// InMaintenance reports whether a host's announced absence includes t.
func (s *Service) InMaintenance(hostID string, t time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	return h != nil && h.record.Maintenance.Contains(t)
}

// change applies edit to a host that p may change, and to what is stored of it
// that a provider sets.
func (s *Service) change(ctx context.Context, p account.Principal, hostID, action string, detail any, edit func(*record)) (Host, error) {
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := readHost(ctx, tx, hostID, tx.ForUpdate(), s.record(hostID))
		if err != nil {
			return err
		}
		if r == nil || !owns(p, r) {
			return noHost(hostID)
		}
		was := r.Maintenance
		edit(r)
		listing, err := json.Marshal(r.Listing)
		if err != nil {
			return err
		}
		draining := int64(0)
		if r.Draining {
			draining = 1
		}
		_, err = tx.Exec(ctx, `UPDATE fleet_hosts SET listing = ?, draining = ?, maintenance_from = ?, maintenance_until = ? WHERE id = ?`,
			string(listing), draining, store.Micros(r.Maintenance.From), store.Micros(r.Maintenance.Until), hostID)
		if err != nil {
			return err
		}
		if err := s.announce(ctx, tx, r, was, r.Maintenance); err != nil {
			return err
		}
		return s.audit(ctx, tx, p, action, hostID, detail)
	})
	if err != nil {
		if _, ok := fault.As(err); ok {
			return Host{}, err
		}
		return Host{}, fmt.Errorf("%s: %w", action, err)
	}
	s.Refresh(ctx, hostID)
	return s.Host(ctx, p, hostID)
}

// Remove forgets a host that has no lease. Its agent must enrol again.
func (s *Service) Remove(ctx context.Context, p account.Principal, hostID string) error {
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := readHost(ctx, tx, hostID, tx.ForUpdate(), s.record(hostID))
		if err != nil {
			return err
		}
		if r == nil || !owns(p, r) {
			return noHost(hostID)
		}
		var leases int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM fleet_reservations WHERE host_id = ?`, hostID).Scan(&leases); err != nil {
			return err
		}
		if leases > 0 {
			return fault.New(fault.Conflict, "host_in_use", "host %s has %d leases; drain it and wait for their end, or end them", hostID, leases)
		}
		if len(r.Holdings) > 0 {
			return fault.New(fault.Conflict, "host_in_use", "host %s has %d reservations, which outlast leases; it can be removed when they are over", hostID, len(r.Holdings))
		}
		for _, q := range []string{`DELETE FROM fleet_gpus WHERE host_id = ?`, `DELETE FROM fleet_hosts WHERE id = ?`} {
			if _, err := tx.Exec(ctx, q, hostID); err != nil {
				return err
			}
		}
		return s.audit(ctx, tx, p, "host.remove", hostID, nil)
	})
	if err != nil {
		if _, ok := fault.As(err); ok {
			return err
		}
		return fmt.Errorf("remove host: %w", err)
	}
	s.Refresh(ctx, hostID)
	return nil
}

const removedMessage = "this host was removed from the cloud; to offer it again, remove the agent's state folder and join with a new token"

// Removed reports whether a host was in this cloud and was taken out of it: the
// token by which it joined is kept. A cloud whose database was lost or put back
// does not say so of hosts that it has merely never heard of.
func (s *Service) Removed(ctx context.Context, hostID string) (bool, error) {
	if s.host(hostID) != nil || hostID == "" {
		return false, nil
	}
	removed := false
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		r, err := readHost(ctx, tx, hostID, "", nil)
		if err != nil || r != nil {
			return err // it has just joined, by another replica
		}
		var joined int64
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM fleet_join_tokens WHERE host_id = ?`, hostID).Scan(&joined); err != nil {
			return err
		}
		removed = joined > 0
		return nil
	})
	return removed, err
}

func owns(p account.Principal, r *record) bool { return p.Operator || p.AccountID == r.AccountID }

func noHost(hostID string) error {
	return fault.New(fault.NotFound, "host_not_found", "there is no host %q among yours; list yours to see their ids", hostID)
}

// terms are what the offers of a host cost.
type terms struct {
	gpu             func(model string) money.Rate
	cpu             money.Rate
	storage, egress money.Rate
}

func (s *Service) terms(l Listing) terms {
	d := s.cfg.Defaults
	or := func(r *money.Rate, other money.Rate) money.Rate {
		if r != nil {
			return *r
		}
		return other
	}
	return terms{
		gpu: func(model string) money.Rate {
			if r, ok := l.PerGPUHour[model]; ok {
				return r
			}
			if r, ok := d.PerGPUHour[model]; ok {
				return r
			}
			return d.OtherGPU
		},
		cpu:     or(l.PerCPUHour, d.PerCPUHour),
		storage: or(l.StoragePerGiBMonth, d.StoragePerGiBMonth),
		egress:  or(l.EgressPerGB, d.EgressPerGB),
	}
}
