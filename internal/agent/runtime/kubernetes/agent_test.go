package kubernetes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"suanli.dev/internal/agent"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// control is a control plane that commands one agent and keeps its last report.
type control struct {
	mu       sync.Mutex
	last     protocol.Report
	commands func(context.Context, []byte) (any, error)
}

func (c *control) Request(_ context.Context, _ string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.last.Inventory
	c.last = protocol.Report{}
	if err := json.Unmarshal(b, &c.last); err != nil {
		return err
	}
	if c.last.Inventory == nil {
		c.last.Inventory = was
	}
	reply, ok := out.(*protocol.ReportReply)
	if !ok {
		return errors.New("a question that is no report")
	}
	*reply = protocol.ReportReply{Accepted: true, NextInSeconds: 1}
	return nil
}

func (c *control) Handle(_ string, fn func(context.Context, []byte) (any, error)) (func(), error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commands = fn
	return func() {}, nil
}

func (c *control) report() protocol.Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *control) status(id string) protocol.InstanceStatus {
	for _, s := range c.report().Instances {
		if s.LeaseID == id {
			return s
		}
	}
	return protocol.InstanceStatus{}
}

func (c *control) send(t *testing.T, command protocol.Command) {
	t.Helper()
	b, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, time.Minute, "the command is taken", func() bool {
		c.mu.Lock()
		fn := c.commands
		c.mu.Unlock()
		if fn == nil {
			return false
		}
		v, err := fn(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := v.(protocol.CommandResult)
		return ok && r.Accepted
	})
}

// runAgent runs an agent on a cluster until the returned function is called; the pods
// run on.
func runAgent(t *testing.T, c *cluster, on *control, dir string) (stop func()) {
	t.Helper()
	d := c.driver(t)
	d.cfg.lookUp = func(_ context.Context, r runtime.PullRequest) (runtime.Image, error) {
		return runtime.Image{ID: r.Reference}, nil
	}
	a, err := agent.New(agent.Config{Dir: dir, HostID: d.cfg.HostID, Bus: on, Driver: d, GPUs: d.GPUs(), SkipSelfTest: true, StopGrace: 2 * time.Second, CleanWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the key of what the folder has, which is kept in memory
		sum := sha256.Sum256([]byte(dir))
		for _, memory := range []string{"/run", "/dev/shm"} {
			_ = os.Remove(filepath.Join(memory, "suanli-"+hex.EncodeToString(sum[:8])+".key"))
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Run(ctx)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

// agentKeepsLeases is the agent's own part: what a cluster does to pods is what its
// reports say of leases.
func agentKeepsLeases(t *testing.T, c *cluster) {
	on := &control{}
	stop := runAgent(t, c, on, t.TempDir())
	eventuallyIn(t, time.Minute, "an inventory of the cluster", func() bool {
		inv := on.report().Inventory
		return inv != nil && len(inv.GPUs) == 16 && inv.CPUs == 128
	})
	inv := on.report().Inventory
	if !strings.HasPrefix(inv.Runtime, "kubernetes 1.") || inv.GPUs[0].Machine == "" || inv.Simulated {
		t.Fatalf("%+v", inv)
	}
	spec := &protocol.InstanceSpec{Image: "registry.test/app@sha256:" + strings.Repeat("0", 64), GPUs: []string{inv.GPUs[0].UUID, inv.GPUs[1].UUID}, CPUMillis: 1000, MemoryMiB: 1024, DiskMiB: 2048, PIDs: 512, ShmMiB: 64}
	for _, id := range []string{"ls-a", "ls-b"} {
		s := *spec
		if id == "ls-b" {
			s.GPUs = []string{inv.GPUs[8].UUID}
		}
		on.send(t, protocol.Command{LeaseID: id, Generation: 4, Want: protocol.WantRunning, Spec: &s})
		eventuallyIn(t, time.Minute, id+" runs", func() bool { return on.status(id).Phase == protocol.PhaseRunning })
	}

	// The folder is lost with the pod of the agent: labels are all that is left.
	stop()
	uid := c.pod(t, "ls-a").UID
	*on = control{}
	runAgent(t, c, on, t.TempDir())
	eventuallyIn(t, time.Minute, "both are adopted", func() bool {
		a, b := on.status("ls-a"), on.status("ls-b")
		return on.report().Ready && a.Phase == protocol.PhaseRunning && a.Generation == 4 && b.Phase == protocol.PhaseRunning
	})
	if c.pod(t, "ls-a").UID != uid {
		t.Fatal("the pod was made anew")
	}

	c.end(t.Context(), c.pod(t, "ls-a"), 137, "Evicted", "The node was low on resource: memory. ")
	eventuallyIn(t, time.Minute, "an eviction is reported", func() bool {
		s := on.status("ls-a")
		return s.Phase == protocol.PhaseStopped && s.Code == "engine" && strings.Contains(s.Reason, "low on resource: memory")
	})
	if err := c.admin.CoreV1().Pods("suanli-leases").Delete(t.Context(), podName("ls-b"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, time.Minute, "a pod that somebody deleted is reported", func() bool {
		s := on.status("ls-b")
		return s.Phase == protocol.PhaseStopped && s.Code == "engine" && strings.Contains(s.Reason, "outside suanli")
	})
	for _, id := range []string{"ls-a", "ls-b"} {
		on.send(t, protocol.Command{LeaseID: id, Generation: 5, Want: protocol.WantAbsent})
		eventuallyIn(t, time.Minute, id+" has left", func() bool { return on.status(id).Phase == protocol.PhaseAbsent })
	}
	c.leftovers(t)

	// A cordoned node takes nobody new.
	n, err := c.admin.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	n.Spec.Unschedulable = true
	if _, err := c.admin.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventuallyIn(t, time.Minute, "its GPUs are withdrawn", func() bool {
		inv := on.report().Inventory
		return inv != nil && healthy(inv.GPUs) == 8 && !slices.ContainsFunc(inv.GPUs, func(g protocol.GPU) bool { return g.Machine == "n1" && g.Health.State == protocol.Healthy })
	})
}
