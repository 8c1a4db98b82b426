package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"suanli.dev/api"
)

// The steps of a rental at which plugs are pulled.
var rentalSteps = []string{"accept", "provision", "run", "stop", "start", "end"}

// fromEnvironment reads a number that asks for another run than the usual one.
func fromEnvironment(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return usual
	}
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// plug is what is pulled, when.
type plug struct {
	victim, step string
	delay, dark  time.Duration // from the step to the kill, and from there to the start
}

// plugs is the endless sequence of a seed: in each round, every victim meets every
// step once. What is pulled at a place depends on nothing but the seed and the
// place, so that a failure can be repeated without what came before it.
func plugs(seed uint64, victims []string, place int) plug {
	round, within := place/(len(victims)*len(rentalSteps)), place%(len(victims)*len(rentalSteps))
	var all []plug
	for _, v := range victims {
		for _, s := range rentalSteps {
			all = append(all, plug{victim: v, step: s})
		}
	}
	r := rand.New(rand.NewPCG(seed, uint64(round)))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	p := all[within]
	r = rand.New(rand.NewPCG(seed, 1<<32+uint64(place)))
	p.delay, p.dark = time.Duration(r.IntN(600))*time.Millisecond, time.Duration(r.IntN(1500))*time.Millisecond
	return p
}

// A few kills in make test, hundreds in make chaos: SUANLI_TEST_KILLS of them, from
// place SUANLI_TEST_FIRST_KILL of the sequence of SUANLI_TEST_SEED.
func TestWhateverIsKilledAtWhicheverStepEverythingAddsUp(t *testing.T) {
	t.Parallel()
	need(t)
	seed := fromEnvironment(t, "SUANLI_TEST_SEED", 20250101)
	kills := int(fromEnvironment(t, "SUANLI_TEST_KILLS", 15))
	first := int(fromEnvironment(t, "SUANLI_TEST_FIRST_KILL", 0))
	w := newCrashWorld(t)
	for i := first; i < first+kills; i++ {
		if (i-first)%50 == 0 {
			// An account's list of leases is one page.
			w.u, w.spent = newTenant(t, w.c, fmt.Sprintf("unlucky-%d", i), "100"), 0
		}
		p := plugs(seed, w.victims(), i)
		begin := time.Now()
		name := fmt.Sprintf("crash-%d", i)
		reached := make(chan struct{})
		killed := make(chan error, 1)
		go func() {
			<-reached
			killed <- w.crash(p)
		}()
		err := w.rental(name, func(step string) {
			if step == p.step {
				close(reached)
			}
		})
		select {
		case <-reached:
		default:
			close(reached) // the rental broke before that step
		}
		if kerr := <-killed; kerr != nil {
			t.Fatalf("%s: restart the %s: %v", name, p.victim, kerr)
		}
		if err == nil {
			err = w.holds(name, time.Since(begin))
		}
		if err != nil {
			t.Fatalf("%s: the %s was killed %v after step %s and started %v later: %v\nto repeat it: make chaos SEED=%d FIRST=%d KILLS=1, or all of it: make chaos SEED=%d FIRST=%d KILLS=%d",
				name, p.victim, p.delay, p.step, p.dark, err, seed, i, seed, first, i-first+1)
		}
		t.Logf("%s: killed the %s %v after step %s, back %v later: converged after %v", name, p.victim, p.delay, p.step, p.dark, time.Since(begin).Round(100*time.Millisecond))
	}
	t.Logf("%d kills from place %d of seed %d", kills, first, seed)
}

// crashWorld is a cloud whose every part can be killed, its engine too.
type crashWorld struct {
	t      *testing.T
	c      *cloud
	u      *user
	engine *engine
	spent  api.Amount
}

func newCrashWorld(t *testing.T) *crashWorld {
	w := &crashWorld{t: t}
	if _, err := exec.LookPath("dockerd"); err == nil {
		if w.engine, err = newEngine(t); err != nil {
			t.Fatal(err)
		}
	} else {
		t.Log("dockerd is not installed: the engine is left alone")
	}
	c, err := newCloud(t.TempDir(), "--minimum-seconds", "0")
	if err != nil {
		t.Fatal(err)
	}
	w.c = c
	if w.engine != nil {
		c.engine = w.engine.address
	}
	c.showLogs(t)
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.join("8x4090"); err != nil {
		t.Fatal(err)
	}
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	return w
}

// victims are the processes, a host that loses power, and a site that does.
func (w *crashWorld) victims() []string {
	v := []string{"server", "agent", "site"}
	if w.engine != nil {
		v = append(v, "engine", "host")
	}
	return v
}

// crash kills a part without warning and starts it again after a while.
func (w *crashWorld) crash(p plug) error {
	<-time.After(p.delay)
	host := w.c.hosts[0]
	killed := map[string]bool{p.victim: true}
	switch p.victim {
	case "host":
		killed["agent"], killed["engine"] = true, true
	case "site":
		killed["server"], killed["agent"], killed["engine"] = true, true, w.engine != nil
	}
	if killed["server"] {
		w.c.server.kill()
	}
	if killed["agent"] {
		host.p.kill()
	}
	if killed["engine"] {
		w.engine.p.kill()
	}
	<-time.After(p.dark)
	var errs []error
	if killed["engine"] {
		errs = append(errs, w.engine.start())
	}
	if killed["agent"] {
		errs = append(errs, host.start())
	}
	if killed["server"] {
		errs = append(errs, w.c.startServer())
	}
	return errors.Join(errs...)
}

// rental goes through a whole rental like a patient renter: what fails is asked
// again. A lease that a crash has stopped or failed is taken as it is.
func (w *crashWorld) rental(name string, at func(step string)) error {
	ctx := context.Background()
	const patience = 60 * time.Second
	at("accept")
	err := within(patience, func() error {
		if _, err := w.u.api.Lease(ctx, name); err == nil {
			return nil // the answer was lost, and the lease was not
		}
		offers, err := w.u.api.Offers(ctx, api.OfferQuery{Where: oneGPU, Limit: 1})
		if err != nil {
			return err
		}
		if len(offers.Items) == 0 {
			return errors.New("nothing is offered")
		}
		q, err := w.u.api.CreateQuote(ctx, api.QuoteRequest{OfferID: offers.Items[0].ID, Image: "cloud://box:1", DiskGiB: 1})
		if err != nil {
			return err
		}
		_, err = w.u.api.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID, Name: name})
		return err
	})
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	at("provision")
	if err := w.settle(name, "running", "stopped", "failed"); err != nil {
		return err
	}
	at("run")
	<-time.After(500 * time.Millisecond)
	at("stop")
	if err := w.act(name, w.u.api.StopLease); err != nil {
		return err
	}
	if err := w.settle(name, "stopped", "failed"); err != nil {
		return err
	}
	at("start")
	if err := w.act(name, w.u.api.StartLease); err != nil {
		return err
	}
	if err := w.settle(name, "running", "stopped", "failed"); err != nil {
		return err
	}
	at("end")
	if err := w.act(name, w.u.api.EndLease); err != nil {
		return err
	}
	return w.settle(name, "ended", "failed")
}

// find returns the lease of that name, live or over.
func (w *crashWorld) find(name string) (*api.Lease, error) {
	p, err := w.u.api.Leases(context.Background(), "", false, "", 100)
	if err != nil {
		return nil, err
	}
	var found []api.Lease
	for _, l := range p.Items {
		if l.Name == name {
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		return nil, final{fmt.Errorf("%d leases are named %s: one was asked for", len(found), name)}
	}
	return &found[0], nil
}

func (w *crashWorld) settle(name string, states ...string) error {
	return within(60*time.Second, func() error {
		l, err := w.find(name)
		if err != nil {
			return err
		}
		if !slices.Contains(states, l.State) {
			return fmt.Errorf("lease %s is %s (%s %s), not %v", l.ID, l.State, l.Code, l.Message, states)
		}
		return nil
	})
}

// act asks for a move until it is accepted, or until the lease is where it cannot
// be asked for any more.
func (w *crashWorld) act(name string, do func(context.Context, string) (*api.Lease, error)) error {
	return within(60*time.Second, func() error {
		l, err := w.find(name)
		if err != nil {
			return err
		}
		if l.State == "failed" || l.State == "ended" {
			return nil
		}
		_, err = do(context.Background(), l.ID)
		return err
	})
}

// holds checks what must hold whenever a rental is over.
func (w *crashWorld) holds(name string, took time.Duration) error {
	ctx := context.Background()
	var l *api.Lease
	err := within(60*time.Second, func() (err error) {
		if l, err = w.find(name); err != nil {
			return err
		}
		if err := noTrace(w.c, l.ID); err != nil {
			return err
		}
		h, err := w.c.operator.api.Host(ctx, w.c.hosts[0].id)
		if err != nil {
			return err
		}
		if h.Free.GPUs != h.Total.GPUs || h.Total.GPUs != 8 || h.State != "listed" {
			return fmt.Errorf("of %d GPUs %d are free, the host is %s (%s), leases %v", h.Total.GPUs, h.Free.GPUs, h.State, h.Reason, h.Leases)
		}
		return nil
	})
	if err != nil {
		return err
	}
	b, err := w.u.api.Bill(ctx, l.ID)
	if err != nil {
		return err
	}
	var ran time.Duration
	var last time.Time
	for _, line := range computeLines(b) {
		if line.Open || line.Start.Before(last) {
			return fmt.Errorf("runs are open or overlap: %+v", b.Lines)
		}
		last = *line.End
		ran += line.End.Sub(*line.Start)
		if line.Charged > int64(line.End.Sub(*line.Start)/time.Second) {
			return fmt.Errorf("more is charged than ran: %+v", line)
		}
	}
	if ran > took {
		return fmt.Errorf("charged for %v of a rental that took %v", ran, took)
	}
	if b.Unbilled != 0 || b.ProviderShare+b.Commission != b.Total {
		return fmt.Errorf("the bill is not settled: %+v", b)
	}
	w.spent += b.Total
	balance, err := w.u.api.Balance(ctx)
	if err != nil {
		return err
	}
	if balance.Held != 0 || balance.UnbilledDue != 0 || balance.Settled != 100_000_000-w.spent {
		return fmt.Errorf("after spending %s of 100, the balance is %+v", w.spent, balance)
	}
	r, err := w.c.operator.api.VerifyLedger(ctx)
	if err != nil {
		return err
	}
	if !r.OK {
		return fmt.Errorf("the ledger: %+v", r)
	}
	return nil
}

// engine is a container engine of the test's own.
type engine struct {
	dir, address string
	flags        []string
	p            *process
}

func newEngine(t *testing.T) (*engine, error) {
	e := ownEngine(t)
	return e, e.start()
}

// ownEngine is an engine that is yet to be started; all that it leaves goes with
// the test.
func ownEngine(t *testing.T) *engine {
	t.Helper()
	// Short, since sockets are in it and their paths may have 107 characters.
	dir, err := os.MkdirTemp("", "e2edk-")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{dir: dir, address: "unix://" + filepath.Join(dir, "engine.sock")}
	t.Cleanup(func() {
		if e.p != nil {
			_ = e.p.end(15)
		}
		e.killHelpers()
		mounts, _ := os.ReadFile("/proc/self/mounts")
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); strings.HasPrefix(f[1], dir) {
				_ = exec.Command("umount", "-l", f[1]).Run()
			}
		}
		_ = os.RemoveAll(dir)
	})
	return e
}

func (e *engine) start() (err error) {
	path, err := exec.LookPath("dockerd")
	if err != nil {
		return err
	}
	// Of the engine that was killed. Where nobody reaps orphans, what they name
	// seems to be alive.
	for _, stale := range []string{"engine.pid", "exec/containerd/containerd.pid"} {
		_ = os.Remove(filepath.Join(e.dir, stale))
	}
	e.p, err = startProgram(filepath.Join(e.dir, "engine.log"), path, append([]string{"--data-root", filepath.Join(e.dir, "data"), "--exec-root", filepath.Join(e.dir, "exec"),
		"--pidfile", filepath.Join(e.dir, "engine.pid"), "--host", e.address, "--bridge", "none",
		// At its start it would remove the rules of another engine in this namespace.
		"--iptables=false", "--ip6tables=false"}, e.flags...)...)
	if err != nil {
		return err
	}
	return e.answers()
}

func (e *engine) answers() error {
	return within(30*time.Second, func() error {
		select {
		case <-e.p.done:
			return final{fmt.Errorf("the engine ended: %s", tail(filepath.Join(e.dir, "engine.log"), 5))}
		default:
		}
		_, err := docker(e.address, "version")
		return err
	})
}

// killHelpers ends what an engine leaves when it is killed: containerd, the shims
// and monitors of its containers, known by the folder in their command lines.
func (e *engine) killHelpers() {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range lines {
		b, err := os.ReadFile(f)
		if pid, perr := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil && perr == nil && strings.Contains(string(b), e.dir+"/") {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
