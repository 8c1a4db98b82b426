package lease

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

const leaseColumns = `id, account_id, user_id, provider_id, host_id, quote_id, name, labels, template, image,
  gpu_model, gpu_uuids, bundle, price, spec, access_token, simulated, state, generation, version, code, message,
  exit_code, cleaned, deadline, idle_seconds, idle_gpu_percent, idle_cpu_percent, spending_cap, created_at,
  changed_at, running_since, ended_at, bid_id, interrupt_at, waits_until, interrupt_reason, gang_id, gang_waits`

func scanLease(row interface{ Scan(...any) error }) (*Lease, error) {
	var (
		l                                        Lease
		labels, gpus, bundle, price              string
		simulated, cleaned, idleSeconds, ceiling int64
		deadline, created, changed, since, ended int64
		interrupt, waits, gangWaits              int64
		exit                                     sql.NullInt64
	)
	err := row.Scan(&l.ID, &l.AccountID, &l.UserID, &l.ProviderID, &l.HostID, &l.QuoteID, &l.Name, &labels, &l.Template,
		&l.Image, &l.GPUModel, &gpus, &bundle, &price, &l.spec, &l.accessToken, &simulated, &l.State, &l.Generation, &l.version,
		&l.Code, &l.Message, &exit, &cleaned, &deadline, &idleSeconds, &l.Idle.GPUPercent, &l.Idle.CPUPercent,
		&ceiling, &created, &changed, &since, &ended, &l.BidID, &interrupt, &waits, &l.InterruptReason, &l.GangID, &gangWaits)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct {
		text string
		into any
	}{{labels, &l.Labels}, {gpus, &l.GPUs}, {bundle, &l.Bundle}, {price, &l.Price}} {
		if err := json.Unmarshal([]byte(f.text), f.into); err != nil {
			return nil, fmt.Errorf("lease %s: %w", l.ID, err)
		}
	}
	l.Simulated, l.Cleaned, l.GangWaits = simulated == 1, cleaned == 1, gangWaits == 1
	l.Idle.After = time.Duration(idleSeconds) * time.Second
	l.SpendingCap = money.Amount(ceiling)
	l.Deadline, l.CreatedAt, l.ChangedAt = store.Time(deadline), store.Time(created), store.Time(changed)
	l.RunningSince, l.EndedAt, l.InterruptAt = store.Time(since), store.Time(ended), store.Time(interrupt)
	l.WaitsUntil = store.Time(waits)
	if exit.Valid {
		code := int(exit.Int64)
		l.ExitCode = &code
	}
	return &l, nil
}

func insertLease(ctx context.Context, tx *store.Tx, l *Lease) error {
	_, err := tx.Exec(ctx, `INSERT INTO lease (`+leaseColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		l.ID, l.AccountID, l.UserID, l.ProviderID, l.HostID, l.QuoteID, l.Name, mustJSON(l.Labels), l.Template, l.Image,
		l.GPUModel, mustJSON(l.GPUs), mustJSON(l.Bundle), mustJSON(l.Price), l.spec, l.accessToken, bit(l.Simulated),
		string(l.State), l.Generation, l.version, l.Code, l.Message, nil, bit(l.Cleaned), store.Micros(l.Deadline),
		int64(l.Idle.After/time.Second), l.Idle.GPUPercent, l.Idle.CPUPercent, int64(l.SpendingCap), store.Micros(l.CreatedAt),
		store.Micros(l.ChangedAt), store.Micros(l.RunningSince), store.Micros(l.EndedAt), l.BidID, store.Micros(l.InterruptAt), store.Micros(l.WaitsUntil), l.InterruptReason, l.GangID, bit(l.GangWaits))
	return err
}

// saveState writes what a transition changes and nothing else, so that a
// renter's new deadline and a host's report never overwrite each other. It
// fails if somebody else moved the lease since l was read.
func saveState(ctx context.Context, tx *store.Tx, l *Lease) error {
	var exit any
	if l.ExitCode != nil {
		exit = *l.ExitCode
	}
	n, err := tx.Exec(ctx, `UPDATE lease SET state=?, generation=?, version=version+1, code=?, message=?, exit_code=?, cleaned=?,
		gpu_uuids=?, changed_at=?, running_since=?, ended_at=?, interrupt_at=?, waits_until=?, interrupt_reason=?, gang_waits=? WHERE id=? AND version=?`,
		string(l.State), l.Generation, l.Code, l.Message, exit, bit(l.Cleaned), mustJSON(l.GPUs), store.Micros(l.ChangedAt),
		store.Micros(l.RunningSince), store.Micros(l.EndedAt), store.Micros(l.InterruptAt), store.Micros(l.WaitsUntil), l.InterruptReason, bit(l.GangWaits), l.ID, l.version)
	if err != nil {
		return err
	}
	if n == 0 {
		return errMoved
	}
	l.version++
	return nil
}

// errMoved means that a lease changed between reading and writing it.
var errMoved = errors.New("the lease was changed at the same time")

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func loadLease(ctx context.Context, tx *store.Tx, id string) (*Lease, error) {
	l, err := scanLease(tx.QueryRow(ctx, `SELECT `+leaseColumns+` FROM lease WHERE id=?`+tx.ForUpdate(), id))
	if errors.Is(err, store.ErrNoRows) {
		return nil, notFound(id)
	}
	return l, err
}

func notFound(id string) error {
	return fault.New(fault.NotFound, "lease_not_found", "there is no lease %q in this account; list yours to see their ids", id)
}

func selectLeases(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Lease, error) {
	rows, err := tx.Query(ctx, `SELECT `+leaseColumns+` FROM lease WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []*Lease
	for rows.Next() {
		l, err := scanLease(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, rows.Err()
}

// countHeld returns how many leases an account has that are not over, and how
// many GPUs these have.
func countHeld(ctx context.Context, tx *store.Tx, accountID string) (leases, gpus int, err error) {
	rows, err := tx.Query(ctx, `SELECT gpu_uuids FROM lease WHERE account_id=? AND state NOT IN ('ended','failed')`, accountID)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.RawBytes
		var uuids []string
		if err := rows.Scan(&text); err != nil {
			return 0, 0, err
		}
		if err := json.Unmarshal(text, &uuids); err != nil {
			return 0, 0, err
		}
		leases, gpus = leases+1, gpus+len(uuids)
	}
	return leases, gpus, rows.Err()
}

// selectVersions returns the versions of all leases that are not done.
func selectVersions(ctx context.Context, tx *store.Tx) (map[string]int64, error) {
	rows, err := tx.Query(ctx, `SELECT id, version FROM lease WHERE cleaned=0`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	versions := map[string]int64{}
	for rows.Next() {
		var id string
		var version int64
		if err := rows.Scan(&id, &version); err != nil {
			return nil, err
		}
		versions[id] = version
	}
	return versions, rows.Err()
}

func insertChange(ctx context.Context, tx *store.Tx, c Change) error {
	_, err := tx.Exec(ctx, `INSERT INTO lease_event (id, lease_id, account_id, at, event, from_state, to_state, code, message) VALUES (?,?,?,?,?,?,?,?,?)`,
		c.ID, c.LeaseID, c.AccountID, store.Micros(c.At), string(c.Event), string(c.From), string(c.To), c.Code, c.Message)
	return err
}

func selectChanges(ctx context.Context, tx *store.Tx, leaseID string) ([]Change, error) {
	rows, err := tx.Query(ctx, `SELECT id, lease_id, account_id, at, event, from_state, to_state, code, message FROM lease_event WHERE lease_id=? ORDER BY id`, leaseID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Change
	for rows.Next() {
		var c Change
		var at int64
		if err := rows.Scan(&c.ID, &c.LeaseID, &c.AccountID, &at, &c.Event, &c.From, &c.To, &c.Code, &c.Message); err != nil {
			return nil, err
		}
		c.At = store.Time(at)
		list = append(list, c)
	}
	return list, rows.Err()
}

func insertQuote(ctx context.Context, tx *store.Tx, q *Quote) error {
	_, err := tx.Exec(ctx, `INSERT INTO quote (id, account_id, offer, request, price, created_at, valid_until) VALUES (?,?,?,?,?,?,?)`,
		q.ID, q.AccountID, mustJSON(q.Offer), mustJSON(q.Request), mustJSON(q.Price), store.Micros(q.CreatedAt), store.Micros(q.ValidUntil))
	return err
}

func loadQuote(ctx context.Context, tx *store.Tx, accountID, id string) (*Quote, error) {
	if err := ident.Check(ident.Quote, id); err != nil {
		return nil, invalid("body.quote_id", "invalid_quote_id", "%v", err)
	}
	q := Quote{ID: id}
	var offer, request, price string
	var created, valid int64
	err := tx.QueryRow(ctx, `SELECT account_id, offer, request, price, created_at, valid_until, lease_id FROM quote WHERE id=?`+tx.ForUpdate(), id).
		Scan(&q.AccountID, &offer, &request, &price, &created, &valid, &q.LeaseID)
	if errors.Is(err, store.ErrNoRows) || (err == nil && q.AccountID != accountID) {
		return nil, fault.New(fault.NotFound, "quote_not_found", "there is no quote %q in this account; ask for a new one", id)
	}
	if err != nil {
		return nil, err
	}
	q.CreatedAt, q.ValidUntil = store.Time(created), store.Time(valid)
	return &q, errors.Join(json.Unmarshal([]byte(offer), &q.Offer), json.Unmarshal([]byte(request), &q.Request), json.Unmarshal([]byte(price), &q.Price))
}
