package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// startPodman starts Podman's service on a socket of its own, with storage,
// networks and settings of its own.
func startPodman(t *testing.T) *engine {
	t.Helper()
	name := os.Getenv("SUANLI_TEST_PODMAN")
	if name == "" {
		t.Skip("SUANLI_TEST_PODMAN does not name a podman; make test-engines does")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("podman is not installed: %v", err)
	}
	e := ownEngine(t)
	for name, text := range map[string]string{
		// As a machine with no service manager needs it; where nothing may raise a
		// limit, Podman's own would be refused.
		"containers.conf": "[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1000:1000\"]\n",
		"storage.conf":    fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n", filepath.Join(e.dir, "data"), filepath.Join(e.dir, "run")),
	} {
		if err := os.WriteFile(filepath.Join(e.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"CONTAINERS_CONF=" + filepath.Join(e.dir, "containers.conf"), "CONTAINERS_STORAGE_CONF=" + filepath.Join(e.dir, "storage.conf"),
		path, "--network-config-dir", filepath.Join(e.dir, "networks")}
	if runc, err := exec.LookPath("runc"); err == nil {
		args = append(args, "--runtime", runc)
	}
	env, err := exec.LookPath("env")
	if err != nil {
		t.Fatal(err)
	}
	if e.p, err = startProgram(filepath.Join(e.dir, "engine.log"), env, append(args, "system", "service", "--time=0", e.address)...); err != nil {
		t.Fatal(err)
	}
	if err := e.answers(); err != nil {
		t.Fatal(err)
	}
	return e
}

// gVisor finds runsc.
func gVisor(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SUANLI_TEST_RUNSC")
	if path == "" {
		t.Skip("SUANLI_TEST_RUNSC does not name gVisor's runsc; make test-engines builds it and does")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// dockerWithGVisor starts a Docker that offers runsc.
func dockerWithGVisor(t *testing.T, flags ...string) *engine {
	t.Helper()
	runsc := gVisor(t)
	if _, err := exec.LookPath("dockerd"); err != nil {
		t.Skip("dockerd is not installed")
	}
	e := ownEngine(t)
	conf := map[string]any{"runtimes": map[string]any{"runsc": map[string]any{"path": runsc, "runtimeArgs": append([]string{"--platform=systrap"}, flags...)}}}
	b, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(e.dir, "daemon.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	e.flags = []string{"--config-file", file}
	if err := e.start(); err != nil {
		t.Fatal(err)
	}
	return e
}

// wholeLife rents on the cloud's host and does what a renter does.
func wholeLife(t *testing.T, c *cloud, u *user) {
	t.Helper()
	before := time.Now()
	l := u.rent(t, "whole-life", "-p", "8000", "--", "/bin/sh", "-c", "httpd -p 8000 -h /www; echo served; exec tail -f /dev/null")
	ran := time.Now()
	if out := u.inside(t, l.ID, "echo kept > /root/kept && nvidia-smi -L"); !strings.Contains(strings.ToLower(out), "simulated") {
		t.Errorf("inside: %q", out)
	}
	ssh := u.command(t.Context(), "ssh", l.ID)
	ssh.Stdin = strings.NewReader("cat /root/kept\n")
	if out, err := ssh.CombinedOutput(); err != nil || !strings.Contains(string(out), "kept") {
		t.Errorf("by SSH: %q, %v", out, err)
	}
	httpByHostName(t, c, u, l)
	if err := within(20*time.Second, func() error {
		if out := u.must(t, "logs", l.ID); !strings.Contains(out, "served") {
			return fmt.Errorf("the log is %q", out)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if out := u.must(t, "exec", l.ID, "--", "dd if=/dev/zero of=/root/big bs=1M count=2000 2>&1; wc -c < /root/big; rm /root/big"); !strings.Contains(out, "No space left") {
		t.Errorf("2 GB onto a disk of 1 GiB: %q", out)
	}
	u.must(t, "stop", l.ID)
	exactBill(t, u.bill(t, l.ID), before, ran, time.Now())
	u.must(t, "start", l.ID)
	if out := u.inside(t, l.ID, "cat /root/kept"); out != "kept\n" {
		t.Errorf("after stop and start, the disk has %q", out)
	}
	u.must(t, "end", l.ID)
	sumsUp(t, c, u.bill(t, l.ID))
	if err := within(20*time.Second, func() error { return noTrace(c, l.ID) }); err != nil {
		t.Error(err)
	}
}

// cloudOn is a cloud whose host has that engine.
func cloudOn(t *testing.T, e *engine) *cloud {
	t.Helper()
	c, err := newCloud(t.TempDir(), "--minimum-seconds", "1")
	if err != nil {
		t.Fatal(err)
	}
	c.engine = e.address
	c.showLogs(t)
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPodmanAsTheEngineOfAHost(t *testing.T) {
	t.Parallel()
	need(t)
	c := cloudOn(t, startPodman(t))
	h, err := c.join("8x4090")
	if err != nil {
		t.Fatal(err)
	}
	if got := hostOf(t, c, h.id).Hardware; got == nil || !strings.HasPrefix(got.Runtime, "podman ") {
		t.Errorf("the engine is said to be %+v", got)
	}
	u := newTenant(t, c, "podder", "100")
	wholeLife(t, c, u)
	// The agent is killed and comes back to what runs.
	l := u.rent(t, "survivor")
	h.p.kill()
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
	// It tests itself again, which has to be over before the end: Podman finishes
	// making a container whose maker has gone.
	if err := within(90*time.Second, func() error {
		if b, _ := os.ReadFile(h.log()); strings.Count(string(b), "the self-test is done") < 2 {
			return errors.New("the self-test is not done")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	u.reaches(t, l.ID, 30*time.Second, "running")
	err = within(30*time.Second, func() error {
		out, err := u.run("exec", l.ID, "--", "echo in")
		if err == nil && out != "in\n" {
			err = fmt.Errorf("inside: %q", out)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	u.must(t, "end", l.ID)
}

func TestGVisorAsTheIsolationOfAHost(t *testing.T) {
	t.Parallel()
	need(t)
	c := cloudOn(t, dockerWithGVisor(t, "--overlay2=none"))
	h, err := c.join("8x4090", "--isolation", "runsc")
	if err != nil {
		t.Fatal(err)
	}
	if got := hostOf(t, c, h.id).Hardware; got == nil || !slices.Contains(got.Isolation, "runsc") {
		t.Errorf("the host offers %+v", got)
	}
	u := newTenant(t, c, "sandboxed", "100")
	if l := u.rent(t, "kernel"); !strings.Contains(u.inside(t, l.ID, "dmesg 2>&1; uname -a"), "gVisor") {
		t.Errorf("not gVisor's kernel: %s", u.inside(t, l.ID, "dmesg 2>&1; uname -a"))
	}
	u.must(t, "end", "kernel")
	wholeLife(t, c, u)
}

// By itself, runsc keeps what an instance writes in memory or in a file that goes
// with the container's run: a lease's disk would be empty after a stop.
func TestAGVisorThatForgetsTheDiskIsNotListed(t *testing.T) {
	t.Parallel()
	need(t)
	c := cloudOn(t, dockerWithGVisor(t))
	h, err := c.beginJoin("8x4090", "--isolation", "runsc")
	if err != nil {
		t.Fatal(err)
	}
	err = h.listed()
	var f final
	if !errors.As(err, &f) || !strings.Contains(err.Error(), "--overlay2=none") {
		t.Errorf("the host: %v", err)
	}
}
