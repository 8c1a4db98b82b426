package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/protocol"
)

// defaultBeat is between reports until the control plane says otherwise.
const defaultBeat = 10 * time.Second

// reportLoop sends reports at each beat and at each change, until ctx ends.
func (a *Agent) reportLoop(ctx context.Context, bus Bus) error {
	a.mu.Lock()
	a.wantInv = true
	a.mu.Unlock()
	beat, failures := defaultBeat, 0
	for {
		report := a.report()
		var reply protocol.ReportReply
		patience := 15 * time.Second
		if a.cfg.Elsewhere {
			patience = min(max(2*beat, 3*time.Second), patience)
		}
		sendCtx, cancel := context.WithTimeout(ctx, patience)
		err := bus.Request(sendCtx, protocol.ReportSubject(a.cfg.HostID), report, &reply)
		cancel()
		if ctx.Err() != nil {
			return fmt.Errorf("the connection was lost")
		}
		var wait time.Duration
		switch {
		case err != nil:
			failures++
			a.log.Warn("a report was not answered", "error", err, "in_a_row", failures)
			if a.cfg.Elsewhere {
				a.mu.Lock()
				a.wantInv = true
				a.mu.Unlock()
				return fmt.Errorf("this control plane does not answer: %w", err)
			}
			a.mu.Lock()
			a.wantInv = a.wantInv || report.Inventory != nil
			a.mu.Unlock()
			wait = min(time.Duration(failures)*time.Second, beat)
		default:
			failures = 0
			if reply.NextInSeconds > 0 {
				beat = time.Duration(reply.NextInSeconds) * time.Second
			}
			wait = beat
			if !reply.Accepted && reply.Code == protocol.CodeHostRemoved {
				return ErrRemoved
			}
			a.takeReply(report, reply)
		}
		// A change is reported at once, and several that come together as one.
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.changed:
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			if err != nil {
				// A control plane in trouble is not helped by a flood.
				select {
				case <-timer.C:
				case <-ctx.Done():
				}
			}
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return fmt.Errorf("the connection was lost")
		}
	}
}

// report is the agent's present view.
func (a *Agent) report() protocol.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	r := protocol.Report{
		Session: a.session, Seq: a.seq, Now: a.cfg.clock(), WallNanos: time.Now().UnixNano(),
		GPUStats: map[string]protocol.GPUStats{}, Health: map[string]protocol.Health{},
		Instances: []protocol.InstanceStatus{}, Past: slices.Clone(a.past),
		Ready: a.adopted && a.engineErr == nil,
	}
	for u, s := range a.stats {
		r.GPUStats[u] = s
	}
	for u, h := range a.health {
		r.Health[u] = h.Health
	}
	var problems []string
	if a.engineErr != nil {
		problems = append(problems, "the container engine does not answer: "+a.engineErr.Error())
	} else if !a.adopted {
		problems = append(problems, "the agent is still looking at what runs on the host")
	}
	if a.gpuErr != nil {
		problems = append(problems, "GPUs cannot be read: "+a.gpuErr.Error())
	}
	if a.info.Problem != "" {
		problems = append(problems, a.info.Problem)
	}
	r.Problem = strings.Join(problems, "; ")
	for _, l := range a.leases {
		if l.firstSeq == 0 {
			l.firstSeq = a.seq
		}
		r.Instances = append(r.Instances, l.status())
	}
	slices.SortFunc(r.Instances, func(x, y protocol.InstanceStatus) int { return strings.Compare(x.LeaseID, y.LeaseID) })
	if inv, due := a.inventoryDue(); due {
		r.Inventory = &inv
	}
	return r
}

func (l *lease) status() protocol.InstanceStatus {
	r := l.rec
	s := protocol.InstanceStatus{
		LeaseID: l.id, Generation: r.Generation, Phase: r.Phase, Progress: l.progress, Code: r.Code, Reason: r.Reason,
		ExitCode: r.ExitCode, Started: r.Started, Stopped: r.Stopped, EgressBytes: r.Egress.Total, IngressBytes: r.Ingress.Total,
		DiskUsedMiB: r.DiskMiB, Sessions: l.sessions,
	}
	if r.Spec != nil {
		s.DirectPorts = r.Spec.DirectPorts
	}
	if r.Phase == protocol.PhaseRunning {
		s.MemoryUsedMiB, s.CPUPercent, s.GPUPercent = l.stats.MemoryBytes>>20, l.cpu, l.gpu
		s.GPUFault = l.gpuFault
		s.Overlay = l.overlay()
	}
	return s
}

// takeReply does what the control plane's answer to report says.
func (a *Agent) takeReply(report protocol.Report, reply protocol.ReportReply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !reply.Accepted {
		// Somebody else uses this host's key, or the host is not known. Nothing that
		// runs is touched: the paid-until deadlines decide.
		a.log.Error("the control plane refused the report", "code", reply.Code, "message", reply.Message)
		return
	}
	if reply.SendInventory {
		a.wantInv = true
		a.poke()
	}
	if n := slices.IndexFunc(a.past, func(p protocol.PastRun) bool { return p.ID > reply.AckedPast }); reply.AckedPast > 0 && n != 0 && len(a.past) > 0 {
		if n < 0 {
			n = len(a.past)
		}
		a.past = slices.Clone(a.past[n:])
		a.savePast()
	}
	listed := map[string]bool{}
	for _, d := range reply.Desired {
		listed[d.LeaseID] = true
		l := a.leases[d.LeaseID]
		if l == nil {
			continue
		}
		l.missing = 0
		if d.Generation < l.rec.Generation {
			continue // older than what is known here
		}
		now := a.cfg.clock()
		changed := l.rec.Limits != d.Limits
		l.rec.Limits, l.rec.LimitsAt = d.Limits, now
		a.takeNotice(l)
		a.takePeers(l, d.Peers)
		if passed, same := since(now, l.lastSave); changed || !same || passed > 15*time.Second {
			// Not at every beat: a record that is a little old stops a lease a little
			// early only if the control plane stays away for all it was paid for.
			l.lastSave = now
			if l.rec.Phase != protocol.PhaseAbsent {
				a.keep(l)
			}
		}
		if changed {
			l.poke()
		}
	}
	if !reply.Complete || !report.Ready {
		return
	}
	for id, l := range a.leases {
		if listed[id] || l.firstSeq == 0 || report.Seq < l.firstSeq {
			continue
		}
		if l.rec.Phase == protocol.PhaseAbsent {
			delete(a.leases, id) // reported and forgotten on both sides; the fence stays
			continue
		}
		if l.missing++; l.missing >= 2 && l.rec.Want != protocol.WantAbsent {
			a.log.Warn("a lease that the control plane does not know is removed", "lease", id, "generation", l.rec.Generation)
			l.rec.Want = protocol.WantAbsent
			a.keep(l)
			if l.abort != nil {
				l.abort()
			}
			l.poke()
		}
	}
}

// inventoryDue returns the inventory if it has changed, was asked for, or is a
// minute old. The caller holds a.mu.
func (a *Agent) inventoryDue() (protocol.Inventory, bool) {
	if a.info.Name == "" {
		return protocol.Inventory{}, false // the engine was never heard; half an inventory would mislead
	}
	inv := a.inventory()
	b, _ := json.Marshal(stable(inv))
	sum := sha256.Sum256(b)
	hash := hex.EncodeToString(sum[:])
	if !a.wantInv && hash == a.sentHash && time.Since(a.sentInv) < time.Minute {
		return protocol.Inventory{}, false
	}
	a.wantInv, a.sentHash, a.sentInv = false, hash, time.Now()
	return inv, true
}

// stable leaves out what changes from moment to moment.
func stable(inv protocol.Inventory) protocol.Inventory {
	inv.GPUs = slices.Clone(inv.GPUs)
	for i := range inv.GPUs {
		inv.GPUs[i].Stats = protocol.GPUStats{}
	}
	inv.DiskMiB = 0
	return inv
}
