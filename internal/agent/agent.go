package agent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// Bus carries requests that are answered.
type Bus interface {
	Request(ctx context.Context, subject string, in, out any) error
	Handle(subject string, fn func(ctx context.Context, data []byte) (any, error)) (closer func(), err error)
}

// Streams carries byte streams in both directions.
type Streams interface {
	// Accept returns a stream that the control plane opened, its header unread.
	Accept() (net.Conn, error)
	// Open opens a stream to the control plane and waits for its answer to h.
	Open(h protocol.StreamHeader) (net.Conn, error)
}

// Connection is one connected tunnel. Done is closed when it is lost.
type Connection struct {
	Bus     Bus
	Streams Streams
	Done    <-chan struct{}
	Close   func() error
}

// Config is what an agent needs. Only Dir, HostID and a way to connect are required.
type Config struct {
	Dir    string // state; survives restarts
	HostID string
	// Connect dials the control plane; it is called again, with growing pauses,
	// whenever the connection is lost. Leases run on meanwhile.
	Connect func(ctx context.Context) (Connection, error)
	// Elsewhere says that Connect can reach other replicas of the control plane: one
	// that does not answer a report is left at once.
	Elsewhere bool
	// Bus and Streams are used instead of Connect when they never need redialling,
	// as inside one process.
	Bus     Bus
	Streams Streams

	Simulate   string // a machine of gpu.Machines; empty: the host's own GPUs
	DockerHost string // engine address; empty: from the environment; "sim": no engine
	Binary     string // static binary to mount into instances; empty: this one
	NVML       string // path of the suanli-nvml helper; empty: beside this binary
	SysRoot    string // root of sysfs, for AMD GPUs; empty: /sys
	Isolation  string // OCI runtime for leases that ask for none; empty: the engine's default
	// GatewayKeys are authorized_keys lines that every instance trusts.
	GatewayKeys []string
	DirectPorts *protocol.PortRange
	Table       string // nftables table; empty: suanli
	// InnerRegistries may be inside of a network; hosts pull from public ones only.
	InnerRegistries []runtime.InnerRegistry
	ImageMiB        int64 // of disk for images that were pulled; 0: a fifth of it

	Driver runtime.Driver // replaces the engine; for fleets of simulated hosts and tests
	GPUs   gpu.Source     // replaces the GPU sources

	// SkipSelfTest leaves the self-test out and says so in its result.
	SkipSelfTest bool
	PullStall    time.Duration // without a byte, a pull is given up; default 2 minutes
	StopGrace    time.Duration // between asking an instance to stop and killing it; default 10 s
	CleanWait    time.Duration // for GPUs to become clean; default 30 s
	KeepLogs     time.Duration // output of ended leases; default 7 days
	Log          *slog.Logger

	clock func() protocol.Instant
	poll  time.Duration // look at running instances; default 5 s
	// look is between looks at GPUs from inside of instances; default 30 s. After
	// one that found a fault the next comes sooner.
	look time.Duration
	// keyFolders are tried for one in memory; default keyFolders.
	keyFolders []string
}

// Agent runs leases on this host.
type Agent struct {
	cfg    Config
	log    *slog.Logger
	driver runtime.Driver
	gpus   gpu.Source
	conn   connHolder
	vault  *vault
	copies transfers

	mu        sync.Mutex
	leases    map[string]*lease
	fences    map[string]int64
	past      []protocol.PastRun
	nextPast  int64
	health    map[string]unfit // persisted: fenced and dirty GPUs
	seen      []protocol.GPU   // last good list
	stats     map[string]protocol.GPUStats
	info      runtime.Info
	engineErr error
	gpuErr    error
	adopted   bool // the engine was asked what runs, and it is all known
	selfTest  protocol.SelfTest
	session   string
	seq       int64
	sentInv   time.Time
	sentHash  string
	wantInv   bool

	ctx       context.Context // of Run; leases that commands bring live in it
	changed   chan struct{}   // capacity 1: a report is due
	askNow    chan struct{}   // capacity 1: the engine may have gone away
	notices   chan struct{}   // capacity 1: an instance is to be told of its interruption
	selfTests atomic.Int64    // that were begun
	wg        sync.WaitGroup
}

type connHolder struct {
	mu sync.Mutex
	c  *Connection
}

func (h *connHolder) set(c *Connection) { h.mu.Lock(); h.c = c; h.mu.Unlock() }
func (h *connHolder) streams() Streams {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.c == nil {
		return nil
	}
	return h.c.Streams
}

// Run runs an agent until ctx ends. Instances run on when it returns.
func Run(ctx context.Context, cfg Config) error {
	a, err := New(cfg)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// New returns an agent with the state that its folder holds.
func New(cfg Config) (*Agent, error) {
	if cfg.Dir == "" || cfg.HostID == "" {
		return nil, errors.New("an agent needs a state folder and a host id; join a cloud first")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Binary == "" {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this binary: %w", err)
		}
		cfg.Binary = exe
	}
	setDefault(&cfg.PullStall, 2*time.Minute)
	setDefault(&cfg.StopGrace, 10*time.Second)
	setDefault(&cfg.CleanWait, 30*time.Second)
	setDefault(&cfg.KeepLogs, 7*24*time.Hour)
	setDefault(&cfg.poll, 5*time.Second)
	setDefault(&cfg.look, 30*time.Second)
	if cfg.keyFolders == nil {
		cfg.keyFolders = keyFolders
	}
	if cfg.clock == nil {
		cfg.clock = bootClock()
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	for _, d := range []string{"leases", "fences", "logs"} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, d), 0o700); err != nil {
			return nil, fmt.Errorf("make the agent's state folder: %w", err)
		}
	}
	a := &Agent{
		cfg: cfg, log: cfg.Log.With("host", cfg.HostID), driver: cfg.Driver, gpus: cfg.GPUs,
		leases: map[string]*lease{}, fences: map[string]int64{}, health: map[string]unfit{},
		stats: map[string]protocol.GPUStats{}, changed: make(chan struct{}, 1), askNow: make(chan struct{}, 1), notices: make(chan struct{}, 1), session: randomID(),
	}
	if a.gpus == nil {
		if a.gpus, err = a.sources(); err != nil {
			return nil, err
		}
	}
	if a.driver == nil {
		if a.driver, err = a.engine(); err != nil {
			return nil, err
		}
	}
	if a.vault, err = openVault(cfg.Dir, cfg.keyFolders); err != nil {
		return nil, err
	}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func randomID() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails since Go 1.24
	return hex.EncodeToString(b)
}

func (a *Agent) engine() (runtime.Driver, error) {
	if a.cfg.DockerHost == "sim" {
		free, err := diskMiB(a.cfg.Dir)
		if err != nil {
			return nil, err
		}
		return runtime.NewSim(free), nil
	}
	return runtime.NewDocker(runtime.DockerConfig{
		Host: a.cfg.DockerHost, Dir: a.cfg.Dir, HostID: a.cfg.HostID, Binary: a.cfg.Binary, Table: a.cfg.Table, Log: a.log,
		InnerRegistries: a.cfg.InnerRegistries, ImageMiB: a.cfg.ImageMiB,
		Registry: func(context.Context) (net.Conn, error) {
			s := a.conn.streams()
			if s == nil {
				return nil, errors.New("the control plane is not connected")
			}
			return s.Open(protocol.StreamHeader{Kind: protocol.StreamRegistry})
		},
	})
}

func (a *Agent) sources() (gpu.Source, error) {
	if a.cfg.Simulate != "" {
		return gpu.NewSimulated(a.cfg.Simulate, a.cfg.HostID, filepath.Join(a.cfg.Dir, "simulated"), a.cfg.Binary)
	}
	return gpu.Detect(gpu.DetectConfig{Helper: a.cfg.NVML, SysRoot: a.cfg.SysRoot, Log: a.log}), nil
}

// Run runs the agent until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	a.ctx = ctx
	a.mu.Unlock()
	defer func() {
		cancel()
		a.mu.Lock()
		a.adopted = false // no command may start a goroutine that nobody awaits
		a.mu.Unlock()
		a.wg.Wait()
		a.leaveMeshes()
		_ = a.gpus.Close()
		_ = a.driver.Close()
	}()
	for _, loop := range []func(context.Context){a.superviseEngine, a.watchEngine, a.pollLoop, a.insideLoop, a.noticeLoop, a.logCleaner} {
		a.wg.Add(1)
		go func() {
			defer a.wg.Done()
			loop(ctx)
		}()
	}
	connect := a.cfg.Connect
	if connect == nil {
		connect = func(context.Context) (Connection, error) {
			return Connection{Bus: a.cfg.Bus, Streams: a.cfg.Streams}, nil
		}
	}
	var again redial
	for ctx.Err() == nil {
		c, err := connect(ctx)
		if err == nil {
			again = redial{}
			err = a.serve(ctx, c)
		}
		if ctx.Err() != nil {
			break
		}
		if removed(err) {
			return a.leave(ctx)
		}
		pause := again.next(a.cfg.Elsewhere)
		a.log.Warn("no connection to the control plane; instances run on", "error", err, "again_in_seconds", pause.Seconds())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// redial is how long to wait before the control plane is dialled again.
type redial struct{ last time.Duration }

// next is twice the last pause. Where there are several control planes, one that
// takes hosts is most likely there again within seconds: while one dies and the others
// are busy with that, all may refuse for a moment, and a host that then stays away for
// half a minute holds up whoever has rented it.
func (r *redial) next(elsewhere bool) time.Duration {
	most := 30 * time.Second
	if elsewhere {
		most = 3 * time.Second
	}
	r.last = min(max(2*r.last, 500*time.Millisecond), most)
	return r.last
}

// serve works with one connection until it is lost.
func (a *Agent) serve(ctx context.Context, c Connection) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Close != nil {
		defer func() { _ = c.Close() }()
	}
	a.conn.set(&c)
	defer a.conn.set(nil)
	if c.Done != nil {
		go func() {
			select {
			case <-c.Done:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	closer, err := c.Bus.Handle(protocol.CommandSubject(a.cfg.HostID), a.handleCommand)
	if err != nil {
		return fmt.Errorf("listen for commands: %w", err)
	}
	defer closer()
	if c.Streams != nil {
		closing := c.Close
		if closer, ok := c.Streams.(io.Closer); ok && closing == nil {
			closing = closer.Close
		}
		accepting := make(chan struct{})
		go func() {
			defer close(accepting)
			a.acceptStreams(ctx, c.Streams)
		}()
		defer func() {
			cancel()
			if closing == nil {
				return // streams that cannot be closed end with the process
			}
			_ = closing()
			<-accepting
		}()
	}
	return a.reportLoop(ctx, c.Bus)
}

// superviseEngine asks the engine until it answers, adopts what it runs, and then
// keeps asking.
func (a *Agent) superviseEngine(ctx context.Context) {
	due, pause := !a.cfg.SkipSelfTest, firstRetest
	outcome := make(chan bool, 1)
	var again <-chan time.Time
	if !due {
		a.mu.Lock()
		a.selfTest = protocol.SelfTest{RanAt: a.cfg.clock(), Passed: true, Checks: []protocol.Check{{Name: "all", Skipped: true, Detail: "the agent was started without its self-test"}}}
		a.mu.Unlock()
	}
	for {
		info, err := a.driver.Info(ctx)
		if err == nil && !a.isAdopted() {
			err = a.adopt(ctx)
		}
		a.mu.Lock()
		moved := (a.engineErr == nil) != (err == nil) || a.info.Problem != info.Problem
		a.engineErr = err
		if err == nil {
			a.info = info
		}
		a.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		a.refreshGPUs(ctx)
		if moved {
			a.poke()
		}
		if err == nil && due {
			due = false
			a.wg.Add(1)
			go func() {
				defer a.wg.Done()
				outcome <- a.runSelfTest(ctx)
			}()
		}
		wait := 15 * time.Second
		if err != nil {
			a.log.Warn("the container engine does not answer", "error", err)
			wait = time.Second
		}
		select {
		case <-time.After(wait):
		case <-a.askNow:
		case passed := <-outcome:
			// What it failed by may pass, as a full disk does, or an engine that was
			// killed under it; until then the host earns nothing.
			if !passed {
				again = time.After(pause)
				pause = min(2*pause, lastRetest)
			}
		case <-again:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

// A self-test that failed is tried again after firstRetest, and then after twice as
// long each time, up to lastRetest.
const (
	firstRetest = 15 * time.Second
	lastRetest  = 15 * time.Minute
)

func (a *Agent) isAdopted() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.adopted
}

// watchEngine wakes a lease when its container changes.
func (a *Agent) watchEngine(ctx context.Context) {
	for ctx.Err() == nil {
		_ = a.driver.Watch(ctx, func(id string) {
			a.mu.Lock()
			l := a.leases[id]
			a.mu.Unlock()
			if l != nil {
				l.poke()
			}
		})
		select {
		case a.askNow <- struct{}{}: // it stopped talking: say so at once
		default:
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// pollLoop reads usage, meters and GPUs.
func (a *Agent) pollLoop(ctx context.Context) {
	for {
		select {
		case <-time.After(a.cfg.poll):
		case <-ctx.Done():
			return
		}
		if !a.isAdopted() {
			continue
		}
		a.refreshGPUs(ctx)
		a.sample(ctx)
	}
}

// poke asks for a report soon.
func (a *Agent) poke() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}
