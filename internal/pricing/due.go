package pricing

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// Interval is a stretch of time, half open: Start is in it, End is not. One that
// does not end after it starts is empty.
type Interval struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	// Resumes says that it carries on the session before it, after a break that
	// was not the renter's doing, such as a host that was silent: the two are
	// rounded, and held to the minimum, together.
	Resumes bool `json:"resumes,omitempty"`
	// Rate is the bundle's price an hour during the interval: of spot use, which
	// costs what the market cleared at. Other plans ignore it.
	Rate money.Rate `json:"rate_per_hour,omitempty"`
	// Listed is Rate in the currency of the provider, where that is another than the
	// account's.
	Listed money.Rate `json:"listed_rate_per_hour,omitempty"`
	// Evicted says that the platform ended the interval, not the renter.
	Evicted bool `json:"evicted,omitempty"`
}

// Usage is all that a lease has used so far. The order of intervals, repeats,
// overlaps and cuts do not matter: a moment is used or it is not.
type Usage struct {
	Compute     []Interval // each connected stretch is one session, with one start, unless it resumes one
	Storage     []Interval // the quote's DiskGiB were allocated
	EgressBytes int64

	// What only quotes of version 2 rate.
	IngressBytes int64
	PublicIPs    []Kept     // Units are addresses
	Snapshots    []Kept     // Units are GiB
	Volumes      []Kept     // Units are GiB; only while no instance has the volume
	Prepaid      []Interval // months that are paid in advance: all compute in them, rounding up included
	Reserved     []Interval // used seconds that a reservation pays for; see ApplyReservations
}

// Kept is a thing that costs as long as it is kept. Of two entries for one thing
// and moment the larger counts, once.
type Kept struct {
	ID       string
	Units    int64
	Interval Interval
}

// Item is a part of an amount due that can be shown as a line of a bill: a
// compute session, a month of storage, or all egress. Items of a meter add up to
// the meter's amount exactly.
type Item struct {
	Meter    Meter
	Interval Interval // empty for egress
	// Used is what was measured and Charged what it counts as: seconds for
	// compute (Charged has the minimum and the granularity in it), GiB-seconds
	// for storage, bytes for egress.
	Used, Charged int64
	// Per is how many of Charged the rate is for.
	Per    int64
	Rate   money.Rate
	Amount money.Amount
	// Covered says that Charged is paid for otherwise, so that Amount is zero.
	Covered bool
	// Waived says that the platform evicted the session before it counts.
	Waived bool
}

// Due returns the whole amount due per meter for all usage so far. It never
// depends on when it was asked before; callers post the difference.
func Due(q Quote, u Usage) (map[Meter]money.Amount, error) {
	items, err := Itemise(q, u)
	if err != nil {
		return nil, err
	}
	due := map[Meter]money.Amount{Compute: 0, Storage: 0, Egress: 0}
	if q.Version > 1 {
		for _, m := range Meters {
			due[m] = 0
		}
	}
	for _, it := range items {
		if due[it.Meter], err = due[it.Meter].Add(it.Amount); err != nil {
			return nil, fmt.Errorf("due for %s: %w", it.Meter, err)
		}
	}
	return due, nil
}

// Itemise is Due in lines.
func Itemise(q Quote, u Usage) ([]Item, error) {
	if q.Version != 1 && q.Version != 2 {
		return nil, fmt.Errorf("quote has version %d: this build rates versions 1 and 2", q.Version)
	}
	var items []Item
	var err error
	// Without a reservation the two come to the same.
	if q.Version == 1 && len(u.Reserved) == 0 {
		items, err = computeItems(q, union(u.Compute))
	} else {
		items, err = pricedItems(q, u.Compute, u.Prepaid, u.Reserved)
	}
	if err != nil {
		return nil, fmt.Errorf("due for compute: %w", err)
	}
	storage, err := storageItems(q, union(u.Storage))
	if err != nil {
		return nil, fmt.Errorf("due for storage: %w", err)
	}
	items = append(items, storage...)
	if u.EgressBytes != 0 {
		amount, err := q.Tariff.Egress.Times(u.EgressBytes, bytesPerGB)
		if err != nil {
			return nil, fmt.Errorf("due for egress: %w", err)
		}
		items = append(items, Item{Meter: Egress, Used: u.EgressBytes, Charged: u.EgressBytes, Per: bytesPerGB, Rate: q.Tariff.Egress, Amount: amount})
	}
	if q.Version == 1 {
		return items, nil
	}
	rest, err := furtherItems(q, u)
	return append(items, rest...), err
}

// computeItems rates sessions. The sum of all charged seconds is rounded once;
// a session's own amount is the difference that it makes to the rounded sum.
func computeItems(q Quote, sessions []Interval) ([]Item, error) {
	items := make([]Item, 0, len(sessions))
	var seconds int64
	var before money.Amount
	var used time.Duration // of the session so far
	var sum int64          // what used counts as
	for i, s := range sessions {
		if i == 0 || !s.Resumes {
			used, sum = 0, 0
		}
		used += s.End.Sub(s.Start)
		counts, err := chargedSeconds(q.Tariff, used)
		if err != nil {
			return nil, err
		}
		charged := counts - sum
		sum = counts
		seconds += charged
		total, err := q.Tariff.Compute.Times(seconds, secondsPerHour)
		if err != nil {
			return nil, err
		}
		items = append(items, Item{
			Meter: Compute, Interval: s, Used: int64(s.End.Sub(s.Start) / time.Second), Charged: charged,
			Per: secondsPerHour, Rate: q.Tariff.Compute, Amount: total - before,
		})
		before = total
	}
	return items, nil
}

// chargedSeconds applies the rules of EC2 and its like: whole seconds, a minimum
// at each start; of coarser clouds: every started minute or hour since the start.
func chargedSeconds(t Tariff, session time.Duration) (int64, error) {
	unit := t.Granularity.Seconds()
	if unit == 0 {
		return 0, fmt.Errorf("granularity %q: want second, minute or hour", t.Granularity)
	}
	used := int64(session / time.Second)
	if unit > 1 {
		used = max(used, 1) // a started unit counts, however short
	}
	return roundUp(max(used, t.MinimumSeconds), unit), nil
}

// storageItems rates months: the seconds kept in a month over the seconds that
// the month has in the account's zone, rounded once a month.
func storageItems(q Quote, kept []Interval) ([]Item, error) {
	if q.DiskGiB < 0 || q.DiskGiB > maxDiskGiB {
		return nil, fmt.Errorf("disk of %d GiB: want 0 to %d", q.DiskGiB, maxDiskGiB)
	}
	if q.DiskGiB == 0 || len(kept) == 0 {
		return nil, nil
	}
	zone, err := location(q.TimeZone)
	if err != nil {
		return nil, err
	}
	var items []Item
	var in month
	var micros int64
	var shown Interval
	flush := func() error {
		if micros == 0 {
			return nil
		}
		quantity := q.DiskGiB * (micros / int64(time.Second/time.Microsecond))
		amount, err := q.Tariff.Storage.Times(quantity, in.seconds())
		items = append(items, Item{
			Meter: Storage, Interval: shown, Used: quantity, Charged: quantity,
			Per: in.seconds(), Rate: q.Tariff.Storage, Amount: amount,
		})
		micros = 0
		return err
	}
	for _, k := range kept {
		for at := k.Start; at.Before(k.End); {
			if micros == 0 || !at.Before(in.end) {
				if err := flush(); err != nil {
					return nil, err
				}
				in = monthOf(at, zone)
				shown = Interval{Start: at}
			}
			end := k.End
			if in.end.Before(end) {
				end = in.end
			}
			micros += end.Sub(at).Microseconds()
			shown.End = end
			at = end
		}
	}
	return items, flush()
}

// union returns the moments that are in any of the intervals, as sorted stretches
// that neither overlap nor touch, to the microsecond that the store keeps.
func union(in []Interval) []Interval {
	all := make([]Interval, 0, len(in))
	for _, i := range in {
		i.Start, i.End = i.Start.UTC().Truncate(time.Microsecond), i.End.UTC().Truncate(time.Microsecond)
		if i.Start.Before(i.End) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Interval) int {
		if c := a.Start.Compare(b.Start); c != 0 || a.Resumes == b.Resumes {
			return c
		}
		if b.Resumes {
			return -1 // of two that start together, the start counts
		}
		return 1
	})
	out := all[:0]
	for _, i := range all {
		if n := len(out); n > 0 && !i.Start.After(out[n-1].End) {
			switch last := &out[n-1]; {
			case last.End.Before(i.End):
				last.End, last.Evicted = i.End, i.Evicted
			case last.End.Equal(i.End):
				last.Evicted = last.Evicted || i.Evicted
			}
			continue
		}
		i.Rate = 0 // stretches of several rates may be in one
		out = append(out, i)
	}
	return out
}

// Split divides a charge between the provider and the platform, to the last
// micro: each gets its part rounded down, and the micro that may be left goes to
// the larger remainder, or to the platform if they are equal. Neither side's part
// ever falls when the charge grows, so both can be posted as differences.
func Split(charge money.Amount, commissionBasisPoints int64) (provider, commission money.Amount, err error) {
	if charge < 0 {
		return 0, 0, fmt.Errorf("split of %s: want at least 0", charge)
	}
	if commission, err = charge.Share(commissionBasisPoints); err != nil {
		return 0, 0, err
	}
	_, lo := bits.Mul64(uint64(charge), uint64(commissionBasisPoints))
	if rest := lo - uint64(commission)*10_000; 2*rest >= 10_000 {
		commission++
	}
	return charge - commission, commission, nil
}
