package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// step is one event for one lease, with what the machine's table cannot know.
type step struct {
	event   Event
	at      time.Time // when it happened, for money; zero: now
	unseen  bool      // when an instance stopped is not known: its last sign of life counts
	since   time.Time // when the present run began, if that is not at
	code    string
	message string
	exit    *int
	egress  int64 // cumulative, if the host told
	// interruptAt is when the place is taken away that a notice is about.
	interruptAt time.Time
	// by is who asked, for the audit log; a zero principal is the cloud itself.
	by account.Principal
}

// move applies one event to a lease: state, capacity and money change together
// or not at all. It is the only writer of states. An event that the machine
// does not have in the present state is a Conflict fault.
func (s *Service) move(ctx context.Context, leaseID string, st step) (*Lease, error) {
	m := moving{step: st}
	apply := func(ctx context.Context, tx *store.Tx) error { return s.apply(ctx, tx, leaseID, &m) }
	err := s.DB.Update(ctx, apply)
	for i := 0; errors.Is(err, errMoved) && i < 5; i++ {
		err = s.DB.Update(ctx, apply)
	}
	if err != nil {
		if m.unmoved != nil {
			s.track(m.unmoved) // what is in memory may be behind, as when another replica moved it
		}
		return nil, err
	}
	s.moved(ctx, &m)
	return m.l, nil
}

// moving is a step on its way through a transaction.
type moving struct {
	step
	l, unmoved *Lease
	change     Change
}

// apply is the part of move that is in a transaction, which may be a larger one.
func (s *Service) apply(ctx context.Context, tx *store.Tx, leaseID string, m *moving) error {
	now, st := s.Clock(), m.step
	if st.at.IsZero() || st.at.After(now) {
		st.at = now
	}
	l, err := loadLease(ctx, tx, leaseID)
	if err != nil {
		return err
	}
	from := l.State
	if st.event == ConfirmStopped && l.interrupting() {
		st.event = ConfirmInterrupted
	}
	to, ok := from.Next(st.event)
	if !ok {
		m.unmoved = l
		return refused(l, st.event)
	}
	if to != from {
		l.State, l.ChangedAt, l.Code, l.Message = to, now, st.code, st.message
	}
	change := Change{ID: ident.New(ident.Event), LeaseID: l.ID, AccountID: l.AccountID, At: now, Event: st.event, From: from, To: to}
	switch st.event {
	case HostFault, HostFaultOver:
		l.Code, l.Message = st.code, st.message
		change.At = st.at
	case LoseHost:
		change.At = st.at // what is owed for an outage counts from when it began
	}
	if st.exit != nil || st.event == ConfirmRunning {
		l.ExitCode = st.exit
	}
	if err := s.effects(ctx, tx, l, from, st, now); err != nil {
		return err
	}
	if err := saveState(ctx, tx, l); err != nil {
		return err
	}
	change.Code, change.Message = l.Code, l.Message
	if st.event == Notice || st.event == Reprieve || st.event == ClaimMet || st.event == GangComplete {
		change.Code, change.Message = st.code, st.message // it is news, and changes nothing
	}
	if err := insertChange(ctx, tx, change); err != nil {
		return err
	}
	if err := s.tell(ctx, tx, l, st, change); err != nil {
		return err
	}
	m.l, m.change = l, change
	if st.by.UserID != "" {
		return s.Tenants.Audit(ctx, tx, st.by, "lease."+string(st.event), l.ID, map[string]string{"from": string(from), "to": string(to)})
	}
	return nil
}

// moved is the part of move that follows the commit.
func (s *Service) moved(ctx context.Context, m *moving) {
	l := m.l
	s.track(l)
	if m.event == RequestStart || m.event == ClaimMet || l.State == Stopped || l.State == Interrupted || l.Cleaned {
		// Only these took or gave back capacity; see effects.
		s.Capacity.Refresh(ctx, l.HostID)
	}
	s.announce(m.change)
	s.kick(l.HostID)
	s.Log.InfoContext(ctx, "lease moved", "lease", l.ID, "host", l.HostID, "event", m.change.Event, "from", m.change.From, "to", m.change.To, "generation", l.Generation, "code", m.code)
}

// chargedAfterRequest is how long compute is charged at most after a lease was
// asked to stop or to end. An agent gives what runs 10 s to stop by itself; a
// host that reports it running for longer hangs or lies, and gains nothing by it.
const chargedAfterRequest = 30 * time.Second

// effects is what a transition does to capacity and money.
func (s *Service) effects(ctx context.Context, tx *store.Tx, l *Lease, from State, st step, now time.Time) error {
	if st.egress > 0 && !l.GangWaits {
		err := s.Money.RecordEgress(ctx, tx, l.ID, st.egress, now)
		if f, ok := fault.As(err); ok && f.Code == "egress_implausible" {
			// A host that counts wrongly is not paid for it, and must not keep the
			// lease from stopping either.
			s.Log.WarnContext(ctx, "egress not believed", "lease", l.ID, "host", l.HostID, "error", err)
		} else if err != nil {
			return err
		}
	}
	// Whatever takes an instance out of running ends what is paid for it, at the
	// moment that its host dated, or at its last sign of life.
	switch st.event {
	case ConfirmStopped, ConfirmInterrupted, ConfirmAbsent, LoseHost, LoseInstance, AbandonHost, ReportFailure:
		at := st.at
		if st.unseen {
			at = time.Time{}
		}
		stop := s.Money.StopCompute
		if st.event == ConfirmInterrupted {
			stop = s.Money.EvictCompute
		}
		if err := stop(ctx, tx, l.ID, at); err != nil {
			return err
		}
		l.RunningSince = time.Time{}
		if st.event == AbandonHost || st.event == LoseInstance {
			if err := s.Money.EndTerm(ctx, tx, l.ID, st.at, billing.TermHostLost); err != nil {
				return err
			}
		}
		if st.code == "unpaid" {
			if err := s.explainUnpaid(ctx, tx, l); err != nil {
				return err
			}
		}
	case GangComplete:
		if !l.GangWaits {
			return nil
		}
		l.GangWaits = false
		if err := s.Money.StartCompute(ctx, tx, l.ID, st.at); err != nil {
			return err
		}
		if err := s.Money.StartStorage(ctx, tx, l.ID, st.at); err != nil {
			return err
		}
	case ConfirmRunning:
		if l.GangWaits {
			// The others of its gang do not run yet, and may never: see GangComplete.
			l.RunningSince = st.at
			break
		}
		start := s.Money.StartCompute
		if from == Unreachable {
			start = s.Money.ResumeCompute // the same run: its renter started it once
		}
		if err := start(ctx, tx, l.ID, st.at); err != nil {
			return err
		}
		if err := s.Money.StartStorage(ctx, tx, l.ID, st.at); err != nil {
			return err
		}
		l.RunningSince = st.at
		if !st.since.IsZero() {
			l.RunningSince = st.since
		}
	case ClaimMet:
		if err := s.takeClaim(ctx, tx, l); err != nil {
			return err
		}
		l.Code, l.Message = "", ""
	case Notice:
		l.InterruptAt, l.InterruptReason = st.interruptAt, st.code
	case Reprieve:
		l.InterruptAt, l.InterruptReason = time.Time{}, ""
	case RequestStop, RequestEnd, Outbid:
		l.Generation++
		asked := now
		if st.code == "deadline" && l.Deadline.Before(now) {
			asked = l.Deadline // nobody was there to ask then
		}
		if err := s.Money.LimitCompute(ctx, tx, l.ID, asked.Add(chargedAfterRequest)); err != nil {
			return err
		}
		if st.event == RequestEnd {
			// What its months give back is by this moment, not by when the host is done.
			if err := s.Money.EndTerm(ctx, tx, l.ID, now, billing.TermGivenUp); err != nil {
				return err
			}
		}
	case RequestRestart:
		l.Generation++
		// From its last sign of life on the old run is not charged: it may be gone.
		if err := s.Money.StopCompute(ctx, tx, l.ID, time.Time{}); err != nil {
			return err
		}
	case RequestStart:
		if !l.Deadline.IsZero() && !l.Deadline.After(now) {
			return fault.New(fault.Conflict, "deadline_past", "lease %s was to stop at %s and would stop again at once; change or remove its stop_at first", l.ID, l.Deadline.Format(time.RFC3339))
		}
		if err := s.Money.CheckFunds(ctx, tx, l.ID); err != nil {
			return err
		}
		if err := s.allowed(ctx, tx, l); err != nil {
			return err
		}
		a, err := s.Capacity.ReserveCompute(ctx, tx, l.ID)
		if err != nil {
			return err
		}
		l.Generation++
		l.GPUs = a.GPUs
	}

	if l.State != Accepted {
		l.WaitsUntil = time.Time{}
	}
	if want(l.State) != protocol.WantRunning {
		l.InterruptAt, l.InterruptReason = time.Time{}, ""
	}
	switch l.State {
	case Stopped, Interrupted:
		if keeps, err := s.keepsCompute(ctx, tx, l); err != nil || keeps {
			return err
		}
		l.GPUs = nil
		return s.Capacity.ReleaseCompute(ctx, tx, l.ID)
	case Ending:
		// The disk is the renter's until now; what the host still needs to
		// remove it is not the renter's to pay.
		return s.Money.StopStorage(ctx, tx, l.ID, st.at)
	case Failed:
		l.EndedAt = now
		l.Generation++ // so that the host's leftovers are fenced
		if st.event == AbandonHost || st.event == LoseInstance {
			return s.close(ctx, tx, l, now)
		}
		return s.Money.EndLease(ctx, tx, l.ID, st.at)
	case Ended:
		l.EndedAt = now
		return s.close(ctx, tx, l, now)
	}
	return nil
}

// explainUnpaid says why a lease was no longer paid for. Its agent, which stopped
// it, knows the moment only, and would blame a control plane that it does hear.
func (s *Service) explainUnpaid(ctx context.Context, tx *store.Tx, l *Lease) error {
	reason, err := s.Money.LimitOf(ctx, tx, l.ID)
	if err != nil || reason == "" {
		return err
	}
	l.Code, l.Message = string(reason), exhausted(string(reason))
	return nil
}

// exhausted says why a lease was stopped that is no longer paid for.
func exhausted(reason string) string {
	if reason == string(billing.ReasonTermOver) {
		return "stopped: the months that were paid in advance are over"
	}
	if reason == CodeBudget {
		return "stopped: a budget of the account is used up"
	}
	return "stopped: the balance or the spending cap is used up"
}

// close gives everything back: nothing of the lease is left on its host.
func (s *Service) close(ctx context.Context, tx *store.Tx, l *Lease, at time.Time) error {
	l.Cleaned, l.GPUs = true, nil
	if err := s.Money.EndLease(ctx, tx, l.ID, at); err != nil {
		return err
	}
	if s.Volumes != nil {
		if err := s.Volumes.Release(ctx, tx, l.ID); err != nil {
			return err
		}
	}
	return s.Capacity.ReleaseAll(ctx, tx, l.ID)
}

// clean records that a failed lease has left nothing on its host.
func (s *Service) clean(ctx context.Context, leaseID string) error {
	var l *Lease
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var err error
		if l, err = loadLease(ctx, tx, leaseID); err != nil {
			return err
		}
		if l.State != Failed || l.Cleaned {
			return nil
		}
		if err := s.close(ctx, tx, l, s.Clock()); err != nil {
			return err
		}
		return saveState(ctx, tx, l)
	})
	if err != nil {
		return err
	}
	s.track(l)
	s.Capacity.Refresh(ctx, l.HostID)
	return nil
}

func refused(l *Lease, e Event) error {
	verb := map[Event]string{RequestStop: "stopped", RequestStart: "started", RequestRestart: "restarted", RequestEnd: "ended"}[e]
	if verb == "" {
		verb = "moved by " + string(e)
	}
	if e == RequestStop && (l.State == Accepted || l.State == Provisioning) {
		return fault.New(fault.Conflict, "lease_state", "lease %s is %s: there is nothing to stop and keep yet; wait until it runs, or give it up, for nothing, with: suanli end %s", l.ID, l.State, l.Name)
	}
	kind := fault.Conflict
	if l.State.Over() {
		kind = fault.Gone
	}
	return fault.New(kind, "lease_state", "lease %s is %s and cannot be %s now", l.ID, l.State, verb)
}

// Stop asks for the lease's container to go and its disk to stay.
func (s *Service) Stop(ctx context.Context, p account.Principal, id string) (*Lease, error) {
	return s.request(ctx, p, id, step{event: RequestStop, code: "commanded", message: "stopped by the renter"}, Stopping, Stopped)
}

// Start runs a stopped lease again, if its host has the capacity now.
// One of the spot market is started by its bid: it waits until that wins a place.
func (s *Service) Start(ctx context.Context, p account.Principal, id string) (*Lease, error) {
	if l, err := s.Resolve(ctx, p, id); err == nil && l.Price.Plan == pricing.Spot {
		return s.request(ctx, p, id, step{event: RequestPlace, code: "waiting", message: "waits for its bid to win a place on the spot market"}, Interrupted, Starting, Running)
	}
	return s.request(ctx, p, id, step{event: RequestStart}, Starting, Running)
}

// Restart gives a running lease a new container on the same disk.
func (s *Service) Restart(ctx context.Context, p account.Principal, id string) (*Lease, error) {
	return s.request(ctx, p, id, step{event: RequestRestart, code: "restarted", message: "restarted by the renter"}, Starting)
}

// End gives the lease up: its container and its disk are removed for good.
func (s *Service) End(ctx context.Context, p account.Principal, id string) (*Lease, error) {
	return s.request(ctx, p, id, step{event: RequestEnd, code: "commanded", message: "ended by the renter"}, Ending, Ended, Failed)
}

// request moves a lease of the caller's account. A lease that is already where
// the request leads is returned as it is: asking twice is not an error.
func (s *Service) request(ctx context.Context, p account.Principal, id string, st step, satisfied ...State) (*Lease, error) {
	l, err := s.Resolve(ctx, p, id)
	if err != nil {
		return nil, err
	}
	if l.AccountID != p.AccountID && !p.Operator {
		return nil, notFound(id)
	}
	if slices.Contains(satisfied, l.State) {
		return l, nil
	}
	st.by = p
	moved, err := s.move(ctx, l.ID, st)
	if f, ok := fault.As(err); ok && f.Code == "lease_state" {
		// Another's request may have come between the look and the move, and asked
		// for the same.
		if l, rerr := s.Resolve(ctx, p, l.ID); rerr == nil && slices.Contains(satisfied, l.State) {
			return l, nil
		}
	}
	return moved, err
}

// Exhaust stops a lease whose money ran out: reason is "balance",
// "spending_cap" or "term_over". With remove, the disk goes too: its grace is over.
func (s *Service) Exhaust(ctx context.Context, leaseID, reason string, remove bool) error {
	st := step{event: RequestStop, code: reason, message: exhausted(reason)}
	if remove {
		st = step{event: RequestEnd, code: reason, message: "ended: the disk was kept unpaid for the whole grace period"}
	}
	_, err := s.move(ctx, leaseID, st)
	if f, ok := fault.As(err); ok && f.Code == "lease_state" {
		return nil // already stopped or over
	}
	return err
}

// Abandon ends every lease on a host that will never come back. Only an
// operator may: the GPUs count as free from then on.
func (s *Service) Abandon(ctx context.Context, p account.Principal, hostID string, lastSeen time.Time) error {
	var errs []error
	for _, l := range s.onHost(hostID) {
		if l.State.Over() {
			errs = append(errs, s.clean(ctx, l.ID))
			continue
		}
		_, err := s.move(ctx, l.ID, step{event: AbandonHost, at: lastSeen, egress: s.egressOf(l.ID), code: "host_abandoned", message: "the host was given up by the operator", by: p})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
