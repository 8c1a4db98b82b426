package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, db *store.DB) *ledger.Ledger {
	t.Helper()
	l, err := ledger.New(db, func() time.Time { return noon })
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func post(ctx context.Context, db *store.DB, l *ledger.Ledger, batch ...ledger.Transfer) error {
	return db.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return l.Post(ctx, tx, batch...) })
}

func transfer(key, debit, credit string, amount money.Amount) ledger.Transfer {
	return ledger.Transfer{Key: key, Debit: debit, Credit: credit, Amount: amount, Currency: money.CNY, Code: "test"}
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func balance(t failer, ctx context.Context, db *store.DB, l *ledger.Ledger, path string) (b money.Amount) {
	t.Helper()
	if err := db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = l.Balance(ctx, tx, path, money.CNY)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return b
}

func right(t testing.TB, ctx context.Context, l *ledger.Ledger) ledger.Report {
	t.Helper()
	r, err := l.Verify(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() {
		t.Fatalf("the books are wrong: %+v", r.Faults)
	}
	return r
}

func wantCode(t testing.TB, err error, kind fault.Kind, code string) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Kind != kind || f.Code != code {
		t.Fatalf("got %v, want the fault %s", err, code)
	}
}

func TestATransferMovesMoneyOnceHoweverOftenItIsPosted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		first := transfer("k1", ledger.Deposits, ledger.Wallet("a"), 100)
		for range 3 {
			again := first
			again.EffectiveAt = noon.Add(time.Hour) // a replay comes later
			if err := post(ctx, db, l, first, again); err != nil {
				t.Fatal(err)
			}
		}
		if b := balance(t, ctx, db, l, ledger.Wallet("a")); b != 100 {
			t.Errorf("wallet %d, want 100", b)
		}
		if b := balance(t, ctx, db, l, ledger.Deposits); b != -100 {
			t.Errorf("deposits %d, want -100", b)
		}
		if r := right(t, ctx, l); r.Transfers != 1 || r.Accounts != 2 {
			t.Errorf("%d transfers and %d accounts, want 1 and 2", r.Transfers, r.Accounts)
		}
	})
}

func TestAKeyForAnotherTransferIsAConflict(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		first := transfer("k1", ledger.Deposits, ledger.Wallet("a"), 100)
		if err := post(ctx, db, l, first); err != nil {
			t.Fatal(err)
		}
		for _, other := range []ledger.Transfer{
			transfer("k1", ledger.Deposits, ledger.Wallet("a"), 101),
			transfer("k1", ledger.Deposits, ledger.Wallet("b"), 100),
			{Key: "k1", Debit: first.Debit, Credit: first.Credit, Amount: 100, Currency: money.USD, Code: "test"},
			{Key: "k1", Debit: first.Debit, Credit: first.Credit, Amount: 100, Currency: money.CNY, Code: "other"},
			{Key: "k1", Debit: first.Debit, Credit: first.Credit, Amount: 100, Currency: money.CNY, Code: "test", Reference: "r"},
		} {
			wantCode(t, post(ctx, db, l, other), fault.Conflict, "idempotency_conflict")
		}
		wantCode(t, post(ctx, db, l, transfer("k2", "x", "y", 1), transfer("k2", "x", "y", 2)), fault.Conflict, "idempotency_conflict")
		if r := right(t, ctx, l); r.Transfers != 1 {
			t.Errorf("%d transfers, want 1", r.Transfers)
		}
	})
}

func TestABatchIsPostedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		if err := post(ctx, db, l, transfer("k1", ledger.Deposits, ledger.Wallet("a"), 100)); err != nil {
			t.Fatal(err)
		}
		err := post(ctx, db, l,
			transfer("k2", ledger.Wallet("a"), ledger.Payable("p"), 80),
			transfer("k3", ledger.Wallet("a"), ledger.Commission, 21))
		wantCode(t, err, fault.Payment, "insufficient_balance")
		if b := balance(t, ctx, db, l, ledger.Payable("p")); b != 0 {
			t.Errorf("the provider has %d of a batch that failed", b)
		}
		// In a batch only where it ends counts.
		if err := post(ctx, db, l,
			transfer("k4", ledger.Wallet("a"), ledger.Payable("p"), 120),
			transfer("k5", ledger.Deposits, ledger.Wallet("a"), 20)); err != nil {
			t.Fatal(err)
		}
		right(t, ctx, l)
	})
}

// Six debits of 1,000 against 5,000, all at once, from connections of their own.
func TestConcurrentDebitsNeverOverdrawAWallet(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		if err := post(ctx, db, l, transfer("top-up", ledger.Deposits, ledger.Wallet("a"), 5000)); err != nil {
			t.Fatal(err)
		}
		errs := make([]error, 6)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				errs[i] = post(ctx, db, l, transfer(fmt.Sprint("debit ", i), ledger.Wallet("a"), ledger.Payable(fmt.Sprint(i)), 1000))
			})
		}
		wg.Wait()
		refused := 0
		for _, err := range errs {
			if err != nil {
				wantCode(t, err, fault.Payment, "insufficient_balance")
				refused++
			}
		}
		if refused != 1 {
			t.Errorf("%d debits were refused, want 1", refused)
		}
		right(t, ctx, l)
	})
}

func TestConcurrentPostsOfOneKeyPostOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := post(ctx, db, l, transfer("k", ledger.Deposits, ledger.Wallet("a"), 7)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if b := balance(t, ctx, db, l, ledger.Wallet("a")); b != 7 {
			t.Errorf("wallet %d, want 7", b)
		}
	})
}

func TestTheDatabaseItselfRefusesToChangeHistory(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		if err := post(ctx, db, l, transfer("k1", ledger.Deposits, ledger.Wallet("a"), 100)); err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{
			`UPDATE ledger_transfers SET amount = 1`,
			`DELETE FROM ledger_transfers`,
			`UPDATE ledger_accounts SET debits = credits + 1 WHERE guarded = 1`,
			`INSERT INTO ledger_transfers (id, idempotency, debit, credit, amount, currency, code, reference, effective_at, posted_at) VALUES ('x', 'x', 'account/a/wallet', 'platform/deposits', 0, 'CNY', 'x', '', 0, 0)`,
			`INSERT INTO ledger_transfers (id, idempotency, debit, credit, amount, currency, code, reference, effective_at, posted_at) VALUES ('x', 'x', 'account/a/wallet', 'nowhere', 1, 'CNY', 'x', '', 0, 0)`,
		} {
			err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, statement)
				return err
			})
			if err == nil {
				t.Errorf("accepted: %s", statement)
			}
		}
		right(t, ctx, l)
	})
}

func TestVerifyFindsWhatWasTamperedWith(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		if err := post(ctx, db, l, transfer("k1", ledger.Deposits, ledger.Wallet("a"), 100)); err != nil {
			t.Fatal(err)
		}
		if err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE ledger_accounts SET credits = credits + 5 WHERE path = ?`, ledger.Wallet("a"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		r, err := l.Verify(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Faults) != 2 || r.Faults[1].Path != ledger.Wallet("a") {
			t.Errorf("faults %+v, want one for the currency and one for the wallet", r.Faults)
		}
	})
}

func TestMalformedTransfersAreRefused(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Address(t))
	l := open(t, db)
	for name, change := range map[string]func(*ledger.Transfer){
		"nothing":            func(t *ledger.Transfer) { t.Amount = 0 },
		"less than nothing":  func(t *ledger.Transfer) { t.Amount = -1 },
		"to itself":          func(t *ledger.Transfer) { t.Credit = t.Debit },
		"from nowhere":       func(t *ledger.Transfer) { t.Debit = "" },
		"without a key":      func(t *ledger.Transfer) { t.Key = "" },
		"without a code":     func(t *ledger.Transfer) { t.Code = "" },
		"in another's money": func(t *ledger.Transfer) { t.Currency = "XXX" },
	} {
		tr := transfer("k", "x", "y", 1)
		change(&tr)
		if err := post(t.Context(), db, l, tr); err == nil {
			t.Errorf("a transfer %s is posted", name)
		}
	}
}

func TestCountersThatWouldNotFitFailInsteadOfWrapping(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		const most = 1<<63 - 1
		if err := post(ctx, db, l, transfer("k1", "x", "y", most)); err != nil {
			t.Fatal(err)
		}
		if err := post(ctx, db, l, transfer("k2", "x", "y", 1)); !errors.Is(err, money.ErrOverflow) {
			t.Errorf("got %v, want an overflow", err)
		}
		right(t, ctx, l)
	})
}

func TestTransfersAreListedNewestFirstInPages(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		for i := range 5 {
			if err := post(ctx, db, l, transfer(ledger.Key(noon, fmt.Sprint(i)), ledger.Deposits, ledger.Wallet("a"), money.Amount(i+1)),
				transfer(ledger.Key(noon, "other", fmt.Sprint(i)), "x", "y", 9)); err != nil {
				t.Fatal(err)
			}
		}
		var got []money.Amount
		before := ""
		for {
			var page []ledger.Transfer
			if err := db.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
				page, err = l.Transfers(ctx, tx, before, 2, ledger.Wallet("a"), ledger.Hold("a"))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, tr := range page {
				got = append(got, tr.Amount)
			}
			before = page[len(page)-1].ID
		}
		if fmt.Sprint(got) != fmt.Sprint([]money.Amount{5, 4, 3, 2, 1}) {
			t.Errorf("listed %v", got)
		}
	})
}

// A model: random batches, many of them replays, conflicts or overdrafts, against
// a ledger in a map.
func TestTheLedgerBehavesLikeAMapOfBalances(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		l, ctx := open(t, db), t.Context()
		run := 0
		rapid.Check(t, func(t *rapid.T) {
			run++ // each case has accounts and keys of its own in the one database
			path := func(name string) string {
				switch name {
				case "wallet", "hold":
					return fmt.Sprintf("account/%d/%s", run, name)
				}
				return fmt.Sprintf("%s/%d", name, run)
			}
			names := rapid.SampledFrom([]string{"wallet", "hold", "provider", "bank"})
			model := map[string]money.Amount{}
			known := map[string]ledger.Transfer{}
			for range rapid.IntRange(1, 8).Draw(t, "batches") {
				var batch []ledger.Transfer
				next := map[string]money.Amount{}
				for k, v := range model {
					next[k] = v
				}
				fresh := map[string]ledger.Transfer{}
				want := ""
				for range rapid.IntRange(1, 4).Draw(t, "transfers") {
					tr := transfer(fmt.Sprintf("%d:%d", run, rapid.IntRange(0, 12).Draw(t, "key")), path(names.Draw(t, "debit")), path(names.Draw(t, "credit")),
						money.Amount(rapid.Int64Range(1, 50).Draw(t, "amount")))
					if tr.Debit == tr.Credit {
						continue
					}
					batch = append(batch, tr)
					first, ok := known[tr.Key]
					if !ok {
						first, ok = fresh[tr.Key]
					}
					if ok {
						if first != tr {
							want = "idempotency_conflict"
						}
						continue
					}
					fresh[tr.Key] = tr
					next[tr.Debit] -= tr.Amount
					next[tr.Credit] += tr.Amount
				}
				if want == "" && (next[path("wallet")] < 0 || next[path("hold")] < 0) {
					want = "insufficient_balance"
				}
				err := post(ctx, db, l, batch...)
				if want != "" {
					if f, ok := fault.As(err); !ok || f.Code != want {
						t.Fatalf("got %v, want %s", err, want)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				model = next
				for k, v := range fresh {
					known[k] = v
				}
				for p, want := range model {
					if got := balance(t, ctx, db, l, p); got != want {
						t.Fatalf("%s stands at %d, want %d", p, got, want)
					}
				}
			}
		})
		right(t, ctx, l)
	})
}
