package instance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
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
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/instance/sshtest"
	"suanli.dev/internal/protocol"
)

// The test binary is also the binary that is mounted into containers.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "instance":
			os.Exit(Main(os.Args[2:]))
		case "container":
			os.Exit(beContainer(os.Args[2]))
		case "words":
			fmt.Printf("%q\n", os.Args[2:])
			os.Exit(3)
		}
	}
	os.Exit(m.Run())
}

// box is an instance's SSH server in this process, and OpenSSH's way to it.
type box struct {
	*sshtest.Client
	in   *instance
	stop func()
}

func newBox(t *testing.T) *box {
	t.Helper()
	sshtest.Need(t)
	run := t.TempDir()
	if err := os.Chmod(run, 0o755); err != nil {
		t.Fatal(err)
	}
	key := sshtest.NewKey(t)
	who, err := lookUp("")
	if err != nil {
		t.Fatal(err)
	}
	settings := protocol.InstanceSettings{LeaseID: "ls-test", HostKey: sshtest.NewKey(t).PEM, SSHKeys: []string{"not a key", key.Authorized()}, Environment: map[string]string{
		"SECRET": "sesame",
		"HOME":   t.TempDir(), // not what the one who runs the tests has their shells do first
	}}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b := &box{in: &instance{
		settings: settings, account: who, env: environment(os.Environ(), settings, who),
		runDir: run, children: newProcesses(false, nil), status: newStatus(run, log), log: log,
	}}
	server, err := newServer(b.in)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.Client = sshtest.NewClient(t, ln.Addr().(*net.TCPAddr).Port, key)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.serve(ctx, ln)
	}()
	b.stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("the server's goroutines did not end")
		}
	}
	t.Cleanup(b.stop)
	return b
}

func (b *box) output(program string, args ...string) string {
	b.T.Helper()
	out, err := b.Command(program, args...).CombinedOutput()
	if err != nil {
		b.T.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func TestCommandRunsWithItsOutputErrorsInputAndExitCode(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	cmd := b.Command("ssh", "box", `cat; echo "$SECRET $SUANLI_LEASE_ID" >&2; exit 37`)
	cmd.Stdin = strings.NewReader("input")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState.ExitCode() != 37 {
		t.Errorf("exit code %d (%v), want 37", cmd.ProcessState.ExitCode(), err)
	}
	if stdout.String() != "input" || stderr.String() != "sesame ls-test\n" {
		t.Errorf("output %q, errors %q", &stdout, &stderr)
	}
}

func TestLargeOutputArrivesWholeAtASlowReader(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	cmd := b.Command("ssh", "box", "head -c 20000000 /dev/zero")
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // the program fills every buffer and ends or waits
	n, err := io.Copy(io.Discard, r)
	if err != nil || n != 20000000 {
		t.Errorf("%d bytes arrived, %v", n, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestSignalledCommandIsReportedAsSuch(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	out, err := b.Command("ssh", "-v", "box", "kill -KILL $$").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "exit-signal") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTerminalHasItsSizeAndEndsWithItsShell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	// A background process that ignores the hang-up holds the terminal open.
	cmd := b.Command("ssh", "-tt", "box", `stty size; test -t 0 && echo "terminal $TERM"; (trap "" HUP; sleep 60) & exit 5`)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 5 {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "terminal xterm-256color") {
		t.Errorf("output: %q", out)
	}
}

func TestShellIsALoginShell(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	cmd := b.Command("ssh", "-tt", "box")
	cmd.Stdin = strings.NewReader("echo zero=$0\nexit\n")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "zero=-") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestFilesAreCopiedBothWays(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	data := make([]byte, 3<<20)
	_, _ = rand.Read(data)
	from, there, back := filepath.Join(b.Dir, "from"), filepath.Join(b.Dir, "there"), filepath.Join(b.Dir, "back")
	if err := os.WriteFile(from, data, 0o640); err != nil {
		t.Fatal(err)
	}
	b.output("scp", from, "box:"+there)
	b.output("scp", "box:"+there, back)
	got, err := os.ReadFile(back)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	batch := b.Command("sftp", "-b", "-", "box")
	batch.Stdin = strings.NewReader("mkdir " + b.Dir + "/sub\nrename " + there + " " + b.Dir + "/sub/x\nls -l " + b.Dir + "/sub\n")
	out, err := batch.CombinedOutput()
	if err != nil || !strings.Contains(string(out), strconv.Itoa(len(data))) {
		t.Errorf("sftp: %v\n%s", err, out)
	}
}

func TestPortsAreForwardedBothWays(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "web") }))
	defer web.Close()
	inside := web.Listener.Addr().(*net.TCPAddr).Port
	for _, flag := range []string{"-L", "-R"} {
		port := freePort(t)
		cmd := b.Command("ssh", "-N", "-o", "ExitOnForwardFailure=yes", flag, fmt.Sprintf("127.0.0.1:%d:127.0.0.1:%d", port, inside), "box")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, flag+" works", func() bool {
			r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
			if err != nil {
				return false
			}
			defer r.Body.Close()
			body, _ := io.ReadAll(r.Body)
			return string(body) == "web"
		})
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		eventually(t, flag+" ends with its connection", func() bool {
			conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
	}
}

func TestAgentIsForwarded(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if _, err := exec.LookPath("ssh-agent"); err != nil {
		t.Skip("needs ssh-agent")
	}
	socket := filepath.Join(b.Dir, "agent")
	agent := exec.Command("ssh-agent", "-D", "-a", socket)
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = agent.Process.Kill(); _ = agent.Wait() }()
	eventually(t, "the agent listens", func() bool { _, err := os.Stat(socket); return err == nil })
	env := append(os.Environ(), "SSH_AUTH_SOCK="+socket)
	add := exec.Command("ssh-add", filepath.Join(b.Dir, "id"))
	add.Env = env
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := b.Command("ssh", "-A", "box", "ssh-add -l; echo $SSH_AUTH_SOCK")
	cmd.Env = env
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ED25519") || !strings.Contains(string(out), b.in.runDir) {
		t.Errorf("%v\n%s", err, out)
	}
	eventually(t, "the socket is removed", func() bool {
		left, _ := filepath.Glob(filepath.Join(b.in.runDir, "agent-*"))
		return len(left) == 0
	})
}

func TestForeignKeyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	if err := os.WriteFile(filepath.Join(b.Dir, "id"), []byte(sshtest.NewKey(t).PEM), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := b.Command("ssh", "box", "true").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Permission denied") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSessionsAreCountedInTheReport(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	cmd := b.Command("ssh", "box", "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one session is reported", func() bool { return b.report().Sessions == 1 })
	in.Close()
	_ = cmd.Wait()
	eventually(t, "none is", func() bool { return b.report().Sessions == 0 })
}

func TestClientThatVanishesLeavesNothingOfItsConnection(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	cmd := b.Command("ssh", "-tt", "box", "trap '' HUP; echo up; sleep 3")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(out, make([]byte, 2))
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, "the session is gone", func() bool { return b.report().Sessions == 0 })
	b.stop()
}

func (b *box) report() protocol.InstanceReport {
	var r protocol.InstanceReport
	data, err := os.ReadFile(filepath.Join(b.in.runDir, "status.json"))
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return protocol.InstanceReport{Sessions: -1}
	}
	return r
}

func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after 15 s still not: %s", what)
		case <-tick.C:
		}
	}
}
