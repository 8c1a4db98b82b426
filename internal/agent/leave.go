package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/protocol"
)

// ErrRemoved is what Run returns when the cloud has removed the host: there is
// nothing to come back to under this identity.
var ErrRemoved = errors.New("this host was removed from its cloud")

// leaveWait bounds ending all instances of a removed host.
const leaveWait = 5 * time.Minute

// removed reports whether the control plane itself says that the host was removed.
func removed(err error) bool {
	var refused *protocol.StreamError
	return errors.Is(err, ErrRemoved) || errors.As(err, &refused) && refused.Code == protocol.CodeHostRemoved
}

// leave ends everything that runs for a cloud that has removed the host. Its
// leases are over there: nobody pays for them, and nobody can reach them.
func (a *Agent) leave(ctx context.Context) error {
	a.mu.Lock()
	n := 0
	for _, l := range a.leases {
		if l.rec.Phase == protocol.PhaseAbsent {
			continue
		}
		n++
		l.rec.Want = protocol.WantAbsent
		a.keep(l)
		if l.abort != nil {
			l.abort()
		}
		l.poke()
	}
	a.mu.Unlock()
	a.log.Error("the cloud has removed this host: its instances are ended, disks included, and the agent ends", "leases", n)
	ctx, cancel := context.WithTimeout(ctx, leaveWait)
	defer cancel()
	for {
		left := 0
		a.mu.Lock()
		for _, l := range a.leases {
			if l.rec.Phase != protocol.PhaseAbsent {
				left++
			}
		}
		if !a.adopted && n > 0 {
			left = n // the engine has not answered yet
		}
		a.mu.Unlock()
		if left == 0 {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%w, and %d of its leases could not be ended; start the agent again to try", ErrRemoved, left)
		}
	}
	return fmt.Errorf("%w, and nothing of it runs here any more; to offer the machine again, remove %s and join with a new token", ErrRemoved, a.cfg.Dir)
}
