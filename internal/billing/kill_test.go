package billing_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// In a process with this in its environment, the test binary is the victim of the
// test below.
const victimEnv = "SUANLI_BILLING_VICTIM"

func TestMain(m *testing.M) {
	if address := os.Getenv(victimEnv); address != "" {
		if err := victim(address, os.Args[1:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	fewerHistories()
	os.Exit(m.Run())
}

// fewerHistories lets properties be tried with 25 random histories each, as many of
// them write thousands of rows on two databases; -rapid.checks says otherwise.
func fewerHistories() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		log.Fatal(err)
	}
}

const (
	victimLeases  = 150
	victimAccount = "ac-renter"
)

// victim enters a deposit, rents for 100 s and settles, again and again, and says
// so after each. It begins with the number in its first argument and ends before
// that in the second. The third is the statement before which it kills itself, 0
// for none; then it says how many it executed.
func victim(address string, args []string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	var first, last, fatal int
	for i, to := range []*int{&first, &last, &fatal} {
		if *to, err = strconv.Atoi(args[i]); err != nil {
			return err
		}
	}
	var statements atomic.Int64
	ctx = store.Observe(ctx, func(string) {
		if statements.Add(1) == int64(fatal) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // nothing more is executed until it has arrived
		}
	})
	now := noon
	clock := func() time.Time { return now }
	books, err := ledger.New(db, clock)
	if err != nil {
		return err
	}
	s, err := billing.New(billing.Config{DB: db, Clock: clock, Ledger: books,
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.CNY, nil }})
	if err != nil {
		return err
	}
	quote, err := pricing.NewQuote(pricing.Tariff{Currency: money.CNY, Compute: 3_600_000_000, Granularity: pricing.Second, CommissionBasisPoints: 2000},
		pricing.Request{Plan: pricing.OnDemand}, noon)
	if err != nil {
		return err
	}
	for i := first; i < last; i++ {
		id := fmt.Sprintf("ls-%04d", i)
		began := noon.Add(time.Duration(i) * 1000 * time.Second)
		ended := began.Add(100 * time.Second)
		now = began
		if _, err := s.Deposit(ctx, operator, victimAccount, 5_000_000, "", id); err != nil {
			return err
		}
		for _, step := range []func(ctx context.Context, tx *store.Tx) error{
			func(ctx context.Context, tx *store.Tx) error {
				return s.BeginLease(ctx, tx, billing.Terms{LeaseID: id, AccountID: victimAccount, ProviderID: "ac-provider", Quote: quote})
			},
			func(ctx context.Context, tx *store.Tx) error { return s.StartCompute(ctx, tx, id, began) },
			nil, // settle in the middle
			func(ctx context.Context, tx *store.Tx) error { return s.StopCompute(ctx, tx, id, ended) },
			func(ctx context.Context, tx *store.Tx) error { return s.EndLease(ctx, tx, id, ended) },
		} {
			if step == nil {
				now = began.Add(50 * time.Second)
				s.ConfirmAlive([]string{id}, now)
				err = s.Settle(ctx, now)
				now = ended
			} else {
				err = db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
					// A lease that was ended before the kill answers a late start so.
					if err := step(ctx, tx); err != nil && !strings.Contains(err.Error(), "has ended") {
						return err
					}
					return nil
				})
			}
			if err != nil {
				return err
			}
		}
		fmt.Println(i)
	}
	if fatal == 0 {
		fmt.Fprintln(os.Stderr, "statements:", statements.Load())
	}
	return db.Close()
}

// The process is killed, without a chance to do anything, at random moments. What
// it had answered for is there, the books balance, and going on from there comes
// to the same amounts as if nothing had happened.
func TestKillingTheProcessChangesNoAmount(t *testing.T) {
	t.Parallel()
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := addressOf(t)
			check := func(done int) {
				t.Helper()
				db, err := store.Open(t.Context(), address)
				if err != nil {
					t.Fatal(err)
				}
				defer db.Close()
				w := newWorld(t, t.Context(), db)
				w.pass(1000 * time.Hour)
				w.right()
				for i := range done {
					if b := w.bill(fmt.Sprintf("ls-%04d", i)); b.Total.String() != "0.100000" || b.Unbilled != 0 || b.Ended.IsZero() {
						t.Fatalf("lease %d was answered for; its bill is %s, unbilled %s, ended %s", i, b.Total, b.Unbilled, b.Ended)
					}
				}
				if done == victimLeases {
					w.wantBalance(ledger.Wallet(victimAccount), "735.000000") // 150 × (5 − 0.1)
					w.wantBalance(ledger.Hold(victimAccount), "0.000000")
					w.wantBalance(ledger.Payable("ac-provider"), "12.000000")
					w.wantBalance(ledger.Commission, "3.000000")
				}
			}
			check(0) // makes the tables
			done, kills := 0, 0
			for done < victimLeases {
				cmd := exec.CommandContext(t.Context(), os.Args[0], strconv.Itoa(done), strconv.Itoa(victimLeases), "0")
				cmd.Env = append(os.Environ(), victimEnv+"="+address)
				var side bytes.Buffer
				cmd.Stderr = &side
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				victims, fatal := rand.IntN(15), false
				for lines.Scan() {
					n, err := strconv.Atoi(lines.Text())
					if err != nil {
						t.Fatalf("the victim says %q", lines.Text())
					}
					done = n + 1
					if victims--; victims <= 0 && !fatal {
						fatal = true
						// Some time into the next round, wherever that is.
						time.AfterFunc(time.Duration(rand.IntN(8_000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
					}
				}
				if err := cmd.Wait(); err != nil && !fatal {
					t.Fatal(err, side.String())
				} else if err != nil {
					kills++
				}
				check(done)
			}
			t.Logf("killed %d times", kills)
		})
	}
}

// killsEnv says how many times the test below kills on each engine.
const killsEnv = "SUANLI_TEST_POSTING_KILLS"

// The process is killed before a statement that is drawn from all that a lease's
// life executes, commits included, and a next one goes on with the same lease. So
// every place between two statements is one that it dies at, sooner or later.
func TestKillingTheProcessBetweenAnyTwoStatementsChangesNoAmount(t *testing.T) {
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
			address := addressOf(t)
			db := storetest.Open(t, address)
			w := newWorld(t, t.Context(), db) // makes the tables
			w.pass(10_000 * time.Hour)
			done := 0
			// run runs a victim and returns what it said aside and how it ended.
			run := func(last, fatal int) (string, error) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), os.Args[0], strconv.Itoa(done), strconv.Itoa(last), strconv.Itoa(fatal))
				cmd.Env = append(os.Environ(), victimEnv+"="+address)
				var side bytes.Buffer
				cmd.Stderr = &side
				out, err := cmd.Output()
				for line := range strings.Lines(string(out)) {
					n, err := strconv.Atoi(strings.TrimSpace(line))
					if err != nil {
						t.Fatalf("the victim says %q", line)
					}
					done = n + 1
				}
				return side.String(), err
			}
			check := func(from int) {
				t.Helper()
				w.right()
				for i := from; i < done; i++ {
					if b := w.bill(fmt.Sprintf("ls-%04d", i)); b.Total.String() != "0.100000" || b.Unbilled != 0 || b.Ended.IsZero() {
						t.Fatalf("lease %d was answered for; its bill is %s, unbilled %s, ended %s", i, b.Total, b.Unbilled, b.Ended)
					}
				}
			}
			said, err := run(1, 0)
			var statements int
			if _, scan := fmt.Sscanf(said, "statements: %d", &statements); err != nil || scan != nil || statements < 20 {
				t.Fatalf("a lease's life: %v: %s", err, said)
			}
			died := map[int]bool{}
			for range kills {
				was := done
				fatal := 1 + rand.IntN(statements)
				said, err := run(1_000_000, fatal)
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the victim was to die before statement %d: %v: %s", fatal, err, said)
				}
				died[fatal] = true
				check(was)
			}
			if said, err := run(done+1, 0); err != nil {
				t.Fatal(err, said)
			}
			check(0)
			w.wantBalance(ledger.Wallet(victimAccount), (money.Amount(done) * 4_900_000).String())
			w.wantBalance(ledger.Hold(victimAccount), "0.000000")
			w.wantBalance(ledger.Payable("ac-provider"), (money.Amount(done) * 80_000).String())
			w.wantBalance(ledger.Commission, (money.Amount(done) * 20_000).String())
			t.Logf("%d kills, at %d of the %d statements of a lease, over %d leases", kills, len(died), statements, done)
		})
	}
}
