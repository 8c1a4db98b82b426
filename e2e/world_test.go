package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"suanli.dev/api"
)

// binary is the program under test, built once.
var binary = sync.OnceValues(func() (string, error) {
	if b := os.Getenv("SUANLI_TEST_BINARY"); b != "" {
		return b, nil
	}
	dir, err := os.MkdirTemp("", "suanli-e2e-")
	if err != nil {
		return "", err
	}
	built = dir
	out := filepath.Join(dir, "suanli")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", out, "suanli.dev/cmd/suanli")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program under test: %w\n%s", err, msg)
	}
	return out, nil
})

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cloud != nil {
		if err := shared.cloud.close(); err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: the shared cloud left something behind:", err)
			code = 1
		} else {
			_ = os.RemoveAll(shared.cloud.dir)
		}
	}
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// need skips a test where the machine cannot run it.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv("SUANLI_TEST_DOCKER") == "" {
		t.Skip("SUANLI_TEST_DOCKER does not name a container engine, such as unix:///var/run/docker.sock")
	}
	needRoot(t)
	for program, pkg := range map[string]string{"busybox": "busybox-static", "docker": "docker.io", "nft": "nftables"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (%s)", program, pkg)
		}
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("agents mount disks and write firewall rules, which needs root")
	}
	if testing.Short() {
		t.Skip("whole clouds take too long for -short")
	}
}

// cloud is a control plane and its hosts, as processes of their own.
type cloud struct {
	dir              string
	api, agents, ssh string // addresses
	engine           string
	server           *process
	hosts            []*host
	operator         *user
	serverFlags      []string
	dataDir          string
	expectLeftLeases bool // a test ends without ending its leases
	heartbeatSeconds int
}

// host is an agent process and what it needs to be started again.
type host struct {
	cloud *cloud
	dir   string
	table string
	flags []string
	p     *process
	id    string
}

// process is a running program with its output in a file.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

func start(log string, args ...string) (*process, error) {
	exe, err := binary()
	if err != nil {
		return nil, err
	}
	return startProgram(log, exe, args...)
}

func startProgram(log, exe string, args ...string) (*process, error) {
	// A test that is killed takes its programs along.
	p, err := launch(log, exe, args, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL})
	if err != nil {
		return nil, err
	}
	p.wait()
	return p, nil
}

// launch starts a program; wait has to follow.
func launch(log, exe string, args []string, attr *syscall.SysProcAttr) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd := exec.Command(exe, args...)
	cmd.Stdout, cmd.Stderr = f, f
	cmd.SysProcAttr = attr
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "SUANLI_") || strings.HasPrefix(v, "DOCKER_")
	})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{cmd: cmd, log: log, done: make(chan struct{})}, nil
}

// wait notices the program's end, in the background.
func (p *process) wait() {
	go func() { _ = p.cmd.Wait(); close(p.done) }()
}

// end sends a signal and waits until the process is gone.
func (p *process) end(sig syscall.Signal) error {
	if p == nil {
		return nil
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
		return nil
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("%s did not end within 40 s of %v", filepath.Base(p.log), sig)
	}
}

func (p *process) kill() { _ = p.end(syscall.SIGKILL) }

func freeAddress() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// newCloud starts a control plane; more flags come after its own.
func newCloud(dir string, flags ...string) (*cloud, error) {
	c := &cloud{dir: dir, api: freeAddress(), agents: freeAddress(), ssh: freeAddress(), engine: os.Getenv("SUANLI_TEST_DOCKER"),
		dataDir: filepath.Join(dir, "server"), serverFlags: flags, heartbeatSeconds: 1}
	if err := c.startServer(); err != nil {
		return nil, err
	}
	op, err := c.signIn("admin", "admin@localhost", filepath.Join(c.dataDir, "admin-password"))
	if err != nil {
		return nil, err
	}
	c.operator = op
	return c, nil
}

// anywhere is the address with a wildcard host, so that whoever can reach this
// machine by any of its addresses reaches the listener, too.
func anywhere(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "0.0.0.0:" + port
}

func (c *cloud) launchServer() error {
	args := append([]string{"server", "--data-dir", c.dataDir, "--listen", anywhere(c.api), "--agent-listen", anywhere(c.agents), "--ssh-listen", c.ssh,
		"--public-url", "http://" + c.api, "--heartbeat-seconds", fmt.Sprint(c.heartbeatSeconds), "--allow-simulated=true"}, c.serverFlags...)
	p, err := start(filepath.Join(c.dir, "server.log"), args...)
	if err != nil {
		return err
	}
	c.server = p
	return nil
}

func (c *cloud) startServer() error {
	if err := c.launchServer(); err != nil {
		return err
	}
	return within(30*time.Second, func() error {
		select {
		case <-c.server.done:
			return final{fmt.Errorf("the server ended: %s", tail(c.server.log, 5))}
		default:
		}
		res, err := http.Get("http://" + c.api + "/readyz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != 200 {
			b, _ := io.ReadAll(res.Body)
			return fmt.Errorf("readyz: %s %s", res.Status, b)
		}
		return nil
	})
}

// join starts an agent on this machine, as if it were another one, and waits
// until it is on the market.
func (c *cloud) join(machine string, flags ...string) (*host, error) {
	h, err := c.beginJoin(machine, flags...)
	if err != nil {
		return nil, err
	}
	return h, h.listed()
}

// joinWrong is join of a host whose wall clock is wrong by so much.
func (c *cloud) joinWrong(machine string, by time.Duration) (*host, error) {
	h, token, err := c.newHost(machine)
	if err != nil {
		return nil, err
	}
	if h.p, err = startWrong(h.log(), by, h.joining(token)...); err != nil {
		return nil, err
	}
	return h, h.listed()
}

func (c *cloud) beginJoin(machine string, flags ...string) (*host, error) {
	h, token, err := c.newHost(machine, flags...)
	if err != nil {
		return nil, err
	}
	h.p, err = start(h.log(), h.joining(token)...)
	return h, err
}

// newHost is a host that may join, with its token.
func (c *cloud) newHost(machine string, flags ...string) (*host, string, error) {
	n := len(c.hosts)
	h := &host{cloud: c, dir: filepath.Join(c.dir, fmt.Sprintf("host%d", n)), flags: flags}
	_, port, _ := net.SplitHostPort(c.api)
	h.table = fmt.Sprintf("suanli-e2e-%s-%d", port, n)
	h.flags = append([]string{"--data-dir", h.dir, "--docker", c.engine, "--allow-simulated=true", "--simulate", machine, "--firewall-table", h.table, "--log-level", "debug"}, flags...)
	token, err := c.operator.run("host", "token", "--name", fmt.Sprintf("host%d", n))
	if err != nil {
		return nil, "", err
	}
	c.hosts = append(c.hosts, h)
	return h, strings.TrimSpace(token), nil
}

func (h *host) joining(token string) []string {
	return append([]string{"agent", "join", h.cloud.agents, "--token", token}, h.flags...)
}

func (h *host) log() string { return h.dir + ".log" }

func (h *host) start() (err error) {
	h.p, err = start(h.log(), append([]string{"agent", "run"}, h.flags...)...)
	return err
}

func (h *host) listed() error {
	return within(90*time.Second, func() error {
		select {
		case <-h.p.done:
			return final{fmt.Errorf("the agent ended: %s", tail(h.log(), 5))}
		default:
		}
		hosts, err := h.cloud.operator.api.Hosts(context.Background())
		if err != nil {
			return err
		}
		for _, x := range hosts {
			if x.Name == filepath.Base(h.dir) {
				h.id = x.ID
				if x.State == "listed" {
					return nil
				}
				if x.SelfTest != nil && !x.SelfTest.Passed && len(x.SelfTest.Checks) > 0 {
					return final{fmt.Errorf("the self-test failed: %+v", x.SelfTest.Checks)}
				}
				return fmt.Errorf("the host is %s: %s", x.State, x.Reason)
			}
		}
		return errors.New("the host is not known yet")
	})
}

// close ends everything and tells what was left behind.
func (c *cloud) close() error {
	var errs []error
	if c.server != nil && c.operator != nil && !c.expectLeftLeases {
		errs = append(errs, c.endAll())
	}
	for _, h := range c.hosts {
		errs = append(errs, h.p.end(syscall.SIGTERM))
	}
	errs = append(errs, c.server.end(syscall.SIGTERM))
	for _, h := range c.hosts {
		errs = append(errs, h.leftovers())
		_ = exec.Command("nft", "delete", "table", "inet", h.table).Run()
	}
	return errors.Join(errs...)
}

// endAll ends every lease of every account.
func (c *cloud) endAll() error {
	users, _ := filepath.Glob(filepath.Join(c.dir, "users", "*"))
	var errs []error
	for _, d := range users {
		u, err := c.reopen(d)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, within(60*time.Second, func() error {
			p, err := u.api.Leases(context.Background(), "", true, "", 100)
			if err != nil {
				return err
			}
			for _, l := range p.Items {
				_, _ = u.api.EndLease(context.Background(), l.ID)
			}
			if len(p.Items) > 0 {
				return fmt.Errorf("%d leases of %s live on, such as %s (%s)", len(p.Items), filepath.Base(d), p.Items[0].ID, p.Items[0].State)
			}
			return nil
		}))
	}
	return errors.Join(errs...)
}

// leftovers looks for what ended leases must not leave on a host: containers,
// networks, mounts, loop devices, disks, firewall rules.
func (h *host) leftovers() error {
	var errs []error
	for _, args := range [][]string{{"container", "ls", "-aq"}, {"network", "ls", "-q"}} {
		out, err := docker(h.cloud.engine, append(args, "--filter", "label=suanli.host="+h.id)...)
		if err != nil || strings.TrimSpace(out) != "" {
			errs = append(errs, fmt.Errorf("left of %ss: %s %v", args[0], strings.Fields(out), err))
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, h.dir+"/") {
			errs = append(errs, fmt.Errorf("a mount is left: %s", strings.TrimSpace(line)))
		}
	}
	loops, _ := exec.Command("losetup", "-a").Output()
	for line := range strings.Lines(string(loops)) {
		if strings.Contains(line, h.dir+"/") {
			errs = append(errs, fmt.Errorf("a loop device is left: %s", strings.TrimSpace(line)))
		}
	}
	disks, _ := filepath.Glob(filepath.Join(h.dir, "agent", "leases", "*"))
	if len(disks) > 0 {
		errs = append(errs, fmt.Errorf("lease folders are left: %v", disks))
	}
	rules, err := exec.Command("nft", "list", "table", "inet", h.table).Output()
	if err == nil {
		for line := range strings.Lines(string(rules)) {
			// A lease's rules name its bridge or its counters.
			if strings.Contains(line, `"sl`) || strings.Contains(line, "out-sl") {
				errs = append(errs, fmt.Errorf("a firewall rule is left: %s", strings.TrimSpace(line)))
			}
		}
	}
	return errors.Join(errs...)
}

// user is someone with a sign-in of their own.
type user struct {
	cloud   *cloud
	dir     string
	api     *api.Client
	account string
}

// signIn signs in on the command line.
func (c *cloud) signIn(as, email, passwordFile string) (*user, error) {
	u := &user{cloud: c, dir: filepath.Join(c.dir, "users", as)}
	if _, err := u.run("login", "http://"+c.api, "--email", email, "--password-file", passwordFile); err != nil {
		return nil, err
	}
	return c.reopen(u.dir)
}

func (c *cloud) reopen(dir string) (*user, error) {
	var s struct{ Token string }
	b, err := os.ReadFile(filepath.Join(dir, "login.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	u := &user{cloud: c, dir: dir, api: api.New("http://"+c.api, s.Token)}
	me, err := u.api.Me(context.Background())
	if err != nil {
		return nil, err
	}
	u.account = me.Account.ID
	return u, nil
}

// tenant makes an account with money and its owner.
func (c *cloud) tenant(as, deposit string) (*user, error) {
	file := filepath.Join(c.dir, as+".password")
	if err := os.WriteFile(file, []byte("a long pass phrase of "+as+"\n"), 0o600); err != nil {
		return nil, err
	}
	email := as + "@example.test"
	if _, err := c.operator.run("account", "create", as, "--email", email, "--password-file", file); err != nil {
		return nil, err
	}
	u, err := c.signIn(as, email, file)
	if err != nil {
		return nil, err
	}
	if deposit != "" {
		_, err = c.operator.run("deposit", u.account, deposit, "--reference", "test")
	}
	return u, err
}

// result is how a command of the CLI ended.
type result struct {
	out, err string
	code     int
}

func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	exe, err := binary()
	if err != nil {
		panic(err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "SUANLI_") || strings.HasPrefix(v, "LANG") })
	cmd.Env = append(cmd.Env, "SUANLI_CLIENT_DIR="+u.dir, "TZ=UTC")
	return cmd
}

// try runs a command of the CLI.
func (u *user) try(args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	cmd := u.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := result{out: out.String(), err: errs.String()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		r.code, r.err = -1, r.err+"\n(the command took longer than 90 s)"
	case errors.As(err, &exit):
		r.code = exit.ExitCode()
	case err != nil:
		r.code, r.err = -1, err.Error()
	}
	return r
}

// run runs a command of the CLI that has to succeed, and returns its output.
func (u *user) run(args ...string) (string, error) {
	r := u.try(args...)
	if r.code != 0 {
		return r.out, fmt.Errorf("suanli %s: exit code %d: %s", strings.Join(args, " "), r.code, strings.TrimSpace(r.err+"\n"+r.out))
	}
	return r.out, nil
}

// must runs a command of the CLI and fails the test if it fails.
func (u *user) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := u.run(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rent rents one GPU and returns the lease as it runs.
func (u *user) rent(t *testing.T, name string, args ...string) *api.Lease {
	t.Helper()
	var flags, command []string
	flags = args
	if i := slices.Index(args, "--"); i >= 0 {
		flags, command = args[:i], args[i:]
	}
	all := append([]string{"rent", "--json", "--name", name}, flags...)
	if !slices.Contains(flags, "--image") {
		all = append(all, "--image", "cloud://box:1")
	}
	if !slices.Contains(flags, "--disk") {
		all = append(all, "--disk", "1")
	}
	if !slices.Contains(flags, "--where") {
		all = append(all, "--where", oneGPU)
	}
	out := u.must(t, append(all, command...)...)
	var l api.Lease
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{\n"):]), &l); err != nil {
		t.Fatalf("rent --json: %v\n%s", err, out)
	}
	return &l
}

// oneGPU selects what rents one GPU of a host with an engine; the hosts without
// have another model.
const oneGPU = `gpu_count = 1 and gpu_model = "RTX 4090"`

// inside runs a shell line in a lease.
func (u *user) inside(t *testing.T, lease, line string) string {
	t.Helper()
	return u.must(t, "exec", lease, "--", line)
}

func (u *user) lease(t *testing.T, id string) *api.Lease {
	t.Helper()
	l, err := u.api.Lease(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// reaches waits until the lease is in one of the states.
func (u *user) reaches(t *testing.T, id string, patience time.Duration, states ...string) *api.Lease {
	t.Helper()
	var l *api.Lease
	err := within(patience, func() error {
		var err error
		if l, err = u.api.Lease(t.Context(), id); err != nil {
			return err
		}
		if !slices.Contains(states, l.State) {
			return fmt.Errorf("lease %s is %s (%s %s), not %v", id, l.State, l.Code, l.Message, states)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// shared is one cloud with two hosts' worth of GPUs for the tests that break
// nothing of it.
var shared struct {
	once  sync.Once
	cloud *cloud
	err   error
}

func sharedCloud(t *testing.T) *cloud {
	t.Helper()
	need(t)
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "suanli-e2e-cloud-")
		if err != nil {
			shared.err = err
			return
		}
		c, err := newCloud(dir, "--minimum-seconds", "1")
		if err != nil {
			shared.err = err
			return
		}
		shared.cloud = c
		first := 20000 + os.Getpid()%20000
		direct := fmt.Sprintf("%s:%d-%d", ownAddress(), first, first+20)
		if _, shared.err = c.join("8x4090", "--direct-ports", direct); shared.err == nil {
			shared.err = c.push("box:1", boxImage())
		}
	})
	if shared.err != nil {
		t.Fatalf("the shared cloud: %v", shared.err)
	}
	shared.cloud.showLogs(t)
	return shared.cloud
}

// ownAddress is an address of this machine's that is not loopback, if it has one.
func ownAddress() string {
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}

// ownCloud is a cloud with one host for one test, which ends with it.
func ownCloud(t *testing.T, machine string, flags ...string) *cloud {
	t.Helper()
	need(t)
	c, err := newCloud(t.TempDir(), flags...)
	if err != nil {
		t.Fatal(err)
	}
	c.showLogs(t)
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if machine == "" {
		return c // and no host
	}
	if _, err := c.join(machine); err != nil {
		t.Fatal(err)
	}
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	return c
}

// showLogs shows the ends of all logs if the test fails.
func (c *cloud) showLogs(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
		for _, l := range logs {
			t.Logf("%s:\n%s", filepath.Base(l), tail(l, 40))
		}
	})
}

func tail(file string, lines int) string {
	b, _ := os.ReadFile(file)
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// final is an error that waiting does not help.
type final struct{ error }

// within asks again and again until there is no error.
func within(patience time.Duration, ask func() error) error {
	deadline := time.After(patience)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		var f final
		if err == nil || errors.As(err, &f) {
			return err
		}
		select {
		case <-deadline:
			return fmt.Errorf("after %v still: %w", patience, err)
		case <-tick.C:
		}
	}
}

// push puts an image into the cloud's registry.
func (c *cloud) push(ref string, img v1.Image) error {
	r, err := name.ParseReference(c.api+"/"+ref, name.Insecure)
	if err != nil {
		return err
	}
	token, err := c.operator.token()
	if err != nil {
		return err
	}
	return remote.Write(r, img, remote.WithAuth(&authn.Basic{Username: "token", Password: token}))
}

// token is what the user's command line has been signed in by.
func (u *user) token() (string, error) {
	b, err := os.ReadFile(filepath.Join(u.dir, "login.json"))
	if err != nil {
		return "", err
	}
	var s struct{ Token string }
	err = json.Unmarshal(b, &s)
	return s.Token, err
}

// boxImage is busybox with a web page, whose own environment asks for all GPUs.
func boxImage() v1.Image {
	return image(v1.ConfigFile{Config: v1.Config{
		Env: []string{"PATH=/bin:/usr/bin", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all"},
		Cmd: []string{"/bin/sh", "-c", "echo hello from inside; exec tail -f /dev/null"},
	}}, busyboxFiles())
}

// image is one layer with a configuration.
func image(conf v1.ConfigFile, layer []byte) v1.Image {
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		panic(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		panic(err)
	}
	base, err := img.ConfigFile()
	if err != nil {
		panic(err)
	}
	base = base.DeepCopy()
	base.OS, base.Architecture, base.Config = "linux", conf.Architecture, conf.Config
	if base.Architecture == "" {
		base.Architecture = runtime.GOARCH
	}
	if img, err = mutate.ConfigFile(img, base); err != nil {
		panic(err)
	}
	return img
}

var busyboxFiles = sync.OnceValue(func() []byte {
	path, err := exec.LookPath("busybox")
	if err != nil {
		panic(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(h tar.Header, body []byte) {
		h.Size = int64(len(body))
		if err := w.WriteHeader(&h); err != nil {
			panic(err)
		}
		if _, err := w.Write(body); err != nil {
			panic(err)
		}
	}
	for _, d := range []string{"bin", "etc", "tmp", "root", "www", "proc", "dev", "sys", "data"} {
		put(tar.Header{Name: d + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	put(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		panic(err)
	}
	for a := range strings.FieldsSeq(string(applets)) {
		if a != "busybox" {
			put(tar.Header{Name: "bin/" + a, Typeflag: tar.TypeLink, Linkname: "bin/busybox", Mode: 0o755}, nil)
		}
	}
	put(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\n"))
	put(tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:\n"))
	put(tar.Header{Name: "www/index.html", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("a page from inside\n"))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return buf.Bytes()
})

// docker runs the engine's own command line.
func docker(engine string, args ...string) (string, error) {
	out, err := exec.Command("docker", append([]string{"-H", engine}, args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("docker %v: %s", args, exit.Stderr)
	}
	return string(out), err
}
