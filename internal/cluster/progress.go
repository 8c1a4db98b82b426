package cluster

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// What a run looks like whose ranks wait for each other for ever: collective
// operations spin on the GPU, so it is fully used, and nothing is printed.
const (
	codeNoProgress = "no_progress"
	// stuckPercent is how busy the GPUs of every node are then.
	stuckPercent = 95
)

// progress is what was last seen of an attempt that runs.
type progress struct {
	attempt int
	printed int64
	since   time.Time // when something was printed last, or a GPU was not busy
}

// watchProgress tells of a run that has printed nothing for StuckAfter while all of its
// GPUs were busy, and takes it back when it prints again. It ends nothing: a rank may
// work for hours in silence, and only its renter knows. A new leader begins to watch
// anew.
func (s *Service) watchProgress(ctx context.Context, r *Run, k *Cluster, got []*protocol.RankStatus) error {
	if s.GPUPercent == nil {
		return nil
	}
	busy := true
	var printed int64
	for i, n := range k.Members {
		if got[i] == nil {
			return nil // one that is not heard says nothing
		}
		printed += got[i].Printed
		percent, known := s.GPUPercent(n.LeaseID)
		busy = busy && known && percent >= stuckPercent
	}
	now := s.Clock()
	s.mu.Lock()
	p := s.progress[r.ID]
	if p == nil || p.attempt != r.Attempt || p.printed != printed || !busy {
		p = &progress{attempt: r.Attempt, printed: printed, since: now}
		s.progress[r.ID] = p
	}
	still := now.Sub(p.since)
	s.mu.Unlock()
	stuck := still >= s.StuckAfter
	if stuck == (r.Code == codeNoProgress) {
		return nil
	}
	return s.changeRun(ctx, r.ID, func(_ context.Context, _ *store.Tx, now *Run, _ time.Time) error {
		if now.State != RunRunning || now.Attempt != r.Attempt {
			return nil
		}
		now.Code, now.Message = "", ""
		if stuck {
			now.Code, now.Message = codeNoProgress, fmt.Sprintf("no rank has printed anything for %s, and the GPUs of all nodes are busy: they may wait for each other; look at the ranks, or stop it with: suanli cluster stop-run %s", s.StuckAfter, r.ID)
			s.Log.WarnContext(ctx, "a run makes no progress", "run", r.ID, "cluster", k.ID, "for_seconds", int64(still/time.Second))
		}
		return nil
	})
}

// forget drops what is remembered of runs that are over.
func (s *Service) forget(open []*Run) {
	going := map[string]bool{}
	for _, r := range open {
		going[r.ID] = r.State == RunRunning
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.progress {
		if !going[id] {
			delete(s.progress, id)
		}
	}
}
