package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// selfTestPrefix begins the identifiers of the self-test's own instances; no
// lease has it, since leases begin with their kind.
const selfTestPrefix = "self-test-"

// The limits of the self-test's instance, and attempts well past each.
const (
	testDiskMiB   = 256
	testMemoryMiB = 128
	testPIDs      = 32
	sandboxPIDs   = 192 // gVisor's own kernel needs dozens of threads before anything runs in it
	testTimeout   = 3 * time.Minute
	speedBytes    = 64 << 20
	keptFile      = "/kept"
)

// tester is what the self-test needs of an engine beyond Driver.
type tester interface {
	BaseImage(ctx context.Context) (runtime.Image, error)
	Gateway(ctx context.Context, lease string) (string, error)
	Address(lease string) string
	Drops() uint64
	// OnDisk reports whether a file that an instance wrote is on its lease's disk.
	OnDisk(lease, path string) bool
}

// selfTester is an engine that tries its limits and isolation itself.
type selfTester interface {
	SelfTest(ctx context.Context) []protocol.Check
}

// forbidden are addresses of the kinds that a renter must not reach. That one does
// not answer proves little, so the rules' own counter of refused bytes is read too.
var forbidden = []string{"10.255.255.254:80", "172.16.255.254:80", "192.168.255.254:80", "100.100.100.200:80", "169.254.169.254:80"}

// trial collects the outcome.
type trial struct{ protocol.SelfTest }

func (t *trial) check(name string, passed bool, format string, args ...any) {
	t.Checks = append(t.Checks, protocol.Check{Name: name, Passed: passed, Detail: fmt.Sprintf(format, args...)})
}

func (t *trial) skip(name, why string) {
	t.Checks = append(t.Checks, protocol.Check{Name: name, Skipped: true, Detail: why})
}

// runSelfTest tries the host's limits and isolation, keeps the outcome and says
// whether it was good.
func (a *Agent) runSelfTest(ctx context.Context) (passed bool) {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	begin := time.Now()
	var t trial
	if engine, ok := a.driver.(tester); ok {
		if err := a.tryEngine(ctx, &t, engine); err != nil {
			t.check("engine", false, "%v", err)
		}
	} else if engine, ok := a.driver.(selfTester); ok {
		t.Checks = append(t.Checks, engine.SelfTest(ctx)...)
	} else {
		t.skip("engine", "the engine is simulated: nothing runs, so there are no limits to try")
	}
	a.tryNetwork(ctx, &t)
	tryClock(&t)
	if errors.Is(ctx.Err(), context.Canceled) {
		return false // the agent is going down; half a test says nothing
	}
	t.RanAt, t.Passed = a.cfg.clock(), true
	for _, c := range t.Checks {
		if !c.Passed && !c.Skipped {
			t.Passed = false
			a.log.Error("self-test failed", "check", c.Name, "detail", c.Detail)
		}
	}
	a.log.Info("the self-test is done", "passed", t.Passed, "seconds", time.Since(begin).Seconds())
	a.mu.Lock()
	a.selfTest, a.wantInv = t.SelfTest, true
	a.mu.Unlock()
	a.poke()
	return t.Passed
}

// selfTestPairs are the names of the instances of a self-test and of the one after it. They
// take turns: an engine that was killed in the middle of one may keep what it does not
// list, such as a bridge, and refuses another of that name. They are few, so that the next
// test finds and removes what is left of any.
func selfTestPairs(hostID string) [2][2]string {
	sum := sha256.Sum256([]byte(hostID))
	id := func(which string) string { return fmt.Sprintf("%s%x-%s", selfTestPrefix, sum[:5], which) }
	return [2][2]string{{id("a"), id("b")}, {id("c"), id("d")}}
}

// tryEngine runs two instances side by side, as two renters' would, and lets the
// first try to get past every limit.
func (a *Agent) tryEngine(ctx context.Context, t *trial, engine tester) error {
	pairs := selfTestPairs(a.cfg.HostID)
	pair := pairs[(a.selfTests.Add(1)-1)%2]
	mine, neighbour := pair[0], pair[1]
	erase := func() error {
		var errs []error
		for _, id := range slices.Concat(pairs[0][:], pairs[1][:]) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
			errs = append(errs, a.driver.Stop(ctx, id, 0), a.driver.Erase(ctx, id), removeEmpty(a.leaseDir(id)))
			cancel()
		}
		return errors.Join(errs...)
	}
	if err := erase(); err != nil { // of an earlier test that was killed
		return err
	}
	defer func() {
		if err := erase(); err != nil {
			t.check("cleanup", false, "the self-test's instances could not be removed: %v", err)
		}
	}()
	image, err := engine.BaseImage(ctx)
	if err != nil {
		return err
	}
	gpus, err := a.gpus.List(ctx)
	if err != nil {
		t.check("gpus", false, "GPUs cannot be read: %v", err)
	}
	free := a.freeGPUs(gpus)
	attach, err := a.gpus.Attach(ctx, free)
	if err != nil {
		return err
	}

	// The neighbour has no GPU and a published port.
	published, err := freePort()
	if err != nil {
		return err
	}
	const inside = 8080
	if err := a.testInstance(ctx, neighbour, image, runtime.Attachment{}, map[int]int{inside: published}, "look", "--", "listen", strconv.Itoa(inside), "170"); err != nil {
		return err
	}
	control, err := a.waitDial(ctx, neighbour, inside)
	if err != nil {
		return fmt.Errorf("the neighbour's port does not answer the host itself: %w", err)
	}
	_ = control.Close()

	// The host listens on all its addresses.
	host, err := net.Listen("tcp", ":0")
	if err != nil {
		return err
	}
	defer host.Close()
	go func() {
		for {
			c, err := host.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	port := strconv.Itoa(host.Addr().(*net.TCPAddr).Port)
	gateway, err := engine.Gateway(ctx, neighbour)
	if err != nil {
		return err
	}
	groups := map[string][]string{
		"private_ranges":      forbidden[:4],
		"metadata_address":    forbidden[4:],
		"host_address":        {net.JoinHostPort(gateway, port)},
		"neighbour_direct":    {net.JoinHostPort(engine.Address(neighbour), strconv.Itoa(inside))},
		"neighbour_published": {net.JoinHostPort(gateway, strconv.Itoa(published))},
	}
	for _, ip := range hostAddresses() {
		groups["host_address"] = append(groups["host_address"], net.JoinHostPort(ip, port))
		groups["neighbour_published"] = append(groups["neighbour_published"], net.JoinHostPort(ip, strconv.Itoa(published)))
	}
	args := []string{"look", "--", "speed", "/speed", strconv.Itoa(speedBytes), "--", "reach"}
	for _, g := range groups {
		args = append(args, g...)
	}
	args = append(args, "--", "keep", keptFile, "--", "disk", "/full", strconv.Itoa(2*testDiskMiB<<20))
	sandboxed, err := a.sandboxed(ctx)
	if err != nil {
		return err
	}
	fork := []string{"processes", strconv.Itoa(4 * testPIDs)}
	if !sandboxed {
		args = append(append(args, "--"), fork...)
	}
	args = append(args, "--", "memory", strconv.Itoa(2*testMemoryMiB<<20))

	dropsBefore := engine.Drops()
	if err := a.testInstance(ctx, mine, image, attach, nil, args...); err != nil {
		return err
	}
	state, err := a.waitEnd(ctx, mine)
	if err != nil {
		return err
	}
	t.check("engine", true, "an instance started and ended")
	found, err := a.probeResults(ctx, mine)
	if err != nil {
		return err
	}
	if engine.OnDisk(mine, keptFile) {
		t.check("disk_kept", true, "what an instance wrote is on its disk")
	} else {
		t.check("disk_kept", false, "what an instance wrote is not on its disk, and a stop would lose it; of gVisor, give runsc the argument --overlay2=none in the engine's configuration")
	}

	if r, ok := found["disk"]; ok {
		t.check("disk_quota", r.Stopped && r.Reached <= testDiskMiB<<20, "wrote %d MiB of %d onto a disk of %d MiB: %s", r.Reached>>20, 2*testDiskMiB, testDiskMiB, r.Detail)
	} else {
		t.check("disk_quota", false, "the probe said nothing")
	}
	if sandboxed {
		if err := a.tryBomb(ctx, t, mine, image); err != nil {
			return err
		}
	} else if r, ok := found["processes"]; ok {
		t.check("process_limit", r.Stopped && r.Reached < testPIDs, "started %d processes under a limit of %d: %s", r.Reached, testPIDs, r.Detail)
	} else {
		t.check("process_limit", false, "the probe said nothing")
	}
	_, survived := found["memory"]
	t.check("memory_limit", !survived && (state.OOMKilled || state.ExitCode == 137), "asked for %d MiB under a limit of %d MiB: killed %t, exit code %d", 2*testMemoryMiB, testMemoryMiB, state.OOMKilled, state.ExitCode)
	drops := engine.Drops() - dropsBefore
	for name, addresses := range groups {
		r, ok := found["reach"]
		var open []string
		for _, addr := range addresses {
			if slices.Contains(r.Open, addr) {
				open = append(open, addr)
			}
		}
		t.check(name, ok && len(open) == 0, "tried %s; reached: %s", strings.Join(addresses, ", "), firstOf(strings.Join(open, ", "), "none"))
	}
	t.check("firewall_counts", drops > 0, "the rules refused %d bytes meanwhile", drops)
	slices.SortFunc(t.Checks, func(x, y protocol.Check) int { return strings.Compare(x.Name, y.Name) })
	if r, ok := found["speed"]; ok && r.WriteMBps > 0 {
		t.DiskReadMBps, t.DiskWriteMBps = r.ReadMBps, r.WriteMBps
		t.check("disk_speed", true, "%d MB/s read, %d MB/s written", r.ReadMBps, r.WriteMBps)
	} else {
		t.check("disk_speed", false, "the probe said nothing: %s", r.Detail)
	}
	a.judgeLook(ctx, t, found["look"], sandboxed, gpus, free, neighbour)
	return nil
}

// sandboxed reports whether instances run under gVisor.
func (a *Agent) sandboxed(ctx context.Context) (bool, error) {
	name := a.cfg.Isolation
	if name == "" {
		info, err := a.driver.Info(ctx)
		if err != nil {
			return false, err
		}
		name = info.Isolation[0]
	}
	return strings.Contains(name, "runsc"), nil
}

// tryBomb starts more processes than the limit under gVisor. It counts the threads
// of the sandbox, and gVisor gives up when one is refused: the instance ends.
func (a *Agent) tryBomb(ctx context.Context, t *trial, id string, image runtime.Image) error {
	if err := errors.Join(a.driver.Stop(ctx, id, 0), a.driver.Erase(ctx, id)); err != nil {
		return err
	}
	if err := a.testInstance(ctx, id, image, runtime.Attachment{}, nil, "look", "--", "processes", strconv.Itoa(2*sandboxPIDs)); err != nil {
		return err
	}
	state, err := a.waitEnd(ctx, id)
	if err != nil {
		return err
	}
	found, err := a.probeResults(ctx, id)
	if err != nil {
		return err
	}
	r, survived := found["processes"]
	t.check("process_limit", survived && r.Stopped && r.Reached < sandboxPIDs || !survived && state.ExitCode != 0,
		"started %d of %d processes under a limit of %d; ended by it: %t", r.Reached, 2*sandboxPIDs, sandboxPIDs, !survived)
	return nil
}

// judgeLook compares what the instances saw of privileges and GPUs with what they
// were to see.
func (a *Agent) judgeLook(ctx context.Context, t *trial, mine probe.Result, sandboxed bool, gpus []protocol.GPU, given []string, neighbour string) {
	// gVisor filters the calls of its own kernel, of which the instance sees nothing.
	filtered := mine.Values["NoNewPrivs"] == "1" && mine.Values["Seccomp"] == "2" || sandboxed
	t.check("privileges", filtered && withoutCapability(mine.Values["CapBnd"], unix.CAP_NET_RAW, unix.CAP_SYS_ADMIN, unix.CAP_SYS_PTRACE, unix.CAP_SYS_MODULE, unix.CAP_NET_ADMIN, unix.CAP_MKNOD),
		"no_new_privs %s, seccomp %s, capabilities %s", mine.Values["NoNewPrivs"], mine.Values["Seccomp"], mine.Values["CapBnd"])
	t.check("system_calls", mine.Probe != "" && mine.Values["socket families"] == "" && mine.Values["io_uring"] == "refused",
		"socket families open beyond the usual: %s; io_uring: %s", firstOf(mine.Values["socket families"], "none"), firstOf(mine.Values["io_uring"], "open"))
	other, err := a.probeResults(ctx, neighbour)
	if err != nil {
		t.check("gpu_environment", false, "%v", err)
		return
	}
	look := other["look"]
	t.check("gpu_environment", look.Values["env NVIDIA_VISIBLE_DEVICES"] == "void" && len(look.Open) == 0 && !strings.Contains(look.Values["devices"], "nvidia") && !strings.Contains(look.Values["devices"], "kfd"),
		"an image that asks for all GPUs, in a lease without: NVIDIA_VISIBLE_DEVICES=%s, devices %q", look.Values["env NVIDIA_VISIBLE_DEVICES"], look.Values["devices"])
	if len(gpus) == 0 {
		t.skip("gpus", "the host has no GPU")
		return
	}
	if len(given) == 0 {
		t.skip("gpus", "every GPU is in a lease or withdrawn")
		return
	}
	var working, missing []string
	for _, g := range gpus {
		if !slices.Contains(given, g.UUID) {
			continue
		}
		seen := slices.Contains(mine.Open, g.UUID)
		switch {
		case g.Simulated:
			seen = strings.Contains(mine.Values["nvidia-smi"], g.UUID)
		case g.Vendor == protocol.AMD:
			seen = strings.Contains(mine.Values["devices"], "kfd")
		}
		if seen {
			working = append(working, g.UUID)
		} else {
			missing = append(missing, g.UUID)
		}
	}
	t.check("gpus", len(missing) == 0, "%d of %d GPUs seen inside by UUID; missing: %s", len(working), len(given), firstOf(strings.Join(missing, ", "), "none"))
	a.unfence(working)
}

// withoutCapability reports whether a hexadecimal capability set lacks all of caps.
func withoutCapability(set string, caps ...int) bool {
	v, err := strconv.ParseUint(set, 16, 64)
	if err != nil {
		return false
	}
	for _, c := range caps {
		if v&(1<<c) != 0 {
			return false
		}
	}
	return true
}

// freeGPUs are those that no lease holds. Fenced ones are among them: this is
// their probe.
func (a *Agent) freeGPUs(gpus []protocol.GPU) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	held := map[string]bool{}
	for _, l := range a.leases {
		for _, u := range l.rec.GPUs {
			held[u] = true
		}
	}
	var free []string
	for _, g := range gpus {
		if !held[g.UUID] {
			free = append(free, g.UUID)
		}
	}
	return free
}

// pids is the process limit of the self-test's instances.
func (a *Agent) pids(ctx context.Context) (int64, error) {
	sandboxed, err := a.sandboxed(ctx)
	if sandboxed {
		return sandboxPIDs, err
	}
	return testPIDs, err
}

func (a *Agent) testInstance(ctx context.Context, id string, image runtime.Image, attach runtime.Attachment, ports map[int]int, args ...string) error {
	pids, err := a.pids(ctx)
	if err != nil {
		return err
	}
	err = a.driver.Create(ctx, runtime.Container{
		LeaseID: id, Generation: 1, Image: image, GPUs: attach,
		Entrypoint: append([]string{protocol.InstanceBinary, "instance", "probe"}, args...),
		Settings:   protocol.InstanceSettings{LeaseID: id, Generation: 1},
		CPUMillis:  1000, MemoryMiB: testMemoryMiB, DiskMiB: testDiskMiB, PIDs: pids, ShmMiB: 8, DirectPorts: ports,
		Isolation: a.cfg.Isolation,
	})
	if err != nil {
		return err
	}
	return a.driver.Start(ctx, id)
}

func (a *Agent) waitEnd(ctx context.Context, id string) (runtime.State, error) {
	for {
		s, err := a.driver.Inspect(ctx, id)
		if err != nil || !s.Running {
			return s, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return s, fmt.Errorf("the self-test's instance did not end in time: %w", ctx.Err())
		}
	}
}

func (a *Agent) waitDial(ctx context.Context, id string, port int) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := a.driver.Dial(ctx, id, port)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// probeResults reads what an instance's probes printed, by probe.
func (a *Agent) probeResults(ctx context.Context, id string) (map[string]probe.Result, error) {
	var out bytes.Buffer
	if err := a.driver.Logs(ctx, id, protocol.LogOptions{}, &out); err != nil {
		return nil, err
	}
	found := map[string]probe.Result{}
	for line := range strings.Lines(out.String()) {
		var r probe.Result
		if json.Unmarshal([]byte(line), &r) == nil && r.Probe != "" {
			found[r.Probe] = r
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the self-test's instance printed nothing of use: %q", out.String())
	}
	return found, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tryNetwork measures the line to the control plane through the tunnel that
// renters' traffic takes.
func (a *Agent) tryNetwork(ctx context.Context, t *trial) {
	var s Streams
	for range 50 {
		if s = a.conn.streams(); s != nil {
			break
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	if s == nil {
		t.skip("network_speed", "the control plane was not connected")
		return
	}
	down, err := speedOf(s, speedBytes)
	if err == nil {
		t.NetDownMbps = down
		t.NetUpMbps, err = speedOf(s, 0)
	}
	if err != nil {
		t.skip("network_speed", "the control plane did not serve the measurement: "+err.Error())
		return
	}
	t.check("network_speed", true, "%d Mbit/s down, %d Mbit/s up", t.NetDownMbps, t.NetUpMbps)
}

// speedOf measures one direction for at most three seconds, in Mbit/s: down for
// bytes > 0, else up.
func speedOf(s Streams, bytes int64) (int64, error) {
	c, err := s.Open(protocol.StreamHeader{Kind: protocol.StreamSpeed, Bytes: bytes})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	begin := time.Now()
	_ = c.SetDeadline(begin.Add(3 * time.Second))
	var n int64
	if bytes > 0 {
		n, err = io.CopyN(io.Discard, c, bytes)
	} else {
		n, err = io.CopyN(c, protocol.Zeros{}, speedBytes)
	}
	if n == 0 {
		return 0, firstError(err, errors.New("not a byte came through"))
	}
	return n * 8 * int64(time.Second) / max(int64(time.Since(begin)), 1) / 1_000_000, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tryClock says whether the host keeps its clock by itself. How far it is off is
// seen by the control plane, from the reports; nothing depends on it but logs.
func tryClock(t *trial) {
	var tx unix.Timex
	state, err := unix.Adjtimex(&tx)
	switch {
	case err != nil:
		t.skip("clock", "the kernel does not say whether the clock is kept: "+err.Error())
	case state == unix.TIME_ERROR:
		t.skip("clock", "no time service keeps this host's clock; install one so that its logs can be compared")
	default:
		t.check("clock", true, "the clock is kept, within %d ms", tx.Maxerror/1000)
	}
}

// removeEmpty removes a folder with nothing in it; the engine's files are gone.
func removeEmpty(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
