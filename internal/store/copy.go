package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"suanli.dev/internal/fault"
)

// Copied is one table that was copied.
type Copied struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	// Digest is of the rows in any order, so that two engines' can be compared.
	Digest string `json:"digest"`
}

// CopyOptions say what is copied.
type CopyOptions struct {
	// Leave are tables that are left as they are, since what is in them is of a
	// running process; Seeded are those that may have rows in an empty database.
	Leave, Seeded []string
	// Progress is told before each table; nil: nobody is.
	Progress func(table string, done, of int)
}

// Copy copies every row of every table of one snapshot of from to to, whichever
// engines they are, in one transaction: to has all of it or nothing. Both must have
// the same tables, and those of to must be empty, or it is a fault "target_not_empty"
// and nothing is changed. Each table of to is read again and compared before the
// transaction ends; a difference is an error.
func Copy(ctx context.Context, from, to *DB, o CopyOptions) ([]Copied, error) {
	var all []Copied
	err := from.View(ctx, func(ctx context.Context, src *Tx) error {
		if err := src.standStill(ctx); err != nil {
			return err
		}
		tables, err := src.tables(ctx)
		if err != nil {
			return err
		}
		tables = slices.DeleteFunc(tables, func(t string) bool { return slices.Contains(o.Leave, t) })
		return to.Update(ctx, func(ctx context.Context, dst *Tx) error {
			all = all[:0]
			if err := dst.standStill(ctx); err != nil {
				return err
			}
			there, err := dst.tables(ctx)
			if err != nil {
				return err
			}
			if err := dst.prepare(ctx, tables, there, o); err != nil {
				return err
			}
			for i, t := range tables {
				if o.Progress != nil {
					o.Progress(t, i, len(tables))
				}
				c, err := copyTable(ctx, src, dst, t)
				if err != nil {
					return fmt.Errorf("copy table %s: %w", t, err)
				}
				all = append(all, c)
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// standStill lets the transaction do nothing for as long as the other side takes.
func (t *Tx) standStill(ctx context.Context) error {
	if !t.postgres {
		return nil
	}
	_, err := t.Exec(ctx, `SET LOCAL idle_in_transaction_session_timeout = 0`)
	return err
}

// prepare makes sure that dst has the tables and that they are empty.
func (t *Tx) prepare(ctx context.Context, tables, there []string, o CopyOptions) error {
	for _, name := range tables {
		if !slices.Contains(there, name) {
			return fmt.Errorf("the target has no table %s: it is of another version", name)
		}
		var n int64
		if err := t.QueryRow(ctx, `SELECT COUNT(*) FROM `+quoted(name)).Scan(&n); err != nil {
			return err
		}
		if n > 0 && !slices.Contains(o.Seeded, name) {
			return fault.New(fault.Conflict, "target_not_empty", "the target has %d rows in table %s: a cloud is copied to an empty database only, so that nothing is mixed or lost; name another one, or empty this one", n, name)
		}
	}
	if !t.postgres {
		if _, err := t.Exec(ctx, `PRAGMA defer_foreign_keys = ON`); err != nil {
			return err
		}
	}
	for _, name := range slices.Backward(tables) {
		if slices.Contains(o.Seeded, name) {
			if _, err := t.Exec(ctx, `DELETE FROM `+quoted(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// tables returns the tables of the services, those that others refer to first.
func (t *Tx) tables(ctx context.Context) ([]string, error) {
	list := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
	refers := `SELECT m.name, f."table" FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f WHERE m.type = 'table'`
	if t.postgres {
		list = `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' ORDER BY table_name`
		refers = `SELECT c.conrelid::regclass::text, c.confrelid::regclass::text FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
			WHERE c.contype = 'f' AND n.nspname = current_schema()`
	}
	var names []string
	rows, err := t.Query(ctx, list)
	if err != nil {
		return nil, err
	}
	if err := scanAll(rows, func() error {
		var name string
		err := rows.Scan(&name)
		if err == nil && !strings.HasPrefix(name, "schema_") {
			names = append(names, name)
		}
		return err
	}); err != nil {
		return nil, err
	}
	needs := map[string][]string{}
	rows, err = t.Query(ctx, refers)
	if err != nil {
		return nil, err
	}
	if err := scanAll(rows, func() error {
		var a, b string
		err := rows.Scan(&a, &b)
		needs[a] = append(needs[a], b)
		return err
	}); err != nil {
		return nil, err
	}
	var ordered []string
	placed := map[string]bool{}
	var place func(string)
	place = func(name string) {
		if placed[name] {
			return // also one that refers to itself
		}
		placed[name] = true
		for _, n := range needs[name] {
			place(n)
		}
		ordered = append(ordered, name)
	}
	for _, n := range names {
		place(n)
	}
	return ordered, nil
}

func scanAll(rows *sql.Rows, scan func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return rows.Close()
}

// maxParameters is how many values one INSERT has at most; PostgreSQL takes 65535
// and SQLite 32766.
const maxParameters = 16000

func copyTable(ctx context.Context, src, dst *Tx, table string) (Copied, error) {
	c := Copied{Table: table}
	rows, err := src.Query(ctx, `SELECT * FROM `+quoted(table))
	if err != nil {
		return c, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return c, err
	}
	slots := "(?" + strings.Repeat(", ?", len(columns)-1) + ")"
	names := make([]string, len(columns))
	for i, n := range columns {
		names[i] = quoted(n)
	}
	insert := `INSERT INTO ` + quoted(table) + ` (` + strings.Join(names, ", ") + `) VALUES `
	var batch []any
	put := func() error {
		n := len(batch) / len(columns)
		if n == 0 {
			return nil
		}
		_, err := dst.Exec(ctx, insert+slots+strings.Repeat(", "+slots, n-1), batch...)
		batch = batch[:0]
		return err
	}
	var sum digest
	err = scanAll(rows, func() error {
		row, err := readRow(rows, len(columns))
		if err != nil {
			return err
		}
		sum.add(columns, row)
		batch = append(batch, row...)
		if len(batch)+len(columns) > maxParameters {
			return put()
		}
		return nil
	})
	if err == nil {
		err = put()
	}
	if err != nil {
		return c, err
	}
	c.Rows, c.Digest = sum.rows, sum.text()
	again, err := digestOf(ctx, dst, table)
	if err != nil {
		return c, err
	}
	if again != sum {
		return c, fmt.Errorf("the target has %d rows with digest %s, the source %d with %s", again.rows, again.text(), sum.rows, sum.text())
	}
	return c, nil
}

func readRow(rows *sql.Rows, n int) ([]any, error) {
	row, to := make([]any, n), make([]any, n)
	for i := range row {
		to[i] = &row[i]
	}
	if err := rows.Scan(to...); err != nil {
		return nil, err
	}
	for i, v := range row {
		if b, ok := v.([]byte); ok {
			row[i] = string(b)
		}
	}
	return row, nil
}

// digest is a sum of rows' hashes, whatever their order and that of their columns.
type digest struct {
	rows int64
	sum  [4]uint64
}

func (d *digest) add(columns []string, row []any) {
	order := make([]int, len(columns))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(columns[a], columns[b]) })
	h := sha256.New()
	for _, i := range order {
		text := "null"
		if row[i] != nil {
			text = fmt.Sprintf("%T:%v", row[i], row[i])
		}
		fmt.Fprintf(h, "%s=%d:%s\n", columns[i], len(text), text)
	}
	s := h.Sum(nil)
	for i := range d.sum {
		d.sum[i] += binary.BigEndian.Uint64(s[8*i:])
	}
	d.rows++
}

func (d *digest) text() string {
	var b [32]byte
	for i, v := range d.sum {
		binary.BigEndian.PutUint64(b[8*i:], v)
	}
	return hex.EncodeToString(b[:])
}

func digestOf(ctx context.Context, tx *Tx, table string) (digest, error) {
	var d digest
	rows, err := tx.Query(ctx, `SELECT * FROM `+quoted(table))
	if err != nil {
		return d, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return d, err
	}
	return d, scanAll(rows, func() error {
		row, err := readRow(rows, len(columns))
		if err == nil {
			d.add(columns, row)
		}
		return err
	})
}
