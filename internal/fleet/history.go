package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

// Stretch is a time in which something held for one GPU.
type Stretch struct {
	HostID, GPU string
	LeaseID     string // of a GPU that was in a lease
	Model       string // of a GPU that was on the market
	Simulated   bool
	From        time.Time
	Until       time.Time // zero: it goes on
}

// Announcement is a maintenance window and when it was announced.
type Announcement struct {
	ID, HostID string
	Window
	AnnouncedAt time.Time
}

// History is what a provider's GPUs did in a time.
type History struct {
	Rented      []Stretch // by lease and GPU
	Listed      []Stretch // on the market, as their provider wished; whether the host was up is not in it
	Maintenance []Announcement
}

// History returns what happened to an account's GPUs between two moments: what
// overlaps them, not cut to them.
func (s *Service) History(ctx context.Context, accountID string, from, until time.Time) (History, error) {
	var out History
	args := []any{accountID, store.Micros(until), store.Micros(from)}
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out.Rented, err = stretches(ctx, tx, `SELECT gpu_uuid, host_id, lease_id, '', simulated, from_at, until_at FROM fleet_rented
			WHERE account_id = ? AND from_at < ? AND (until_at = 0 OR until_at > ?) ORDER BY from_at, lease_id, gpu_uuid`, args...)
		if err != nil {
			return err
		}
		out.Listed, err = stretches(ctx, tx, `SELECT gpu_uuid, host_id, '', model, simulated, from_at, until_at FROM fleet_listed
			WHERE account_id = ? AND from_at < ? AND (until_at = 0 OR until_at > ?) ORDER BY from_at, gpu_uuid`, args...)
		if err != nil {
			return err
		}
		out.Maintenance, err = announcements(ctx, tx, `account_id = ? AND from_at < ? AND until_at > ?`, args...)
		return err
	})
	if err != nil {
		return History{}, fmt.Errorf("history of %s: %w", accountID, err)
	}
	return out, nil
}

// Announced returns the maintenance of a host that overlaps a time, oldest first.
func (s *Service) Announced(ctx context.Context, hostID string, from, until time.Time) ([]Announcement, error) {
	var out []Announcement
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = announcements(ctx, tx, `host_id = ? AND from_at < ? AND until_at > ?`, hostID, store.Micros(until), store.Micros(from))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("maintenance of %s: %w", hostID, err)
	}
	return out, nil
}

func stretches(ctx context.Context, tx *store.Tx, query string, args ...any) ([]Stretch, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []Stretch
	err = each(rows, func() error {
		var t Stretch
		var simulated, from, until int64
		if err := rows.Scan(&t.GPU, &t.HostID, &t.LeaseID, &t.Model, &simulated, &from, &until); err != nil {
			return err
		}
		t.Simulated = simulated != 0
		t.From, t.Until = store.Time(from), store.Time(until)
		out = append(out, t)
		return nil
	})
	return out, err
}

func announcements(ctx context.Context, tx *store.Tx, where string, args ...any) ([]Announcement, error) {
	rows, err := tx.Query(ctx, `SELECT id, host_id, from_at, until_at, announced_at FROM fleet_maintenance WHERE until_at > from_at AND `+where+` ORDER BY from_at, id`, args...)
	if err != nil {
		return nil, err
	}
	var out []Announcement
	err = each(rows, func() error {
		var a Announcement
		var from, until, announced int64
		if err := rows.Scan(&a.ID, &a.HostID, &from, &until, &announced); err != nil {
			return err
		}
		a.Window, a.AnnouncedAt = Window{From: store.Time(from), Until: store.Time(until)}, store.Time(announced)
		out = append(out, a)
		return nil
	})
	return out, err
}

// announce keeps a maintenance window in the history: the window before it is cut
// to now, or, if it had not begun, never was. A window that lies within the one
// that it replaces was announced with that one; any other is announced now.
func (s *Service) announce(ctx context.Context, tx *store.Tx, r *record, old, w Window) error {
	if old == w {
		return nil
	}
	now := store.Micros(s.clock())
	announced := now
	if old != (Window{}) {
		var first int64
		err := tx.QueryRow(ctx, `SELECT COALESCE(MIN(announced_at), 0) FROM fleet_maintenance WHERE host_id = ? AND withdrawn_at = 0 AND from_at = ? AND until_at = ?`,
			r.ID, store.Micros(old.From), store.Micros(old.Until)).Scan(&first)
		if err != nil {
			return err
		}
		if first != 0 && !w.From.Before(old.From) && !w.Until.After(old.Until) {
			announced = first
		}
	}
	if _, err := tx.Exec(ctx, `UPDATE fleet_maintenance SET withdrawn_at = ?, until_at = CASE WHEN from_at > ? THEN from_at ELSE ? END
		WHERE host_id = ? AND withdrawn_at = 0 AND until_at > ?`, now, now, now, r.ID, now); err != nil {
		return err
	}
	if w == (Window{}) {
		return nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO fleet_maintenance (id, host_id, account_id, from_at, until_at, announced_at) VALUES (?, ?, ?, ?, ?, ?)`,
		ident.New(ident.Maintenance), r.ID, r.AccountID, store.Micros(w.From), store.Micros(w.Until), announced)
	return err
}

// onMarket returns the models of the GPUs that a host's provider has on the
// market, by UUID, and until when.
func (r *record) onMarket(now time.Time) (models map[string]string, until time.Time) {
	until = now
	models = map[string]string{}
	if r.Listing.Unlisted {
		return models, until
	}
	if end := r.Listing.EndsAt; !end.IsZero() && !end.After(now) {
		return models, end
	}
	for _, g := range r.GPUs {
		if g.Present {
			models[g.UUID] = g.Model
		}
	}
	return models, until
}

// keepListed brings the history of what is on the market in line with a host as
// it is now. Every replica may do it: a GPU has at most one stretch that goes on.
func (s *Service) keepListed(ctx context.Context, r *record) error {
	now := s.clock()
	models, end := r.onMarket(now)
	open, err := s.openStretches(ctx, r.ID)
	if err != nil {
		return err
	}
	var closed []Stretch
	for _, t := range open {
		if _, ok := models[t.GPU]; !ok {
			closed = append(closed, t)
		}
		delete(models, t.GPU)
	}
	if len(closed) == 0 && len(models) == 0 {
		return nil
	}
	return s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, t := range closed {
			until := end
			if until.Before(t.From) {
				until = t.From
			}
			if _, err := tx.Exec(ctx, `UPDATE fleet_listed SET until_at = ? WHERE gpu_uuid = ? AND until_at = 0`, store.Micros(until), t.GPU); err != nil {
				return err
			}
		}
		for uuid, model := range models {
			if _, err := tx.Exec(ctx, `INSERT INTO fleet_listed (gpu_uuid, from_at, host_id, account_id, model, simulated) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
				uuid, store.Micros(now), r.ID, r.AccountID, model, bit(r.Simulated)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Service) openStretches(ctx context.Context, hostID string) (out []Stretch, err error) {
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		out, err = stretches(ctx, tx, `SELECT gpu_uuid, host_id, '', model, simulated, from_at, until_at FROM fleet_listed WHERE host_id = ? AND until_at = 0`, hostID)
		return err
	})
	return out, err
}

// noteListed is keepListed where what changed is a host's record. A failure is
// logged, and made good by the next look at all hosts.
func (s *Service) noteListed(ctx context.Context, old, next *record) {
	now := s.clock()
	if next == nil {
		if old == nil {
			return
		}
		gone := *old
		gone.GPUs = nil
		next = &gone
	} else if old != nil {
		was, _ := old.onMarket(now)
		is, _ := next.onMarket(now)
		if len(was) == len(is) && !slices.ContainsFunc(next.GPUs, func(g gpu) bool { return is[g.UUID] != was[g.UUID] }) {
			return
		}
	}
	if err := s.keepListed(ctx, next); err != nil {
		s.log.ErrorContext(ctx, "note what is on the market", "host_id", next.ID, "error", err)
	}
}

// keepAllListed makes good what noteListed missed, as at a crash, and notes the
// listings that have ended.
func (s *Service) keepAllListed(ctx context.Context) {
	s.mu.RLock()
	var all []*record
	for _, h := range s.hosts {
		all = append(all, h.record)
	}
	s.mu.RUnlock()
	for _, r := range all {
		if ctx.Err() != nil {
			return
		}
		if err := s.keepListed(ctx, r); err != nil {
			s.log.ErrorContext(ctx, "note what is on the market", "host_id", r.ID, "error", err)
		}
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
