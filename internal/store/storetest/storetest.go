// Package storetest gives tests a fresh database on each engine there is. It is
// imported by tests only.
package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"suanli.dev/internal/store"
)

// Address returns the address of a fresh SQLite database.
func Address(t testing.TB) string {
	t.Helper()
	return "sqlite:" + filepath.Join(t.TempDir(), "test.db")
}

// PostgresAddress returns the address of a fresh schema in the PostgreSQL
// database that SUANLI_TEST_POSTGRES names, and skips the test if it names none.
func PostgresAddress(t testing.TB) string {
	t.Helper()
	address := os.Getenv("SUANLI_TEST_POSTGRES")
	if address == "" {
		t.Skip("SUANLI_TEST_POSTGRES names no PostgreSQL database")
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatalf("SUANLI_TEST_POSTGRES: %v", err)
	}
	pool, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	schema := "test_" + strings.ToLower(rand.Text())
	if _, err := pool.ExecContext(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool, err := sql.Open("pgx", address)
		if err != nil {
			t.Error(err)
			return
		}
		defer pool.Close()
		// The test's own context has ended by now.
		if _, err := pool.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// Open opens the database at an address until the test ends.
func Open(t testing.TB, address string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// Each runs a test on a fresh SQLite database and on a fresh PostgreSQL schema,
// if there is a server for one.
func Each(t *testing.T, test func(t *testing.T, db *store.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, Open(t, Address(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, Open(t, PostgresAddress(t)))
	})
}
