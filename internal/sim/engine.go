package sim

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
)

// host is one machine of the fleet.
type host struct {
	id      string
	group   *Group
	market  *market
	present bool
	claimed int // GPUs that leases on demand have or are about to get
	running int // of claimed, those in use
	spot    int // GPUs that bids hold, of others too
	pending []*job
	leases  []*job // on demand, running here
}

// rated is one lease of a job: a quote and the use of it.
type rated struct {
	quote pricing.Quote
	usage []pricing.Interval
}

// job is a Job on its way.
type job struct {
	Job
	index    int
	models   []*market // that will do, the cheapest first
	host     *host     // nil while it does not run; also that of a claim
	since    time.Time // of the run, while it runs
	runs     bool
	done     time.Duration // work that is saved
	ran      time.Duration
	started  time.Time // first
	ended    time.Time
	gaveUp   bool
	life     int // invalidates events of earlier runs
	leases   []rated
	list     money.Rate // what the bundle costs an hour on demand, where it ran last
	onDemand money.Amount
	reason   auction.Reason // of the notice that it is on
	stopped  map[string]int
	noFit    bool // no host of the fleet is large enough
}

type eventKind int

// Of events at one moment, hosts come and go first, and GPUs get free before
// somebody wants them.
const (
	hostChange eventKind = iota
	priceChange
	jobEnds
	jobComes
	jobGivesUp
	marketTurn
)

type event struct {
	at   time.Time
	kind eventKind
	seq  int
	job  *job
	life int
	act  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(e[i].at.Compare(e[j].at), cmp.Compare(e[i].kind, e[j].kind), cmp.Compare(e[i].seq, e[j].seq)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(v any)   { *e = append(*e, v.(event)) }
func (e *events) Pop() any {
	old := *e
	v := old[len(old)-1]
	*e = old[:len(old)-1]
	return v
}

// engine is a simulation under way.
type engine struct {
	fleet   Fleet
	policy  Policy
	now     time.Time
	start   time.Time
	queue   events
	seq     int
	hosts   []*host
	markets []*market // by model, in the order of the fleet
	jobs    []*job
	waiting []*job // for GPUs on demand, in the order of submission
	freed   bool   // something got free since waiting was last looked at
	pick    map[string][]placement.GPU
	left    int // jobs that are not over
	quotes  map[quoteKey]pricing.Quote
	offered map[*market]int64     // GPU-microseconds of present hosts; nanoseconds overflow with a large fleet's months
	used    map[*market]*[2]int64 // likewise: on demand, spot
	counted time.Time             // up to which offered and used are counted
	rounds  int
	err     error
}

type quoteKey struct {
	plan string
	rate money.Rate
	bid  money.Rate
}

// Run replays a trace. It fails where an argument is wrong or money overflows.
func Run(f Fleet, p Policy, t Trace) (Report, error) {
	if err := errors.Join(f.Check(), p.Check()); err != nil {
		return Report{}, fmt.Errorf("simulate: %w", err)
	}
	e := &engine{fleet: f, policy: p, start: epoch, quotes: map[quoteKey]pricing.Quote{}, pick: map[string][]placement.GPU{},
		offered: map[*market]int64{}, used: map[*market]*[2]int64{}}
	if len(t.Jobs) > 0 {
		e.start = t.Jobs[0].Submitted
	} else if len(f.Others) > 0 {
		e.start = f.Others[0].Prices[0].At
	}
	e.now, e.counted = e.start, e.start
	e.addFleet()
	if err := e.addJobs(append(slices.Clone(t.Jobs), f.jobs(e.start)...)); err != nil {
		return Report{}, fmt.Errorf("simulate: %w", err)
	}
	end := e.loop()
	if e.err != nil {
		return Report{}, fmt.Errorf("simulate: %w", e.err)
	}
	for _, j := range e.jobs {
		if j.runs {
			e.pause(j, false)
		}
	}
	r, err := e.report(t, end)
	if err != nil {
		return Report{}, fmt.Errorf("simulate: %w", err)
	}
	return r, nil
}

func (e *engine) at(at time.Time, kind eventKind, j *job, act func()) {
	e.seq++
	v := event{at: at, kind: kind, seq: e.seq, job: j, act: act}
	if j != nil {
		v.life = j.life
	}
	heap.Push(&e.queue, v)
}

func (e *engine) addFleet() {
	models := map[string]*market{}
	for i := range e.fleet.Groups {
		g := &e.fleet.Groups[i]
		m := models[g.Model]
		if m == nil {
			m = newMarket(g.Model)
			models[g.Model] = m
			e.markets = append(e.markets, m)
			e.used[m] = &[2]int64{}
		}
		m.largest = max(m.largest, g.GPUs)
		m.groups = append(m.groups, g)
		add := func(id string, present bool) *host {
			h := &host{id: id, group: g, market: m, present: present}
			e.hosts, m.hosts = append(e.hosts, h), append(m.hosts, h)
			return h
		}
		if g.Churn == nil {
			for n := range g.Count {
				add(fmt.Sprintf("%03d-%s-%05d", i, g.Name, n), true)
			}
			continue
		}
		byName := map[string]*host{}
		for _, c := range g.Churn {
			h := byName[c.Node]
			if h == nil {
				h = add(fmt.Sprintf("%03d-%s-%s", i, g.Name, c.Node), false)
				byName[c.Node] = h
			}
			e.at(e.start.Add(c.After), hostChange, nil, func() { e.setPresent(h, c.Add) })
		}
	}
	for _, m := range e.markets {
		m.setListPrice()
	}
	for _, o := range e.fleet.Others {
		m := models[o.Model]
		m.others = true
		shift := e.start.Sub(o.Prices[0].At)
		for _, p := range o.Prices {
			e.at(p.At.Add(shift), priceChange, nil, func() { m.othersBid, m.dirty = p.Price, true })
		}
	}
}

func (e *engine) addJobs(jobs []Job) error {
	random := rand.New(rand.NewPCG(e.policy.Seed, 0x5eed))
	cheapest := slices.Clone(e.markets)
	slices.SortStableFunc(cheapest, func(a, b *market) int { return cmp.Compare(a.list, b.list) })
	for _, wanted := range jobs {
		j := &job{Job: wanted, index: len(e.jobs), stopped: map[string]int{}}
		e.jobs = append(e.jobs, j)
		share := e.policy.draw(random, &j.Job)
		j.noFit = true
		for _, m := range cheapest {
			if len(j.Models) == 0 || slices.Contains(j.Models, m.model) {
				j.models = append(j.models, m)
				j.noFit = j.noFit && m.largest < j.GPUs
			}
		}
		if j.noFit {
			continue
		}
		// A bid is in one market: the cheapest that has hosts of the size.
		if j.Plan == pricing.Spot {
			j.models = slices.DeleteFunc(j.models, func(m *market) bool { return m.largest < j.GPUs })[:1]
			if j.Bid == 0 {
				bid, err := shareOf(j.models[0].list, share)
				if err != nil {
					return err
				}
				j.Bid = bid
			}
			tick := e.policy.Market.Tick
			j.Bid = max(j.Bid-j.Bid%tick, tick)
		}
		e.left++
		e.at(j.Submitted, jobComes, j, func() { e.comes(j) })
	}
	return nil
}

// shareOf is a part of a price in basis points, rounded down.
func shareOf(p auction.Price, basisPoints int) (auction.Price, error) {
	a, err := money.Rate(p).Times(int64(basisPoints), 10_000)
	return auction.Price(a) * 1000, err
}

// loop runs until nothing is left to happen, and returns when that was.
func (e *engine) loop() time.Time {
	horizon := time.Time{}
	if e.policy.Until > 0 {
		horizon = e.start.Add(e.policy.Until)
	}
	for len(e.queue) > 0 && e.err == nil {
		if e.left == 0 && horizon.IsZero() && len(e.jobs) > 0 {
			break
		}
		next := e.queue[0].at
		if !horizon.IsZero() && next.After(horizon) {
			break
		}
		e.count(next)
		e.now = next
		for len(e.queue) > 0 && e.queue[0].at.Equal(next) {
			v := heap.Pop(&e.queue).(event)
			if v.job == nil || v.life == v.job.life {
				v.act()
			}
		}
		e.serve()
		for _, m := range e.markets {
			e.turn(m)
		}
		e.startClaims()
	}
	if !horizon.IsZero() {
		e.count(horizon)
		e.now = horizon
	}
	return e.now
}

// count adds up GPU-time until a moment, before anything changes then.
func (e *engine) count(until time.Time) {
	d := until.Sub(e.counted).Microseconds()
	if d <= 0 {
		return
	}
	for _, h := range e.hosts {
		if h.present {
			e.offered[h.market] += int64(h.group.GPUs) * d
		}
	}
	for _, m := range e.markets {
		e.used[m][0] += int64(m.onDemandGPUs) * d
		e.used[m][1] += int64(m.spotGPUs) * d
	}
	e.counted = until
}

func (e *engine) comes(j *job) {
	if e.policy.Patience > 0 {
		// Not by its life: it gives up unless it started meanwhile.
		e.at(j.Submitted.Add(e.policy.Patience), jobGivesUp, nil, func() { e.givesUp(j) })
	}
	if j.Plan == pricing.Spot {
		j.models[0].join(j, e.now)
		return
	}
	if !e.place(j) {
		e.waiting = append(e.waiting, j)
	}
}

func (e *engine) givesUp(j *job) {
	if !j.started.IsZero() || j.host != nil {
		return
	}
	j.gaveUp = true
	j.life++
	e.left--
	if j.Plan == pricing.Spot {
		j.models[0].leave(j)
		return
	}
	e.waiting = slices.DeleteFunc(e.waiting, func(o *job) bool { return o == j })
}

// serve gives what got free to those who wait, in the order in which they came.
// Who fits goes before who does not, as nobody keeps GPUs for others in a market.
func (e *engine) serve() {
	if !e.freed || len(e.waiting) == 0 {
		e.freed = false
		return
	}
	e.freed = false
	type wish struct {
		first *market
		many  int
		gpus  int
	}
	refused := map[wish]bool{}
	kept := e.waiting[:0]
	for _, j := range e.waiting {
		w := wish{j.models[0], len(j.models), j.GPUs}
		// Jobs with other lists of models may look alike here only if the lists have
		// one first and one length; these are looked at one by one.
		alike := len(j.models) == 1 || len(j.models) == len(e.markets)
		if alike && refused[w] || !e.place(j) {
			refused[w] = refused[w] || alike
			kept = append(kept, j)
		}
	}
	clear(e.waiting[len(kept):])
	e.waiting = kept
}

// place finds GPUs for a job on demand: free ones, or else those that bids hold.
func (e *engine) place(j *job) bool {
	for _, held := range []bool{false, true} {
		if held && !e.policy.Preempt {
			return false
		}
		for _, m := range j.models {
			if h := e.choose(m, j.GPUs, held); h != nil {
				h.claimed += j.GPUs
				m.dirty = true
				j.host = h
				if held {
					h.pending = append(h.pending, j)
					m.claims = append(m.claims, h)
					return true
				}
				e.begin(j, h)
				return true
			}
		}
	}
	return false
}

// choose asks placement for a host. GPUs have no topology here, so hosts with as
// many free GPUs are alike but for their name, and only the first of them is asked
// about: placement would choose it.
func (e *engine) choose(m *market, gpus int, held bool) *host {
	var first [1025]*host
	found := false
	for _, h := range m.hosts {
		n := h.group.GPUs - h.claimed
		if !held {
			n -= h.spot
		}
		if h.present && n >= gpus && (first[n] == nil || h.id < first[n].id) {
			first[n], found = h, true
		}
	}
	if !found {
		return nil
	}
	candidates := make([]placement.Host, 0, 8)
	by := map[string]*host{}
	for n, h := range first {
		// The fullest host wins, and a few candidates show it.
		if h != nil && len(candidates) < 4 {
			candidates = append(candidates, placement.Host{ID: h.id, GPUs: e.freeGPUs(m.model, n)})
			by[h.id] = h
		}
	}
	choice, err := placement.Choose(candidates, placement.Request{Models: []string{m.model}, Count: gpus})
	if err != nil {
		return nil
	}
	return by[choice.HostID]
}

func (e *engine) freeGPUs(model string, n int) []placement.GPU {
	key := model + " " + strconv.Itoa(n)
	if g, ok := e.pick[key]; ok {
		return g
	}
	out := make([]placement.GPU, n)
	for i := range out {
		out[i] = placement.GPU{UUID: fmt.Sprintf("GPU-%04d", i), Index: i, Model: model, NUMA: -1, Free: true}
	}
	e.pick[key] = out
	return out
}

// begin starts a lease on demand on GPUs that are claimed for it.
func (e *engine) begin(j *job, h *host) {
	h.running += j.GPUs
	h.leases = append(h.leases, j)
	h.market.onDemandGPUs += j.GPUs
	rate, err := h.group.Price.Bundle(j.GPUs)
	if err != nil {
		e.err = err
		return
	}
	q, err := e.quote(pricing.OnDemand, rate, 0)
	if err != nil {
		e.err = err
		return
	}
	j.leases = append(j.leases, rated{quote: q})
	j.list = rate
	e.run(j, h, 0)
}

// run makes a job run from now on, at a rate if it is spot.
func (e *engine) run(j *job, h *host, rate money.Rate) {
	j.host, j.since, j.runs = h, e.now, true
	if j.started.IsZero() {
		j.started = e.now
	}
	l := &j.leases[len(j.leases)-1]
	l.usage = append(l.usage, pricing.Interval{Start: e.now, Rate: rate})
	j.life++
	if j.Run > 0 {
		e.at(e.now.Add(j.Run-j.done), jobEnds, j, func() { e.ends(j) })
	}
}

// pause stops a job's run: evicted by the platform, or because it ends.
func (e *engine) pause(j *job, evicted bool) {
	ran := e.now.Sub(j.since)
	l := &j.leases[len(j.leases)-1]
	last := &l.usage[len(l.usage)-1]
	last.End, last.Evicted = e.now, evicted
	j.ran += ran
	if every := e.policy.Checkpoint; evicted && every > 0 {
		ran -= ran % every
	}
	j.done += ran
	j.runs = false
	j.life++
	spent, err := j.list.Times(int64(e.now.Sub(j.since)/time.Second), 3600)
	if err == nil {
		j.onDemand, err = j.onDemand.Add(spent)
	}
	e.err = cmp.Or(e.err, err)
}

func (e *engine) ends(j *job) {
	h := j.host
	e.pause(j, false)
	j.ended = e.now
	e.left--
	e.freed = true
	h.market.dirty = true
	j.host = nil
	if j.Plan == pricing.Spot {
		h.spot -= j.GPUs
		h.market.spotGPUs -= j.GPUs
		h.market.leave(j)
		return
	}
	h.release(j)
}

// release takes a lease on demand off its host.
func (h *host) release(j *job) {
	h.claimed -= j.GPUs
	h.running -= j.GPUs
	h.market.onDemandGPUs -= j.GPUs
	h.leases = slices.DeleteFunc(h.leases, func(o *job) bool { return o == j })
}

// startClaims starts leases that waited for bids to leave their GPUs.
func (e *engine) startClaims() {
	for _, m := range e.markets {
		m.claims = slices.DeleteFunc(m.claims, func(h *host) bool {
			for len(h.pending) > 0 && h.pending[0].GPUs <= h.group.GPUs-h.spot-h.running {
				j := h.pending[0]
				h.pending = h.pending[1:]
				e.begin(j, h)
			}
			return len(h.pending) == 0
		})
	}
}

// setPresent makes a host come or go. Whoever is on one that goes is interrupted
// at once: a host that is lost gives no notice.
func (e *engine) setPresent(h *host, present bool) {
	if h.present == present {
		return
	}
	h.present = present
	h.market.dirty, e.freed = true, true
	if present {
		return
	}
	const lost = "host_lost"
	for _, j := range slices.Clone(h.leases) {
		e.pause(j, true)
		j.stopped[lost]++
		h.release(j)
		j.host = nil
		e.requeue(j)
	}
	for _, j := range h.pending {
		h.claimed -= j.GPUs
		j.host = nil
		e.requeue(j)
	}
	h.pending = nil
	h.market.lose(e, h, lost)
}

// requeue puts a job back to its place among those who wait.
func (e *engine) requeue(j *job) {
	i, _ := slices.BinarySearchFunc(e.waiting, j, func(a, b *job) int {
		return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.index, b.index))
	})
	e.waiting = slices.Insert(e.waiting, i, j)
}

func (e *engine) quote(plan string, rate, bid money.Rate) (pricing.Quote, error) {
	key := quoteKey{plan, rate, bid}
	if q, ok := e.quotes[key]; ok {
		return q, nil
	}
	t := pricing.Tariff{Currency: e.fleet.Currency, Compute: rate, Granularity: e.policy.Granularity, CommissionBasisPoints: e.policy.CommissionBasisPoints}
	if plan == pricing.OnDemand {
		t.MinimumSeconds = e.policy.MinimumSeconds
	}
	q, err := pricing.NewQuote(t, pricing.Request{Plan: plan, Bid: bid, Simulated: true}, e.start)
	if err == nil {
		e.quotes[key] = q
	}
	return q, err
}
