package ledger

import (
	"context"
	"fmt"

	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// History returns all transfers of the account at path in one currency, in the
// order in which they were posted.
func (l *Ledger) History(ctx context.Context, tx *store.Tx, path string, currency money.Currency) ([]Transfer, error) {
	r, err := tx.Query(ctx, selectTransfer+` WHERE (debit = ? OR credit = ?) AND currency = ? ORDER BY posted_at, id`, path, path, string(currency))
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", path, err)
	}
	out, err := scan(r)
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", path, err)
	}
	return out, nil
}
