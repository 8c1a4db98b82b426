package fleet

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"suanli.dev/internal/store"
)

// A host that misses silentBeats heartbeats is offline. One that is awaited
// after the cloud's own start has twice as long, since agents back off.
const (
	silentBeats  = 3
	awaitedBeats = 6
)

// watch is the state of the loop that looks for silent hosts.
type watch struct {
	lastTick time.Duration
	calm     time.Duration // no verdict before this reading of Elapsed
	suspect  bool          // most hosts fell silent at once
	trusted  bool          // an operator confirmed that they are lost
}

// Silent looks for hosts that have stopped reporting: their offers are
// withdrawn, and Config.OnSilent is told. It tells nothing when the fault may be
// its own: when this process was itself stalled, or when more than half of at
// least three live hosts are silent at once. Run calls it twice a heartbeat.
func (s *Service) Silent(ctx context.Context) {
	s.turnWindows()
	now := s.elapsed()
	type lost struct {
		h        *host
		id       string
		lastSeen time.Time
	}
	var silent []lost
	var withdrawn []string
	s.mu.Lock()
	// Reports that arrived while this process stood still wait in its queues.
	if now-s.watch.lastTick > 2*s.beat {
		s.watch.calm = now + 2*s.beat
		s.log.WarnContext(ctx, "the control plane itself stood still; no host is judged for a while", "stall", now-s.watch.lastTick)
	}
	s.watch.lastTick = now
	if now < s.watch.calm {
		s.mu.Unlock()
		return
	}
	considered := 0
	for id, h := range s.hosts {
		l := &h.live
		if !s.mine(l, now) {
			continue
		}
		if l.told || (!l.online && !l.awaited && l.lastSeen.IsZero()) {
			continue
		}
		considered++
		limit := silentBeats * s.beat
		if l.awaited {
			limit = awaitedBeats * s.beat
		}
		if now-l.seen <= limit {
			continue
		}
		if l.online {
			s.accrue(h, now)
			l.online = false
			withdrawn = append(withdrawn, id)
		}
		l.awaited = false
		silent = append(silent, lost{h, id, l.lastSeen})
	}
	suspect := considered >= 3 && len(silent) >= 2 && len(silent)*2 > considered
	if suspect && !s.watch.suspect {
		s.log.ErrorContext(ctx, "most hosts are silent at once: the fault may be the control plane's own network, so no lease is given up",
			"silent", len(silent), "of", considered)
	}
	if !suspect {
		s.watch.trusted = false
	}
	s.watch.suspect = suspect
	hold := suspect && !s.watch.trusted
	s.mu.Unlock()

	for _, id := range withdrawn {
		s.publish(id)
	}
	if hold {
		return
	}
	slices.SortFunc(silent, func(a, b lost) int { return a.lastSeen.Compare(b.lastSeen) })
	for _, l := range silent {
		if err := s.tellSilent(ctx, l.id, l.lastSeen); err != nil {
			s.log.ErrorContext(ctx, "telling of a silent host failed; it is tried again", "host_id", l.id, "error", err)
			continue
		}
		s.mu.Lock()
		// It may have come back meanwhile.
		if !l.h.live.online {
			l.h.live.told = true
		}
		s.mu.Unlock()
		s.log.WarnContext(ctx, "host is silent", "host_id", l.id, "last_seen", l.lastSeen)
	}
}

// turnWindows withdraws and restores the offers of hosts whose maintenance or
// listing began or ended since the last time.
func (s *Service) turnWindows() {
	now := s.clock()
	var turned []string
	s.mu.Lock()
	for id, h := range s.hosts {
		l := h.record.Listing
		closed := h.record.Maintenance.Contains(now) || (!l.EndsAt.IsZero() && !now.Before(l.EndsAt))
		if closed != h.live.closed {
			h.live.closed = closed
			turned = append(turned, id)
		}
	}
	s.mu.Unlock()
	for _, id := range turned {
		s.publish(id)
	}
}

// tellSilent keeps a panic about one host from the others.
func (s *Service) tellSilent(ctx context.Context, id string, lastSeen time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if moved, err := s.disown(ctx, id); err != nil || moved {
		return err
	}
	if s.cfg.OnSilent == nil {
		return nil
	}
	return s.cfg.OnSilent(ctx, id, lastSeen)
}

// Suspect reports whether most hosts fell silent at once, so that none of them
// is given up until they return or ConfirmLoss is called.
func (s *Service) Suspect() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.watch.suspect && !s.watch.trusted
}

// ConfirmLoss is an operator's word that the hosts which are silent now are
// really lost; they are then given up like any other.
func (s *Service) ConfirmLoss(ctx context.Context) {
	s.mu.Lock()
	s.watch.trusted = true
	s.mu.Unlock()
	s.Silent(ctx)
}

// LastSeen returns when a host last reported, by the server's clock, and
// whether it is online.
func (s *Service) LastSeen(hostID string) (at time.Time, online bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	if h == nil {
		return time.Time{}, false
	}
	return h.live.lastSeen, h.live.online
}

// accrue adds the time since it was last called to a host's record of being
// online or not. Announced maintenance and the cloud's own absence do not count.
// It needs s.mu.
func (s *Service) accrue(h *host, now time.Duration) {
	d := now - h.live.since
	h.live.since = now
	if s.elsewhere(&h.live) {
		return // its own replica counts
	}
	switch {
	case h.live.online:
		h.live.onlineFor += d
	case h.live.awaited || h.live.lastSeen.IsZero() || s.watch.suspect || h.record.Maintenance.Contains(s.clock()):
	default:
		h.live.offlineFor += d
	}
}

// A new host starts as one that was online 95 % of three days: a score has to
// be earned, and one bad minute on the first day does not ruin it.
const (
	priorSeconds      = 3 * 24 * 3600
	priorGoodPermille = 950
)

// reliability is the part of the time that a host was online, in basis points.
// It needs s.mu.
func (s *Service) reliability(h *host) int64 {
	online := h.record.OnlineSeconds + int64(h.live.onlineFor/time.Second)
	offline := h.record.OfflineSeconds + int64(h.live.offlineFor/time.Second)
	return 10_000 * (online + priorSeconds*priorGoodPermille/1000) / (online + offline + priorSeconds)
}

// keepLives stores when hosts were last seen and how long they were online. A
// failure is logged; it is tried again with the next.
func (s *Service) keepLives(ctx context.Context) {
	type life struct {
		h               *host
		id              string
		seen            int64
		online, offline time.Duration
	}
	var lives []life
	now := s.elapsed()
	s.mu.Lock()
	for id, h := range s.hosts {
		s.accrue(h, now)
		if h.live.lastSeen.IsZero() || s.elsewhere(&h.live) {
			continue
		}
		lives = append(lives, life{h, id, store.Micros(h.live.lastSeen), h.live.onlineFor.Truncate(time.Second), h.live.offlineFor.Truncate(time.Second)})
	}
	s.mu.Unlock()
	for chunk := range slices.Chunk(lives, 500) {
		err := s.cfg.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			for _, l := range chunk {
				_, err := tx.Exec(ctx, `UPDATE fleet_hosts SET last_seen = ?, online_seconds = online_seconds + ?, offline_seconds = offline_seconds + ? WHERE id = ?`,
					l.seen, int64(l.online/time.Second), int64(l.offline/time.Second), l.id)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			s.log.ErrorContext(ctx, "keeping when hosts were seen failed", "error", err)
			return
		}
		s.mu.Lock()
		for _, l := range chunk {
			r := *l.h.record
			r.LastSeen = store.Time(l.seen)
			r.OnlineSeconds += int64(l.online / time.Second)
			r.OfflineSeconds += int64(l.offline / time.Second)
			l.h.record = &r
			l.h.live.onlineFor -= l.online
			l.h.live.offlineFor -= l.offline
		}
		s.mu.Unlock()
	}
}
