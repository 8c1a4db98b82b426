package lease

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/store"
)

// Stretch is a time, half open.
type Stretch struct {
	From, Until time.Time // zero: it goes on
}

// Wanted finds when a lease was to run, oldest first: from when it was confirmed
// running until it was asked to stop, or stopped by itself. What its host did to it
// meanwhile is in it.
func Wanted(history []Change) []Stretch {
	var list []Stretch
	runs := func(s State) bool { return s == Running || s == Unreachable }
	open := false
	for _, c := range history {
		switch {
		case runs(c.To) && !open:
			list = append(list, Stretch{From: c.At})
			open = true
		case !runs(c.To) && open:
			list[len(list)-1].Until = c.At
			open = false
		}
	}
	return list
}

// Troubled lists the leases that had an outage which began before a moment and that
// were not over before another, by identifier.
func (s *Service) Troubled(ctx context.Context, from, until time.Time) ([]string, error) {
	var list []string
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT DISTINCT e.lease_id FROM lease_event e JOIN lease l ON l.id = e.lease_id
			WHERE (e.event = 'host_fault' OR e.to_state = 'unreachable') AND e.at < ? AND (l.ended_at = 0 OR l.ended_at >= ?) ORDER BY e.lease_id`,
			store.Micros(until), store.Micros(from))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				return err
			}
			list = append(list, id)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list leases with outages: %w", err)
	}
	return list, nil
}

// Record returns a lease and what happened to it, oldest first, whosever it is; for
// the cloud's own parts, which check who asks themselves.
func (s *Service) Record(ctx context.Context, id string) (*Lease, []Change, error) {
	var l *Lease
	var list []Change
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		found, err := selectLeases(ctx, tx, `id=?`, id)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return notFound(id)
		}
		l = found[0]
		list, err = selectChanges(ctx, tx, id)
		return err
	})
	return l, list, err
}
