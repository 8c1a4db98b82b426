package auction

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"time"
)

// Market is all that is offered and wanted of one GPU model in one zone at one
// moment. Bundles of all sizes are in it, since they compete for the same GPUs;
// each size is a good of its own with a price of its own.
type Market struct {
	Zone  string `json:"zone"`
	Model string `json:"gpu_model"`
	Hosts []Host `json:"hosts"`
	Bids  []Bid  `json:"bids"`
	// Sizes are bundles whose ask is wanted although nobody may bid for them.
	Sizes  []int  `json:"sizes,omitempty"`
	Params Params `json:"params"`
}

// Params are the rules that an operator may set. The zero value of each field
// but Tick means none of it; Standard has what the documents promise.
type Params struct {
	// Tick is the smallest step of a bid, and by how much a newcomer has to be
	// better than who runs.
	Tick Price `json:"tick_per_gpu_hour"`
	// Notice is how long somebody who lost goes on running.
	Notice time.Duration `json:"notice_ns"`
	// MinRun is how long nobody can be outbid after having started.
	MinRun time.Duration `json:"minimum_run_ns"`
	// CoolDown is how long who was outbid waits before it can win again.
	CoolDown time.Duration `json:"cool_down_ns"`
}

// Standard is a tick of 0.0001 per GPU-hour, two minutes of notice, and one
// minute each that is run at least and waited after being outbid.
func Standard() Params {
	return Params{Tick: 100_000, Notice: 2 * time.Minute, MinRun: time.Minute, CoolDown: time.Minute}
}

// Host is what one machine gives to this market.
type Host struct {
	ID string `json:"id"`
	// GPUs are all of the model that may be let, OnDemand those of them that
	// leases of other plans have or are about to get. Spot has the rest.
	GPUs     int `json:"gpus"`
	OnDemand int `json:"on_demand_gpus"`
	// Floor is what the host wants at least. A change holds for who starts after
	// it; those who run have the floor that they started with.
	Floor Price `json:"floor_per_gpu_hour"`
}

// spot is how many GPUs bids may have.
func (h Host) spot() int { return max(h.GPUs-h.OnDemand, 0) }

// FloorRule says how a host's floor follows the market. The highest of the
// three parts counts, and Min and Max bound it; a Max of 0 is none.
type FloorRule struct {
	Fixed Price `json:"fixed_per_gpu_hour"`
	// OfOnDemand is a share of the median price on demand of the model in the
	// zone, OfLast one of the last clearing price, both in basis points (1/100
	// of a per cent). OfLast is at most 10,000, since a floor above the price
	// that it follows would push it up for ever.
	OfOnDemand int   `json:"of_on_demand_basis_points"`
	OfLast     int   `json:"of_last_basis_points"`
	Min        Price `json:"min_per_gpu_hour"`
	Max        Price `json:"max_per_gpu_hour"`
}

// Validate says what is wrong with the rule.
func (r FloorRule) Validate() error {
	for _, p := range []Price{r.Fixed, r.Min, r.Max} {
		if p < 0 || p > MaxPrice {
			return fmt.Errorf("floor of %s per GPU-hour: want 0 to %s", p.Display(), MaxPrice.Display())
		}
	}
	switch {
	case r.OfOnDemand < 0 || r.OfOnDemand > 100_000:
		return fmt.Errorf("floor of %d basis points of the price on demand: want 0 to 100000", r.OfOnDemand)
	case r.OfLast < 0 || r.OfLast > 10_000:
		return fmt.Errorf("floor of %d basis points of the last price: want 0 to 10000, since more would raise the price for ever", r.OfLast)
	case r.Max > 0 && r.Max < r.Min:
		return fmt.Errorf("floor between %s and %s per GPU-hour: the lower bound is above the upper one", r.Min.Display(), r.Max.Display())
	}
	return nil
}

// Floor is the floor by this rule when onDemand is the median price on demand
// and last the last clearing price, both 0 where there is none, rounded up to
// tick.
func (r FloorRule) Floor(onDemand, last, tick Price) Price {
	p := max(r.Fixed, onDemand.share(r.OfOnDemand), last.share(r.OfLast), r.Min)
	if r.Max > 0 {
		p = min(p, r.Max)
	}
	return p.ceil(tick)
}

// Bid is a standing wish for GPUs on one host, from when it is placed until it
// is withdrawn, whether it runs or not.
type Bid struct {
	ID      string `json:"id"`
	Account string `json:"account_id"`
	GPUs    int    `json:"gpus"`
	// Price is the bid, Max a limit that holds whatever Price becomes (0: none).
	// Nobody pays more than the lower of the two.
	Price    Price     `json:"bid_per_gpu_hour"`
	Max      Price     `json:"max_per_gpu_hour"`
	PlacedAt time.Time `json:"placed_at"`
	// Hosts are those that will do; nil means all.
	Hosts []string `json:"hosts,omitempty"`
	// Avoid are hosts that will not do for a while, such as the one that the bid
	// lost during its set-up.
	Avoid []Avoid `json:"avoid,omitempty"`
	// CoolUntil is when the bid may start again after having been outbid.
	CoolUntil time.Time `json:"cool_until,omitzero"`
	// Run is where the bid runs, nil where it does not.
	Run *Run `json:"run,omitempty"`
}

// Avoid is a host that a bid does not go to before Until.
type Avoid struct {
	Host  string    `json:"host"`
	Until time.Time `json:"until"`
}

// Run is a running bid's place. Its GPUs count as taken until the bid has none,
// so a host is not given to the next before the last has left.
type Run struct {
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	// Floor is that of the host when the bid started.
	Floor Price `json:"floor_per_gpu_hour"`
	// Price is what the bid paid last. It is what a bid goes on paying during its
	// notice when it was lowered under the price, so that nobody can pull down
	// what others pay by leaving.
	Price Price `json:"price_per_gpu_hour"`
	// LeaveAt is the end of the notice, zero where there is none.
	LeaveAt time.Time `json:"leave_at,omitzero"`
	// Yields says that a lease on demand waits for GPUs of the bid, which has to
	// leave whatever it bids, after its notice.
	Yields bool `json:"yields,omitempty"`
}

// Limit is the most that the bid pays.
func (b Bid) Limit() Price {
	if b.Max > 0 {
		return min(b.Price, b.Max)
	}
	return b.Price
}

// pays is the most that a bid that runs can be made to pay now.
func (b *Bid) pays() Price {
	if b.Run == nil {
		return b.Limit()
	}
	return max(b.Limit(), b.Run.Price)
}

// takes is whether the bid goes to a host.
func (b *Bid) takes(host string, now time.Time) bool {
	if b.Hosts != nil && !slices.Contains(b.Hosts, host) {
		return false
	}
	return !slices.ContainsFunc(b.Avoid, func(a Avoid) bool { return a.Host == host && a.Until.After(now) })
}

// picky is whether takes can be false.
func (b *Bid) picky() bool { return b.Hosts != nil || len(b.Avoid) > 0 }

// Validate says what is wrong with the bid.
func (b *Bid) Validate(tick Price) error {
	switch {
	case b.ID == "":
		return fmt.Errorf("a bid of account %q has no id", b.Account)
	case b.GPUs < 1 || b.GPUs > maxGPUs:
		return fmt.Errorf("bid %s is for %d GPUs: want 1 to %d", b.ID, b.GPUs, maxGPUs)
	case b.Price <= 0 || b.Price > MaxPrice:
		return fmt.Errorf("bid %s is %s per GPU-hour: want more than 0 and at most %s", b.ID, b.Price.Display(), MaxPrice.Display())
	case b.Max < 0 || b.Max > MaxPrice:
		return fmt.Errorf("bid %s is limited to %s per GPU-hour: want 0 for no limit, and at most %s", b.ID, b.Max.Display(), MaxPrice.Display())
	case b.Price%tick != 0 || b.Max%tick != 0:
		return fmt.Errorf("bid %s is %s per GPU-hour, limited to %s: want multiples of %s", b.ID, b.Price.Display(), b.Max.Display(), tick.Display())
	}
	return nil
}

// maxGPUs bounds a host and a bid. A Kubernetes cluster counts as one host.
const maxGPUs = 10_000

func (m *Market) validate() error {
	p := m.Params
	if p.Tick < 1 || p.Tick > MaxPrice {
		return fmt.Errorf("market %s %s has a tick of %s: want more than 0", m.Zone, m.Model, p.Tick.Display())
	}
	if p.Notice < 0 || p.MinRun < 0 || p.CoolDown < 0 {
		return fmt.Errorf("market %s %s has notice %s, minimum run %s and cool-down %s: want none below 0", m.Zone, m.Model, p.Notice, p.MinRun, p.CoolDown)
	}
	for _, n := range m.Sizes {
		if n < 1 || n > maxGPUs {
			return fmt.Errorf("market %s %s is asked for bundles of %d GPUs: want 1 to %d", m.Zone, m.Model, n, maxGPUs)
		}
	}
	hosts := make(map[string]bool, len(m.Hosts))
	for i := range m.Hosts {
		h := &m.Hosts[i]
		switch {
		case h.ID == "" || hosts[h.ID]:
			return fmt.Errorf("market %s %s has a host %q without an id or twice", m.Zone, m.Model, h.ID)
		case h.GPUs < 0 || h.GPUs > maxGPUs || h.OnDemand < 0:
			return fmt.Errorf("host %s has %d GPUs, of which %d on demand: want 0 to %d", h.ID, h.GPUs, h.OnDemand, maxGPUs)
		case h.Floor < 0 || h.Floor > MaxPrice:
			return fmt.Errorf("host %s has a floor of %s per GPU-hour: want 0 to %s", h.ID, h.Floor.Display(), MaxPrice.Display())
		}
		hosts[h.ID] = true
	}
	for i := range m.Bids {
		if err := m.Bids[i].Validate(p.Tick); err != nil {
			return err
		}
	}
	if id, twice := repeated(m.Bids); twice {
		return fmt.Errorf("bid %s is in the market %s %s twice", id, m.Zone, m.Model)
	}
	return nil
}

// repeated finds an id that two bids have. A set of hashes is several times as
// fast as a map of ids, and a map decides where two hashes are the same.
func repeated(bids []Bid) (string, bool) {
	mask := uint64(1)<<bits.Len(uint(2*len(bids))) - 1
	seen, seed := make([]uint64, mask+1), maphash.MakeSeed()
	same := false
	for i := range bids {
		h := maphash.String(seed, bids[i].ID) | 1 // 0 is an empty place
		at := h >> 8 & mask
		for seen[at] != 0 && seen[at] != h {
			at = (at + 1) & mask
		}
		same = same || seen[at] == h
		seen[at] = h
	}
	if !same {
		return "", false
	}
	ids := make(map[string]bool, len(bids))
	for i := range bids {
		if id := bids[i].ID; ids[id] {
			return id, true
		}
		ids[bids[i].ID] = true
	}
	return "", false
}
