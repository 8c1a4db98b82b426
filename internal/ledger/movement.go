package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Movement is what the transfers of one code about one thing did to an account's
// balance in a time.
type Movement struct {
	Code, Reference string
	In, Out         money.Amount // both at least 0
	Transfers       int64
}

// Statement is an account's balance at two moments and what happened between:
// Closing is Opening plus all In less all Out.
type Statement struct {
	Opening, Closing money.Amount
	Movements        []Movement // by code and reference
}

// Statement returns what was posted to an account from one moment on and before
// another, by the time of posting: that of a time that is over never changes.
func (l *Ledger) Statement(ctx context.Context, tx *store.Tx, path string, currency money.Currency, from, until time.Time) (Statement, error) {
	var out Statement
	if err := alone(tx); err != nil {
		return out, err
	}
	var in, gone int64
	err := tx.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(CASE WHEN credit = ? THEN amount ELSE 0 END), 0) AS BIGINT), CAST(COALESCE(SUM(CASE WHEN debit = ? THEN amount ELSE 0 END), 0) AS BIGINT)
		FROM ledger_transfers WHERE (debit = ? OR credit = ?) AND currency = ? AND posted_at < ?`, path, path, path, path, string(currency), store.Micros(from)).Scan(&in, &gone)
	if err != nil && !errors.Is(err, store.ErrNoRows) {
		return out, fmt.Errorf("statement of %s: %w", path, err)
	}
	out.Opening = money.Amount(in - gone)
	out.Closing = out.Opening
	rows, err := tx.Query(ctx, `SELECT code, reference, CAST(SUM(CASE WHEN credit = ? THEN amount ELSE 0 END) AS BIGINT), CAST(SUM(CASE WHEN debit = ? THEN amount ELSE 0 END) AS BIGINT), COUNT(*)
		FROM ledger_transfers WHERE (debit = ? OR credit = ?) AND currency = ? AND posted_at >= ? AND posted_at < ? GROUP BY code, reference ORDER BY code, reference`,
		path, path, path, path, string(currency), store.Micros(from), store.Micros(until))
	if err != nil {
		return out, fmt.Errorf("statement of %s: %w", path, err)
	}
	defer rows.Close()
	for rows.Next() {
		var m Movement
		if err := rows.Scan(&m.Code, &m.Reference, &m.In, &m.Out, &m.Transfers); err != nil {
			return out, fmt.Errorf("statement of %s: %w", path, err)
		}
		if out.Closing, err = out.Closing.Add(m.In - m.Out); err != nil {
			return out, fmt.Errorf("statement of %s: %w", path, err)
		}
		out.Movements = append(out.Movements, m)
	}
	return out, rows.Err()
}
