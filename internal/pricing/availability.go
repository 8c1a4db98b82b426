package pricing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// Cause is what evidence says about why a lease was not available.
type Cause string

// The causes.
const (
	PlatformDown Cause = "platform"    // the control plane's or the site's fault
	HostDown     Cause = "host"        // the host's fault
	Maintenance  Cause = "maintenance" // planned; not counted if it was announced in time
)

// Evidence is a stretch in which a lease was not available, and who says so.
type Evidence struct {
	Cause       Cause     `json:"cause"`
	Start       time.Time `json:"start"`
	End         time.Time `json:"end"`          // not in it
	Source      string    `json:"source"`       // such as "agent" or "probe"
	Reference   string    `json:"reference"`    // where it is recorded
	AnnouncedAt time.Time `json:"announced_at"` // of maintenance
}

// Promise is what an operator promises about leases.
type Promise struct {
	MinimumSeconds int64    `json:"minimum_seconds"` // a shorter outage does not count
	NoticeSeconds  int64    `json:"notice_seconds"`  // maintenance announced later counts as an outage
	PlannedSeconds int64    `json:"planned_seconds"` // most of maintenance a month that is not counted; 0: no limit
	Credits        []Credit `json:"credits"`         // dearest promise first
}

// Credit is what is given back where availability is under a bound.
type Credit struct {
	BelowPPM    int64 `json:"below_ppm"`    // availability, in millionths
	BasisPoints int64 `json:"basis_points"` // of the lease's charge, in 1/100 %
}

// DefaultPromise is what holds where an operator says nothing else: 99.9 %, 99 %
// and 95 % give back 10 %, 25 % and all of the lease's charge.
func DefaultPromise() Promise {
	return Promise{
		MinimumSeconds: 60, NoticeSeconds: 72 * secondsPerHour,
		Credits: []Credit{{999_000, 1000}, {990_000, 2500}, {950_000, 10_000}},
	}
}

// Check reports the first thing that is wrong with p.
func (p Promise) Check() error {
	if p.MinimumSeconds < 0 || p.NoticeSeconds < 0 || p.PlannedSeconds < 0 {
		return fmt.Errorf("promise: minimum of %d s, notice of %d s, planned %d s: want at least 0", p.MinimumSeconds, p.NoticeSeconds, p.PlannedSeconds)
	}
	for i, c := range p.Credits {
		if c.BelowPPM < 0 || c.BelowPPM > ppm || c.BasisPoints < 0 || c.BasisPoints > basisPoints {
			return fmt.Errorf("promise: below %s gives %d basis points: want 0%% to 100%%, and 0 to 10000", percent(c.BelowPPM), c.BasisPoints)
		}
		if i > 0 && (p.Credits[i-1].BelowPPM <= c.BelowPPM || p.Credits[i-1].BasisPoints > c.BasisPoints) {
			return fmt.Errorf("promise: below %s comes after below %s: want lower bounds that give more", percent(c.BelowPPM), percent(p.Credits[i-1].BelowPPM))
		}
	}
	return nil
}

// Counted is a stretch that counts as down, with all that says so.
type Counted struct {
	Start    time.Time  `json:"start"`
	End      time.Time  `json:"end"`
	Host     bool       `json:"host_fault"` // some of the evidence is of the host's fault
	Evidence []Evidence `json:"evidence"`
}

// Availability is a lease's in one calendar month.
type Availability struct {
	Month           Period     `json:"month"`
	PromisedSeconds int64      `json:"promised_seconds"` // of the lease in the month, less what is excluded
	ExcludedSeconds int64      `json:"excluded_seconds"` // of planned maintenance
	DownSeconds     int64      `json:"down_seconds"`
	HostDownSeconds int64      `json:"host_down_seconds"` // of DownSeconds, with evidence of the host's fault
	PPM             int64      `json:"availability_ppm"`  // rounded down
	Outages         []Counted  `json:"outages"`
	Excluded        []Evidence `json:"excluded"` // maintenance that was announced in time
	CreditPPM       int64      `json:"credit_below_ppm"`
	BasisPoints     int64      `json:"credit_basis_points"` // of the lease's charge
}

// Measure computes a lease's availability in the calendar month of the account's
// zone that a moment is in: 1 − down ÷ (promised − excluded), where promised is the
// time in which the renter wanted it to run. Outages that overlap or touch are one;
// an outage that is shorter than the promise's minimum, also counted beyond the
// month's ends, is none.
func Measure(p Promise, promised []Interval, evidence []Evidence, at time.Time, timeZone string) (Availability, error) {
	if err := p.Check(); err != nil {
		return Availability{}, err
	}
	month, err := MonthOf(at, timeZone)
	if err != nil {
		return Availability{}, err
	}
	out := Availability{Month: month}
	whole := []Interval{{Start: month.Start, End: month.End}}
	wanted := union(promised)
	inMonth := intersect(wanted, whole)

	sorted := slices.Clone(evidence)
	slices.SortStableFunc(sorted, func(a, b Evidence) int {
		return cmp.Or(a.Start.Compare(b.Start), a.End.Compare(b.End), cmp.Compare(a.Cause, b.Cause), cmp.Compare(a.Reference, b.Reference), cmp.Compare(a.Source, b.Source))
	})
	sorted = slices.Compact(sorted)
	var planned, down, host []Interval
	for _, e := range sorted {
		i := Interval{Start: e.Start, End: e.End}
		switch {
		case e.Cause == Maintenance && !e.AnnouncedAt.IsZero() && !e.AnnouncedAt.Add(time.Duration(p.NoticeSeconds)*time.Second).After(e.Start):
			planned = append(planned, i)
			if len(intersect(union([]Interval{i}), inMonth)) > 0 {
				out.Excluded = append(out.Excluded, e)
			}
		case e.Cause == HostDown || e.Cause == Maintenance: // a host's maintenance without notice is its fault
			host = append(host, i)
			down = append(down, i)
		case e.Cause == PlatformDown:
			down = append(down, i)
		default:
			return out, fmt.Errorf("evidence %s: cause %q: want platform, host or maintenance", e.Reference, e.Cause)
		}
	}
	excluded := limited(intersect(union(planned), inMonth), p.PlannedSeconds)
	var counted []Interval
	for _, i := range union(down) {
		if i.End.Sub(i.Start) >= time.Duration(p.MinimumSeconds)*time.Second {
			counted = append(counted, i)
		}
	}
	// Maintenance beyond the limit is an outage like any other.
	over := subtract(intersect(union(planned), inMonth), excluded)
	counted = union(append(counted, over...))
	host = union(append(host, over...))
	for _, i := range counted {
		parts := subtract(intersect([]Interval{i}, inMonth), excluded)
		for _, part := range parts {
			c := Counted{Start: part.Start, End: part.End}
			for _, e := range sorted {
				if e.Start.Before(part.End) && part.Start.Before(e.End) {
					c.Evidence = append(c.Evidence, e)
				}
			}
			c.Host = len(intersect([]Interval{part}, host)) > 0
			out.Outages = append(out.Outages, c)
		}
	}
	downTime := subtract(intersect(counted, inMonth), excluded)
	promisedMicros := micros(inMonth) - micros(excluded)
	downMicros := micros(downTime)
	perSecond := int64(microsPerSecond)
	out.PromisedSeconds, out.ExcludedSeconds = promisedMicros/perSecond, micros(excluded)/perSecond
	out.DownSeconds, out.HostDownSeconds = downMicros/perSecond, micros(intersect(downTime, host))/perSecond
	out.PPM = ppm
	if promisedMicros > 0 {
		up, _, err := product(promisedMicros-downMicros, ppm).quoRem(uint64(promisedMicros))
		if err != nil {
			return out, err
		}
		out.PPM = up
	}
	for _, c := range p.Credits {
		if out.PPM < c.BelowPPM {
			out.CreditPPM, out.BasisPoints = c.BelowPPM, c.BasisPoints
		}
	}
	return out, nil
}

// Credit is what availability gives back of a lease's charge for the month.
func (a Availability) Credit(charge money.Amount) (money.Amount, error) {
	if charge < 0 {
		return 0, fmt.Errorf("credit of a charge of %s: want at least 0", charge)
	}
	return part(charge, a.BasisPoints, basisPoints)
}

// intersect returns the moments that are in both of two sorted unions.
func intersect(a, b []Interval) []Interval {
	var out []Interval
	for i, j := 0, 0; i < len(a) && j < len(b); {
		from, to := a[i].Start, a[i].End
		if from.Before(b[j].Start) {
			from = b[j].Start
		}
		if b[j].End.Before(to) {
			to = b[j].End
		}
		if from.Before(to) {
			out = append(out, Interval{Start: from, End: to})
		}
		if a[i].End.Before(b[j].End) {
			i++
		} else {
			j++
		}
	}
	return out
}

// subtract returns the moments of a sorted union that are not in another.
func subtract(a, b []Interval) []Interval {
	var out []Interval
	for _, i := range a {
		from := i.Start
		for _, c := range intersect([]Interval{i}, b) {
			if from.Before(c.Start) {
				out = append(out, Interval{Start: from, End: c.Start})
			}
			from = c.End
		}
		if from.Before(i.End) {
			out = append(out, Interval{Start: from, End: i.End})
		}
	}
	return out
}

// limited returns the first so many seconds of a union; 0: all.
func limited(in []Interval, seconds int64) []Interval {
	if seconds == 0 {
		return in
	}
	left := time.Duration(seconds) * time.Second
	var out []Interval
	for _, i := range in {
		if left <= 0 {
			break
		}
		if d := i.End.Sub(i.Start); d > left {
			i.End = i.Start.Add(left)
		}
		left -= i.End.Sub(i.Start)
		out = append(out, i)
	}
	return out
}

func micros(in []Interval) (n int64) {
	for _, i := range in {
		n += i.End.Sub(i.Start).Microseconds()
	}
	return n
}
