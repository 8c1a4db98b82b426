package billing

import (
	"slices"
	"sort"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// counted is how the sum that was posted of a lease's meter by a moment follows
// from what is stored.
type counted struct {
	items []pricing.Item
	until time.Time // up to when use was counted; zero for bytes
	bytes int64
	// unknown says that the run which is known to have ended before until was not
	// known to have ended when it was posted.
	unknown bool
	// applied says that reservations paid for another part of it then than now.
	applied bool
	sum     money.Amount // what the items come to
}

// counts looks for what was known of a meter when its charges came to a sum, by a
// moment. How far a run was counted is not stored with each charge, as the sign of
// life that a posting relied on is followed by the next one's; but what is due
// never falls as time passes, so the moment up to which the lease had cost exactly
// that much is found by halving. Where a run's end was reported after the posting,
// it is looked for as if the run had gone on. ok is false if no moment gives the sum;
// the result is then by all that is known now.
func (l *leaseRow) counts(m pricing.Meter, posted money.Amount, by time.Time) (c counted, ok bool, err error) {
	if m == pricing.Egress {
		return l.countsBytes(posted)
	}
	now, err := l.countsUntil(m, by)
	if err != nil || now.sum == posted {
		return now, err == nil, err
	}
	covers := m == pricing.Compute && l.reservable()
	if covers && len(l.covered) > 0 {
		// What it seems to have been charged up to may be an hour that was shared
		// otherwise then.
		if c, ok, err := l.countsCovered(posted, by); err != nil || ok {
			return c, ok, err
		}
	}
	for _, v := range l.asKnownBefore(m, by) {
		c, err := v.countsUpTo(m, posted, by)
		if err != nil {
			return now, false, err
		}
		if c.sum == posted {
			c.unknown = v != l && slices.ContainsFunc(l.intervals, func(i interval) bool {
				return i.meter == m && !i.end.IsZero() && i.end.Before(c.until) && i.start.Before(c.until) && v.openInterval(m) != nil && v.openInterval(m).number == i.number
			})
			return c, true, nil
		}
	}
	if covers && len(l.covered) == 0 {
		if c, ok, err := l.countsCovered(posted, by); err != nil || ok {
			return c, ok, err
		}
	}
	return now, false, nil
}

// countsUntil is what a meter comes to by what l says, up to a moment.
func (l *leaseRow) countsUntil(m pricing.Meter, until time.Time) (counted, error) {
	items, err := pricing.Itemise(l.quote, usageUntil(l, until, until, time.Time{}))
	if err != nil {
		return counted{}, err
	}
	c := counted{until: until}
	for _, it := range items {
		if it.Meter == m {
			c.items = append(c.items, it)
			c.sum += it.Amount
		}
	}
	return c, nil
}

// countsUpTo is countsUntil for the last moment at which it is not more than a sum.
func (l *leaseRow) countsUpTo(m pricing.Meter, posted money.Amount, by time.Time) (counted, error) {
	first := l.begun
	for _, i := range l.intervals {
		first = earliest(first, i.start)
	}
	micros := by.Sub(first).Microseconds()
	if micros < 0 {
		return counted{}, nil
	}
	var failed error
	n := sort.Search(int(micros)+1, func(n int) bool {
		c, err := l.countsUntil(m, first.Add(time.Duration(n)*time.Microsecond))
		if err != nil {
			failed = err
		}
		return err != nil || c.sum > posted
	})
	if failed != nil || n == 0 {
		return counted{}, failed
	}
	last := first.Add(time.Duration(n-1) * time.Microsecond)
	c, err := l.countsUntil(m, last)
	if err != nil {
		return counted{}, err
	}
	// Whole seconds count, so any moment of that second gives the same.
	if whole, err := l.countsUntil(m, last.Truncate(time.Second)); err == nil && whole.sum == c.sum {
		return whole, nil
	}
	return c, nil
}

// lateRates is how many changes of price may have been learned after a posting.
const lateRates = 3

// asKnownBefore returns l, and l as it may have been known before a moment: without
// the ends of runs and the prices that were reported since.
func (l *leaseRow) asKnownBefore(m pricing.Meter, by time.Time) []*leaseRow {
	out := []*leaseRow{l}
	rates := slices.Clone(l.rates)
	for range lateRates {
		n := sort.Search(len(rates), func(i int) bool { return !rates[i].from.Before(by) })
		if n == 0 {
			break
		}
		rates = slices.Clone(rates[:n-1])
		v := *l
		v.rates = rates
		out = append(out, &v)
	}
	for n := len(l.intervals) - 1; n >= 0; n-- {
		i := l.intervals[n]
		if i.meter != m || !i.start.Before(by) {
			continue
		}
		v := *l
		v.intervals = nil
		for _, other := range l.intervals {
			if other.meter != m || other.number < i.number {
				v.intervals = append(v.intervals, other)
			}
		}
		i.end, i.limit, i.evicted = time.Time{}, time.Time{}, false
		v.intervals = append(v.intervals, i)
		// In order, by meter and number, as they are loaded.
		slices.SortStableFunc(v.intervals, func(a, b interval) int { return slices.Index(meterOrder, a.meter) - slices.Index(meterOrder, b.meter) })
		out = append(out, &v)
	}
	return out
}

var meterOrder = []pricing.Meter{pricing.Compute, pricing.Egress, pricing.Storage}

// countsBytes finds the most bytes that cost not more than a sum. Only the last
// count is stored.
func (l *leaseRow) countsBytes(posted money.Amount) (counted, bool, error) {
	cost := func(bytes int64) (counted, error) {
		items, err := pricing.Itemise(l.quote, pricing.Usage{EgressBytes: bytes})
		c := counted{bytes: bytes, items: items}
		for _, it := range items {
			c.sum += it.Amount
		}
		return c, err
	}
	// Many counts cost the same; these two are known.
	for _, bytes := range []int64{0, l.egressBytes} {
		if c, err := cost(bytes); err != nil || c.sum == posted {
			return c, err == nil, err
		}
	}
	var failed error
	n := sort.Search(int(l.egressBytes), func(n int) bool {
		c, err := cost(int64(n) + 1)
		if err != nil {
			failed = err
		}
		return err != nil || c.sum > posted
	})
	if failed != nil {
		return counted{}, false, failed
	}
	c, err := cost(int64(n))
	return c, err == nil && c.sum == posted, err
}
