package market_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/market"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// beat is how often hosts report and rounds are looked for.
const beat = 5 * time.Second

// world is a control plane of the real services with simulated hosts, and a clock
// that a test moves.
type world struct {
	*market.Service
	t   *testing.T
	ctx context.Context
	db  *store.DB

	accounts *account.Service
	fleet    *fleet.Service
	billing  *billing.Service
	books    *ledger.Ledger
	leases   *lease.Service
	facts    *catalog.Catalog
	operator account.Principal

	mu      sync.Mutex
	now     time.Time
	elapsed time.Duration
	hosts   []*host
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, storetest.Open(t, storetest.Address(t)))
}

func newWorldOn(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), db: db, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	w.open(true)
	_, err := w.accounts.Bootstrap(w.ctx, "operator@example.com", "correct horse battery")
	w.check(err)
	w.operator, err = w.accounts.FirstOperator(w.ctx)
	w.check(err)
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// clock goes on by a microsecond with each look, so that nothing happens at the
// very moment of something else.
func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(time.Microsecond)
	return w.now
}

// open makes the services on the world's database, as a start of the process does.
func (w *world) open(first bool) {
	w.t.Helper()
	var err error
	if w.facts, err = catalog.Load(""); err != nil {
		w.t.Fatal(err)
	}
	secret := bytes.Repeat([]byte{7}, 32)
	w.accounts, err = account.New(account.Config{DB: w.db, Clock: w.clock, Secret: secret, PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}})
	w.check(err)
	w.books, err = ledger.New(w.db, w.clock)
	w.check(err)
	terms := fleet.StandardDefaults()
	terms.PerGPUHour["RTX 4090"] = rate(w.t, "1")
	w.fleet, err = fleet.New(fleet.Config{
		DB: w.db, Catalog: w.facts, Clock: w.clock, AllowSimulated: true, Defaults: terms,
		Elapsed: func() time.Duration { w.mu.Lock(); defer w.mu.Unlock(); return w.elapsed },
		OnReport: func(ctx context.Context, id string, r protocol.Report, at time.Time) ([]protocol.Desired, bool, int64, error) {
			return w.leases.OnReport(ctx, id, r, at)
		},
		SpotHolds: func(ctx context.Context, tx *store.Tx, id string) (map[string]fleet.SpotHold, error) {
			return w.Holds(ctx, tx, id)
		},
		OnSilent: func(ctx context.Context, id string, seen time.Time) error { return w.leases.OnSilent(ctx, id, seen) },
	})
	w.check(err)
	w.billing, err = billing.New(billing.Config{DB: w.db, Clock: w.clock, Ledger: w.books,
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.USD, nil },
		OnExhausted: func(ctx context.Context, _, id string, r billing.Reason) {
			w.check(w.leases.Exhaust(ctx, id, string(r), r == billing.ReasonGraceOver))
		},
	})
	w.check(err)
	vault, err := account.NewVault(secret)
	w.check(err)
	w.leases, err = lease.New(lease.Config{DB: w.db, Clock: w.clock, Catalog: w.facts, Capacity: w.fleet, Money: w.billing, Tenants: w.accounts, Vault: vault,
		Tick: 5 * time.Millisecond,
		Command: func(_ context.Context, id string, c protocol.Command) (protocol.CommandResult, error) {
			return w.host(id).command(c), nil
		}})
	w.check(err)
	w.Service = w.replica()
	if first {
		for _, m := range []interface{ Migrate(context.Context) error }{w.accounts, w.books, w.fleet, w.billing, w.leases, w.Service} {
			w.check(m.Migrate(w.ctx))
		}
	}
	w.check(w.fleet.Load(w.ctx))
	w.check(w.leases.Load(w.ctx))
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = w.leases.Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-ended })
}

// replica is another market on the same services.
func (w *world) replica(change ...func(*market.Config)) *market.Service {
	w.t.Helper()
	c := market.Config{DB: w.db, Clock: w.clock, Supply: w.fleet, Leases: w.leases, Money: w.billing, Currency: money.USD, Audit: w.accounts.Audit,
		Account: func(context.Context, string) (money.Currency, string, error) { return money.USD, "UTC", nil }}
	for _, f := range change {
		f(&c)
	}
	s, err := market.New(c)
	w.check(err)
	return s
}

func (w *world) tenant(name, deposit string) account.Principal {
	w.t.Helper()
	a, u, err := w.accounts.CreateAccount(w.ctx, w.operator, account.CreateAccount{Name: name, Email: name + "@example.com", Password: "correct horse battery"})
	w.check(err)
	amount, err := money.ParseAmount(deposit)
	w.check(err)
	if amount > 0 {
		_, err = w.billing.Deposit(w.ctx, w.operator, a.ID, amount, "wire", "")
		w.check(err)
	}
	return account.Principal{UserID: u.ID, AccountID: a.ID, Role: account.Owner}
}

// join adds a host with n simulated GPUs and a floor.
func (w *world) join(n int, floor string) *host {
	w.t.Helper()
	token, _, err := w.fleet.CreateJoinToken(w.ctx, w.operator, fleet.JoinToken{})
	w.check(err)
	number := len(w.hosts) + 1
	key := "U" + strings.Map(func(r rune) rune { return r - '0' + 'A' }, fmt.Sprintf("%055d", number))
	reply, err := w.fleet.Enrol(w.ctx, protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: key, Name: fmt.Sprint("host", number), Version: protocol.Version, Build: "test", Simulated: true},
		func(_, id string) (string, error) { return "certificate of " + id, nil })
	w.check(err)
	h := &host{id: reply.HostID, clock: w.clock, booted: w.clock().Add(-time.Hour), instances: map[string]*instance{}}
	for i := range n {
		h.gpus = append(h.gpus, protocol.GPU{UUID: fmt.Sprintf("GPU-%s-%d", h.id, i), Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090",
			VRAMMiB: 24564, Driver: "550.54.15", MaxCUDA: "12.4", ComputeCapability: "8.9", NUMANode: -1, Simulated: true, Health: protocol.Health{State: protocol.Healthy}})
	}
	w.mu.Lock()
	w.hosts = append(w.hosts, h)
	w.mu.Unlock()
	w.report(h)
	_, err = w.fleet.SetListing(w.ctx, w.operator, h.id, fleet.ListingChange{SpotFloorPerGPUHour: map[string]money.Rate{"RTX 4090": rate(w.t, floor)}})
	w.check(err)
	return h
}

func (w *world) host(id string) *host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts[slices.IndexFunc(w.hosts, func(h *host) bool { return h.id == id })]
}

func (w *world) report(h *host) {
	w.t.Helper()
	h.mu.Lock()
	dark := h.dark
	h.mu.Unlock()
	if dark {
		return
	}
	reply, err := w.fleet.Report(w.ctx, h.id, h.report(), w.clock())
	w.check(err)
	if reply.SendInventory {
		h.mu.Lock()
		h.told = false
		h.mu.Unlock()
	}
}

// turn lets hosts work and report, and the market hold what rounds are due, until
// that leads to nothing new.
func (w *world) turn() {
	w.t.Helper()
	for range 2 {
		w.Wake() // as news of leases do
		w.check(w.Turn(w.ctx))
		w.settleLeases()
		for _, h := range w.hosts {
			h.work()
			w.report(h)
		}
	}
	w.Wake()
	w.check(w.Turn(w.ctx))
}

// settleLeases waits until every host was told what its leases want.
func (w *world) settleLeases() {
	w.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		waiting := 0
		w.check(w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
			rows, err := tx.Query(ctx, `SELECT id, host_id, generation, state FROM lease WHERE state IN ('provisioning','starting','stopping','ending') OR (state='accepted' AND NOT EXISTS (SELECT 1 FROM fleet_claims c JOIN fleet_allocations a ON a.gpu_uuid=c.gpu_uuid WHERE c.lease_id=lease.id))`)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id, hostID, state string
				var generation int64
				if err := rows.Scan(&id, &hostID, &generation, &state); err != nil {
					return err
				}
				if h := w.host(hostID); !h.knows(id, generation) || state == "accepted" {
					waiting++
				}
			}
			return rows.Err()
		}))
		if waiting == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after 10 s, hosts have not been told of %d leases", waiting)
		}
		<-tick.C
	}
}

// pass lets time pass in which everybody does their part.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for range max(1, int(d/beat)) {
		w.mu.Lock()
		w.now = w.now.Add(beat)
		w.elapsed += beat
		w.mu.Unlock()
		w.turn()
		w.fleet.Silent(w.ctx)
	}
}

// bid places a bid for GPUs.
func (w *world) bid(p account.Principal, gpus int, bid string, change ...func(*market.Create)) string {
	w.t.Helper()
	c := market.Create{Model: "RTX 4090", GPUs: gpus, Price: price(w.t, bid), Wish: lease.SpotWish{Image: "debian:12", DiskGiB: 10}}
	for _, f := range change {
		f(&c)
	}
	b, err := w.Create(w.ctx, p, c)
	w.check(err)
	return b.ID
}

func (w *world) get(id string) *market.Bid {
	w.t.Helper()
	b, err := w.Get(w.ctx, w.operator, id)
	w.check(err)
	return b
}

func (w *world) lease(bidID string) *lease.Lease {
	w.t.Helper()
	b := w.get(bidID)
	if b.LeaseID == "" {
		w.t.Fatalf("bid %s is %s (%s: %s) and has no lease", b.ID, b.State, b.Code, b.Message)
	}
	l, err := w.leases.Get(w.ctx, w.operator, b.LeaseID)
	w.check(err)
	return l
}

// want fails unless a bid is in a state, and its lease, if one is named.
func (w *world) want(id string, s market.State, leaseState lease.State) {
	w.t.Helper()
	b := w.get(id)
	if b.State != s {
		w.t.Fatalf("bid %s is %s (%s: %s), want %s", id, b.State, b.Code, b.Message, s)
	}
	if leaseState == "" {
		if b.LeaseID != "" {
			w.t.Fatalf("bid %s has lease %s, want none", id, b.LeaseID)
		}
		return
	}
	if l := w.lease(id); l.State != leaseState {
		w.t.Fatalf("bid %s is %s and its lease is %s (%s: %s), want %s", id, s, l.State, l.Code, l.Message, leaseState)
	}
}

// compute is what a lease's running has cost so far.
func (w *world) compute(leaseID string) money.Amount {
	w.t.Helper()
	b, err := w.billing.Due(w.ctx, leaseID, w.clock())
	w.check(err)
	var sum money.Amount
	for _, l := range b.Lines {
		if l.Meter == pricing.Compute {
			sum += l.Amount
		}
	}
	return sum
}

// right fails unless the books balance and no GPU is held that no lease has.
func (w *world) right() {
	w.t.Helper()
	r, err := w.books.Verify(w.ctx)
	w.check(err)
	if !r.OK() {
		w.t.Fatalf("the books are wrong: %+v", r.Faults)
	}
	w.check(w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		var stray int64
		err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM fleet_allocations WHERE lease_id NOT IN
			(SELECT id FROM lease WHERE state IN ('accepted','provisioning','running','stopping','starting','unreachable','ending'))`).Scan(&stray)
		if err == nil && stray > 0 {
			err = fmt.Errorf("%d GPUs are held by leases that do not run", stray)
		}
		return err
	}))
}

func rate(t *testing.T, s string) money.Rate {
	t.Helper()
	r, err := money.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func price(t *testing.T, s string) auction.Price { return auction.Price(rate(t, s)) }

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("got %v, want the fault %s", err, code)
	}
}

// host is a machine whose instances are simulated.
type host struct {
	id     string
	gpus   []protocol.GPU
	clock  func() time.Time
	booted time.Time

	mu        sync.Mutex
	seq       int64
	told      bool // its inventory
	dark      bool // it cannot be heard
	slow      bool // nothing gets beyond its pull
	instances map[string]*instance
}

type instance struct {
	protocol.InstanceStatus
	want protocol.Want
}

func (h *host) now() *protocol.Instant {
	return &protocol.Instant{BootID: h.id, Nanos: int64(h.clock().Sub(h.booted))}
}

func (h *host) command(c protocol.Command) protocol.CommandResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.instances[c.LeaseID]
	if i == nil {
		i = &instance{InstanceStatus: protocol.InstanceStatus{LeaseID: c.LeaseID}}
		h.instances[c.LeaseID] = i
	}
	if c.Generation < i.Generation {
		return protocol.CommandResult{Code: "stale_generation", Generation: i.Generation}
	}
	if c.Generation > i.Generation {
		i.Generation, i.want = c.Generation, c.Want
		if c.Want == protocol.WantRunning {
			i.Phase, i.Started, i.Stopped = protocol.PhasePulling, nil, nil
		}
	}
	return protocol.CommandResult{Accepted: true, Generation: i.Generation}
}

func (h *host) knows(id string, generation int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.instances[id]
	return h.dark || i != nil && i.Generation >= generation
}

// work brings every instance to what is wanted of it.
func (h *host) work() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.instances {
		running := i.Phase == protocol.PhaseRunning
		if running && i.want != protocol.WantRunning {
			i.Stopped = h.now()
		}
		switch i.want {
		case protocol.WantRunning:
			if !running && !h.slow {
				i.Phase, i.Started = protocol.PhaseRunning, h.now()
			}
		case protocol.WantStopped:
			i.Phase = protocol.PhaseStopped
		case protocol.WantAbsent:
			i.Phase = protocol.PhaseAbsent
		}
	}
}

func (h *host) report() protocol.Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	r := protocol.Report{Session: "one", Seq: h.seq, Now: *h.now(), Instances: []protocol.InstanceStatus{}, Ready: true}
	if !h.told {
		h.told = true
		r.Inventory = &protocol.Inventory{Hostname: "host", Architecture: "amd64", CPUModel: "EPYC", CPUs: 64, MemoryMiB: 262144, DiskMiB: 1 << 21, Runtime: "sim",
			Isolation: []string{"runc"}, DiskQuota: "loop", GPUs: h.gpus, Simulated: true, SelfTest: protocol.SelfTest{RanAt: *h.now(), Passed: true}}
	}
	for _, i := range h.instances {
		r.Instances = append(r.Instances, i.InstanceStatus)
	}
	return r
}
