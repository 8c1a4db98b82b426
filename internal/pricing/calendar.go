package pricing

import (
	"fmt"
	"sort"
	"time"
)

// wall returns the instant at which clocks of a zone first show a date and a time
// of day, which the normal overflow of time.Date applies to. Where clocks skip it
// is the instant of the change; where they show it twice, the first.
func wall(year int, m time.Month, day int, timeOfDay time.Duration, zone *time.Location) time.Time {
	utc := time.Date(year, m, day, 0, 0, 0, 0, time.UTC).Add(timeOfDay)
	// No zone is more than a day and a bit from UTC; within two days of a guess
	// there may be a change or two, and each stretch between them has one offset.
	for t := utc.Add(-48 * time.Hour).In(zone); ; {
		_, end := t.ZoneBounds()
		_, offset := t.Zone()
		at := utc.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) {
			return t // skipped by the change at t
		}
		if end.IsZero() || at.Before(end) {
			return at.In(zone)
		}
		t = end.In(zone)
	}
}

// timeOfDay returns how much clocks show of a day at t.
func timeOfDay(t time.Time) time.Duration {
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute +
		time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
}

// Boundary returns the n-th monthly boundary from an anchor, which is boundary 0:
// the same day and time of day, n months later by the zone's calendar and clocks,
// on the last day of a month that has not so many. It is counted from the anchor,
// never from the boundary before, so 31 January leads to 28 February and then to
// 31 March.
func Boundary(anchor time.Time, timeZone string, n int) (time.Time, error) {
	zone, err := location(timeZone)
	if err != nil {
		return time.Time{}, err
	}
	return boundary(anchor, zone, n), nil
}

func boundary(anchor time.Time, zone *time.Location, n int) time.Time {
	if n == 0 {
		return anchor.UTC()
	}
	l := anchor.In(zone)
	// Day 0 of the month after is the last of the month.
	days := time.Date(l.Year(), l.Month()+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC).Day()
	first := time.Date(l.Year(), l.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	return wall(first.Year(), first.Month(), min(l.Day(), days), timeOfDay(l), zone).UTC()
}

// Period is the time from one boundary to the next.
type Period struct {
	Number int       `json:"number"` // 0 begins at the anchor
	Start  time.Time `json:"start"`
	End    time.Time `json:"end"` // not in the period
}

// PeriodAt returns the period of so many months that a moment is in. Periods tile
// the time from the anchor on; a moment before it is an error.
func PeriodAt(anchor time.Time, timeZone string, months int, at time.Time) (Period, error) {
	zone, err := location(timeZone)
	if err != nil {
		return Period{}, err
	}
	if months < 1 || months > maxTermMonths {
		return Period{}, fmt.Errorf("a period of %d months: want 1 to %d", months, maxTermMonths)
	}
	if at.Before(anchor) {
		return Period{}, fmt.Errorf("%s is before the first period, which begins at %s", at, anchor)
	}
	guess := int(at.Sub(anchor)/(28*24*time.Hour))/months + 2
	n := sort.Search(guess, func(n int) bool { return boundary(anchor, zone, (n+1)*months).After(at) })
	return Period{n, boundary(anchor, zone, n*months), boundary(anchor, zone, (n+1)*months)}, nil
}

// maxTermMonths is the longest term that can be bought: five years.
const maxTermMonths = 60

// fraction is a part of a period as num of den.
type fraction struct{ num, den int64 }

// elapsed returns how much of a period has gone by. Each of its days by the
// zone's calendar weighs the same, whether it has 23, 24 or 25 hours, and within
// a day it is to the second.
func elapsed(p Period, zone *time.Location, at time.Time) fraction {
	if !at.After(p.Start) {
		return fraction{0, 1}
	}
	if !at.Before(p.End) {
		return fraction{1, 1}
	}
	days := daysOf(p, zone)
	n := sort.Search(len(days), func(i int) bool { return days[i].After(at) }) - 1
	end := p.End
	if n+1 < len(days) {
		end = days[n+1]
	}
	length := int64(end.Sub(days[n]) / time.Second)
	if length == 0 {
		return fraction{int64(n), int64(len(days))}
	}
	return fraction{int64(n)*length + min(length, int64(at.Sub(days[n])/time.Second)), int64(len(days)) * length}
}

// daysOf returns the instants at which a period's days begin, by the time of day
// at which it begins itself.
func daysOf(p Period, zone *time.Location) []time.Time {
	l := p.Start.In(zone)
	days := []time.Time{p.Start}
	for n := 1; ; n++ {
		next := wall(l.Year(), l.Month(), l.Day()+n, timeOfDay(l), zone)
		if !next.Before(p.End) {
			return days
		}
		if next.After(days[len(days)-1]) { // a calendar may skip a day
			days = append(days, next)
		}
	}
}

// Days returns how many days a period has in a zone: its clocks' days, so a
// quarter from 1 April has 91, whatever happens to the clocks in it.
func Days(from, until time.Time, timeZone string) (int64, error) {
	zone, err := location(timeZone)
	if err != nil {
		return 0, err
	}
	if !from.Before(until) {
		return 0, nil
	}
	return int64(len(daysOf(Period{Start: from, End: until}, zone))), nil
}
