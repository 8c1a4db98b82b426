package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/agent/meter"
	"suanli.dev/internal/protocol"
)

// adopt learns what runs on the host, and starts looking after all of it. What is
// not known from the state folder is known by its labels, and kept: only the
// control plane's complete answers may remove it.
func (a *Agent) adopt(ctx context.Context) error {
	states, err := a.driver.List(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range states {
		if s.LeaseID == "" || strings.HasPrefix(s.LeaseID, selfTestPrefix) || !leaseIDPattern.MatchString(s.LeaseID) {
			continue
		}
		l := a.leases[s.LeaseID]
		if l == nil {
			l = newLease(s.LeaseID)
			a.leases[s.LeaseID] = l
			l.rec = record{LeaseID: s.LeaseID}
		}
		if s.Generation > l.rec.Generation {
			// The record is older than the container: the folder was lost or restored.
			l.rec.Generation, l.rec.Final = s.Generation, false
			l.rec.Want, l.rec.Phase, l.rec.Running = protocol.WantRunning, protocol.PhaseCreating, 0
			if !s.NeverRan {
				l.rec.Running = s.Generation
			}
			l.rec.Code, l.rec.Reason = "", ""
		}
		if len(l.rec.GPUs) == 0 && !l.rec.Final {
			l.rec.GPUs = slices.Clone(s.GPUs)
		}
	}
	for id, l := range a.leases {
		if g, ok := a.fences[id]; ok && g >= l.rec.Generation {
			// It was on its way out when the agent died.
			l.rec.Generation, l.rec.Want = max(g, 1), protocol.WantAbsent
		}
		if l.rec.Generation == 0 {
			l.rec.Generation = 1
		}
		a.keep(l)
		a.launch(ctx, l)
		l.poke()
	}
	a.adopted = true
	known := map[string]bool{}
	for id := range a.leases {
		known[id] = true
	}
	a.wg.Add(1)
	go func() {
		defer a.wg.Done()
		if err := a.driver.Sweep(ctx, func(id string) bool { return known[id] || a.holds(id) }); err != nil && ctx.Err() == nil {
			a.log.Warn("left-over networks could not be removed", "error", err)
		}
	}()
	a.poke()
	return nil
}

func (a *Agent) holds(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leases[id] != nil
}

// meter reads the traffic counters into the leases' totals.
func (a *Agent) meter(ctx context.Context) {
	traffic, err := a.driver.Traffic(ctx)
	if err != nil {
		a.log.Error("traffic cannot be metered", "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range traffic {
		if l := a.leases[id]; l != nil && l.rec.Phase != protocol.PhaseAbsent {
			l.rec.Egress.Read(t.Out)
			l.rec.Ingress.Read(t.In)
		}
	}
}

// sample looks at every running instance.
func (a *Agent) sample(ctx context.Context) {
	a.meter(ctx)
	a.mu.Lock()
	var running []*lease
	for _, l := range a.leases {
		if l.rec.Phase == protocol.PhaseRunning && l.rec.Running == l.rec.Generation {
			running = append(running, l)
		}
	}
	a.mu.Unlock()
	for _, l := range running {
		stats, err := a.driver.Stats(ctx, l.id)
		if err != nil {
			continue // it may just have ended; its goroutine finds out
		}
		report, fresh := a.driver.Report(l.id)
		a.mu.Lock()
		now := a.cfg.clock()
		at := time.Duration(now.Nanos)
		if passed := at - l.statsAt; l.statsAt > 0 && passed > 0 && stats.CPU >= l.stats.CPU {
			l.cpu = int(100 * (stats.CPU - l.stats.CPU) / passed)
		}
		l.stats, l.statsAt = stats, at
		l.rec.DiskMiB = stats.DiskBytes >> 20
		l.sessions, l.working = 0, fresh && report.Busy
		if fresh {
			l.sessions = max(report.Sessions, 0)
		}
		l.gpu = 0
		for _, u := range l.rec.GPUs {
			l.gpu += a.stats[u].UtilizationPercent / max(len(l.rec.GPUs), 1)
		}
		limits := l.rec.Limits
		// The threshold is of all of the lease's CPUs.
		cpu := l.cpu
		if l.rec.Spec != nil && l.rec.Spec.CPUMillis > 0 {
			cpu = int(int64(l.cpu) * 1000 / l.rec.Spec.CPUMillis)
		}
		idle := l.idle.Observe(at, meter.Usage{GPUPercent: l.gpu, CPUPercent: cpu, Sessions: l.sessions + l.streams, Working: l.working, Known: fresh}, meter.Thresholds{Window: limits.IdleAfter, GPUPercent: limits.IdleGPUPercent, CPUPercent: limits.IdleCPUPercent})
		if idle && l.rec.StopCode == "" && l.rec.Want == protocol.WantRunning && !l.rec.Final {
			l.rec.StopCode = "idle"
			l.rec.StopReason = "no session was open, nothing inside said that it was at work, and GPU and CPU were below the thresholds for " + limits.IdleAfter.String()
		}
		if passed, same := since(now, l.lastSave); idle || !same || passed > 15*time.Second {
			l.lastSave = now
			a.keep(l)
		}
		a.mu.Unlock()
		l.poke()
	}
}
