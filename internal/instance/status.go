package instance

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"suanli.dev/internal/protocol"
)

// statusEvery is how often the report is written although nothing changed.
const statusEvery = 10 * time.Second

// status keeps the instance's report on disk for the agent.
type status struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	report protocol.InstanceReport
}

func newStatus(dir string, log *slog.Logger) *status {
	return &status{path: filepath.Join(dir, "status.json"), log: log}
}

// change applies fn to the report and writes it.
func (s *status) change(fn func(*protocol.InstanceReport)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(&s.report)
	s.write()
}

func (s *status) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report.Busy
}

func (s *status) write() {
	b, err := json.Marshal(s.report)
	if err == nil {
		err = os.WriteFile(s.path+".new", append(b, '\n'), 0o644)
	}
	if err == nil {
		err = os.Rename(s.path+".new", s.path)
	}
	if err != nil {
		// A full disk must not end the instance; the next write may succeed.
		s.log.Warn("status not written", "error", err)
	}
}

// run writes the report now and then until ctx ends.
func (s *status) run(ctx context.Context) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.change(func(*protocol.InstanceReport) {})
		}
	}
}
