package reservation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/reservation"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var (
	noon     = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	renter   = account.Principal{UserID: "us-renter", AccountID: "ac-renter", Role: account.Owner}
	host     = account.Principal{UserID: "us-host", AccountID: "ac-host", Role: account.Owner}
	operator = account.Principal{UserID: "us-op", AccountID: "ac-op", Role: account.Owner, Operator: true}
)

// In a process with this in its environment, the test binary is the victim of the
// test below.
const victimEnv = "SUANLI_RESERVATION_VICTIM"

func TestMain(m *testing.M) {
	if address := os.Getenv(victimEnv); address != "" {
		if err := victim(address, os.Args[1:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// cloud is the real services that reservations stand on, with one host of four GPUs
// and a clock that stands still until it is set.
type cloud struct {
	db      *store.DB
	now     time.Time
	books   *ledger.Ledger
	billing *billing.Service
	fleet   *fleet.Service
	own     *reservation.Service
	diskGiB int64 // of the host
	news    []notify.ReservationEnding
}

// Announce takes the place of the news service.
func (c *cloud) Announce(_ context.Context, _ *store.Tx, accountID, kind, _ string, _ time.Time, data any) error {
	if accountID != renter.AccountID || kind != notify.KindReservationEnding {
		return fmt.Errorf("%s is told %s", accountID, kind)
	}
	c.news = append(c.news, data.(notify.ReservationEnding))
	return nil
}

func open(ctx context.Context, address string) (*cloud, error) {
	c := &cloud{now: noon, diskGiB: 1 << 10}
	clock := func() time.Time { return c.now }
	var err error
	if c.db, err = store.Open(ctx, address); err != nil {
		return nil, err
	}
	if c.books, err = ledger.New(c.db, clock); err != nil {
		return nil, err
	}
	c.billing, err = billing.New(billing.Config{DB: c.db, Clock: clock, Ledger: c.books,
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.USD, nil }})
	if err != nil {
		return nil, err
	}
	facts, err := catalog.Load("")
	if err != nil {
		return nil, err
	}
	terms := fleet.StandardDefaults()
	terms.ReserveBounds = pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 5000}
	// All else that the host says is said at the same moment, so it never falls silent.
	if c.fleet, err = fleet.New(fleet.Config{DB: c.db, Catalog: facts, Clock: clock, Elapsed: func() time.Duration { return time.Minute }, Defaults: terms}); err != nil {
		return nil, err
	}
	c.own, err = reservation.New(reservation.Config{DB: c.db, Clock: clock, Capacity: c.fleet, Money: c.billing, News: c, Bounds: terms.ReserveBounds,
		Account: func(context.Context, string) (money.Currency, string, error) { return money.USD, "UTC", nil }})
	return c, err
}

// join makes the tables and the host, and returns the host's identifier.
func (c *cloud) join(ctx context.Context) (string, error) {
	for _, migrate := range []func(context.Context) error{c.books.Migrate, c.billing.Migrate, c.fleet.Migrate, c.own.Migrate, c.fleet.Load} {
		if err := migrate(ctx); err != nil {
			return "", err
		}
	}
	token, _, err := c.fleet.CreateJoinToken(ctx, host, fleet.JoinToken{})
	if err != nil {
		return "", err
	}
	reply, err := c.fleet.Enrol(ctx, protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: "U" + strings.Repeat("A", 55), Name: "host", Version: protocol.Version, Build: "test"},
		func(_, id string) (string, error) { return "certificate of " + id, nil })
	if err != nil {
		return "", err
	}
	if err := c.report(ctx, reply.HostID); err != nil {
		return "", err
	}
	_, err = c.fleet.SetListing(ctx, host, reply.HostID, fleet.ListingChange{Reserve: &pricing.Curve{Terms: []pricing.TermDiscount{{Months: 1, BasisPoints: 1000}}, PartialBasisPoints: 500, AllBasisPoints: 500}})
	return reply.HostID, err
}

// report is the host's word of four free GPUs, in a session of this process.
func (c *cloud) report(ctx context.Context, hostID string) error {
	inv := &protocol.Inventory{
		Hostname: "host", Architecture: "amd64", CPUModel: "EPYC", CPUs: 32, MemoryMiB: 65536, DiskMiB: c.diskGiB << 10, Runtime: "docker 20.10.24", Isolation: []string{"runc"}, DiskQuota: "loop",
		SelfTest: protocol.SelfTest{RanAt: protocol.Instant{BootID: "boot", Nanos: int64(time.Minute)}, Passed: true, NetDownMbps: 900, NetUpMbps: 800, DiskReadMBps: 2000, DiskWriteMBps: 1000},
	}
	for i := range 4 {
		inv.GPUs = append(inv.GPUs, protocol.GPU{
			UUID: fmt.Sprintf("GPU-%d", i), Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090", VRAMMiB: 24564, Driver: "550.54.15", MaxCUDA: "12.4",
			ComputeCapability: "8.9", PCIeGen: 4, PCIeWidth: 16, NUMANode: -1, Health: protocol.Health{State: protocol.Healthy},
		})
	}
	reply, err := c.fleet.Report(ctx, hostID, protocol.Report{Session: fmt.Sprint("of process ", os.Getpid()), Seq: 1, Ready: true, Inventory: inv,
		Now: protocol.Instant{BootID: "boot", Nanos: int64(time.Minute)}}, c.now)
	if err == nil && !reply.Accepted {
		err = fmt.Errorf("the report is refused: %+v", reply)
	}
	return err
}

// reservations are all of the renter's, oldest first.
func (c *cloud) reservations(ctx context.Context) ([]*reservation.Reservation, error) {
	var out []*reservation.Reservation
	for cursor := ""; ; {
		list, next, err := c.own.List(ctx, renter, false, cursor, 200)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
		if cursor = next; next == "" {
			slices.Reverse(out)
			return out, nil
		}
	}
}

// step is one act of a life, at a time after its begin. What was done already when
// the process died must do no harm when it is done again.
type step struct {
	after time.Duration
	act   func(ctx context.Context, c *cloud, i int) error
}

// life is a reservation that is bought, pays for two leases by the hour, is renewed,
// and is ended early.
func life(began time.Time) []step {
	name := func(i int) string { return fmt.Sprintf("life %04d", i) }
	lease := func(i, n int) string { return fmt.Sprintf("ls-%04d-%d", i, n) }
	turn := func(ctx context.Context, c *cloud, _ int) error { return c.own.Turn(ctx) }
	settle := func(ctx context.Context, c *cloud, i int) error {
		c.billing.ConfirmAlive([]string{lease(i, 0), lease(i, 1)}, c.now)
		return c.billing.Settle(ctx, c.now)
	}
	both := func(act func(ctx context.Context, tx *store.Tx, c *cloud, id string) error) func(context.Context, *cloud, int) error {
		return func(ctx context.Context, c *cloud, i int) error {
			for n := range 2 {
				if err := c.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return act(ctx, tx, c, lease(i, n)) }); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []step{
		{0, func(ctx context.Context, c *cloud, i int) error {
			_, err := c.billing.Deposit(ctx, operator, renter.AccountID, 20_000_000, "", name(i))
			return err
		}},
		{0, func(ctx context.Context, c *cloud, i int) error {
			// Who buys looks first whether it was bought, as clients do by their keys.
			if _, err := c.own.Get(ctx, renter, name(i)); err == nil {
				return nil
			}
			_, err := c.own.Create(ctx, renter, reservation.Purchase{Name: name(i), Renews: true, Agreed: 100_000_000,
				Request: reservation.Request{GPUModel: "RTX 4090", GPUs: 1, Until: began.Add(3 * time.Hour), Payment: pricing.PartialUpfront}})
			return err
		}},
		{0, func(ctx context.Context, c *cloud, i int) error {
			r, err := c.own.Get(ctx, renter, name(i))
			if err != nil {
				return err
			}
			q, err := pricing.NewQuote(pricing.Tariff{Currency: money.USD, Compute: 3_600_000_000, Granularity: pricing.Second, CommissionBasisPoints: 1000},
				pricing.Request{Plan: pricing.OnDemand}, began)
			if err != nil {
				return err
			}
			return both(func(ctx context.Context, tx *store.Tx, c *cloud, id string) error {
				if err := c.billing.BeginLease(ctx, tx, billing.Terms{LeaseID: id, AccountID: renter.AccountID, ProviderID: r.ProviderID, Quote: q, GPUModel: r.GPUModel, Zone: r.Zone, GPUs: 1}); err != nil {
					return err
				}
				return c.billing.StartCompute(ctx, tx, id, began)
			})(ctx, c, i)
		}},
		{50 * time.Minute, settle},
		{90 * time.Minute, settle},
		{2 * time.Hour, both(func(ctx context.Context, tx *store.Tx, c *cloud, id string) error {
			return c.billing.StopCompute(ctx, tx, id, began.Add(100*time.Minute)) // it is learned of late
		})},
		{2*time.Hour + time.Minute, both(func(ctx context.Context, tx *store.Tx, c *cloud, id string) error {
			return c.billing.EndLease(ctx, tx, id, c.now)
		})},
		{3*time.Hour + time.Second, turn}, // it is renewed
		{4*time.Hour + 10*time.Minute, settle},
		{4*time.Hour + 30*time.Minute, func(ctx context.Context, c *cloud, i int) error {
			_, err := c.own.Cancel(ctx, renter, name(i), 100_000_000)
			if f, ok := fault.As(err); ok && f.Kind == fault.NotFound {
				return fmt.Errorf("life %d was not renewed: %w", i, err)
			}
			return err
		}},
		{5 * time.Hour, turn}, // it ends
	}
}

// aLife is how far apart lives begin.
const aLife = 24 * time.Hour

// victim lives from the life in its first argument and the step in its second on to
// the life in its third, and says each step that it has done. The fourth is the
// statement before which it kills itself, 0 for none; then it says how many it
// executed. The fifth is the host.
func victim(address string, args []string) error {
	ctx := context.Background()
	var first, from, last, fatal int
	for i, to := range []*int{&first, &from, &last, &fatal} {
		var err error
		if *to, err = strconv.Atoi(args[i]); err != nil {
			return err
		}
	}
	c, err := open(ctx, address)
	if err != nil {
		return err
	}
	c.now = noon.Add(time.Duration(first) * aLife)
	if err := c.fleet.Load(ctx); err != nil {
		return err
	}
	if err := c.report(ctx, args[4]); err != nil {
		return err
	}
	var statements atomic.Int64
	ctx = store.Observe(ctx, func(string) {
		if statements.Add(1) == int64(fatal) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more is executed until it has arrived
		}
	})
	for i := first; i < last; i++ {
		began := noon.Add(time.Duration(i) * aLife)
		for n, s := range life(began) {
			if n < from {
				continue
			}
			c.now = began.Add(s.after)
			if err := s.act(ctx, c, i); err != nil {
				return fmt.Errorf("life %d, step %d: %w", i, n, err)
			}
			fmt.Println(i, n)
		}
		from = 0
	}
	if fatal == 0 {
		fmt.Fprintln(os.Stderr, "statements:", statements.Load())
	}
	return c.db.Close()
}

// killsEnv says how many times the test below kills on each engine.
const killsEnv = "SUANLI_TEST_RESERVATION_KILLS"

// The process is killed before a statement that is drawn from all that a
// reservation's life executes, commits included: its purchase, what it pays for by
// the hour, its renewal and its early end. At once afterwards the books are right and
// what is held is what reservations say; a next process goes on with the step that
// was not answered for, and each life comes to what one comes to that nobody killed.
func TestKillingTheProcessBetweenAnyTwoStatementsHoldsAndChargesNothingTwice(t *testing.T) {
	t.Parallel()
	kills := 20
	if v := os.Getenv(killsEnv); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatalf("%s: %v", killsEnv, err)
		}
	}
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, address := t.Context(), addressOf(t)
			c, err := open(ctx, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.db.Close() })
			hostID, err := c.join(ctx)
			if err != nil {
				t.Fatal(err)
			}
			steps := len(life(noon))
			at, next := 0, 0 // the life and the step to go on with
			run := func(last, fatal int) (string, error) {
				t.Helper()
				cmd := exec.CommandContext(ctx, os.Args[0], strconv.Itoa(at), strconv.Itoa(next), strconv.Itoa(last), strconv.Itoa(fatal), hostID)
				cmd.Env = append(os.Environ(), victimEnv+"="+address)
				var side bytes.Buffer
				cmd.Stderr = &side
				out, err := cmd.Output()
				for line := range strings.Lines(string(out)) {
					if _, err := fmt.Sscan(line, &at, &next); err != nil {
						t.Fatalf("the victim says %q", line)
					}
					if next++; next == steps {
						at, next = at+1, 0
					}
				}
				return side.String(), err
			}
			check := func() {
				t.Helper()
				c.now = noon.Add(time.Duration(at+1) * aLife)
				if r, err := c.billing.VerifyLedger(ctx); err != nil || !r.OK() {
					t.Fatalf("the books: %+v, %+v, %v", r.Faults, r.Wrong, err)
				}
				list, err := c.reservations(ctx)
				if err != nil {
					t.Fatal(err)
				}
				var open, held []string
				for _, r := range list {
					if !r.State.Over() {
						open = append(open, r.ID)
					}
				}
				if err := c.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
					rows, err := tx.Query(ctx, `SELECT id FROM fleet_holdings ORDER BY id`)
					if err != nil {
						return err
					}
					defer rows.Close()
					for rows.Next() {
						var id string
						if err := rows.Scan(&id); err != nil {
							return err
						}
						held = append(held, id)
					}
					return rows.Err()
				}); err != nil {
					t.Fatal(err)
				}
				slices.Sort(open)
				if len(open) > 1 || !slices.Equal(open, held) {
					t.Fatalf("reservations %v are open, and GPUs are held for %v", open, held)
				}
			}
			balances := func() (out [4]money.Amount) {
				t.Helper()
				if err := c.db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
					for i, path := range []string{ledger.Wallet(renter.AccountID), ledger.Hold(renter.AccountID), ledger.Payable(host.AccountID), ledger.Commission} {
						if out[i], err = c.books.Balance(ctx, tx, path, money.USD); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return out
			}
			said, err := run(1, 0)
			var statements int
			if _, scan := fmt.Sscanf(said, "statements: %d", &statements); err != nil || scan != nil || statements < 100 {
				t.Fatalf("a reservation's life: %v: %s", err, said)
			}
			check()
			one := balances()
			list, err := c.reservations(ctx)
			if err != nil || len(list) != 2 || list[0].Code != "renewed" || list[1].RenewalOf != list[0].ID || list[1].Code != "given_up" || list[1].State != reservation.Ended {
				t.Fatalf("a life that nobody killed: %+v, %v", list, err)
			}
			if one[0] >= 19_000_000 || one[1] != 0 || one[2] == 0 || one[3] == 0 {
				t.Fatalf("a life that nobody killed comes to %v", one)
			}
			died := map[int]bool{}
			for range kills {
				fatal := 1 + rand.IntN(statements)
				said, err := run(1_000_000, fatal)
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the victim was to die before statement %d: %v: %s", fatal, err, said)
				}
				died[fatal] = true
				check()
			}
			if said, err := run(at+1, 0); err != nil {
				t.Fatal(err, said)
			}
			check()
			for i, b := range balances() {
				if b != one[i]*money.Amount(at) {
					t.Errorf("%d lives come to %s, want %d times %s", at, b, at, one[i])
				}
			}
			if list, err = c.reservations(ctx); err != nil || len(list) != 2*at {
				t.Errorf("%d reservations of %d lives, %v, want two of each", len(list), at, err)
			}
			t.Logf("%d kills, at %d of the %d statements of a reservation's life, over %d lives", kills, len(died), statements, at)
		})
	}
}
