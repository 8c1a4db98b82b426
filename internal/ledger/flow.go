package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Flow returns what transfers of one code have moved into and out of the account
// at path, of those that count before a moment.
func (l *Ledger) Flow(ctx context.Context, tx *store.Tx, path string, currency money.Currency, code string, before time.Time) (in, out money.Amount, err error) {
	if err := alone(tx); err != nil {
		return 0, 0, err
	}
	for _, side := range []struct {
		column string
		sum    *money.Amount
	}{{"credit", &in}, {"debit", &out}} {
		err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM ledger_transfers WHERE `+side.column+` = ? AND currency = ? AND code = ? AND effective_at < ?`,
			path, string(currency), code, store.Micros(before)).Scan(side.sum)
		if err != nil {
			return 0, 0, fmt.Errorf("flow of %s through %s: %w", code, path, err)
		}
	}
	return in, out, nil
}

// Moved is what transfers of one code have moved.
type Moved struct{ In, Out money.Amount }

// Moved returns, by code, what transfers that count before a moment have moved into
// and out of some accounts together; what went from one of them to another is in
// neither.
func (l *Ledger) Moved(ctx context.Context, tx *store.Tx, currency money.Currency, before time.Time, paths ...string) (map[string]Moved, error) {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(paths)), ", ")
	args := make([]any, 0, 2*len(paths)+2)
	for _, p := range slices.Concat(paths, paths) {
		args = append(args, p)
	}
	args = append(args, string(currency), store.Micros(before))
	out := map[string]Moved{}
	for _, side := range []struct{ of, not string }{{"credit", "debit"}, {"debit", "credit"}} {
		if err := l.movedOn(ctx, tx, out, side.of == "credit", `SELECT code, CAST(SUM(amount) AS BIGINT) FROM ledger_transfers
			WHERE `+side.of+` IN (`+marks+`) AND `+side.not+` NOT IN (`+marks+`) AND currency = ? AND effective_at < ? GROUP BY code`, args); err != nil {
			return nil, fmt.Errorf("flows through %s: %w", paths[0], err)
		}
	}
	return out, nil
}

func (l *Ledger) movedOn(ctx context.Context, tx *store.Tx, out map[string]Moved, in bool, query string, args []any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var code string
		var sum money.Amount
		if err := rows.Scan(&code, &sum); err != nil {
			return err
		}
		m := out[code]
		if in {
			m.In += sum
		} else {
			m.Out += sum
		}
		out[code] = m
	}
	return rows.Err()
}
