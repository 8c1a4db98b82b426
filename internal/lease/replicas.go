package lease

import (
	"context"
	"time"

	"suanli.dev/internal/protocol"
)

// leads reports whether this process does what one does for all replicas.
func (s *Service) leads() bool { return s.Leads == nil || s.Leads() }

// commands reports whether this process tells the host what its leases want. It
// must not look at leases: the caller holds mu.
func (s *Service) commands(hostID string) bool { return s.Commands == nil || s.Commands(hostID) }

// catchUpEvery is how long a change that another replica made, and that the bus did
// not tell of, may stay unseen.
func (s *Service) catchUpEvery() time.Duration {
	if s.Commands != nil {
		return 5 * time.Second
	}
	return catchUpEvery
}

// Hear takes in a change that another replica has made.
func (s *Service) Hear(ctx context.Context, c Change) {
	list, err := s.find(ctx, `id=?`, c.LeaseID)
	if err != nil {
		s.Log.WarnContext(ctx, "take in what another replica changed; it is seen a little later", "lease", c.LeaseID, "error", err)
		return
	}
	for _, l := range list {
		s.track(l)
		s.kick(l.HostID)
	}
	s.spread(c)
}

// Overhear takes in a report that another replica has answered: what instances
// there do now is shown here too, and their signs of life count for the bill.
func (s *Service) Overhear(hostID string, r protocol.Report, received time.Time) {
	if now := s.Clock(); received.After(now) {
		received = now
	}
	var alive []string
	s.mu.Lock()
	for i := range r.Instances {
		st := &r.Instances[i]
		t := s.live[st.LeaseID]
		if t == nil || t.lease.HostID != hostID {
			continue
		}
		t.missing = 0
		if t.status == nil || st.Generation >= t.status.Generation {
			t.status = st
		}
		t.accepted = max(t.accepted, st.Generation)
		if st.Phase == protocol.PhaseRunning {
			if t.used == nil {
				t.used = newUsed()
			}
			t.used.take(received, st, r.GPUStats, t.lease.GPUs)
		}
		if want(t.lease.State) == protocol.WantRunning && (st.Phase == protocol.PhaseRunning || st.Phase == protocol.PhaseStopping) {
			alive = append(alive, st.LeaseID)
		}
	}
	s.mu.Unlock()
	s.Money.ConfirmAlive(alive, received)
}

// OnHost returns the leases that a host may still have something of.
func (s *Service) OnHost(hostID string) []*Lease { return s.onHost(hostID) }
