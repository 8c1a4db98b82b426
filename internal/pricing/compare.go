package pricing

import (
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// Market is all that the prices of one bundle depend on at a moment.
type Market struct {
	GPUModel string
	Zone     string
	GPUs     int64
	Tariff   Tariff // on demand

	Clearing *money.Rate // spot, for the bundle and hour; nil: no spot market
	PerMonth *money.Amount
	Terms    []TermDiscount // of months in advance
	Curve    *Curve         // of reservations; nil: none
	Bounds   Bounds         // the operator's, of Curve
	Trial    *Grant         // what the account has, or would get; nil: none
}

// Why an option cannot be had.
const (
	NotOffered   = "not_offered"   // there is no price for the plan
	BidTooLow    = "bid_too_low"   // the market clears above the bid
	TrialExpired = "trial_expired" // or used up
)

// Option is what a request costs under one plan, term and way to pay.
type Option struct {
	Plan       string       `json:"plan"`
	TermMonths int          `json:"term_months,omitempty"`
	Payment    Upfront      `json:"payment,omitempty"`
	Available  bool         `json:"available"`
	Why        string       `json:"why,omitempty"` // a code, where it is not
	DueNow     money.Amount `json:"due_now"`       // before anything runs
	Totals     Totals       `json:"totals"`        // ForRun has all that must be paid for the run, whole terms included
	// NotIncluded has codes, see NotIncludedEgress and on.
	NotIncluded []string `json:"not_included"`
	Quote       *Quote   `json:"quote,omitempty"`
	Reservation *Priced  `json:"reservation,omitempty"`
}

// Comparison is a request's price under all plans, side by side.
type Comparison struct {
	QuotedAt time.Time      `json:"quoted_at"`
	Currency money.Currency `json:"currency"`
	Request  Request        `json:"request"`
	Options  []Option       `json:"options"` // in the order of Plans, then by term and payment
}

// Compare prices a request under all plans. The request's own plan is ignored.
// It is deterministic: the same arguments give the same bytes in JSON.
func Compare(m Market, r Request, at time.Time) (Comparison, error) {
	out := Comparison{QuotedAt: at.UTC().Truncate(time.Microsecond), Currency: m.Tariff.Currency}
	r.Prepaid = nil
	if r.RunSeconds == 0 {
		r.RunSeconds = secondsPerHour
	}
	if r.TimeZone == "" {
		r.TimeZone = "UTC"
	}
	out.Request = r
	out.Request.Plan = ""
	ask := func(plan string) Request {
		r := r
		if r.Plan = plan; plan != Spot {
			r.Bid = 0
		}
		return r
	}
	onDemand, err := NewQuote(m.Tariff, ask(OnDemand), at)
	if err != nil {
		return out, fmt.Errorf("compare: %w", err)
	}
	out.Options = append(out.Options, quoted(onDemand))
	for _, add := range []func() ([]Option, error){
		func() ([]Option, error) { return m.spot(ask(Spot), at) },
		func() ([]Option, error) { return m.reserved(ask(Reserved), at) },
		func() ([]Option, error) { return m.monthly(ask(Monthly), at) },
		func() ([]Option, error) { return m.trial(ask(Trial), at) },
	} {
		options, err := add()
		if err != nil {
			return out, fmt.Errorf("compare: %w", err)
		}
		out.Options = append(out.Options, options...)
	}
	return out, nil
}

func quoted(q Quote) Option {
	return Option{Plan: q.Plan, Available: true, Totals: q.Totals, NotIncluded: q.NotIncluded, Quote: &q}
}

func missing(plan string) []Option {
	return []Option{{Plan: plan, Why: NotOffered, NotIncluded: []string{}}}
}

func (m Market) spot(r Request, at time.Time) ([]Option, error) {
	if m.Clearing == nil {
		return missing(Spot), nil
	}
	if r.Bid == 0 {
		r.Bid = m.Tariff.Compute // who names no bid means at most what others pay
	}
	t := m.Tariff
	t.Compute, t.Granularity, t.MinimumSeconds = *m.Clearing, Second, 0
	q, err := NewQuote(t, r, at)
	if err != nil {
		return nil, err
	}
	o := quoted(q)
	if r.Bid < *m.Clearing {
		o.Available, o.Why = false, BidTooLow
	}
	return []Option{o}, nil
}

func (m Market) reserved(r Request, at time.Time) ([]Option, error) {
	if m.Curve == nil || len(m.Curve.Terms) == 0 {
		return missing(Reserved), nil
	}
	q, err := NewQuote(m.Tariff, r, at)
	if err != nil {
		return nil, err
	}
	list, err := product(int64(m.Tariff.Compute), 1).over(uint64(max(1, m.GPUs)))
	if err != nil {
		return nil, err
	}
	run := time.Duration(r.RunSeconds) * time.Second
	month, err := MonthOf(at, r.TimeZone)
	if err != nil {
		return nil, err
	}
	var out []Option
	for _, term := range m.Curve.Terms {
		for _, payment := range []Upfront{NoUpfront, PartialUpfront, AllUpfront} {
			p, err := Reserve(Purchase{
				GPUModel: m.GPUModel, Zone: m.Zone, GPUs: m.GPUs, Currency: m.Tariff.Currency, ListHourly: money.Rate(list),
				From: at, TimeZone: r.TimeZone, Months: term.Months, Payment: payment, Commission: m.Tariff.CommissionBasisPoints,
			}, *m.Curve, m.Bounds)
			if err != nil {
				return nil, err
			}
			o := Option{Plan: Reserved, TermMonths: term.Months, Payment: payment, Available: true, DueNow: p.Reservation.UpfrontDue, NotIncluded: q.NotIncluded, Reservation: &p}
			last, err := PeriodAt(at, r.TimeZone, term.Months, at.Add(run-time.Microsecond))
			if err != nil {
				return nil, err
			}
			compute := q.Lines[0]
			seconds := p.Hours * secondsPerHour
			for _, f := range []struct {
				total, line money.Amount
				seconds     int64
				sum         *money.Amount
			}{
				{q.Totals.PerHour, compute.PerHour, secondsPerHour, &o.Totals.PerHour},
				{q.Totals.PerDay, compute.PerDay, secondsPerDay, &o.Totals.PerDay},
				{q.Totals.PerMonth, compute.PerMonth, int64(month.End.Sub(month.Start) / time.Second), &o.Totals.PerMonth},
				{q.Totals.ForRun, compute.ForRun, int64(last.Number+1) * seconds, &o.Totals.ForRun},
			} {
				part, err := part(p.Total, f.seconds, seconds)
				if err != nil {
					return nil, err
				}
				if *f.sum, err = sumOf(f.total, -f.line, part); err != nil {
					return nil, err
				}
			}
			out = append(out, o)
		}
	}
	return out, nil
}

func (m Market) monthly(r Request, at time.Time) ([]Option, error) {
	if m.PerMonth == nil {
		return missing(Monthly), nil
	}
	var out []Option
	for _, months := range Terms {
		p, err := NewPrepaid(at, r.TimeZone, *m.PerMonth, months, m.Terms, false)
		if err != nil {
			return nil, err
		}
		r.Prepaid = &p
		q, err := NewQuote(m.Tariff, r, at)
		if err != nil {
			return nil, err
		}
		o := quoted(q)
		o.TermMonths = months
		if o.DueNow, err = p.TermPrice(); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func (m Market) trial(r Request, at time.Time) ([]Option, error) {
	if m.Trial == nil {
		return missing(Trial), nil
	}
	g := *m.Trial
	q, err := NewQuote(m.Tariff, r, at)
	if err != nil {
		return nil, err
	}
	o := quoted(q)
	if g.Available(at) == 0 || (len(g.GPUModels) > 0 && !slices.Contains(g.GPUModels, m.GPUModel)) {
		o.Available, o.Why = false, TrialExpired
		return []Option{o}, nil
	}
	run := Interval{Start: q.QuotedAt, End: q.QuotedAt.Add(time.Duration(r.RunSeconds) * time.Second)}
	spends, err := Spends(q, Usage{
		Compute: []Interval{run}, Storage: []Interval{run}, PublicIPs: []Kept{{"", r.PublicIPs, run}},
		Snapshots: []Kept{{"", r.SnapshotGiB, run}}, Volumes: []Kept{{"", r.VolumeGiB, run}},
	}, "", m.GPUModel, []time.Time{g.ExpiresAt})
	if err != nil {
		return nil, err
	}
	draws, _, err := DrawGrants([]Grant{g}, spends)
	if err != nil {
		return nil, err
	}
	for _, d := range draws {
		o.Totals.ForRun -= d.Amount
	}
	return []Option{o}, nil
}
