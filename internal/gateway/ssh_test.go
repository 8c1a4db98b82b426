package gateway_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/instance"
	"suanli.dev/internal/instance/sshtest"
	"suanli.dev/internal/protocol"
)

// The test binary is also what an instance runs for SFTP.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "instance" {
		os.Exit(instance.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// directory lets keys and tokens into instances.
type directory struct {
	mu      sync.Mutex
	targets map[string]gateway.Target // "user fingerprint" or "lease port token"
	stopped map[string]bool           // lease
	asked   int
}

func newDirectory() *directory {
	return &directory{targets: map[string]gateway.Target{}, stopped: map[string]bool{}}
}

func (d *directory) allow(key string, t gateway.Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.targets[key] = t
}

func (d *directory) revoke(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.targets, key)
}

func (d *directory) find(key string) (gateway.Target, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	t, ok := d.targets[key]
	if !ok {
		return t, fault.New(fault.Unauthorized, "not_allowed", "this may not be entered with that")
	}
	if d.stopped[t.LeaseID] {
		return t, fault.New(fault.Conflict, "not_running", "the instance %s is stopped; start it with suanli start", t.LeaseID)
	}
	return t, nil
}

func (d *directory) SSHTarget(_ context.Context, user, fingerprint string) (gateway.Target, error) {
	return d.find(user + " " + fingerprint)
}

func (d *directory) HTTPTarget(_ context.Context, lease string, port int, token string) (gateway.Target, error) {
	return d.find(fmt.Sprintf("%s %d %s", lease, port, token))
}

// newSite builds a cloud with an SSH gateway, one host, and on it one instance
// that is this machine: "mine", which the renter may enter.
func newSite(t testing.TB) (*cloud, *directory, *sshtest.Client) {
	t.Helper()
	sshtest.Need(t)
	c := newCloud(t)
	tun, id := c.host(t)
	inside, ln := listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	t.Cleanup(func() { cancel(); served.Wait() })
	run := t.TempDir()
	served.Go(func() {
		settings := protocol.InstanceSettings{HostKey: sshtest.NewKey(t).PEM, GatewayKeys: []string{c.authority.GatewayAuthorizedKey()}}
		if err := instance.ServeSSH(ctx, inside, settings, run, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})
	answer(tun, func(h protocol.StreamHeader, s net.Conn) {
		conn, err := net.Dial("tcp", inside.Addr().String())
		if err != nil {
			return
		}
		defer conn.Close()
		both := make(chan struct{}, 2)
		move := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			to.Close()
			both <- struct{}{}
		}
		go move(conn, s)
		go move(s, conn)
		<-both
		<-both
	})

	d := c.directory
	g := gateway.NewSSH(gateway.SSHConfig{Directory: d, Streams: c.tunnels, HostKey: c.authority.SSHHostKey(), GatewayKey: c.authority.GatewayKey()})
	served.Go(func() {
		if err := g.Serve(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	r := sshtest.NewClient(t, ln.Addr().(*net.TCPAddr).Port, sshtest.NewKey(t))
	d.allow("ls-mine "+r.Key.Fingerprint(), gateway.Target{LeaseID: "ls-mine", HostID: id.HostID})
	d.allow("mine "+r.Key.Fingerprint(), gateway.Target{LeaseID: "ls-mine", HostID: id.HostID})
	return c, d, r
}

func TestRenterRunsCommandsThroughTheGateway(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	cmd := r.Command("ssh", "mine@cloud", "cat; echo err >&2; exit 11")
	cmd.Stdin = strings.NewReader("in")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 11 || stdout.String() != "in" || stderr.String() != "err\n" {
		t.Errorf("%v: output %q, errors %q", err, &stdout, &stderr)
	}
	out, err := r.Command("ssh", "-tt", "mine@cloud", "test -t 0 && echo terminal; exit 4").CombinedOutput()
	if !strings.Contains(string(out), "terminal") || exitOf(err) != 4 {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = r.Command("ssh", "-v", "mine@cloud", "kill -9 $$").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "exit-signal") {
		t.Errorf("%v\n%s", err, out)
	}
}

func exitOf(err error) int {
	if e, ok := err.(*exec.ExitError); ok {
		return e.ExitCode()
	}
	return -1
}

func TestManyCommandsInARowEachReturnTheirOutput(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	control := filepath.Join(r.Dir, "control")
	master := r.Command("ssh", "-M", "-N", "-S", control, "mine@cloud")
	if err := master.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = master.Process.Signal(syscall.SIGTERM); _ = master.Wait() }()
	eventually(t, "the master connection is up", func() bool { _, err := os.Stat(control); return err == nil })
	for i := range 50 { // a close that overtakes an exit status or output shows here
		out, err := r.Command("ssh", "-S", control, "mine@cloud", fmt.Sprintf("echo %d; exit %d", i, i%3)).CombinedOutput()
		if strings.TrimSpace(string(out)) != strconv.Itoa(i) || (i%3 != 0 && exitOf(err) != i%3) || (i%3 == 0 && err != nil) {
			t.Fatalf("command %d: %q, %v", i, out, err)
		}
	}
}

func TestRenterCopiesFilesThroughTheGateway(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	data := make([]byte, 8<<20)
	_, _ = rand.Read(data)
	from, there, back := filepath.Join(r.Dir, "from"), filepath.Join(r.Dir, "there"), filepath.Join(r.Dir, "back")
	if err := os.WriteFile(from, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := r.Command("scp", from, "mine@cloud:"+there).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	batch := r.Command("sftp", "-b", "-", "mine@cloud")
	batch.Stdin = strings.NewReader("get " + there + " " + back + "\n")
	if out, err := batch.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

func TestRenterForwardsPortsThroughTheGateway(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "web") }))
	defer web.Close()
	for _, flag := range []string{"-L", "-R"} {
		ln := listen(t)
		port := ln.Addr().(*net.TCPAddr).Port
		ln.Close()
		cmd := r.Command("ssh", "-N", "-o", "ExitOnForwardFailure=yes", flag, fmt.Sprintf("127.0.0.1:%d:%s", port, web.Listener.Addr()), "mine@cloud")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, flag+" works", func() bool {
			res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
			if err != nil {
				return false
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			return string(body) == "web"
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	out, err := r.Command("ssh", "-v", "-R", "0:"+web.Listener.Addr().String(), "mine@cloud", "true").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Allocated port") {
		t.Errorf("-R 0: %v\n%s", err, out)
	}
}

func TestRentersAgentIsForwardedThroughTheGateway(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	if _, err := exec.LookPath("ssh-agent"); err != nil {
		t.Skip("needs ssh-agent")
	}
	socket := filepath.Join(r.Dir, "agent")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	eventually(t, "the agent listens", func() bool { _, err := os.Stat(socket); return err == nil })
	env := append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	add := exec.Command("ssh-add", filepath.Join(r.Dir, "id"))
	add.Env = env
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := r.Command("ssh", "-A", "mine@cloud", "ssh-add -l")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "ED25519") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestAnotherTenantsKeyDoesNotEnter(t *testing.T) {
	t.Parallel()
	_, d, r := newSite(t)
	d.allow("theirs SHA256:somebody-elses", gateway.Target{LeaseID: "ls-theirs", HostID: "ho-x"})
	for _, user := range []string{"theirs", "nobody", "root", ""} {
		out, err := r.Command("ssh", "-l", user, "cloud", "true").CombinedOutput()
		if err == nil {
			t.Errorf("%q was entered: %s", user, out)
		}
	}
	out, _ := r.Command("ssh", "theirs@cloud", "true").CombinedOutput()
	other, _ := r.Command("ssh", "nobody@cloud", "true").CombinedOutput()
	if strings.ReplaceAll(string(out), "theirs", "") != strings.ReplaceAll(string(other), "nobody", "") {
		t.Errorf("the answers tell which instances exist:\n%s%s", out, other)
	}
	if _, err := ssh.Dial("tcp", r.Address, &ssh.ClientConfig{User: "mine", Auth: []ssh.AuthMethod{ssh.Password("x")}, HostKeyCallback: ssh.InsecureIgnoreHostKey()}); err == nil {
		t.Error("a password was enough")
	}
}

func TestKeyThatIsShownButNotHeldOpensNothing(t *testing.T) {
	t.Parallel()
	_, d, r := newSite(t)
	// The attacker may enter "mine" with their own key's instance only: they show
	// the victim's public key first and prove their own.
	own, victim := sshtest.NewKey(t).Signer, r.Key.Signer
	d.allow("mine "+ssh.FingerprintSHA256(own.PublicKey()), gateway.Target{LeaseID: "ls-other", HostID: "ho-absent"})
	client, err := ssh.Dial("tcp", r.Address, &ssh.ClientConfig{
		User: "mine", HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		Auth: []ssh.AuthMethod{ssh.PublicKeys(pretender{victim.PublicKey()}, own)},
	})
	if err != nil {
		return // refused altogether: as good
	}
	defer client.Close()
	s, err := client.NewSession()
	if err != nil {
		return
	}
	if out, err := s.CombinedOutput("echo inside"); strings.Contains(string(out), "inside") {
		t.Errorf("the victim's instance was entered: %s, %v", out, err)
	}
}

// pretender has a public key and cannot sign for it.
type pretender struct{ public ssh.PublicKey }

func (p pretender) PublicKey() ssh.PublicKey { return p.public }
func (p pretender) Sign(io.Reader, []byte) (*ssh.Signature, error) {
	return &ssh.Signature{Format: p.public.Type(), Blob: make([]byte, 64)}, nil
}

func TestRenterIsToldWhyAnInstanceCannotBeEntered(t *testing.T) {
	t.Parallel()
	_, d, r := newSite(t)
	d.allow("gone "+r.Key.Fingerprint(), gateway.Target{LeaseID: "ls-gone", HostID: "ho-absent"})
	d.allow("stopped "+r.Key.Fingerprint(), gateway.Target{LeaseID: "ls-stopped", HostID: "ho-absent"})
	d.mu.Lock()
	d.stopped["ls-stopped"] = true
	d.mu.Unlock()
	for user, words := range map[string]string{"gone": "is not connected now", "stopped": "start it with suanli start"} {
		for _, args := range [][]string{{user + "@cloud", "true"}, {"-tt", user + "@cloud"}} {
			out, err := r.Command("ssh", args...).CombinedOutput()
			if exitOf(err) != 255 || !strings.Contains(string(out), words) {
				t.Errorf("ssh %v: %v\n%s", args, err, out)
			}
		}
	}
}

func TestLostTunnelEndsTheSession(t *testing.T) {
	t.Parallel()
	c, d, r := newSite(t)
	cmd := r.Command("ssh", "mine@cloud", "echo up; sleep 20")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	host := d.targets["mine "+r.Key.Fingerprint()].HostID
	d.mu.Unlock()
	began := time.Now()
	c.tunnels.Disconnect(host)
	if err := cmd.Wait(); err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("ended after %v with %v", time.Since(began), err)
	}
}

func TestGarbageAndSilenceDoNotHoldTheGateway(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	for range 60 { // more than one address may have in progress
		conn, err := net.Dial("tcp", r.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = conn.Write(bytes.Repeat([]byte("garbage\r\n"), 100))
	}
	eventually(t, "a renter gets in", func() bool {
		out, err := r.Command("ssh", "mine@cloud", "echo in").Output()
		return err == nil && string(out) == "in\n"
	})
}

func TestQuickCommandIsAnsweredBeforeItsChannelCloses(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	client := r.Dial("mine")
	for i := range 300 {
		s, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.Output("echo x"); err != nil || string(out) != "x\n" {
			t.Fatalf("command %d: %q, %v", i, out, err)
		}
	}
}

// All ends, OpenSSH's client among them, share this machine's processors.
func BenchmarkFileUpAndDownThroughTheGateway(b *testing.B) {
	_, _, r := newSite(b)
	const size = 128 << 20
	from, there := filepath.Join(r.Dir, "from"), filepath.Join(r.Dir, "there")
	data := make([]byte, size)
	_, _ = rand.Read(data)
	if err := os.WriteFile(from, data, 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(2 * size)
	for b.Loop() {
		batch := r.Command("sftp", "-q", "-b", "-", "mine@cloud")
		batch.Stdin = strings.NewReader("put " + from + " " + there + "\nget " + there + " " + from + ".back\n")
		if out, err := batch.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}

func TestEveryClientGetsTheFastestCipherThatItKnows(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	for _, c := range []struct{ wants, gets string }{
		{"", "aes128-gcm@openssh.com"}, // its own order begins with ChaCha20
		{"chacha20-poly1305@openssh.com,aes256-gcm@openssh.com", "aes256-gcm@openssh.com"},
		{"chacha20-poly1305@openssh.com", "chacha20-poly1305@openssh.com"},
		{"aes256-ctr", "aes256-ctr"},
	} {
		args := []string{"-v", "mine@cloud", "echo in"}
		if c.wants != "" {
			args = append([]string{"-c", c.wants}, args...)
		}
		out, err := r.Command("ssh", args...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "server->client cipher: "+c.gets) || !strings.Contains(string(out), "client->server cipher: "+c.gets) {
			t.Errorf("%q: %v, want %s\n%s", c.wants, err, c.gets, out)
		}
	}
}

// lateSpeaker holds back all that it has to say but its version until it has
// heard more than the server's version, as some clients do.
type lateSpeaker struct {
	net.Conn
	mu    sync.Mutex
	heard chan struct{}
	spoke bool
	read  int
}

func (l *lateSpeaker) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.read
	if l.read += n; before < 100 && l.read >= 100 {
		close(l.heard)
	}
	return n, err
}

func (l *lateSpeaker) Write(b []byte) (int, error) {
	if l.spoke {
		<-l.heard
	}
	l.spoke = true
	return l.Conn.Write(b)
}

func TestClientThatWaitsForTheServersOfferIsServed(t *testing.T) {
	t.Parallel()
	_, _, r := newSite(t)
	conn, err := net.Dial("tcp", r.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, _, _, err := ssh.NewClientConn(&lateSpeaker{Conn: conn, heard: make(chan struct{})}, "cloud", r.Config("mine"))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
