package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/agent/meter"
	"suanli.dev/internal/protocol"
)

// record is what is known of a lease, as its folder keeps it.
type record struct {
	LeaseID    string                 `json:"lease_id"`
	Generation int64                  `json:"generation"` // highest seen
	Want       protocol.Want          `json:"want"`
	Spec       *protocol.InstanceSpec `json:"spec,omitempty"`
	Sealed     []byte                 `json:"sealed,omitempty"` // the secrets of Spec, on disk only
	Lost       bool                   `json:"lost,omitempty"`   // they went with the host's memory
	Limits     protocol.RunLimits     `json:"limits"`
	LimitsAt   protocol.Instant       `json:"limits_at"`
	// StopCode is why the agent itself stops this generation; empty: it does not.
	StopCode   string `json:"stop_code,omitempty"`
	StopReason string `json:"stop_reason,omitempty"`

	Phase protocol.Phase `json:"phase"`
	// Final says that this generation's run is over and must not start again.
	Final    bool              `json:"final"`
	Code     string            `json:"code,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	ExitCode *int              `json:"exit_code,omitempty"`
	Started  *protocol.Instant `json:"started,omitempty"`
	Stopped  *protocol.Instant `json:"stopped,omitempty"`
	// Alive is the last moment at which the instance was seen running.
	Alive *protocol.Instant `json:"alive,omitempty"`
	// Running is the generation of the container that was started, 0 for none.
	Running int64         `json:"running,omitempty"`
	GPUs    []string      `json:"gpus,omitempty"` // held until proven clean
	Egress  meter.Counter `json:"egress"`
	Ingress meter.Counter `json:"ingress"`
	DiskMiB int64         `json:"disk_used_mib"`
	// Told is the end of the notice that the container of generation ToldRun was
	// told last; zero: none.
	Told    time.Time `json:"told,omitzero"`
	ToldRun int64     `json:"told_run,omitempty"`
	// ToldReason is why, as it was told.
	ToldReason string `json:"told_reason,omitempty"`
}

func (a *Agent) leaseDir(id string) string { return filepath.Join(a.cfg.Dir, "leases", id) }

// writeFile replaces a file so that a crash leaves the old or the new one.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// removeUnfinished removes what writeFile leaves in a folder when the agent is
// killed in the middle of it.
func removeUnfinished(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil {
		return err
	}
	for _, f := range left {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// save writes the lease's record. The caller holds a.mu.
func (a *Agent) save(l *lease) error {
	sealed, err := a.vault.seal(l.rec)
	if err != nil {
		return err
	}
	b, err := json.Marshal(sealed)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.leaseDir(l.id), 0o700); err != nil {
		return fmt.Errorf("save lease %s: %w", l.id, err)
	}
	if err := writeFile(filepath.Join(a.leaseDir(l.id), "lease.json"), b); err != nil {
		return fmt.Errorf("save lease %s: %w", l.id, err)
	}
	return nil
}

// keep saves and logs instead of failing: what is true stays true when the
// host's disk is full, and is written again at the next change.
func (a *Agent) keep(l *lease) {
	if err := a.save(l); err != nil {
		a.log.Error("a lease's state could not be written", "lease", l.id, "error", err)
	}
}

// fence remembers the highest generation of a lease that has left the host.
func (a *Agent) fence(id string, generation int64) error {
	a.fences[id] = generation
	return writeFile(filepath.Join(a.cfg.Dir, "fences", id), []byte(strconv.FormatInt(generation, 10)))
}

type pastFile struct {
	Next int64              `json:"next"`
	Runs []protocol.PastRun `json:"runs"`
}

// savePast writes the runs that wait for acknowledgement. The caller holds a.mu.
func (a *Agent) savePast() {
	b, err := json.Marshal(pastFile{Next: a.nextPast, Runs: a.past})
	if err == nil {
		err = writeFile(filepath.Join(a.cfg.Dir, "past.json"), b)
	}
	if err != nil {
		a.log.Error("ended runs could not be written", "error", err)
	}
}

func (a *Agent) saveHealth() {
	b, err := json.Marshal(a.health)
	if err == nil {
		err = writeFile(filepath.Join(a.cfg.Dir, "health.json"), b)
	}
	if err != nil {
		a.log.Error("the health of GPUs could not be written", "error", err)
	}
}

func readJSON(path string, into any) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// load reads the state folder.
func (a *Agent) load() error {
	var past pastFile
	if err := readJSON(filepath.Join(a.cfg.Dir, "past.json"), &past); err != nil {
		return err
	}
	a.past, a.nextPast = past.Runs, max(past.Next, 1)
	if err := readJSON(filepath.Join(a.cfg.Dir, "health.json"), &a.health); err != nil {
		return err
	}
	fences, err := os.ReadDir(filepath.Join(a.cfg.Dir, "fences"))
	if err != nil {
		return err
	}
	for _, e := range fences {
		b, err := os.ReadFile(filepath.Join(a.cfg.Dir, "fences", e.Name()))
		if err != nil {
			return err
		}
		if g, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			a.fences[e.Name()] = g
		}
	}
	entries, err := os.ReadDir(filepath.Join(a.cfg.Dir, "leases"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), selfTestPrefix) {
			continue
		}
		l := newLease(e.Name())
		if err := readJSON(filepath.Join(a.leaseDir(l.id), "lease.json"), &l.rec); err != nil {
			// One broken file must not keep the others from being looked after; the
			// disk beside it is kept until the control plane disowns the lease.
			a.log.Error("a lease's state cannot be read; its container decides", "lease", l.id, "error", err)
			l.rec = record{}
		}
		a.vault.open(&l.rec)
		if l.rec.LeaseID == "" {
			l.rec = record{LeaseID: l.id, Want: protocol.WantStopped, Phase: protocol.PhaseStopped, Final: true, Code: "engine", Reason: "the agent lost its state of this lease"}
		}
		a.leases[l.id] = l
	}
	return nil
}
