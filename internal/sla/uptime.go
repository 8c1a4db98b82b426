package sla

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/store"
)

// The control plane's own availability: every replica writes the present minute
// into the store, and a minute that nobody wrote was one in which the cloud could
// not do its work. Leases run on meanwhile, so it gives no credit; it is published.
const (
	beatEvery = 20 * time.Second     // a minute is missed only if three in a row are
	keepFor   = 400 * 24 * time.Hour // of minutes
	gapsShown = 90 * 24 * time.Hour
	mostGaps  = 100
)

// Uptime is the control plane's availability as far as it is known.
type Uptime struct {
	At       time.Time // it is for the whole minutes before this one
	Since    time.Time // the first minute that was measured
	Windows  []Window
	Gaps     []Gap // of the last 90 days, newest first, 100 at most
	GapsLeft int   // how many more there are
}

// Window is the availability in a time that ends now.
type Window struct {
	Days      int
	Minutes   int64 // that were measured
	Up        int64
	Available int64 // millionths, rounded down
}

// Gap is a time in which no minute was written.
type Gap struct{ From, Until time.Time }

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

func timeOf(minute int64) time.Time { return time.Unix(minute*60, 0).UTC() }

// Beat says that the control plane is up in the present minute.
func (s *Service) Beat(ctx context.Context) error {
	minute := minuteOf(s.cfg.Clock())
	if s.beaten.Load() == minute {
		return nil
	}
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO sla_minutes (minute) VALUES (?) ON CONFLICT DO NOTHING`, minute)
		return err
	})
	if err != nil {
		return fmt.Errorf("write the minute: %w", err)
	}
	s.beaten.Store(minute)
	return nil
}

// forgetMinutes deletes minutes that are too old to be asked for.
func (s *Service) forgetMinutes(ctx context.Context) error {
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM sla_minutes WHERE minute < ?`, minuteOf(s.cfg.Clock().Add(-keepFor)))
		return err
	})
}

// Uptime returns the control plane's availability in the last day, week, month of
// 30 days and year, or since it was first measured. It is computed once a minute,
// however often it is asked for.
func (s *Service) Uptime(ctx context.Context) (Uptime, error) {
	now := minuteOf(s.cfg.Clock())
	s.uptime.Lock()
	defer s.uptime.Unlock()
	if s.uptime.minute == now {
		return s.uptime.last, nil
	}
	u, err := s.readUptime(ctx, now)
	if err != nil {
		return Uptime{}, fmt.Errorf("the control plane's availability: %w", err)
	}
	s.uptime.minute, s.uptime.last = now, u
	return u, nil
}

func (s *Service) readUptime(ctx context.Context, now int64) (Uptime, error) {
	u := Uptime{At: timeOf(now), Windows: []Window{}, Gaps: []Gap{}}
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		var first int64
		if err := tx.QueryRow(ctx, `SELECT COALESCE(MIN(minute), 0) FROM sla_minutes`).Scan(&first); err != nil {
			return err
		}
		if first == 0 {
			return nil
		}
		u.Since = timeOf(first)
		for _, days := range []int{1, 7, 30, 365} {
			from := max(first, now-int64(days)*24*60)
			w := Window{Days: days, Minutes: now - from, Available: 1_000_000}
			if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM sla_minutes WHERE minute >= ? AND minute < ?`, from, now).Scan(&w.Up); err != nil {
				return err
			}
			if w.Minutes > 0 {
				w.Available = w.Up * 1_000_000 / w.Minutes
			}
			u.Windows = append(u.Windows, w)
		}
		return s.readGaps(ctx, tx, now, &u)
	})
	return u, err
}

func (s *Service) readGaps(ctx context.Context, tx *store.Tx, now int64, u *Uptime) error {
	rows, err := tx.Query(ctx, `SELECT before, minute FROM (SELECT minute, LAG(minute) OVER (ORDER BY minute) AS before FROM sla_minutes WHERE minute >= ?) AS pairs
		WHERE minute > before + 1 ORDER BY minute DESC`, minuteOf(timeOf(now).Add(-gapsShown)))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var before, minute int64
		if err := rows.Scan(&before, &minute); err != nil {
			return err
		}
		if len(u.Gaps) == mostGaps {
			u.GapsLeft++
			continue
		}
		u.Gaps = append(u.Gaps, Gap{From: timeOf(before + 1), Until: timeOf(minute)})
	}
	return rows.Err()
}
