package payment_test

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/payment"
	"suanli.dev/internal/store"
)

var (
	noon     = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	operator = account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}
	ada      = account.Principal{UserID: "us-ada", AccountID: "ac-ada", Role: account.Owner}
)

// psp is a provider in memory: what it was asked, and what it says.
type psp struct {
	mu      sync.Mutex
	orders  map[string]payment.Order // by our identifier
	made    int                      // answers to Create, repeats included
	refunds map[string]payment.RefundOrder
	sent    int // money given back, in minor units
	looks   map[string]payment.Observation
	list    []payment.Observation
	down    error // what every request is answered with
	during  func(payment.Order)
	refund  string // how refunds go; empty: done
}

func newPSP() *psp {
	return &psp{orders: map[string]payment.Order{}, refunds: map[string]payment.RefundOrder{}, looks: map[string]payment.Observation{}}
}

func (*psp) Name() string { return "psp" }

func (p *psp) Create(_ context.Context, o payment.Order) (payment.Checkout, error) {
	p.mu.Lock()
	err, during := p.down, p.during
	if err == nil {
		p.orders[o.PaymentID] = o
		p.made++
	}
	p.mu.Unlock()
	if during != nil {
		during(o)
	}
	return payment.Checkout{Ref: "cs_" + o.PaymentID, URL: "https://pay.example.com/" + o.PaymentID}, err
}

func (p *psp) Look(_ context.Context, o payment.Order, ref string) (payment.Observation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen, ok := p.looks[o.PaymentID]; ok {
		return seen, p.down
	}
	return payment.Observation{Kind: payment.SawWaiting, Ref: ref}, p.down
}

func (p *psp) Refund(_ context.Context, r payment.RefundOrder) (payment.Observation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down != nil {
		return payment.Observation{}, p.down
	}
	if _, again := p.refunds[r.RefundID]; !again {
		p.refunds[r.RefundID] = r
		p.sent += int(r.Minor)
	}
	how := p.refund
	if how == "" {
		how = payment.Done
	}
	return payment.Observation{Kind: payment.SawRefund, RefundID: r.RefundID, ItemRef: "re_" + r.RefundID, ChargeRef: r.ChargeRef, Minor: r.Minor, Currency: string(r.Currency), Progress: how}, nil
}

func (p *psp) Callback(h http.Header, body []byte) ([]payment.Observation, error) {
	if subtle.ConstantTimeCompare([]byte(h.Get("Signature")), []byte("right")) == 0 {
		return nil, payment.ErrSignature
	}
	var o payment.Observation
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, err
	}
	return []payment.Observation{o}, nil
}

func (*psp) Accepted() (string, string) { return "text/plain", "success" }

func (p *psp) Since(context.Context, time.Time) ([]payment.Observation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.list, p.down
}

func (p *psp) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
}

// paid is what psp says of an order that was paid.
func paid(p payment.Payment) payment.Observation {
	return payment.Observation{Kind: payment.SawPaid, PaymentID: p.ID, Ref: "cs_" + p.ID, ChargeRef: "pi_" + p.ID, Minor: int64(p.Amount / 10_000), Currency: string(p.Currency)}
}

type till struct {
	*payment.Service
	t       testing.TB
	ctx     context.Context
	db      *store.DB
	books   *ledger.Ledger
	billing *billing.Service
	psp     *psp

	mu        sync.Mutex
	now       time.Time
	announced []string
}

func (l *till) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *till) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// services builds payment with what is below it.
func services(ctx context.Context, db *store.DB, clock func() time.Time, with payment.Provider, announce func(context.Context, *store.Tx, string, string, string, time.Time, any) error) (*payment.Service, *billing.Service, *ledger.Ledger, error) {
	books, err := ledger.New(db, clock)
	if err != nil {
		return nil, nil, nil, err
	}
	currency := func(context.Context, string) (money.Currency, error) { return money.USD, nil }
	bill, err := billing.New(billing.Config{DB: db, Clock: clock, Ledger: books, CurrencyOf: currency})
	if err != nil {
		return nil, nil, nil, err
	}
	pay, err := payment.New(payment.Config{DB: db, Clock: clock, Money: bill, Providers: []payment.Provider{with}, CurrencyOf: currency, Announce: announce,
		Audit: func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil }})
	if err != nil {
		return nil, nil, nil, err
	}
	return pay, bill, books, errors.Join(books.Migrate(ctx), bill.Migrate(ctx), pay.Migrate(ctx))
}

func newTill(t testing.TB, db *store.DB) *till {
	t.Helper()
	l := &till{t: t, ctx: t.Context(), db: db, psp: newPSP(), now: noon}
	var err error
	l.Service, l.billing, l.books, err = services(l.ctx, db, l.clock, l.psp, func(_ context.Context, _ *store.Tx, accountID, kind, subject string, _ time.Time, data any) error {
		if _, err := json.Marshal(data); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.announced = append(l.announced, accountID+" "+kind+" "+subject)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *till) create(amount money.Amount) payment.Payment {
	l.t.Helper()
	p, err := l.Create(l.ctx, ada, amount, "", "")
	if err != nil {
		l.t.Fatal(err)
	}
	return p
}

func (l *till) observe(o payment.Observation) {
	l.t.Helper()
	if err := l.Observe(l.ctx, "psp", o); err != nil {
		l.t.Fatal(err)
	}
}

// credited is a payment of an amount that is in ada's wallet.
func (l *till) credited(amount money.Amount) payment.Payment {
	l.t.Helper()
	p := l.create(amount)
	l.observe(paid(p))
	return l.want(p.ID, payment.Credited)
}

func (l *till) want(id string, state payment.State) payment.Payment {
	l.t.Helper()
	p, err := l.Payment(l.ctx, "", id)
	if err != nil {
		l.t.Fatal(err)
	}
	if p.State != state {
		l.t.Fatalf("payment %s is %s, want %s: %+v", id, p.State, state, p)
	}
	return p
}

func (l *till) sweep() {
	l.t.Helper()
	if err := l.Pass(l.ctx); err != nil {
		l.t.Fatal(err)
	}
}

// wantSettled compares what ada has, debt included, and that the books are right.
func (l *till) wantSettled(want money.Amount) {
	l.t.Helper()
	b, err := l.billing.Balance(l.ctx, ada.AccountID)
	if err != nil {
		l.t.Fatal(err)
	}
	if b.Settled != want {
		l.t.Fatalf("the account has %s, want %s", b.Settled, want)
	}
	if r, err := l.books.Verify(l.ctx); err != nil || !r.OK() {
		l.t.Fatalf("the books: %+v, %v", r, err)
	}
}

func wantFault(t testing.TB, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("%v, want the fault %s", err, code)
	}
}

func moneyOf(n int) money.Amount { return money.Amount(n) }
