package store

import (
	"context"
	"errors"
	"fmt"
)

// part is a stretch of a transaction that can be undone alone.
type part struct {
	open bool // its savepoint is set
	err  error
}

// Part runs fn as a part of the transaction: if it returns an error, what it has
// done is undone, and what was done before stays. The savepoint is set before fn's
// first statement, so that a part without one costs nothing; used reports whether
// there was one. Parts are not nested. After an error of kind *LostError the whole
// transaction is lost.
func (t *Tx) Part(ctx context.Context, fn func() error) (used bool, err error) {
	if t.part != nil {
		return false, errors.New("a part of a transaction cannot have parts")
	}
	p := &part{}
	t.part = p
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("transaction panicked: %v", r)
		}
		t.part = nil
		used = p.open
		switch {
		case p.err != nil:
			err = &LostError{errors.Join(err, p.err)}
		case !p.open:
		case err != nil:
			if _, rerr := t.tx.ExecContext(ctx, "ROLLBACK TO part"); rerr != nil {
				err = &LostError{errors.Join(err, rerr)}
				return
			}
			fallthrough
		default:
			if _, rerr := t.tx.ExecContext(ctx, "RELEASE part"); rerr != nil {
				err = &LostError{errors.Join(err, rerr)}
			}
		}
	}()
	return false, fn()
}

// enter sets the savepoint of the part that a statement is the first of.
func (t *Tx) enter(ctx context.Context) {
	if t.part == nil || t.part.open || t.part.err != nil {
		return
	}
	if _, err := t.tx.ExecContext(ctx, "SAVEPOINT part"); err != nil {
		t.part.err = err
		return
	}
	t.part.open = true
}

// LostError says that a transaction is lost as a whole.
type LostError struct{ err error }

// Error implements error.
func (e *LostError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.err }

// Keep keeps a value with the transaction, for later calls in it; Kept returns it.
// The ledger has the only one.
func (t *Tx) Keep(v any) { t.kept = v }

// Kept returns what Keep was given, or nil.
func (t *Tx) Kept() any { return t.kept }
