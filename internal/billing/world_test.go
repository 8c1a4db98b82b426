package billing_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var (
	noon     = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	operator = account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}
)

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is a billing service with a clock that stands still until it is moved.
type world struct {
	*billing.Service
	t      tb
	ctx    context.Context
	db     *store.DB
	books  *ledger.Ledger
	config billing.Config

	mu       sync.Mutex
	now      time.Time
	orders   []string
	warnings []string
}

func newWorld(t tb, ctx context.Context, db *store.DB, change ...func(*billing.Config)) *world {
	t.Helper()
	w := &world{t: t, ctx: ctx, db: db, now: noon}
	var err error
	if w.books, err = ledger.New(db, w.clock); err != nil {
		t.Fatal(err)
	}
	w.config = billing.Config{
		DB: db, Clock: w.clock, Ledger: w.books, Log: slog.New(slog.DiscardHandler),
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.CNY, nil },
		OnExhausted: func(_ context.Context, accountID, leaseID string, r billing.Reason) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.orders = append(w.orders, leaseID+" "+string(r))
		},
		OnWarning: func(_ context.Context, accountID string, warning billing.Warning) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.warnings = append(w.warnings, fmt.Sprintf("%s %s", warning.Kind, warning.Left))
		},
	}
	for _, c := range change {
		c(&w.config)
	}
	w.restart()
	if err := w.books.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// each runs a test in a fresh world on each engine.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { test(t, newWorld(t, t.Context(), db)) })
}

// restart forgets all that the service had in memory.
func (w *world) restart() {
	s, err := billing.New(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Service = s
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
	return w.now
}

// do runs an operation in a transaction of its own.
func (w *world) do(op func(ctx context.Context, tx *store.Tx) error) {
	w.t.Helper()
	if err := w.db.Update(w.ctx, op); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) deposit(accountID, amount string) {
	w.t.Helper()
	if _, err := w.Deposit(w.ctx, operator, accountID, must(w.t, amount), "wire", ""); err != nil {
		w.t.Fatal(err)
	}
}

func must(t tb, s string) money.Amount {
	t.Helper()
	a, err := money.ParseAmount(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustRate(t tb, s string) money.Rate {
	t.Helper()
	r, err := money.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// terms are for a bundle at 3.60 an hour, which is 0.001 a second, with no disk,
// a minimum of 60 s and a commission of 20 %.
func (w *world) terms(leaseID string, change ...func(*pricing.Tariff, *pricing.Request)) billing.Terms {
	w.t.Helper()
	tariff := pricing.Tariff{
		Currency: money.CNY, Compute: mustRate(w.t, "3.6"), Storage: mustRate(w.t, "0.35"), Egress: mustRate(w.t, "0.8"),
		Granularity: pricing.Second, MinimumSeconds: 60, CommissionBasisPoints: 2000,
	}
	request := pricing.Request{Plan: pricing.OnDemand}
	for _, c := range change {
		c(&tariff, &request)
	}
	q, err := pricing.NewQuote(tariff, request, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	return billing.Terms{LeaseID: leaseID, AccountID: "ac-renter", ProviderID: "ac-provider", Quote: q}
}

func (w *world) begin(t billing.Terms) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, t) })
}

func (w *world) startCompute(leaseID string, at time.Time) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.StartCompute(ctx, tx, leaseID, at) })
}

func (w *world) stopCompute(leaseID string, at time.Time) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.StopCompute(ctx, tx, leaseID, at) })
}

func (w *world) startStorage(leaseID string, at time.Time) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.StartStorage(ctx, tx, leaseID, at) })
}

func (w *world) end(leaseID string, at time.Time) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.EndLease(ctx, tx, leaseID, at) })
}

func (w *world) egress(leaseID string, total int64) error {
	return w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		return w.RecordEgress(ctx, tx, leaseID, total, w.clock())
	})
}

func (w *world) settle() {
	w.t.Helper()
	if err := w.Settle(w.ctx, w.clock()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) watch() {
	w.t.Helper()
	if err := w.Watch(w.ctx, w.clock()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) bill(leaseID string) billing.Bill {
	w.t.Helper()
	b, err := w.Due(w.ctx, leaseID, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) ledgerBalance(path string) (b money.Amount) {
	w.t.Helper()
	if err := w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = w.books.Balance(ctx, tx, path, money.CNY)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) wantBalance(path, want string) {
	w.t.Helper()
	if got := w.ledgerBalance(path); got.String() != want {
		w.t.Errorf("%s stands at %s, want %s", path, got, want)
	}
}

// right checks all that must hold of the books at any time.
func (w *world) right() {
	w.t.Helper()
	r, err := w.VerifyLedger(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	if !r.OK() {
		w.t.Fatalf("the books are wrong: %+v, %+v", r.Faults, r.Wrong)
	}
}

// forged changes rows of books that are right, and wants verify to notice: first of
// all in what begins with subject, if one is given.
func (w *world) forged(statement, subject string) {
	w.t.Helper()
	w.right()
	w.exec(statement)
	r, err := w.VerifyLedger(w.ctx)
	if err != nil || r.OK() || subject != "" && !strings.HasPrefix(r.Wrong[0].Subject, subject) {
		w.t.Errorf("it is not noticed, or not named %q: %+v, %+v, %v", subject, r.Faults, r.Wrong, err)
	}
}

func wantCode(t tb, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("got %v, want the fault %s", err, code)
	}
}
