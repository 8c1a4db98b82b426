package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/store"
)

// releasePatience is how long a cluster waits for hosts to confirm that its leases are
// gone. They end without it, and cost nothing meanwhile.
const releasePatience = 2 * time.Minute

// after is what follows the commit of a change; nil: nothing does.
type after func(context.Context)

func both(a, b after) after {
	return func(ctx context.Context) {
		if a != nil {
			a(ctx)
		}
		if b != nil {
			b(ctx)
		}
	}
}

// Turn does what leases, hosts and time make due. One cluster's failure does not stop
// the others.
func (s *Service) Turn(ctx context.Context) error {
	var open []*Cluster
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		open, err = query(ctx, tx, `ended_at = 0 ORDER BY id`)
		return err
	})
	if err != nil {
		return err
	}
	s.noteAll(open)
	var failed []error
	for _, c := range open {
		if err := s.step(ctx, c); err != nil && !errors.Is(err, errOvertaken) {
			failed = append(failed, fmt.Errorf("cluster %s: %w", c.ID, err))
		}
	}
	return errors.Join(failed...)
}

// step does what is due of one cluster, as it was seen.
func (s *Service) step(ctx context.Context, seen *Cluster) error {
	if seen.State == Queued {
		return s.queued(ctx, seen)
	}
	if seen.State == Repairing && slices.ContainsFunc(seen.Members, func(n Node) bool { return n.LeaseID == "" }) {
		if err := s.replace(ctx, seen); err != nil {
			return err
		}
	}
	var due bool
	// Looked at first, so that a cluster that goes on costs no writes.
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		leases, err := s.Leases.OfGang(ctx, tx, seen.ID)
		due = seen.due(leases, s.Clock())
		return err
	})
	if err != nil || !due {
		return err
	}
	return s.change(ctx, seen.ID, s.advance)
}

// due reports whether there is something to do, without a write.
func (c *Cluster) due(leases map[string]*lease.Lease, now time.Time) bool {
	switch c.State {
	case Forming, Repairing:
		return !now.Before(c.StartBy) || c.lost(leases) >= 0 || c.complete(leases)
	case Running:
		return c.lost(leases) >= 0
	}
	return c.State == Ending || c.State == Failing
}

// lost returns the rank of the first node that does not run and will not; -1: none.
func (c *Cluster) lost(leases map[string]*lease.Lease) int {
	for _, n := range c.Members {
		if n.LeaseID == "" {
			continue // it is known
		}
		l := leases[n.LeaseID]
		if l == nil {
			return n.Rank
		}
		switch l.State {
		case lease.Running:
		case lease.Accepted, lease.Provisioning:
			// It begins.
		case lease.Starting:
			if c.State == Running {
				continue // restarted by its renter
			}
		default:
			return n.Rank
		}
	}
	return -1
}

// complete reports whether all nodes run and reach each other.
func (c *Cluster) complete(leases map[string]*lease.Lease) bool {
	return len(c.Members) == c.Nodes && len(c.missing(leases)) == 0
}

// missing says of each node that is not there yet what it lacks.
func (c *Cluster) missing(leases map[string]*lease.Lease) []string {
	var out []string
	for _, n := range c.Members {
		l := leases[n.LeaseID]
		switch {
		case l == nil:
			out = append(out, fmt.Sprintf("node %d has no host", n.Rank))
		case l.State != lease.Running:
			out = append(out, fmt.Sprintf("node %d on host %s is %s", n.Rank, n.HostID, l.State))
		case n.problem(c.Nodes) != "":
			out = append(out, fmt.Sprintf("node %d on host %s %s", n.Rank, n.HostID, n.problem(c.Nodes)))
		}
	}
	return out
}

// blamed are the hosts by which a cluster is not whole: those whose nodes do not run,
// or else, as a node that runs is reached by no node that does not, those without a
// network.
func (c *Cluster) blamed(leases map[string]*lease.Lease) (absent []string) {
	var cut []string
	for _, n := range c.Members {
		if l := leases[n.LeaseID]; l == nil || l.State != lease.Running {
			absent = append(absent, n.HostID)
		} else if n.problem(c.Nodes) != "" {
			cut = append(cut, n.HostID)
		}
	}
	if len(absent) == 0 {
		return cut
	}
	return absent
}

// change makes a change of one cluster in a transaction and writes it.
func (s *Service) change(ctx context.Context, id string, do func(ctx context.Context, tx *store.Tx, c *Cluster, now time.Time) (after, error)) error {
	var c *Cluster
	var done after
	var before State
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if c, err = lock(ctx, tx, id); err != nil {
			return err
		}
		before = c.State
		if done, err = do(ctx, tx, c, s.Clock().UTC().Truncate(time.Microsecond)); err != nil {
			return err
		}
		return save(ctx, tx, c)
	})
	if err != nil {
		return err
	}
	if done != nil {
		done(ctx)
	}
	s.note(c)
	if c.State != before {
		s.Log.InfoContext(ctx, "a cluster changed", "cluster", c.ID, "account", c.AccountID, "from", before, "to", c.State, "code", c.Code)
	}
	return nil
}

// advance is one step of a cluster that has leases, in a transaction that holds it.
func (s *Service) advance(ctx context.Context, tx *store.Tx, c *Cluster, now time.Time) (after, error) {
	leases, err := s.Leases.OfGang(ctx, tx, c.ID)
	if err != nil {
		return nil, err
	}
	switch c.State {
	case Forming:
		if rank := c.lost(leases); rank >= 0 {
			code, message := c.why(rank, leases)
			c.shun(c.Members[rank].HostID, now)
			return s.fail(ctx, tx, c, Break, code, message, now)
		}
		if !c.complete(leases) {
			if now.Before(c.StartBy) {
				return nil, nil
			}
			for _, host := range c.blamed(leases) {
				c.shun(host, now)
			}
			return s.fail(ctx, tx, c, Break, "start_timeout", fmt.Sprintf("not all nodes were there within %s: %s; nothing was charged", c.StartWithin, strings.Join(c.missing(leases), "; ")), now)
		}
		return s.finishStart(ctx, tx, c, now)
	case Running, Repairing:
		if rank := c.lost(leases); rank >= 0 {
			return s.lose(ctx, tx, c, rank, leases, now)
		}
		if c.State == Running {
			return nil, nil
		}
		if c.complete(leases) {
			return s.finishStart(ctx, tx, c, now)
		}
		if !now.Before(c.StartBy) {
			return s.fail(ctx, tx, c, Spoil, "not_replaced", fmt.Sprintf("no other node was there within %s: %s", c.StartWithin, strings.Join(c.missing(leases), "; ")), now)
		}
	case Ending, Failing:
		over, going := true, true
		for _, l := range leases {
			over = over && l.State.Over()
			going = going && (l.State.Over() || l.State == lease.Ending)
		}
		if !over && (!going || now.Sub(c.Since) < releasePatience) {
			return s.release(ctx, tx, c, account.Principal{})
		}
		e := Released
		if c.State == Failing && now.Before(c.WaitUntil) && c.everRan(leases) == 0 {
			e = Retry
		}
		c.PerHour = 0
		return nil, c.move(ctx, tx, e, c.Code, c.Message, now)
	}
	return nil, nil
}

// everRan counts the leases of a cluster that were charged for: one that has begun is
// not queued again by itself.
func (c *Cluster) everRan(leases map[string]*lease.Lease) int {
	n := 0
	for _, l := range leases {
		if !l.GangWaits {
			n++
		}
	}
	return n
}

// finishStart begins what the cluster's new leases cost, all at the same moment.
func (s *Service) finishStart(ctx context.Context, tx *store.Tx, c *Cluster, now time.Time) (after, error) {
	var ids []string
	for _, n := range c.Members {
		ids = append(ids, n.LeaseID)
	}
	slices.Sort(ids)
	done, err := s.Leases.CompleteGang(ctx, tx, ids, now)
	if f, ok := fault.As(err); ok && f.Code == "lease_state" {
		return nil, errOvertaken // it is looked at again
	}
	if err != nil {
		return nil, err
	}
	return done, c.move(ctx, tx, Complete, "", "", now)
}

// why says what happened to a node that is lost.
func (c *Cluster) why(rank int, leases map[string]*lease.Lease) (code, message string) {
	n := c.Members[rank]
	l := leases[n.LeaseID]
	if l == nil {
		return "node_lost", fmt.Sprintf("node %d is gone", rank)
	}
	code = "node_lost"
	if l.GangWaits {
		code = "node_failed"
	}
	message = fmt.Sprintf("node %d on host %s is %s", rank, n.HostID, l.State)
	if l.Message != "" {
		message += ": " + l.Message
	}
	if l.Code != "" {
		message += " (" + l.Code + ")"
	}
	return code, message
}

// own are codes of leases that stop by their renter's will or money: no other node
// shall take their place.
func own(code string) bool {
	switch code {
	case "commanded", "deadline", "idle", "exited", string(billing.ReasonBalance), string(billing.ReasonSpendingCap), string(billing.ReasonOverdue), string(billing.ReasonTermOver), lease.CodeBudget:
		return true
	}
	return false
}

// lose handles a node that is lost after the cluster began.
func (s *Service) lose(ctx context.Context, tx *store.Tx, c *Cluster, rank int, leases map[string]*lease.Lease, now time.Time) (after, error) {
	code, message := c.why(rank, leases)
	n := c.Members[rank]
	if l := leases[n.LeaseID]; c.Policy != PolicyReplace || l != nil && own(l.Code) {
		return s.fail(ctx, tx, c, Spoil, code, message, now)
	}
	c.shun(n.HostID, now)
	done, err := s.Leases.EndOfGang(ctx, tx, n.LeaseID, code, "ended, since its cluster replaces it: "+message, account.Principal{})
	if err != nil {
		return nil, err
	}
	if err := saveNode(ctx, tx, c.ID, Node{Rank: rank}); err != nil {
		return nil, err
	}
	c.Members[rank] = Node{Rank: rank}
	if c.State == Running {
		c.StartBy = now.Add(c.StartWithin)
	}
	return done, c.move(ctx, tx, Lose, code, message, now)
}

// fail ends all leases of a cluster that cannot begin or go on.
func (s *Service) fail(ctx context.Context, tx *store.Tx, c *Cluster, e Event, code, message string, now time.Time) (after, error) {
	if err := c.move(ctx, tx, e, code, message, now); err != nil {
		return nil, err
	}
	return s.release(ctx, tx, c, account.Principal{})
}

// release ends the leases of a cluster. It may be repeated.
func (s *Service) release(ctx context.Context, tx *store.Tx, c *Cluster, by account.Principal) (after, error) {
	leases, err := s.Leases.OfGang(ctx, tx, c.ID)
	if err != nil {
		return nil, err
	}
	var all after
	for _, id := range slices.Sorted(keys(leases)) {
		if l := leases[id]; l.State.Over() || l.State == lease.Ending {
			continue
		}
		message := "ended with its cluster"
		if c.Message != "" {
			message += ": " + c.Message
		}
		done, err := s.Leases.EndOfGang(ctx, tx, id, c.Code, message, by)
		if err != nil {
			return nil, err
		}
		all = both(all, done)
	}
	return all, nil
}

// queued looks for hosts for a cluster that has none, or gives it up.
func (s *Service) queued(ctx context.Context, c *Cluster) error {
	now := s.Clock()
	if !now.Before(c.WaitUntil) {
		return s.change(ctx, c.ID, func(ctx context.Context, tx *store.Tx, c *Cluster, now time.Time) (after, error) {
			if c.State != Queued {
				return nil, nil
			}
			code := c.Code
			if code == "" {
				code = "cluster_no_hosts"
			}
			return nil, c.move(ctx, tx, GiveUp, code, "there were no hosts for it in time: "+c.Message, now)
		})
	}
	err := s.tryPlace(ctx, c.owner(), c, nil)
	if f, ok := fault.As(err); ok {
		if waitable(f) {
			return nil
		}
		// Money, quotas and templates do not come back by waiting.
		return s.change(ctx, c.ID, func(ctx context.Context, tx *store.Tx, c *Cluster, now time.Time) (after, error) {
			if c.State != Queued {
				return nil, nil
			}
			return nil, c.move(ctx, tx, GiveUp, f.Code, err.Error(), now)
		})
	}
	return err
}

// replace looks for hosts for the nodes that a cluster has lost. There may be none yet:
// it is tried again until StartBy.
func (s *Service) replace(ctx context.Context, c *Cluster) error {
	w, err := s.openWish(c)
	if err != nil {
		return err
	}
	var there []Host
	rank := -1
	for _, n := range c.Members {
		if n.LeaseID != "" {
			there = append(there, Host{ID: n.HostID, Region: n.Region, Zone: n.Zone, Rack: n.Rack})
		} else if rank < 0 {
			rank = n.Rank
		}
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	hosts, gang, err := s.plan(ctx, c.owner(), c.ID, c.Name, w.Request, w.Lease, Wish{Nodes: 1, Fast: c.Fast, Near: there, Avoid: c.avoided(now)}, rank, c.TimeZone, c.Currency)
	var cost, total = c.Agreed, c.Agreed
	if err == nil {
		cost, err = perHour(gang)
		total = c.Agreed
	}
	if err == nil && int64(cost) > int64(total)/int64(c.Nodes) {
		err = fault.New(fault.Conflict, "price_moved", "another node costs %s an hour, which is more than was agreed to for one", cost.Display())
	}
	if err == nil {
		err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			k, err := lock(ctx, tx, c.ID)
			if err != nil {
				return err
			}
			if k.State != Repairing || k.Members[rank].LeaseID != "" {
				return errOvertaken
			}
			leases, err := gang.Accept(ctx, tx)
			if err != nil {
				return err
			}
			k.Members[rank] = Node{Rank: rank, LeaseID: leases[0].ID, HostID: hosts[0].ID, Region: hosts[0].Region, Zone: hosts[0].Zone, Rack: hosts[0].Rack}
			if err := saveNode(ctx, tx, k.ID, k.Members[rank]); err != nil {
				return err
			}
			if err := k.move(ctx, tx, Replace, "", fmt.Sprintf("node %d goes to host %s", rank, hosts[0].ID), now); err != nil {
				return err
			}
			*c = *k
			return save(ctx, tx, k)
		})
	}
	if err == nil {
		gang.Announce(ctx)
		s.note(c)
		return nil
	}
	if f, ok := fault.As(err); ok && waitable(f) {
		return nil
	}
	if _, ok := fault.As(err); ok {
		return s.change(ctx, c.ID, func(ctx context.Context, tx *store.Tx, k *Cluster, now time.Time) (after, error) {
			if k.State != Repairing {
				return nil, nil
			}
			return s.fail(ctx, tx, k, Spoil, "not_replaced", err.Error(), now)
		})
	}
	return err
}
