package lease

import (
	"context"
	"errors"
	"time"

	"suanli.dev/internal/store"
)

// A lease on demand may be promised GPUs that leases of the spot market have. It
// stays accepted, holds its money, pays nothing and tells its host nothing until
// these have left, which their host confirms; see fleet.SettleClaim.

// claimPatience is how much longer than it was told a lease waits for GPUs, as
// when their host has fallen silent, before it is given up.
const claimPatience = 15 * time.Minute

// waits reports whether the lease has not got its GPUs yet.
func (l *Lease) waits() bool { return l.State == Accepted && !l.WaitsUntil.IsZero() }

// errClaimed means that the GPUs of a claim are not free and clean yet.
var errClaimed = errors.New("the lease's GPUs are not free yet")

// settleWaiting lets a lease that waits begin as soon as its GPUs are free, or
// gives it up. It is tried again at every look, so nothing has to remember that.
func (s *Service) settleWaiting(ctx context.Context, l *Lease, now time.Time) {
	if now.After(l.WaitsUntil.Add(claimPatience)) {
		if _, err := s.move(ctx, l.ID, step{event: RequestEnd, code: "host_unreachable", message: "ended, and not charged: its GPUs were not free within 15 minutes of what was promised"}); err != nil && !gone(err) {
			s.Log.WarnContext(ctx, "give up waiting", "lease", l.ID, "error", err)
		}
		return
	}
	var met bool
	// Looked at first, so that waiting costs no writes.
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		met, err = s.Capacity.ClaimFree(ctx, tx, l.ID)
		return err
	})
	if err == nil && met {
		_, err = s.move(ctx, l.ID, step{event: ClaimMet, message: "its GPUs are free"})
	}
	if err != nil && !errors.Is(err, errClaimed) && !gone(err) {
		s.Log.WarnContext(ctx, "look for GPUs that were claimed", "lease", l.ID, "error", err)
	}
}

// takeClaim is what the end of the wait does.
func (s *Service) takeClaim(ctx context.Context, tx *store.Tx, l *Lease) error {
	met, err := s.Capacity.SettleClaim(ctx, tx, l.ID)
	if err != nil {
		return err
	}
	if !met {
		return errClaimed
	}
	l.WaitsUntil = time.Time{}
	return nil
}
