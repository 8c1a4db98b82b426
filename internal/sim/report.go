package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
)

// Notice is what every report of a simulation says of itself.
const Notice = "SIMULATION: computed from a trace and a policy; nobody rented or paid anything"

// Waits is how long something waited before its first start.
type Waits struct {
	P50Seconds int64 `json:"p50_seconds"`
	P90Seconds int64 `json:"p90_seconds"`
	P99Seconds int64 `json:"p99_seconds"`
	MaxSeconds int64 `json:"max_seconds"`
}

// PlanReport is what became of the jobs of one plan.
type PlanReport struct {
	Plan       string `json:"plan"`
	Jobs       int    `json:"jobs"`
	Started    int    `json:"started"`
	Finished   int    `json:"finished"`
	GaveUp     int    `json:"gave_up"`     // waited longer than their patience
	Waiting    int    `json:"waiting"`     // at the end, for their first start
	GPUSeconds int64  `json:"gpu_seconds"` // that they ran
	// LostGPUSeconds is work since a checkpoint that had to be done again.
	LostGPUSeconds int64 `json:"lost_gpu_seconds"`
	// Cost is what renters pay, OnDemand what the same time costs on demand by the
	// second on the hosts where it was.
	Cost     money.Amount `json:"cost"`
	OnDemand money.Amount `json:"cost_on_demand"`
	Wait     Waits        `json:"wait"` // of those that started
	// Interruptions are how often a running job was stopped by others than its
	// renter, by reason: those of bids, and host_lost.
	Interruptions map[string]int `json:"interruptions"`
	// Interrupted is how many jobs that happened to.
	Interrupted int `json:"interrupted_jobs"`
}

// Total is the sum of all interruptions.
func (p PlanReport) Total() int {
	n := 0
	for _, v := range p.Interruptions {
		n += v
	}
	return n
}

// Evictions are interruptions that are not the market's doing: for leases on
// demand, and of hosts that were lost.
func (p PlanReport) Evictions() int {
	return p.Interruptions[string(auction.OnDemand)] + p.Interruptions["host_lost"]
}

// ModelReport is what one model's GPUs did.
type ModelReport struct {
	Model              string       `json:"gpu_model"`
	OfferedGPUSeconds  int64        `json:"offered_gpu_seconds"`
	OnDemandGPUSeconds int64        `json:"on_demand_gpu_seconds"`
	SpotGPUSeconds     int64        `json:"spot_gpu_seconds"`
	Utilisation        int64        `json:"utilisation_basis_points"` // of the two above, of what is offered
	Spot               []GoodReport `json:"spot"`                     // by bundle size, the smallest first
	Notices            int          `json:"notices"`
	Reprieves          int          `json:"reprieves"`
}

// GoodReport is the market's price of one bundle size while it had one.
type GoodReport struct {
	GPUs          int           `json:"gpus"`
	Min           auction.Price `json:"min_per_gpu_hour"`
	P10           auction.Price `json:"p10_per_gpu_hour"` // by time
	P50           auction.Price `json:"p50_per_gpu_hour"`
	P90           auction.Price `json:"p90_per_gpu_hour"`
	Max           auction.Price `json:"max_per_gpu_hour"`
	PricedSeconds int64         `json:"priced_seconds"`
}

// Report is what a simulation found. It is no statement about a cloud: see Notice.
type Report struct {
	Simulation  string         `json:"simulation"` // Notice
	Format      string         `json:"trace_format,omitempty"`
	Seed        uint64         `json:"seed"`
	Start       time.Time      `json:"start"` // in the trace's time
	Seconds     int64          `json:"seconds"`
	Jobs        int            `json:"jobs"`
	LeftOut     map[string]int `json:"left_out"` // of the trace, by reason
	Currency    money.Currency `json:"currency"`
	Revenue     money.Amount   `json:"revenue"` // all that renters pay
	Hosts       money.Amount   `json:"hosts_earn"`
	Commission  money.Amount   `json:"commission"`
	Utilisation int64          `json:"utilisation_basis_points"`
	Plans       []PlanReport   `json:"plans"`
	Models      []ModelReport  `json:"models"`
	Rounds      int            `json:"market_rounds"`
}

func (e *engine) report(t Trace, end time.Time) (Report, error) {
	r := Report{Simulation: Notice, Format: t.Format, Seed: e.policy.Seed, Start: e.start, Seconds: int64(end.Sub(e.start) / time.Second),
		Jobs: len(e.jobs), LeftOut: map[string]int{}, Currency: e.fleet.Currency, Rounds: e.rounds}
	for why, n := range t.LeftOut {
		r.LeftOut[why] += n
	}
	for _, plan := range []string{pricing.OnDemand, pricing.Spot} {
		p := PlanReport{Plan: plan, Interruptions: map[string]int{}}
		var waits []time.Duration
		for _, j := range e.jobs {
			if j.Plan != plan {
				continue
			}
			if j.noFit {
				r.LeftOut["no host is large enough"]++
				continue
			}
			if err := p.take(j, &r, e.policy.CommissionBasisPoints); err != nil {
				return r, fmt.Errorf("job %s: %w", j.ID, err)
			}
			if !j.started.IsZero() {
				waits = append(waits, j.started.Sub(j.Submitted))
			}
		}
		p.Wait = waitsOf(waits)
		r.Plans = append(r.Plans, p)
	}
	var used, offered int64
	for _, m := range e.markets {
		u := e.used[m]
		used, offered = used+u[0]+u[1], offered+e.offered[m]
		mr := ModelReport{Model: m.model, OfferedGPUSeconds: e.offered[m] / 1_000_000,
			OnDemandGPUSeconds: u[0] / 1_000_000, SpotGPUSeconds: u[1] / 1_000_000,
			Utilisation: share(u[0]+u[1], e.offered[m]), Spot: []GoodReport{}, Notices: m.notices, Reprieves: m.reprieves}
		for _, gpus := range slices.Sorted(maps.Keys(m.steps)) {
			if s := auction.Spreads(m.steps[gpus], e.start, end); s.Priced > 0 {
				mr.Spot = append(mr.Spot, GoodReport{gpus, s.Min, s.P10, s.P50, s.P90, s.Max, int64(s.Priced / time.Second)})
			}
		}
		r.Models = append(r.Models, mr)
	}
	r.Utilisation = share(used, offered)
	return r, nil
}

// take adds a job to its plan and to the whole.
func (p *PlanReport) take(j *job, r *Report, commissionBasisPoints int64) error {
	p.Jobs++
	switch {
	case j.gaveUp:
		p.GaveUp++
	case j.started.IsZero():
		p.Waiting++
	default:
		p.Started++
	}
	if !j.ended.IsZero() {
		p.Finished++
	}
	p.GPUSeconds += int64(j.GPUs) * int64(j.ran/time.Second)
	p.LostGPUSeconds += int64(j.GPUs) * int64((j.ran-j.done)/time.Second)
	for why, n := range j.stopped {
		p.Interruptions[why] += n
	}
	if len(j.stopped) > 0 {
		p.Interrupted++
	}
	var err error
	if p.OnDemand, err = p.OnDemand.Add(j.onDemand); err != nil {
		return err
	}
	for _, l := range j.leases {
		due, err := pricing.Due(l.quote, pricing.Usage{Compute: l.usage})
		if err != nil {
			return err
		}
		charge := due[pricing.Compute]
		host, commission, err := pricing.Split(charge, commissionBasisPoints)
		if err != nil {
			return err
		}
		for _, s := range []struct {
			sum  *money.Amount
			part money.Amount
		}{{&p.Cost, charge}, {&r.Revenue, charge}, {&r.Hosts, host}, {&r.Commission, commission}} {
			if *s.sum, err = s.sum.Add(s.part); err != nil {
				return err
			}
		}
	}
	return nil
}

// share is a part of a whole in basis points, rounded down.
func share(part, whole int64) int64 {
	if whole < 10_000 {
		return 0
	}
	return part / (whole / 10_000)
}

func waitsOf(waits []time.Duration) Waits {
	if len(waits) == 0 {
		return Waits{}
	}
	slices.Sort(waits)
	at := func(percent int) int64 { // the least that so many per cent did not exceed
		return int64(waits[(len(waits)*percent+99)/100-1] / time.Second)
	}
	return Waits{at(50), at(90), at(99), at(100)}
}
