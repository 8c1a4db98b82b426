package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"suanli.dev/api"
	"suanli.dev/internal/store"
)

// drillWorld is a cloud of three control planes, a database, a bus and two hosts,
// each in a network namespace of its own.
type drillWorld struct {
	*replicaWorld
	t     *testing.T
	site  *site
	pg    *postgres
	links map[string]*link // by "plane0 db", "plane0 bus"
	u     *user
	kept  []*api.Lease // run from the beginning to the end
}

// Few seeds in make test, hundreds in make drill: SUANLI_TEST_SEEDS of them, from
// SUANLI_TEST_SEED on.
func TestWhateverPartFailsRunningLeasesAndTheBooksDoNot(t *testing.T) {
	seed := fromEnvironment(t, "SUANLI_TEST_SEED", 20260101)
	seeds := fromEnvironment(t, "SUANLI_TEST_SEEDS", 2)
	w := newDrillWorld(t)
	var total tally
	for s := seed; s < seed+seeds; s++ {
		begin := time.Now()
		got, faults, err := w.drill(uint64(s))
		total.add(got)
		if err != nil {
			t.Fatalf("seed %d: %v\nfaults:\n  %s\nto repeat it: make drill SEED=%d", s, err, strings.Join(faults, "\n  "), s)
		}
		t.Logf("seed %d in %v: %s; %v", s, time.Since(begin).Round(time.Second), strings.Join(faults, "; "), got)
	}
	t.Logf("%d seeds: %v", seeds, total)
}

// tally counts what was seen during faults.
type tally struct {
	asked, answered int64 // requests of the API
	looks, running  int64 // at leases that should run
	rented, refused int64
}

func (a *tally) add(b tally) {
	a.asked += b.asked
	a.answered += b.answered
	a.looks += b.looks
	a.running += b.running
	a.rented += b.rented
	a.refused += b.refused
}

func (a tally) String() string {
	part := func(n, of int64) string {
		if of == 0 {
			return "–"
		}
		return fmt.Sprintf("%d.%02d %%", n*100/of, n*10000/of%100)
	}
	return fmt.Sprintf("API available %s of %d requests, leases counted as running %s of %d looks, %d rented", part(a.answered, a.asked), a.asked, part(a.running, a.looks), a.looks, a.rented)
}

func newDrillWorld(t *testing.T) *drillWorld {
	t.Helper()
	needRoot(t)
	if os.Getenv("SUANLI_TEST_POSTGRES") == "" {
		t.Skip("SUANLI_TEST_POSTGRES names no PostgreSQL: there may be none to run one's own")
	}
	exe, err := natsServer()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"p0", "p1", "p2", "db", "bus", "h0", "h1"}
	w := &drillWorld{t: t, site: newSite(t, names...), links: map[string]*link{}}
	w.replicaWorld = &replicaWorld{cloud: &cloud{dir: t.TempDir(), engine: "sim", heartbeatSeconds: 1, expectLeftLeases: true}}
	w.showLogs(t)
	gate := w.site.subnet + ".254"
	w.pg = newPostgres(t, w.site.part("db"), w.dir, 256)
	if err := w.startBus(exe); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.nats.kill() })
	var agents []string
	w.front = &front{ready: make([]atomic.Bool, 3)}
	for i := range 3 {
		name := fmt.Sprintf("p%d", i)
		at := w.site.part(name).address
		p := &plane{name: name, dir: filepath.Join(w.dir, name), api: at + ":7080", agents: at + ":7081", ssh: at + ":7022"}
		w.planes = append(w.planes, p)
		agents = append(agents, p.agents)
		w.links[name+" db"] = newLink(t, gate+":0", w.site.part("db").address+":5432")
		w.links[name+" bus"] = newLink(t, gate+":0", w.site.part("bus").address+":7422")
		target := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: p.api})
		target.FlushInterval = -1
		target.Transport = &http.Transport{DialContext: (&net.Dialer{Timeout: time.Second}).DialContext, ResponseHeaderTimeout: 5 * time.Second, IdleConnTimeout: 5 * time.Second}
		target.ErrorLog = quiet
		w.front.targets = append(w.front.targets, target)
	}
	w.agents = strings.Join(agents, ",")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.api = ln.Addr().String()
	srv := &http.Server{Handler: w.front, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	go func() { _ = srv.Serve(ln) }()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); srv.Close() })
	t.Cleanup(func() {
		for _, p := range w.planes {
			if p.p != nil {
				p.p.kill()
			}
		}
	})
	for i, p := range w.planes {
		if err := w.startDrillPlane(p, 0); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			key, err := os.ReadFile(filepath.Join(p.dir, "master.key"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(w.dir, "master.key"), key, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.front.watch(ctx, w.planes)
	if err := within(30*time.Second, w.allReady); err != nil {
		t.Fatal(err)
	}
	if w.db, err = store.Open(t.Context(), "postgres://postgres@"+w.site.part("db").address+":5432/postgres?sslmode=disable&connect_timeout=5"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.dataDir = w.planes[0].dir
	if w.operator, err = w.signIn("admin", "admin@localhost", filepath.Join(w.dataDir, "admin-password")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, h := range w.hosts {
			h.p.kill()
		}
	})
	for i := range 2 {
		h, token, err := w.newHost("8x4090")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.site.part(fmt.Sprintf("h%d", i)).inside(func() (err error) { h.p, err = start(h.log(), h.joining(token)...); return err }); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range w.hosts {
		if err := h.listed(); err != nil {
			t.Fatal(err)
		}
	}
	w.u = newTenant(t, w.cloud, "driller", "10000")
	for i := range 2 {
		l := w.u.rent(t, fmt.Sprintf("kept-%d", i), "--image", "debian:12", "--where", fmt.Sprintf(`gpu_count = 1 and host_id = "%s"`, w.hosts[i].id))
		w.kept = append(w.kept, w.u.reaches(t, l.ID, 30*time.Second, "running"))
	}
	return w
}

func (w *drillWorld) startBus(exe string) error {
	conf := filepath.Join(w.dir, "nats.conf")
	if err := os.WriteFile(conf, []byte("listen: \"0.0.0.0:4222\"\nleafnodes { listen: \"0.0.0.0:7422\" }\n"), 0o600); err != nil {
		return err
	}
	return w.site.part("bus").inside(func() (err error) {
		w.nats, err = startProgram(filepath.Join(w.dir, "nats.log"), exe, "-c", conf)
		return err
	})
}

// launchDrillPlane starts a control plane whose wall clock is wrong by so much.
func (w *drillWorld) launchDrillPlane(p *plane, wrong time.Duration) error {
	args := []string{"server", "--data-dir", p.dir, "--listen", "0.0.0.0:7080", "--agent-listen", "0.0.0.0:7081", "--agent-address", w.agents, "--replica-address", p.agents, "--ssh-listen", "0.0.0.0:7022",
		"--public-url", "http://" + w.api, "--database", "postgres://postgres@" + w.links[p.name+" db"].ln.Addr().String() + "/postgres?sslmode=disable&connect_timeout=5",
		"--bus", "nats-leaf://" + w.links[p.name+" bus"].ln.Addr().String(), "--images-dir", filepath.Join(w.dir, "images"),
		"--heartbeat-seconds", "1", "--allow-simulated=true", "--minimum-seconds", "0"}
	if p != w.planes[0] {
		args = append(args, "--master-key-file", filepath.Join(w.dir, "master.key"))
	}
	return w.site.part(p.name).inside(func() (err error) {
		log := filepath.Join(w.dir, p.name+".log")
		if wrong == 0 {
			p.p, err = start(log, args...)
		} else {
			p.p, err = startWrong(log, wrong, args...)
		}
		return err
	})
}

// startDrillPlane starts a control plane and waits until it is ready. One that gives
// up at its start, as without a database, is started again.
func (w *drillWorld) startDrillPlane(p *plane, wrong time.Duration) error {
	if err := w.launchDrillPlane(p, wrong); err != nil {
		return err
	}
	return w.planeUp(p)
}

func (w *drillWorld) planeUp(p *plane) error {
	client := &http.Client{Timeout: 3 * time.Second}
	return within(60*time.Second, func() error {
		select {
		case <-p.p.done:
			if err := w.launchDrillPlane(p, 0); err != nil {
				return final{err}
			}
		default:
		}
		res, err := client.Get("http://" + p.api + "/readyz")
		if err != nil {
			return fmt.Errorf("%s: %w: %s", p.name, err, tail(filepath.Join(w.dir, p.name+".log"), 2))
		}
		defer res.Body.Close()
		if res.StatusCode != 200 {
			return fmt.Errorf("%s is not ready: %s", p.name, res.Status)
		}
		return nil
	})
}

// misfortune is one fault: how it begins, and how it is mended.
type misfortune struct {
	name string
	do   func() (mend func() error, err error)
}

// misfortunes are all kinds of faults of one part, drawn from r.
func (w *drillWorld) misfortunes(r *rand.Rand) []misfortune {
	p := w.planes[r.IntN(3)]
	host := r.IntN(2)
	hostPart := w.site.part(fmt.Sprintf("h%d", host))
	planePart := w.site.part(p.name)
	stopped := func(pr func() *process) func() (func() error, error) {
		return func() (func() error, error) {
			return func() error { return pr().cmd.Process.Signal(syscall.SIGCONT) }, pr().cmd.Process.Signal(syscall.SIGSTOP)
		}
	}
	rules := func(at *part, rules ...string) func() (func() error, error) {
		return func() (func() error, error) { return func() error { return at.nft() }, at.nft(rules...) }
	}
	ways := [][]string{{"in drop", "out drop"}, {"in drop"}, {"out drop"}}
	wayNames := []string{"both ways", "of what comes in", "of what goes out"}
	way := r.IntN(3)
	loss := 10 + r.IntN(30)
	lossy := []string{fmt.Sprintf("in numgen random mod 100 < %d drop", loss), fmt.Sprintf("out numgen random mod 100 < %d drop", loss)}
	dbLink, busLink := w.links[p.name+" db"], w.links[p.name+" bus"]
	delay := time.Duration(50+r.IntN(400)) * time.Millisecond
	slow := func(l *link) func() (func() error, error) {
		return func() (func() error, error) {
			l.delay.Store(int64(delay))
			return func() error { l.delay.Store(0); return nil }, nil
		}
	}
	toward := func(l *link) []string {
		_, port, _ := net.SplitHostPort(l.ln.Addr().String())
		return []string{"in tcp sport " + port + " drop", "out tcp dport " + port + " drop"}
	}
	skew := time.Duration(r.IntN(4*3600)-2*3600) * time.Second
	return []misfortune{
		{"kill the leader", func() (func() error, error) {
			led, err := w.leader()
			if err != nil {
				led = p
			}
			led.p.kill()
			return func() error { return w.startDrillPlane(led, 0) }, nil
		}},
		{"kill " + p.name, func() (func() error, error) {
			p.p.kill()
			return func() error { return w.startDrillPlane(p, 0) }, nil
		}},
		{"stop and start " + p.name, func() (func() error, error) {
			return func() error { return w.startDrillPlane(p, 0) }, p.p.end(syscall.SIGTERM)
		}},
		{"suspend " + p.name, stopped(func() *process { return p.p })},
		{"set the clock of " + p.name + " wrong by " + skew.String(), func() (func() error, error) {
			p.p.kill()
			if err := w.startDrillPlane(p, skew); err != nil {
				return nil, err
			}
			return func() error { p.p.kill(); return w.startDrillPlane(p, 0) }, nil
		}},
		{"cut " + p.name + " off, " + wayNames[way], rules(planePart, ways[way]...)},
		{"cut " + p.name + " off the database", rules(planePart, toward(dbLink)...)},
		{"cut " + p.name + " off the bus", rules(planePart, toward(busLink)...)},
		{fmt.Sprintf("lose %d %% of the packets of %s", loss, p.name), rules(planePart, lossy...)},
		{fmt.Sprintf("delay %s and the database by %v", p.name, delay/10), func() (func() error, error) {
			dbLink.delay.Store(int64(delay / 10))
			return func() error { dbLink.delay.Store(0); return nil }, nil
		}},
		{fmt.Sprintf("delay %s and the bus by %v", p.name, delay), slow(busLink)},
		{"kill the bus", func() (func() error, error) {
			w.nats.kill()
			return func() error {
				exe, err := natsServer()
				if err != nil {
					return err
				}
				return w.startBus(exe)
			}, nil
		}},
		{"suspend the bus", stopped(func() *process { return w.nats })},
		{"cut the bus off, " + wayNames[way], rules(w.site.part("bus"), ways[way]...)},
		{"kill the database", func() (func() error, error) {
			w.pg.signal(syscall.SIGKILL)
			return func() error { <-w.pg.p.done; return w.pg.start() }, nil
		}},
		{"suspend the database", func() (func() error, error) {
			w.pg.signal(syscall.SIGSTOP)
			return func() error { w.pg.signal(syscall.SIGCONT); return nil }, nil
		}},
		{"make the database's disk slow", func() (func() error, error) {
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					w.pg.signal(syscall.SIGSTOP)
					<-time.After(150 * time.Millisecond)
					w.pg.signal(syscall.SIGCONT)
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
			}()
			return func() error { close(stop); <-done; return nil }, nil
		}},
		{"fill the database's disk", func() (func() error, error) {
			empty, err := w.pg.fill()
			if err != nil {
				return nil, err
			}
			return func() error { return errors.Join(empty(), w.pg.up()) }, nil
		}},
		{"cut the database off, " + wayNames[way], rules(w.site.part("db"), ways[way]...)},
		{"suspend the agent of " + hostPart.name, stopped(func() *process { return w.hosts[host].p })},
		{"cut " + hostPart.name + " off, " + wayNames[way], rules(hostPart, ways[way]...)},
		{fmt.Sprintf("lose %d %% of the packets of %s", loss, hostPart.name), rules(hostPart, lossy...)},
	}
}

// drill has some faults of one seed happen, one after another, while renters rent.
func (w *drillWorld) drill(seed uint64) (tally, []string, error) {
	r := rand.New(rand.NewPCG(seed, seed))
	var got tally
	var mu sync.Mutex
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	h := &history{begin: time.Now()}
	for n := range 3 {
		own := rand.New(rand.NewPCG(seed, uint64(n)+1))
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				w.rental(ctx, h, fmt.Sprintf("s%d-%d-%d", seed, n, i), own)
			}
		})
	}
	// Ten times a second, whether or not there was an answer to the time before: so
	// parts of requests are parts of the time.
	look := func(i int) {
		one, done := context.WithTimeout(ctx, 2*time.Second)
		defer done()
		l, err := w.u.api.Lease(one, w.kept[i%len(w.kept)].ID)
		if ctx.Err() != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		got.asked++
		if err == nil {
			got.answered++
			got.looks++
			if l.State == "running" {
				got.running++
			}
		}
	}
	all.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			all.Go(func() { look(i) })
			<-tick.C
		}
	})
	var faults []string
	var broken error
	for range 3 {
		list := w.misfortunes(r)
		f := list[r.IntN(len(list))]
		hold := time.Duration(1500+r.IntN(4000)) * time.Millisecond
		faults = append(faults, fmt.Sprintf("%s for %v", f.name, hold))
		mend, err := f.do()
		if err != nil {
			broken = fmt.Errorf("%s: %w", f.name, err)
			break
		}
		<-time.After(hold)
		if err := mend(); err != nil {
			broken = fmt.Errorf("mend after %s: %w", f.name, err)
			break
		}
		<-time.After(time.Duration(r.IntN(1500)) * time.Millisecond)
	}
	cancel()
	all.Wait()
	if broken != nil {
		return got, faults, broken
	}
	for _, p := range w.planes {
		if err := w.planeUp(p); err != nil {
			return got, faults, fmt.Errorf("after all faults were mended: %w", err)
		}
	}
	got.rented = h.rented.Load()
	return got, faults, w.judge(h)
}

// history is what renters asked for and were answered.
type history struct {
	begin  time.Time
	rented atomic.Int64

	mu   sync.Mutex
	ops  []porcupine.Operation
	made []string // names of leases that may be there
}

func (h *history) now() int64 { return int64(time.Since(h.begin)) }

// use is one GPU that changes hands.
type use struct {
	gpu, lease string
	free       bool
}

func (h *history) add(gpus []string, lease string, free bool, call, ret int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, g := range gpus {
		h.ops = append(h.ops, porcupine.Operation{Input: use{g, lease, free}, Call: call, Return: ret})
	}
}

// gpuModel is a GPU: one lease has it, or none.
var gpuModel = porcupine.Model{
	Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, o := range ops {
			g := o.Input.(use).gpu
			by[g] = append(by[g], o)
		}
		var out [][]porcupine.Operation
		for _, list := range by {
			out = append(out, list)
		}
		return out
	},
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		u := input.(use)
		if u.free {
			return state == u.lease, ""
		}
		return state == "", u.lease
	},
	DescribeOperation: func(input, _ any) string {
		u := input.(use)
		if u.free {
			return u.lease + " leaves"
		}
		return u.lease + " takes"
	},
}

// rental rents half a host, has it for a moment and ends it, and asks again until
// it knows what became of it or ctx ends.
func (w *drillWorld) rental(ctx context.Context, h *history, name string, r *rand.Rand) {
	ask := func(fn func(context.Context) error) error {
		one, done := context.WithTimeout(ctx, 8*time.Second)
		defer done()
		return fn(one)
	}
	pause := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	var q *api.Quote
	err := ask(func(ctx context.Context) error {
		offers, err := w.u.api.Offers(ctx, api.OfferQuery{Where: "gpu_count = 4", Limit: 2})
		if err != nil {
			return err
		}
		if len(offers.Items) == 0 {
			return errors.New("nothing is offered")
		}
		q, err = w.u.api.CreateQuote(ctx, api.QuoteRequest{OfferID: offers.Items[r.IntN(len(offers.Items))].ID, Image: "debian:12", DiskGiB: 1})
		return err
	})
	if err != nil {
		pause(200 * time.Millisecond)
		return
	}
	h.mu.Lock()
	h.made = append(h.made, name)
	h.mu.Unlock()
	call := h.now()
	var l *api.Lease
	err = ask(func(ctx context.Context) (err error) {
		l, err = w.u.api.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID, Name: name})
		return err
	})
	var refused *api.Error
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		pause(100 * time.Millisecond)
		return // it was refused, and surely is not there
	}
	for err != nil && ctx.Err() == nil { // nobody knows; judge looks again
		pause(300 * time.Millisecond)
		err = ask(func(ctx context.Context) (err error) { l, err = w.u.api.Lease(ctx, name); return err })
		var problem *api.Error
		if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
			return
		}
	}
	if err != nil {
		return
	}
	h.rented.Add(1)
	if len(l.GPUs) > 0 {
		h.add(l.GPUs, l.ID, false, call, h.now())
	}
	id, gpus, lived := l.ID, l.GPUs, h.now()
	pause(time.Duration(r.IntN(1500)) * time.Millisecond)
	asked := false
	for ctx.Err() == nil {
		before := h.now()
		err := ask(func(ctx context.Context) (err error) {
			if !asked {
				_, err = w.u.api.EndLease(ctx, id)
				asked = err == nil
				return err
			}
			l, err = w.u.api.Lease(ctx, id)
			return err
		})
		switch {
		case err != nil:
		case l.State == "ended":
			h.add(gpus, id, true, lived, h.now())
			return
		case l.State == "failed":
			h.add(gpus, id, true, lived, int64(1)<<62)
			return
		case len(l.GPUs) > 0 && asked:
			lived = max(lived, before)
		}
		pause(150 * time.Millisecond)
	}
	h.add(gpus, id, true, lived, int64(1)<<62) // judge ends it
}

// judge waits until all has come to rest, and proves that nothing was lost.
func (w *drillWorld) judge(h *history) error {
	ctx := context.Background()
	err := within(90*time.Second, func() error {
		p, err := w.u.api.Leases(ctx, "", true, "", 100)
		if err != nil {
			return err
		}
		left := 0
		for _, l := range p.Items {
			if strings.HasPrefix(l.Name, "kept-") {
				continue
			}
			left++
			_, _ = w.u.api.EndLease(ctx, l.ID)
		}
		if left > 0 {
			return fmt.Errorf("%d leases do not end, such as %s (%s)", left, p.Items[0].ID, p.Items[0].State)
		}
		for i, host := range w.hosts {
			v, err := w.operator.api.Host(ctx, host.id)
			if err != nil {
				return err
			}
			if v.State != "listed" || v.Free.GPUs != 7 || len(v.Leases) != 1 {
				return fmt.Errorf("host %d is %s (%s), %d of its GPUs are free, leases %v", i, v.State, v.Reason, v.Free.GPUs, v.Leases)
			}
			if left, _ := filepath.Glob(filepath.Join(host.dir, "agent", "leases", "*")); len(left) > 1 {
				return fmt.Errorf("host %d has leftovers: %v", i, left)
			}
		}
		for _, k := range w.kept {
			l, err := w.u.api.Lease(ctx, k.ID)
			if err != nil {
				return err
			}
			if l.State != "running" {
				return fmt.Errorf("%s is %s (%s %s)", l.Name, l.State, l.Code, l.Message)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, k := range w.kept {
		changes, err := w.u.api.LeaseHistory(ctx, k.ID)
		if err != nil {
			return err
		}
		ran := false
		for _, c := range changes {
			ran = ran || c.To == "running"
			if ran && !slices.Contains([]string{"running", "unreachable"}, c.To) {
				return fmt.Errorf("%s was %s at %v (%s): no single part may end what runs", k.Name, c.To, c.At, c.Event)
			}
		}
	}
	if res := porcupine.CheckOperationsTimeout(gpuModel, h.ops, 20*time.Second); res == porcupine.Illegal {
		return fmt.Errorf("a GPU was in two leases: the history of %d operations cannot have happened one by one: %v", len(h.ops), describe(h.ops))
	}
	if out, err := w.operator.run("ledger", "verify"); err != nil {
		return fmt.Errorf("the books: %w\n%s", err, out)
	}
	return nil
}

// describe lists the operations of the GPU whose history is impossible.
func describe(ops []porcupine.Operation) []string {
	var out []string
	for _, part := range gpuModel.Partition(ops) {
		if porcupine.CheckOperations(gpuModel, part) {
			continue
		}
		for _, o := range part {
			out = append(out, fmt.Sprintf("%s [%v, %v]", gpuModel.DescribeOperation(o.Input, nil), time.Duration(o.Call), time.Duration(o.Return)))
		}
	}
	return out
}
