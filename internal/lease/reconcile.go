package lease

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// tracked is a lease that a host may still have something of.
type tracked struct {
	lease  *Lease
	status *protocol.InstanceStatus
	// accepted is the highest generation that the host took a command for.
	accepted int64
	missing  int       // complete reports in a row without it
	attempts int       // commands in a row that did not succeed
	next     time.Time // no command before this
	unheard  bool      // the last command did not reach the host
	// What billing last said of how long the lease is paid for, and when.
	paid           time.Duration
	paidAt         time.Time
	paidGeneration int64
	since          time.Time // when this process began to look after it
	egress         int64     // bytes that were last put on the bill while it ran
	counted        time.Time // when
	used           *used     // what it used lately; nil: nothing was heard of it running
	released       int64     // version at which a stopped lease is known to keep no compute
}

// track keeps l as the present view of the lease, or forgets it when it is done.
func (s *Service) track(l *Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.live[l.ID]
	if l.State.Over() && l.Cleaned {
		delete(s.live, l.ID)
		if delete(s.hosts[l.HostID], l.ID); len(s.hosts[l.HostID]) == 0 {
			delete(s.hosts, l.HostID)
		}
		return
	}
	if t == nil {
		s.begin(l, s.Clock())
		return
	}
	if l.version < t.lease.version {
		return // a later writer was faster here
	}
	if l.Generation != t.lease.Generation {
		t.attempts, t.next, t.missing = 0, time.Time{}, 0
	}
	t.lease = l
}

// begin tracks a lease that is not tracked yet. The caller holds mu.
func (s *Service) begin(l *Lease, since time.Time) {
	t := &tracked{lease: l, since: since}
	s.live[l.ID] = t
	if s.hosts[l.HostID] == nil {
		s.hosts[l.HostID] = map[string]*tracked{}
	}
	s.hosts[l.HostID][l.ID] = t
}

// kick makes Run look at one host's leases at once.
func (s *Service) kick(hostID string) {
	s.mu.Lock()
	s.due[hostID] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// onHost returns the tracked leases of a host.
func (s *Service) onHost(hostID string) []*Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*Lease
	for _, t := range s.hosts[hostID] {
		list = append(list, t.lease)
	}
	return list
}

// want is what the host shall bring the lease to.
func want(s State) protocol.Want {
	switch s {
	case Accepted, Provisioning, Starting, Running, Unreachable:
		return protocol.WantRunning
	case Stopping, Stopped, Interrupted:
		return protocol.WantStopped
	}
	return protocol.WantAbsent
}

// needsCommand reports whether the host must be told (again).
func (t *tracked) needsCommand() bool {
	l, st := t.lease, t.status
	if l.waits() {
		return false
	}
	switch l.State {
	case Unreachable:
		return false
	case Running:
		// It is up already, unless the host was set back to an older state.
		return st != nil && st.Generation < l.Generation
	case Stopped, Interrupted:
		// Nothing is to be done, unless something runs all the same.
		return st != nil && (st.Phase == protocol.PhaseRunning || st.Phase == protocol.PhaseCreating || st.Phase == protocol.PhasePulling)
	}
	if t.accepted < l.Generation {
		return true
	}
	if st == nil || st.Generation < l.Generation {
		return true
	}
	switch want(l.State) {
	case protocol.WantAbsent:
		// The host said OK once, and still has it (or has not said).
		return st.Phase != protocol.PhaseAbsent && st.Phase != protocol.PhaseStopping
	case protocol.WantStopped:
		return st.Phase == protocol.PhaseRunning
	}
	return st.Phase == protocol.PhaseStopped || st.Phase == protocol.PhaseAbsent
}

// Run drives hosts to what their leases want until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Tick)
	defer tick.Stop()
	sweep := time.NewTicker(time.Hour)
	defer sweep.Stop()
	catchUp := time.NewTicker(s.catchUpEvery())
	defer catchUp.Stop()
	defer s.commanding.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.reconcile(ctx, true)
		case <-s.wake:
			// What an event costs must not grow with the number of leases there are.
			s.reconcile(ctx, false)
		case <-sweep.C:
			s.sweepQuotes(ctx)
		case <-catchUp.C:
			s.catchUp(ctx)
			if s.leads() {
				s.releaseLapsed(ctx)
			}
		}
	}
}

// catchUpEvery is how long a change that another replica made may stay unseen.
const catchUpEvery = 30 * time.Second

// catchUp takes in what other replicas on the same database have changed.
func (s *Service) catchUp(ctx context.Context) {
	var fresh []*Lease
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		versions, err := selectVersions(ctx, tx)
		if err != nil {
			return err
		}
		var behind []string
		s.mu.Lock()
		for id, version := range versions {
			if t := s.live[id]; t == nil || t.lease.version < version {
				behind = append(behind, id)
			}
		}
		for id := range s.live {
			if _, ok := versions[id]; !ok {
				behind = append(behind, id) // done by now
			}
		}
		s.mu.Unlock()
		for _, id := range behind {
			list, err := selectLeases(ctx, tx, `id=?`, id)
			if err != nil {
				return err
			}
			fresh = append(fresh, list...)
		}
		return nil
	})
	if err != nil {
		s.Log.WarnContext(ctx, "catch up with other replicas", "error", err)
		return
	}
	for _, l := range fresh {
		s.track(l)
	}
}

// maxBackoff bounds how long a host that does not answer is left alone.
const maxBackoff = 30 * time.Second

// provisionPatience is how long a lease waits for a host that does not take
// its first command before it is given up.
const provisionPatience = 15 * time.Minute

// reconcile looks at all leases, or at those of hosts on which something changed,
// and does what is to be done.
func (s *Service) reconcile(ctx context.Context, all bool) {
	now := s.Clock()
	due := map[string][]*tracked{}
	var late, hopeless, waiting []*Lease
	leads := s.leads()
	look := func(t *tracked) {
		l := t.lease
		if leads && !l.Deadline.IsZero() && now.After(l.Deadline) && (l.State == Running || l.State == Unreachable) {
			late = append(late, l)
		}
		if leads && l.State == Provisioning && t.accepted == 0 && t.status == nil && now.Sub(t.since) > provisionPatience {
			hopeless = append(hopeless, l)
		}
		if leads && l.waits() {
			waiting = append(waiting, l)
		}
		if t.needsCommand() && !now.Before(t.next) && !s.sending[l.HostID] && s.commands(l.HostID) {
			due[l.HostID] = append(due[l.HostID], t)
		}
	}
	s.mu.Lock()
	if all {
		for _, t := range s.live {
			look(t)
		}
	} else {
		for host := range s.due {
			for _, t := range s.hosts[host] {
				look(t)
			}
		}
	}
	clear(s.due)
	for host := range due {
		s.sending[host] = true
	}
	s.mu.Unlock()

	for _, l := range late {
		if _, err := s.move(ctx, l.ID, step{event: RequestStop, code: "deadline", message: "stopped at the time that the renter set"}); err != nil {
			s.Log.WarnContext(ctx, "stop at deadline", "lease", l.ID, "error", err)
		}
	}
	for _, l := range hopeless {
		if _, err := s.move(ctx, l.ID, step{event: ReportFailure, code: "host_unreachable", message: "the host did not answer for 15 minutes"}); err != nil {
			s.Log.WarnContext(ctx, "give up provisioning", "lease", l.ID, "error", err)
		}
	}
	for _, l := range waiting {
		s.settleWaiting(ctx, l, now)
	}
	// One goroutine a host: a host that hangs keeps nobody but itself waiting.
	for host, list := range due {
		s.commanding.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					s.Log.ErrorContext(ctx, "commanding a host panicked", "host", host, "panic", p)
					for _, t := range list {
						s.postpone(t)
					}
				}
				s.mu.Lock()
				delete(s.sending, host)
				s.mu.Unlock()
				s.kick(host) // for what came while this was under way
			}()
			for _, t := range list {
				s.send(ctx, t)
			}
		})
	}
}

// send tells a host once about one lease.
func (s *Service) send(ctx context.Context, t *tracked) {
	s.mu.Lock()
	l := t.lease
	s.mu.Unlock()
	if l.State == Accepted {
		moved, err := s.move(ctx, l.ID, step{event: Dispatch})
		if err != nil {
			s.postpone(t)
			s.Log.WarnContext(ctx, "dispatch", "lease", l.ID, "error", err)
			return
		}
		l = moved
	}
	c := protocol.Command{LeaseID: l.ID, Generation: l.Generation, Want: want(l.State)}
	if c.Want == protocol.WantRunning {
		spec, err := s.instanceSpec(ctx, l)
		if err != nil {
			s.postpone(t)
			s.Log.ErrorContext(ctx, "build instance", "lease", l.ID, "error", err)
			return
		}
		c.Spec = spec
		c.Limits = s.limits(ctx, l, s.Clock())
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	res, err := s.Command(ctx, l.HostID, c)
	switch {
	case err != nil:
		s.postpone(t)
		s.mu.Lock()
		t.unheard = true
		s.mu.Unlock()
		s.Log.WarnContext(ctx, "command host", "lease", l.ID, "host", l.HostID, "generation", c.Generation, "want", c.Want, "error", err)
	case res.Accepted:
		s.mu.Lock()
		t.accepted, t.attempts, t.unheard = max(t.accepted, c.Generation), 0, false
		// It is told again only if its reports do not show progress.
		t.next = s.Clock().Add(5 * time.Second)
		s.mu.Unlock()
	case res.Code == "stale_generation" && res.Generation >= c.Generation && c.Want == protocol.WantRunning:
		s.postpone(t)
		if err := s.outrun(ctx, l.ID, c.Generation, res.Generation); err != nil {
			s.Log.WarnContext(ctx, "go beyond a host's generation", "lease", l.ID, "host", l.HostID, "known", res.Generation, "error", err)
		}
	case res.Code == "bad_spec":
		e := ReportFailure
		if l.State == Starting {
			e = RequestStop // what ran before a restart may run still
		}
		if _, err := s.move(ctx, l.ID, step{event: e, code: res.Code, message: res.Message}); err != nil {
			s.postpone(t)
			s.Log.WarnContext(ctx, "record refusal", "lease", l.ID, "error", err)
		}
	default:
		s.postpone(t)
		s.Log.WarnContext(ctx, "host refused command", "lease", l.ID, "host", l.HostID, "generation", c.Generation, "known", res.Generation, "code", res.Code, "message", res.Message)
	}
}

// maxGeneration is far beyond what a lease's life brings about; a host that
// claims more is mistaken.
const maxGeneration = 1 << 40

// outrun gives a lease a generation above one that its host knows already, as
// after the database was restored from a backup: the host refuses whatever is
// older, and would for ever. If the lease has another generation than was sent, it
// was only this process that was behind.
func (s *Service) outrun(ctx context.Context, leaseID string, sent, known int64) error {
	if known > maxGeneration {
		return fmt.Errorf("the host claims to know generation %d", known)
	}
	var l *Lease
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		var err error
		if l, err = loadLease(ctx, tx, leaseID); err != nil || l.Generation > known || l.Generation != sent || l.State.Over() {
			return err
		}
		l.Generation = known + 1
		return saveState(ctx, tx, l)
	})
	if err != nil {
		return err
	}
	s.track(l)
	s.Log.InfoContext(ctx, "host knew a later generation", "lease", leaseID, "known", known, "generation", l.Generation)
	return nil
}

// postpone backs off, twice as long each time.
func (s *Service) postpone(t *tracked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait := min(maxBackoff, time.Second<<min(t.attempts, 5))
	t.attempts++
	t.next, t.unheard = s.Clock().Add(wait), false
}

// heard makes commands that did not reach a host due again, since it was heard: what
// they waited for is over, as when it has come to another control plane.
func (s *Service) heard(hostID string) {
	s.mu.Lock()
	any := false
	for _, t := range s.hosts[hostID] {
		if t.unheard {
			t.unheard, t.attempts, t.next, any = false, 0, time.Time{}, true
		}
	}
	s.mu.Unlock()
	if any {
		s.kick(hostID)
	}
}

// paidForLife is how long an answer about paid-for time is used again: every
// heartbeat of every lease asks, and the answer is mostly days. Near the end of
// the money, within paidForNear, each one is asked anew.
const (
	paidForLife = time.Minute
	paidForNear = 10 * time.Minute
)

// paidFor is how long the lease's instance may go on without the control plane.
func (s *Service) paidFor(ctx context.Context, l *Lease, now time.Time) (time.Duration, error) {
	s.mu.Lock()
	t := s.live[l.ID]
	if t != nil && t.paidGeneration == l.Generation && !now.Before(t.paidAt) && now.Sub(t.paidAt) < paidForLife && t.paid > paidForNear {
		left := t.paid - now.Sub(t.paidAt)
		s.mu.Unlock()
		return left, nil
	}
	s.mu.Unlock()
	paid, err := s.Money.PaidFor(ctx, l.ID, now)
	if err == nil && t != nil {
		s.mu.Lock()
		t.paid, t.paidAt, t.paidGeneration = paid, now, l.Generation
		s.mu.Unlock()
	}
	return paid, err
}

// limits bounds a run that may have to go on without the control plane.
func (s *Service) limits(ctx context.Context, l *Lease, now time.Time) protocol.RunLimits {
	paid, err := s.paidFor(ctx, l, now)
	if err != nil {
		s.Log.WarnContext(ctx, "paid-for time", "lease", l.ID, "error", err)
		paid = 10 * time.Minute // rather a short leash than none
	}
	r := protocol.RunLimits{PaidFor: paid, IdleAfter: l.Idle.After, IdleGPUPercent: l.Idle.GPUPercent, IdleCPUPercent: l.Idle.CPUPercent}
	if !l.Deadline.IsZero() {
		// Zero would mean no deadline to the agent.
		r.StopIn = max(time.Second, l.Deadline.Sub(now))
	}
	if !l.InterruptAt.IsZero() {
		r.InterruptIn, r.InterruptReason = max(time.Second, l.InterruptAt.Sub(now)), l.InterruptReason
	}
	return r
}

func (s *Service) sweepQuotes(ctx context.Context) {
	old := store.Micros(s.Clock().Add(-24 * time.Hour))
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM quote WHERE valid_until<? AND lease_id=''`, old)
		return err
	})
	if err != nil {
		s.Log.WarnContext(ctx, "sweep quotes", "error", err)
	}
}

// gone reports a fault that says a lease is already past an event.
func gone(err error) bool {
	f, ok := fault.As(err)
	return ok && f.Code == "lease_state"
}

// CountKey is what leases are counted by.
type CountKey struct {
	State     State
	Simulated bool
}

// Counts returns how many leases there are that are not done, and for how long
// the oldest has waited for its host to take a command.
func (s *Service) Counts() (map[CountKey]int, time.Duration) {
	now := s.Clock()
	counts := map[CountKey]int{}
	var lag time.Duration
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.live {
		counts[CountKey{t.lease.State, t.lease.Simulated}]++
		if t.needsCommand() && t.accepted < t.lease.Generation {
			lag = max(lag, now.Sub(t.lease.ChangedAt))
		}
	}
	return counts, lag
}
