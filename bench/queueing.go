package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"suanli.dev/internal/placement"
	"suanli.dev/internal/placement/queue"
)

// queueJob is a job of a trace, and what became of it.
type queueJob struct {
	queue.Job
	runs time.Duration

	started time.Time
	hosts   []int
}

// nodes and each are how many hosts a job takes and how many GPUs of each.
func (j *queueJob) nodes() int { return max(1, j.Request.Nodes) }
func (j *queueJob) each() int  { return j.Request.Count }

// hostGPUs is how many GPUs each host of these fleets has.
const hostGPUs = 8

// queueLimits are the run times that a job may be allowed: the shortest that it keeps to
// is its estimate. The traces have none; users and batch systems choose from a few.
var queueLimits = []time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour, 168 * time.Hour, 1440 * time.Hour}

// scheduler decides what starts. Waiting jobs are in the order in which they came.
type scheduler interface {
	decide(now time.Time, waiting []*queueJob, running []*queueJob) (starts []*queueJob)
	ended(j *queueJob)
}

// queueReport is what a schedule came to.
type queueReport struct {
	mean, p50, p99 time.Duration // of waiting
	utilisation    float64       // until the last job came, in per cent
	gangs          int           // jobs on more than one host
	distance       float64       // levels of the network between the ends of a gang, mean
}

func (r queueReport) String() string {
	return fmt.Sprintf("waiting %s on the mean, %s at the median, %s at the 99th per cent; %.2f %% in use; %d gangs over %.2f levels",
		r.mean.Round(time.Second), r.p50.Round(time.Second), r.p99.Round(time.Second), r.utilisation, r.gangs, r.distance)
}

// replay runs jobs, which are in the order of coming, through a scheduler.
func replay(ctx context.Context, s scheduler, jobs []queueJob, hosts []placement.Host) (queueReport, error) {
	type ending struct {
		at time.Time
		j  *queueJob
	}
	var ends []ending // soonest first
	var waiting, running []*queueJob
	first, last := jobs[0].Submitted, jobs[len(jobs)-1].Submitted
	for next := 0; next < len(jobs) || len(ends) > 0; {
		if err := ctx.Err(); err != nil {
			return queueReport{}, err
		}
		var now time.Time
		if next < len(jobs) {
			now = jobs[next].Submitted
		}
		if len(ends) > 0 && (next == len(jobs) || ends[0].at.Before(now)) {
			now = ends[0].at
		}
		for next < len(jobs) && !jobs[next].Submitted.After(now) {
			waiting = append(waiting, &jobs[next])
			next++
		}
		over := map[*queueJob]bool{}
		for len(ends) > 0 && !ends[0].at.After(now) {
			s.ended(ends[0].j)
			over[ends[0].j] = true
			ends = ends[1:]
		}
		running = slices.DeleteFunc(running, func(j *queueJob) bool { return over[j] })
		if len(waiting) == 0 {
			continue
		}
		starts := s.decide(now, waiting, running)
		for _, j := range starts {
			j.started = now
			e := ending{now.Add(j.runs), j}
			at, _ := slices.BinarySearchFunc(ends, e, func(a, b ending) int { return a.at.Compare(b.at) })
			ends = slices.Insert(ends, at, e)
			running = append(running, j)
		}
		if len(starts) > 0 {
			waiting = slices.DeleteFunc(waiting, func(j *queueJob) bool { return !j.started.IsZero() })
		} else if len(running) == 0 && next == len(jobs) {
			return queueReport{}, fmt.Errorf("%d jobs wait beside an empty fleet", len(waiting))
		}
	}
	var r queueReport
	var waits []time.Duration
	var sum float64 // seconds: all of them together are more than a Duration holds
	var used time.Duration
	levels := 0
	for i := range jobs {
		j := &jobs[i]
		wait := j.started.Sub(j.Submitted)
		waits, sum = append(waits, wait), sum+wait.Seconds()
		if until := j.started.Add(j.runs); j.started.Before(last) {
			if until.After(last) {
				until = last
			}
			used += until.Sub(j.started) / time.Duration(len(hosts)) * time.Duration(j.nodes()*j.each()) / hostGPUs
		}
		if j.nodes() > 1 {
			far := 0
			for a := range j.hosts {
				for b := range a {
					far = max(far, placement.Distance(hosts[j.hosts[a]], hosts[j.hosts[b]]))
				}
			}
			r.gangs, levels = r.gangs+1, levels+far
		}
	}
	slices.Sort(waits)
	r.mean, r.p50, r.p99 = time.Duration(sum/float64(len(jobs))*float64(time.Second)), waits[len(waits)/2], waits[len(waits)*99/100]
	r.utilisation = 100 * float64(used) / float64(last.Sub(first))
	r.distance = float64(levels) / float64(max(1, r.gangs))
	return r, nil
}

// product is the product's queue and placement.
type product struct {
	f       *placement.Fleet
	at      map[string]int // hosts, by id
	busy    []queue.Running
	waiting map[string]*queueJob
}

func newProduct(hosts []placement.Host) *product {
	p := &product{f: placement.NewFleet(placement.Standard()), at: map[string]int{}, waiting: map[string]*queueJob{}}
	for i, h := range hosts {
		p.f.Set(h)
		p.at[h.ID] = i
	}
	return p
}

func (p *product) ended(j *queueJob) {
	i := slices.IndexFunc(p.busy, func(r queue.Running) bool { return r.ID == j.ID })
	p.f.Release(j.Request, p.busy[i].Placement)
	p.busy = slices.Delete(p.busy, i, i+1)
}

func (p *product) decide(now time.Time, waiting, _ []*queueJob) (starts []*queueJob) {
	line := make([]queue.Job, len(waiting))
	for i, j := range waiting {
		line[i] = j.Job
		if p.waiting[j.ID] == nil {
			p.waiting[j.ID] = j
			p.f.Observe(j.Request)
		}
	}
	got, _ := queue.Cycle(p.f, queue.Standard(), line, p.busy, now)
	for _, s := range got {
		j := p.waiting[s.Job.ID]
		delete(p.waiting, j.ID)
		p.busy = append(p.busy, queue.Running{Job: s.Job, Placement: s.Placement, Started: now})
		for _, n := range s.Placement.Nodes {
			j.hosts = append(j.hosts, p.at[n.HostID])
		}
		starts = append(starts, j)
	}
	return starts
}

// baseline is a scheduler as they are common, written apart from the product.
type baseline struct {
	free []int // GPUs of each host
	best bool  // the host with the least room that does; else the first one
	// skip passes over jobs that find no room; backfill does so too, but holds back
	// what would keep the first of them from its place.
	skip, backfill bool
}

func newBaseline(hosts int, best, skip, backfill bool) *baseline {
	b := &baseline{make([]int, hosts), best, skip, backfill}
	for i := range b.free {
		b.free[i] = hostGPUs
	}
	return b
}

func (b *baseline) ended(j *queueJob) {
	for _, h := range j.hosts {
		b.free[h] += j.each()
	}
}

func (b *baseline) find(free []int, nodes, each int) []int {
	var fit []int
	for h, n := range free {
		if n >= each {
			if fit = append(fit, h); !b.best && len(fit) == nodes {
				return fit
			}
		}
	}
	if len(fit) < nodes {
		return nil
	}
	slices.SortStableFunc(fit, func(x, y int) int { return cmp.Compare(free[x], free[y]) })
	return fit[:nodes]
}

func (b *baseline) decide(now time.Time, waiting, running []*queueJob) (starts []*queueJob) {
	var shadow time.Time
	spare := 0 // GPUs that the held-back job leaves when it starts
	full := map[[2]int]bool{}
	for _, j := range waiting {
		size := [2]int{j.nodes(), j.each()}
		if full[size] {
			continue
		}
		hosts := b.find(b.free, j.nodes(), j.each())
		if hosts == nil {
			full[size] = true
		}
		switch {
		case hosts == nil && shadow.IsZero() && b.backfill:
			shadow, spare = b.shadow(j, slices.Concat(running, starts), now)
			continue
		case hosts == nil && (b.skip || b.backfill):
			continue
		case hosts == nil:
			return starts
		case !shadow.IsZero() && now.Add(j.Estimate).After(shadow):
			if spare < j.nodes()*j.each() {
				continue
			}
			spare -= j.nodes() * j.each()
		}
		for _, h := range hosts {
			b.free[h] -= j.each()
		}
		j.hosts, j.started = hosts, now
		starts = append(starts, j)
	}
	return starts
}

// shadow is when a job could start if everything ran as long as was said, and how many
// GPUs are free beside it then.
func (b *baseline) shadow(j *queueJob, running []*queueJob, now time.Time) (time.Time, int) {
	slices.SortFunc(running, func(x, y *queueJob) int { return x.started.Add(x.Estimate).Compare(y.started.Add(y.Estimate)) })
	free := slices.Clone(b.free)
	for _, r := range running {
		for _, h := range r.hosts {
			free[h] += r.each()
		}
		if b.find(free, j.nodes(), j.each()) != nil {
			spare := -j.nodes() * j.each()
			for _, n := range free {
				spare += n
			}
			at := r.started.Add(r.Estimate)
			if at.Before(now) {
				at = now
			}
			return at, spare
		}
	}
	return time.Time{}, 0
}

// philly reads the jobs of SUANLI_BENCH_PHILLY, soonest first; faster makes them come so
// many times faster.
func philly(faster int) ([]queueJob, error) {
	name := os.Getenv("SUANLI_BENCH_PHILLY")
	if name == "" {
		return nil, errors.New("SUANLI_BENCH_PHILLY has to name a file of the Philly trace: gzipped lines of timestamp, duration, num_gpus, gpu_time, cluster")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(z).ReadAll()
	if err != nil {
		return nil, err
	}
	var jobs []queueJob
	var first time.Time
	for i, row := range rows {
		if i == 0 || len(row) < 5 {
			continue // the names of the columns
		}
		at, err := time.Parse(time.DateTime, row[0])
		seconds, err2 := strconv.ParseFloat(row[1], 64)
		gpus, err3 := strconv.Atoi(row[2])
		if err := errors.Join(err, err2, err3); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, i+1, err)
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		j := queueJob{runs: time.Duration(seconds * float64(time.Second))}
		nodes := (gpus + hostGPUs - 1) / hostGPUs
		j.Job = queue.Job{ID: fmt.Sprintf("%06d", i), Owner: row[4], Submitted: at, Request: placement.Request{Nodes: nodes, Count: (gpus + nodes - 1) / nodes}}
		j.Estimate = queueLimits[len(queueLimits)-1]
		for _, l := range slices.Backward(queueLimits) {
			if j.runs <= l {
				j.Estimate = l
			}
		}
		jobs = append(jobs, j)
	}
	for i := range jobs {
		jobs[i].Submitted = first.Add(jobs[i].Submitted.Sub(first) / time.Duration(faster))
	}
	slices.SortStableFunc(jobs, func(a, b queueJob) int { return a.Submitted.Compare(b.Submitted) })
	return jobs, nil
}

// compareQueues replays jobs through the product and three common schedulers on the same
// hosts. Ours is the mean time of waiting, the peer the least of theirs; it passes if it
// is no longer, with no less of the GPUs in use and gangs no farther apart.
func compareQueues(ctx context.Context, jobs []queueJob, hosts []placement.Host) (result, error) {
	run := func(name string, s scheduler) (queueReport, error) {
		own := slices.Clone(jobs)
		began := time.Now()
		r, err := replay(ctx, s, own, hosts)
		fmt.Printf("  %-28s %s (%s)\n", name+":", r, time.Since(began).Round(100*time.Millisecond))
		return r, err
	}
	ours, err := run("suanli", newProduct(hosts))
	if err != nil {
		return result{}, err
	}
	var best queueReport
	for _, b := range []struct {
		name string
		s    *baseline
	}{
		{"first come, first fit", newBaseline(len(hosts), false, false, false)},
		{"best fit, passing over", newBaseline(len(hosts), true, true, false)},
		{"EASY backfill, best fit", newBaseline(len(hosts), true, false, true)},
	} {
		r, err := run(b.name, b.s)
		if err != nil {
			return result{}, err
		}
		if best.gangs == 0 || r.mean < best.mean {
			best.mean = r.mean
		}
		if best.gangs == 0 || r.distance < best.distance {
			best.distance = r.distance
		}
		best.utilisation, best.gangs = max(best.utilisation, r.utilisation), r.gangs
	}
	ok := ours.mean <= best.mean && ours.utilisation >= best.utilisation-0.05 && ours.distance <= best.distance
	return result{fmt.Sprintf("%.0fs", ours.mean.Seconds()), fmt.Sprintf("%.0fs", best.mean.Seconds()), float64(ours.mean) / float64(max(1, best.mean)), ok}, nil
}

// benchPhilly replays Microsoft's Philly trace of 2017 (Jeon et al., USENIX ATC 2019):
// when jobs came, for how many GPUs, how long they ran and in which virtual cluster, which
// is the owner here. The trace says neither which hosts there were nor how long users said
// that jobs would run, so the hosts are 80 with 8 GPUs, about as many as its busiest
// week keeps busy, in racks of 8 under leaves of two, and the estimate is the shortest of
// seven limits that a job keeps to. A job of more than 8 GPUs takes whole hosts, or as
// many GPUs of each.
func benchPhilly(ctx context.Context, _ *world) (result, error) {
	jobs, err := philly(1)
	if err != nil {
		return result{}, err
	}
	var hosts []placement.Host
	for i := range 80 {
		hosts = append(hosts, queueHost(fmt.Sprintf("h%03d", i), fmt.Sprint("leaf", i/16), fmt.Sprint("rack", i/8)))
	}
	return compareQueues(ctx, jobs, hosts)
}

// benchLingjun sends the jobs of the Philly trace to the hosts of Alibaba's Lingjun
// dataset of 2023, sixteen times as fast as they came, which is about what 847 hosts of 8
// GPUs can do. The dataset has the network of three layers and no jobs: what is compared
// is how near to each other gangs are put in it. SUANLI_BENCH_LINGJUN names its
// topology, lines of host, DSW, PSW, ASW.
func benchLingjun(ctx context.Context, _ *world) (result, error) {
	jobs, err := philly(16)
	if err != nil {
		return result{}, err
	}
	name := os.Getenv("SUANLI_BENCH_LINGJUN")
	if name == "" {
		return result{}, errors.New("SUANLI_BENCH_LINGJUN has to name a file of lines of ip, DSW, PSW, ASW")
	}
	rows, err := readCSV(name)
	if err != nil {
		return result{}, err
	}
	var hosts []placement.Host
	for _, r := range rows {
		hosts = append(hosts, queueHost(r["ip"], r["DSW"], r["PSW"], r["ASW"]))
	}
	return compareQueues(ctx, jobs, hosts)
}

// queueHost is a host of 8 GPUs at a place in the network, from the top down.
func queueHost(id string, fabric ...string) placement.Host {
	h := placement.Host{ID: id, Fabric: fabric[:len(fabric)-1], Rack: fabric[len(fabric)-1]}
	for k := range hostGPUs {
		h.GPUs = append(h.GPUs, placement.GPU{UUID: strconv.Itoa(k), Index: k, Model: "GPU", NUMA: -1, Free: true})
	}
	return h
}
