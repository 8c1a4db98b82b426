package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"suanli.dev/internal/protocol"
)

var leaseIDPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// handleCommand answers the control plane. The answer means that the command is
// on disk; the work is done by the lease's goroutine.
func (a *Agent) handleCommand(ctx context.Context, data []byte) (any, error) {
	var c protocol.Command
	if err := json.Unmarshal(data, &c); err != nil {
		return protocol.CommandResult{Code: "bad_spec", Message: "the command is not valid JSON: " + err.Error()}, nil
	}
	if c.Transfer != nil {
		return a.TransferCommand(*c.Transfer), nil
	}
	if c.Volume != nil {
		return a.VolumeCommand(ctx, *c.Volume), nil
	}
	return a.Command(c), nil
}

// Command takes in a command. It is idempotent.
func (a *Agent) Command(c protocol.Command) protocol.CommandResult {
	if err := checkCommand(c); err != nil {
		return protocol.CommandResult{Code: "bad_spec", Message: err.Error()}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.adopted || a.engineErr != nil && c.Want == protocol.WantRunning && a.leases[c.LeaseID] == nil {
		return protocol.CommandResult{Code: "not_ready", Message: "the agent has not heard from its container engine yet; send the command again"}
	}
	l, known := a.leases[c.LeaseID]
	highest := a.fences[c.LeaseID]
	if known {
		highest = max(highest, l.rec.Generation)
	}
	if c.Generation < highest {
		return protocol.CommandResult{Code: "stale_generation", Generation: highest,
			Message: fmt.Sprintf("generation %d of lease %s was commanded, and %d is known here", c.Generation, c.LeaseID, highest)}
	}
	fenced, wasHere := a.fences[c.LeaseID]
	left := wasHere && fenced >= c.Generation && (!known || l.rec.Phase == protocol.PhaseAbsent)
	if left {
		// The lease has left the host in this generation; nothing brings it back.
		if !known {
			a.leases[c.LeaseID] = a.absentLease(c.LeaseID, fenced)
		}
		a.poke()
		return protocol.CommandResult{Accepted: c.Want == protocol.WantAbsent, Generation: fenced, Code: codeUnless(c.Want == protocol.WantAbsent, "stale_generation"),
			Message: codeUnless(c.Want == protocol.WantAbsent, "the lease has left this host in this generation")}
	}
	if !known {
		if c.Want != protocol.WantRunning {
			// Nothing is here. Remember the fence, so that a command that was
			// overtaken on its way does not bring the lease to life.
			if err := a.fence(c.LeaseID, c.Generation); err != nil {
				return protocol.CommandResult{Code: "not_ready", Message: err.Error()}
			}
			a.leases[c.LeaseID] = a.absentLease(c.LeaseID, c.Generation)
			a.poke()
			return protocol.CommandResult{Accepted: true, Generation: c.Generation}
		}
		l = newLease(c.LeaseID)
		l.rec = record{LeaseID: c.LeaseID, Phase: protocol.PhaseCreating}
	} else if l.rec.Phase == protocol.PhaseAbsent {
		// Back on a host that it had left, under a newer generation.
		l = newLease(c.LeaseID)
		l.rec = record{LeaseID: c.LeaseID, Phase: protocol.PhaseCreating}
	}
	before := l.rec
	newer := c.Generation > l.rec.Generation
	l.rec.Limits, l.rec.LimitsAt = c.Limits, a.cfg.clock()
	if newer {
		l.rec.Generation, l.rec.Want = c.Generation, c.Want
		l.rec.Final, l.rec.StopCode, l.rec.StopReason = false, "", ""
		l.rec.Code, l.rec.Reason, l.rec.ExitCode = "", "", nil
		if c.Want == protocol.WantRunning && (l.rec.Running == 0 || before.Final) {
			// The new generation's own run has not begun.
			l.rec.Started, l.rec.Stopped, l.rec.Alive, l.rec.Running = nil, nil, nil, 0
		}
		l.progress, l.tries = protocol.Progress{}, 0
		if c.Want == protocol.WantRunning {
			l.rec.Phase = protocol.PhaseCreating
		}
	} else if rank(c.Want) > rank(l.rec.Want) {
		// Within a generation a lease only goes down: a stop that was overtaken by
		// its own start must not be undone by it.
		l.rec.Want = c.Want
	}
	l.rec.takeSpec(c.Spec, newer)
	l.missing, l.firstSeq = 0, a.seq+1
	if err := a.save(l); err != nil {
		l.rec = before
		return protocol.CommandResult{Code: "not_ready", Message: "the agent could not write the command to its disk: " + err.Error()}
	}
	a.leases[c.LeaseID] = l
	if (newer || l.rec.Want != before.Want) && l.abort != nil {
		l.abort() // a pull or a wait for the older state
	}
	a.launch(a.ctx, l)
	l.poke()
	a.poke()
	return protocol.CommandResult{Accepted: true, Generation: l.rec.Generation}
}

func codeUnless(ok bool, s string) string {
	if ok {
		return ""
	}
	return s
}

func (a *Agent) absentLease(id string, generation int64) *lease {
	l := newLease(id)
	l.rec = record{LeaseID: id, Generation: generation, Want: protocol.WantAbsent, Phase: protocol.PhaseAbsent, Final: true, Code: "commanded"}
	l.firstSeq = a.seq + 1
	return l
}

func rank(w protocol.Want) int {
	switch w {
	case protocol.WantStopped:
		return 1
	case protocol.WantAbsent:
		return 2
	}
	return 0
}

// The largest values that are taken as meant; beyond them a command is refused
// rather than overflowing somewhere below.
const (
	maxCPUMillis = 4096 * 1000
	maxMiB       = 1 << 30 // one PiB
	maxPIDs      = 1 << 22
)

func checkCommand(c protocol.Command) error {
	if !leaseIDPattern.MatchString(c.LeaseID) {
		return fmt.Errorf("lease id %q: want 1 to 63 of a-z, 0-9 and -", c.LeaseID)
	}
	if c.Generation < 1 {
		return fmt.Errorf("generation %d: want 1 or more", c.Generation)
	}
	for name, d := range map[string]int64{"paid_for_ns": int64(c.Limits.PaidFor), "stop_in_ns": int64(c.Limits.StopIn), "idle_after_ns": int64(c.Limits.IdleAfter)} {
		if d < 0 {
			return fmt.Errorf("%s is %d: want 0 or more", name, d)
		}
	}
	switch c.Want {
	case protocol.WantStopped, protocol.WantAbsent:
		return nil
	case protocol.WantRunning:
	default:
		return fmt.Errorf("want %q: want running, stopped or absent", c.Want)
	}
	s := c.Spec
	if s == nil {
		return fmt.Errorf("want running comes without a spec")
	}
	if strings.TrimSpace(s.Image) == "" || strings.ContainsAny(s.Image, " \t\n\x00") {
		return fmt.Errorf("image %q: want an image reference", s.Image)
	}
	for _, f := range []struct {
		name          string
		value, lo, hi int64
	}{
		{"cpu_millis", s.CPUMillis, 10, maxCPUMillis}, {"memory_mib", s.MemoryMiB, 8, maxMiB}, {"disk_mib", s.DiskMiB, 16, maxMiB},
		{"pids", s.PIDs, 8, maxPIDs}, {"shm_mib", s.ShmMiB, 0, maxMiB},
	} {
		if f.value < f.lo || f.value > f.hi {
			return fmt.Errorf("%s is %d: want %d to %d", f.name, f.value, f.lo, f.hi)
		}
	}
	if err := checkVolumes(s.Volumes); err != nil {
		return err
	}
	if err := checkCluster(s.Cluster); err != nil {
		return err
	}
	used := map[int]int{}
	for inside, outside := range s.DirectPorts {
		if inside < 1 || inside > 65535 || outside < 1 || outside > 65535 {
			return fmt.Errorf("direct port %d → %d: want 1 to 65535", inside, outside)
		}
		if other, twice := used[outside]; twice {
			return fmt.Errorf("host port %d is asked for by container ports %d and %d", outside, other, inside)
		}
		used[outside] = inside
	}
	for k, v := range s.Environment {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.Contains(v, "\x00") {
			return fmt.Errorf("environment variable %q: want a name without = and no NUL in it or its value", k)
		}
	}
	seen := map[string]bool{}
	for _, u := range s.GPUs {
		if seen[u] {
			return fmt.Errorf("GPU %s is named twice", u)
		}
		seen[u] = true
	}
	return nil
}
