package payment_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/payment"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// In a process with these in its environment, the test binary is the victim of the
// test below.
const (
	victimEnv    = "SUANLI_PAYMENT_VICTIM"
	victimPSPEnv = "SUANLI_PAYMENT_VICTIM_PSP"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(victimEnv); address != "" {
		if err := victim(address, os.Getenv(victimPSPEnv), os.Args[1:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// durable is psp whose acts outlive the process: a file for each. It counts acts that
// were done again under another key.
type durable struct {
	*psp
	dir string
}

func (d durable) Create(ctx context.Context, o payment.Order) (payment.Checkout, error) {
	if err := os.WriteFile(filepath.Join(d.dir, "order-"+o.PaymentID), nil, 0o600); err != nil {
		return payment.Checkout{}, err
	}
	return d.psp.Create(ctx, o)
}

func (d durable) Refund(ctx context.Context, r payment.RefundOrder) (payment.Observation, error) {
	if err := os.WriteFile(filepath.Join(d.dir, "refund-"+r.RefundID), fmt.Append(nil, r.Minor), 0o600); err != nil {
		return payment.Observation{}, err
	}
	return d.psp.Refund(ctx, r)
}

// victim makes a payment that is paid, refunds a part, and has the whole disputed and
// won, again and again from the number in its first argument on to that in the second.
// The third is the statement before which it kills itself; 0: none, then it says how
// many it executed.
func victim(address, dir string, args []string) error {
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
	clock := func() time.Time { return noon }
	s, _, _, err := services(ctx, db, clock, durable{newPSP(), dir}, nil)
	if err != nil {
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
		p, err := s.Create(ctx, ada, 10_000_000, "psp", fmt.Sprint("create-", i))
		if err != nil {
			return err
		}
		d := dispute(p, payment.StillOpen)
		d.ItemRef = "dp_" + p.ID
		won := d
		won.Progress = payment.Won
		for _, step := range []func() error{
			func() error { return s.Observe(ctx, "psp", d) }, // before anybody knows what it is about
			func() error { return s.Observe(ctx, "psp", paid(p)) },
			func() error { return s.Observe(ctx, "psp", won) },
			func() error {
				_, err := s.Refund(ctx, operator, p.ID, 4_000_000, "", fmt.Sprint("refund-", i))
				return err
			},
			func() error {
				_, err := s.Deposit(ctx, operator, payment.Transfer{AccountID: ada.AccountID, Amount: 1_000_000, Reference: fmt.Sprint("FT-", i)}, fmt.Sprint("deposit-", i))
				return err
			},
		} {
			if err := step(); err != nil {
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

// The process is killed before a statement that is drawn from all that a payment's
// life executes, commits included. What was left half done is finished by the loop
// alone, and a next process goes on: no money comes or goes twice.
func TestKillingTheProcessBetweenAnyTwoStatementsMovesNoMoneyTwice(t *testing.T) {
	t.Parallel()
	kills := 40
	if v := os.Getenv("SUANLI_TEST_PAYMENT_KILLS"); v != "" {
		var err error
		if kills, err = strconv.Atoi(v); err != nil {
			t.Fatal(err)
		}
	}
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, dir := addressOf(t), t.TempDir()
			l := newTill(t, storetest.Open(t, address))
			var err error
			if l.Service, l.billing, l.books, err = services(l.ctx, l.db, l.clock, durable{l.psp, dir}, nil); err != nil {
				t.Fatal(err)
			}
			l.pass(2 * time.Hour)
			done := 0
			run := func(last, fatal int) (string, error) {
				t.Helper()
				cmd := exec.CommandContext(t.Context(), os.Args[0], strconv.Itoa(done), strconv.Itoa(last), strconv.Itoa(fatal))
				cmd.Env = append(os.Environ(), victimEnv+"="+address, victimPSPEnv+"="+dir)
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
			// repaired is that the loop leaves nothing half done.
			repaired := func() {
				t.Helper()
				l.sweep()
				for _, s := range []payment.State{payment.Created, payment.Succeeded, payment.Refunding} {
					if list, err := l.Payments(l.ctx, payment.Filter{State: s, Limit: 10}); err != nil || len(list) > 0 {
						t.Fatalf("after a look at what is due: %+v, %v", list, err)
					}
				}
				l.pass(11 * time.Minute)
			}
			said, err := run(1, 0)
			var statements int
			if _, scan := fmt.Sscanf(said, "statements: %d", &statements); err != nil || scan != nil || statements < 20 {
				t.Fatalf("a payment's life: %v: %s", err, said)
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
				if r, err := l.books.Verify(l.ctx); err != nil || !r.OK() {
					t.Fatalf("the books: %+v, %v", r, err)
				}
				if rand.IntN(2) == 0 {
					repaired()
				}
			}
			if said, err := run(done+1, 0); err != nil {
				t.Fatal(err, said)
			}
			repaired()
			l.wantSettled(7_000_000 * moneyOf(done))
			refunds, err := filepath.Glob(filepath.Join(dir, "refund-*"))
			if err != nil || len(refunds) != done {
				t.Errorf("%d refunds were made at the provider for %d payments, %v", len(refunds), done, err)
			}
			orders, err := filepath.Glob(filepath.Join(dir, "order-*"))
			if err != nil || len(orders) != done {
				t.Errorf("%d orders were made at the provider for %d payments, %v", len(orders), done, err)
			}
			t.Logf("%d kills, at %d of the %d statements of a payment, over %d payments", kills, len(died), statements, done)
		})
	}
}
