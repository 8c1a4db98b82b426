package sla

import (
	"context"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var (
	operator = account.Principal{UserID: "us-operator", AccountID: "ac-operator", Role: account.Owner, Operator: true}
	renter   = account.Principal{UserID: "us-renter", AccountID: "ac-renter", Role: account.Owner}
	// april is the month in which all happens.
	april = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	// closing is a moment at which it is to be closed.
	closing = time.Date(2026, 5, 3, 0, 0, 1, 0, time.UTC)
)

// world is a lease of ac-renter on a host of ac-provider, charged 720.00 with a
// commission of 10 %, that ran all of April but for what a test says.
type world struct {
	*Service
	t               *testing.T
	db              *store.DB
	books           *ledger.Ledger
	mu              sync.Mutex
	now             time.Time
	lease           lease.Lease
	history         []lease.Change
	windows         []fleet.Announcement
	charge, granted money.Amount
}

func newWorld(t *testing.T, db *store.DB, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, db: db, now: closing, charge: 720_000_000}
	w.lease = lease.Lease{ID: "ls-1", AccountID: renter.AccountID, ProviderID: "ac-provider", HostID: "ho-1"}
	w.lease.Price = pricing.Quote{Currency: money.CNY, TimeZone: "UTC", Tariff: pricing.Tariff{CommissionBasisPoints: 1000}}
	w.event(april.Add(-time.Hour), lease.ConfirmRunning, lease.Running, "")
	clock := func() time.Time { w.mu.Lock(); defer w.mu.Unlock(); return w.now }
	var err error
	if w.books, err = ledger.New(db, clock); err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		DB: db, Clock: clock, Ledger: w.books, Money: w, Leases: w, Hosts: w, Promise: pricing.DefaultPromise(), Penalty: pricing.PenaltyRule{ClawBack: true},
		Audit: func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil },
	}
	for _, c := range change {
		c(&cfg)
	}
	if w.Service, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	if err := w.books.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) event(at time.Time, e lease.Event, to lease.State, code string) {
	w.history = append(w.history, lease.Change{At: at, Event: e, To: to, Code: code})
}

// silent makes the host silent for a time.
func (w *world) silent(from time.Time, d time.Duration) {
	w.event(from, lease.LoseHost, lease.Unreachable, "host_silent")
	w.event(from.Add(d), lease.ConfirmRunning, lease.Running, "")
}

// refused makes the probe in the instance fail for a time.
func (w *world) refused(from time.Time, d time.Duration) {
	w.event(from, lease.HostFault, lease.Running, lease.CodeGPUsRefused)
	w.event(from.Add(d), lease.HostFaultOver, lease.Running, "")
}

func (w *world) Resolve(_ context.Context, p account.Principal, id string) (*lease.Lease, error) {
	if id != w.lease.ID || (p.AccountID != w.lease.AccountID && !p.Operator) {
		return nil, fault.New(fault.NotFound, "lease_not_found", "there is no lease %q", id)
	}
	return &w.lease, nil
}

func (w *world) Record(ctx context.Context, id string) (*lease.Lease, []lease.Change, error) {
	l, err := w.Resolve(ctx, operator, id)
	return l, w.history, err
}

func (w *world) Troubled(context.Context, time.Time, time.Time) ([]string, error) {
	return []string{w.lease.ID}, nil
}

func (w *world) Announced(context.Context, string, time.Time, time.Time) ([]fleet.Announcement, error) {
	return w.windows, nil
}

func (w *world) ChargedApart(context.Context, *store.Tx, string, time.Time, time.Time) (earned money.Amount, currency money.Currency, err error) {
	return 0, "", nil
}

func (w *world) Charged(_ context.Context, _ *store.Tx, _ string, after, _ time.Time) (amount, provider, granted money.Amount, err error) {
	if !after.Equal(april) && after.UTC().Month() != time.March {
		return 0, 0, 0, nil
	}
	return w.charge, w.charge * 9 / 10, w.granted, nil
}

func (w *world) Give(ctx context.Context, tx *store.Tx, _ string, _ money.Currency, transfers ...ledger.Transfer) error {
	return w.books.Post(ctx, tx, transfers...)
}

func (w *world) close() {
	w.t.Helper()
	if err := w.CloseMonths(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// stands checks what the renter has been given and the provider has lost.
func (w *world) stands(given, lost string) {
	w.t.Helper()
	for path, want := range map[string]string{ledger.Wallet(renter.AccountID): given, ledger.Payable("ac-provider"): lost} {
		var got money.Amount
		if err := w.db.View(w.t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
			got, err = w.books.Balance(ctx, tx, path, money.CNY)
			return err
		}); err != nil {
			w.t.Fatal(err)
		}
		if got.String() != want {
			w.t.Errorf("%s stands at %s, want %s", path, got, want)
		}
	}
}

func (w *world) report() Report {
	w.t.Helper()
	r, err := w.Report(w.t.Context(), renter, w.lease.ID, "2026-04")
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestABadMonthIsCreditedOnceWhenItIsClosed(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		w.silent(april.AddDate(0, 0, 9), 50*time.Minute)
		if r := w.report(); r.Availability.PPM != 998_842 || r.Credit.String() != "72.000000" || !r.ClosedAt.IsZero() || len(r.Availability.Outages) != 1 {
			t.Errorf("before the close: %+v", r)
		}
		w.now = closing.Add(-time.Minute)
		w.close()
		w.stands("0.000000", "0.000000")
		w.now = closing
		var all sync.WaitGroup
		for range 4 { // replicas
			all.Go(func() {
				if err := w.CloseMonths(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.close()
		w.stands("72.000000", "-64.800000") // the host's part of the credit
		if r := w.report(); r.ClosedAt.IsZero() {
			t.Error("the month does not say that it is closed")
		}
		list, err := w.Months(t.Context(), renter.AccountID, "", 10)
		if err != nil || len(list) != 1 || list[0].Credit.String() != "72.000000" || list[0].Month != "2026-04" || list[0].AvailabilityPM != 998_842 {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err = w.Months(t.Context(), renter.AccountID, list[0].Cursor(), 10); err != nil || len(list) != 0 {
			t.Errorf("after the last: %+v, %v", list, err)
		}
		if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			taken, err := w.Taken(ctx, tx, "ac-provider", money.CNY)
			if len(taken) != 1 || taken[0].Amount.String() != "-64.800000" || taken[0].Reference != "ls-1" {
				t.Errorf("taken %+v", taken)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// A renter is root in its instance and can make the probe there fail.
func TestAFaultThatOnlyTheInstanceShowsEarnsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	begin := april.AddDate(0, 0, 4)
	w.refused(begin, 10*24*time.Hour)
	w.close()
	w.stands("0.000000", "0.000000")
	r := w.report()
	if r.Availability.PPM != 1_000_000 || r.Credit != 0 || len(r.Uncorroborated) != 1 || r.Uncorroborated[0].Source != "instance_probe" {
		t.Errorf("%+v", r)
	}
	if _, err := w.Confirm(t.Context(), renter, "ls-1", begin, ""); err == nil {
		t.Error("a renter confirms its own outage")
	}
	if _, err := w.Confirm(t.Context(), operator, "ls-1", begin.Add(time.Minute), ""); err == nil {
		t.Error("an outage that was not is confirmed")
	}
	// With an operator's word it counts, although the month is closed.
	for range 3 {
		r, err := w.Confirm(t.Context(), operator, "ls-1", begin, "seen in the host's log")
		if err != nil || r.Availability.BasisPoints != 10_000 || len(r.Uncorroborated) != 0 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	w.stands("720.000000", "-648.000000")
}

func TestAFaultOfTheGPUCountsByTheHostsOwnWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	begin := april.AddDate(0, 0, 4)
	w.event(begin, lease.HostFault, lease.Running, lease.CodeGPUsRefused)
	w.event(begin.Add(time.Hour), lease.HostFault, lease.Running, lease.CodeGPUFault)
	w.event(begin.Add(2*time.Hour), lease.RequestStop, lease.Stopping, "")
	r := w.report()
	if len(r.Availability.Outages) != 1 || r.Availability.DownSeconds != 3600 || len(r.Uncorroborated) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestMaintenanceThatWasAnnouncedInTimeIsNotPromised(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notice time.Duration
		down   int64
	}{"in time": {72 * time.Hour, 1800}, "late": {71 * time.Hour, 5400}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, storetest.Open(t, storetest.Address(t)))
			begin := april.AddDate(0, 0, 9)
			w.silent(begin, 90*time.Minute) // half an hour longer than announced
			w.windows = []fleet.Announcement{{ID: "mw-1", HostID: "ho-1", Window: fleet.Window{From: begin, Until: begin.Add(time.Hour)}, AnnouncedAt: begin.Add(-c.notice)}}
			if r := w.report(); r.Availability.DownSeconds != c.down {
				t.Errorf("down for %d s, want %d: %+v", r.Availability.DownSeconds, c.down, r.Availability)
			}
		})
	}
}

// A lease that runs through its host's maintenance was there all the time.
func TestMaintenanceWithoutAnOutageChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	begin := april.AddDate(0, 0, 9)
	w.windows = []fleet.Announcement{{ID: "mw-1", Window: fleet.Window{From: begin, Until: begin.Add(time.Hour)}, AnnouncedAt: begin}}
	if r := w.report(); r.Availability.PPM != 1_000_000 || r.Availability.PromisedSeconds != 30*86400 {
		t.Errorf("%+v", r.Availability)
	}
}

func TestAHostNeverLosesMoreThanItEarnedFromTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)), func(c *Config) {
		c.Penalty.Steps = []pricing.PenaltyStep{{FromSeconds: 3600, BasisPoints: 5000}}
	})
	w.silent(april.AddDate(0, 0, 4), 10*24*time.Hour)
	w.close()
	// All of the charge is given back; the host's part is all that it had.
	w.stands("720.000000", "-648.000000")
}

func TestAPenaltyIsTakenByTheOperatorsSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)), func(c *Config) {
		c.Penalty = pricing.PenaltyRule{Steps: []pricing.PenaltyStep{{FromSeconds: 3600, BasisPoints: 500}}}
	})
	w.silent(april.AddDate(0, 0, 4), 2*time.Hour)
	w.close()
	w.stands("72.000000", "-32.400000") // 5 % of 648; what is given back is the platform's
}

func TestTheMonthIsThatOfTheAccountsZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	w.lease.Price.TimeZone = "Asia/Shanghai"
	w.silent(time.Date(2026, 4, 30, 15, 30, 0, 0, time.UTC), time.Hour) // half of it in May there
	if r := w.report(); r.Availability.DownSeconds != 1800 || r.Month != "2026-04" {
		t.Errorf("%+v", r)
	}
}

func TestAMonthThatWasMissedIsMadeGood(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	w.silent(april.AddDate(0, 0, 9), 50*time.Minute)
	w.now = time.Date(2026, 7, 31, 12, 0, 0, 0, time.UTC) // the cloud was away
	w.close()
	w.stands("72.000000", "-64.800000")
}

// What a grant paid would become money.
func TestACreditIsNeverMoreThanWhatTheRenterPaidItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, storetest.Open(t, storetest.Address(t)))
	w.granted = 700_000_000
	w.silent(april.AddDate(0, 0, 9), 50*time.Minute)
	if r := w.report(); r.Credit.String() != "20.000000" || r.Granted.String() != "700.000000" {
		t.Errorf("%+v", r)
	}
	w.close()
	w.stands("20.000000", "-18.000000")
	w.granted = 720_000_000
	if r := w.report(); r.Credit != 0 {
		t.Errorf("a lease that a grant paid is given back %s", r.Credit)
	}
}

// apart makes the lease's provider be paid in dollars, by an exchange at 7.2.
type apart struct{ *world }

func (a apart) ChargedApart(_ context.Context, _ *store.Tx, _ string, after, _ time.Time) (money.Amount, money.Currency, error) {
	if !after.Equal(april) && after.UTC().Month() != time.March {
		return 0, "", nil
	}
	return 90_000_000, money.USD, nil
}

// What an exchanged lease is charged goes through the exchange accounts, and so does
// what is taken back of its provider's part, in both currencies.
func TestABadMonthOfAnExchangedLeaseIsCreditedInTheRentersCurrencyAndTakenInTheProviders(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, func(c *Config) { c.Money = apart{c.Money.(*world)} })
		post := func(debit, credit string, amount money.Amount, currency money.Currency) {
			t.Helper()
			if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				return w.books.Post(ctx, tx, ledger.Transfer{Key: ledger.Key(april, debit, credit, string(currency)), Debit: debit, Credit: credit, Amount: amount, Currency: currency, Code: "charge", Reference: "ls-1", EffectiveAt: april})
			}); err != nil {
				t.Fatal(err)
			}
		}
		// What the month was charged, as billing does: 720.00, of which 648.00 for 90 dollars.
		post(ledger.Deposits, ledger.Wallet(renter.AccountID), 720_000_000, money.CNY)
		post(ledger.Wallet(renter.AccountID), ledger.Exchange, 648_000_000, money.CNY)
		post(ledger.Wallet(renter.AccountID), ledger.Commission, 72_000_000, money.CNY)
		post(ledger.Exchange, ledger.Payable("ac-provider"), 90_000_000, money.USD)
		stand := func(path string, currency money.Currency, want string) {
			t.Helper()
			var got money.Amount
			if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
				got, err = w.books.Balance(ctx, tx, path, currency)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got.String() != want {
				t.Errorf("%s stands at %s %s, want %s", path, got, currency, want)
			}
		}
		// Away for more than a hundredth of the month: 25 % of the charge comes back, and of the provider's
		// part the same.
		w.silent(april.Add(100*time.Hour), 9*time.Hour)
		w.close()
		stand(ledger.Wallet(renter.AccountID), money.CNY, "180.000000")
		stand(ledger.Wallet(renter.AccountID), money.USD, "0.000000")
		stand(ledger.Payable("ac-provider"), money.USD, "67.500000")
		stand(ledger.Payable("ac-provider"), money.CNY, "0.000000")
		stand(ledger.Exchange, money.CNY, "486.000000")
		stand(ledger.Exchange, money.USD, "-67.500000") // at the rate of the quote: 486 ÷ 7.2
		w.close()                                       // again
		stand(ledger.Payable("ac-provider"), money.USD, "67.500000")
		if r := w.report(); r.Currency != money.CNY || r.Credit.String() != "180.000000" {
			t.Errorf("the report is %+v", r)
		}
		if r, err := w.books.Verify(t.Context()); err != nil || !r.OK() {
			t.Errorf("the books: %+v, %v", r, err)
		}
	})
}

// All of a month's charge that comes back leaves nothing in the exchange accounts.
func TestAMonthThatIsWhollyGivenBackLeavesNothingExchanged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, func(c *Config) { c.Money = apart{c.Money.(*world)} })
		w.silent(april.Add(24*time.Hour), 20*24*time.Hour)
		w.close()
		for currency, want := range map[money.Currency]string{money.CNY: "-648.000000", money.USD: "90.000000"} {
			var got money.Amount
			if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
				got, err = w.books.Balance(ctx, tx, ledger.Exchange, currency)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			// The charge, which is not posted in this test, put the opposite there.
			if got.String() != want {
				t.Errorf("the exchange account of %s moved by %s, want %s", currency, got, want)
			}
		}
	})
}
