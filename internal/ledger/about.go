package ledger

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

// Get returns a transfer by its identifier, or is a NotFound fault
// "transfer_not_found".
func (l *Ledger) Get(ctx context.Context, tx *store.Tx, id string) (Transfer, error) {
	rows, err := tx.Query(ctx, selectTransfer+` WHERE id = ?`, id)
	if err != nil {
		return Transfer{}, fmt.Errorf("transfer %s: %w", id, err)
	}
	found, err := scan(rows)
	if err != nil {
		return Transfer{}, fmt.Errorf("transfer %s: %w", id, err)
	}
	if len(found) == 0 {
		return Transfer{}, fault.New(fault.NotFound, "transfer_not_found", "there is no transfer %q", id)
	}
	return found[0], nil
}

// About returns the transfers about a thing whose keys were made by Key for times
// from one moment to another, both included, in the order of their keys.
func (l *Ledger) About(ctx context.Context, tx *store.Tx, from, until time.Time, reference string) ([]Transfer, error) {
	// A time has the same number of digits in every key, so the order is that of
	// time whatever language the database sorts by.
	rows, err := tx.Query(ctx, selectTransfer+` WHERE idempotency >= ? AND idempotency < ? AND reference = ? ORDER BY id`,
		fmt.Sprintf("%014x", from.UnixMicro()), fmt.Sprintf("%014x", until.UnixMicro()+1), reference)
	if err != nil {
		return nil, fmt.Errorf("transfers about %s: %w", reference, err)
	}
	found, err := scan(rows)
	if err != nil {
		return nil, fmt.Errorf("transfers about %s: %w", reference, err)
	}
	return found, nil
}
