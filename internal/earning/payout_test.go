package earning

import (
	"context"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/documented"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var operator = account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}

// till is a service on a database with a provider "ac" whose real earnings a test
// sets.
type till struct {
	*Service
	ctx   context.Context
	db    *store.DB
	books *ledger.Ledger

	mu     sync.Mutex
	now    time.Time
	earned []pricing.Earning
}

func (l *till) Revenue(context.Context, string, time.Time, time.Time) (billing.Revenue, error) {
	return billing.Revenue{}, nil
}

func (l *till) Payees(context.Context) ([]billing.Payee, error) {
	return []billing.Payee{{AccountID: "ac", Currency: money.USD}}, nil
}

func (l *till) RealEarnings(context.Context, *store.Tx, string, money.Currency, time.Time, time.Time) ([]pricing.Earning, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]pricing.Earning(nil), l.earned...), nil
}

func newTill(t interface {
	Helper()
	Fatal(...any)
}, ctx context.Context, db *store.DB) *till {
	t.Helper()
	l := &till{ctx: ctx, db: db, now: now}
	clock := func() time.Time { l.mu.Lock(); defer l.mu.Unlock(); return l.now }
	var err error
	if l.books, err = ledger.New(db, clock); err != nil {
		t.Fatal(err)
	}
	f := facts{}
	l.Service, err = New(Config{
		DB: db, Clock: clock, Ledger: l.books, Money: l, Hosts: f, Leases: f,
		ZoneOf: func(context.Context, string) (string, error) { return "UTC", nil },
		Audit: func(context.Context, *store.Tx, account.Principal, string, string, any) error {
			return nil
		},
		Rule: pricing.Payouts{HoldSeconds: 7 * 86400},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.books.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	if err := l.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *till) earn(reference string, amount money.Amount) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.earned = append(l.earned, pricing.Earning{Reference: reference, At: l.now, Amount: amount})
}

func (l *till) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

func (l *till) balance(t interface{ Fatal(...any) }, path string) (b money.Amount) {
	if err := l.db.View(l.ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = l.books.Balance(ctx, tx, path, money.USD)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAPayoutSetsAsideWholeCentsOnceForEachBatch(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l := newTill(t, t.Context(), db)
		l.earn("ls-1", 12_345_678)
		if list, err := l.CreatePayouts(t.Context(), operator, Batch{Name: "b1"}); err != nil || len(list) != 0 {
			t.Fatalf("held money is paid: %+v, %v", list, err)
		}
		l.pass(7 * 24 * time.Hour)
		var first []Payout
		for range 3 {
			list, err := l.CreatePayouts(t.Context(), operator, Batch{Name: "b1"})
			if err != nil || len(list) != 1 || list[0].Amount != 12_340_000 {
				t.Fatalf("%+v, %v", list, err)
			}
			if first == nil {
				first = list
			}
			if list[0].ID != first[0].ID {
				t.Errorf("the batch has another payout now: %+v", list)
			}
		}
		if got := l.balance(t, PayoutsAccount); got != 12_340_000 {
			t.Errorf("%s stands at %s", PayoutsAccount, got)
		}
		if list, err := l.CreatePayouts(t.Context(), operator, Batch{Name: "b2"}); err != nil || len(list) != 0 {
			t.Errorf("less than a cent is paid: %+v, %v", list, err)
		}
	})
}

func TestTwoBatchesAtTheSameTimePayOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l := newTill(t, t.Context(), db)
		l.earn("ls-1", 50_000_000)
		l.pass(8 * 24 * time.Hour)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if _, err := l.CreatePayouts(t.Context(), operator, Batch{Name: "b" + string(rune('0'+i))}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := l.balance(t, PayoutsAccount); got != 50_000_000 {
			t.Errorf("%s stands at %s, want what was earned", PayoutsAccount, got)
		}
	})
}

func TestNothingButAnOperatorMakesOrMarksPayouts(t *testing.T) {
	t.Parallel()
	l := newTill(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	owner := account.Principal{UserID: "us", AccountID: "ac", Role: account.Owner}
	_, create := l.CreatePayouts(t.Context(), owner, Batch{Name: "b"})
	_, mark := l.Mark(t.Context(), owner, "po-1", Pay, "x", "")
	for _, err := range []error{create, mark} {
		if f, ok := fault.As(err); !ok || f.Kind != fault.Forbidden {
			t.Errorf("%v", err)
		}
	}
}

// Whatever is earned, taken back and said of payouts: each amount is with the
// provider, set aside or paid, never twice, and never more than was earned is out.
func TestPayoutsNeverPayMoreThanWasEarnedWhateverHappens(t *testing.T) {
	t.Parallel()
	address := storetest.Address(t)
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		ctx := context.Background()
		db := storetest.Open(t, address)
		l := newTill(r, ctx, db)
		if n > 1 { // one database for all: what was before is taken away
			if err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `DELETE FROM earning_payouts`)
				return err
			}); err != nil {
				r.Fatal(err)
			}
		}
		before := l.balance(r, PayoutsAccount)
		var earned money.Amount
		var batches int
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				a := money.Amount(rapid.Int64Range(1, 90_000_000).Draw(r, "earned"))
				l.earn("ls", a)
				earned += a
			case 1:
				l.pass(time.Duration(rapid.Int64Range(1, 200).Draw(r, "hours")) * time.Hour)
			case 2:
				batches++
				if _, err := l.CreatePayouts(ctx, operator, Batch{Name: "b" + time.Duration(batches).String()}); err != nil {
					r.Fatal(err)
				}
			case 3:
				list, err := l.Payouts(ctx, "ac", "", "", 100)
				if err != nil {
					r.Fatal(err)
				}
				if len(list) == 0 {
					continue
				}
				p := rapid.SampledFrom(list).Draw(r, "payout")
				e := rapid.SampledFrom([]PayoutEvent{Approve, Pay, Fail, Decline, Return}).Draw(r, "event")
				to, ok := p.State.Next(e)
				got, err := l.Mark(ctx, operator, p.ID, e, "bank", "")
				if ok && (err != nil || got.State != to) {
					r.Fatalf("%s from %s: %s, %v; want %s", e, p.State, got.State, err, to)
				}
			}
			var out money.Amount
			list, err := l.Payouts(ctx, "ac", "", "", 100)
			if err != nil {
				r.Fatal(err)
			}
			for _, p := range list {
				if !p.State.givenBack() {
					out += p.Amount
				}
			}
			if got := l.balance(r, PayoutsAccount) - before; got != out {
				r.Fatalf("the books have %s out, the payouts %s", got, out)
			}
			if out > earned {
				r.Fatalf("%s is out of %s earned", out, earned)
			}
			have, err := l.Payables(ctx, "ac")
			if err != nil {
				r.Fatal(err)
			}
			for _, p := range have {
				if p.Held+p.Available+p.Reserved+p.Paid-p.Owed != p.Earned {
					r.Fatalf("parts do not add up: %+v", p)
				}
			}
		}
		if report, err := l.books.Verify(ctx); err != nil || !report.OK() {
			r.Fatalf("%+v, %v", report, err)
		}
	})
}

func TestTheDocumentShowsThePayoutStates(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/host.md", "<!-- payout states: begin -->\n", "<!-- payout states: end -->", PayoutTable())
}
