package lease

import (
	"context"
	"errors"
	"time"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// lostAfter is how many complete reports in a row must lack a lease before the
// host is believed to have lost it: one may have been under way already.
const lostAfter = 2

// OnReport takes in what a host says of its leases, received at the given time,
// and returns the full desired state for it.
func (s *Service) OnReport(ctx context.Context, hostID string, r protocol.Report, received time.Time) (desired []protocol.Desired, complete bool, ackedPast int64, err error) {
	seen := map[string]bool{}
	var alive []string
	if err := s.meet(ctx, hostID, r.Instances); err != nil {
		return nil, false, 0, err
	}
	s.heard(hostID)
	running := map[string]int64{}
	for i := range r.Instances {
		st := &r.Instances[i]
		seen[st.LeaseID] = true
		if st.Phase == protocol.PhaseRunning {
			running[st.LeaseID] = st.Generation
		}
		s.mu.Lock()
		t := s.live[st.LeaseID]
		var l *Lease
		if t != nil && t.lease.HostID == hostID {
			l = t.lease
			t.missing = 0
			if t.status == nil || st.Generation >= t.status.Generation {
				t.status = st
			}
			t.accepted = max(t.accepted, st.Generation)
			if st.Phase == protocol.PhaseRunning {
				if t.used == nil {
					t.used = newUsed()
				}
				t.used.take(received, st, r.GPUStats, l.GPUs)
			}
		}
		s.mu.Unlock()
		if l == nil {
			continue // not ours, or over: the reply's desired state says so
		}
		// What shall not run is charged by its stop's date, or not at all: its host
		// must not decide for how long.
		if want(l.State) == protocol.WantRunning && (st.Phase == protocol.PhaseRunning || st.Phase == protocol.PhaseStopping) {
			alive = append(alive, l.ID)
		}
		if st.Generation < l.Generation {
			continue // what an older generation does is no news
		}
		s.countEgress(ctx, t, l, st.EgressBytes)
		if l.GangID != "" && s.Gangs != nil {
			s.Gangs.Overlay(ctx, l.GangID, l.ID, st.Overlay)
		}
		if err := s.observe(ctx, l, st, r.Now, received); err != nil && !gone(err) {
			s.Log.WarnContext(ctx, "take in report", "lease", l.ID, "host", hostID, "phase", st.Phase, "error", err)
		}
	}
	s.Money.ConfirmAlive(alive, received)
	if r.Ready {
		s.lookForLost(ctx, hostID, seen)
	}
	for _, p := range r.Past {
		if g, ok := running[p.LeaseID]; ok && g == p.Generation {
			ackedPast = max(ackedPast, p.ID)
			continue // it runs again
		}
		s.pastRun(ctx, hostID, p, r.Now, received)
		ackedPast = max(ackedPast, p.ID)
	}

	now := s.Clock()
	s.mu.Lock()
	complete = s.loaded
	s.mu.Unlock()
	for _, l := range s.onHost(hostID) {
		d := protocol.Desired{LeaseID: l.ID, Generation: l.Generation}
		if want(l.State) == protocol.WantRunning {
			d.Limits = s.limits(ctx, l, now)
			if l.GangID != "" && s.Gangs != nil {
				d.Peers = s.Gangs.Peers(l.GangID, l.ID)
			}
		}
		desired = append(desired, d)
	}
	return desired, complete, ackedPast, nil
}

// A running lease's egress is put on its bill when it has grown by egressStep, or
// a little when egressEvery has passed, so that money that is being spent on it
// is seen, at next to no writes.
const (
	egressStep  = 10_000_000_000 // bytes
	egressEvery = 10 * time.Minute
)

func (s *Service) countEgress(ctx context.Context, t *tracked, l *Lease, total int64) {
	now := s.Clock()
	s.mu.Lock()
	due := l.State == Running && !l.GangWaits && total > t.egress && (total-t.egress >= egressStep || now.Sub(t.counted) >= egressEvery)
	if due {
		t.egress, t.counted = total, now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error { return s.Money.RecordEgress(ctx, tx, l.ID, total, now) })
	if err != nil {
		s.Log.WarnContext(ctx, "count egress", "lease", l.ID, "host", l.HostID, "error", err)
	}
}

// egressOf is what the host last said that a lease has sent.
func (s *Service) egressOf(leaseID string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.live[leaseID]; t != nil && t.status != nil {
		return t.status.EgressBytes
	}
	return 0
}

// meet makes this process look after leases that a host has and it does not know
// of, such as one that another replica has accepted a moment ago: the reply's
// desired state must not leave out what is not over.
func (s *Service) meet(ctx context.Context, hostID string, instances []protocol.InstanceStatus) error {
	var unknown []string
	s.mu.Lock()
	for _, st := range instances {
		if s.live[st.LeaseID] == nil {
			unknown = append(unknown, st.LeaseID)
		}
	}
	s.mu.Unlock()
	for _, id := range unknown {
		list, err := s.find(ctx, `id=? AND host_id=? AND cleaned=0`, id, hostID)
		if err != nil {
			return err
		}
		for _, l := range list {
			s.track(l)
		}
	}
	return nil
}

// observe turns one status into at most one event.
func (s *Service) observe(ctx context.Context, l *Lease, st *protocol.InstanceStatus, now protocol.Instant, received time.Time) error {
	var e step
	switch st.Phase {
	case protocol.PhaseRunning:
		switch l.State {
		case Accepted, Provisioning, Starting:
			e = step{event: ConfirmRunning, at: when(st.Started, now, received, l.ChangedAt)}
		case Unreachable:
			// What it did in the dark is not charged.
			e = step{event: ConfirmRunning, at: received, since: when(st.Started, now, received, l.CreatedAt)}
		case Running:
			return s.observeFault(ctx, l, st.GPUFault, now, received)
		default:
			return nil
		}
		if l.State == Accepted {
			if _, err := s.move(ctx, l.ID, step{event: Dispatch}); err != nil {
				return err
			}
		}
	case protocol.PhaseStopped:
		switch l.State {
		case Provisioning, Starting:
			// A short command may have run and ended between two reports; that run
			// is charged like any other.
			if st.Started != nil && st.Stopped != nil {
				run := step{event: ConfirmRunning, at: when(st.Started, now, received, l.ChangedAt)}
				moved, err := s.move(ctx, l.ID, run)
				if err != nil {
					return err
				}
				l = moved
			}
		case Running, Unreachable, Stopping:
		default:
			return nil
		}
		code, message := st.Code, st.Reason
		if l.State == Stopping && l.Code != "" {
			code, message = l.Code, l.Message // why it was asked to stop says more than that it did
		}
		e = stopStep(ConfirmStopped, l, st.Started, st.Stopped, now, received)
		e.code, e.message, e.exit, e.egress = code, message, st.ExitCode, st.EgressBytes
		if l.State == Unreachable {
			e.at = received // the charge ended at the last sign of life already
		}
	case protocol.PhaseFailed:
		switch l.State {
		case Provisioning, Starting:
			e = step{event: ReportFailure, code: st.Code, message: st.Reason, exit: st.ExitCode}
		case Running, Stopping:
			// It ran, and could not be brought up again.
			e = stopStep(ConfirmStopped, l, st.Started, st.Stopped, now, received)
			e.code, e.message, e.exit, e.egress = st.Code, st.Reason, st.ExitCode, st.EgressBytes
		case Unreachable:
			e = step{event: ConfirmStopped, at: received, code: st.Code, message: st.Reason, exit: st.ExitCode, egress: st.EgressBytes}
		default:
			return nil
		}
	case protocol.PhaseAbsent:
		switch {
		case l.State == Ending:
			e = stopStep(ConfirmAbsent, l, st.Started, st.Stopped, now, received)
			e.code, e.message, e.exit, e.egress = l.Code, l.Message, l.ExitCode, st.EgressBytes
		case l.State == Failed && !l.Cleaned:
			return s.clean(ctx, l.ID)
		case l.State.Over() || l.State == Accepted:
			return nil
		default:
			// It was asked to stop something, and has nothing of it any more.
			e = loss()
		}
	default:
		return nil
	}
	_, err := s.move(ctx, l.ID, e)
	return err
}

// when dates what a host reports: the moment received, less how long ago the
// host says it was. A date of another boot, in the future or before the lease
// could have done it is not believed; the moment received stands for it.
func when(then *protocol.Instant, now protocol.Instant, received, notBefore time.Time) time.Time {
	if then == nil || then.BootID != now.BootID || then.Nanos > now.Nanos {
		return received
	}
	t := received.Add(-time.Duration(now.Nanos - then.Nanos))
	if t.Before(notBefore) {
		return notBefore
	}
	return t
}

// stopStep dates the end of a run. If the host was booted since, its own two
// dates still tell how long it ran; if not even those are there, the last sign of
// life counts: what may have been dark is not charged.
func stopStep(event Event, l *Lease, started, stopped *protocol.Instant, now protocol.Instant, received time.Time) step {
	e := step{event: event, at: received}
	switch {
	case stopped == nil:
		e.unseen = true
	case stopped.BootID == now.BootID && stopped.Nanos <= now.Nanos:
		e.at = when(stopped, now, received, l.RunningSince)
	case started != nil && started.BootID == stopped.BootID && stopped.Nanos >= started.Nanos && !l.RunningSince.IsZero():
		if ended := l.RunningSince.Add(time.Duration(stopped.Nanos - started.Nanos)); ended.Before(received) {
			e.at = ended
		}
	default:
		e.unseen = true
	}
	return e
}

func loss() step {
	return step{event: LoseInstance, unseen: true, code: "instance_lost", message: "the host no longer has the instance or its disk"}
}

// lookForLost notices leases that a host with a complete report no longer has.
func (s *Service) lookForLost(ctx context.Context, hostID string, seen map[string]bool) {
	var lost []*Lease
	s.mu.Lock()
	for id, t := range s.hosts[hostID] {
		if seen[id] {
			continue
		}
		switch t.lease.State {
		case Provisioning:
			if t.accepted == 0 {
				continue // it may not have been told yet
			}
		case Running, Unreachable, Stopping, Stopped, Starting, Interrupted:
		case Ending, Failed:
			// It may be gone, and the agent that removed it too, before that was
			// reported. What was said last no longer holds: the host is asked again.
			t.status = nil
			continue
		default:
			continue
		}
		if t.missing++; t.missing >= lostAfter {
			lost = append(lost, t.lease)
		}
	}
	s.mu.Unlock()
	for _, l := range lost {
		e := loss()
		e.egress = s.egressOf(l.ID)
		_, err := s.move(ctx, l.ID, e)
		if err != nil && !gone(err) {
			s.Log.WarnContext(ctx, "lose instance", "lease", l.ID, "error", err)
		}
	}
}

// pastRun closes a run that ended while nobody listened, if the lease still
// counts as running in that generation.
func (s *Service) pastRun(ctx context.Context, hostID string, p protocol.PastRun, now protocol.Instant, received time.Time) {
	if p.Stopped == nil {
		return
	}
	s.mu.Lock()
	t := s.live[p.LeaseID]
	var l *Lease
	if t != nil && t.lease.HostID == hostID {
		l = t.lease
	}
	s.mu.Unlock()
	if l == nil || l.Generation != p.Generation || l.State != Running {
		return
	}
	e := stopStep(ConfirmStopped, l, &p.Started, p.Stopped, now, received)
	e.code, e.message, e.egress = p.Code, "stopped while the control plane was away", p.EgressBytes
	_, err := s.move(ctx, l.ID, e)
	if err != nil && !gone(err) {
		s.Log.WarnContext(ctx, "take in past run", "lease", p.LeaseID, "error", err)
	}
}

// OnSilent marks the leases of a host that fell silent, last heard at lastSeen.
func (s *Service) OnSilent(ctx context.Context, hostID string, lastSeen time.Time) error {
	var errs []error
	for _, l := range s.onHost(hostID) {
		switch l.State {
		case Running, Stopping, Ending:
		default:
			continue
		}
		_, err := s.move(ctx, l.ID, step{event: LoseHost, at: lastSeen, egress: s.egressOf(l.ID), code: "host_silent", message: "the host has not been heard from; nothing is charged until it is back"})
		if err != nil && !gone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
