package pricing

import (
	"fmt"
	"slices"
	"time"
)

// furtherItems rates the meters that version 1 did not have.
func furtherItems(q Quote, u Usage) ([]Item, error) {
	var items []Item
	if u.IngressBytes != 0 {
		amount, err := q.Tariff.Ingress.Times(u.IngressBytes, bytesPerGB)
		if err != nil {
			return nil, fmt.Errorf("due for ingress: %w", err)
		}
		items = append(items, Item{Meter: Ingress, Used: u.IngressBytes, Charged: u.IngressBytes, Per: bytesPerGB, Rate: q.Tariff.Ingress, Amount: amount})
	}
	addresses, err := addressItems(q, u.PublicIPs)
	if err != nil {
		return nil, fmt.Errorf("due for public addresses: %w", err)
	}
	items = append(items, addresses...)
	for _, m := range []struct {
		meter Meter
		kept  []Kept
	}{{Snapshot, u.Snapshots}, {Volume, u.Volumes}} {
		months, err := keptItems(q, m.meter, m.kept)
		if err != nil {
			return nil, fmt.Errorf("due for %s: %w", m.meter, err)
		}
		items = append(items, months...)
	}
	return items, nil
}

// addressItems rates all hours of all addresses together, rounded once.
func addressItems(q Quote, kept []Kept) ([]Item, error) {
	level, err := levels(kept)
	if err != nil || len(level) == 0 {
		return nil, err
	}
	var sum wide
	for _, l := range level {
		if sum, err = sum.plus(product(l.units, l.end.Sub(l.start).Microseconds())); err != nil {
			return nil, err
		}
	}
	quantity, _, err := sum.quoRem(microsPerSecond)
	if err != nil {
		return nil, err
	}
	amount, err := q.Tariff.PublicIP.Times(quantity, secondsPerHour)
	shown := Interval{Start: level[0].start, End: level[len(level)-1].end}
	return []Item{{Meter: PublicIP, Interval: shown, Used: quantity, Charged: quantity, Per: secondsPerHour, Rate: q.Tariff.PublicIP, Amount: amount}}, err
}

const microsPerSecond = uint64(time.Second / time.Microsecond)

// keptItems rates GiB-months as storageItems does: what was kept in a calendar
// month over the month's real seconds, rounded once a month for all things
// together, so a whole month of a GiB costs the listed price exactly.
func keptItems(q Quote, m Meter, kept []Kept) ([]Item, error) {
	level, err := levels(kept)
	if err != nil || len(level) == 0 {
		return nil, err
	}
	zone, err := location(q.TimeZone)
	if err != nil {
		return nil, err
	}
	var items []Item
	var in month
	var sum wide
	var shown Interval
	flush := func() error {
		if sum == (wide{}) {
			return nil
		}
		quantity, _, err := sum.quoRem(microsPerSecond)
		if err != nil {
			return err
		}
		rate := q.Tariff.Rate(m)
		amount, err := rate.Times(quantity, in.seconds())
		items = append(items, Item{Meter: m, Interval: shown, Used: quantity, Charged: quantity, Per: in.seconds(), Rate: rate, Amount: amount})
		sum = wide{}
		return err
	}
	for _, l := range level {
		for at := l.start; at.Before(l.end); {
			if sum == (wide{}) || !at.Before(in.end) {
				if err := flush(); err != nil {
					return nil, err
				}
				in = monthOf(at, zone)
				shown = Interval{Start: at}
			}
			end := l.end
			if in.end.Before(end) {
				end = in.end
			}
			if sum, err = sum.plus(product(l.units, end.Sub(at).Microseconds())); err != nil {
				return nil, err
			}
			shown.End = end
			at = end
		}
	}
	return items, flush()
}

// level is how many units of all things together were kept in a stretch of time.
type level struct {
	start, end time.Time
	units      int64
}

// levels adds up what was kept, moment by moment. Of several entries for one thing
// the largest counts, so repeats and overlaps add nothing.
func levels(kept []Kept) ([]level, error) {
	byThing := map[string][]Kept{}
	for _, k := range kept {
		if k.Units < 0 || k.Units > maxDiskGiB {
			return nil, fmt.Errorf("%q has %d units: want 0 to %d", k.ID, k.Units, maxDiskGiB)
		}
		k.Interval.Start, k.Interval.End = k.Interval.Start.UTC().Truncate(time.Microsecond), k.Interval.End.UTC().Truncate(time.Microsecond)
		if k.Units > 0 && k.Interval.Start.Before(k.Interval.End) {
			byThing[k.ID] = append(byThing[k.ID], k)
		}
	}
	changes := map[int64]int64{} // moment in µs → change of the sum
	for _, entries := range byThing {
		for _, s := range largest(entries) {
			changes[s.start.UnixMicro()] += s.units
			changes[s.end.UnixMicro()] -= s.units
		}
	}
	moments := make([]int64, 0, len(changes))
	for at, by := range changes {
		if by != 0 {
			moments = append(moments, at)
		}
	}
	slices.Sort(moments)
	var out []level
	var units int64
	for i, at := range moments {
		if units += changes[at]; units > 0 {
			out = append(out, level{time.UnixMicro(at).UTC(), time.UnixMicro(moments[i+1]).UTC(), units})
		}
	}
	return out, nil
}

// largest cuts the entries of one thing so that each moment has one, the largest.
func largest(entries []Kept) []level {
	var moments []int64
	for _, e := range entries {
		moments = append(moments, e.Interval.Start.UnixMicro(), e.Interval.End.UnixMicro())
	}
	slices.Sort(moments)
	moments = slices.Compact(moments)
	slices.SortFunc(entries, func(a, b Kept) int { return a.Interval.Start.Compare(b.Interval.Start) })
	var out []level
	var open []Kept
	next := 0
	for i, at := range moments[:len(moments)-1] {
		for ; next < len(entries) && entries[next].Interval.Start.UnixMicro() <= at; next++ {
			open = append(open, entries[next])
		}
		open = slices.DeleteFunc(open, func(e Kept) bool { return e.Interval.End.UnixMicro() <= at })
		var units int64
		for _, e := range open {
			units = max(units, e.Units)
		}
		if units > 0 {
			out = append(out, level{time.UnixMicro(at).UTC(), time.UnixMicro(moments[i+1]).UTC(), units})
		}
	}
	return out
}
