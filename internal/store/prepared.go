package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"

	"modernc.org/sqlite"
)

// preparing is SQLite's driver with a cache of compiled statements in each
// connection: the services run the same few dozen statements again and again,
// and compiling one takes longer than most of them take to run. (PostgreSQL's
// driver has such a cache of its own.) It is below database/sql, since a
// statement that is prepared there while a transaction has the only connection
// would wait for that connection.
const preparing = "sqlite-prepared"

func init() { sql.Register(preparing, preparingDriver{}) }

// maxPrepared bounds the statements that one connection keeps; a few kilobytes each.
const maxPrepared = 256

type preparingDriver struct{}

// Open implements driver.Driver.
func (preparingDriver) Open(name string) (driver.Conn, error) {
	c, err := (&sqlite.Driver{}).Open(name)
	if err != nil {
		return nil, err
	}
	return &preparingConn{sqliteConn: c.(sqliteConn), cache: map[string]*prepared{}}, nil
}

// sqliteConn is what the driver's connection can do and database/sql asks for.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// preparingConn is used by one goroutine at a time, as database/sql promises.
type preparingConn struct {
	sqliteConn
	cache map[string]*prepared
}

type prepared struct {
	stmt driver.Stmt
	busy bool // its rows are being read
}

// statement returns the compiled statement, or nil if it is not for keeping or
// is in use further up: then the driver makes a new one.
func (c *preparingConn) statement(ctx context.Context, query string) (*prepared, error) {
	if p := c.cache[query]; p != nil {
		if p.busy {
			return nil, nil
		}
		return p, nil
	}
	if !repeats(query) {
		return nil, nil
	}
	if len(c.cache) >= maxPrepared {
		for text, p := range c.cache { // any that is not in use
			if !p.busy {
				delete(c.cache, text)
				_ = p.stmt.Close()
				break
			}
		}
	}
	stmt, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	p := &prepared{stmt: stmt}
	c.cache[query] = p
	return p, nil
}

// repeats reports whether a statement is of the kinds that services run. Those
// that change the schema run once.
func repeats(query string) bool {
	verb, _, _ := strings.Cut(strings.TrimSpace(query), " ")
	switch verb {
	case "SELECT", "INSERT", "UPDATE", "DELETE", "SAVEPOINT", "RELEASE", "ROLLBACK":
		return true
	}
	return false
}

// ExecContext implements driver.ExecerContext.
func (c *preparingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	p, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return c.sqliteConn.ExecContext(ctx, query, args)
	}
	return p.stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *preparingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	p, err := c.statement(ctx, query)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return c.sqliteConn.QueryContext(ctx, query, args)
	}
	rows, err := p.stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	if err != nil {
		return nil, err
	}
	p.busy = true
	return &preparedRows{Rows: rows, of: p}, nil
}

// Close implements driver.Conn.
func (c *preparingConn) Close() error {
	for _, p := range c.cache {
		_ = p.stmt.Close()
	}
	clear(c.cache)
	return c.sqliteConn.Close()
}

// preparedRows gives the statement free when they are closed.
type preparedRows struct {
	driver.Rows
	of *prepared
}

// Close implements driver.Rows.
func (r *preparedRows) Close() error {
	err := r.Rows.Close()
	r.of.busy = false
	return err
}
