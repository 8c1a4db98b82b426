package billing

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Spending is what one lease cost its account in a stretch of time.
type Spending struct {
	LeaseID     string
	Simulated   bool
	Posted      money.Amount // the sum of its charges that count in the stretch
	Unposted    money.Amount // used in the stretch and not posted yet; negative: a correction is to come
	BurnPerHour money.Amount // of what runs and is kept now
	// Running says that it uses compute which is not paid for in advance.
	Running bool
}

// Spending returns what each of an account's leases cost after from, and up to until
// or now, whichever is earlier. A charge counts where an invoice has it: by when it
// is booked. Leases that cost nothing and are over are left out.
func (s *Service) Spending(ctx context.Context, tx *store.Tx, accountID string, from, until, now time.Time) ([]Spending, error) {
	rows, err := tx.Query(ctx, `SELECT lease_id, MAX(simulated), CAST(SUM(amount) AS BIGINT) FROM billing_charges
		WHERE account_id = ? AND booked_at > ? AND booked_at <= ? GROUP BY lease_id ORDER BY lease_id`, accountID, store.Micros(from), store.Micros(until))
	if err != nil {
		return nil, fmt.Errorf("spending of %s: %w", accountID, err)
	}
	defer rows.Close()
	var out []Spending
	place := map[string]int{}
	for rows.Next() {
		var v Spending
		var simulated int64
		if err := rows.Scan(&v.LeaseID, &simulated, &v.Posted); err != nil {
			return nil, fmt.Errorf("spending of %s: %w", accountID, err)
		}
		v.Simulated = simulated != 0
		place[v.LeaseID] = len(out)
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("spending of %s: %w", accountID, err)
	}
	rows.Close()
	leases, err := s.openLeases(ctx, tx, accountID)
	if err != nil {
		return nil, fmt.Errorf("spending of %s: %w", accountID, err)
	}
	for _, l := range leases {
		i, ok := place[l.id]
		if !ok {
			i = len(out)
			out = append(out, Spending{LeaseID: l.id, Simulated: l.simulated})
		}
		v := &out[i]
		if v.Unposted, err = s.unposted(l, from, earliest(until, now)); err != nil {
			return nil, fmt.Errorf("spending of lease %s: %w", l.id, err)
		}
		if v.BurnPerHour, err = burnOf(l, false, now); err != nil {
			return nil, fmt.Errorf("spending of lease %s: %w", l.id, err)
		}
		c := l.openInterval(pricing.Compute)
		v.Running = c != nil && (c.limit.IsZero() || now.Before(c.limit)) && (l.monthly == nil || !l.monthly.inForce()) && l.reserved == nil
	}
	return out, nil
}

// unposted is what came to be due for a lease from one moment to another and is not
// posted. What was due by the first and is not posted either is not of the stretch.
func (s *Service) unposted(l *leaseRow, from, at time.Time) (money.Amount, error) {
	if !from.Before(at) {
		return 0, nil
	}
	due, err := s.due(l, at)
	if err != nil {
		return 0, err
	}
	before := l.posted.total()
	if l.settled.Before(from) {
		then, err := s.due(l, from)
		if err != nil {
			return 0, err
		}
		before = max(before, then)
	}
	return due - before, nil
}
