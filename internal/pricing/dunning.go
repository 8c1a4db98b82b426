package pricing

import (
	"fmt"
	"slices"
	"time"
)

// Dunning is the operator's rule for what is not paid. It says when what happens;
// that it happens once, and never before it was announced, is in Next and
// DeletionAt, whatever clocks do and however long nobody looked.
//
//	invoice of any account          balance of a prepaid one, or a limit reached
//	reminders, before and after     warnings 24 h, 1 h and 10 min before
//	its due day
//	compute stops                   compute stops at zero
//	disks are deleted               disks are deleted
//
// The last two are one rule for both: disks are kept for Grace from the moment at
// which compute stopped.
type Dunning struct {
	ReminderDays []int         `json:"reminder_days"` // from an invoice's due day, such as -3, 0, 7
	StopDays     int           `json:"stop_days"`     // after the due day, until compute stops; 0: never
	StopNotice   time.Duration `json:"stop_notice"`   // from the announcement of the stop to the stop, at least
	Grace        time.Duration `json:"grace"`         // from the stop to the deletion of disks
	DeleteNotice time.Duration `json:"delete_notice"` // from the announcement of the deletion to it, at least
}

// StandardDunning is the rule of an operator who says nothing.
func StandardDunning() Dunning {
	return Dunning{ReminderDays: []int{-3, 0, 1, 7}, StopDays: 14, StopNotice: 72 * time.Hour, Grace: 7 * 24 * time.Hour, DeleteNotice: 72 * time.Hour}
}

// Check returns what is wrong with a rule.
func (d Dunning) Check() error {
	for i, n := range d.ReminderDays {
		if n < -366 || n > 366 || (i > 0 && n <= d.ReminderDays[i-1]) {
			return fmt.Errorf("reminders on the days %v: want them in order, each once, from -366 to 366", d.ReminderDays)
		}
	}
	if d.StopDays < 0 || d.StopDays > 366 || d.StopNotice < 0 || d.Grace < 0 || d.DeleteNotice < 0 {
		return fmt.Errorf("compute stops %d days after the due day: want 0 to 366, and no time less than 0", d.StopDays)
	}
	return nil
}

// DunningAct is what a step does.
type DunningAct string

// The acts of dunning an invoice.
const (
	ActRemind     DunningAct = "remind"
	ActStopNotice DunningAct = "stop_notice" // says when compute will stop
	ActStop       DunningAct = "stop"
)

// DunningStep is one step of an invoice's schedule.
type DunningStep struct {
	Name string     `json:"name"` // unique in the schedule, such as "day-3" or "stop"
	Act  DunningAct `json:"act"`
	At   time.Time  `json:"at"` // not before it
}

// Steps returns the schedule of an invoice by the day it is due and its zone's
// calendar, in order: days are days there, whatever clocks do.
func (d Dunning) Steps(dueFrom time.Time, timeZone string) ([]DunningStep, error) {
	zone, err := location(timeZone)
	if err != nil {
		return nil, err
	}
	l := dueFrom.In(zone)
	var out []DunningStep
	for _, n := range d.ReminderDays {
		out = append(out, DunningStep{fmt.Sprintf("day%+d", n), ActRemind, dayOf(l, n, zone)})
	}
	if d.StopDays > 0 {
		stop := dayOf(l, d.StopDays, zone)
		out = append(out, DunningStep{string(ActStopNotice), ActStopNotice, stop.Add(-d.StopNotice)}, DunningStep{string(ActStop), ActStop, stop})
	}
	slices.SortStableFunc(out, func(a, b DunningStep) int { return a.At.Compare(b.At) })
	return out, nil
}

// DunningPlan is what is to be done for an invoice at a moment.
type DunningPlan struct {
	// Do are the steps to be done now, in order: at most one reminder, the latest
	// whose time has come.
	Do []DunningStep
	// Missed are reminders that a later one of Do, or one done already, stands for.
	Missed []DunningStep
	// StopAt is when compute stops if nothing is paid; zero: never, or it has.
	StopAt time.Time
	// Next is when to look again; zero: never.
	Next time.Time
}

// Next returns what is to be done at a moment, of steps of which some are done
// already, by name and with when they were. Asked again with what it said done, it
// says nothing more, and no order of moments makes it say a step twice. Compute is
// not stopped until its notice has been given for as long as the rule says.
func (d Dunning) Next(steps []DunningStep, done map[string]time.Time, now time.Time) DunningPlan {
	var p DunningPlan
	latest := -1
	for i, s := range steps {
		if s.Act == ActRemind && !now.Before(s.At) {
			latest = i
		}
	}
	later := func(at time.Time) {
		if p.Next.IsZero() || at.Before(p.Next) {
			p.Next = at
		}
	}
	given, noticed := done[string(ActStopNotice)]
	for i, s := range steps {
		if _, ok := done[s.Name]; ok {
			continue
		}
		at := s.At
		if s.Act == ActStop {
			if !noticed {
				given = now // at the earliest
			}
			at = latestOf(at, given.Add(d.StopNotice))
			p.StopAt = at
			if !noticed && !now.Before(at) {
				at = now.Add(time.Nanosecond) // a notice of no length still comes first
			}
		}
		switch {
		case now.Before(at):
			later(at)
		case s.Act == ActRemind && i < latest:
			p.Missed = append(p.Missed, s)
		default:
			p.Do = append(p.Do, s)
		}
	}
	return p
}

// DeletionAt returns when disks are deleted that are kept unpaid since a moment,
// where that was announced at another: when both the grace and the notice are over.
// Nothing is deleted before it was announced: for announced, give now until it was.
func (d Dunning) DeletionAt(since, announced time.Time) time.Time {
	return latestOf(since.Add(d.Grace), announced.Add(min(d.Grace, d.DeleteNotice)))
}

func latestOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
