package earning

import (
	"slices"
	"time"

	"suanli.dev/internal/pricing"
)

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ended is the end of a stretch, or now while it goes on.
func ended(until, now time.Time) time.Time {
	if until.IsZero() {
		return now
	}
	return until
}

// within cuts stretches to a time.
func within(in []pricing.Interval, from, until time.Time) []pricing.Interval {
	var out []pricing.Interval
	for _, i := range in {
		if i := (pricing.Interval{Start: later(i.Start, from), End: earlier(i.End, until)}); i.Start.Before(i.End) {
			out = append(out, i)
		}
	}
	return out
}

// without cuts stretches out of another.
func without(i pricing.Interval, cuts []pricing.Interval) []pricing.Interval {
	left := []pricing.Interval{i}
	for _, c := range cuts {
		if !c.Start.Before(c.End) {
			continue // an empty one would cut a stretch in two that both have the moment
		}
		var next []pricing.Interval
		for _, l := range left {
			next = append(next, within([]pricing.Interval{l}, l.Start, c.Start)...)
			next = append(next, within([]pricing.Interval{l}, c.End, l.End)...)
		}
		left = next
	}
	return left
}

// merged joins stretches that overlap, so that no moment counts twice.
func merged(in []pricing.Interval) []pricing.Interval {
	all := slices.Clone(in)
	slices.SortFunc(all, func(a, b pricing.Interval) int { return a.Start.Compare(b.Start) })
	var out []pricing.Interval
	for _, i := range all {
		if n := len(out); n > 0 && !i.Start.After(out[n-1].End) {
			out[n-1].End = later(out[n-1].End, i.End)
			continue
		}
		out = append(out, i)
	}
	return out
}

func micros(in []pricing.Interval) (n int64) {
	for _, i := range in {
		n += i.End.Sub(i.Start).Microseconds()
	}
	return n
}

func sum(in []int64) (n int64) {
	for _, v := range in {
		n += v
	}
	return n
}
