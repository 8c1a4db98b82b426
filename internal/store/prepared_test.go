package store_test

import (
	"context"
	"fmt"
	"testing"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func open(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), storetest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func update(t testing.TB, db *store.DB, fn func(ctx context.Context, tx *store.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func exec(t testing.TB, db *store.DB, query string, args ...any) {
	t.Helper()
	update(t, db, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

func TestAStatementMayRunWhileItsOwnRowsAreRead(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, `CREATE TABLE tree (id BIGINT PRIMARY KEY, parent BIGINT NOT NULL)`)
	for i := range 7 {
		exec(t, db, `INSERT INTO tree VALUES (?, ?)`, i+1, (i+1)/2)
	}
	visited := 0
	var visit func(ctx context.Context, tx *store.Tx, parent int) error
	visit = func(ctx context.Context, tx *store.Tx, parent int) error {
		rows, err := tx.Query(ctx, `SELECT id FROM tree WHERE parent = ? ORDER BY id`, parent)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id int
			if err := rows.Scan(&id); err != nil {
				return err
			}
			visited++
			if err := visit(ctx, tx, id); err != nil {
				return err
			}
		}
		return rows.Err()
	}
	for range 2 {
		visited = 0
		if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error { return visit(ctx, tx, 0) }); err != nil {
			t.Fatal(err)
		}
		if visited != 7 {
			t.Fatalf("visited %d rows of 7", visited)
		}
	}
}

func TestAStatementSeesAColumnThatWasAddedAfterItFirstRan(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, `CREATE TABLE thing (id BIGINT PRIMARY KEY)`)
	exec(t, db, `INSERT INTO thing VALUES (1)`)
	columns := func() (n int) {
		err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			rows, err := tx.Query(ctx, `SELECT * FROM thing`)
			if err != nil {
				return err
			}
			defer rows.Close()
			names, err := rows.Columns()
			n = len(names)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := columns(); n != 1 {
		t.Fatalf("%d columns, want 1", n)
	}
	exec(t, db, `ALTER TABLE thing ADD COLUMN name TEXT NOT NULL DEFAULT ''`)
	if n := columns(); n != 2 {
		t.Fatalf("%d columns after one was added, want 2", n)
	}
}

func TestMoreStatementsThanAreKeptStillRun(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, `CREATE TABLE thing (id BIGINT PRIMARY KEY)`)
	update(t, db, func(ctx context.Context, tx *store.Tx) error {
		for i := range 1000 {
			if _, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO thing VALUES (%d)`, i)); err != nil {
				return err
			}
		}
		return nil
	})
	var n int
	err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM thing`).Scan(&n)
	})
	if err != nil || n != 1000 {
		t.Fatalf("%d rows (%v), want 1000", n, err)
	}
}

func TestAStatementThatFailedRunsAgain(t *testing.T) {
	t.Parallel()
	db := open(t)
	exec(t, db, `CREATE TABLE thing (id BIGINT PRIMARY KEY)`)
	insert := func(id int) error {
		return db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO thing VALUES (?)`, id)
			return err
		})
	}
	for _, step := range []struct {
		id   int
		fine bool
	}{{1, true}, {1, false}, {2, true}, {2, false}, {3, true}} {
		if err := insert(step.id); (err == nil) != step.fine || (err != nil && !store.IsUnique(err)) {
			t.Fatalf("insert of %d: %v", step.id, err)
		}
	}
}

func BenchmarkUpdateOfOneRow(b *testing.B) {
	db := open(b)
	exec(b, db, `CREATE TABLE thing (id BIGINT PRIMARY KEY, seen BIGINT NOT NULL)`)
	exec(b, db, `INSERT INTO thing VALUES (1, 0)`)
	ctx := b.Context()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE thing SET seen = seen + 1 WHERE id = ?`, 1)
				return err
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkViewOfOneRow(b *testing.B) {
	db := open(b)
	exec(b, db, `CREATE TABLE thing (id BIGINT PRIMARY KEY, seen BIGINT NOT NULL)`)
	exec(b, db, `INSERT INTO thing VALUES (1, 0)`)
	for b.Loop() {
		err := db.View(b.Context(), func(ctx context.Context, tx *store.Tx) error {
			var seen int
			return tx.QueryRow(ctx, `SELECT seen FROM thing WHERE id = ? AND seen >= 0 ORDER BY id`, 1).Scan(&seen)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
