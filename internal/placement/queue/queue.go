package queue

import (
	"cmp"
	"slices"
	"sort"
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
//
// The first job without room has what it will get reserved: others start ahead of it
// only if they end before it could start, or take nothing of what it will get.
func Cycle(f *placement.Fleet, p Policy, waiting []Job, running []Running, now time.Time) (starts []Start, stops []Running) {
	c := cycle{f: f, p: p, now: now, running: running, used: map[string]int64{}, full: map[shape]bool{}}
	for _, r := range running {
		c.used[r.Owner] += r.GPUs()
	}
	start := func(j Job, place placement.Placement) {
		f.Take(j.Request, place)
		c.used[j.Owner] += j.GPUs()
		c.begun = append(c.begun, Running{Job: j, Placement: place, Started: now})
		starts = append(starts, Start{j, place})
	}
	c.lineUp(waiting)
	for {
		j, ok := c.pop()
		if !ok {
			return starts, stops
		}
		if !c.within(j) {
			continue
		}
		place, fits := c.place(j)
		if !fits {
			place, fits = c.preempt(j, &stops)
		}
		if fits {
			start(j, place)
			continue
		}
		if at, later, known := c.roomFor(j); known {
			if p.Backfill {
				c.backfill(at, later, start)
			}
			return starts, stops
		}
	}
}

// backfill starts what does not keep a job from the place that it will get at a time:
// of equal priority the shortest first, so that many wait little.
func (c *cycle) backfill(at time.Time, place placement.Placement, start func(Job, placement.Placement)) {
	var rest []Job
	for _, l := range c.lines {
		rest = append(rest, l...)
	}
	slices.SortFunc(rest, func(a, b Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), -compareBool(c.urgent(a), c.urgent(b)), cmp.Compare(a.Estimate, b.Estimate),
			a.Submitted.Compare(b.Submitted), strings.Compare(a.ID, b.ID))
	})
	full := map[shape]bool{} // beside what is kept
	for _, j := range rest {
		if j.Estimate <= 0 || !c.within(j) {
			continue
		}
		if !c.now.Add(j.Estimate).After(at) {
			if p, fits := c.place(j); fits {
				start(j, p)
			}
			continue
		}
		s, plain := shapeOf(j.Request)
		if plain && (full[s] || c.full[s]) {
			continue
		}
		p, fits := c.placeBeside(j, place)
		if fits {
			start(j, p)
		} else if plain {
			full[s] = true
		}
	}
}

// placeBeside finds a place that leaves alone what is free of another one.
func (c *cycle) placeBeside(j Job, kept placement.Placement) (placement.Placement, bool) {
	var free placement.Placement
	most := 0
	for _, n := range kept.Nodes {
		h, _ := c.f.Host(n.HostID)
		own := placement.Choice{HostID: n.HostID}
		for _, g := range h.GPUs {
			if g.Free && len(g.Parts) == 0 && slices.Contains(n.GPUs, g.UUID) {
				own.GPUs = append(own.GPUs, g.UUID)
			}
		}
		most = max(most, len(own.GPUs))
		free.Nodes = append(free.Nodes, own)
	}
	whole := placement.Request{Nodes: len(free.Nodes), Count: most}
	c.f.Restore(whole, free)
	defer c.f.Release(whole, free)
	return c.f.Place(j.Request)
}

type cycle struct {
	f       *placement.Fleet
	p       Policy
	now     time.Time
	running []Running
	begun   []Running // in this cycle
	used    map[string]int64
	lines   [][]Job // what each owner waits for, in the order in which it gets it
	full    map[shape]bool
}

// lineUp puts those that wait in line, each behind others of its owner.
func (c *cycle) lineUp(waiting []Job) {
	of := map[string]int{}
	for _, j := range waiting {
		if c.p.backsOff(j, c.now) {
			continue
		}
		i, known := of[j.Owner]
		if !known {
			i = len(c.lines)
			of[j.Owner], c.lines = i, append(c.lines, nil)
		}
		c.lines[i] = append(c.lines[i], j)
	}
	for _, l := range c.lines {
		if !slices.IsSortedFunc(l, c.compare) {
			slices.SortFunc(l, c.compare)
		}
	}
}

// pop takes the job whose turn it is out of its line. Whose it is is looked up each
// time: how much the owners have changes with each start.
func (c *cycle) pop() (Job, bool) {
	if len(c.lines) == 0 {
		return Job{}, false
	}
	best := 0
	for i, o := range c.lines {
		if c.compare(o[0], c.lines[best][0]) < 0 {
			best = i
		}
	}
	j := c.lines[best][0]
	if c.lines[best] = c.lines[best][1:]; len(c.lines[best]) == 0 {
		c.lines = slices.Delete(c.lines, best, best+1)
	}
	return j, true
}

// shape is what of a request decides whether it fits, where nothing else does.
type shape struct {
	owner, model                      string
	nodes, count                      int
	share                             placement.Share
	cpu, memory, disk, network, ports int64
	within, spread                    placement.Level
}

func shapeOf(r placement.Request) (shape, bool) {
	plain := len(r.Models) <= 1 && len(r.Regions)+len(r.Zones)+len(r.Require)+len(r.Forbid)+len(r.Avoid) == 0
	s := shape{r.Owner, "", r.Nodes, r.Count, r.Share, r.CPUMillis, r.MemoryMiB, r.DiskMiB, r.NetworkMbps, r.Ports, r.Within, r.Spread}
	if len(r.Models) == 1 {
		s.model = r.Models[0]
	}
	return s, plain
}

// place finds a place, and remembers what found none until something is released.
func (c *cycle) place(j Job) (placement.Placement, bool) {
	s, plain := shapeOf(j.Request)
	if plain && c.full[s] {
		return placement.Placement{}, false
	}
	p, fits := c.f.Place(j.Request)
	if plain && !fits {
		c.full[s] = true
	}
	return p, fits
}

func (p Policy) backsOff(j Job, now time.Time) bool {
	return j.Failures > 0 && now.Before(j.LastFailure.Add(p.BackOff<<min(j.Failures-1, 6)))
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

// roomFor is when and where a job could start if everything ran as long as was said;
// where that is never, nothing is held back for it.
func (c *cycle) roomFor(j Job) (at time.Time, place placement.Placement, known bool) {
	ends := slices.DeleteFunc(slices.Concat(c.running, c.begun), func(r Running) bool { return r.Estimate <= 0 })
	slices.SortFunc(ends, func(a, b Running) int {
		return cmp.Or(a.Started.Add(a.Estimate).Compare(b.Started.Add(b.Estimate)), strings.Compare(a.ID, b.ID))
	})
	released := 0
	free := func(n int) bool { // fits once the first n have ended?
		for ; released < n; released++ {
			c.f.Release(ends[released].Request, ends[released].Placement)
		}
		for ; released > n; released-- {
			c.f.Restore(ends[released-1].Request, ends[released-1].Placement)
		}
		p, fits := c.f.Place(j.Request)
		if fits {
			place = p
		}
		return fits
	}
	// More room never makes a request unplaceable, so the first n is found by halving,
	// after doubling: most find theirs soon.
	high := 1
	for high < len(ends) && !free(high) {
		high *= 2
	}
	high = min(high, len(ends))
	n := high/2 + sort.Search(high-high/2, func(i int) bool { return free(high/2 + i) })
	known = n > 0 && free(n)
	free(0)
	if !known {
		return time.Time{}, placement.Placement{}, false
	}
	last := ends[n-1]
	return last.Started.Add(last.Estimate), place, true
}

// preempt stops as few spot jobs as it takes, the youngest first.
func (c *cycle) preempt(j Job, stops *[]Running) (placement.Placement, bool) {
	if !c.p.Preempt || j.Spot {
		return placement.Placement{}, false
	}
	spot := slices.DeleteFunc(slices.Clone(c.running), func(r Running) bool {
		return !r.Spot || (!r.Stopped.IsZero() && c.now.Before(r.Stopped.Add(c.p.CoolDown)))
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
		c.f.Restore(gone[i].Request, gone[i].Placement)
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
	clear(c.full)
	for _, r := range gone {
		c.used[r.Owner] -= r.GPUs()
	}
	isGone := func(r Running) bool { return slices.ContainsFunc(gone, func(g Running) bool { return g.ID == r.ID }) }
	c.running = slices.DeleteFunc(slices.Clone(c.running), isGone)
	*stops = append(*stops, gone...)
	return place, fits
}
