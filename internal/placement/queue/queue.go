package queue

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/placement"
)

// Job is a request that waits or runs.
type Job struct {
	ID, Owner string
	Request   placement.Request
	Priority  int // the larger first
	Submitted time.Time
	// Estimate is how long it runs at most; 0: unknown, and then it is never started
	// ahead of a request that waits for room.
	Estimate time.Duration
	// Deadline is when it should have started; within the policy's Urgency of it the
	// job goes ahead of all of its priority. Zero: none.
	Deadline time.Time
	// Spot says that it may be stopped for one that is not.
	Spot bool
	// Failures is how often starting it has failed, and LastFailure when.
	Failures    int
	LastFailure time.Time
	// Stopped is when it was last stopped for another; zero: never.
	Stopped time.Time
}

// GPUs is how many GPUs a job has in thousandths.
func (j Job) GPUs() int64 {
	each := int64(placement.WholeMilli)
	if j.Request.Share.Milli > 0 {
		each = int64(j.Request.Share.Milli)
	}
	return each * int64(j.Request.Count) * int64(max(1, j.Request.Nodes))
}

// Running is a job with its place.
type Running struct {
	Job
	Placement placement.Placement
	Started   time.Time
}

// Quota is what an owner may have.
type Quota struct {
	Milli  int64 // of GPU, guaranteed
	Borrow int64 // more, while nobody else needs it
}

// Policy is how a queue decides.
type Policy struct {
	Quotas map[string]Quota // by owner; one without an entry may have all
	// Backfill lets jobs start ahead of one that waits for room if they end before it
	// could start.
	Backfill bool
	// FairShare puts owners who have less of what is theirs first.
	FairShare bool
	Preempt   bool          // spot, for jobs that are not
	CoolDown  time.Duration // in which a job is stopped once at most
	Urgency   time.Duration // see Job.Deadline
	// BackOff is how long a job that could not be started waits after the first
	// failure; each more doubles it, up to 64 times.
	BackOff time.Duration
}

// Standard is a queue with all of it.
func Standard() Policy {
	return Policy{Backfill: true, FairShare: true, Preempt: true, CoolDown: time.Hour, Urgency: 10 * time.Minute, BackOff: 10 * time.Second}
}

// Start is a job that gets a place now.
type Start struct {
	Job       Job
	Placement placement.Placement
}

// Cycle decides what starts now, and what is stopped first. The fleet is what is
// free beside what runs; it is left with the starts taken and the stopped released.
func Cycle(f *placement.Fleet, p Policy, waiting []Job, running []Running, now time.Time) (starts []Start, stops []Running) {
	c := cycle{f: f, p: p, now: now, running: slices.Clone(running), used: map[string]int64{}}
	for _, r := range running {
		c.used[r.Owner] += r.GPUs()
	}
	waiting = slices.DeleteFunc(slices.Clone(waiting), func(j Job) bool { return p.backsOff(j, now) })
	var room time.Time // when the first job that waits for room could start; zero: none waits
	for len(waiting) > 0 {
		// Again for each, since who has how much changes with each start.
		i := c.next(waiting)
		j := waiting[i]
		waiting = slices.Delete(waiting, i, i+1)
		if !c.within(j) {
			continue
		}
		if !room.IsZero() && (!p.Backfill || j.Estimate <= 0 || now.Add(j.Estimate).After(room)) {
			continue
		}
		place, fits := f.Place(j.Request)
		if !fits && room.IsZero() {
			if place, fits = c.preempt(j, &stops); !fits {
				room = c.roomFor(j)
				continue
			}
		}
		if fits {
			f.Take(j.Request, place)
			c.used[j.Owner] += j.GPUs()
			c.running = append(c.running, Running{Job: j, Placement: place, Started: now})
			starts = append(starts, Start{j, place})
		}
	}
	return starts, stops
}

type cycle struct {
	f       *placement.Fleet
	p       Policy
	now     time.Time
	running []Running
	used    map[string]int64
}

func (p Policy) backsOff(j Job, now time.Time) bool {
	return j.Failures > 0 && now.Before(j.LastFailure.Add(p.BackOff<<min(j.Failures-1, 6)))
}

// next is the position of the job whose turn it is.
func (c *cycle) next(waiting []Job) int {
	best := 0
	for i := 1; i < len(waiting); i++ {
		if c.compare(waiting[i], waiting[best]) < 0 {
			best = i
		}
	}
	return best
}

func (c *cycle) compare(a, b Job) int {
	order := cmp.Compare(b.Priority, a.Priority)
	if order == 0 {
		order = -compareBool(c.urgent(a), c.urgent(b))
	}
	if order == 0 && c.p.FairShare {
		order = cmp.Compare(c.share(a.Owner), c.share(b.Owner))
	}
	return cmp.Or(order, a.Submitted.Compare(b.Submitted), strings.Compare(a.ID, b.ID))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (c *cycle) urgent(j Job) bool {
	return !j.Deadline.IsZero() && !c.now.Add(c.p.Urgency).Before(j.Deadline)
}

// share is how much of its own an owner has, in thousandths; of one without a quota
// what it has.
func (c *cycle) share(owner string) int64 {
	if q := c.p.Quotas[owner]; q.Milli > 0 {
		return c.used[owner] * 1000 / q.Milli
	}
	return c.used[owner]
}

func (c *cycle) within(j Job) bool {
	q, limited := c.p.Quotas[j.Owner]
	return !limited || c.used[j.Owner]+j.GPUs() <= q.Milli+q.Borrow
}

// roomFor is when a job could start if everything ran as long as was said; where
// that is never, no backfill is held back for it.
func (c *cycle) roomFor(j Job) time.Time {
	ends := slices.DeleteFunc(slices.Clone(c.running), func(r Running) bool { return r.Estimate <= 0 })
	slices.SortFunc(ends, func(a, b Running) int {
		return cmp.Or(a.Started.Add(a.Estimate).Compare(b.Started.Add(b.Estimate)), strings.Compare(a.ID, b.ID))
	})
	var at time.Time
	released := 0
	for _, r := range ends {
		c.f.Release(r.Request, r.Placement)
		released++
		if _, fits := c.f.Place(j.Request); fits {
			at = r.Started.Add(r.Estimate)
			break
		}
	}
	for _, r := range ends[:released] {
		c.f.Take(r.Request, r.Placement)
	}
	return at
}

// preempt stops as few spot jobs as it takes, the youngest first.
func (c *cycle) preempt(j Job, stops *[]Running) (placement.Placement, bool) {
	if !c.p.Preempt || j.Spot {
		return placement.Placement{}, false
	}
	spot := slices.DeleteFunc(slices.Clone(c.running), func(r Running) bool {
		return !r.Spot || r.Started.Equal(c.now) || (!r.Stopped.IsZero() && c.now.Before(r.Stopped.Add(c.p.CoolDown)))
	})
	slices.SortFunc(spot, func(a, b Running) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	var gone []Running
	fits := false
	for _, r := range spot {
		c.f.Release(r.Request, r.Placement)
		gone = append(gone, r)
		if _, fits = c.f.Place(j.Request); fits {
			break
		}
	}
	// Those that were in nobody's way go on, the oldest first.
	for i := len(gone) - 1; i >= 0; i-- {
		c.f.Take(gone[i].Request, gone[i].Placement)
		if fits {
			if _, still := c.f.Place(j.Request); !still {
				c.f.Release(gone[i].Request, gone[i].Placement)
				continue
			}
		}
		gone = slices.Delete(gone, i, i+1)
	}
	if !fits {
		return placement.Placement{}, false
	}
	place, fits := c.f.Place(j.Request)
	for _, r := range gone {
		c.used[r.Owner] -= r.GPUs()
		c.running = slices.DeleteFunc(c.running, func(o Running) bool { return o.ID == r.ID })
	}
	*stops = append(*stops, gone...)
	return place, fits
}
