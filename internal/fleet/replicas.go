package fleet

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Replicas are the control planes of one cloud, as the fleet needs them.
type Replicas interface {
	ID() string
	Alive(id string) bool
	Leads() bool
}

// catchUpEvery is how long a change of a host that another replica made, and that
// the bus did not tell of, may stay unseen.
const catchUpEvery = 30 * time.Second

// presence is what the store says of where a host is connected.
type presence struct {
	replica, session string
	online, ready    bool
	problem          string
}

// mine reports whether this replica judges the host's silence: one that is
// connected here, or, as the leader, one whose replica is gone. Such a host is
// given the time to come to another replica first. It needs s.mu.
func (s *Service) mine(l *live, now time.Duration) bool {
	r := s.cfg.Replicas
	if r == nil || l.owner == r.ID() {
		return true
	}
	if l.owner != "" && r.Alive(l.owner) || !r.Leads() {
		l.orphan = false
		return false
	}
	if !l.orphan {
		l.orphan = true
		if l.online {
			l.awaited, l.seen = true, now
		}
	}
	return true
}

// elsewhere reports whether another replica accounts for the host. It needs s.mu.
func (s *Service) elsewhere(l *live) bool {
	return s.cfg.Replicas != nil && l.owner != s.cfg.Replicas.ID() && !l.orphan
}

// own writes down that the host is connected here, unless that is written already.
func (s *Service) own(ctx context.Context, h *host) error {
	if s.cfg.Replicas == nil {
		return nil
	}
	s.mu.RLock()
	l := h.live
	id := h.record.ID
	s.mu.RUnlock()
	p := presence{replica: s.cfg.Replicas.ID(), session: l.session, online: true, ready: l.ready, problem: l.problem}
	if l.owner == p.replica && l.stored == p {
		return nil
	}
	err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO fleet_presence (host_id, replica, session, online, ready, problem, seen_at) VALUES (?, ?, ?, 1, ?, ?, ?)
			ON CONFLICT (host_id) DO UPDATE SET replica = excluded.replica, session = excluded.session, online = 1, ready = excluded.ready,
				problem = excluded.problem, seen_at = excluded.seen_at`,
			id, p.replica, p.session, digit(p.ready), p.problem, store.Micros(l.lastSeen))
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	h.live.owner, h.live.orphan, h.live.stored = p.replica, false, p
	s.mu.Unlock()
	if s.cfg.OnChange != nil {
		s.cfg.OnChange(id)
	}
	return nil
}

func digit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// disown writes down that a host is silent, if it is still this replica's to say
// so; moved reports that it is not.
func (s *Service) disown(ctx context.Context, id string) (moved bool, err error) {
	if s.cfg.Replicas == nil {
		return false, nil
	}
	s.mu.RLock()
	owner := ""
	if h := s.hosts[id]; h != nil {
		owner = h.live.owner
	}
	s.mu.RUnlock()
	var now string
	err = s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now = owner
		n, err := tx.Exec(ctx, `UPDATE fleet_presence SET online = 0 WHERE host_id = ? AND replica = ?`, id, owner)
		if err != nil || n > 0 || owner == "" {
			return err
		}
		return tx.QueryRow(ctx, `SELECT replica FROM fleet_presence WHERE host_id = ?`, id).Scan(&now)
	})
	if err != nil {
		return false, fmt.Errorf("write that host %s is silent: %w", id, err)
	}
	if now == owner {
		s.mu.Lock()
		if h := s.hosts[id]; h != nil {
			h.live.stored.online = false
		}
		s.mu.Unlock()
		return false, nil
	}
	return true, s.mirror(ctx)
}

// mirror takes over what the store says of hosts that are connected to other
// replicas.
func (s *Service) mirror(ctx context.Context) error {
	r := s.cfg.Replicas
	if r == nil {
		return nil
	}
	type row struct {
		host string
		presence
		seen time.Time
	}
	var all []row
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT host_id, replica, session, online, ready, problem, seen_at FROM fleet_presence`)
		if err != nil {
			return err
		}
		return each(rows, func() error {
			var p row
			var online, ready, seen int64
			if err := rows.Scan(&p.host, &p.replica, &p.session, &online, &ready, &p.problem, &seen); err != nil {
				return err
			}
			p.online, p.ready, p.seen = online != 0, ready != 0, store.Time(seen)
			all = append(all, p)
			return nil
		})
	})
	if err != nil {
		return err
	}
	var turned, unknown []string
	s.mu.Lock()
	now := s.elapsed()
	for _, p := range all {
		h := s.hosts[p.host]
		switch {
		case h == nil:
			unknown = append(unknown, p.host)
			continue
		case p.replica == r.ID():
			continue
		}
		l := &h.live
		if p.seen.After(l.lastSeen) {
			l.lastSeen = p.seen
		}
		if l.owner == p.replica && !r.Alive(p.replica) {
			continue // what a replica said that is gone holds no longer
		}
		moved := l.owner != p.replica
		if moved {
			s.accrue(h, now)
			l.owner, l.orphan, l.session, l.seq = p.replica, false, p.session, 0
		}
		if moved || l.online != p.online || l.ready != p.ready || l.problem != p.problem || l.awaited {
			if p.online && (moved || !l.online) {
				l.seen = now
			}
			l.online, l.ready, l.problem, l.awaited, l.told = p.online, p.ready, p.problem, false, !p.online
			turned = append(turned, p.host)
		}
	}
	s.mu.Unlock()
	for _, id := range unknown {
		s.Hear(ctx, id)
	}
	for _, id := range turned {
		s.publish(id)
	}
	return nil
}

// Hear reads a host again that another replica has changed.
func (s *Service) Hear(ctx context.Context, hostID string) {
	if err := s.reread(ctx, hostID); err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "reading a host again failed", "host_id", hostID, "error", err)
	}
}

// Overhear takes in a report that another replica has answered, for what is shown
// of the host from moment to moment.
func (s *Service) Overhear(hostID string, r protocol.Report, at time.Time) {
	h := s.host(hostID)
	if h == nil || s.cfg.Replicas == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &h.live
	if l.owner == s.cfg.Replicas.ID() || r.Session == l.session && r.Seq <= l.seq {
		return
	}
	l.session, l.seq, l.seen, l.lastSeen = r.Session, r.Seq, s.elapsed(), at
	if r.GPUStats != nil {
		l.stats = r.GPUStats
	}
}

// Owner returns the replica that a host is connected to; empty: it is not known.
func (s *Service) Owner(hostID string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.hosts[hostID]; h != nil {
		return h.live.owner
	}
	return ""
}

// catchUp reads all hosts again, and forgets those that are gone.
func (s *Service) catchUp(ctx context.Context) error {
	all, err := s.readAll(ctx)
	if err != nil {
		return err
	}
	there := make(map[string]*record, len(all))
	for _, r := range all {
		there[r.ID] = r
	}
	var behind []string
	s.mu.RLock()
	for id, h := range s.hosts {
		if r := there[id]; r == nil || !reflect.DeepEqual(r, h.record) {
			behind = append(behind, id)
		}
	}
	for id := range there {
		if s.hosts[id] == nil {
			behind = append(behind, id)
		}
	}
	s.mu.RUnlock()
	for _, id := range behind {
		s.Hear(ctx, id)
	}
	return nil
}
