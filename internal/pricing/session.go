package pricing

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"suanli.dev/internal/money"
)

// PriceChange is a price of compute that the renter has agreed to, in force from
// a moment on. A running lease's price changes in no other way.
type PriceChange struct {
	From    time.Time  `json:"from"`
	Compute money.Rate `json:"compute_per_hour"`
}

// step is a rate that is in force from a moment on.
type step struct {
	from time.Time
	rate money.Rate
}

// stretch is a part of a session without a break. A session's seconds are
// numbered from its start, with breaks left out.
type stretch struct {
	Interval
	before time.Duration // of the session, used before this stretch
}

// moment returns when a second of the session begins, if it begins in s.
func (s stretch) moment(second int64) time.Time {
	return s.Start.Add(time.Duration(second)*time.Second - s.before)
}

// second returns the first second of the session that begins at a moment of s or
// later.
func (s stretch) second(at time.Time) int64 {
	return ceilSeconds(s.before + at.Sub(s.Start))
}

// used returns how long the session has run by the end of s.
func (s stretch) used() time.Duration { return s.before + s.End.Sub(s.Start) }

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// sessions returns the sessions of compute intervals, each in its stretches. An
// eviction at the moment of a price change leaves an interval of no length, which
// uses nothing and still says how the stretch that ends there ended.
func sessions(in []Interval) [][]stretch {
	evicted := map[int64]bool{}
	for _, i := range in {
		if end := i.End.UnixMicro(); i.Evicted && i.Start.UnixMicro() == end {
			evicted[end] = true
		}
	}
	var out [][]stretch
	for _, i := range union(in) {
		i.Evicted = i.Evicted || evicted[i.End.UnixMicro()]
		n := len(out)
		if n == 0 || !i.Resumes {
			out = append(out, []stretch{{Interval: i}})
			continue
		}
		s := out[n-1]
		out[n-1] = append(s, stretch{Interval: i, before: s[len(s)-1].used()})
	}
	return out
}

// steps returns the rates of compute through time.
func steps(q Quote, in []Interval) ([]step, error) {
	if q.Plan != Spot {
		out := []step{{rate: q.Tariff.Compute}}
		for i, c := range q.PriceChanges {
			if c.Compute < 0 {
				return nil, fmt.Errorf("price change at %s: a price of %s: want at least 0", c.From, c.Compute)
			}
			if i > 0 && !q.PriceChanges[i-1].From.Before(c.From) {
				return nil, fmt.Errorf("price change at %s: it is not after the one before", c.From)
			}
			out = append(out, step{c.From, c.Compute})
		}
		return out, nil
	}
	priced := make([]Interval, 0, len(in))
	for _, i := range in {
		i.Start, i.End = i.Start.UTC().Truncate(time.Microsecond), i.End.UTC().Truncate(time.Microsecond)
		if i.Rate < 0 {
			return nil, fmt.Errorf("use from %s: a price of %s: want at least 0", i.Start, i.Rate)
		}
		if i.Start.Before(i.End) {
			priced = append(priced, i)
		}
	}
	slices.SortFunc(priced, func(a, b Interval) int { return a.Start.Compare(b.Start) })
	var out []step
	var until time.Time // everything before has its rate
	for n, i := range priced {
		if n > 0 && i.Start.Before(until) && i.Rate != out[len(out)-1].rate {
			// Which is right cannot be known here, and picking one would hide it.
			return nil, fmt.Errorf("use from %s has two prices, %s and %s an hour", i.Start, out[len(out)-1].rate, i.Rate)
		}
		if n == 0 || i.Rate != out[len(out)-1].rate {
			out = append(out, step{i.Start, i.Rate})
		}
		if i.End.After(until) {
			until = i.End
		}
	}
	return out, nil
}

// band is a run of a session's seconds with one rate, up to where the next begins.
type band struct {
	from int64
	rate money.Rate
}

// bands returns the rates of a session's seconds. A charged unit (a second, minute
// or hour since the session's start) costs what was in force when it began, and
// the minimum is bought at the start, so what is due never falls when a price does.
func bands(t Tariff, prices []step, session []stretch) []band {
	unit := t.Granularity.Seconds()
	locked := roundUp(t.MinimumSeconds, unit)
	var out []band
	add := func(second int64, r money.Rate) {
		if len(out) > 0 {
			second = max(roundUp(second, unit), locked)
			if last := &out[len(out)-1]; second == last.from {
				last.rate = r
				return
			}
		}
		out = append(out, band{second, r})
	}
	for _, s := range session {
		n := sort.Search(len(prices), func(i int) bool { return prices[i].from.After(s.Start) })
		if n > 0 {
			add(ceilSeconds(s.before), prices[n-1].rate)
		}
		for ; n < len(prices) && prices[n].from.Before(s.End); n++ {
			add(s.second(prices[n].from), prices[n].rate)
		}
	}
	return out
}

// seconds is a run of a session's seconds: from is in it, to is not.
type seconds struct{ from, to int64 }

// coveredSeconds returns which of a session's seconds begin in covered time. With
// beyond, those count too that the session is only rounded up to, and all of them if it
// ends in covered time or with it.
func coveredSeconds(session []stretch, covered []Interval, beyond bool) []seconds {
	var out []seconds
	for n, s := range session {
		open := beyond && n == len(session)-1
		first := sort.Search(len(covered), func(i int) bool { return covered[i].End.After(s.Start) })
		for _, c := range covered[first:] {
			from, to := c.Start, c.End
			if !open && !from.Before(s.End) {
				break
			}
			if from.Before(s.Start) {
				from = s.Start
			}
			if !open && s.End.Before(to) {
				to = s.End
			}
			if a, b := s.second(from), s.second(to); open && !s.End.After(c.End) && !s.End.Before(c.Start) {
				// It ended in them, also where they ended with it: whatever it is rounded up to is paid.
				out = append(out, seconds{a, math.MaxInt64})
			} else if a < b {
				out = append(out, seconds{a, b})
			}
		}
	}
	return out
}

// merged returns the seconds that are in any of the runs, in order.
func merged(runs []seconds) []seconds {
	slices.SortFunc(runs, func(a, b seconds) int { return cmp.Compare(a.from, b.from) })
	out := runs[:0]
	for _, r := range runs {
		if n := len(out); n > 0 && r.from <= out[n-1].to {
			out[n-1].to = max(out[n-1].to, r.to)
			continue
		}
		out = append(out, r)
	}
	return out
}

// waives reports whether a session is free since the platform ended it too soon.
func (q Quote) waives(session []stretch) bool {
	end := session[len(session)-1]
	return end.Evicted && end.used() < time.Duration(q.EvictionFreeSeconds)*time.Second
}

// pricedItems rates compute whose price may change and of which a part may be
// paid for otherwise. All of a lease's seconds × rate are summed exactly and
// rounded once; an item's amount is the difference that it makes.
func pricedItems(q Quote, in, prepaid, reserved []Interval) ([]Item, error) {
	t := q.Tariff
	switch {
	case t.Granularity.Seconds() == 0:
		return nil, fmt.Errorf("granularity %q: want second, minute or hour", t.Granularity)
	case t.MinimumSeconds < 0 || t.MinimumSeconds > maxMinimum:
		return nil, fmt.Errorf("minimum of %d seconds: want 0 to %d", t.MinimumSeconds, maxMinimum)
	case t.Compute < 0:
		return nil, fmt.Errorf("compute price %s: want at least 0", t.Compute)
	case q.EvictionFreeSeconds < 0 || q.EvictionFreeSeconds > maxMinimum:
		return nil, fmt.Errorf("free for %d seconds when evicted: want 0 to %d", q.EvictionFreeSeconds, maxMinimum)
	}
	prices, err := steps(q, in)
	if err != nil {
		return nil, err
	}
	prepaid, reserved = union(prepaid), union(reserved)
	var items []Item
	var sum wide
	var before money.Amount
	for _, session := range sessions(in) {
		waived := q.waives(session)
		rates := bands(q.Tariff, prices, session)
		free := merged(append(coveredSeconds(session, prepaid, true), coveredSeconds(session, reserved, false)...))
		var counted int64
		for _, s := range session {
			counts, err := chargedSeconds(q.Tariff, s.used())
			if err != nil {
				return nil, err
			}
			item := Item{Meter: Compute, Per: secondsPerHour, Waived: waived}
			used, from := int64(s.used()/time.Second), counted
			counted = max(counts, counted)
			if waived {
				item.Interval, item.Used, item.Rate = s.Interval, used-min(used, int64(s.before/time.Second)), rates[0].rate
				items = append(items, item)
				continue
			}
			start := s.Start
			for first := true; first || from < counted; first = false {
				to := counted
				n := sort.Search(len(rates), func(i int) bool { return rates[i].from > from })
				item.Rate, item.Covered = rates[n-1].rate, false
				if n < len(rates) {
					to = min(to, rates[n].from)
				}
				if n := sort.Search(len(free), func(i int) bool { return free[i].to > from }); n < len(free) {
					if item.Covered = free[n].from <= from; item.Covered {
						to = min(to, free[n].to)
					} else {
						to = min(to, free[n].from)
					}
				}
				to = max(to, from)
				item.Charged = to - from
				already := min(used, from)
				if first {
					already = int64(s.before / time.Second) // also where rounding up ran ahead
				}
				item.Used = min(used, to) - already
				item.Interval = Interval{Start: start, End: s.End, Resumes: s.Resumes || !first}
				if to < counted {
					if m := s.moment(to); m.Before(s.End) && m.After(start) {
						item.Interval.End = m
					}
				}
				start = item.Interval.End
				if !item.Covered {
					if sum, err = sum.plus(product(int64(item.Rate), item.Charged)); err != nil {
						return nil, err
					}
				}
				total, err := sum.over(secondsPerHour * nanoPerMicro)
				if err != nil {
					return nil, err
				}
				item.Amount = money.Amount(total) - before
				before = money.Amount(total)
				items = append(items, item)
				from = to
			}
		}
	}
	return items, nil
}

// nanoPerMicro is how many units of a money.Rate are in one of a money.Amount.
const nanoPerMicro = 1_000
