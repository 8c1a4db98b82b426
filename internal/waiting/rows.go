package waiting

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

const columns = `id, account_id, user_id, name, gpu_model, gpus, region, zone, simulated, template, image, disk_gib, wish, max_per_hour, currency, time_zone,
	estimate, priority, state, code, message, failures, failed_at, lease_id, created_at, expires_at, ended_at`

// query returns the requests that a WHERE clause selects.
func query(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Request, error) {
	rows, err := tx.Query(ctx, `SELECT `+columns+` FROM waiting_request WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read waiting requests: %w", err)
	}
	defer rows.Close()
	var out []*Request
	for rows.Next() {
		var r Request
		var simulated, most, estimate, failed, created, expires, ended int64
		if err := rows.Scan(&r.ID, &r.AccountID, &r.UserID, &r.Name, &r.GPUModel, &r.GPUs, &r.Region, &r.Zone, &simulated, &r.Template, &r.Image, &r.DiskGiB, &r.wish,
			&most, &r.Currency, &r.TimeZone, &estimate, &r.Priority, &r.State, &r.Code, &r.Message, &r.Failures, &failed, &r.LeaseID, &created, &expires, &ended); err != nil {
			return nil, fmt.Errorf("read waiting requests: %w", err)
		}
		r.Simulated, r.MaxPerHour, r.Estimate = simulated == 1, money.Amount(most), time.Duration(estimate)*time.Microsecond
		r.FailedAt, r.CreatedAt, r.ExpiresAt, r.EndedAt = store.Time(failed), store.Time(created), store.Time(expires), store.Time(ended)
		out = append(out, &r)
	}
	return out, rows.Err()
}

// lock reads a request and keeps others from changing it until the transaction's end.
func lock(ctx context.Context, tx *store.Tx, id string) (*Request, error) {
	list, err := query(ctx, tx, `id = ?`+tx.ForUpdate(), id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(id)
	}
	return list[0], nil
}

func insert(ctx context.Context, tx *store.Tx, r *Request) error {
	simulated := 0
	if r.Simulated {
		simulated = 1
	}
	_, err := tx.Exec(ctx, `INSERT INTO waiting_request (`+columns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		r.ID, r.AccountID, r.UserID, r.Name, r.GPUModel, r.GPUs, r.Region, r.Zone, simulated, r.Template, r.Image, r.DiskGiB, r.wish, int64(r.MaxPerHour), string(r.Currency), r.TimeZone,
		r.Estimate.Microseconds(), r.Priority, string(r.State), r.Code, r.Message, r.Failures, store.Micros(r.FailedAt), r.LeaseID, store.Micros(r.CreatedAt), store.Micros(r.ExpiresAt), store.Micros(r.EndedAt))
	if err != nil {
		return fmt.Errorf("write waiting request: %w", err)
	}
	return nil
}

// save writes what may have changed of a request.
func save(ctx context.Context, tx *store.Tx, r *Request) error {
	_, err := tx.Exec(ctx, `UPDATE waiting_request SET state=?, code=?, message=?, failures=?, failed_at=?, lease_id=?, ended_at=? WHERE id=?`,
		string(r.State), r.Code, r.Message, r.Failures, store.Micros(r.FailedAt), r.LeaseID, store.Micros(r.EndedAt), r.ID)
	if err != nil {
		return fmt.Errorf("write waiting request: %w", err)
	}
	return nil
}

// move takes a request to where an event leads. The caller saves it.
func (r *Request) move(e Event, code, message string, now time.Time) error {
	to, ok := r.State.Next(e)
	if !ok {
		return fault.New(fault.Gone, "waiting_request_state", "waiting request %s is %s and has no %s", r.ID, r.State, e)
	}
	r.State, r.Code, r.Message, r.EndedAt = to, code, message, now
	return nil
}

func notFound(id string) error {
	return fault.New(fault.NotFound, "waiting_request_not_found", "there is no waiting request %q in this account; list yours to see their ids", id)
}
