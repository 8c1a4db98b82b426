package ledger

import (
	"context"
	"fmt"
	"strings"

	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Total is what all transfers of one code come to in one currency.
type Total struct {
	Code      string
	Currency  money.Currency
	Amount    money.Amount
	Transfers int64
}

// Totals sums up all transfers of some codes.
func (l *Ledger) Totals(ctx context.Context, tx *store.Tx, codes ...string) ([]Total, error) {
	rows, err := tx.Query(ctx, `SELECT code, currency, CAST(SUM(amount) AS BIGINT), COUNT(*) FROM ledger_transfers WHERE code IN (`+holders(len(codes))+`) GROUP BY code, currency ORDER BY code, currency`, texts(codes)...)
	if err != nil {
		return nil, fmt.Errorf("sum transfers: %w", err)
	}
	defer rows.Close()
	var out []Total
	for rows.Next() {
		var t Total
		if err := rows.Scan(&t.Code, &t.Currency, &t.Amount, &t.Transfers); err != nil {
			return nil, fmt.Errorf("sum transfers: %w", err)
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// OfCode lists up to limit transfers of a code, oldest first, that are younger than
// the one with the identifier after.
func (l *Ledger) OfCode(ctx context.Context, tx *store.Tx, code, after string, limit int) ([]Transfer, error) {
	rows, err := tx.Query(ctx, selectTransfer+` WHERE code = ? AND id > ? ORDER BY id LIMIT ?`, code, after, limit)
	if err != nil {
		return nil, fmt.Errorf("transfers of code %s: %w", code, err)
	}
	found, err := scan(rows)
	if err != nil {
		return nil, fmt.Errorf("transfers of code %s: %w", code, err)
	}
	return found, nil
}

func holders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

func texts(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}
