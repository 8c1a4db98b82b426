package billing

import (
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// usage returns what l has used by a moment. A running instance counts up to its
// last sign of life.
func (s *Service) usage(l *leaseRow, at time.Time) pricing.Usage {
	seen := l.confirmed
	if a := s.lastAlive(l.id); a.After(seen) {
		seen = a
	}
	return usageUntil(l, at, seen, time.Time{})
}

// projected returns what l will have used by a moment if what runs goes on. With
// a time in starting, a lease that does not run is taken to start then.
func projected(l *leaseRow, at, starting time.Time) pricing.Usage {
	if l.openInterval(pricing.Compute) != nil {
		starting = time.Time{}
	}
	u := usageUntil(l, at, at, starting)
	if m := l.monthly; m != nil && m.inForce() && m.onLapse == LapseStop {
		for i := range u.Compute { // it stops there, or another term pays for it
			u.Compute[i].End = earliest(u.Compute[i].End, latest(m.until, u.Compute[i].Start))
		}
	}
	return u
}

func usageUntil(l *leaseRow, at, seen, starting time.Time) pricing.Usage {
	var u pricing.Usage
	if l.reserved != nil {
		seen = at // held is held, whoever is heard of
	}
	u.Reserved = l.covered
	if l.monthly != nil {
		u.Prepaid = []pricing.Interval{l.monthly.covered()}
	}
	first := starting // the first run
	for _, i := range l.intervals {
		if i.meter != pricing.Compute {
			continue
		}
		if first.IsZero() || i.start.Before(first) {
			first = i.start
		}
		end := earliest(i.end, at, i.limit)
		if i.open() {
			end = earliest(end, seen)
			if seen.IsZero() {
				end = i.start
			}
		}
		u.Compute = append(u.Compute, l.priced(pricing.Interval{Start: i.start, End: end, Resumes: i.resumes, Evicted: i.evicted})...)
	}
	if l.kept {
		first, starting = l.begun, time.Time{}
	}
	if first.IsZero() {
		return pricing.Usage{} // never ran, never charged
	}
	if !starting.IsZero() {
		u.Compute = append(u.Compute, l.priced(pricing.Interval{Start: starting, End: at})...)
	}
	for _, i := range l.intervals {
		if i.meter != pricing.Storage {
			continue
		}
		start := i.start
		if start.Before(first) {
			start = first
		}
		u.Storage = append(u.Storage, pricing.Interval{Start: start, End: earliest(i.end, at)})
	}
	u.EgressBytes = l.egressBytes
	return u
}

// earliest returns the earliest of the times that are not zero.
func earliest(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if !t.IsZero() && (out.IsZero() || t.Before(out)) {
			out = t
		}
	}
	return out
}

func latest(times ...time.Time) time.Time {
	var out time.Time
	for _, t := range times {
		if t.After(out) {
			out = t
		}
	}
	return out
}

// sum adds up amounts by meter.
func sum(due map[pricing.Meter]money.Amount) (total money.Amount, err error) {
	for _, m := range pricing.Meters {
		if total, err = total.Add(due[m]); err != nil {
			return 0, err
		}
	}
	return total, nil
}
