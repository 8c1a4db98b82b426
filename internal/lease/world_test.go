package lease

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
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is a control plane of the real services, whose clock a test moves, and
// the hosts of its provider.
type world struct {
	*Service
	t   tb
	ctx context.Context
	db  *store.DB

	accounts *account.Service
	fleet    *fleet.Service
	billing  *billing.Service
	books    *ledger.Ledger
	facts    *catalog.Catalog
	options  options

	operator, ada account.Principal

	mu      sync.Mutex
	now     time.Time
	elapsed time.Duration
	hosts   map[string]*fakeHost
	joined  []*fakeHost // in order
	steps   int
}

type options struct {
	minimum     int64
	granularity string
	money       string
	quota       account.Quota
}

func newWorld(t *testing.T, change ...func(*options)) *world {
	t.Helper()
	return newWorldOn(t, t.Context(), storetest.Open(t, storetest.Address(t)), change...)
}

func newWorldOn(t tb, ctx context.Context, db *store.DB, change ...func(*options)) *world {
	t.Helper()
	w := &world{t: t, ctx: ctx, db: db, now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), hosts: map[string]*fakeHost{},
		options: options{granularity: "second", money: "10000"}}
	for _, c := range change {
		c(&w.options)
	}
	var err error
	if w.facts, err = catalog.Load(""); err != nil {
		t.Fatal(err)
	}
	w.open(true)
	if _, err := w.accounts.Bootstrap(ctx, "operator@example.com", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	if w.operator, err = w.accounts.FirstOperator(ctx); err != nil {
		t.Fatal(err)
	}
	w.ada = w.tenant("ada")
	return w
}

func (w *world) tenant(name string) account.Principal {
	w.t.Helper()
	a, u, err := w.accounts.CreateAccount(w.ctx, w.operator, account.CreateAccount{Name: name, Email: name + "@example.com", Password: "correct horse battery"})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.options.money != "" {
		amount, err := money.ParseAmount(w.options.money)
		if err == nil {
			_, err = w.billing.Deposit(w.ctx, w.operator, a.ID, amount, "wire", "")
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return account.Principal{UserID: u.ID, AccountID: a.ID, Role: account.Owner}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// open makes the services on the world's database, as a start of the process does.
func (w *world) open(first bool) {
	w.t.Helper()
	check := func(err error) {
		w.t.Helper()
		if err != nil {
			w.t.Fatal(err)
		}
	}
	var err error
	secret := bytes.Repeat([]byte{7}, 32)
	w.accounts, err = account.New(account.Config{DB: w.db, Clock: w.clock, Secret: secret, DefaultQuota: w.options.quota,
		PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}})
	check(err)
	w.books, err = ledger.New(w.db, w.clock)
	check(err)
	terms := fleet.StandardDefaults()
	terms.MinimumSeconds, terms.Granularity = w.options.minimum, w.options.granularity
	w.fleet, err = fleet.New(fleet.Config{
		DB: w.db, Catalog: w.facts, Clock: w.clock, AllowSimulated: true, Defaults: terms,
		Elapsed: func() time.Duration { w.mu.Lock(); defer w.mu.Unlock(); return w.elapsed },
		OnReport: func(ctx context.Context, id string, r protocol.Report, at time.Time) ([]protocol.Desired, bool, int64, error) {
			return w.Service.OnReport(ctx, id, r, at)
		},
		OnSilent: func(ctx context.Context, id string, seen time.Time) error { return w.Service.OnSilent(ctx, id, seen) },
		OnGPUFault: func(ctx context.Context, f fleet.GPUFault) {
			if err := w.OnGPUFault(ctx, f); err != nil {
				w.t.Errorf("tell lease %s of its GPU: %v", f.LeaseID, err)
			}
		},
	})
	check(err)
	w.billing, err = billing.New(billing.Config{
		DB: w.db, Clock: w.clock, Ledger: w.books,
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.USD, nil },
		OnExhausted: func(ctx context.Context, _, id string, r billing.Reason) {
			if err := w.Exhaust(ctx, id, string(r), r == billing.ReasonGraceOver); err != nil {
				w.t.Errorf("exhaust %s: %v", id, err)
			}
		},
	})
	check(err)
	w.Service = w.replica()
	if first {
		for _, m := range []interface{ Migrate(context.Context) error }{w.accounts, w.books, w.fleet, w.billing, w.Service} {
			check(m.Migrate(w.ctx))
		}
	}
	check(w.fleet.Load(w.ctx))
	check(w.Load(w.ctx))
}

// replica is another lease service on the same database and hosts. Load is up
// to the caller.
func (w *world) replica() *Service {
	w.t.Helper()
	vault, err := account.NewVault(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := New(Config{DB: w.db, Clock: w.clock, Catalog: w.facts, Capacity: w.fleet, Money: w.billing, Tenants: w.accounts, Vault: vault,
		Monthly: MonthlyTerms{Hours: 730, Discounts: []pricing.TermDiscount{{Months: 1}, {Months: 3, BasisPoints: 500}}},
		Command: func(ctx context.Context, hostID string, c protocol.Command) (protocol.CommandResult, error) {
			return w.host(hostID).command(ctx, c)
		}})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// restart is a crash of the control plane: all memory is lost.
func (w *world) restart() { w.t.Helper(); w.open(false) }

func (w *world) host(id string) *fakeHost {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hosts[id]
}

// join adds a host with n GPUs that is on offer.
func (w *world) join(n int) *fakeHost {
	w.t.Helper()
	h := w.enrol(n)
	w.beat(h)
	if w.free() < n {
		w.t.Fatalf("the new host offers %d GPUs, want %d", w.free(), n)
	}
	return h
}

// enrol adds a host that has not reported yet.
func (w *world) enrol(n int) *fakeHost {
	w.t.Helper()
	token, _, err := w.fleet.CreateJoinToken(w.ctx, w.operator, fleet.JoinToken{})
	if err != nil {
		w.t.Fatal(err)
	}
	number := len(w.hosts) + 1
	key := "U" + strings.Map(func(r rune) rune { return r - '0' + 'A' }, fmt.Sprintf("%055d", number))
	reply, err := w.fleet.Enrol(w.ctx, protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: key, Name: fmt.Sprint("host", number), Version: protocol.Version, Build: "test"},
		func(_, id string) (string, error) { return "certificate of " + id, nil })
	if err != nil {
		w.t.Fatal(err)
	}
	h := &fakeHost{id: reply.HostID, clock: w.clock, up: true, bootedAt: w.clock().Add(-time.Hour), session: "first",
		instances: map[string]*instance{}, fences: map[string]int64{}, ran: map[string]time.Duration{}, fail: map[string]protocol.Phase{}, deaf: map[protocol.Want]int{}}
	for i := range n {
		h.gpus = append(h.gpus, protocol.GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", h.id, i), Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090", VRAMMiB: 24564, Driver: "550.54.15", MaxCUDA: "12.4",
			ComputeCapability: "8.9", PCIeGen: 4, PCIeWidth: 16, NUMANode: -1, Health: protocol.Health{State: protocol.Healthy},
		})
	}
	w.mu.Lock()
	w.hosts[h.id] = h
	w.joined = append(w.joined, h)
	w.mu.Unlock()
	return h
}

// beat lets one host work and report, if it can be reached.
func (w *world) beat(h *fakeHost) {
	w.t.Helper()
	h.work()
	if !h.up {
		return
	}
	r := h.report()
	reply, err := w.fleet.Report(w.ctx, h.id, r, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	if reply.Accepted {
		h.answered(r, reply)
	}
	if reply.SendInventory {
		h.set(func() { h.inventory = false })
	}
}

// tick is one turn of the reconciler, with all that it starts.
func (w *world) tick() {
	w.reconcile(w.ctx, true)
	w.commanding.Wait()
}

// jump moves the clocks and nothing else.
func (w *world) jump(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
	w.elapsed += d
}

const beat = 5 * time.Second

// pass lets time pass in which everybody does their part.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for range max(1, int(d/beat)) {
		w.jump(beat)
		w.mu.Lock()
		w.steps++
		steps := w.steps
		hosts := slices.Clone(w.joined)
		w.mu.Unlock()
		for _, h := range hosts {
			w.beat(h)
		}
		w.fleet.Silent(w.ctx)
		w.tick()
		for _, h := range hosts {
			h.work()
		}
		if steps%3 == 0 {
			if err := w.billing.Watch(w.ctx, w.clock()); err != nil {
				w.t.Fatal(err)
			}
		}
		if steps%60 == 0 {
			w.catchUp(w.ctx)
		}
	}
}

// quote prices n GPUs of a host, of any host if h is nil.
func (w *world) quote(p account.Principal, h *fakeHost, n int) (*Quote, error) {
	w.t.Helper()
	offers, _, err := w.fleet.Search(w.ctx, fleet.Query{Expression: fmt.Sprintf("count = %d", n), Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range offers {
		if h == nil || o.HostID == h.id {
			return w.Price(w.ctx, p, QuoteRequest{OfferID: o.ID, Image: "debian:12", DiskGiB: 10}, "UTC")
		}
	}
	return nil, fault.New(fault.Gone, "offer_gone", "no offer of %d GPUs", n)
}

func (w *world) accept(p account.Principal, h *fakeHost, n int, change ...func(*Create)) *Lease {
	w.t.Helper()
	q, err := w.quote(p, h, n)
	if err != nil {
		w.t.Fatal(err)
	}
	c := Create{QuoteID: q.ID}
	for _, f := range change {
		f(&c)
	}
	l, err := w.Accept(w.ctx, p, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// rent is accept, until the lease runs.
func (w *world) rent(h *fakeHost, n int, change ...func(*Create)) *Lease {
	w.t.Helper()
	l := w.accept(w.ada, h, n, change...)
	w.until(l.ID, Running)
	return w.get(l.ID)
}

// until lets time pass until a lease is in a state, at most ten minutes.
func (w *world) until(id string, s State) {
	w.t.Helper()
	for range 120 {
		if w.get(id).State == s {
			return
		}
		w.pass(beat)
	}
	w.t.Fatalf("after 10 minutes lease %s is %s, want %s", id, w.get(id).State, s)
}

func (w *world) get(id string) *Lease {
	w.t.Helper()
	l, err := w.Get(w.ctx, w.operator, id)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) wantState(id string, s State) {
	w.t.Helper()
	if l := w.get(id); l.State != s {
		w.t.Fatalf("lease %s is %s (%s: %s), want %s", id, l.State, l.Code, l.Message, s)
	}
}

// free is the largest number of GPUs that one offer has.
// free is how many GPUs the largest offer has that nobody waits for.
func (w *world) free() int {
	w.t.Helper()
	offers, _, err := w.fleet.Search(w.ctx, fleet.Query{Expression: "available_after_seconds = 0", Limit: 500})
	if err != nil {
		w.t.Fatal(err)
	}
	most := 0
	for _, o := range offers {
		most = max(most, o.GPUCount)
	}
	return most
}

func (w *world) bill(id string) billing.Bill {
	w.t.Helper()
	b, err := w.billing.Due(w.ctx, id, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// charged is what a lease is charged for, in seconds of compute: used and
// counted, over all sessions.
func (w *world) charged(id string) (used, counted time.Duration) {
	w.t.Helper()
	for _, line := range w.bill(id).Lines {
		if line.Meter == pricing.Compute && line.Unit == "s" {
			used += time.Duration(line.Used) * time.Second
			counted += time.Duration(line.Charged) * time.Second
		}
	}
	return used, counted
}

// wantFree fails unless nothing of a lease is left anywhere and it costs nothing
// that it did not run.
func (w *world) wantClosed(id string) {
	w.t.Helper()
	l := w.get(id)
	if !l.State.Over() || !l.Cleaned || len(l.GPUs) != 0 {
		w.t.Errorf("lease %s is %s, cleaned %v, GPUs %v: want it over and all given back", id, l.State, l.Cleaned, l.GPUs)
	}
	h := w.host(l.HostID)
	for _, left := range h.left() {
		if left == id {
			w.t.Errorf("the host still has lease %s", id)
		}
	}
	used, _ := w.charged(id)
	if ran := h.runtime(id); used > ran {
		w.t.Errorf("lease %s is charged for %s and ran %s", id, used, ran)
	}
	b := w.bill(id)
	if b.Unbilled != 0 || b.Ended.IsZero() {
		w.t.Errorf("the bill of lease %s is open: %s unbilled, ended %s", id, b.Unbilled, b.Ended)
	}
	if l.State == Failed && b.Total != 0 {
		w.t.Errorf("a failed lease costs %s", b.Total)
	}
	w.booksAreRight()
}

func (w *world) booksAreRight() {
	w.t.Helper()
	r, err := w.books.Verify(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if !r.OK() {
		w.t.Fatalf("the books are wrong: %+v", r.Faults)
	}
}

// holders counts the rows that hold GPUs, by lease.
func (w *world) holders() map[string]int {
	w.t.Helper()
	held := map[string]int{}
	err := w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT lease_id FROM fleet_allocations`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			held[id]++
		}
		return rows.Err()
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return held
}

func wantCode(t tb, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("got %v, want the fault %s", err, code)
	}
}
