package budget_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var (
	operator = account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}
	renter   = account.Principal{UserID: "us-renter", AccountID: "ac-renter", Role: account.Owner}
)

// tb is what *testing.T and *rapid.T have in common.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

// world is budgets over a real billing service, with a clock that stands still until
// it is moved.
type world struct {
	*budget.Service
	t       tb
	ctx     context.Context
	db      *store.DB
	billing *billing.Service
	zone    string
	fail    error // of every announcement

	mu      sync.Mutex
	now     time.Time
	tags    map[string]budget.Tag
	told    []notify.BudgetReached
	stopped map[string]int
}

func newWorld(t tb, ctx context.Context, db *store.DB, zone string, now time.Time) *world {
	t.Helper()
	w := &world{t: t, ctx: ctx, db: db, zone: zone, now: now, tags: map[string]budget.Tag{}, stopped: map[string]int{}}
	books, err := ledger.New(db, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	currency := func(context.Context, string) (money.Currency, error) { return money.CNY, nil }
	w.billing, err = billing.New(billing.Config{DB: db, Clock: w.clock, Ledger: books, CurrencyOf: currency,
		PartyOf: func(_ context.Context, id string) (billing.Party, error) {
			return billing.Party{Name: id, TimeZone: zone}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	w.Service, err = budget.New(budget.Config{
		DB: db, Clock: w.clock, Money: w.billing, News: w, CurrencyOf: currency,
		Tags: func(context.Context, string, []string) (map[string]budget.Tag, error) { return w.tags, nil },
		StopLease: func(_ context.Context, id string) error {
			w.stopped[id]++
			return nil
		},
		HasUser: func(context.Context, string, string) error { return nil },
		ZoneOf:  func(context.Context, string) (string, error) { return zone, nil },
		Audit:   func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []interface{ Migrate(context.Context) error }{books, w.billing, w.Service} {
		if err := m.Migrate(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.billing.Deposit(ctx, operator, renter.AccountID, 1_000_000_000_000, "wire", ""); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Announce collects what is told. A failure rolls the transaction back, as a crash does.
func (w *world) Announce(_ context.Context, _ *store.Tx, accountID, kind, _ string, _ time.Time, data any) error {
	if w.fail != nil {
		return w.fail
	}
	if accountID != renter.AccountID || kind != notify.KindBudgetReached {
		w.t.Errorf("told %s %s", accountID, kind)
	}
	w.told = append(w.told, data.(notify.BudgetReached))
	return nil
}

// run begins a lease at 3.60 an hour and starts it.
func (w *world) run(id string, tag budget.Tag) {
	w.t.Helper()
	q, err := pricing.NewQuote(pricing.Tariff{Currency: money.CNY, Compute: 3_600_000_000, Storage: 350_000_000, Granularity: pricing.Second, MinimumSeconds: 60, CommissionBasisPoints: 2000},
		pricing.Request{Plan: pricing.OnDemand, TimeZone: w.zone}, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	w.tags[id] = tag
	w.do(func(ctx context.Context, tx *store.Tx) error {
		if err := w.billing.BeginLease(ctx, tx, billing.Terms{LeaseID: id, AccountID: renter.AccountID, ProviderID: "ac-provider", Quote: q}); err != nil {
			return err
		}
		return w.billing.StartCompute(ctx, tx, id, w.clock())
	})
}

func (w *world) end(id string) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.billing.EndLease(ctx, tx, id, w.clock()) })
}

func (w *world) do(op func(ctx context.Context, tx *store.Tx) error) {
	w.t.Helper()
	if err := w.db.Update(w.ctx, op); err != nil {
		w.t.Fatal(err)
	}
}

// to moves the clock; all that runs is alive until then.
func (w *world) to(at time.Time) {
	w.mu.Lock()
	w.now = at
	w.mu.Unlock()
	var ids []string
	for id := range w.tags {
		ids = append(ids, id)
	}
	w.billing.ConfirmAlive(ids, at)
}

func (w *world) look() {
	w.t.Helper()
	if err := w.Look(w.ctx); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) create(b budget.Budget) budget.Status {
	w.t.Helper()
	v, err := w.Create(w.ctx, renter, b)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) show(name string) budget.Status {
	w.t.Helper()
	v, err := w.Show(w.ctx, renter, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// charged is the sum of the charges of some leases that a month's invoice has, by the
// charges themselves.
func (w *world) charged(from, until time.Time, in func(id string) bool) (sum money.Amount) {
	w.t.Helper()
	err := w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT lease_id, amount, booked_at FROM billing_charges`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			var amount, booked int64
			if err := rows.Scan(&id, &amount, &booked); err != nil {
				return err
			}
			if at := store.Time(booked); in(id) && at.After(from) && !at.After(until) {
				sum += money.Amount(amount)
			}
		}
		return rows.Err()
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return sum
}

func wantShares(t *testing.T, got []notify.BudgetReached, want ...int64) {
	t.Helper()
	var shares []int64
	for _, n := range got {
		share := n.ShareBasisPoints
		if n.Forecast != 0 {
			share = -share
		}
		shares = append(shares, share)
	}
	if fmt.Sprint(shares) != fmt.Sprint(want) {
		t.Errorf("told %v, want %v (negative: of the forecast)", shares, want)
	}
}

func day(d int, hour int) time.Time { return time.Date(2026, 3, d, hour, 0, 0, 0, time.UTC) }

func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { test(t, newWorld(t, t.Context(), db, "UTC", day(2, 0))) })
}

func TestEachThresholdIsToldOnceInAPeriodAndAgainAfterARaise(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.create(budget.Budget{Name: "all", Amount: 36_000_000, Thresholds: []pricing.Alert{{BasisPoints: 5000}, {BasisPoints: 10_000}}})
		w.run("ls-1", budget.Tag{})
		w.to(day(2, 4))
		w.look()
		wantShares(t, w.told)
		w.to(day(2, 5)) // half of it, posted or not
		w.look()
		w.look()
		wantShares(t, w.told, 5000)
		if n := w.told[0]; n.Spent != 18_000_000 || n.Amount != 36_000_000 || !n.From.Equal(day(1, 0)) || !n.To.Equal(day(32, 0)) {
			t.Errorf("told %+v", n)
		}
		w.to(day(2, 10))
		w.look()
		if err := w.billing.Settle(w.ctx, w.clock()); err != nil {
			t.Fatal(err)
		}
		w.look()
		wantShares(t, w.told, 5000, 10_000)
		more := money.Amount(50_000_000) // 72 % of it are spent: half stays told, all is told anew
		if _, err := w.Set(w.ctx, renter, "all", budget.Change{Amount: &more}); err != nil {
			t.Fatal(err)
		}
		wantShares(t, w.told, 5000, 10_000)
		w.to(day(2, 14))
		w.look()
		wantShares(t, w.told, 5000, 10_000, 10_000)
		w.to(day(32, 0)) // the next month
		w.end("ls-1")
		w.look()
		wantShares(t, w.told, 5000, 10_000, 10_000)
	})
}

func TestAForecastIsWhatIsSpentAndWhatBurnsUntilTheEnd(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.run("ls-1", budget.Tag{})
		w.to(day(2, 10))
		v := w.create(budget.Budget{Name: "all", Amount: 2_000_000_000})
		left := int64(day(32, 0).Sub(day(2, 10)) / time.Hour)
		if v.Spent != 36_000_000 || v.Unposted != 36_000_000 || v.BurnPerHour != 3_600_000 || v.Forecast != v.Spent+money.Amount(left)*3_600_000 {
			t.Errorf("%+v", v)
		}
		wantShares(t, w.told, -10_000)
	})
}

func TestWhatWasSpentWhileNothingLookedIsToldAfterTheMonth(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.create(budget.Budget{Name: "all", Amount: 36_000_000, Thresholds: []pricing.Alert{{BasisPoints: 10_000}, {BasisPoints: 10_000, Forecast: true}}, Action: budget.Refuse})
		w.to(day(31, 14))
		w.run("ls-1", budget.Tag{})
		w.to(day(32, 2)) // ten hours in March, two in April
		w.look()
		wantShares(t, w.told, 10_000, -10_000)
		if n := w.told[0]; !n.From.Equal(day(1, 0)) || n.Spent != 36_000_000 {
			t.Errorf("of March: %+v", n)
		}
		if n := w.told[1]; !n.From.Equal(day(32, 0)) || n.Spent != 7_200_000 {
			t.Errorf("of April: %+v", n)
		}
		if v := w.show("all"); v.Blocks || v.Spent != 7_200_000 {
			t.Errorf("in April: %+v", v)
		}
	})
}

func TestAUsedUpBudgetRefusesAndStopsItsScopeUntilTheMonthEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		red, blue := map[string]string{"team": "red"}, map[string]string{"team": "blue"}
		w.create(budget.Budget{Name: "red", Amount: 3_600_000, Label: "team=red", Action: budget.Stop})
		w.create(budget.Budget{Name: "bob", Amount: 3_600_000, UserID: "us-bob", Action: budget.Refuse})
		w.create(budget.Budget{Name: "told", Amount: 1})
		allow := func(user string, labels map[string]string) (err error) {
			_ = w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
				err = w.Allow(ctx, tx, renter.AccountID, user, labels)
				return nil
			})
			return err
		}
		w.run("ls-red", budget.Tag{UserID: "us-ada", Labels: red})
		w.run("ls-bob", budget.Tag{UserID: "us-bob", Labels: blue})
		w.run("ls-ada", budget.Tag{UserID: "us-ada", Labels: blue})
		w.look()
		if err := allow("us-bob", red); err != nil {
			t.Errorf("before it is spent: %v", err)
		}
		w.to(day(2, 1))
		w.look()
		w.look()
		if len(w.stopped) != 1 || w.stopped["ls-red"] != 2 {
			t.Errorf("stopped %v, want ls-red, asked until it has stopped", w.stopped)
		}
		for _, c := range []struct {
			user   string
			labels map[string]string
			ok     bool
		}{{"us-ada", red, false}, {"us-bob", blue, false}, {"us-ada", blue, true}, {"us-ada", nil, true}} {
			err := allow(c.user, c.labels)
			if f, _ := fault.As(err); (err == nil) != c.ok || !c.ok && f.Code != "budget_reached" {
				t.Errorf("%s with %v: %v", c.user, c.labels, err)
			}
		}
		w.end("ls-red")
		w.to(day(32, 0))
		if err := allow("us-ada", red); err != nil {
			t.Errorf("in the next month: %v", err)
		}
		w.to(day(31, 0))
		if err := w.Delete(w.ctx, renter, "red"); err != nil {
			t.Fatal(err)
		}
		if err := allow("us-ada", red); err != nil {
			t.Errorf("without the budget: %v", err)
		}
	})
}

func TestACrashWhileTellingLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.create(budget.Budget{Name: "all", Amount: 3_600_000, Thresholds: []pricing.Alert{{BasisPoints: 10_000}}, Action: budget.Refuse})
		w.run("ls-1", budget.Tag{})
		w.to(day(2, 2))
		w.fail = context.DeadlineExceeded
		if err := w.Look(w.ctx); err == nil {
			t.Fatal("the failure is not told")
		}
		if v := w.show("all"); len(v.Told) != 0 || v.Blocks {
			t.Errorf("after the failure: %+v", v)
		}
		w.fail = nil
		var both sync.WaitGroup
		for range 2 { // replicas
			both.Go(w.look)
		}
		both.Wait()
		wantShares(t, w.told, 10_000)
	})
}

func TestAFixedPeriodHasItsOwnEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.create(budget.Budget{Name: "sprint", Amount: 36_000_000, From: day(3, 0), Until: day(5, 0), Thresholds: []pricing.Alert{{BasisPoints: 5000}}, Action: budget.Refuse})
		w.run("ls-1", budget.Tag{})
		w.to(day(2, 20))
		w.look()
		if v := w.show("sprint"); v.Spent != 0 || v.Forecast != 0 {
			t.Errorf("before it begins: %+v", v)
		}
		w.to(day(3, 6))
		w.look()
		if v := w.show("sprint"); v.Spent != 6*3_600_000 {
			t.Errorf("after six hours: %+v", v)
		}
		wantShares(t, w.told, 5000)
		w.to(day(7, 0))
		w.look()
		if v := w.show("sprint"); v.Spent != 48*3_600_000 || v.Forecast != v.Spent || v.Blocks {
			t.Errorf("afterwards: %+v", v)
		}
	})
}

// Random leases with labels and users, that start, end and are settled at random
// times around ends of months and changes of clocks: what budgets say is spent is
// the sum of the charges in their scope, to the last unit, and what is not posted is
// what a settlement then posts.
func TestSpentIsExactlyTheSumOfTheChargesInScope(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		zone := rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(r, "zone")
		start := rapid.SampledFrom([]time.Time{day(28, 0), time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC), time.Date(2028, 2, 27, 0, 0, 0, 0, time.UTC)}).Draw(r, "start")
		db, err := store.Open(t.Context(), fmt.Sprintf("sqlite:%s/%d.db", filepath.Clean(dir), n))
		if err != nil {
			r.Fatal(err)
		}
		defer db.Close()
		w := newWorld(r, t.Context(), db, zone, start)
		scopes := []budget.Budget{{Name: "all"}, {Name: "red", Label: "team=red"}, {Name: "bob", UserID: "us-bob"}, {Name: "red of bob", Label: "team=red", UserID: "us-bob"}}
		for _, b := range scopes {
			b.Amount = 1_000_000
			w.create(b)
		}
		// As the loop does within a minute: charges are cut at ends of open months.
		if err := w.billing.CloseMonths(w.ctx, w.clock()); err != nil {
			r.Fatal(err)
		}
		var open []string
		for step := range rapid.IntRange(5, 25).Draw(r, "steps") {
			w.to(w.clock().Add(time.Duration(rapid.Int64Range(1, int64(20*time.Hour/time.Microsecond)).Draw(r, "passes")) * time.Microsecond))
			switch rapid.SampledFrom([]string{"run", "run", "end", "settle", "close", "look"}).Draw(r, "act") {
			case "run":
				id := fmt.Sprint("ls-", step)
				w.run(id, budget.Tag{UserID: rapid.SampledFrom([]string{"us-bob", "us-ada"}).Draw(r, "user"), Labels: map[string]string{"team": rapid.SampledFrom([]string{"red", "blue"}).Draw(r, "team")}})
				open = append(open, id)
			case "end":
				if len(open) > 0 {
					w.end(open[0])
					open = open[1:]
				}
			case "settle":
				if err := w.billing.Settle(w.ctx, w.clock()); err != nil {
					r.Fatal(err)
				}
			case "close":
				if err := w.billing.CloseMonths(w.ctx, w.clock()); err != nil {
					r.Fatal(err)
				}
			case "look":
				w.look()
			}
			check := func(settled bool) {
				for _, b := range scopes {
					v := w.show(b.Name)
					want := w.charged(v.Period.Start, v.Period.End, func(id string) bool {
						tag := w.tags[id]
						return (b.Label == "" || tag.Labels["team"] == "red") && (b.UserID == "" || tag.UserID == b.UserID)
					})
					if v.Spent-v.Unposted != want || settled && v.Unposted != 0 {
						r.Fatalf("%s: spent %s of which %s are not posted, and the charges come to %s", b.Name, v.Spent, v.Unposted, want)
					}
				}
			}
			before := w.show("all").Spent
			check(false)
			if rapid.Bool().Draw(r, "settles") {
				if err := w.billing.Settle(w.ctx, w.clock()); err != nil {
					r.Fatal(err)
				}
				check(true)
				if after := w.show("all").Spent; after != before {
					r.Fatalf("%s were spent before the settlement and %s after it", before, after)
				}
			}
		}
	})
}
