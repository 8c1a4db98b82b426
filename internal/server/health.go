package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"suanli.dev/internal/store"
)

// serveHealth says that the process answers, and asks nothing of anyone: a
// database that is away is no reason to restart this.
func serveHealth(w http.ResponseWriter, r *http.Request) {
	exchangeFrom(r.Context()).operation = "health"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Write([]byte("ok\n"))
}

// serveReady says whether requests should be sent here now. Why not is in the
// log; a stranger is told only which check failed.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	exchangeFrom(r.Context()).operation = "ready"
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	checks := map[string]string{}
	status := http.StatusOK
	check := func(name string, err error) {
		checks[name] = "ok"
		if err != nil {
			s.log.WarnContext(ctx, "not ready", "check", name, "error", err)
			checks[name], status = "failed", http.StatusServiceUnavailable
		}
	}
	check("database", s.db.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		var one int64
		return tx.QueryRow(ctx, `SELECT 1`).Scan(&one)
	}))
	check("database_write", s.canWrite(ctx))
	for name, fn := range s.cfg.Ready {
		check(name, fn(ctx))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"ready": status == http.StatusOK, "checks": checks, "time": time.Now().UTC()})
}

// writeProbe is the last try at writing to the database. Anybody may ask for
// readiness, so it is tried once in a while only.
type writeProbe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// writeProbeKept is how long the outcome of a try is answered again.
const writeProbeKept = 5 * time.Second

// canWrite reports why nothing can be written now, as with a full disk, on which
// reading goes on.
func (s *Server) canWrite(ctx context.Context) error {
	s.writes.mu.Lock()
	defer s.writes.mu.Unlock()
	now := s.clock()
	if !s.writes.at.IsZero() && now.Sub(s.writes.at) < writeProbeKept {
		return s.writes.err
	}
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO readiness (id, at) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET at = excluded.at`, store.Micros(now))
		return err
	})
	if err != nil {
		err = fmt.Errorf("try to write: %w", err)
	}
	s.writes.at, s.writes.err = now, err
	return err
}
