package store

import "context"

// Page reads up to limit rows that where selects by args, the newest first, which
// come after the cursor; limit below 1 is 50. It returns the next cursor as well,
// empty at the end. query reads the rows of a condition with what follows it, and id
// returns a row's identifier, which is its place in time.
func Page[T any](ctx context.Context, db *DB, where string, args []any, cursor string, limit int, query func(ctx context.Context, tx *Tx, where string, args ...any) ([]T, error), id func(T) string) (out []T, next string, err error) {
	if limit < 1 {
		limit = 50
	}
	if cursor != "" {
		where, args = where+` AND id < ?`, append(args, cursor)
	}
	err = db.View(ctx, func(ctx context.Context, tx *Tx) error {
		out, err = query(ctx, tx, where+` ORDER BY id DESC LIMIT ?`, append(args, limit+1)...)
		return err
	})
	if len(out) > limit {
		out, next = out[:limit], id(out[limit-1])
	}
	return out, next, err
}
