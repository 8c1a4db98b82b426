package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Report is the outcome of Verify.
type Report struct {
	Accounts  int64
	Transfers int64
	Sums      []Sum      // by currency
	Faults    []Mismatch // empty: the books are right
}

// OK reports whether the books are right.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// Sum is what all transfers of a currency add up to on either side.
type Sum struct {
	Currency        money.Currency
	Debits, Credits money.Amount
}

// Mismatch is an account, or a currency as a whole with an empty Path, whose
// stored sums are not those of its transfers.
type Mismatch struct {
	Path     string
	Currency money.Currency
	What     string // for people
}

// Verify computes every account again from its transfers, in one snapshot, and
// reports each difference. It reads everything and changes nothing.
func (l *Ledger) Verify(ctx context.Context) (Report, error) {
	var rep Report
	err := l.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		replayed := map[account]*counters{}
		side := func(a account) *counters {
			if replayed[a] == nil {
				replayed[a] = &counters{}
			}
			return replayed[a]
		}
		r, err := tx.Query(ctx, `SELECT debit, credit, currency, amount FROM ledger_transfers`)
		if err != nil {
			return err
		}
		defer r.Close()
		for r.Next() {
			var debit, credit string
			var currency money.Currency
			var amount money.Amount
			if err := r.Scan(&debit, &credit, &currency, &amount); err != nil {
				return err
			}
			rep.Transfers++
			d, c := side(account{debit, currency}), side(account{credit, currency})
			if d.debits, err = d.debits.Add(amount); err != nil {
				return fmt.Errorf("debits of %s: %w", debit, err)
			}
			if c.credits, err = c.credits.Add(amount); err != nil {
				return fmt.Errorf("credits of %s: %w", credit, err)
			}
		}
		if err := r.Err(); err != nil {
			return err
		}
		stored, err := tx.Query(ctx, `SELECT path, currency, debits, credits, guarded FROM ledger_accounts ORDER BY path, currency`)
		if err != nil {
			return err
		}
		defer stored.Close()
		sums := map[money.Currency]*Sum{}
		for stored.Next() {
			var a account
			var n counters
			var guarded int64
			if err := stored.Scan(&a.path, &a.currency, &n.debits, &n.credits, &guarded); err != nil {
				return err
			}
			rep.Accounts++
			bad := func(format string, args ...any) {
				rep.Faults = append(rep.Faults, Mismatch{a.path, a.currency, fmt.Sprintf(format, args...)})
			}
			want := side(a)
			if n.debits != want.debits || n.credits != want.credits {
				bad("the account says debits %s and credits %s, its transfers %s and %s", n.debits, n.credits, want.debits, want.credits)
			}
			if guarded != 0 && want.credits < want.debits {
				bad("it is guarded and stands at %s", want.credits-want.debits)
			}
			delete(replayed, a)
			s := sums[a.currency]
			if s == nil {
				s = &Sum{Currency: a.currency}
				sums[a.currency] = s
			}
			if s.Debits, err = s.Debits.Add(n.debits); err != nil {
				return fmt.Errorf("debits in %s: %w", a.currency, err)
			}
			if s.Credits, err = s.Credits.Add(n.credits); err != nil {
				return fmt.Errorf("credits in %s: %w", a.currency, err)
			}
		}
		if err := stored.Err(); err != nil {
			return err
		}
		for a := range replayed {
			rep.Faults = append(rep.Faults, Mismatch{a.path, a.currency, "it has transfers and no account"})
		}
		for _, s := range sums {
			rep.Sums = append(rep.Sums, *s)
			if s.Debits != s.Credits {
				rep.Faults = append(rep.Faults, Mismatch{"", s.Currency, fmt.Sprintf("debits of %s and credits of %s differ", s.Debits, s.Credits)})
			}
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("verify the ledger: %w", err)
	}
	slices.SortFunc(rep.Sums, func(a, b Sum) int { return cmp.Compare(a.Currency, b.Currency) })
	slices.SortFunc(rep.Faults, func(a, b Mismatch) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Currency, b.Currency))
	})
	return rep, nil
}
