package fleet

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var (
	ada      = account.Principal{UserID: "us-ada", AccountID: "ac-ada", Role: account.Owner}
	eve      = account.Principal{UserID: "us-eve", AccountID: "ac-eve", Role: account.Owner}
	operator = account.Principal{UserID: "us-op", AccountID: "ac-op", Role: account.Owner, Operator: true}
)

// cloud is a fleet whose clocks a test moves.
type cloud struct {
	*Service
	t  testing.TB
	db *store.DB

	mu      sync.Mutex
	now     time.Time
	elapsed time.Duration
	serial  int
	seq     map[string]int64
	boot    map[string]time.Duration // Elapsed when the host was booted
	silent  []string
	faults  []GPUFault
}

func newCloud(t testing.TB, change ...func(*Config)) *cloud {
	t.Helper()
	return newCloudOn(t, storetest.Open(t, storetest.Address(t)), change...)
}

func newCloudOn(t testing.TB, db *store.DB, change ...func(*Config)) *cloud {
	t.Helper()
	c := &cloud{t: t, db: db, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), seq: map[string]int64{}, boot: map[string]time.Duration{}}
	c.Service = c.start(change...)
	if err := c.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// start makes a service on the cloud's database and clocks, as a restart does.
func (c *cloud) start(change ...func(*Config)) *Service {
	c.t.Helper()
	facts, err := catalog.Load("")
	if err != nil {
		c.t.Fatal(err)
	}
	cfg := Config{
		DB: c.db, Catalog: facts, AllowSimulated: true, Defaults: StandardDefaults(),
		Clock:   func() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now },
		Elapsed: func() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.elapsed },
		OnSilent: func(_ context.Context, hostID string, _ time.Time) error {
			c.silent = append(c.silent, hostID)
			return nil
		},
		OnGPUFault: func(_ context.Context, f GPUFault) { c.faults = append(c.faults, f) },
	}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// pass lets time pass, on all clocks.
func (c *cloud) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.elapsed += d
}

// beats lets n heartbeats pass in which only these hosts report.
func (c *cloud) beats(n int, hosts ...string) {
	c.t.Helper()
	for range 2 * n {
		c.pass(5 * time.Second)
		for _, id := range hosts {
			c.report(id, protocol.Report{Ready: true})
		}
		c.Silent(c.t.Context())
	}
}

// join enrols a host of ada's.
func (c *cloud) join(simulated bool) string {
	c.t.Helper()
	token, _, err := c.CreateJoinToken(c.t.Context(), ada, JoinToken{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.serial++
	reply, err := c.Enrol(c.t.Context(), c.request(token, c.serial, simulated), sign)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply.HostID
}

func (c *cloud) request(token string, key int, simulated bool) protocol.EnrolRequest {
	return protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: keyOf(key), Name: fmt.Sprintf("host%d", key), Version: protocol.Version, Build: "test", Simulated: simulated}
}

// keyOf is a public bus key of its own for each n.
func keyOf(n int) string {
	letters := strings.NewReplacer("0", "A", "1", "B", "2", "C", "3", "D", "4", "E", "5", "F", "6", "G", "7", "H", "8", "I", "9", "J")
	return "U" + letters.Replace(fmt.Sprintf("%055d", n))
}

func sign(_, hostID string) (string, error) { return "certificate of " + hostID, nil }

// report sends a report from a host's only session and returns the answer.
func (c *cloud) report(hostID string, r protocol.Report) protocol.ReportReply {
	c.t.Helper()
	c.mu.Lock()
	if r.Session == "" {
		r.Session = "first"
	}
	c.seq[hostID+r.Session]++
	r.Seq = c.seq[hostID+r.Session]
	r.Now = protocol.Instant{BootID: "boot", Nanos: int64(c.elapsed - c.boot[hostID])}
	at := c.now
	c.mu.Unlock()
	reply, err := c.Service.Report(c.t.Context(), hostID, r, at)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply
}

// machine is an inventory of n GPUs, all tested, that belongs to a host.
func (c *cloud) machine(hostID, gpuName string, vramMiB int64, n int) *protocol.Inventory {
	inv := &protocol.Inventory{
		Hostname: "host", Architecture: "amd64", CPUModel: "EPYC", CPUs: 8 * max(n, 1), MemoryMiB: 65536, DiskMiB: 1 << 20, Runtime: "docker 20.10.24",
		Isolation: []string{"runc"}, DiskQuota: "loop",
	}
	for i := range n {
		inv.GPUs = append(inv.GPUs, protocol.GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", hostID, i), Index: i, Vendor: protocol.NVIDIA, Name: gpuName, VRAMMiB: vramMiB, Driver: "550.54.15", MaxCUDA: "12.4",
			ComputeCapability: "8.9", PCIeGen: 4, PCIeWidth: 16, NUMANode: -1, Health: protocol.Health{State: protocol.Healthy},
		})
	}
	c.test(hostID, inv)
	return inv
}

// test puts a self-test that has just passed into an inventory.
func (c *cloud) test(hostID string, inv *protocol.Inventory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.elapsed += time.Millisecond
	c.now = c.now.Add(time.Millisecond)
	inv.SelfTest = protocol.SelfTest{
		RanAt: protocol.Instant{BootID: "boot", Nanos: int64(c.elapsed - c.boot[hostID])}, Passed: true, NetDownMbps: 900, NetUpMbps: 800, DiskReadMBps: 2000, DiskWriteMBps: 1000,
	}
}

// rtx4090s is a host of ada's with n free GPUs on offer.
func (c *cloud) rtx4090s(n int) (hostID string, inv *protocol.Inventory) {
	c.t.Helper()
	hostID = c.join(false)
	inv = c.machine(hostID, "NVIDIA GeForce RTX 4090", 24564, n)
	if r := c.report(hostID, protocol.Report{Ready: true, Inventory: inv}); !r.Accepted {
		c.t.Fatalf("report refused: %+v", r)
	}
	return hostID, inv
}

// offered counts the offers that an expression finds.
func (c *cloud) offered(expression string) int {
	c.t.Helper()
	offers, _, err := c.Search(c.t.Context(), Query{Expression: expression, Limit: 500})
	if err != nil {
		c.t.Fatal(err)
	}
	return len(offers)
}

// reserve takes GPUs for a lease, with a CPU and a GiB for each.
func (c *cloud) reserve(lease, hostID string, n int) (a Allocation, err error) {
	err = c.db.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
		a, err = c.Reserve(ctx, tx, Reservation{
			LeaseID: lease, HostID: hostID, GPUModel: "RTX 4090", GPUCount: n, CPUMillis: 1000 * int64(n), MemoryMiB: 1024 * int64(n), DiskGiB: 1,
		})
		return err
	})
	c.Refresh(context.Background(), hostID)
	return a, err
}

func (c *cloud) tx(hostID string, fn func(ctx context.Context, tx *store.Tx) error) error {
	err := c.db.Update(context.Background(), fn)
	c.Refresh(context.Background(), hostID)
	return err
}

func (c *cloud) view(hostID string) Host {
	c.t.Helper()
	h, err := c.Host(c.t.Context(), operator, hostID)
	if err != nil {
		c.t.Fatal(err)
	}
	return h
}

func protocolReport(inv *protocol.Inventory) protocol.Report {
	return protocol.Report{Ready: true, Inventory: inv}
}
