package billing

import (
	"slices"
	"sort"
	"strconv"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// reservedPayment says how what was paid upfront for a reservation, or came back of
// it, came about.
func (e *Explanation) reservedPayment(l *leaseRow, n int) error {
	e.Kind = ExplainsPrepayment
	e.advanceExchange(l)
	t, p := l.reserved.terms, l.reserved.payments[n]
	from, until := window(t)
	values := []string{
		"gpus", strconv.FormatInt(t.GPUs, 10), "model", t.GPUModel, "from", e.time(from), "until", e.time(until), "hours", strconv.FormatInt(t.Hours(), 10),
		"upfront", t.UpfrontDue.String(), "rate", t.Hourly.Display(), "list", t.ListHourly.Display(), "discount", percent(t.Discount),
	}
	switch p.Kind {
	case PaidUpfront:
		e.Recomputed = t.UpfrontDue
		e.say("reserved_upfront", append(values, "payment", "@upfront_"+string(t.Payment))...)
	case PaidLost:
		e.Kind = ExplainsUnused
		var before money.Amount
		for _, q := range l.reserved.payments[:n] {
			if q.Kind == PaidLost {
				before -= q.Amount
			}
		}
		var back money.Amount
		var seconds int64
		for i, v := range l.asHeldBefore(p.Until) {
			r, at := t, earliest(p.Until, l.reserved.end)
			var lost time.Duration
			for _, gap := range v.lost(p.Until) {
				if gap.Start.Before(l.reserved.end) {
					r.Lost = append(r.Lost, gap)
					lost += gap.End.Sub(gap.Start)
				}
			}
			sum, err := r.LostBy(at)
			if err != nil {
				return err
			}
			if i == 0 || before-sum == p.Amount {
				back, seconds = sum, int64(lost/time.Second)
			}
			if before-sum == p.Amount {
				break
			}
		}
		e.Recomputed = before - back
		e.say("reserved_lost", append(values, "seconds", strconv.FormatInt(seconds, 10), "total", strconv.FormatInt(t.Hours()*3600, 10), "by", e.time(p.Until), "back", back.String(), "before", before.String())...)
	case PaidEarly:
		return e.reservedEarly(l, n, values)
	}
	return nil
}

// reservedEarly says what an early end came to.
func (e *Explanation) reservedEarly(l *leaseRow, n int, values []string) error {
	p := l.reserved.payments[n]
	_, until := window(l.reserved.terms)
	if p.Amount < 0 {
		e.Kind = ExplainsUnused
	}
	whole := *l.reserved
	whole.end = until
	for _, held := range l.asHeldBefore(p.From) {
		v := *held
		v.reserved = &whole // as it was agreed, before it was ended
		end, err := v.delivered(p.From).EndEarly(p.From)
		if err != nil {
			return err
		}
		if end.Net == p.Amount {
			e.Recomputed = end.Net
			e.say("reserved_early", append(values, "at", e.time(p.From), "end", e.time(end.Until), "count", strconv.FormatInt(end.Hours, 10), "owed", end.Owed.String(), "due", end.Due.String(), "net", end.Net.String())...)
			return nil
		}
	}
	var before money.Amount
	for _, q := range l.reserved.payments[:n] {
		if q.Kind == PaidLost {
			before -= q.Amount
		}
	}
	var back money.Amount
	for i, v := range l.asHeldBefore(p.From) {
		sum, err := v.delivered(l.reserved.end).LostBy(until)
		if err != nil {
			return err
		}
		if i == 0 || before-sum == p.Amount {
			back = sum
		}
		if before-sum == p.Amount {
			break
		}
	}
	e.Recomputed = before - back
	e.say("reserved_gone", append(values, "end", e.time(l.reserved.end), "back", back.String(), "before", before.String())...)
	return nil
}

// asHeldBefore returns l, and l as it may have been known when less was reported of
// when its GPUs were held: without what began since, or with the last run going on.
func (l *leaseRow) asHeldBefore(by time.Time) []*leaseRow {
	out := []*leaseRow{l}
	for n := len(l.intervals); n >= 0; n-- {
		v := *l
		v.intervals = slices.Clone(l.intervals[:n])
		out = append(out, &v)
		if n > 0 && !l.intervals[n-1].end.IsZero() && l.intervals[n-1].start.Before(by) {
			w := v
			w.intervals = slices.Clone(v.intervals)
			w.intervals[n-1].end = time.Time{}
			out = append(out, &w)
		}
	}
	return out
}

// countsCovered looks for what reservations paid for of a lease when its charges
// came to a sum, by a moment: they are applied again whenever more is known of an
// hour, and only what they come to now is stored. In each hour they pay for a
// lease's first seconds first, so that is looked for in the last hours, as few as
// possible.
func (l *leaseRow) countsCovered(posted money.Amount, by time.Time) (counted, bool, error) {
	u := usageUntil(l, by, by, time.Time{})
	stored := l.covered
	defer func() { l.covered = stored }()
	first := by
	for _, run := range u.Compute {
		first = earliest(first, run.Start)
	}
	first = latest(first, by.Add(-lateUse))
	for hour := by.UTC().Truncate(time.Hour); ; hour = hour.Add(-time.Hour) {
		kept := before(stored, hour)
		var free []pricing.Interval // that may have been paid for
		var seconds int64
		for _, run := range u.Compute {
			if start := latest(run.Start, hour); start.Before(run.End) {
				free = append(free, pricing.Interval{Start: start, End: run.End})
				seconds += int64((run.End.Sub(start) + time.Second - 1) / time.Second)
			}
		}
		var failed error
		with := func(n int64) counted {
			l.covered = append(slices.Clone(kept), prefix(free, n)...)
			c, err := l.countsUntil(pricing.Compute, by)
			if err != nil {
				failed = err
			}
			return c
		}
		// The more is covered, the less it costs.
		n := sort.Search(int(seconds), func(n int) bool { return with(int64(n)).sum <= posted })
		c := with(int64(n))
		if failed != nil {
			return c, false, failed
		}
		if c.sum == posted {
			c.applied = true
			return c, true, nil
		}
		if !hour.After(first) {
			return counted{}, false, nil
		}
	}
}

// prefix is the first so many seconds of intervals.
func prefix(in []pricing.Interval, seconds int64) []pricing.Interval {
	var out []pricing.Interval
	for _, i := range in {
		if seconds <= 0 {
			break
		}
		i.End = earliest(i.End, i.Start.Add(time.Duration(seconds)*time.Second))
		seconds -= int64((i.End.Sub(i.Start) + time.Second - 1) / time.Second)
		out = append(out, i)
	}
	return out
}

// coveredSeconds is how much of items reservations pay for.
func coveredSeconds(items []pricing.Item) (n int64) {
	for _, it := range items {
		if it.Covered {
			n += it.Used
		}
	}
	return n
}
