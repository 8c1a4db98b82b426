package ledger_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func together(ctx context.Context, l *ledger.Ledger, batch ...ledger.Transfer) error {
	return l.Update(ctx, "", func(ctx context.Context, tx *store.Tx) error { return l.Post(ctx, tx, batch...) })
}

// atOnce calls fn so many times, all of them while a first call is being executed,
// so that they wait together; it returns what each returned.
func atOnce(t *testing.T, l *ledger.Ledger, n int, fn func(i int) error) []error {
	t.Helper()
	begun, open := make(chan struct{}, 8), make(chan struct{})
	errs := make([]error, n)
	var all, plugs sync.WaitGroup
	for range 2 { // as many as are executed at the same time
		plugs.Go(func() {
			_ = l.Update(context.Background(), "", func(context.Context, *store.Tx) error {
				begun <- struct{}{}
				<-open
				return nil
			})
		})
	}
	<-begun
	var started sync.WaitGroup
	started.Add(n)
	for i := range errs {
		all.Go(func() {
			started.Done()
			errs[i] = fn(i)
		})
	}
	started.Wait()
	close(open)
	all.Wait()
	plugs.Wait()
	return errs
}

func TestOneThatFailsInAGroupFailsAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		dollars := func(tr ledger.Transfer) ledger.Transfer { // a currency of their own, as all of one must fit
			tr.Currency = money.USD
			return tr
		}
		if err := post(ctx, db, l, transfer("funds", ledger.Deposits, ledger.Wallet("a"), 100), transfer("k", "x", "y", 1), dollars(transfer("big", "many", "z", 1<<63-1))); err != nil {
			t.Fatal(err)
		}
		mine := errors.New("mine")
		errs := atOnce(t, l, 60, func(i int) error {
			key := fmt.Sprint("n", i)
			switch i % 6 {
			case 0:
				return together(ctx, l, transfer(key, ledger.Wallet("a"), ledger.Payable("p"), 3))
			case 1: // a replay, of before and of the same moment
				return together(ctx, l, transfer("k", "x", "y", 1), transfer("same", "x", "y", 1))
			case 2:
				return together(ctx, l, transfer("k", "x", "y", 2))
			case 3:
				return together(ctx, l, transfer(key+"in", "x", "y", 5), transfer(key, ledger.Wallet("a"), ledger.Payable("p"), 1000))
			case 4:
				return together(ctx, l, dollars(transfer(key, "many", "z", 1)))
			}
			return l.Update(ctx, "", func(ctx context.Context, tx *store.Tx) error {
				if err := l.Post(ctx, tx, transfer(key, "x", "y", 7)); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `INSERT INTO ledger_accounts (path, currency, debits, credits, guarded, version) VALUES (?, 'CNY', 0, 0, 0, 0)`, key); err != nil {
					return err
				}
				return mine
			})
		})
		for i, err := range errs {
			switch i % 6 {
			case 0, 1:
				if err != nil {
					t.Errorf("%d failed by others: %v", i, err)
				}
			case 2:
				wantCode(t, err, fault.Conflict, "idempotency_conflict")
			case 3:
				wantCode(t, err, fault.Payment, "insufficient_balance")
			case 4:
				if !errors.Is(err, money.ErrOverflow) {
					t.Errorf("got %v, want an overflow", err)
				}
			case 5:
				if !errors.Is(err, mine) {
					t.Errorf("got %v, want its own error", err)
				}
			}
		}
		if b := balance(t, ctx, db, l, ledger.Wallet("a")); b != 70 {
			t.Errorf("wallet %d, want 70", b)
		}
		if b := balance(t, ctx, db, l, "y"); b != 2 {
			t.Errorf("y %d, want 2", b)
		}
		if r := right(t, ctx, l); r.Transfers != 14 || r.Accounts != 7 {
			t.Errorf("%d transfers and %d accounts, want 14 and 7", r.Transfers, r.Accounts)
		}
	})
}

// Each reads the balance, decides by it, posts and reads it again, in two replicas.
func TestInAGroupEachSeesWhatTheOnesBeforeHavePosted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		if err := post(ctx, db, l, transfer("funds", ledger.Deposits, ledger.Wallet("a"), 1000)); err != nil {
			t.Fatal(err)
		}
		errs := atOnce(t, l, 64, func(i int) error {
			return l.Update(ctx, "", func(ctx context.Context, tx *store.Tx) error {
				before, err := l.Balance(ctx, tx, ledger.Wallet("a"), money.CNY)
				if err != nil {
					return err
				}
				tr := transfer(fmt.Sprint(i), ledger.Wallet("a"), ledger.Payable("p"), max(1, min(before, 31)))
				if i%7 == 0 {
					tr.Amount = 5000 // found out late
				}
				tr.ID = fmt.Sprint("id", i)
				if err := l.Post(ctx, tx, tr); err != nil {
					return err
				}
				if found, err := l.Find(ctx, tx, tr.Key); err != nil || found.ID != tr.ID || found.PostedAt.IsZero() {
					return fmt.Errorf("found %+v: %v", found, err)
				}
				after, err := l.Balance(ctx, tx, ledger.Wallet("a"), money.CNY)
				if err == nil && after > before-tr.Amount {
					err = fmt.Errorf("%d after %d, less %d", after, before, tr.Amount)
				}
				return err
			})
		})
		spent := money.Amount(0)
		for i, err := range errs {
			if _, ok := fault.As(err); err != nil && !ok {
				t.Errorf("%d: %v", i, err)
			}
			if i%7 == 0 {
				wantCode(t, err, fault.Payment, "insufficient_balance")
			}
		}
		for _, tr := range all(t, db, l, ledger.Payable("p")) {
			spent += tr.Amount
		}
		if b := balance(t, ctx, db, l, ledger.Wallet("a")); b < 0 || b != 1000-spent {
			t.Errorf("wallet %d of 1000, with %d spent", b, spent)
		}
		right(t, ctx, l)
	})
}

func all(t *testing.T, db *store.DB, l *ledger.Ledger, path string) (out []ledger.Transfer) {
	t.Helper()
	if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = l.Transfers(ctx, tx, "", 1_000_000, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhoGivesUpBeforeItsTurnPostsNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.PostgresAddress(t))
	l, ctx := open(t, db), t.Context()
	gone, leave := context.WithCancel(ctx)
	left := make(chan error, 1)
	errs := atOnce(t, l, 9, func(i int) error {
		if i > 0 {
			return together(ctx, l, transfer(fmt.Sprint(i), "x", "y", 1))
		}
		go func() { left <- together(gone, l, transfer("gone", "x", "y", 100)) }()
		leave()
		return <-left // while the line stands still
	})
	posted := money.Amount(8)
	if errs[0] == nil {
		posted += 100 // it had its turn before it gave up
	} else if !errors.Is(errs[0], context.Canceled) {
		t.Error(errs[0])
	}
	if err := errors.Join(errs[1:]...); err != nil {
		t.Error(err)
	}
	if b := balance(t, ctx, db, l, "y"); b != posted {
		t.Errorf("y %d, want %d", b, posted)
	}
}

// Whoever calls at the same time, the outcome is that of some order: here each
// amount fits or does not whatever the order is, and keys are used again and again
// by two replicas.
func TestGroupsOfTwoReplicasAgreeWithASerialModel(t *testing.T) {
	t.Parallel()
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, ctx := addressOf(t), t.Context()
			dbs := []*store.DB{storetest.Open(t, address)}
			ledgers := []*ledger.Ledger{open(t, dbs[0])}
			if name == "postgres" {
				dbs = append(dbs, storetest.Open(t, address))
				ledgers = append(ledgers, open(t, dbs[1]))
			}
			r := rand.New(rand.NewPCG(7, 11))
			const keys, callers, each = 120, 24, 25
			// The transfer of a key, and whether it ever fits.
			var offered [keys]ledger.Transfer
			model := map[string]money.Amount{}
			for k := range offered {
				from := ledger.Wallet(fmt.Sprint(k % 10))
				offered[k] = transfer(fmt.Sprint("k", k), from, ledger.Payable(fmt.Sprint(k%3)), money.Amount(1+r.IntN(50)))
				if k%8 == 0 {
					offered[k].Amount = 1_000_000
				}
			}
			for w := range 10 {
				path := ledger.Wallet(fmt.Sprint(w))
				if err := post(ctx, dbs[0], ledgers[0], transfer("fund "+path, ledger.Deposits, path, 10_000)); err != nil {
					t.Fatal(err)
				}
				model[path] = 10_000
			}
			var mu sync.Mutex
			done := map[int]bool{}
			var everybody sync.WaitGroup
			for c := range callers {
				r := rand.New(rand.NewPCG(uint64(c), 5))
				everybody.Go(func() {
					for range each {
						k := r.IntN(keys)
						tr, conflicting := offered[k], r.IntN(10) == 0
						l := ledgers[c%len(ledgers)]
						if conflicting {
							tr = offered[1] // posted by nobody else's key
							tr.Key, tr.Code = offered[k].Key, "another"
							if k%8 != 1 {
								continue
							}
							if err := together(ctx, l, offered[k]); err != nil {
								t.Errorf("%s: %v", tr.Key, err)
							}
						}
						err := together(ctx, l, tr)
						f, _ := fault.As(err)
						switch {
						case conflicting:
							if f == nil || f.Code != "idempotency_conflict" {
								t.Errorf("another transfer of %s: %v", tr.Key, err)
							}
						case k%8 == 0:
							if f == nil || f.Code != "insufficient_balance" {
								t.Errorf("%s of %d: %v", tr.Key, tr.Amount, err)
							}
							continue
						case err != nil:
							t.Errorf("%s: %v", tr.Key, err)
						}
						mu.Lock()
						done[k] = true
						mu.Unlock()
					}
				})
			}
			everybody.Wait()
			for k := range done {
				model[offered[k].Debit] -= offered[k].Amount
				model[offered[k].Credit] += offered[k].Amount
			}
			for path, want := range model {
				if got := balance(t, ctx, dbs[0], ledgers[0], path); got != want {
					t.Errorf("%s stands at %d, want %d", path, got, want)
				}
			}
			if n := right(t, ctx, ledgers[0]).Transfers; n != int64(len(done)+10) {
				t.Errorf("%d transfers, want %d", n, len(done)+10)
			}
		})
	}
}

// In a process with this in its environment, the test binary is the victim of the
// test below.
const victimEnv = "SUANLI_LEDGER_VICTIM"

func TestMain(m *testing.M) {
	if address := os.Getenv(victimEnv); address != "" {
		if err := victim(address, os.Args[1]); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

// victim posts pairs of transfers from many callers, and says each key that was
// answered for, until it is killed.
func victim(address, round string) error {
	ctx := context.Background()
	db, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	l, err := ledger.New(db, time.Now)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for c := range 40 {
		go func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("%s-%d-%d", round, c, n)
				if err := together(ctx, l, transfer(key+"/1", ledger.Wallet("a"), ledger.Payable(key), 2), transfer(key+"/2", ledger.Wallet("a"), ledger.Commission, 1)); err != nil {
					failed <- err
				}
				// One write each, so that lines are whole.
				if _, err := os.Stdout.WriteString(key + "\n"); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func TestAKillAmidGroupsLosesNothingThatWasAnsweredForAndHalvesNothing(t *testing.T) {
	t.Parallel()
	for name, addressOf := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, ctx := addressOf(t), t.Context()
			db := storetest.Open(t, address)
			l := open(t, db)
			if err := post(ctx, db, l, transfer("funds", ledger.Deposits, ledger.Wallet("a"), 1_000_000_000)); err != nil {
				t.Fatal(err)
			}
			answered := map[string]bool{}
			const kills = 8
			for round := range kills {
				cmd := exec.CommandContext(ctx, os.Args[0], fmt.Sprint(round))
				cmd.Env = append(os.Environ(), victimEnv+"="+address)
				var side strings.Builder
				cmd.Stderr = &side
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(out)
				for limit := 1 + rand.IntN(300); lines.Scan(); {
					answered[lines.Text()] = true
					if limit--; limit == 0 {
						_ = cmd.Process.Kill()
					}
				}
				err = cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the victim was to be killed: %v: %s", err, side.String())
				}
				halves := map[string]int{}
				for _, tr := range all(t, db, l, ledger.Wallet("a")) {
					if key, _, pair := strings.Cut(tr.Key, "/"); pair {
						halves[key]++
					}
				}
				for key, n := range halves {
					if n != 2 {
						t.Fatalf("%s is posted by half", key)
					}
				}
				for key := range answered {
					if halves[key] != 2 {
						t.Fatalf("%s was answered for and is lost", key)
					}
				}
				right(t, ctx, l)
			}
			t.Logf("%d kills, %d answered for", kills, len(answered))
		})
	}
}
