package ledger

import (
	"context"
	"fmt"
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
