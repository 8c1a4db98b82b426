package billing

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// MeterReserved is the meter of the time that a reservation held GPUs. It is apart
// from compute, as the leases that it pays for have that.
const MeterReserved = "reserved"

// Used is use of one meter of one lease since the event before it, whatever paid
// for it.
type Used struct {
	ID        string // stays the same however often it is read
	LeaseID   string
	AccountID string
	Meter     string // compute, storage, egress or MeterReserved
	Plan      string
	GPUModel  string // may be empty
	Zone      string // may be empty
	GPUs      int64
	Simulated bool
	From, To  time.Time
	Number    int64 // the place in the order of reading, from 1 on

	amount, factor int64
}

// Unit is what Quantity counts: s of the lease as a whole, GiB·s or byte.
func (u Used) Unit() string {
	switch u.Meter {
	case string(pricing.Storage):
		return "GiB·s"
	case string(pricing.Egress):
		return "byte"
	}
	return "s"
}

// Quantity is the exact decimal text of what was used, without needless zeros;
// negative: it corrects what was said before.
func (u Used) Quantity() string {
	n := new(big.Int).Mul(big.NewInt(u.amount), big.NewInt(u.factor))
	if u.Meter == string(pricing.Egress) {
		return n.String()
	}
	text := new(big.Rat).SetFrac(n, big.NewInt(1_000_000)).FloatString(6)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// measuredMeters are the meters of which use is told.
var measuredMeters = [...]pricing.Meter{pricing.Compute, pricing.Storage, pricing.Egress}

// measuredFor is what was told of a lease by a moment, in the order of
// measuredMeters.
type measuredFor struct {
	totals [len(measuredMeters)]int64
	at     time.Time
}

// measure returns the totals of a use, in microseconds or bytes.
func measure(u pricing.Usage) (totals [len(measuredMeters)]int64) {
	stretch := func(i pricing.Interval) int64 {
		return max(0, store.Micros(i.End)-store.Micros(i.Start))
	}
	for _, i := range u.Compute {
		totals[0] += stretch(i)
	}
	for _, i := range u.Storage {
		totals[1] += stretch(i)
	}
	totals[2] = u.EgressBytes
	return totals
}

// tell writes what was used of a lease since that was last told, from the use that
// is charged, in the same transaction; bytes only if it is the last stretch of a
// charge, as they are charged then.
func (s *Service) tell(ctx context.Context, tx *store.Tx, l *leaseRow, u pricing.Usage, at time.Time, last bool) error {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Before(l.measured.at) {
		return nil // more than that has been told; a later moment corrects it if it must
	}
	now := measure(u)
	simulated := 0
	if l.simulated {
		simulated = 1
	}
	var rows []string
	var args []any
	for i, m := range measuredMeters {
		if !last && !timed(m) {
			now[i] = l.measured.totals[i]
		}
		delta := now[i] - l.measured.totals[i]
		if delta == 0 {
			continue
		}
		name, factor := string(m), int64(1)
		switch {
		case m == pricing.Storage:
			if factor = l.quote.DiskGiB; factor == 0 {
				now[i] = l.measured.totals[i]
				continue // no disk, nothing to tell of it
			}
		case m == pricing.Compute && l.reserved != nil:
			name = MeterReserved
		}
		rows = append(rows, `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
		args = append(args, ident.New(ident.Usage), l.id, l.accountID, name, delta, factor, string(l.quote.Plan), simulated, store.Micros(latest(l.begun, l.measured.at)), store.Micros(latest(l.begun, at)))
	}
	if len(rows) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `INSERT INTO billing_usage (id, lease_id, account_id, meter, amount, factor, plan, simulated, from_at, to_at) VALUES `+strings.Join(rows, ", "), args...); err != nil {
		return fmt.Errorf("tell use of lease %s: %w", l.id, err)
	}
	l.measured = measuredFor{now, latest(l.begun, at)}
	return nil
}

// saveMeasured writes what was told of a lease and the sign of life that it relied
// on, where nothing is charged with it.
func (l *leaseRow) saveMeasured(ctx context.Context, tx *store.Tx) error {
	if _, err := tx.Exec(ctx, `UPDATE billing_leases SET confirmed_at = ?, measured_compute = ?, measured_storage = ?, measured_egress = ?, measured_at = ? WHERE lease_id = ?`,
		store.Micros(l.confirmed), l.measured.totals[0], l.measured.totals[1], l.measured.totals[2], store.Micros(l.measured.at), l.id); err != nil {
		return fmt.Errorf("tell use of lease %s: %w", l.id, err)
	}
	return nil
}

// numberedAtOnce bounds how long numbering keeps the row that it locks.
const numberedAtOnce = 10_000

// number gives events that are committed and have none their places in the order of
// reading. Without it, one whose transaction took longer could come to be before
// others that were read already, and whoever follows would never see it.
func (s *Service) number(ctx context.Context) error {
	for {
		var left bool
		if err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			return tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM billing_usage WHERE number = 0)`).Scan(&left)
		}); err != nil {
			return fmt.Errorf("number use: %w", err)
		}
		if !left {
			return nil
		}
		err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			var last int64
			if err := tx.QueryRow(ctx, `SELECT last FROM billing_usage_reading WHERE one = 1`+tx.ForUpdate()).Scan(&last); err != nil {
				return err
			}
			n, err := tx.Exec(ctx, `UPDATE billing_usage SET number = ? + fresh.place
				FROM (SELECT id AS fresh_id, ROW_NUMBER() OVER (ORDER BY id) AS place FROM billing_usage WHERE number = 0 ORDER BY id LIMIT ?) AS fresh
				WHERE billing_usage.id = fresh.fresh_id`, last, numberedAtOnce)
			if err != nil || n == 0 {
				return err
			}
			_, err = tx.Exec(ctx, `UPDATE billing_usage_reading SET last = ? WHERE one = 1`, last+n)
			return err
		})
		if err != nil {
			return fmt.Errorf("number use: %w", err)
		}
	}
}

// UsedQuery selects events of use.
type UsedQuery struct {
	AccountID string    // empty: all accounts, for operators
	LeaseID   string    // empty: all leases
	Meter     string    // empty: all meters
	From      time.Time // only those whose stretch ends after it; zero: all
	After     int64     // only those with a greater Number
	AfterID   string    // only those behind the one with this identifier; empty: from the first
	Limit     int
}

// Usage lists what was used, in the order of writing. Who reads on after the Number
// of the last one, or its identifier, misses none. It is an Invalid fault "bad_cursor" if
// AfterID is not one of the account's events.
func (s *Service) Usage(ctx context.Context, q UsedQuery) ([]Used, error) {
	if err := s.number(ctx); err != nil {
		return nil, err
	}
	if q.AfterID != "" {
		after, err := s.placeOf(ctx, q)
		if err != nil {
			return nil, err
		}
		q.After = max(q.After, after)
	}
	where, args := `u.number > ?`, []any{q.After}
	if q.AccountID != "" {
		where, args = where+` AND u.account_id = ?`, append(args, q.AccountID)
	}
	if q.LeaseID != "" {
		where, args = where+` AND u.lease_id = ?`, append(args, q.LeaseID)
	}
	if q.Meter != "" {
		where, args = where+` AND u.meter = ?`, append(args, q.Meter)
	}
	if !q.From.IsZero() {
		where, args = where+` AND u.to_at > ?`, append(args, store.Micros(q.From))
	}
	var out []Used
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT u.id, u.lease_id, u.account_id, u.meter, u.amount, u.factor, u.plan, u.simulated, u.from_at, u.to_at, u.number, l.gpu_model, l.zone, l.gpu_count
			FROM billing_usage u JOIN billing_leases l ON l.lease_id = u.lease_id WHERE `+where+` ORDER BY u.number LIMIT ?`, append(args, q.Limit)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var u Used
			var simulated, from, to int64
			if err := rows.Scan(&u.ID, &u.LeaseID, &u.AccountID, &u.Meter, &u.amount, &u.factor, &u.Plan, &simulated, &from, &to, &u.Number, &u.GPUModel, &u.Zone, &u.GPUs); err != nil {
				return err
			}
			u.Simulated, u.From, u.To = simulated != 0, store.Time(from), store.Time(to)
			out = append(out, u)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list use: %w", err)
	}
	return out, nil
}

// placeOf returns the place of the event that a query continues after.
func (s *Service) placeOf(ctx context.Context, q UsedQuery) (number int64, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT number FROM billing_usage WHERE id = ? AND (account_id = ? OR ? = '')`, q.AfterID, q.AccountID, q.AccountID).Scan(&number)
	})
	if errors.Is(err, store.ErrNoRows) {
		return 0, fault.New(fault.Invalid, "bad_cursor", "the cursor %q is no event of this account's; give the id of the last event that you have, or none to begin at the first", q.AfterID).At("query.cursor")
	}
	if err != nil {
		return 0, fmt.Errorf("list use: %w", err)
	}
	return number, nil
}
