package agent

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// elsewhere is an engine whose instances run on other machines than the agent's.
type elsewhere struct{ *runtime.Sim }

func (e elsewhere) Info(ctx context.Context) (runtime.Info, error) {
	info, err := e.Sim.Info(ctx)
	info.Name, info.Machine = "kubernetes 1.37.2", &runtime.Machine{Hostname: "leases", CPUs: 512, MemoryMiB: 1 << 21, Architecture: "amd64"}
	return info, err
}

func (e elsewhere) SelfTest(context.Context) []protocol.Check {
	return []protocol.Check{{Name: "neighbour_direct", Detail: "reached"}}
}

func TestAHostThatIsAClusterShowsTheClusterAndNotTheAgentsMachine(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Dir: t.TempDir(), HostID: "h", Driver: elsewhere{runtime.NewSim(1 << 20)}, GPUs: noGPUs{}, keyFolders: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if a.info, err = a.driver.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	inv := a.inventory()
	if inv.CPUs != 512 || inv.MemoryMiB != 1<<21 || inv.Hostname != "leases" || len(inv.Addresses) != 0 || inv.Simulated {
		t.Fatalf("%+v", inv)
	}
}

func TestAnEngineThatTestsItselfDecidesWhetherTheHostPassed(t *testing.T) {
	t.Parallel()
	a, err := New(Config{Dir: t.TempDir(), HostID: "h", Driver: elsewhere{runtime.NewSim(1 << 20)}, GPUs: noGPUs{}, keyFolders: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	a.conn.set(&Connection{Streams: noStreams{}})
	if a.runSelfTest(t.Context()) {
		t.Fatal("a host whose engine found a neighbour open passed its self-test")
	}
	if i := slices.IndexFunc(a.selfTest.Checks, func(c protocol.Check) bool { return c.Name == "neighbour_direct" }); i < 0 || a.selfTest.Passed {
		t.Fatalf("%+v", a.selfTest)
	}
}

func TestAnInstanceThatItsEngineEndedSaysSo(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	w.send(want("ls-a", 1, protocol.WantRunning))
	w.reach("ls-a", 1, protocol.PhaseRunning)
	sim.Evict("ls-a", "disk_full", "the node evicted the instance")
	s := w.reach("ls-a", 1, protocol.PhaseStopped)
	if s.Code != "disk_full" || s.Reason != "the node evicted the instance" || s.ExitCode != nil {
		t.Fatalf("status: %+v", s)
	}
}

type noStreams struct{}

func (noStreams) Accept() (net.Conn, error) { return nil, errors.New("closed") }
func (noStreams) Open(protocol.StreamHeader) (net.Conn, error) {
	return nil, errors.New("closed")
}

type noGPUs struct{}

func (noGPUs) List(context.Context) ([]protocol.GPU, error) { return nil, nil }
func (noGPUs) Attach(context.Context, []string) (runtime.Attachment, error) {
	return runtime.Attachment{}, nil
}
func (noGPUs) Inside(context.Context, []string) ([]string, error) { return nil, nil }
func (noGPUs) Close() error                                       { return nil }
