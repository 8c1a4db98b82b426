package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

func want(id string, generation int64, w protocol.Want) protocol.Command {
	c := protocol.Command{LeaseID: id, Generation: generation, Want: w}
	if w == protocol.WantRunning {
		c.Spec = spec()
	}
	return c
}

func TestOlderGenerationsAreRefusedAlsoAfterARestartAndAnEnd(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.send(want("ls-a", 5, protocol.WantRunning))
	w.reach("ls-a", 5, protocol.PhaseRunning)
	refused := func(when string) {
		for _, wanted := range []protocol.Want{protocol.WantRunning, protocol.WantStopped, protocol.WantAbsent} {
			if r := w.send(want("ls-a", 4, wanted)); r.Accepted || r.Code != "stale_generation" || r.Generation < 5 {
				t.Errorf("%s, %s of generation 4: %+v", when, wanted, r)
			}
		}
	}
	refused("while running")
	w.kill()
	w.start()
	refused("after a restart")
	w.send(want("ls-a", 6, protocol.WantAbsent))
	w.reach("ls-a", 6, protocol.PhaseAbsent)
	refused("after the end")
	w.kill()
	w.start()
	refused("after the end and a restart")
	if r := w.send(want("ls-a", 6, protocol.WantRunning)); r.Accepted {
		t.Errorf("a start was accepted in the generation in which the lease left: %+v", r)
	}
	if r := w.send(want("ls-a", 6, protocol.WantAbsent)); !r.Accepted {
		t.Errorf("the same removal, sent again, was refused: %+v", r)
	}
}

func TestAnEndedRunDoesNotStartAgainInItsGeneration(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	sim.Exit("ls-a", 3, false)
	s := w.reach("ls-a", 1, protocol.PhaseStopped)
	if s.Code != "exited" || s.ExitCode == nil || *s.ExitCode != 3 {
		t.Fatalf("status: %+v", s)
	}
	if r := w.send(want("ls-a", 1, protocol.WantRunning)); !r.Accepted {
		t.Errorf("the same command, sent again, was refused: %+v", r)
	}
	w.kill()
	w.start()
	w.reach("ls-a", 1, protocol.PhaseStopped)
	if l, _ := sim.List(t.Context()); len(l) != 0 {
		t.Errorf("containers: %+v", l)
	}
	if len(sim.Disks()) != 1 {
		t.Errorf("disks: %v", sim.Disks())
	}
	w.send(want("ls-a", 2, protocol.WantRunning))
	if s := w.reach("ls-a", 2, protocol.PhaseRunning); s.Code != "" || s.ExitCode != nil || s.Stopped != nil {
		t.Errorf("the new run carries the old one's end: %+v", s)
	}
}

func TestAStopThatOvertookItsStartHolds(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	if r := w.send(want("ls-a", 2, protocol.WantAbsent)); !r.Accepted {
		t.Fatalf("%+v", r)
	}
	if r := w.send(want("ls-a", 1, protocol.WantRunning)); r.Code != "stale_generation" {
		t.Errorf("%+v", r)
	}
	w.reach("ls-a", 2, protocol.PhaseAbsent)
	if l, _ := sim.List(t.Context()); len(l) != 0 {
		t.Errorf("containers: %+v", l)
	}
}

func TestOnlyTwoCompleteAnswersWithoutALeaseRemoveIt(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.send(want("ls-b", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	w.reach("ls-b", 1, protocol.PhaseRunning)
	w.kill()
	w.start() // an agent that begins with an empty answer
	w.reach("ls-a", 1, protocol.PhaseRunning)
	before := w.reports()
	w.until("four incomplete, empty answers", func() bool { return w.reports() >= before+4 })
	w.reach("ls-a", 1, protocol.PhaseRunning)
	w.c.mu.Lock()
	w.c.desired["ls-b"] = protocol.Desired{LeaseID: "ls-b", Generation: 1}
	w.c.complete = true
	w.c.mu.Unlock()
	w.until("the disowned lease is forgotten", func() bool { _, ok := w.status("ls-a"); return !ok })
	w.reach("ls-b", 1, protocol.PhaseRunning)
	if l, _ := sim.List(t.Context()); len(l) != 1 || l[0].LeaseID != "ls-b" {
		t.Errorf("containers: %+v", l)
	}
	if d := sim.Disks(); !slices.Equal(d, []string{"ls-b"}) {
		t.Errorf("disks: %v", d)
	}
}

func (w *world) reports() int64 {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	return w.c.last.Seq
}

func TestAnOlderDesiredGenerationChangesNothing(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.send(want("ls-a", 3, protocol.WantRunning))
	w.reach("ls-a", 3, protocol.PhaseRunning)
	w.c.mu.Lock()
	w.c.desired["ls-a"] = protocol.Desired{LeaseID: "ls-a", Generation: 2, Limits: protocol.RunLimits{StopIn: time.Nanosecond}}
	w.c.complete = true
	w.c.mu.Unlock()
	n := w.reports()
	w.until("three answers", func() bool { return w.reports() >= n+3 })
	w.reach("ls-a", 3, protocol.PhaseRunning)
}

func TestLimitsHoldWithoutTheControlPlane(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code   string
		limits protocol.RunLimits
	}{
		{"deadline", protocol.RunLimits{StopIn: 300 * time.Millisecond, PaidFor: time.Hour}},
		{"unpaid", protocol.RunLimits{PaidFor: 300 * time.Millisecond, StopIn: time.Hour}},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			w, _ := simWorld(t)
			cmd := want("ls-a", 1, protocol.WantRunning)
			cmd.Limits = c.limits
			w.send(cmd)
			w.c.mu.Lock()
			w.c.dark = true // right after the launch
			w.c.mu.Unlock()
			w.until("the agent has stopped it alone", func() bool {
				w.a.mu.Lock()
				defer w.a.mu.Unlock()
				l := w.a.leases["ls-a"]
				return l.rec.Phase == protocol.PhaseStopped && l.rec.Code == c.code
			})
			w.c.mu.Lock()
			w.c.dark = false
			w.c.mu.Unlock()
			w.until("the run is told afterwards", func() bool {
				w.c.mu.Lock()
				defer w.c.mu.Unlock()
				for _, p := range w.c.past {
					if p.LeaseID == "ls-a" && p.Code == c.code && p.Stopped != nil && p.Stopped.Nanos >= p.Started.Nanos {
						return true
					}
				}
				return false
			})
		})
	}
}

func TestHearingFromTheControlPlaneRenewsWhatIsPaidFor(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	limits := protocol.RunLimits{PaidFor: 2500 * time.Millisecond}
	w.c.mu.Lock()
	w.c.desired["ls-a"] = protocol.Desired{LeaseID: "ls-a", Generation: 1, Limits: limits}
	w.c.mu.Unlock()
	cmd := want("ls-a", 1, protocol.WantRunning)
	cmd.Limits = limits
	w.send(cmd)
	begin := w.reach("ls-a", 1, protocol.PhaseRunning).Started.Nanos
	w.until("longer than that has passed", func() bool { return w.a.cfg.clock().Nanos-begin > int64(4*time.Second) })
	if s, _ := w.status("ls-a"); s.Phase != protocol.PhaseRunning {
		t.Errorf("status: %+v", s)
	}
}

func TestAnIdleInstanceStopsAndWhoeverUsesItKeepsItAlive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		report protocol.InstanceReport
		stream bool // somebody has a page of it open
		stops  bool
	}{
		"nobody there":        {stops: true},
		"a session":           {report: protocol.InstanceReport{Sessions: 1}},
		"a cell that sleeps":  {report: protocol.InstanceReport{Busy: true}},
		"a page that is open": {stream: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := runtime.NewSim(1 << 20)
			c.report.Started = true
			engine := &reporting{Sim: sim}
			engine.report.Store(&c.report)
			w := &world{t: t, c: newControl(), cfg: Config{
				Dir: t.TempDir(), HostID: "ho-test", Driver: engine, GPUs: gpu.Set{}, SkipSelfTest: true,
				CleanWait: time.Millisecond, poll: 20 * time.Millisecond,
			}}
			w.start()
			defer w.kill()
			command := want("ls-a", 1, protocol.WantRunning)
			w.send(command)
			w.reach("ls-a", 1, protocol.PhaseRunning)
			var page net.Conn
			if c.stream {
				var err error // the stream is answered, so it is counted
				if page, err = w.stream(protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: "ls-a", Port: 8888}); err != nil {
					t.Fatal(err)
				}
				defer page.Close()
			}
			command.Limits = protocol.RunLimits{IdleAfter: 200 * time.Millisecond, IdleGPUPercent: 5, IdleCPUPercent: 5}
			w.send(command)
			if !c.stops {
				begin := w.a.cfg.clock().Nanos
				w.until("longer than the window has passed", func() bool { return w.a.cfg.clock().Nanos-begin > int64(time.Second) })
				w.reach("ls-a", 1, protocol.PhaseRunning)
				// They leave, and the window begins.
				engine.report.Store(&protocol.InstanceReport{Started: true})
				if page != nil {
					page.Close()
				}
			}
			if s := w.reach("ls-a", 1, protocol.PhaseStopped); s.Code != "idle" {
				t.Errorf("status: %+v", s)
			}
		})
	}
}

// reporting is an engine whose instances say what goes on inside.
type reporting struct {
	*runtime.Sim
	report atomic.Pointer[protocol.InstanceReport]
}

func (r *reporting) Report(string) (protocol.InstanceReport, bool) { return *r.report.Load(), true }

// tainted are GPUs of which one keeps memory.
type tainted struct {
	gpu.Source
	uuid  atomic.Value
	fails atomic.Bool
}

func (g *tainted) List(ctx context.Context) ([]protocol.GPU, error) {
	if g.fails.Load() {
		return nil, errors.New("the driver hangs")
	}
	l, err := g.Source.List(ctx)
	for i := range l {
		if u, _ := g.uuid.Load().(string); l[i].UUID == u && u != "" {
			l[i].Stats.UsedMiB = 9000
			l[i].Stats.Processes = []protocol.Process{{PID: 4242, UsedMiB: 9000}}
		}
	}
	return l, err
}

func TestAGPUThatKeepsMemoryAfterItsLeaseIsDirtyUntilClean(t *testing.T) {
	t.Parallel()
	base, err := gpu.NewSimulated("8x4090", "ho-test", "", "")
	if err != nil {
		t.Fatal(err)
	}
	gpus, _ := base.List(t.Context())
	u := gpus[2].UUID
	source := &tainted{Source: base}
	sim := runtime.NewSim(1 << 20)
	w := &world{t: t, c: newControl(), cfg: Config{Dir: t.TempDir(), HostID: "ho-test", Driver: sim, GPUs: source, SkipSelfTest: true, CleanWait: 300 * time.Millisecond, poll: 20 * time.Millisecond}}
	w.start()
	t.Cleanup(func() { w.kill() })
	c := want("ls-a", 1, protocol.WantRunning)
	c.Spec.GPUs = []string{u, gpus[3].UUID}
	w.send(c)
	w.reach("ls-a", 1, protocol.PhaseRunning)
	source.uuid.Store(u)
	w.send(want("ls-a", 2, protocol.WantAbsent))
	w.reach("ls-a", 2, protocol.PhaseAbsent)
	health := func() protocol.Health {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		return w.c.last.Health[u]
	}
	if h := health(); h.State != protocol.Dirty || !strings.Contains(h.Reason, "4242") {
		t.Errorf("the lease counts as gone and the GPU's health is %+v", h)
	}
	w.c.mu.Lock()
	if h := w.c.last.Health[gpus[3].UUID]; h.State != "" {
		t.Errorf("the clean one is %+v", h)
	}
	w.c.mu.Unlock()
	next := want("ls-b", 1, protocol.WantRunning)
	next.Spec.GPUs = []string{u}
	w.send(next)
	if s := w.reach("ls-b", 1, protocol.PhaseFailed); s.Code != "gpu_missing" {
		t.Errorf("a lease on the dirty GPU: %+v", s)
	}
	source.uuid.Store("")
	w.until("it is clean again", func() bool { return health().State == "" })
}

func TestTwoLeasesNeverHoldOneGPU(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	gpus, _ := w.cfg.GPUs.List(t.Context())
	for i := range 4 {
		c := want(fmt.Sprintf("ls-%d", i), 1, protocol.WantRunning)
		c.Spec.GPUs = []string{gpus[0].UUID}
		w.send(c)
	}
	running := 0
	w.until("all are decided", func() bool {
		running = 0
		decided := 0
		for i := range 4 {
			s, _ := w.status(fmt.Sprintf("ls-%d", i))
			switch s.Phase {
			case protocol.PhaseRunning:
				running++
				decided++
			case protocol.PhaseFailed:
				decided++
			}
		}
		return decided == 4
	})
	states, _ := sim.List(t.Context())
	if running != 1 || len(states) != 1 {
		t.Errorf("%d run, containers %+v", running, states)
	}
}

func TestAFaultyEngineIsTriedAgainAndNothingIsLost(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	_ = sim
	w.kill()
	var mu sync.Mutex
	fail := map[string]int{"create": 1, "start": 1, "stop": 5, "remove": 2}
	scripted := runtime.NewSim(1 << 20)
	scripted.Script = func(act, _ string) error {
		mu.Lock()
		defer mu.Unlock()
		if fail[act] > 0 {
			fail[act]--
			return fmt.Errorf("%s: busy", act)
		}
		return nil
	}
	w.cfg.Driver = scripted
	w.start()
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	w.send(want("ls-a", 2, protocol.WantAbsent))
	w.until("it is stopping, not gone, while the engine refuses", func() bool {
		s, ok := w.status("ls-a")
		return ok && s.Generation == 2 && s.Phase == protocol.PhaseStopping
	})
	w.reach("ls-a", 2, protocol.PhaseAbsent)
	if l, _ := scripted.List(t.Context()); len(l) != 0 || len(scripted.Disks()) != 0 {
		t.Errorf("left behind: %+v, disks %v", l, scripted.Disks())
	}
}

func TestAnEngineThatIsAwayMakesTheHostNotReady(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.kill()
	var away atomic.Bool
	away.Store(true)
	scripted := runtime.NewSim(1 << 20)
	scripted.Script = func(string, string) error {
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	}
	w.cfg.Driver = scripted
	w.start()
	w.until("it says why", func() bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		return !w.c.last.Ready && strings.Contains(w.c.last.Problem, "connection refused")
	})
	if r := w.a.Command(want("ls-a", 1, protocol.WantRunning)); r.Accepted || r.Code != "not_ready" {
		t.Errorf("%+v", r)
	}
	away.Store(false)
	w.until("it is ready", func() bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		return w.c.last.Ready
	})
}

func TestCancellingAtAnyStepLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"pull", "create", "start", "inspect"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w, _ := simWorld(t)
			w.kill()
			reached, release := make(chan struct{}), make(chan struct{})
			var once sync.Once
			scripted := runtime.NewSim(1 << 20)
			scripted.Script = func(act, lease string) error {
				if act == step {
					once.Do(func() { close(reached); <-release })
				}
				return nil
			}
			w.cfg.Driver = scripted
			w.start()
			w.send(want("ls-a", 1, protocol.WantRunning))
			<-reached
			w.send(want("ls-a", 2, protocol.WantAbsent))
			close(release)
			w.reach("ls-a", 2, protocol.PhaseAbsent)
			if l, _ := scripted.List(t.Context()); len(l) != 0 || len(scripted.Disks()) != 0 {
				t.Errorf("left behind: %+v, disks %v", l, scripted.Disks())
			}
			if _, err := os.Stat(filepath.Join(w.cfg.Dir, "leases", "ls-a")); err == nil {
				t.Error("the lease's folder is still there")
			}
		})
	}
}

func TestKillingTheAgentAtAnyStepLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"pull", "create", "start", "stop", "remove"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/after=%t", step, after), func(t *testing.T) {
				t.Parallel()
				w, _ := simWorld(t)
				w.kill()
				// The first agent is dead from that step on: whatever it would still do
				// to the engine fails, before or after the act itself.
				engine := runtime.NewSim(1 << 20)
				dying := &mortal{Sim: engine, step: step, after: after, died: make(chan struct{})}
				w.cfg.Driver = dying
				w.start()
				w.send(want("ls-a", 1, protocol.WantRunning))
				if step == "stop" || step == "remove" {
					w.reach("ls-a", 1, protocol.PhaseRunning)
					w.send(want("ls-a", 2, protocol.WantStopped))
				}
				<-dying.died
				w.kill()
				w.cfg.Driver = engine
				w.start()
				if step == "stop" || step == "remove" {
					w.reach("ls-a", 2, protocol.PhaseStopped)
				} else {
					w.reach("ls-a", 1, protocol.PhaseRunning)
					if l, _ := engine.List(t.Context()); len(l) != 1 {
						t.Errorf("containers: %+v", l)
					}
				}
				w.send(want("ls-a", 3, protocol.WantAbsent))
				w.reach("ls-a", 3, protocol.PhaseAbsent)
				if l, _ := engine.List(t.Context()); len(l) != 0 || len(engine.Disks()) != 0 {
					t.Errorf("left behind: %+v, disks %v", l, engine.Disks())
				}
				w.c.mu.Lock()
				defer w.c.mu.Unlock()
				if len(w.c.past) > 1 {
					t.Errorf("one run was told %d times: %+v", len(w.c.past), w.c.past)
				}
			})
		}
	}
}

// mortal is an engine as a dying agent sees it.
type mortal struct {
	*runtime.Sim
	step  string
	after bool
	dead  atomic.Bool
	once  sync.Once
	died  chan struct{}
}

var errDead = errors.New("the agent is dead")

func (m *mortal) do(step string, act func() error) error {
	if m.dead.Load() {
		return errDead
	}
	if step != m.step {
		return act()
	}
	if m.after {
		_ = act()
	}
	m.dead.Store(true)
	m.once.Do(func() { close(m.died) })
	return errDead
}

func (m *mortal) Info(ctx context.Context) (i runtime.Info, err error) {
	err = m.do("info", func() error { i, err = m.Sim.Info(ctx); return err })
	return i, err
}

func (m *mortal) Pull(ctx context.Context, r runtime.PullRequest) (i runtime.Image, err error) {
	err = m.do("pull", func() error { i, err = m.Sim.Pull(ctx, r); return err })
	return i, err
}

func (m *mortal) Create(ctx context.Context, c runtime.Container) error {
	return m.do("create", func() error { return m.Sim.Create(ctx, c) })
}

func (m *mortal) Start(ctx context.Context, id string) error {
	return m.do("start", func() error { return m.Sim.Start(ctx, id) })
}

func (m *mortal) Stop(ctx context.Context, id string, d time.Duration) error {
	return m.do("stop", func() error { return m.Sim.Stop(ctx, id, d) })
}

func (m *mortal) Remove(ctx context.Context, id string) error {
	return m.do("remove", func() error { return m.Sim.Remove(ctx, id) })
}

func (m *mortal) Inspect(ctx context.Context, id string) (s runtime.State, err error) {
	err = m.do("inspect", func() error { s, err = m.Sim.Inspect(ctx, id); return err })
	return s, err
}

func TestThousandCyclesLeaveNothingBehind(t *testing.T) {
	w, sim := simWorld(t)
	cycle := func(i int) {
		id := fmt.Sprintf("ls-%d", i)
		for generation, wanted := range []protocol.Want{protocol.WantRunning, protocol.WantAbsent} {
			if r := w.a.Command(want(id, int64(generation+1), wanted)); !r.Accepted {
				t.Fatalf("%+v", r)
			}
			phase := protocol.PhaseRunning
			if wanted == protocol.WantAbsent {
				phase = protocol.PhaseAbsent
			}
			w.until("the phase is reached", func() bool {
				w.a.mu.Lock()
				defer w.a.mu.Unlock()
				l := w.a.leases[id]
				return l == nil || l.rec.Phase == phase
			})
		}
	}
	w.c.mu.Lock()
	w.c.complete = true
	w.c.mu.Unlock()
	w.until("the agent is ready", func() bool { return w.a.isAdopted() })
	// The control plane disowns what it does not list, after two answers; a cycle
	// is over before that, or ends in the same state.
	cycles := 1000
	if testing.Short() {
		cycles = 100
	}
	for i := range 50 {
		cycle(i)
	}
	goroutines, files := goruntime.NumGoroutine(), openFiles()
	for i := range cycles {
		cycle(i + 50)
	}
	w.until("the goroutines of the last ones have ended", func() bool { return goruntime.NumGoroutine() <= goroutines+5 })
	if n := openFiles(); n > files+5 {
		t.Errorf("open files grew from %d to %d", files, n)
	}
	if l, _ := sim.List(t.Context()); len(l) != 0 || len(sim.Disks()) != 0 {
		t.Errorf("left behind: %+v, disks %v", l, sim.Disks())
	}
	left, err := os.ReadDir(filepath.Join(w.cfg.Dir, "leases"))
	if err != nil || len(left) != 0 {
		t.Errorf("folders: %v %v", left, err)
	}
	w.until("all runs are acknowledged and forgotten, and absent leases too", func() bool {
		w.a.mu.Lock()
		defer w.a.mu.Unlock()
		return len(w.a.past) == 0 && len(w.a.leases) == 0
	})
}

func openFiles() int {
	l, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(l)
}

func TestRunsAreKeptUntilAcknowledged(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	w.c.mu.Lock()
	w.c.ack = false
	w.c.mu.Unlock()
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	sim.Send("ls-a", 12345)
	sim.Exit("ls-a", 0, false)
	w.reach("ls-a", 1, protocol.PhaseStopped)
	w.kill()
	w.start()
	w.until("the run is told again", func() bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		return len(w.c.last.Past) == 1 && w.c.last.Past[0].EgressBytes == 12345 && w.c.last.Session == w.a.session
	})
	w.c.mu.Lock()
	w.c.ack = true
	w.c.mu.Unlock()
	w.until("it is forgotten", func() bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		return len(w.c.last.Past) == 0
	})
	if s, _ := w.status("ls-a"); s.EgressBytes != 12345 {
		t.Errorf("egress: %+v", s)
	}
}

func TestHostRebootEndsTheRunAtItsLastSignOfLife(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	w.send(want("ls-a", 1, protocol.WantRunning))
	started := w.reach("ls-a", 1, protocol.PhaseRunning).Started
	w.kill()
	sim.Exit("ls-a", 137, false)
	w.cfg.clock = func() protocol.Instant { return protocol.Instant{BootID: "another", Nanos: 5e9} }
	w.start()
	w.reach("ls-a", 1, protocol.PhaseStopped)
	w.until("the run is told", func() bool { w.c.mu.Lock(); defer w.c.mu.Unlock(); return len(w.c.past) == 1 })
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, p := range w.c.past {
		if p.Stopped == nil || p.Stopped.BootID != started.BootID || p.Stopped.Nanos < started.Nanos {
			t.Errorf("run: %+v", p)
		}
	}
}

func TestCommandsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	for name, change := range map[string]func(*protocol.Command){
		"path in the id":      func(c *protocol.Command) { c.LeaseID = "../../etc" },
		"no id":               func(c *protocol.Command) { c.LeaseID = "" },
		"generation zero":     func(c *protocol.Command) { c.Generation = 0 },
		"unknown want":        func(c *protocol.Command) { c.Want = "dancing" },
		"no spec":             func(c *protocol.Command) { c.Spec = nil },
		"no image":            func(c *protocol.Command) { c.Spec.Image = " " },
		"zero memory":         func(c *protocol.Command) { c.Spec.MemoryMiB = 0 },
		"negative disk":       func(c *protocol.Command) { c.Spec.DiskMiB = -1 },
		"huge cpu":            func(c *protocol.Command) { c.Spec.CPUMillis = 1 << 62 },
		"huge pids":           func(c *protocol.Command) { c.Spec.PIDs = 1 << 40 },
		"port out of range":   func(c *protocol.Command) { c.Spec.DirectPorts = map[int]int{80: 70000} },
		"one host port twice": func(c *protocol.Command) { c.Spec.DirectPorts = map[int]int{80: 8000, 81: 8000} },
		"GPU twice":           func(c *protocol.Command) { c.Spec.GPUs = []string{"GPU-1", "GPU-1"} },
		"negative limit":      func(c *protocol.Command) { c.Limits.PaidFor = -1 },
		"variable with =":     func(c *protocol.Command) { c.Spec.Environment = map[string]string{"A=B": "c"} },
	} {
		c := want("ls-a", 1, protocol.WantRunning)
		change(&c)
		if r := w.send(c); r.Accepted || r.Code != "bad_spec" || r.Message == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if l, _ := sim.List(t.Context()); len(l) != 0 {
		t.Errorf("containers: %+v", l)
	}
}

func TestStreamsReachPortsAndSayWhyNot(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	sim.Output = "hello\nworld\n"
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	c, err := w.stream(protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: "ls-a", Port: 80})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = c.Write([]byte("echo")) }()
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "echo" {
		t.Errorf("%q %v", b, err)
	}
	c.Close()
	for _, x := range []struct {
		h    protocol.StreamHeader
		code string
	}{
		{protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: "ls-b", Port: 80}, "no_such_lease"},
		{protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: "ls-a", Port: 0}, "port_closed"},
		{protocol.StreamHeader{Kind: protocol.StreamLogs, LeaseID: "../x"}, "no_such_lease"},
		{protocol.StreamHeader{Kind: protocol.StreamRegistry}, "forbidden"},
	} {
		_, err := w.stream(x.h)
		var refusal *protocol.StreamError
		if !errors.As(err, &refusal) || refusal.Code != x.code {
			t.Errorf("%+v: %v, want %s", x.h, err, x.code)
		}
	}
	sim.Exit("ls-a", 0, false)
	w.reach("ls-a", 1, protocol.PhaseStopped)
	if out := w.logs("ls-a"); out != "hello\nworld\n" {
		t.Errorf("output: %q", out)
	}
	_, err = w.stream(protocol.StreamHeader{Kind: protocol.StreamSSH, LeaseID: "ls-a"})
	var refusal *protocol.StreamError
	if !errors.As(err, &refusal) || refusal.Code != "not_running" {
		t.Errorf("%v", err)
	}
	c, err = w.stream(protocol.StreamHeader{Kind: protocol.StreamLogs, LeaseID: "ls-a", Logs: protocol.LogOptions{Tail: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if tail, _ := io.ReadAll(c); string(tail) != "world\n" {
		t.Errorf("tail: %q", tail)
	}
}

// An agent that is killed while it writes a lease's record leaves the unfinished
// file in the lease's folder.
func TestAnUnfinishedRecordDoesNotKeepALeaseOnItsHost(t *testing.T) {
	t.Parallel()
	w, _ := simWorld(t)
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	left := filepath.Join(w.cfg.Dir, "leases", "ls-a", ".new-1234")
	if err := os.WriteFile(left, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.send(want("ls-a", 2, protocol.WantAbsent))
	w.reach("ls-a", 2, protocol.PhaseAbsent)
	if _, err := os.Stat(filepath.Dir(left)); err == nil {
		t.Error("the lease's folder is still there")
	}
}

func TestAHostThatItsCloudHasRemovedEndsItsInstancesAndItself(t *testing.T) {
	t.Parallel()
	for how, refuse := range map[string]func(w *world){
		"in answer to a report": func(w *world) {
			w.c.mu.Lock()
			w.c.refuse = protocol.CodeHostRemoved
			w.c.mu.Unlock()
			w.a.poke()
		},
		"at connecting": func(w *world) {
			w.kill()
			w.connectError = fmt.Errorf("dial: %w", &protocol.StreamError{Code: protocol.CodeHostRemoved, Message: "removed"})
			w.start()
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w, sim := simWorld(t)
			id := ident.New(ident.Lease)
			w.send(protocol.Command{LeaseID: id, Generation: 1, Want: protocol.WantRunning, Spec: spec()})
			w.reach(id, 1, protocol.PhaseRunning)
			refuse(w)
			select {
			case <-w.done:
			case <-time.After(20 * time.Second):
				t.Fatal("the agent runs on")
			}
			if !errors.Is(w.ended, ErrRemoved) {
				t.Errorf("it ended with %v", w.ended)
			}
			if s, err := sim.Inspect(t.Context(), id); err != nil || s.Exists {
				t.Errorf("the instance is still there: %+v %v", s, err)
			}
			if _, err := os.Stat(w.a.leaseDir(id)); err == nil {
				t.Error("the lease's folder is still there")
			}
		})
	}
}

func TestACloudThatDoesNotKnowTheHostEndsNothing(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	id := ident.New(ident.Lease)
	w.send(protocol.Command{LeaseID: id, Generation: 1, Want: protocol.WantRunning, Spec: spec()})
	w.reach(id, 1, protocol.PhaseRunning)
	w.c.mu.Lock()
	w.c.refuse = "unknown_host"
	before := len(w.c.seen)
	w.c.mu.Unlock()
	w.until("it has been refused twice", func() bool {
		w.a.poke()
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		return len(w.c.seen) > before+2
	})
	if s, err := sim.Inspect(t.Context(), id); err != nil || !s.Running {
		t.Errorf("the instance: %+v %v", s, err)
	}
}
