package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// family is a schema whose tables refer to each other against their names' order.
const family = `CREATE TABLE a_child (id TEXT PRIMARY KEY, parent TEXT NOT NULL REFERENCES z_parent (id), note TEXT, n BIGINT NOT NULL);
CREATE TABLE z_parent (id TEXT PRIMARY KEY);
CREATE TABLE seed (id BIGINT PRIMARY KEY);
CREATE TABLE now (id BIGINT PRIMARY KEY)`

func withFamily(t *testing.T, address string) *store.DB {
	t.Helper()
	db := storetest.Open(t, address)
	parts := strings.Split(family, ";\n")
	for _, i := range []int{1, 0, 2, 3} {
		exec(t, db, parts[i])
	}
	exec(t, db, `INSERT INTO seed VALUES (1)`)
	return db
}

func TestACopyHasEveryRowOnTheOtherEngine(t *testing.T) {
	t.Parallel()
	small, large := withFamily(t, storetest.Address(t)), withFamily(t, storetest.PostgresAddress(t))
	back := withFamily(t, storetest.Address(t))
	update(t, small, func(ctx context.Context, tx *store.Tx) error {
		for i := range 3000 {
			if _, err := tx.Exec(ctx, `INSERT INTO z_parent VALUES (?)`, fmt.Sprint(i)); err != nil {
				return err
			}
		}
		for i := range 3000 {
			var note any
			if i%2 == 0 {
				note = "字 'quoted' ? \n" + fmt.Sprint(i)
			}
			if _, err := tx.Exec(ctx, `INSERT INTO a_child VALUES (?, ?, ?, ?)`, fmt.Sprint(i), fmt.Sprint(2999-i), note, int64(i)<<40); err != nil {
				return err
			}
		}
		return nil
	})
	exec(t, small, `INSERT INTO seed VALUES (2)`)
	exec(t, small, `INSERT INTO now VALUES (7)`)
	o := store.CopyOptions{Leave: []string{"now"}, Seeded: []string{"seed"}}
	first, err := store.Copy(t.Context(), small, large, o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.Copy(t.Context(), large, back, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(first) != 3 || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("there %v\nback  %v", first, second)
	}
}

func TestACopyToWhatIsNotEmptyChangesNothing(t *testing.T) {
	t.Parallel()
	from, to := withFamily(t, storetest.Address(t)), withFamily(t, storetest.Address(t))
	exec(t, from, `INSERT INTO z_parent VALUES ('new')`)
	exec(t, to, `INSERT INTO z_parent VALUES ('old')`)
	_, err := store.Copy(t.Context(), from, to, store.CopyOptions{Seeded: []string{"seed", "now"}})
	if f, ok := fault.As(err); !ok || f.Code != "target_not_empty" || !strings.Contains(err.Error(), "z_parent") {
		t.Fatalf("a copy to a database with rows: %v", err)
	}
	var id string
	var seeds int
	if err := to.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM seed`).Scan(&seeds); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT id FROM z_parent`).Scan(&id)
	}); err != nil || id != "old" || seeds != 1 {
		t.Errorf("the target has %q and %d seeds, %v", id, seeds, err)
	}
}

func TestACopyThatFailsHalfWayLeavesNothingAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	from, to := withFamily(t, storetest.Address(t)), withFamily(t, storetest.Address(t))
	exec(t, from, `INSERT INTO z_parent VALUES ('p')`)
	exec(t, from, `INSERT INTO a_child VALUES ('c', 'p', NULL, 1)`)
	ctx, cancel := context.WithCancel(t.Context())
	o := store.CopyOptions{Seeded: []string{"seed"}, Progress: func(table string, _, _ int) {
		if table == "a_child" {
			cancel()
		}
	}}
	if _, err := store.Copy(ctx, from, to, o); err == nil {
		t.Fatal("a copy that was interrupted succeeded")
	}
	o.Progress = nil
	if copied, err := store.Copy(t.Context(), from, to, o); err != nil || len(copied) != 4 {
		t.Fatalf("repeated: %v, %v", copied, err)
	}
}
