package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// natsServer is the NATS server as it is released, built once from the module that
// the program links, to run as a process of its own.
var natsServer = sync.OnceValues(func() (string, error) {
	if _, err := binary(); err != nil {
		return "", err
	}
	dir := built
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "suanli-e2e-"); err != nil {
			return "", err
		}
		built = dir
	}
	out := filepath.Join(dir, "nats-server")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", out, "github.com/nats-io/nats-server/v2")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the NATS server: %w\n%s", err, msg)
	}
	return out, nil
})

// plane is one control plane of several.
type plane struct {
	name             string
	dir              string
	api, agents, ssh string
	p                *process
}

// replicaWorld is a cloud of several control planes on one PostgreSQL and one NATS,
// with a proxy in front, as an operator would have one. Its cloud's API is the proxy.
type replicaWorld struct {
	*cloud
	db       *store.DB
	database string
	leaf     string
	nats     *process
	planes   []*plane
	front    *front
	flags    []string
}

// front is a proxy that sends requests to control planes that say that they are ready.
type front struct {
	ready   []atomic.Bool
	next    atomic.Int64
	targets []*httputil.ReverseProxy
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// The parts of one upload to the registry go to one control plane.
	sticks := strings.HasPrefix(r.URL.Path, "/v2/")
	for n := range f.targets {
		i := n
		if !sticks {
			i = int(f.next.Add(1)) % len(f.targets)
		}
		if f.ready[i].Load() {
			f.targets[i].ServeHTTP(w, r)
			return
		}
	}
	http.Error(w, "no control plane is ready", http.StatusServiceUnavailable)
}

// watch asks each control plane whether it is ready, until ctx ends.
func (f *front) watch(ctx context.Context, planes []*plane) {
	client := &http.Client{Timeout: time.Second}
	for i, p := range planes {
		go func() {
			tick := time.NewTicker(200 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				res, err := client.Get("http://" + p.api + "/readyz")
				ok := err == nil && res.StatusCode == 200
				if err == nil {
					res.Body.Close()
				}
				f.ready[i].Store(ok)
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		}()
	}
}

func newReplicaWorld(t *testing.T, replicas int, flags ...string) *replicaWorld {
	t.Helper()
	need(t)
	database := storetest.PostgresAddress(t)
	exe, err := natsServer()
	if err != nil {
		t.Fatal(err)
	}
	w := &replicaWorld{database: database, leaf: freeAddress(), flags: flags}
	w.cloud = &cloud{dir: t.TempDir(), engine: os.Getenv("SUANLI_TEST_DOCKER"), heartbeatSeconds: 1}
	w.cloud.showLogs(t)
	client := freeAddress()
	conf := filepath.Join(w.dir, "nats.conf")
	if err := os.WriteFile(conf, []byte(fmt.Sprintf("listen: %q\nleafnodes { listen: %q }\n", client, w.leaf)), 0o600); err != nil {
		t.Fatal(err)
	}
	if w.nats, err = startProgram(filepath.Join(w.dir, "nats.log"), exe, "-c", conf); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.nats.end(syscall.SIGTERM) })
	w.front = &front{ready: make([]atomic.Bool, replicas)}
	var agents []string
	for i := range replicas {
		p := &plane{name: fmt.Sprintf("plane%d", i), dir: filepath.Join(w.dir, fmt.Sprintf("plane%d", i)), api: freeAddress(), agents: freeAddress(), ssh: freeAddress()}
		w.planes = append(w.planes, p)
		agents = append(agents, p.agents)
		target := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: p.api})
		target.FlushInterval = -1
		w.front.targets = append(w.front.targets, target)
	}
	w.agents = strings.Join(agents, ",")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.api = ln.Addr().String()
	srv := &http.Server{Handler: w.front, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(ln) }()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); srv.Close() })
	for i, p := range w.planes {
		if err := w.startPlane(p); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the others are given its master key
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
	if err := within(20*time.Second, func() error { return w.allReady() }); err != nil {
		t.Fatal(err)
	}
	w.dataDir = w.planes[0].dir
	if w.operator, err = w.signIn("admin", "admin@localhost", filepath.Join(w.dataDir, "admin-password")); err != nil {
		t.Fatal(err)
	}
	if w.db, err = store.Open(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	return w
}

func (w *replicaWorld) allReady() error {
	for i := range w.planes {
		if !w.front.ready[i].Load() {
			return fmt.Errorf("%s is not ready", w.planes[i].name)
		}
	}
	return nil
}

// end ends all, and tells what was left behind.
func (w *replicaWorld) end() error {
	var err error
	if w.operator != nil {
		err = w.endAll()
	}
	err = errors.Join(err, w.cloud.close())
	for _, p := range w.planes {
		if perr := p.p.end(syscall.SIGTERM); err == nil {
			err = perr
		}
	}
	return err
}

func (w *replicaWorld) startPlane(p *plane) error {
	args := append([]string{"server", "--data-dir", p.dir, "--listen", p.api, "--agent-listen", p.agents, "--agent-address", w.agents, "--replica-address", p.agents, "--ssh-listen", p.ssh,
		"--public-url", "http://" + w.api, "--database", w.database, "--bus", "nats-leaf://" + w.leaf, "--images-dir", filepath.Join(w.dir, "images"),
		"--heartbeat-seconds", fmt.Sprint(w.heartbeatSeconds), "--allow-simulated=true", "--minimum-seconds", "0"}, w.flags...)
	if p != w.planes[0] {
		args = append(args, "--master-key-file", filepath.Join(w.dir, "master.key"))
	}
	var err error
	if p.p, err = start(filepath.Join(w.dir, p.name+".log"), args...); err != nil {
		return err
	}
	return within(60*time.Second, func() error {
		select {
		case <-p.p.done:
			return final{fmt.Errorf("%s ended: %s", p.name, tail(p.p.log, 5))}
		default:
		}
		res, err := http.Get("http://" + p.api + "/readyz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != 200 {
			return fmt.Errorf("%s: %s", p.name, res.Status)
		}
		return nil
	})
}

// leader returns the control plane that leads, as the store has it.
func (w *replicaWorld) leader() (*plane, error) {
	var address string
	err := w.db.View(context.Background(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT r.address FROM replica_lead l JOIN replicas r ON r.id = l.holder`).Scan(&address)
	})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(w.planes, func(p *plane) bool { return p.agents == address })
	if i < 0 {
		return nil, fmt.Errorf("%s leads, which is none of ours", address)
	}
	return w.planes[i], nil
}

// load asks for a lease again and again, and counts.
type load struct {
	asked, failed atomic.Int64
	longest       atomic.Int64 // nanoseconds in which no request succeeded
	stop          func()
}

func (w *replicaWorld) load(u *user, lease string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{}
	var all sync.WaitGroup
	last := atomic.Int64{}
	begin := time.Now()
	for range 2 {
		all.Go(func() {
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				one, done := context.WithTimeout(ctx, 3*time.Second)
				_, err := u.api.Lease(one, lease)
				done()
				if ctx.Err() != nil {
					return
				}
				l.asked.Add(1)
				now := int64(time.Since(begin))
				if err != nil {
					l.failed.Add(1)
				} else if gap := now - last.Swap(now); gap > l.longest.Load() {
					l.longest.Store(gap)
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	l.stop = func() { cancel(); all.Wait() }
	return l
}

func TestAControlPlaneOfSeveralMayDieWhileRentalsRun(t *testing.T) {
	t.Parallel()
	w := newReplicaWorld(t, 3)
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = w.end()
		}
	})
	if _, err := w.join("8x4090"); err != nil {
		t.Fatal(err)
	}
	if err := w.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	u, err := w.tenant("replicated", "100")
	if err != nil {
		t.Fatal(err)
	}
	kept := u.rent(t, "kept")
	u.reaches(t, kept.ID, 30*time.Second, "running")
	begin := time.Now()
	boot := strings.TrimSpace(u.inside(t, "kept", "date +%s.%N >/tmp/born; cat /tmp/born"))

	t.Log("every control plane leads into the instance, wherever its host is connected")
	for _, p := range w.planes {
		direct := *u
		direct.api = api.New("http://"+p.api, tokenOf(t, u))
		if err := within(20*time.Second, func() error {
			l, err := direct.api.Lease(t.Context(), kept.ID)
			if err != nil {
				return err
			}
			if l.State != "running" {
				return fmt.Errorf("by %s the lease is %s", p.name, l.State)
			}
			h, err := api.New("http://"+p.api, tokenOf(t, w.operator)).Host(t.Context(), w.hosts[0].id)
			if err != nil {
				return err
			}
			if h.State != "listed" {
				return fmt.Errorf("by %s the host is %s", p.name, h.State)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if out, err := w.enterBy(u, p, "kept", "cat /tmp/born"); err != nil || strings.TrimSpace(out) != boot {
			t.Fatalf("enter by %s: %q, %v", p.name, out, err)
		}
	}

	l := w.load(u, kept.ID)
	defer l.stop()
	for _, how := range []struct {
		name string
		hurt func(*plane) error
		mend func(*plane) error
	}{
		{"is killed", func(p *plane) error { p.p.kill(); return nil }, w.startPlane},
		{"is suspended", func(p *plane) error { return p.p.cmd.Process.Signal(syscall.SIGSTOP) }, func(p *plane) error { return p.p.cmd.Process.Signal(syscall.SIGCONT) }},
	} {
		led, err := w.leader()
		if err != nil {
			t.Fatal(err)
		}
		hurtAt := time.Now()
		if err := how.hurt(led); err != nil {
			t.Fatal(err)
		}
		if err := within(20*time.Second, func() error {
			now, err := w.leader()
			if err == nil && now == led {
				err = fmt.Errorf("%s still leads", led.name)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		t.Logf("the leader %s: another led after %v", how.name, time.Since(hurtAt).Round(10*time.Millisecond))
		name := "while-one-" + strings.Fields(how.name)[1]
		if err := w.rentPatiently(u, name); err != nil {
			t.Fatalf("while the former leader %s: %v", how.name, err)
		}
		t.Logf("the leader %s: a new rental ran and ended after %v", how.name, time.Since(hurtAt).Round(10*time.Millisecond))
		if err := how.mend(led); err != nil {
			t.Fatal(err)
		}
		if err := within(30*time.Second, w.allReady); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("rolling restart")
	for _, p := range w.planes {
		if err := p.p.end(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := w.startPlane(p); err != nil {
			t.Fatal(err)
		}
		if err := within(30*time.Second, w.allReady); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.rentPatiently(u, "after-all"); err != nil {
		t.Fatal(err)
	}
	l.stop()
	t.Logf("%d of %d requests failed; the longest time without an answer was %v", l.failed.Load(), l.asked.Load(), time.Duration(l.longest.Load()).Round(10*time.Millisecond))
	if l.failed.Load()*10 > l.asked.Load() || time.Duration(l.longest.Load()) > 10*time.Second {
		t.Errorf("too many requests failed")
	}

	if out := strings.TrimSpace(u.inside(t, "kept", "cat /tmp/born")); out != boot {
		t.Errorf("the instance is another one: %q, was %q", out, boot)
	}
	now := u.lease(t, kept.ID)
	if now.State != "running" {
		t.Errorf("the lease is %s (%s)", now.State, now.Message)
	}
	history, err := u.api.LeaseHistory(t.Context(), kept.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range history {
		if h.To == "unreachable" {
			t.Errorf("the lease was unreachable at %v: its host lived all the time", h.At)
		}
	}
	u.must(t, "end", "kept")
	u.reaches(t, kept.ID, 30*time.Second, "ended")
	b := u.bill(t, kept.ID)
	var ran time.Duration
	for _, line := range computeLines(b) {
		ran += line.End.Sub(*line.Start)
	}
	if want := time.Since(begin); ran < want-15*time.Second || ran > want+5*time.Second {
		t.Errorf("%v were charged of a run of %v", ran, want)
	}
	if out, err := w.operator.run("ledger", "verify"); err != nil {
		t.Errorf("ledger verify: %v\n%s", err, out)
	}
	ended = true
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// tokenOf is the token of a user's sign-in.
func tokenOf(t *testing.T, u *user) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(u.dir, "login.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Token string }
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s.Token
}

// enterBy runs a line in an instance by one control plane's API.
func (w *replicaWorld) enterBy(u *user, p *plane, lease, line string) (string, error) {
	dir := filepath.Join(w.dir, "users", filepath.Base(u.dir)+"-by-"+p.name)
	if err := os.CopyFS(dir, os.DirFS(u.dir)); err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(u.dir, "login.json"))
	if err != nil {
		return "", err
	}
	b = []byte(strings.ReplaceAll(string(b), w.api, p.api))
	if err := os.WriteFile(filepath.Join(dir, "login.json"), b, 0o600); err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) // else its leases would be ended by it
	by := &user{cloud: w.cloud, dir: dir}
	return by.run("exec", lease, "--", line)
}

// rentPatiently rents, runs and ends a lease, asking again as a patient renter does.
func (w *replicaWorld) rentPatiently(u *user, name string) error {
	cw := &crashWorld{c: w.cloud, u: u}
	ctx := context.Background()
	err := within(60*time.Second, func() error {
		if _, err := u.api.Lease(ctx, name); err == nil {
			return nil
		}
		offers, err := u.api.Offers(ctx, api.OfferQuery{Where: oneGPU, Limit: 1})
		if err != nil {
			return err
		}
		if len(offers.Items) == 0 {
			return fmt.Errorf("nothing is offered")
		}
		q, err := u.api.CreateQuote(ctx, api.QuoteRequest{OfferID: offers.Items[0].ID, Image: "cloud://box:1", DiskGiB: 1})
		if err != nil {
			return err
		}
		_, err = u.api.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID, Name: name})
		return err
	})
	if err != nil {
		return err
	}
	var l *api.Lease
	settle := func(states ...string) error {
		return within(60*time.Second, func() (err error) {
			if l, err = u.api.Lease(ctx, name); err != nil {
				return err
			}
			if !slices.Contains(states, l.State) {
				return fmt.Errorf("lease %s is %s (%s %s)", l.ID, l.State, l.Code, l.Message)
			}
			return nil
		})
	}
	if err := settle("running"); err != nil {
		return err
	}
	if err := cw.act(name, u.api.EndLease); err != nil {
		return err
	}
	return within(60*time.Second, func() error {
		got, err := u.api.Lease(ctx, l.ID)
		if err == nil && got.State != "ended" {
			err = fmt.Errorf("lease %s is %s (%s %s)", l.ID, got.State, got.Code, got.Message)
		}
		return err
	})
}
