package queue

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/placement"
)

var t0 = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fleet has so many hosts of four GPUs.
func fleet(hosts int) *placement.Fleet {
	f := placement.NewFleet(placement.Standard())
	for i := range hosts {
		h := placement.Host{ID: fmt.Sprint("h", i)}
		for k := range 4 {
			h.GPUs = append(h.GPUs, placement.GPU{UUID: fmt.Sprint(i, "-", k), Index: k, Model: "M", NUMA: -1, Free: true})
		}
		f.Set(h)
	}
	return f
}

func job(id string, gpus int, minute int) Job {
	return Job{ID: id, Owner: "a", Request: placement.Request{Count: gpus}, Submitted: t0.Add(time.Duration(minute) * time.Minute), Estimate: time.Hour}
}

func run(f *placement.Fleet, j Job, at time.Time) Running {
	p, _ := f.Place(j.Request)
	f.Take(j.Request, p)
	return Running{Job: j, Placement: p, Started: at}
}

func started(starts []Start) (ids []string) {
	for _, s := range starts {
		ids = append(ids, s.Job.ID)
	}
	return ids
}

func TestAShortJobStartsAheadOfOneThatWaitsForRoomAndALongOneDoesNot(t *testing.T) {
	t.Parallel()
	f := fleet(1)
	running := []Running{run(f, job("r", 3, 0), t0)}
	short, long := job("short", 1, 2), job("long", 1, 1)
	short.Estimate, long.Estimate = 30*time.Minute, 3*time.Hour
	waiting := []Job{job("big", 4, 0), long, short}
	now := t0.Add(10 * time.Minute)
	starts, stops := Cycle(f, Standard(), waiting, running, now)
	if !slices.Equal(started(starts), []string{"short"}) || len(stops) > 0 {
		t.Errorf("started %v", started(starts))
	}
	f = fleet(1)
	running = []Running{run(f, job("r", 3, 0), t0)}
	fifo := Standard()
	fifo.Backfill = false
	if starts, _ := Cycle(f, fifo, waiting, running, now); len(starts) > 0 {
		t.Errorf("without backfill started %v", started(starts))
	}
}

func TestALongJobStartsBesideThePlaceThatIsKeptAndTheShortestAheadOfIt(t *testing.T) {
	t.Parallel()
	f := fleet(2)
	soon, late := job("soon", 3, 0), job("late", 2, 0)
	late.Estimate = 10 * time.Hour
	running := []Running{run(f, soon, t0), run(f, late, t0)}
	if running[0].Placement.Nodes[0].HostID == running[1].Placement.Nodes[0].HostID {
		t.Fatal("both run on one host")
	}
	var waiting []Job
	for i, d := range []time.Duration{20 * time.Hour, 20 * time.Hour, 20 * time.Hour, 40 * time.Minute, 30 * time.Minute} {
		j := job(fmt.Sprint(i), 1, i+1)
		j.Estimate = d
		waiting = append(waiting, j)
	}
	starts, _ := Cycle(f, Standard(), append([]Job{job("big", 4, 0)}, waiting...), running, t0.Add(10*time.Minute))
	// Three GPUs are free: one where big goes in 50 minutes, for a short one, and two beside
	// what runs for long. The shortest come first, and take the first two.
	if !slices.Equal(started(starts), []string{"4", "3", "0"}) {
		t.Errorf("started %v", started(starts))
	}
	for _, s := range starts {
		if there := s.Placement.Nodes[0].HostID == running[0].Placement.Nodes[0].HostID; there && s.Job.Estimate > time.Hour {
			t.Errorf("%s is where big would go", s.Job.ID)
		}
	}
}

// Where and when a job gets room is the same as by ending what runs one by one.
func TestRoomIsFoundAtTheFirstEndThatMakesIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := fleet(3)
		var running []Running
		for i := range rapid.IntRange(1, 14).Draw(t, "runs") {
			j := job(fmt.Sprint("r", i), rapid.IntRange(1, 4).Draw(t, "gpus"), 0)
			j.Estimate = time.Duration(rapid.IntRange(0, 9).Draw(t, "hours")) * time.Hour
			if _, fits := f.Place(j.Request); fits {
				running = append(running, run(f, j, t0))
			}
		}
		want := job("want", rapid.IntRange(1, 4).Draw(t, "wanted"), 0)
		want.Request.Nodes = rapid.IntRange(1, 3).Draw(t, "nodes")
		if _, fits := f.Place(want.Request); fits {
			return
		}
		free := f.Free()
		c := cycle{f: f, p: Standard(), now: t0, running: running}
		at, _, known := c.roomFor(want)
		if f.Free() != free {
			t.Fatalf("%d are free, and were %d", f.Free(), free)
		}
		g := fleet(3)
		for _, r := range running {
			g.Take(r.Request, r.Placement)
		}
		slices.SortFunc(running, func(a, b Running) int { return cmp.Or(cmp.Compare(a.Estimate, b.Estimate), cmp.Compare(a.ID, b.ID)) })
		for _, r := range running {
			if r.Estimate == 0 {
				continue
			}
			g.Release(r.Request, r.Placement)
			if _, fits := g.Place(want.Request); fits {
				if !known || !at.Equal(r.Started.Add(r.Estimate)) {
					t.Fatalf("it is said to have room at %s (%v), and has at %s", at, known, r.Started.Add(r.Estimate))
				}
				return
			}
		}
		if known {
			t.Fatalf("it is said to have room at %s, and never has", at)
		}
	})
}

// KAI-Scheduler#2075.
func TestAJobThatAlwaysFailsHoldsUpNobody(t *testing.T) {
	t.Parallel()
	poison := job("poison", 4, 0)
	poison.Priority, poison.Failures, poison.LastFailure = 100, 5, t0
	for _, tt := range []struct {
		after time.Duration
		want  []string
	}{{time.Second, []string{"good"}}, {159 * time.Second, []string{"good"}}, {160 * time.Second, []string{"poison"}}} {
		starts, _ := Cycle(fleet(1), Standard(), []Job{poison, job("good", 4, 1)}, nil, t0.Add(tt.after))
		if !slices.Equal(started(starts), tt.want) {
			t.Errorf("after %s started %v, want %v", tt.after, started(starts), tt.want)
		}
	}
}

func TestTheOwnerWithLessOfItsOwnIsNextAndQuotasHold(t *testing.T) {
	t.Parallel()
	p := Standard()
	p.Quotas = map[string]Quota{"a": {Milli: 4000, Borrow: 1000}, "b": {Milli: 4000}}
	var waiting []Job
	for i := range 12 {
		j := job(fmt.Sprintf("%02d", i), 1, i)
		j.Owner = []string{"a", "b"}[i/6]
		waiting = append(waiting, j)
	}
	starts, _ := Cycle(fleet(3), p, waiting, nil, t0)
	owners := ""
	for _, s := range starts {
		owners += s.Job.Owner
	}
	if owners != "ababababa" {
		t.Errorf("%s started; want turns, four of b, and one that a borrows", owners)
	}
}

// kueue#7101: whatever waits and runs, each cycle ends, only spot is stopped, nothing
// twice within the cool-down, and what is taken is what runs.
func TestCyclesStopOnlySpotAndNothingTwiceInACoolDown(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := fleet(2)
		p := Standard()
		all := f.Free()
		var waiting []Job
		var running []Running
		stopped := map[string]time.Time{}
		now := t0
		for n := range rapid.IntRange(1, 12).Draw(t, "cycles") {
			now = now.Add(10 * time.Minute)
			for k := range rapid.IntRange(0, 4).Draw(t, "new") {
				j := job(fmt.Sprint(n, "-", k), rapid.IntRange(1, 4).Draw(t, "gpus"), 0)
				j.Submitted, j.Owner = now, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner")
				j.Spot, j.Priority = rapid.Bool().Draw(t, "spot"), rapid.IntRange(0, 2).Draw(t, "priority")
				j.Request.Nodes = rapid.IntRange(1, 2).Draw(t, "nodes")
				waiting = append(waiting, j)
			}
			starts, stops := Cycle(f, p, waiting, running, now)
			for _, r := range stops {
				if at, again := stopped[r.ID]; !r.Spot || (again && now.Sub(at) < p.CoolDown) {
					t.Fatalf("%s was stopped; spot %v, before at %s", r.ID, r.Spot, at)
				}
				stopped[r.ID] = now
				running = slices.DeleteFunc(running, func(o Running) bool { return o.ID == r.ID })
				r.Job.Stopped = now
				waiting = append(waiting, r.Job)
			}
			for _, s := range starts {
				waiting = slices.DeleteFunc(waiting, func(j Job) bool { return j.ID == s.Job.ID })
				running = append(running, Running{Job: s.Job, Placement: s.Placement, Started: now})
			}
			used := int64(0)
			for _, r := range running {
				used += r.GPUs()
			}
			if used+f.Free() != all {
				t.Fatalf("%d run and %d are free of %d", used, f.Free(), all)
			}
		}
	})
}
