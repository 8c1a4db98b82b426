// Package store opens the database and is one of the two packages that know
// which engine is underneath: SQLite, embedded, or PostgreSQL. Services write
// portable SQL with ? placeholders, TEXT, BIGINT and no engine's own types:
// times are BIGINT microseconds since 1970 UTC, booleans BIGINT 0 or 1,
// structures JSON in TEXT. Each service has its own migrations and reads no
// table of another.
//
// On SQLite there is one writer, and writers that wait together are committed
// together (each in a savepoint of its own, so that one's failure undoes only
// itself): a transaction costs an fsync, and a hundred of them cost one too.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// ErrNoRows is returned by Row.Scan when there is no row.
var ErrNoRows = sql.ErrNoRows

// DB is an open database. It is safe for concurrent use.
type DB struct {
	write, read *sql.DB
	postgres    bool
	path        string // SQLite's file; empty on PostgreSQL

	mu     sync.Mutex // guards closed and sends on queue against Close
	closed bool
	queue  chan *job // SQLite's writers in waiting
	done   chan struct{}
}

// Open opens the database at address: "sqlite:/path/to/file.db" or
// "postgres://user:password@host/name". The SQLite file is created if missing.
func Open(ctx context.Context, address string) (*DB, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return openSQLite(ctx, path)
	}
	if strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") {
		pool, err := openPostgres(ctx, address, usualPatience)
		if err != nil {
			return nil, fmt.Errorf("open PostgreSQL: %w", err)
		}
		return &DB{write: pool, read: pool, postgres: true}, nil
	}
	return nil, fmt.Errorf("database %q: want sqlite:PATH or postgres://…", address)
}

func openSQLite(ctx context.Context, path string) (*DB, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	open := func(mode string, conns, cacheKiB int) (*sql.DB, error) {
		q := url.Values{"_pragma": {
			"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
			fmt.Sprintf("cache_size(-%d)", cacheKiB), "temp_store(MEMORY)",
		}, "_txlock": {mode}}
		pool, err := sql.Open(preparing, "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode())
		if err != nil {
			return nil, err
		}
		pool.SetMaxOpenConns(conns)
		pool.SetMaxIdleConns(conns)
		return pool, nil
	}
	w, err := open("immediate", 1, 16000)
	if err == nil {
		err = w.PingContext(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	r, err := open("deferred", max(4, runtime.GOMAXPROCS(0)), 4000) // each; the system caches the file as well
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db := &DB{write: w, read: r, path: path, queue: make(chan *job, 256), done: make(chan struct{})}
	go db.writer()
	return db, nil
}

// Close waits for writers in progress and closes the database.
func (db *DB) Close() error {
	if db.postgres {
		return db.write.Close()
	}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	close(db.queue)
	db.mu.Unlock()
	<-db.done
	return errors.Join(db.read.Close(), db.write.Close())
}

// Postgres reports whether the engine is PostgreSQL, for the few statements
// that must differ, such as row locks.
func (db *DB) Postgres() bool { return db.postgres }

// Migrate brings the tables of one service up to date. The files in fsys are
// goose migrations; service names their version table.
func (db *DB) Migrate(ctx context.Context, service string, fsys fs.FS) error {
	dialect := database.DialectSQLite3
	if db.postgres {
		dialect = database.DialectPostgres
	}
	versions, err := database.NewStore(dialect, "schema_"+service)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", service, err)
	}
	options := []goose.ProviderOption{goose.WithStore(versions)}
	if db.postgres {
		// Replicas that start together take turns.
		turns, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return fmt.Errorf("migrate %s: %w", service, err)
		}
		options = append(options, goose.WithSessionLocker(turns))
	}
	p, err := goose.NewProvider("", db.write, fsys, options...)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", service, err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate %s: %w", service, err)
	}
	return nil
}

// Tx is one transaction. It is not safe for concurrent use.
type Tx struct {
	tx       *sql.Tx
	postgres bool
	observe  func(statement string) // nil: nobody does
	part     *part                  // what the next statement is in; nil: the whole
	kept     any
}

type observerKey struct{}

// Observe returns a context whose transactions call fn before each statement, and
// before and after each commit, on the goroutine that executes it: so tests stop a
// process between any two of them.
func Observe(ctx context.Context, fn func(statement string)) context.Context {
	return context.WithValue(ctx, observerKey{}, fn)
}

func observer(ctx context.Context) func(string) {
	fn, _ := ctx.Value(observerKey{}).(func(string))
	return fn
}

func (t *Tx) before(statement string) {
	if t.observe != nil {
		t.observe(statement)
	}
}

// Exec runs a statement and returns the number of rows it changed.
func (t *Tx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.enter(ctx)
	t.before(query)
	res, err := t.tx.ExecContext(ctx, t.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Query runs a query; the caller closes the rows.
func (t *Tx) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	t.enter(ctx)
	t.before(query)
	return t.tx.QueryContext(ctx, t.bind(query), args...)
}

// QueryRow runs a query for at most one row.
func (t *Tx) QueryRow(ctx context.Context, query string, args ...any) *sql.Row {
	t.enter(ctx)
	t.before(query)
	return t.tx.QueryRowContext(ctx, t.bind(query), args...)
}

// ForUpdate is " FOR UPDATE" on PostgreSQL and empty on SQLite, whose writers
// are one at a time. It is appended to a SELECT whose rows are about to change.
func (t *Tx) ForUpdate() string {
	if t.postgres {
		return " FOR UPDATE"
	}
	return ""
}

func (t *Tx) bind(query string) string {
	if !t.postgres {
		return query
	}
	return rebind(query)
}

// rebind turns ? placeholders into $1, $2, … outside of quoted text.
func rebind(query string) string {
	var b strings.Builder
	b.Grow(len(query) + 8)
	n, quoted := 0, false
	for i := range len(query) {
		c := query[i]
		switch {
		case c == '\'':
			quoted = !quoted
			b.WriteByte(c)
		case c == '?' && !quoted:
			n++
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(n))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

type job struct {
	ctx context.Context
	fn  func(context.Context, *Tx) error
	err error
	end chan struct{}
}

// ErrClosed is returned for work after Close.
var ErrClosed = errors.New("the database is closed")

type besideKey struct{}

// Beside returns a context whose Updates also run fn, in the same transaction and after
// what they do: it is kept exactly if that is.
func Beside(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) context.Context {
	return context.WithValue(ctx, besideKey{}, fn)
}

// Update runs fn in a transaction that is durable when Update returns nil. If
// fn returns an error nothing it did is kept and the error is returned as it
// is. fn may be called more than once (a serialization failure is retried on
// PostgreSQL), so it must have no effect outside of the transaction, and it
// must not call Update itself.
func (db *DB) Update(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	if beside, ok := ctx.Value(besideKey{}).(func(context.Context, *Tx) error); ok {
		own := fn
		fn = func(ctx context.Context, tx *Tx) error {
			if err := own(ctx, tx); err != nil {
				return err
			}
			return beside(ctx, tx)
		}
	}
	if db.postgres {
		return db.updatePostgres(ctx, fn)
	}
	j := &job{ctx: ctx, fn: fn, end: make(chan struct{})}
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return ErrClosed
	}
	// The writer drains the queue without taking mu, so this cannot deadlock.
	db.queue <- j
	db.mu.Unlock()
	// No early return on ctx here: the caller must know whether it is durable.
	<-j.end
	return j.err
}

// View runs fn in a read-only snapshot.
func (db *DB) View(ctx context.Context, fn func(ctx context.Context, tx *Tx) error) error {
	opts := &sql.TxOptions{ReadOnly: true}
	if db.postgres {
		opts.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.read.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	return fn(ctx, &Tx{tx: tx, postgres: db.postgres, observe: observer(ctx)})
}

func (db *DB) updatePostgres(ctx context.Context, fn func(context.Context, *Tx) error) error {
	const attempts = 10
	for i := 1; ; i++ {
		err := db.once(ctx, fn)
		if !IsSerialization(err) || i == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(i*i) * time.Millisecond):
		}
	}
}

func (db *DB) once(ctx context.Context, fn func(context.Context, *Tx) error) error {
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	t := &Tx{tx: tx, postgres: true, observe: observer(ctx)}
	if err := fn(ctx, t); err != nil {
		return err
	}
	t.before("COMMIT")
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	t.before("committed")
	return nil
}

// maxGroup bounds how many writers share a commit, and so how long one waits
// for the others.
const maxGroup = 256

// writer runs SQLite's transactions, one after the other, in groups.
func (db *DB) writer() {
	defer close(db.done)
	for first := range db.queue {
		db.runGroup(first)
	}
}

func (db *DB) runGroup(first *job) {
	group := make([]*job, 0, 8)
	// The group's own context: one caller's cancellation must not undo another's work.
	ctx := context.Background()
	tx, err := db.write.BeginTx(ctx, nil)
	if err != nil {
		first.err = fmt.Errorf("begin: %w", err)
		close(first.end)
		return
	}
	t := &Tx{tx: tx}
	broken := error(nil)
	for j := first; j != nil && broken == nil; {
		j.err = db.runOne(t, j)
		group = append(group, j)
		var fatal *fatalError
		if errors.As(j.err, &fatal) {
			broken = fatal.err
			break
		}
		j = nil
		if len(group) < maxGroup {
			select {
			case next, ok := <-db.queue:
				if ok {
					j = next
				}
			default:
			}
		}
	}
	if broken == nil {
		t.before("COMMIT")
		if err := tx.Commit(); err != nil {
			broken = fmt.Errorf("commit: %w", err)
		} else {
			t.before("committed")
		}
	}
	if broken != nil {
		tx.Rollback()
	}
	for _, j := range group {
		if broken != nil && j.err == nil {
			j.err = broken
		}
		close(j.end)
	}
}

// fatalError means the whole group's transaction is lost, as when the disk is full.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

func (db *DB) runOne(t *Tx, j *job) (err error) {
	if err := j.ctx.Err(); err != nil {
		return err
	}
	t.observe = observer(j.ctx)
	bg := context.Background()
	if _, err := t.tx.ExecContext(bg, "SAVEPOINT one"); err != nil {
		return &fatalError{err}
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("transaction panicked: %v", p)
		}
		if err != nil {
			if full(err) {
				err = &fatalError{err}
				return
			}
			if _, rerr := t.tx.ExecContext(bg, "ROLLBACK TO one"); rerr != nil {
				err = &fatalError{errors.Join(err, rerr)}
				return
			}
		}
		if _, rerr := t.tx.ExecContext(bg, "RELEASE one"); rerr != nil {
			err = &fatalError{errors.Join(err, rerr)}
		}
	}()
	return j.fn(j.ctx, t)
}

// full reports errors after which SQLite has itself rolled the transaction back.
func full(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CORRUPT:
		return true
	}
	return false
}

// IsUnique reports whether err is the violation of a uniqueness rule.
func IsUnique(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "23505"
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
	}
	return false
}

// IsSerialization reports whether err says that transactions that ran at the same
// time were in each other's way, so that the same work can succeed when it is
// done again.
func IsSerialization(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "40001" || pg.Code == "40P01")
}

// IsFull reports whether err says that the database has no room to write.
func IsFull(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code == "53100"
	}
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()&0xff == sqlite3.SQLITE_FULL
	}
	return errors.Is(err, syscall.ENOSPC)
}

// Backup writes a consistent copy of an embedded database to the file at path,
// which must not exist, while the database is in use. PostgreSQL has its own
// tools for this, and Backup says so.
func (db *DB) Backup(ctx context.Context, path string) error {
	if db.postgres {
		return errors.New("the store is PostgreSQL: back it up with pg_dump or its own archiving")
	}
	if _, err := db.read.ExecContext(ctx, "VACUUM INTO ?", path); err != nil {
		return fmt.Errorf("back up %s to %s: %w", db.path, path, err)
	}
	return nil
}

// Micros is how a time is stored: microseconds since 1970 UTC. The zero time is 0.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// Time is the inverse of Micros.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
