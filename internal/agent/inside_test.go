package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

func TestGPUsThatARunningInstanceLosesAreToldWithinAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, sim := simWorld(t)
		// What the last look from inside found; nil: all well.
		var refused atomic.Pointer[string]
		var answers atomic.Pointer[error]
		sim.Inside = func(_ string, args []string) ([]byte, error) {
			if err := answers.Load(); err != nil {
				return nil, *err
			}
			r := probe.Result{Values: map[string]string{}}
			if text := refused.Load(); text != nil {
				r.Values[args[len(args)-1]] = *text
			}
			return json.Marshal(r)
		}
		s := spec()
		s.GPUs = []string{w.gpu(0)}
		w.send(protocol.Command{LeaseID: "ls-a", Generation: 1, Want: protocol.WantRunning, Spec: s})
		w.reach("ls-a", 1, protocol.PhaseRunning)
		none := spec()
		w.send(protocol.Command{LeaseID: "ls-b", Generation: 1, Want: protocol.WantRunning, Spec: none})
		w.reach("ls-b", 1, protocol.PhaseRunning)
		fault := func() *protocol.GPUFault { s, _ := w.status("ls-a"); return s.GPUFault }
		settle := func(d time.Duration) { <-time.After(d) }
		settle(2 * time.Minute)
		if fault() != nil {
			t.Fatalf("a fault of GPUs that are well: %+v", fault())
		}
		// An instance that cannot be asked says nothing.
		hung := errors.New("no more processes can be started")
		answers.Store(&hung)
		settle(2 * time.Minute)
		if fault() != nil {
			t.Fatalf("an instance that cannot be asked is told as a fault: %+v", fault())
		}
		answers.Store(nil)

		text := "operation not permitted"
		refused.Store(&text)
		settle(time.Minute)
		if fault() == nil {
			t.Fatal("the loss is not reported after a minute")
		}
		if f := fault(); !strings.Contains(f.Reason, text) || f.Since.Nanos == 0 {
			t.Errorf("the report does not say what was found, and since when: %+v", f)
		}
		if s, _ := w.status("ls-b"); s.GPUFault != nil {
			t.Errorf("a lease without GPUs is told to have lost them: %+v", s.GPUFault)
		}

		// A new container has them again.
		w.send(protocol.Command{LeaseID: "ls-a", Generation: 2, Want: protocol.WantRunning, Spec: s})
		refused.Store(nil)
		w.reach("ls-a", 2, protocol.PhaseRunning)
		if fault() != nil {
			t.Errorf("the fault of the old container is told of the new one: %+v", fault())
		}
	})
}

// gpu is the UUID of one of the world's GPUs.
func (w *world) gpu(i int) string {
	w.t.Helper()
	list, err := w.cfg.GPUs.List(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return list[i].UUID
}

// The engine is real, and the GPUs are lists that stand for them: emptied behind
// the container's back as device rules are.
func TestDockerInstanceThatLosesItsSimulatedGPUsGetsThemBackByARestartWithItsDisk(t *testing.T) {
	w := dockerWorld(t, func(c *Config) { c.look = time.Second })
	image := busybox(t)
	w.until("the GPUs are known", func() bool { w.a.mu.Lock(); defer w.a.mu.Unlock(); return len(w.a.seen) == 2 })
	w.a.mu.Lock()
	uuid := w.a.seen[0].UUID
	w.a.mu.Unlock()
	s := spec()
	s.Image, s.GPUs, s.Simulated = image, []string{uuid}, true
	s.StartScript = "date >> /kept; wc -l < /kept; while :; do sleep 1; done"
	w.send(protocol.Command{LeaseID: "ls-lost", Generation: 1, Want: protocol.WantRunning, Spec: s})
	w.reach("ls-lost", 1, protocol.PhaseRunning)
	fault := func() *protocol.GPUFault { s, _ := w.status("ls-lost"); return s.GPUFault }

	lists, _ := filepath.Glob(filepath.Join(w.cfg.Dir, "simulated", "gpus-*.json"))
	if len(lists) != 1 {
		t.Fatalf("lists of simulated GPUs: %v", lists)
	}
	if err := os.Truncate(lists[0], 0); err != nil {
		t.Fatal(err)
	}
	w.until("the loss is reported", func() bool { return fault() != nil })

	w.send(protocol.Command{LeaseID: "ls-lost", Generation: 2, Want: protocol.WantRunning, Spec: s})
	w.reach("ls-lost", 2, protocol.PhaseRunning)
	w.until("the second start has printed", func() bool { return strings.Contains(w.logs("ls-lost"), "2") })
	out, err := w.a.driver.Exec(t.Context(), "ls-lost", []string{"instance", "probe", "gpus", protocol.InstanceGPUs})
	if err != nil || !strings.Contains(string(out), `"open"`) || fault() != nil {
		t.Errorf("after a restart the instance has no GPUs: %s %v %+v", out, err, fault())
	}
}

// nodes gives containers a device node in place of a GPU.
type nodes struct {
	uuid, path string
}

func (n nodes) List(context.Context) ([]protocol.GPU, error) {
	return []protocol.GPU{{UUID: n.uuid, Vendor: protocol.NVIDIA, Name: "a device node", VRAMMiB: 1024, Health: protocol.Health{State: protocol.Healthy}}}, nil
}

func (n nodes) Attach(context.Context, []string) (runtime.Attachment, error) {
	return runtime.Attachment{Devices: []string{n.path}}, nil
}
func (n nodes) Inside(context.Context, []string) ([]string, error) { return []string{n.path}, nil }
func (n nodes) Close() error                                       { return nil }

// What a reload of the host's service manager does: the container's device rules
// are written anew without a device that it has.
func TestDockerInstanceWhoseDeviceRulesAreRewrittenIsAHostFault(t *testing.T) {
	const device = "/dev/fuse"
	if _, err := os.Stat("/sys/fs/cgroup/devices"); err != nil {
		t.Skip("this machine has no cgroup v1 devices controller, whose rules a test can rewrite")
	}
	if err := probe.Usable(device); err != nil {
		t.Skipf("the device that stands for a GPU cannot be opened here: %v", err)
	}
	w := dockerWorld(t, func(c *Config) { c.look, c.GPUs = time.Second, nodes{"GPU-node", device} })
	s := spec()
	s.Image, s.GPUs = busybox(t), []string{"GPU-node"}
	w.send(protocol.Command{LeaseID: "ls-rules", Generation: 1, Want: protocol.WantRunning, Spec: s})
	w.reach("ls-rules", 1, protocol.PhaseRunning)
	out, err := w.a.driver.Exec(t.Context(), "ls-rules", []string{"instance", "probe", "gpus", device})
	if err != nil || !strings.Contains(string(out), `"open":["`+device) {
		t.Fatalf("the device cannot be opened inside to begin with: %s %v", out, err)
	}
	fault := func() *protocol.GPUFault { s, _ := w.status("ls-rules"); return s.GPUFault }

	rules, _ := filepath.Glob("/sys/fs/cgroup/devices/*/*/devices.deny")
	id := containerOf(t, "ls-rules")
	at := slices.IndexFunc(rules, func(p string) bool { return strings.Contains(p, id) })
	if at < 0 {
		t.Skipf("the container's device rules are not where they are looked for: %v", rules)
	}
	if err := os.WriteFile(rules[at], []byte("c 10:229 rwm"), 0o200); err != nil {
		t.Skipf("the container's device rules cannot be rewritten here: %v", err)
	}
	w.until("the loss is reported", func() bool { return fault() != nil })
	if !strings.Contains(fault().Reason, "operation not permitted") {
		t.Errorf("the reason is %q", fault().Reason)
	}

	w.send(protocol.Command{LeaseID: "ls-rules", Generation: 2, Want: protocol.WantRunning, Spec: s})
	w.reach("ls-rules", 2, protocol.PhaseRunning)
	out, err = w.a.driver.Exec(t.Context(), "ls-rules", []string{"instance", "probe", "gpus", device})
	if err != nil || !strings.Contains(string(out), `"open":["`+device) {
		t.Errorf("the device is not back after a restart: %s %v", out, err)
	}
}

func containerOf(t *testing.T, lease string) string {
	t.Helper()
	out, err := exec.Command("docker", "-H", os.Getenv("SUANLI_TEST_DOCKER"), "ps", "-q", "--no-trunc", "--filter", "label=suanli.lease="+lease).Output()
	if err != nil || len(out) == 0 {
		t.Skipf("the engine's command line does not say which container it is: %s %v", out, err)
	}
	return strings.TrimSpace(string(out))
}
