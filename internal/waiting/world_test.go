package waiting

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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
	"suanli.dev/internal/notify"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// world is a control plane of the real services, whose clock a test moves, and hosts
// that do at once what they are told.
type world struct {
	*Service
	t        testing.TB
	db       *store.DB
	accounts *account.Service
	fleet    *fleet.Service
	billing  *billing.Service
	books    *ledger.Ledger
	leases   *lease.Service
	quotas   map[string]int // GPUs, by account

	operator, ada, eve account.Principal

	mu    sync.Mutex
	now   time.Time
	hosts []*fakeHost
	news  []told
	// beyond fails the start of requests of an account in a way that is not theirs.
	beyond map[string]error
}

type told struct {
	account, kind, subject string
	notify.WaitingNews
}

// Announce takes the place of the news service.
func (w *world) Announce(_ context.Context, _ *store.Tx, accountID, kind, subject string, _ time.Time, data any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = append(w.news, told{accountID, kind, subject, data.(notify.WaitingNews)})
	return nil
}

// heard is what an account was told of a request, in order.
func (w *world) heard(r *Request) (kinds []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.news {
		if n.subject == r.ID && n.account == r.AccountID {
			kinds = append(kinds, strings.TrimPrefix(n.kind, "waiting_request."))
		}
	}
	return kinds
}

// each runs a test in a world on each engine.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { test(t, newWorld(t, db)) })
}

func newWorld(t testing.TB, db *store.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, now: noon, quotas: map[string]int{}, beyond: map[string]error{}}
	w.open(true)
	_, err := w.accounts.Bootstrap(t.Context(), "operator@example.com", "correct horse battery")
	w.check(err)
	w.operator, err = w.accounts.FirstOperator(t.Context())
	w.check(err)
	w.ada, w.eve = w.tenant("ada", 1_000_000_000), w.tenant("eve", 1_000_000_000)
	return w
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tenant(name string, deposit money.Amount) account.Principal {
	w.t.Helper()
	a, u, err := w.accounts.CreateAccount(w.t.Context(), w.operator, account.CreateAccount{Name: name, Email: name + "@example.com", Password: "correct horse battery"})
	w.check(err)
	p := account.Principal{UserID: u.ID, AccountID: a.ID, Role: account.Owner}
	if deposit > 0 {
		w.deposit(p, deposit)
	}
	return p
}

func (w *world) deposit(p account.Principal, amount money.Amount) {
	w.t.Helper()
	_, err := w.billing.Deposit(w.t.Context(), w.operator, p.AccountID, amount, "wire", "")
	w.check(err)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// open makes the services on the world's database, as a start of the process does.
func (w *world) open(first bool) {
	w.t.Helper()
	ctx := w.t.Context()
	facts, err := catalog.Load("")
	w.check(err)
	secret := bytes.Repeat([]byte{7}, 32)
	w.accounts, err = account.New(account.Config{DB: w.db, Clock: w.clock, Secret: secret, PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}})
	w.check(err)
	w.books, err = ledger.New(w.db, w.clock)
	w.check(err)
	terms := fleet.StandardDefaults()
	terms.PerGPUHour["RTX 4090"] = 1_000_000_000
	w.fleet, err = fleet.New(fleet.Config{DB: w.db, Catalog: facts, Clock: w.clock, Elapsed: func() time.Duration { return w.clock().Sub(noon) }, AllowSimulated: true, Defaults: terms,
		OnReport: func(ctx context.Context, id string, r protocol.Report, at time.Time) ([]protocol.Desired, bool, int64, error) {
			return w.leases.OnReport(ctx, id, r, at)
		},
		OnSilent: func(ctx context.Context, id string, seen time.Time) error { return w.leases.OnSilent(ctx, id, seen) },
	})
	w.check(err)
	w.billing, err = billing.New(billing.Config{DB: w.db, Clock: w.clock, Ledger: w.books,
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.USD, nil }})
	w.check(err)
	vault, err := account.NewVault(secret)
	w.check(err)
	w.leases, err = lease.New(lease.Config{DB: w.db, Clock: w.clock, Catalog: facts, Capacity: w.fleet, Money: w.billing, Tenants: w.accounts, Vault: vault, Tick: 2 * time.Millisecond,
		Command: func(_ context.Context, hostID string, c protocol.Command) (protocol.CommandResult, error) {
			return w.host(hostID).command(c), nil
		}})
	w.check(err)
	w.Service = w.replica()
	if first {
		for _, m := range []interface{ Migrate(context.Context) error }{w.accounts, w.books, w.fleet, w.billing, w.leases, w.Service} {
			w.check(m.Migrate(ctx))
		}
	}
	w.check(w.fleet.Load(ctx))
	w.check(w.leases.Load(ctx))
	run, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	leases := w.leases
	go func() { defer close(done); _ = leases.Run(run) }()
	w.t.Cleanup(func() { cancel(); <-done })
}

// replica is another one on the same services.
func (w *world) replica() *Service {
	w.t.Helper()
	s, err := New(Config{DB: w.db, Clock: w.clock, Capacity: w.fleet, Leases: w.leases, News: w, Audit: w.accounts.Audit, MaxOpen: 5,
		Account: func(context.Context, string) (money.Currency, string, error) { return money.USD, "UTC", nil },
		Quota:   func(_ context.Context, accountID string) (int, error) { return w.quotas[accountID], nil },
		Acting: func(_ context.Context, accountID, userID string) (account.Principal, error) {
			return account.Principal{AccountID: accountID, UserID: userID, Role: account.Member}, w.beyond[accountID]
		},
	})
	w.check(err)
	return s
}

// fakeHost is a machine with an agent.
type fakeHost struct {
	id   string
	w    *world
	gpus []protocol.GPU

	mu        sync.Mutex
	seq       int64
	inventory bool // it is asked for
	instances map[string]*instance
}

type instance struct {
	protocol.InstanceStatus
	want protocol.Want
}

func (w *world) host(id string) *fakeHost {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts[slices.IndexFunc(w.hosts, func(h *fakeHost) bool { return h.id == id })]
}

// join adds a host with n GPUs that is on offer.
func (w *world) join(n int) *fakeHost {
	w.t.Helper()
	token, _, err := w.fleet.CreateJoinToken(w.t.Context(), w.operator, fleet.JoinToken{})
	w.check(err)
	number := len(w.hosts) + 1
	key := "U" + strings.Map(func(r rune) rune { return r - '0' + 'A' }, fmt.Sprintf("%055d", number))
	reply, err := w.fleet.Enrol(w.t.Context(), protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: key, Name: fmt.Sprint("host", number), Version: protocol.Version, Build: "test"},
		func(_, id string) (string, error) { return "certificate of " + id, nil })
	w.check(err)
	h := &fakeHost{id: reply.HostID, w: w, instances: map[string]*instance{}}
	h.have(n)
	w.mu.Lock()
	w.hosts = append(w.hosts, h)
	w.mu.Unlock()
	w.beat(h)
	return h
}

// have gives a host GPUs.
func (h *fakeHost) have(n int) {
	for i := range n {
		h.gpus = append(h.gpus, protocol.GPU{UUID: fmt.Sprintf("GPU-%s-%d", h.id, i), Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090", VRAMMiB: 24564,
			Driver: "550.54.15", MaxCUDA: "12.4", ComputeCapability: "8.9", PCIeGen: 4, PCIeWidth: 16, NUMANode: -1, Health: protocol.Health{State: protocol.Healthy}})
	}
}

func (h *fakeHost) command(c protocol.Command) protocol.CommandResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.instances[c.LeaseID]
	if i == nil {
		i = &instance{InstanceStatus: protocol.InstanceStatus{LeaseID: c.LeaseID, Phase: protocol.PhaseCreating}}
		h.instances[c.LeaseID] = i
	}
	if c.Generation >= i.Generation {
		i.Generation, i.want = c.Generation, c.Want
	}
	return protocol.CommandResult{Accepted: true, Generation: i.Generation}
}

func (h *fakeHost) instant(at time.Time) *protocol.Instant {
	return &protocol.Instant{BootID: h.id, Nanos: int64(at.Sub(noon.AddDate(0, -2, 0)))}
}

// beat lets a host do what it was told and report.
func (w *world) beat(h *fakeHost) {
	w.t.Helper()
	now := w.clock()
	h.mu.Lock()
	for _, i := range h.instances {
		running := i.Phase == protocol.PhaseRunning
		if running && i.want != protocol.WantRunning {
			i.Stopped = h.instant(now)
		}
		switch {
		case i.want == protocol.WantAbsent:
			i.Phase = protocol.PhaseAbsent
		case i.want == protocol.WantStopped:
			i.Phase, i.Code = protocol.PhaseStopped, "commanded"
		case i.want == protocol.WantRunning && !running:
			i.Phase, i.Started = protocol.PhaseRunning, h.instant(now)
		}
	}
	h.seq++
	r := protocol.Report{Session: "one", Seq: h.seq, Now: *h.instant(now), Instances: []protocol.InstanceStatus{}, Ready: true}
	if h.seq == 1 || h.inventory {
		r.Inventory = &protocol.Inventory{Hostname: "host", Architecture: "amd64", CPUModel: "EPYC", CPUs: 32, MemoryMiB: 131072, DiskMiB: 1 << 20, Runtime: "docker 20.10.24",
			Isolation: []string{"runc"}, DiskQuota: "loop", GPUs: h.gpus, SelfTest: protocol.SelfTest{RanAt: *h.instant(noon), Passed: true}}
	}
	for _, i := range h.instances {
		r.Instances = append(r.Instances, i.InstanceStatus)
	}
	h.mu.Unlock()
	reply, err := w.fleet.Report(w.t.Context(), h.id, r, now)
	w.check(err)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inventory = reply.SendInventory
	listed := map[string]bool{}
	for _, d := range reply.Desired {
		listed[d.LeaseID] = true
	}
	for _, id := range slices.Collect(maps.Keys(h.instances)) {
		if reply.Complete && !listed[id] && h.instances[id].Phase == protocol.PhaseAbsent {
			delete(h.instances, id)
		}
	}
}

// pass lets time pass in which everybody does their part.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for ; d > 0; d -= 5 * time.Second {
		w.mu.Lock()
		w.now = w.now.Add(min(d, 5*time.Second))
		w.mu.Unlock()
		w.around()
	}
}

// around is a round of all hosts, and of the service.
func (w *world) around() {
	w.t.Helper()
	w.mu.Lock()
	hosts := slices.Clone(w.hosts)
	w.mu.Unlock()
	for _, h := range hosts {
		w.beat(h)
	}
	w.check(w.Turn(w.t.Context()))
}

// until lets time pass until something holds, at most for a while.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	end := w.clock().Add(5 * time.Minute)
	tick := time.NewTicker(4 * time.Millisecond) // the leases' own loop runs by real time
	defer tick.Stop()
	for !ok() {
		if w.clock().After(end) {
			w.t.Fatalf("after 5 minutes it is still not so that %s", what)
		}
		w.pass(2 * time.Second)
		<-tick.C
	}
}

// ask makes a request for one GPU that waits for an hour.
func (w *world) ask(p account.Principal, change ...func(*Create)) *Request {
	w.t.Helper()
	c := wish()
	for _, f := range change {
		f(&c)
	}
	r, err := w.Create(w.t.Context(), p, c)
	w.check(err)
	// Ages differ, as they do in life.
	w.mu.Lock()
	w.now = w.now.Add(time.Millisecond)
	w.mu.Unlock()
	return r
}

func wish() Create {
	return Create{GPUModel: "rtx 4090", GPUs: 1, MaxPerHour: 5_000_000, WaitFor: time.Hour, Run: lease.Awaited{Request: lease.QuoteRequest{Image: "debian:12", DiskGiB: 10}}}
}

// rent takes GPUs as somebody does who finds them free.
func (w *world) rent(p account.Principal, gpus int, stopAt time.Time) *lease.Lease {
	w.t.Helper()
	offers, _, err := w.fleet.Search(w.t.Context(), fleet.Query{Expression: fmt.Sprint("count = ", gpus), Limit: 1})
	w.check(err)
	if len(offers) == 0 {
		w.t.Fatalf("there is no offer of %d GPUs", gpus)
	}
	q, err := w.leases.Price(w.t.Context(), p, lease.QuoteRequest{OfferID: offers[0].ID, Image: "debian:12", DiskGiB: 10}, "UTC")
	w.check(err)
	l, err := w.leases.Accept(w.t.Context(), p, lease.Create{QuoteID: q.ID, Deadline: stopAt})
	w.check(err)
	return l
}

func (w *world) end(p account.Principal, leaseID string) {
	w.t.Helper()
	_, err := w.leases.End(w.t.Context(), p, leaseID)
	w.check(err)
}

func (w *world) get(r *Request) *Request {
	w.t.Helper()
	fresh, err := w.Get(w.t.Context(), account.Principal{AccountID: r.AccountID}, r.ID)
	w.check(err)
	return fresh
}

// want fails unless a request is in a state, for a reason.
func (w *world) want(r *Request, state State, code string) *Request {
	w.t.Helper()
	fresh := w.get(r)
	if fresh.State != state || fresh.Code != code {
		w.t.Fatalf("%s is %s (%s: %s), want %s (%s)", fresh.Name, fresh.State, fresh.Code, fresh.Message, state, code)
	}
	return fresh
}

// leasesOf counts the leases of an account that are not over.
func (w *world) leasesOf(p account.Principal) int {
	w.t.Helper()
	list, _, err := w.leases.List(w.t.Context(), p, lease.Filter{Live: true}, "", 100)
	w.check(err)
	return len(list)
}

// right fails unless the books balance.
func (w *world) right() {
	w.t.Helper()
	r, err := w.books.Verify(w.t.Context())
	if err != nil || !r.OK() {
		w.t.Fatalf("the books are wrong: %+v (%v)", r, err)
	}
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("got %v, want the fault %s", err, code)
	}
}
