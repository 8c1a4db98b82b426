package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"suanli.dev/api"
)

// image is the container image of the benchmarks: this binary and nothing else.
const image = "suanli-bench:1"

const apiURL = "http://127.0.0.1:7080"

// world is what benchmarks run in. What several of them need is made once.
type world struct {
	dir, suanli, self string

	engine    *process
	docker    *client.Client
	up        *cloud
	rentals   *rentals
	transfers *transfers
	crowd     *crowd
	helpers   []*process // nginx, sshd
	postgres  *postgres
}

// process is a child that is stopped with the world.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func (w *world) spawn(name string, env []string, command ...string) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...), log: filepath.Join(w.dir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end, and kills it after a while.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func (w *world) close() {
	w.stopCloud()
	w.crowd.stop()
	w.postgres.stop()
	for _, p := range w.helpers {
		p.stop()
	}
	if w.docker != nil {
		_ = w.docker.Close()
	}
	w.engine.stop()
	// Volumes of leases that a failed run left; the mounts are ours alone.
	b, _ := os.ReadFile("/proc/mounts")
	lines := strings.Split(string(b), "\n")
	slices.Reverse(lines)
	for _, l := range lines {
		if f := strings.Fields(l); len(f) > 1 && strings.HasPrefix(f[1], w.dir) {
			_ = unix.Unmount(f[1], unix.MNT_DETACH)
		}
	}
}

// showLogs prints the ends of the children's logs, for a benchmark that failed.
func (w *world) showLogs() {
	logs, _ := filepath.Glob(filepath.Join(w.dir, "*.log"))
	for _, l := range logs {
		b, _ := os.ReadFile(l)
		fmt.Printf("-- %s\n%s\n", filepath.Base(l), b[max(0, len(b)-1500):])
	}
}

// poll calls ok until it says yes, at most for limit.
func poll(ctx context.Context, what string, limit, every time.Duration, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		yes, err := ok()
		if yes {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for %s: %w", what, ctx.Err()), last)
		case <-tick.C:
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// startEngine starts a dockerd of the run's own and gives it the image.
func (w *world) startEngine(ctx context.Context) error {
	if w.engine != nil {
		return nil
	}
	p, err := w.dockerd()
	if err != nil {
		return err
	}
	w.engine = p
	if w.docker, err = client.New(client.WithHost(w.engineAddress())); err != nil {
		return err
	}
	if err := w.awaitEngine(ctx); err != nil {
		return err
	}
	return w.loadImage(ctx)
}

func (w *world) engineAddress() string { return "unix://" + filepath.Join(w.dir, "docker.sock") }

func (w *world) dockerd() (*process, error) {
	d := filepath.Join(w.dir, "engine")
	p, err := w.spawn("dockerd", nil, "dockerd", "--data-root", d+"/data", "--exec-root", d+"/exec", "--pidfile", d+".pid", "-H", w.engineAddress())
	if err != nil {
		return nil, fmt.Errorf("start an engine (package docker.io): %w", err)
	}
	return p, nil
}

func (w *world) awaitEngine(ctx context.Context) error {
	return poll(ctx, "dockerd", time.Minute, 10*time.Millisecond, func() (bool, error) {
		_, err := w.docker.Ping(ctx, client.PingOptions{})
		return err == nil, err
	})
}

// loadImage makes the image out of this binary.
func (w *world) loadImage(ctx context.Context) error {
	b, err := os.ReadFile(w.self)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	t := tar.NewWriter(&layer)
	if err := errors.Join(t.WriteHeader(&tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}),
		t.WriteHeader(&tar.Header{Name: "bench", Mode: 0o755, Size: int64(len(b))})); err != nil {
		return err
	}
	if _, err := t.Write(b); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "docker", "-H", w.engineAddress(), "import", "--change", `CMD ["/bench","payload","say"]`, "-", image)
	cmd.Stdin = &layer
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}

// cloud is a running `suanli up` or `suanli server` with an operator signed in.
type cloud struct {
	*process
	api   *api.Client
	token string // of the operator's session
	key   ssh.Signer
	pem   string // file of the SSH key
}

// startCloud runs a cloud with the folder name for its data, from its beginning.
func (w *world) startCloud(ctx context.Context, name string, args ...string) (*cloud, time.Duration, error) {
	data := filepath.Join(w.dir, name)
	begin := time.Now()
	p, err := w.spawn(name, nil, append([]string{w.suanli, args[0], "--data-dir", data, "--allow-simulated=true", "--log-level=warn"}, args[1:]...)...)
	if err != nil {
		return nil, 0, err
	}
	err = poll(ctx, "the API", 30*time.Second, 2*time.Millisecond, func() (bool, error) {
		r, err := http.Get(apiURL + "/readyz")
		if err != nil {
			return false, nil
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK, nil
	})
	took := time.Since(begin)
	if err != nil {
		p.stop()
	}
	return &cloud{process: p}, took, err
}

// signIn makes the cloud's client, with money and an SSH key in its account.
func (c *cloud) signIn(ctx context.Context, dir string) error {
	password, err := os.ReadFile(filepath.Join(dir, "admin-password"))
	if err != nil {
		return err
	}
	s, err := api.New(apiURL, "").SignIn(ctx, api.SignIn{Email: "admin@localhost", Password: strings.TrimSpace(string(password))})
	if err != nil {
		return err
	}
	c.api, c.token = api.New(apiURL, s.Token), s.Token
	amount, err := api.ParseAmount("10000")
	if err != nil {
		return err
	}
	if _, err := c.api.Deposit(ctx, api.Deposit{AccountID: s.AccountID, Amount: amount}); err != nil {
		return err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	if c.key, err = ssh.NewSignerFromKey(private); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "bench")
	if err != nil {
		return err
	}
	c.pem = filepath.Join(dir, "bench-key")
	if err := os.WriteFile(c.pem, pem.EncodeToMemory(block), 0o600); err != nil {
		return err
	}
	_, err = c.api.AddSSHKey(ctx, api.AddSSHKey{Name: "bench", PublicKey: string(ssh.MarshalAuthorizedKey(c.key.PublicKey()))})
	return err
}

// awaitMarket waits until a host's eight GPUs are on offer.
func (c *cloud) awaitMarket(ctx context.Context) error {
	return poll(ctx, "the host to pass its self-test", 3*time.Minute, 200*time.Millisecond, func() (bool, error) {
		p, err := c.api.Offers(ctx, api.OfferQuery{Where: "gpu_count = 8", Limit: 1})
		return err == nil && len(p.Items) == 1, err
	})
}

// startUp brings up the cloud that the rental benchmarks share.
func (w *world) startUp(ctx context.Context) (*cloud, error) {
	if w.up != nil {
		return w.up, nil
	}
	if err := w.startEngine(ctx); err != nil {
		return nil, err
	}
	c, _, err := w.startCloud(ctx, "up", "up", "--docker", w.engineAddress(), "--simulate", "8x4090")
	if err != nil {
		return nil, err
	}
	w.up = c
	if err := c.signIn(ctx, filepath.Join(w.dir, "up")); err != nil {
		return nil, err
	}
	return c, c.awaitMarket(ctx)
}

// stopCloud ends the shared cloud, whose leases were ended by who made them.
func (w *world) stopCloud() {
	if w.up != nil {
		w.up.stop()
		w.up, w.rentals, w.transfers = nil, nil, nil
	}
}

// quote freezes the price of that many GPUs of the eight, and so of that part of
// the machine's processors.
func (c *cloud) quote(ctx context.Context, gpus int) (*api.Quote, error) {
	p, err := c.api.Offers(ctx, api.OfferQuery{Where: fmt.Sprintf("gpu_count = %d", gpus), Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(p.Items) == 0 {
		return nil, fmt.Errorf("no bundle of %d GPUs is on offer", gpus)
	}
	return c.api.CreateQuote(ctx, api.QuoteRequest{OfferID: p.Items[0].ID, Image: image, DiskGiB: 2})
}

func (c *cloud) awaitState(ctx context.Context, id, state string) error {
	return poll(ctx, "lease "+id+" to be "+state, time.Minute, 25*time.Millisecond, func() (bool, error) {
		l, err := c.api.Lease(ctx, id)
		if err != nil {
			return false, err
		}
		if l.State == "failed" {
			return false, fmt.Errorf("the lease failed: %s: %s", l.Code, l.Message)
		}
		return l.State == state, nil
	})
}

func (c *cloud) end(ctx context.Context, id string) error {
	if _, err := c.api.EndLease(ctx, id); err != nil {
		return err
	}
	return c.awaitState(ctx, id, "ended")
}

// rss is the resident memory of a process, in bytes.
func rss(pid int) (int64, error) { return memory(pid, "VmRSS") }

func memory(pid int, field string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(l, field+":"); ok {
			n, err := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, field)
}

// cpu is the processor time that a process has used. Ticks are of 10 ms on
// every Linux that Go runs on.
func cpu(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	user, err1 := strconv.ParseInt(f[11], 10, 64)
	system, err2 := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// quantile returns the q-th (0 to 1) of the durations, which it sorts.
func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

func ms(d time.Duration) string    { return fmt.Sprintf("%.0fms", float64(d)/1e6) }
func micro(d time.Duration) string { return fmt.Sprintf("%dus", d.Microseconds()) }
func mb(n int64) string            { return fmt.Sprintf("%.0fMB", float64(n)/1e6) }

func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	if f := strings.Fields(string(b)); len(f) > 0 {
		return f[0]
	}
	return "unknown"
}

// machine describes where the figures come from.
func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	var u unix.Utsname
	_ = unix.Uname(&u)
	return fmt.Sprintf("machine: %d x %s, Linux %s, %s, load %s, %s", runtime.NumCPU(), model, unix.ByteSliceToString(u.Release[:]), runtime.Version(), load(), time.Now().UTC().Format(time.RFC3339))
}

// firstLine reads up to the first newline.
func firstLine(r io.Reader) error {
	_, err := bufio.NewReader(r).ReadString('\n')
	return err
}
