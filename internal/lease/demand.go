package lease

import (
	"context"
	"time"

	"suanli.dev/internal/store"
)

// Demand is what somebody asked for and how long it ran: what simulations replay.
type Demand struct {
	*Lease
	StartedAt time.Time     // of the first run; zero: never
	Ran       time.Duration // until now, if it still runs
}

// Demand returns the leases of all accounts, newest first, up to limit, that come
// after the cursor; the second result is the next cursor, empty at the end. It is
// for operators, which the caller checks.
func (s *Service) Demand(ctx context.Context, cursor string, limit int) ([]Demand, string, error) {
	if limit < 1 {
		limit = defaultPage
	}
	var out []Demand
	now := s.Clock()
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = out[:0]
		where, args := `1=1`, []any{}
		if cursor != "" {
			where, args = `id<?`, append(args, cursor)
		}
		list, err := selectLeases(ctx, tx, where+` ORDER BY id DESC LIMIT ?`, append(args, limit+1)...)
		if err != nil {
			return err
		}
		for _, l := range list {
			changes, err := selectChanges(ctx, tx, l.ID)
			if err != nil {
				return err
			}
			d := Demand{Lease: l}
			d.StartedAt, d.Ran = ran(changes, now)
			out = append(out, d)
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

// ran is when a lease first ran, and how long it has by now.
func ran(changes []Change, now time.Time) (first time.Time, total time.Duration) {
	var since time.Time
	for _, c := range changes {
		switch {
		case c.To == Running && since.IsZero():
			since = c.At
			if first.IsZero() {
				first = c.At
			}
		case c.To != Running && !since.IsZero():
			total += c.At.Sub(since)
			since = time.Time{}
		}
	}
	if !since.IsZero() {
		total += now.Sub(since)
	}
	return first, total
}
