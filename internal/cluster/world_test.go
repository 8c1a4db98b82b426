package cluster

import (
	"bytes"
	"context"
	"errors"
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
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// world is a control plane of the real services, whose clock a test moves, and hosts
// that are told as a story.
type world struct {
	*Service
	t        testing.TB
	dir      string // where hosts and time are kept, to outlive the process; empty: nowhere
	db       *store.DB
	accounts *account.Service
	fleet    *fleet.Service
	billing  *billing.Service
	books    *ledger.Ledger
	leases   *lease.Service

	operator, ada account.Principal

	mu    sync.Mutex
	now   time.Time
	ranks map[string]*fakeRanks // by lease and job
	hosts []*fakeHost
	stop  func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, storetest.Open(t, storetest.Address(t)), "")
}

func newWorldOn(t testing.TB, db *store.DB, dir string) *world {
	t.Helper()
	w := &world{t: t, db: db, dir: dir, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)}
	w.open(true)
	t.Cleanup(func() { w.stop() })
	if _, err := w.accounts.Bootstrap(t.Context(), "operator@example.com", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.operator, err = w.accounts.FirstOperator(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.ada = w.tenant("ada")
	return w
}

func (w *world) tenant(name string) account.Principal {
	w.t.Helper()
	a, u, err := w.accounts.CreateAccount(w.t.Context(), w.operator, account.CreateAccount{Name: name, Email: name + "@example.com", Password: "correct horse battery"})
	if err == nil {
		_, err = w.billing.Deposit(w.t.Context(), w.operator, a.ID, 10_000_000_000, "wire", "")
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return account.Principal{UserID: u.ID, AccountID: a.ID, Role: account.Owner}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) elapsed() time.Duration {
	return w.clock().Sub(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC))
}

// open makes the services on the world's database, as a start of the process does.
func (w *world) open(first bool) {
	w.t.Helper()
	ctx := w.t.Context()
	check := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	facts, err := catalog.Load("")
	check(err)
	secret := bytes.Repeat([]byte{7}, 32)
	w.accounts, err = account.New(account.Config{DB: w.db, Clock: w.clock, Secret: secret, PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}})
	check(err)
	w.books, err = ledger.New(w.db, w.clock)
	check(err)
	w.fleet, err = fleet.New(fleet.Config{DB: w.db, Catalog: facts, Clock: w.clock, Elapsed: w.elapsed, AllowSimulated: true, Defaults: fleet.StandardDefaults(),
		OnReport: func(ctx context.Context, id string, r protocol.Report, at time.Time) ([]protocol.Desired, bool, int64, error) {
			return w.leases.OnReport(ctx, id, r, at)
		},
		OnSilent: func(ctx context.Context, id string, seen time.Time) error { return w.leases.OnSilent(ctx, id, seen) },
	})
	check(err)
	w.billing, err = billing.New(billing.Config{DB: w.db, Clock: w.clock, Ledger: w.books,
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.USD, nil }})
	check(err)
	vault, err := account.NewVault(secret)
	check(err)
	w.leases, err = lease.New(lease.Config{DB: w.db, Clock: w.clock, Catalog: facts, Capacity: w.fleet, Money: w.billing, Tenants: w.accounts, Vault: vault, Tick: 2 * time.Millisecond,
		Gangs: later{w},
		Command: func(_ context.Context, hostID string, c protocol.Command) (protocol.CommandResult, error) {
			return w.host(hostID).command(c)
		}})
	check(err)
	w.Service, err = New(Config{DB: w.db, Clock: w.clock, Capacity: w.fleet, Leases: w.leases, Audit: w.accounts.Audit, Inside: w, GPUPercent: w.leases.GPUPercent,
		Account: func(context.Context, string) (money.Currency, string, error) { return money.USD, "UTC", nil }})
	check(err)
	if first {
		for _, m := range []interface{ Migrate(context.Context) error }{w.accounts, w.books, w.fleet, w.billing, w.leases, w.Service} {
			check(m.Migrate(ctx))
		}
	}
	check(w.fleet.Load(ctx))
	check(w.leases.Load(ctx))
	run, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	leases := w.leases
	go func() { defer close(done); _ = leases.Run(run) }()
	w.stop = func() { cancel(); <-done }
}

// later is the cluster service, which is made after the leases.
type later struct{ w *world }

func (l later) Peers(gangID, leaseID string) []protocol.Peer { return l.w.Peers(gangID, leaseID) }
func (l later) Overlay(ctx context.Context, gangID, leaseID string, o *protocol.Overlay) {
	l.w.Overlay(ctx, gangID, leaseID, o)
}

// restart is a crash of the control plane: all memory is lost.
func (w *world) restart() { w.t.Helper(); w.stop(); w.open(false) }

// fakeHost is a machine with an agent that does one step of its work at a time.
type fakeHost struct {
	id   string
	w    *world
	gpus []protocol.GPU

	mu        sync.Mutex
	up        bool
	inventory bool // it is asked for
	seq       int64
	instances map[string]*instance
	fence     map[string]int64
	peers     map[string][]protocol.Peer

	broken    bool // images are not there
	slow      bool // pulls go on and on
	cutOff    bool // its peers do not reach it
	noNetwork string
}

type instance struct {
	protocol.InstanceStatus
	want protocol.Want
	spec *protocol.InstanceSpec
}

func (w *world) host(id string) *fakeHost {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		if h.id == id {
			return h
		}
	}
	return nil
}

// join adds hosts with n GPUs each that are on offer.
func (w *world) join(count, n int) []*fakeHost {
	w.t.Helper()
	var out []*fakeHost
	for range count {
		token, _, err := w.fleet.CreateJoinToken(w.t.Context(), w.operator, fleet.JoinToken{})
		if err != nil {
			w.t.Fatal(err)
		}
		number := len(w.hosts) + 1
		key := "U" + strings.Map(func(r rune) rune { return r - '0' + 'A' }, fmt.Sprintf("%055d", number))
		reply, err := w.fleet.Enrol(w.t.Context(), protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: key, Name: fmt.Sprint("host", number), Version: protocol.Version, Build: "test"},
			func(_, id string) (string, error) { return "certificate of " + id, nil })
		if err != nil {
			w.t.Fatal(err)
		}
		h := &fakeHost{id: reply.HostID, w: w, up: true, instances: map[string]*instance{}, fence: map[string]int64{}, peers: map[string][]protocol.Peer{}}
		for i := range n {
			h.gpus = append(h.gpus, protocol.GPU{UUID: fmt.Sprintf("GPU-%s-%d", h.id, i), Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090", VRAMMiB: 24564,
				Driver: "550.54.15", MaxCUDA: "12.4", ComputeCapability: "8.9", PCIeGen: 4, PCIeWidth: 16, NUMANode: -1, Health: protocol.Health{State: protocol.Healthy}})
		}
		w.mu.Lock()
		w.hosts = append(w.hosts, h)
		w.mu.Unlock()
		w.beat(h)
		out = append(out, h)
	}
	return out
}

func (h *fakeHost) command(c protocol.Command) (protocol.CommandResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		return protocol.CommandResult{}, errors.New("the host does not answer")
	}
	i := h.instances[c.LeaseID]
	if i == nil && h.fence[c.LeaseID] >= c.Generation {
		return protocol.CommandResult{Accepted: c.Want == protocol.WantAbsent, Code: "stale_generation", Generation: h.fence[c.LeaseID]}, nil
	}
	if i == nil {
		i = &instance{InstanceStatus: protocol.InstanceStatus{LeaseID: c.LeaseID, Phase: protocol.PhaseCreating}}
		h.instances[c.LeaseID] = i
	}
	if c.Generation >= i.Generation {
		i.Generation, i.want = c.Generation, c.Want
		if c.Spec != nil {
			i.spec = c.Spec
		}
	}
	h.keep()
	return protocol.CommandResult{Accepted: true, Generation: i.Generation}, nil
}

func (h *fakeHost) instant(at time.Time) *protocol.Instant {
	return &protocol.Instant{BootID: h.id, Nanos: int64(at.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))}
}

// work does what is due on the host.
func (h *fakeHost) work() {
	now := h.w.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.keep()
	for _, i := range h.instances {
		switch {
		case i.want == protocol.WantAbsent && i.Phase != protocol.PhaseAbsent:
			if i.Phase == protocol.PhaseRunning {
				i.Stopped = h.instant(now)
			}
			i.Phase, h.fence[i.LeaseID] = protocol.PhaseAbsent, i.Generation
		case i.want == protocol.WantStopped && i.Phase == protocol.PhaseRunning:
			i.Phase, i.Code, i.Stopped = protocol.PhaseStopped, "commanded", h.instant(now)
		case i.want == protocol.WantRunning && i.Phase == protocol.PhaseCreating && h.broken:
			i.Phase, i.Code, i.Reason = protocol.PhaseFailed, "image_not_found", "the image is not there"
		case i.want == protocol.WantRunning && i.Phase == protocol.PhaseCreating && !h.slow:
			i.Phase, i.Started = protocol.PhaseRunning, h.instant(now)
		}
		i.Overlay = nil
		if i.Phase == protocol.PhaseRunning && i.spec != nil && i.spec.Cluster != nil {
			i.Overlay = &protocol.Overlay{PublicKey: "key of " + i.LeaseID, Problem: h.noNetwork}
			if !h.cutOff {
				i.Overlay.Connected = len(h.peers[i.LeaseID])
			}
		}
	}
}

// beat lets one host work and report, if it can be reached.
func (w *world) beat(h *fakeHost) {
	w.t.Helper()
	h.work()
	now := w.clock()
	h.mu.Lock()
	if !h.up {
		h.mu.Unlock()
		return
	}
	h.seq++
	h.keep() // a number that was used is not used again
	r := protocol.Report{Session: "one", Seq: h.seq, Now: *h.instant(now), Instances: []protocol.InstanceStatus{}, Ready: true}
	if h.seq == 1 || h.inventory {
		r.Inventory = &protocol.Inventory{Hostname: "host", Architecture: "amd64", CPUModel: "EPYC", CPUs: 32, MemoryMiB: 131072, DiskMiB: 1 << 20, Runtime: "docker 20.10.24",
			Isolation: []string{"runc"}, DiskQuota: "loop", GPUs: h.gpus, SelfTest: protocol.SelfTest{RanAt: *h.instant(now), Passed: true}}
	}
	for _, i := range h.instances {
		r.Instances = append(r.Instances, i.InstanceStatus)
	}
	h.mu.Unlock()
	reply, err := w.fleet.Report(w.t.Context(), h.id, r, now)
	if err != nil {
		w.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inventory = reply.SendInventory
	listed := map[string]bool{}
	for _, d := range reply.Desired {
		listed[d.LeaseID], h.peers[d.LeaseID] = true, d.Peers
	}
	for _, st := range r.Instances {
		if i := h.instances[st.LeaseID]; reply.Complete && !listed[st.LeaseID] && i != nil {
			if i.Phase == protocol.PhaseAbsent {
				delete(h.instances, st.LeaseID)
			} else {
				i.want = protocol.WantAbsent
			}
		}
	}
}

// pass lets a beat of time pass in which everybody does their part.
func (w *world) pass() {
	w.t.Helper()
	w.mu.Lock()
	w.now = w.now.Add(5 * time.Second)
	w.keepTime()
	hosts := slices.Clone(w.hosts)
	w.mu.Unlock()
	for _, h := range hosts {
		w.beat(h)
	}
	w.fleet.Silent(w.t.Context())
	if err := errors.Join(w.Turn(w.t.Context()), w.TurnRuns(w.t.Context())); err != nil {
		w.t.Fatal(err)
	}
}

// until lets time pass until something holds, at most for a while.
func (w *world) until(what string, most time.Duration, ok func() bool) {
	w.t.Helper()
	end := w.clock().Add(most)
	tick := time.NewTicker(4 * time.Millisecond) // the leases' own loop runs by real time
	defer tick.Stop()
	for !ok() {
		if w.clock().After(end) {
			w.t.Fatalf("after %s it is still not so that %s: %s", most, what, w.story())
		}
		w.pass()
		<-tick.C
	}
}

func (w *world) story() string {
	var b strings.Builder
	list, _, _ := w.List(w.t.Context(), w.ada, false, "", 10)
	for _, c := range list {
		fmt.Fprintf(&b, "\n%s %s %s: %s", c.Name, c.State, c.Code, c.Message)
		d, err := w.Details(w.t.Context(), w.ada, c.ID)
		if err != nil {
			return err.Error()
		}
		for _, n := range d.Members {
			fmt.Fprintf(&b, "\n  %+v", n)
		}
		for _, l := range d.Leases {
			fmt.Fprintf(&b, "\n  lease %s on %s is %s %s %s", l.ID, l.HostID, l.State, l.Code, l.Message)
		}
	}
	return b.String()
}

func (w *world) cluster(id string) *Details {
	w.t.Helper()
	d, err := w.Details(w.t.Context(), w.ada, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) reach(id string, s State, most time.Duration) *Details {
	w.t.Helper()
	w.until(fmt.Sprintf("the cluster is %s", s), most, func() bool { return w.cluster(id).State == s })
	return w.cluster(id)
}

func (w *world) create(nodes, gpus int, change ...func(*Create)) *Cluster {
	w.t.Helper()
	c := Create{Request: Request{Nodes: nodes, GPUs: gpus, GPUModel: "RTX 4090", Run: lease.QuoteRequest{Image: "debian:12", DiskGiB: 10}}, Agreed: 1_000_000_000}
	for _, f := range change {
		f(&c)
	}
	k, err := w.Create(w.t.Context(), w.ada, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return k
}

// due is what all leases of a cluster cost so far, and how long they were charged for.
func (w *world) due(d *Details) (total money.Amount) {
	w.t.Helper()
	for id := range d.Leases {
		b, err := w.billing.Due(w.t.Context(), id, w.clock())
		if err != nil {
			w.t.Fatal(err)
		}
		total += b.Total
	}
	return total
}

// wantFree fails unless hosts have nothing left and all GPUs are on offer.
func (w *world) wantFree() {
	w.t.Helper()
	w.until("nothing is left on any host", 2*time.Minute, func() bool {
		for _, h := range w.hosts {
			h.mu.Lock()
			n := 0
			for _, i := range h.instances {
				if i.Phase != protocol.PhaseAbsent {
					n++
				}
			}
			h.mu.Unlock()
			if n > 0 {
				return false
			}
		}
		return true
	})
	r, err := w.books.Verify(w.t.Context())
	if err != nil || !r.OK() {
		w.t.Fatalf("the books are wrong: %+v (%v)", r, err)
	}
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("got %v, want the fault %s", err, code)
	}
}
