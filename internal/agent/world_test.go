package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/instance"
	"suanli.dev/internal/protocol"
)

// TestMain lets the test binary stand for the static binary inside containers.
func TestMain(m *testing.M) {
	switch {
	case filepath.Base(os.Args[0]) == "nvidia-smi":
		os.Exit(instance.NVIDIASMI(protocol.InstanceGPUs, os.Args[1:], os.Stdout, os.Stderr))
	case len(os.Args) > 2 && os.Args[1] == "instance" && os.Args[2] == "probe":
		os.Exit(probe.Main(os.Args[3:], os.Stdout))
	case len(os.Args) > 2 && os.Args[1] == "instance" && os.Args[2] == "init":
		os.Exit(tinyInit())
	case len(os.Args) > 2 && os.Args[1] == "instance" && os.Args[2] == "interruption":
		os.Exit(instance.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// tinyInit does what the agent needs of an instance's init, and no more.
func tinyInit() int {
	b, err := os.ReadFile(protocol.InstanceConfig)
	if err != nil {
		fmt.Println("init:", err)
		return 70
	}
	var s protocol.InstanceSettings
	if err := json.Unmarshal(b, &s); err != nil {
		fmt.Println("init:", err)
		return 70
	}
	if s.NoticeSignal != "" {
		return instance.Main([]string{"init"}) // it is the product's that passes signals on
	}
	status, _ := json.Marshal(protocol.InstanceReport{Started: true})
	_ = os.WriteFile(filepath.Join(protocol.InstanceRunDir, "status.json"), status, 0o600)
	argv := s.Command
	if s.StartScript != "" {
		argv = []string{"/bin/sh", "-c", s.StartScript}
	}
	if len(argv) == 0 {
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		<-c
		return 143
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/bin:/usr/bin"}
	for k, v := range s.Environment {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Println("init:", err)
		return 127
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	go func() {
		<-c
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// control is a scripted control plane: it answers reports and sends commands.
type control struct {
	mu       sync.Mutex
	last     protocol.Report
	inv      protocol.Inventory
	seen     []protocol.Report
	past     map[int64]protocol.PastRun
	ack      bool
	complete bool
	refuse   string
	desired  map[string]protocol.Desired
	commands func(ctx context.Context, data []byte) (any, error)
	dark     bool // answers nothing
	news     chan struct{}
	streams  chan net.Conn
	open     func(protocol.StreamHeader) (net.Conn, error)
}

func newControl() *control {
	return &control{past: map[int64]protocol.PastRun{}, ack: true, desired: map[string]protocol.Desired{}, news: make(chan struct{}, 1), streams: make(chan net.Conn, 8)}
}

func (c *control) Request(ctx context.Context, _ string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	var r protocol.Report
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dark {
		return errors.New("nobody answers")
	}
	c.last = r
	c.seen = append(c.seen, r)
	if len(c.seen) > 200 {
		c.seen = slices.Clone(c.seen[100:])
	}
	if r.Inventory != nil {
		c.inv = *r.Inventory
	}
	reply := protocol.ReportReply{Accepted: c.refuse == "", Code: c.refuse, NextInSeconds: 1, Complete: c.complete}
	for _, p := range r.Past {
		c.past[p.ID] = p
		if c.ack {
			reply.AckedPast = p.ID
		}
	}
	for _, d := range c.desired {
		reply.Desired = append(reply.Desired, d)
	}
	b, err = json.Marshal(reply)
	if err != nil {
		return err
	}
	select {
	case c.news <- struct{}{}:
	default:
	}
	return json.Unmarshal(b, out)
}

func (c *control) Handle(_ string, fn func(context.Context, []byte) (any, error)) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands = fn
	return func() {}, nil
}

func (c *control) Accept() (net.Conn, error) {
	s, ok := <-c.streams
	if !ok {
		return nil, net.ErrClosed
	}
	return s, nil
}

func (c *control) Open(h protocol.StreamHeader) (net.Conn, error) {
	if c.open == nil {
		return nil, errors.New("nothing to open")
	}
	return c.open(h)
}

// world is an agent and its control plane.
type world struct {
	t    *testing.T
	cfg  Config
	c    *control
	a    *Agent
	stop context.CancelFunc
	done chan struct{}

	connectError error // instead of a connection
	ended        error // what Run returned, once done is closed
}

func (w *world) start() {
	w.t.Helper()
	a, err := New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(func() {
		for _, folder := range keyFolders {
			_ = os.Remove(filepath.Join(folder, keyName(a.cfg.Dir)))
		}
	})
	w.a, w.stop, w.done = a, cancel, make(chan struct{})
	w.c.streams = make(chan net.Conn, 8)
	gone := make(chan struct{})
	streams := w.c.streams
	failure := w.connectError
	w.a.cfg.Connect = func(context.Context) (Connection, error) {
		if failure != nil {
			return Connection{}, failure
		}
		return Connection{Bus: w.c, Streams: w.c, Done: gone, Close: sync.OnceValue(func() error { close(streams); return nil })}, nil
	}
	go func() {
		defer close(w.done)
		w.ended = a.Run(ctx)
	}()
}

// kill ends the agent; what it started on the host runs on.
func (w *world) kill() {
	w.stop()
	<-w.done
}

func (w *world) send(c protocol.Command) protocol.CommandResult {
	w.t.Helper()
	var r protocol.CommandResult
	b, _ := json.Marshal(c)
	w.until("the command is taken", func() bool {
		w.c.mu.Lock()
		fn := w.c.commands
		w.c.mu.Unlock()
		if fn == nil {
			return false
		}
		v, err := fn(context.Background(), b)
		if err != nil {
			w.t.Fatal(err)
		}
		r = v.(protocol.CommandResult)
		return r.Code != "not_ready"
	})
	return r
}

// until waits for what reports bring, with a deadline.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(25 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok() {
			return
		}
		select {
		case <-w.c.news:
		case <-tick.C:
		case <-deadline:
			w.c.mu.Lock()
			b, _ := json.MarshalIndent(w.c.last, "", " ")
			w.c.mu.Unlock()
			outputs, _ := filepath.Glob(filepath.Join(w.cfg.Dir, "logs", "*", "*.gz"))
			for _, p := range outputs {
				var out strings.Builder
				_ = copyGzip(&out, p)
				w.t.Logf("output in %s: %s", p, out.String())
			}
			w.t.Fatalf("waited in vain until %s; last report: %s", what, b)
		}
	}
}

func (w *world) status(id string) (protocol.InstanceStatus, bool) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	for _, s := range w.c.last.Instances {
		if s.LeaseID == id {
			return s, true
		}
	}
	return protocol.InstanceStatus{}, false
}

func (w *world) reach(id string, generation int64, p protocol.Phase) protocol.InstanceStatus {
	w.t.Helper()
	var s protocol.InstanceStatus
	w.until(fmt.Sprintf("%s is %s in generation %d", id, p, generation), func() bool {
		var ok bool
		s, ok = w.status(id)
		return ok && s.Generation == generation && s.Phase == p
	})
	return s
}

func (w *world) stream(h protocol.StreamHeader) (net.Conn, error) {
	near, far := net.Pipe()
	w.c.streams <- far
	return near, protocol.WriteHeader(near, h)
}

func (w *world) logs(id string) string {
	w.t.Helper()
	c, err := w.stream(protocol.StreamHeader{Kind: protocol.StreamLogs, LeaseID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	b, _ := io.ReadAll(c)
	return string(b)
}

func spec() *protocol.InstanceSpec {
	return &protocol.InstanceSpec{Image: "test:1", CPUMillis: 1000, MemoryMiB: 256, DiskMiB: 128, PIDs: 256, ShmMiB: 16}
}

func simWorld(t *testing.T) (*world, *runtime.Sim) {
	t.Helper()
	sim := runtime.NewSim(1 << 20)
	gpus, err := gpu.NewSimulated("8x4090", "ho-test", "", "")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, c: newControl(), cfg: Config{
		Dir: t.TempDir(), HostID: "ho-test", Driver: sim, GPUs: gpus, SkipSelfTest: true, Binary: os.Args[0],
		CleanWait: 200 * time.Millisecond, StopGrace: time.Second, poll: 50 * time.Millisecond, Log: testLog(t),
	}}
	w.start()
	t.Cleanup(func() { w.kill() })
	return w, sim
}

func testLog(t *testing.T) *slog.Logger {
	if os.Getenv("SUANLI_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil)).With("test", t.Name())
}
