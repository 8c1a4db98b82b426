package instance

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"suanli.dev/internal/instance/sshtest"
	"suanli.dev/internal/protocol"
)

// beContainer makes of this process, the first in its namespaces, what a
// container engine would, and then is init.
func beContainer(root string) int {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil && root != "/" {
		err = unix.Chroot(root)
	}
	if err == nil {
		err = os.Chdir("/")
	}
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "container:", err)
		return 99
	}
	if root == "/" {
		return runInit(os.Getenv("TEST_SETTINGS"), os.Getenv("TEST_RUN"))
	}
	return Main([]string{"init"})
}

// container is one made of namespaces, without an engine.
type container struct {
	t      *testing.T
	cmd    *exec.Cmd
	root   string
	run    string
	client sshtest.Key
	output output
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// startContainer runs init with settings. scratch: on an empty image, else on
// this machine's own root.
func startContainer(t *testing.T, scratch bool, settings protocol.InstanceSettings) *container {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make namespaces")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &container{t: t, root: "/"}
	settings.HostKey = sshtest.NewKey(t).PEM
	c.client = sshtest.NewKey(t)
	settings.GatewayKeys = []string{c.client.Authorized()}
	dir := t.TempDir()
	if scratch {
		requireStatic(t, binary)
		c.root = dir
		for _, d := range []string{"/proc", "/.suanli/run", "/bin"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		copyFile(t, binary, filepath.Join(dir, "bin/prog"))
	} else {
		for _, d := range []string{dir, filepath.Dir(dir)} { // another user passes through
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, ".suanli/run"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.run = filepath.Join(dir, ".suanli/run")
	b, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	settingsPath := filepath.Join(dir, protocol.InstanceConfig)
	if err := os.WriteFile(settingsPath, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(binary, "container", c.root)
	c.cmd.Env = append(os.Environ(), "TEST_SETTINGS="+settingsPath, "TEST_RUN="+c.run)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET}
	if err := c.cmd.Start(); err != nil {
		t.Skipf("cannot make namespaces here: %v", err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	return c
}

func requireStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Skip("needs a static test binary: run with CGO_ENABLED=0")
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wait returns the exit code.
func (c *container) wait() int {
	c.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.cmd.Wait()
	}()
	select {
	case <-done:
	case <-time.After(15 * time.Second):
		_ = c.cmd.Process.Kill()
		<-done
		c.t.Fatalf("the container did not end; it printed:\n%s", c.output.String())
	}
	return c.cmd.ProcessState.ExitCode()
}

// ssh enters the container's network and connects to its SSH server.
func (c *container) ssh() *ssh.Client {
	c.t.Helper()
	var conn net.Conn
	eventually(c.t, "SSH is served inside", func() bool {
		var err error
		conn, err = dialInside(c.cmd.Process.Pid)
		return err == nil
	})
	sc, channels, requests, err := ssh.NewClientConn(conn, "inside", &ssh.ClientConfig{
		User: "anyone", Auth: []ssh.AuthMethod{ssh.PublicKeys(c.client.Signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	client := ssh.NewClient(sc, channels, requests)
	c.t.Cleanup(func() { client.Close() })
	return client
}

func dialInside(pid int) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine and its
		// namespace does not leak into others.
		runtime.LockOSThread()
		conn, err := enterAndDial(pid)
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

func enterAndDial(pid int) (net.Conn, error) {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return nil, err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return nil, err
	}
	return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", protocol.InstanceSSHPort))
}

func TestScratchImageIsEntered(t *testing.T) {
	t.Parallel()
	c := startContainer(t, true, protocol.InstanceSettings{LeaseID: "ls-scratch"})
	client := c.ssh()

	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	s.Stderr = &stderr
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); exitStatusOf(err) != 127 || !strings.Contains(stderr.String(), "no shell") {
		t.Errorf("shell: %v, %q", err, &stderr)
	}

	s, err = client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Output(`/bin/prog words one "two words" three\ more`)
	if exitStatusOf(err) != 3 || string(out) != `["one" "two words" "three more"]`+"\n" {
		t.Errorf("exec: %v, %q", err, out)
	}

	files, err := sftp.NewClient(client)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	f, err := files.Create("/data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "copied"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if got, err := os.ReadFile(filepath.Join(c.root, "data")); string(got) != "copied" {
		t.Errorf("sftp: %q, %v", got, err)
	}

	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(); code != 0 {
		t.Errorf("stopped with exit code %d\n%s", code, c.output.String())
	}
}

func exitStatusOf(err error) int {
	if e, ok := err.(*ssh.ExitError); ok {
		return e.ExitStatus()
	}
	return -1
}

func TestScratchImageRunsItsCommand(t *testing.T) {
	t.Parallel()
	c := startContainer(t, true, protocol.InstanceSettings{Command: []string{"prog", "words", "a"}})
	if code := c.wait(); code != 3 || !strings.Contains(c.output.String(), `["a"]`) {
		t.Errorf("exit code %d\n%s", code, c.output.String())
	}
}

func TestExitCodeOfTheInstance(t *testing.T) {
	t.Parallel()
	foreign := filepath.Join(t.TempDir(), "foreign")
	if err := os.WriteFile(foreign, append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 100)...), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		scratch bool
		script  string
		command []string
		user    string
		code    int
		prints  string
	}{
		{name: "is the command's", command: []string{"sh", "-c", "echo done; exit 42"}, code: 42, prints: "done"},
		{name: "of a killed command is 128 and the signal", command: []string{"sh", "-c", "kill -KILL $$"}, code: 137},
		{name: "is the start script's when it fails", script: "echo before; exit 1", command: []string{"echo", "never"}, code: 1, prints: "start script failed"},
		{name: "is the start script's without a command", script: "echo alone; exit 6", code: 6, prints: "alone"},
		{name: "is the command's after a good script", script: "echo first > $TEST_RUN/x", command: []string{"sh", "-c", "cat $TEST_RUN/x; exit 8"}, code: 8, prints: "first"},
		{name: "is 127 for a missing command", command: []string{"no-such-program"}, code: 127, prints: "not found in any folder of PATH"},
		{name: "is 126 for another architecture", command: []string{foreign}, code: 126, prints: "architecture"},
		{name: "is 127 for a script in an image without a shell", scratch: true, script: "echo no", code: 127, prints: "no /bin/sh"},
		{name: "is 125 for an unknown user", user: "nobody-here", command: []string{"true"}, code: 125, prints: "no such user"},
		{name: "is the script's as another user", user: "65534", script: "id -u; exit 4", code: 4, prints: "65534"},
		{name: "is the command's as another user", user: "65534:100", command: []string{"sh", "-c", "id -u; id -g"}, code: 0, prints: "65534\n100"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := startContainer(t, tc.scratch, protocol.InstanceSettings{StartScript: tc.script, Command: tc.command, User: tc.user})
			if code := c.wait(); code != tc.code || !strings.Contains(c.output.String(), tc.prints) {
				t.Errorf("exit code %d, want %d and %q in\n%s", code, tc.code, tc.prints, c.output.String())
			}
			if tc.code != exitSettings {
				var r protocol.InstanceReport
				b, err := os.ReadFile(filepath.Join(c.run, "status.json"))
				if err != nil || json.Unmarshal(b, &r) != nil || r.ExitCode == nil || *r.ExitCode != tc.code {
					t.Errorf("report %s, %v", b, err)
				}
			}
		})
	}
}

func TestStopSignalReachesTheCommandsWholeGroup(t *testing.T) {
	t.Parallel()
	c := startContainer(t, false, protocol.InstanceSettings{Command: []string{"sh", "-c",
		`sh -c 'trap "echo child" TERM; echo ready; sleep 30 & wait' & trap "wait; exit 9" TERM; wait`}})
	eventually(t, "the command is ready", func() bool { return strings.Contains(c.output.String(), "ready") })
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := c.wait(); code != 9 || !strings.Contains(c.output.String(), "child") {
		t.Errorf("exit code %d\n%s", code, c.output.String())
	}
}

func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	c := startContainer(t, false, protocol.InstanceSettings{Command: []string{"sh", "-c",
		`for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (true &) ; done
n=1; for i in 1 2 3 4 5 6 7 8 9 10; do n=$(grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l); [ $n = 0 ] && break; sleep 0.5; done
echo zombies=$n`}})
	if code := c.wait(); code != 0 || !strings.Contains(c.output.String(), "zombies=0") {
		t.Errorf("exit code %d\n%s", code, c.output.String())
	}
}

func TestManySessionsLeaveNoZombieAndNoDescriptor(t *testing.T) {
	t.Parallel()
	c := startContainer(t, false, protocol.InstanceSettings{})
	client := c.ssh()
	count := func() int {
		entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
		return len(entries)
	}
	runOne := func() {
		s, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.Output("echo x"); err != nil || string(out) != "x\n" {
			t.Fatalf("%q, %v", out, err)
		}
	}
	for range 5 {
		runOne()
	}
	before := count()
	for range 200 {
		runOne()
	}
	eventually(t, "descriptors are back to what they were", func() bool { return count() <= before+3 })
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := s.Output(`grep -l "^State:.Z" /proc/[0-9]*/status | wc -l`); strings.TrimSpace(string(out)) != "0" {
		t.Errorf("%s zombies", out)
	}
}
