package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/agent"
	agentruntime "suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/server"
	"suanli.dev/internal/store"
)

const (
	crowdLeases     = 5  // on each agent
	crowdAccount    = 50 // leases of each account
	crowdHeartbeat  = 5  // seconds, as the product has it by default
	crowdStretch    = 30 * time.Second
	crowdSettleDown = 15 * time.Second
)

// crowdAgents can be made smaller, for a look at a small machine.
var crowdAgents = sized("SUANLI_BENCH_AGENTS", 2000)

// crowdRenting is how long leases are rented; what runs then is measured.
var crowdRenting = time.Duration(sized("SUANLI_BENCH_RENTING_SECONDS", 1200)) * time.Second

func sized(variable string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// crowd is one server process on one core and thousands of agents in this one.
type crowd struct {
	server *process
	in     io.WriteCloser
	out    *bufio.Scanner
	dir    string
	state  string // of the agents; in memory, since one disk is not 2,000
	cancel context.CancelFunc
	all    sync.WaitGroup
	leases int
	beats  atomic.Int64 // reports that the server answered
	pinned bool         // this process is, to leave the server its core
	broken error        // why it could not be gathered
}

// benchAgents is the processor time, as a part of one core, and the memory of a
// server process to which 2,000 agents are connected, each through its own TLS
// tunnel, with 5 running leases each, reporting every 5 s. The agents are the
// product's own with the container engine replaced by one in memory; they run in
// another process. The server is the product's, as `suanli server` runs it,
// bound to one core (taskset) with GOMAXPROCS=1 as soon as the leases run; renting
// them is given twenty minutes, and with fewer than 10,000 the verdict is SHORT. A
// loaded machine gives the crowd too little time to report as often as it should;
// the figure is then scaled up to all of the heartbeats. The peer is what the
// plain way costs by itself: a committed write for each of the same heartbeats
// (its host and its leases in one transaction, same store, same disk), without any
// server around.
func benchAgents(ctx context.Context, w *world) (result, error) {
	c, err := w.gather(ctx)
	if err != nil {
		return result{}, err
	}
	m, err := c.watch(ctx, crowdStretch)
	if err != nil {
		return result{}, err
	}
	memory, err := c.ask("memory")
	if err != nil {
		return result{}, err
	}
	naive, _, err := w.naive(ctx)
	if err != nil {
		return result{}, err
	}
	fmt.Printf("server: %.1f %% of a core for %.0f reports a second of %d, %s resident (%s at most; %s), %d agents, %d leases, heartbeat %d s; writes alone in the plain way: %.1f %% of a core\n",
		m.cpu*100, m.beats, crowdAgents/crowdHeartbeat, mb(m.rss), mb(m.peak), memory, crowdAgents, c.leases, crowdHeartbeat, naive*100)
	return result{fmt.Sprintf("%.1f%%core", m.full*100), fmt.Sprintf("%.1f%%core", naive*100), m.full / naive, m.full < 0.95 && c.leases == crowdAgents*crowdLeases}, nil
}

// benchMetering counts the commits of the server's database while the same
// 10,000 leases run and are metered. SQLite counts them itself, in the header of
// the shared index of its write-ahead log. The peer is one commit for each
// heartbeat. The bill of a lease must have grown by the stretch meanwhile.
func benchMetering(ctx context.Context, w *world) (result, error) {
	c, err := w.gather(ctx)
	if err != nil {
		return result{}, err
	}
	before, err := c.ask("due")
	if err != nil {
		return result{}, err
	}
	m, err := c.watch(ctx, crowdStretch)
	if err != nil {
		return result{}, err
	}
	after, err := c.ask("due")
	if err != nil {
		return result{}, err
	}
	if before == after {
		return result{}, fmt.Errorf("nothing was metered: what is due stayed %s", before)
	}
	_, peer, err := w.naive(ctx)
	if err != nil {
		return result{}, err
	}
	ours := float64(m.commits) / crowdStretch.Seconds()
	fmt.Printf("%d leases; commits in %s: %d; bytes the server process wrote to storage: %d; due of all leases and what an oracle says: %s before, %s after\n", c.leases, crowdStretch, m.commits, m.written, before, after)
	return result{fmt.Sprintf("%.2fcommits/s", ours), fmt.Sprintf("%.0fcommits/s", peer), ours / peer, ours < 1 && c.leases == crowdAgents*crowdLeases}, nil
}

// measure is what a stretch of the server's life cost.
type measure struct {
	cpu       float64 // of one core
	full      float64 // likewise, had every agent's every heartbeat been answered
	beats     float64 // reports answered a second
	rss, peak int64
	commits   uint32
	written   int64
}

func (c *crowd) watch(ctx context.Context, span time.Duration) (measure, error) {
	pid := c.server.pid()
	cpu0, err1 := cpu(pid)
	commits0, err2 := c.commits()
	written0, err3 := written(pid)
	begin, beats0 := time.Now(), c.beats.Load()
	if err := c.profile("start", "beat"); err != nil {
		return measure{}, err
	}
	if err := pause(ctx, span); err != nil {
		return measure{}, err
	}
	for _, what := range []string{"stop", "heap", "allocs", "goroutine"} {
		if err := c.profile(what, "beat"); err != nil {
			return measure{}, err
		}
	}
	took := time.Since(begin)
	beats := float64(c.beats.Load()-beats0) / took.Seconds()
	cpu1, err4 := cpu(pid)
	commits1, err5 := c.commits()
	written1, err6 := written(pid)
	m := measure{cpu: float64(cpu1-cpu0) / float64(took), beats: beats, commits: commits1 - commits0, written: written1 - written0}
	m.full = m.cpu * max(1, float64(crowdAgents)/crowdHeartbeat/max(1, beats))
	var err7, err8 error
	m.rss, err7 = rss(pid)
	m.peak, err8 = memory(pid, "VmHWM")
	return m, errors.Join(err1, err2, err3, err4, err5, err6, err7, err8)
}

// commits reads how often the database was written: iChange, the third word of
// the index header (https://www.sqlite.org/walformat.html, "WAL-Index Header").
func (c *crowd) commits() (uint32, error) {
	f, err := os.Open(filepath.Join(c.dir, "suanli.db-shm"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var header [12]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint32(header[8:]), nil
}

func written(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(l, "write_bytes: "); ok {
			var n int64
			_, err := fmt.Sscan(v, &n)
			return n, err
		}
	}
	return 0, errors.New("no write_bytes in /proc")
}

// naive commits once for each heartbeat of the crowd for ten seconds, and returns
// the processor time this took as a part of one core, and the commits a second.
func (w *world) naive(ctx context.Context) (float64, float64, error) {
	dir, err := os.MkdirTemp(w.dir, "naive")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, w.self, "payload", "naive", filepath.Join(dir, "naive.db"))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, err
	}
	var share, rate float64
	_, err = fmt.Sscan(string(out), &share, &rate)
	return share, rate, err
}

func naiveProcess(path string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, "sqlite:"+path)
	if err != nil {
		return err
	}
	defer db.Close()
	err = db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, table := range []string{"host", "lease"} {
			if _, err := tx.Exec(ctx, `CREATE TABLE `+table+` (id BIGINT PRIMARY KEY, seen BIGINT NOT NULL)`); err != nil {
				return err
			}
		}
		for i := range crowdAgents * crowdLeases {
			if _, err := tx.Exec(ctx, `INSERT INTO lease VALUES (?, 0)`, i); err != nil {
				return err
			}
			if i < crowdAgents {
				if _, err := tx.Exec(ctx, `INSERT INTO host VALUES (?, 0)`, i); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	const span = 10 * time.Second
	used := func() time.Duration {
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	begin, cpu0, n := time.Now(), used(), 0
	tick := time.NewTicker(crowdHeartbeat * time.Second / time.Duration(crowdAgents))
	defer tick.Stop()
	for now := range tick.C {
		if time.Since(begin) > span {
			break
		}
		// A ticker drops what the disk was too slow for; the rate shows it.
		err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			host := n % crowdAgents
			if _, err := tx.Exec(ctx, `UPDATE host SET seen = ? WHERE id = ?`, now.UnixMicro(), host); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE lease SET seen = ? WHERE id >= ? AND id < ?`, now.UnixMicro(), host*crowdLeases, (host+1)*crowdLeases)
			return err
		})
		if err != nil {
			return err
		}
		n++
	}
	took := time.Since(begin)
	fmt.Println(float64(used()-cpu0)/float64(took), float64(n)/took.Seconds())
	return nil
}

// gather starts the server, joins the agents and rents the leases.
func (w *world) gather(ctx context.Context) (*crowd, error) {
	if w.crowd != nil {
		return w.crowd, w.crowd.broken
	}
	w.stopCloud()
	c := &crowd{dir: filepath.Join(w.dir, "crowd")}
	w.crowd = c
	c.broken = c.gather(ctx, w)
	return c, c.broken
}

func (c *crowd) gather(ctx context.Context, w *world) error {
	if err := c.startServer(w); err != nil {
		return err
	}
	// Whoever waits for an answer of the server must not outlive an interrupt.
	defer context.AfterFunc(ctx, func() { _ = c.server.cmd.Process.Kill() })()
	address, err := c.ask("address")
	if err != nil {
		return err
	}
	tokens, err := c.ask(fmt.Sprintf("tokens %d", crowdAgents))
	if err != nil {
		return err
	}
	if c.state, err = os.MkdirTemp("/dev/shm", "suanli-bench-"); err != nil {
		return err
	}
	run, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	begin := time.Now()
	if err := c.join(run, address, strings.Fields(tokens)); err != nil {
		return err
	}
	if err := poll(ctx, "all agents to be listed", 5*time.Minute, time.Second, func() (bool, error) {
		n, err := c.ask("listed")
		return n == fmt.Sprint(crowdAgents), err
	}); err != nil {
		return err
	}
	fmt.Printf("%d agents joined and are listed after %.0f s\n", crowdAgents, time.Since(begin).Seconds())
	begin = time.Now()
	if _, err := c.ask("accounts"); err != nil {
		return err
	}
	fmt.Printf("the renters' accounts are made after %.0f s\n", time.Since(begin).Seconds())
	begin = time.Now()
	if err := c.profile("start", "rent"); err != nil {
		return err
	}
	cpu0, err := cpu(c.server.pid())
	if err != nil {
		return err
	}
	rented, err := c.ask("rent")
	if err != nil {
		return err
	}
	cpu1, err := cpu(c.server.pid())
	if err != nil {
		return err
	}
	if err := c.profile("stop", "rent"); err != nil {
		return err
	}
	n, _ := strconv.ParseFloat(rented, 64)
	fmt.Printf("%s leases accepted: %.0f a second, %.0f a second of the server's processor time (heartbeats and starts included)\n", rented,
		n/time.Since(begin).Seconds(), n/(cpu1-cpu0).Seconds())
	// Some may fail where the machine is too slow for its heartbeats; what runs
	// half a minute later counts, and too few are SHORT.
	_ = poll(ctx, "all leases to run", 30*time.Second, time.Second, func() (bool, error) {
		n, err := c.ask("running")
		if err == nil {
			c.leases, err = strconv.Atoi(n)
		}
		return n == rented, err
	})
	fmt.Printf("%d leases run after %.0f s\n", c.leases, time.Since(begin).Seconds())
	if _, err := c.ask("one-core"); err != nil {
		return err
	}
	if n := runtime.NumCPU(); n > 1 {
		if err := pin(os.Getpid(), fmt.Sprintf("1-%d", n-1)); err != nil {
			return err
		}
		c.pinned = true
	}
	return pause(ctx, crowdSettleDown)
}

func (c *crowd) startServer(w *world) error {
	p := &process{cmd: exec.Command(w.self, "payload", "cloud", c.dir), log: filepath.Join(w.dir, "crowd.log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stderr = log
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, p.cmd.Start()); err != nil {
		return err
	}
	c.in, c.out = in, bufio.NewScanner(out)
	c.out.Buffer(nil, 16<<20)
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	c.server = p
	return nil
}

// ask sends the server process a line and returns its answer. Notes on the way to
// it are shown.
func (c *crowd) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		return "", err
	}
	for c.out.Scan() {
		if note, ok := strings.CutPrefix(c.out.Text(), "note "); ok {
			fmt.Println(note)
			continue
		}
		answer, ok := strings.CutPrefix(c.out.Text(), "ok ")
		if !ok {
			return "", errors.New(c.out.Text())
		}
		return answer, nil
	}
	return "", errors.Join(errors.New("the server process ended"), c.out.Err())
}

// profiles names a folder for profiles of the server; they cost a little time of
// the processor that is measured.
const profiles = "SUANLI_BENCH_PROFILES"

func (c *crowd) profile(what, name string) error {
	dir := os.Getenv(profiles)
	if dir == "" {
		return nil
	}
	kind := what
	if what == "start" || what == "stop" {
		kind = "cpu"
	}
	_, err := c.ask("profile " + what + " " + filepath.Join(dir, name+"."+kind))
	return err
}

func (c *crowd) join(ctx context.Context, address string, tokens []string) error {
	var failed atomic.Pointer[error]
	limit := make(chan struct{}, 32)
	var enrolling sync.WaitGroup
	for i, token := range tokens {
		limit <- struct{}{}
		enrolling.Go(func() {
			defer func() { <-limit }()
			id, err := tunnel.Enrol(ctx, address, token, tunnel.Machine{Name: fmt.Sprintf("host%d", i), Build: "bench", Simulated: true})
			if err != nil {
				failed.Store(&err)
				return
			}
			id.Address = address
			c.all.Go(func() {
				err := agent.Run(ctx, agent.Config{
					Dir: filepath.Join(c.state, id.HostID), HostID: id.HostID, Simulate: "8x4090", DockerHost: "sim",
					Driver: agentruntime.NewSim(1 << 20), SkipSelfTest: true,
					Connect: func(ctx context.Context) (agent.Connection, error) {
						t, err := tunnel.Dial(ctx, tunnel.Config{Identity: id})
						if err != nil {
							return agent.Connection{}, err
						}
						return agent.Connection{Bus: counted{t, &c.beats}, Streams: t, Done: t.Done(), Close: t.Close}, nil
					},
				})
				if err != nil && ctx.Err() == nil {
					failed.Store(&err)
				}
			})
		})
	}
	enrolling.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// counted counts what an agent asked and was answered.
type counted struct {
	agent.Bus
	answers *atomic.Int64
}

func (b counted) Request(ctx context.Context, subject string, in, out any) error {
	err := b.Bus.Request(ctx, subject, in, out)
	if err == nil {
		b.answers.Add(1)
	}
	return err
}

func (c *crowd) stop() {
	if c == nil {
		return
	}
	if c.cancel != nil {
		c.cancel()
		c.all.Wait()
	}
	if c.server != nil {
		c.server.stop()
	}
	if c.pinned {
		_ = pin(os.Getpid(), fmt.Sprintf("0-%d", runtime.NumCPU()-1))
	}
	if c.state != "" {
		_ = os.RemoveAll(c.state)
	}
}

// cloudProcess is the server: what `suanli server` runs, with a way to make
// tokens and leases by the thousand that no API of a product should have.
func cloudProcess(dir string) error {
	cfg, err := config.Load("", os.LookupEnv, map[string]string{
		"data_dir": dir, "allow_simulated": "true", "listen": "127.0.0.1:7180", "agent_listen": "127.0.0.1:7181", "ssh_listen": "127.0.0.1:7122",
		"heartbeat_seconds": fmt.Sprint(crowdHeartbeat), "log_level": "error",
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cloud, err := server.OpenCloud(ctx, cfg, "bench", slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	defer cloud.Close()
	ended := make(chan error, 1)
	go func() { ended <- cloud.Run(ctx) }()
	h := &handle{cloud: cloud}
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		answer, err := h.answer(ctx, strings.Fields(s.Text()))
		if err != nil {
			answer = "failed: " + strings.ReplaceAll(err.Error(), "\n", "; ")
		} else {
			answer = "ok " + answer
		}
		fmt.Println(answer)
	}
	cancel()
	return <-ended
}

// handle is the benchmark's hand inside the server process.
type handle struct {
	cloud   *server.Cloud
	renters []account.Principal
	leases  []string
}

func (h *handle) answer(ctx context.Context, words []string) (string, error) {
	admin, err := h.cloud.FirstOperator(ctx)
	if err != nil {
		return "", err
	}
	switch words[0] {
	case "address":
		_, agents, _ := h.cloud.Addresses()
		return agents, nil
	case "tokens":
		return h.tokens(ctx, admin, words[1])
	case "listed":
		n := 0
		for _, x := range h.cloud.Fleet.Hosts(ctx, admin) {
			if x.State == fleet.StateListed {
				n++
			}
		}
		return fmt.Sprint(n), nil
	case "accounts":
		return "done", h.open(ctx, admin)
	case "rent":
		err := h.rent(ctx, admin)
		return fmt.Sprint(len(h.leases)), err
	case "running":
		n := 0
		for _, id := range h.leases {
			l, err := h.cloud.Leases.Lookup(ctx, id)
			if err != nil {
				return "", err
			}
			if l.State == lease.Running {
				n++
			}
		}
		return fmt.Sprint(n), nil
	case "due":
		return h.due(ctx)
	case "memory":
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return fmt.Sprintf("%s of heap in use, %s of stacks, %d goroutines", mb(int64(m.HeapInuse)), mb(int64(m.StackInuse)), runtime.NumGoroutine()), nil
	case "profile":
		return profile(words[1], words[2])
	case "one-core":
		runtime.GOMAXPROCS(1)
		// What making accounts took is given back now and not over the next minutes.
		debug.FreeOSMemory()
		return "done", pin(os.Getpid(), "0")
	}
	return "", fmt.Errorf("no such command %q", words[0])
}

// pin binds all threads of a process to cores.
func pin(pid int, cores string) error {
	out, err := exec.Command("taskset", "-a", "-p", "-c", cores, strconv.Itoa(pid)).CombinedOutput()
	if err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	return nil
}

// profile starts and stops a processor profile of the server process, or writes
// one of its memory.
func profile(what, path string) (string, error) {
	switch what {
	case "start":
		f, err := os.Create(path)
		if err != nil {
			return "", err
		}
		return "done", pprof.StartCPUProfile(f)
	case "stop":
		pprof.StopCPUProfile()
		return "done", nil
	}
	f, err := os.Create(path)
	if err != nil {
		return "", err
	}
	return "done", errors.Join(pprof.Lookup(what).WriteTo(f, 0), f.Close())
}

func (h *handle) tokens(ctx context.Context, admin account.Principal, count string) (string, error) {
	var n int
	if _, err := fmt.Sscan(count, &n); err != nil {
		return "", err
	}
	tokens := make([]string, n)
	err := each(n, func(i int) (err error) {
		tokens[i], _, err = h.cloud.Fleet.CreateJoinToken(ctx, admin, fleet.JoinToken{Name: fmt.Sprintf("host%d", i)})
		return err
	})
	return strings.Join(tokens, " "), err
}

// each calls fn for 0 to n-1, sixteen at a time.
func each(n int, fn func(int) error) error {
	var next atomic.Int64
	errs := make([]error, 16)
	var all sync.WaitGroup
	for k := range errs {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := fn(i); err != nil {
					errs[k] = err
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// open makes the renters' accounts, with money and room for their leases.
func (h *handle) open(ctx context.Context, admin account.Principal) error {
	h.renters = make([]account.Principal, max(1, crowdAgents*crowdLeases/crowdAccount))
	many := 1_000_000
	for i := range h.renters {
		a, u, err := h.cloud.Accounts.CreateAccount(ctx, admin, account.CreateAccount{Name: fmt.Sprintf("renter %d", i), Email: fmt.Sprintf("renter%d@example.com", i), Password: "a long enough password"})
		if err != nil {
			return err
		}
		if _, err := h.cloud.Accounts.UpdateAccount(ctx, admin, a.ID, account.UpdateAccount{MaxLeases: &many, MaxGPUs: &many}); err != nil {
			return err
		}
		if _, err := h.cloud.Billing.Deposit(ctx, admin, a.ID, 100_000_000_000, "benchmark", "bench-"+a.ID); err != nil {
			return err
		}
		h.renters[i] = account.Principal{UserID: u.ID, AccountID: a.ID, Role: account.Owner}
	}
	return nil
}

// rent lets accounts rent five GPUs of each host, one at a time.
func (h *handle) rent(ctx context.Context, admin account.Principal) error {
	hosts := h.cloud.Fleet.Hosts(ctx, admin)
	leases := make([]string, len(hosts)*crowdLeases)
	limit := time.Now().Add(crowdRenting)
	// Host by host in turn, as strangers would, and not five at once on each.
	rent := func(i int) error {
		p := h.renters[i%len(h.renters)]
		q, err := h.cloud.Leases.Price(ctx, p, lease.QuoteRequest{OfferID: hosts[i%len(hosts)].ID + ".rtx-4090.1", Image: image, DiskGiB: 1}, "UTC")
		if err != nil {
			return err
		}
		l, err := h.cloud.Leases.Accept(ctx, p, lease.Create{QuoteID: q.ID})
		if err != nil {
			return err
		}
		leases[i] = l.ID
		return nil
	}
	var rented atomic.Int64
	done := make(chan struct{})
	var noting sync.WaitGroup
	noting.Go(func() {
		tick := time.NewTicker(30 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				fmt.Printf("note %d of %d leases accepted\n", rented.Load(), len(leases))
			}
		}
	})
	err := each(len(leases), func(i int) error {
		for {
			err := rent(i)
			if err == nil {
				rented.Add(1)
			}
			// A host that was not given its time on a loaded machine comes back.
			if f, ok := fault.As(err); err == nil || !ok || !slices.Contains([]string{"host_offline", "offer_gone", "offer_taken"}, f.Code) {
				return err
			}
			if time.Now().After(limit) {
				return nil
			}
			if err := pause(ctx, time.Second); err != nil {
				return err
			}
		}
	})
	close(done)
	noting.Wait()
	h.leases = slices.DeleteFunc(leases, func(id string) bool { return id == "" })
	return err
}

// due is what all leases owe together, in micro-units, and what they should owe:
// an oracle in fractions of its own, from each lease's start, its last sign of
// life and its price. The two differ by the rounding of each lease's two meters at
// most, half a micro-unit each; more is an error, as is a lease whose last sign of
// life is old.
func (h *handle) due(ctx context.Context) (string, error) {
	var sum int64
	oracle := new(big.Rat)
	for _, id := range h.leases {
		at := time.Now()
		b, err := h.cloud.Billing.Due(ctx, id, at)
		if err != nil {
			return "", err
		}
		sum += int64(b.Total)
		used := map[pricing.Meter]time.Duration{}
		var last time.Time
		for _, l := range b.Lines {
			used[l.Meter] += l.End.Sub(l.Start)
			if l.Meter == pricing.Compute {
				last = l.End
			}
		}
		if stale := at.Sub(last); stale > 3*crowdHeartbeat*time.Second {
			return "", fmt.Errorf("lease %s was last seen alive %s ago", id, stale)
		}
		oracle.Add(oracle, shouldCost(b.Quote, used[pricing.Compute], used[pricing.Storage], at))
	}
	off := new(big.Rat).Sub(new(big.Rat).SetInt64(sum), oracle)
	if off.Abs(off).Cmp(big.NewRat(int64(len(h.leases)), 1)) > 0 {
		return "", fmt.Errorf("all leases owe %d micro-units and should owe %s", sum, oracle.FloatString(0))
	}
	return fmt.Sprintf("%d %s", sum, oracle.FloatString(0)), nil
}

// shouldCost is the exact price of one run and of its disk within one month; a
// started second is dropped. A run that a silent host interrupted is one run.
func shouldCost(q pricing.Quote, ran, kept time.Duration, at time.Time) *big.Rat {
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	days := month.AddDate(0, 1, 0).Sub(month)
	compute := big.NewRat(int64(q.Tariff.Compute), 1000*3600)
	compute.Mul(compute, big.NewRat(max(int64(ran/time.Second), q.Tariff.MinimumSeconds), 1))
	storage := big.NewRat(int64(q.Tariff.Storage)*q.DiskGiB, 1000)
	storage.Mul(storage, big.NewRat(int64(kept/time.Second), int64(days/time.Second)))
	return compute.Add(compute, storage)
}
