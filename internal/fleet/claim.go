package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// SpotHold is what a lease of the spot market is worth where it runs.
type SpotHold struct {
	PerHour money.Rate // what its GPUs cost an hour together, now
	Since   time.Time  // when it got its place
}

// spotShare is what a lease of the spot market has of a host's CPU and memory.
type spotShare struct{ CPUMillis, MemoryMiB int64 }

// cover is the cheapest set of leases that has enough GPUs: the least money an
// hour, and of equals the least time that they have run together, which is the
// youngest.
type cover struct {
	perHour money.Rate
	age     time.Duration
	leases  []string
}

func (c cover) less(o cover) bool {
	return cmp.Or(cmp.Compare(c.perHour, o.perHour), cmp.Compare(c.age, o.age), cmp.Compare(len(c.leases), len(o.leases))) < 0
}

// cheapestCover returns the leases to take need GPUs from, or nil where all
// together have too few. Whole leases leave, so it is a knapsack and not a list
// that is cut: by how many GPUs are found, the best set so far.
func cheapestCover(gpus map[string]int, holds map[string]SpotHold, need int, now time.Time) []string {
	best := make([]*cover, need+1)
	best[0] = &cover{}
	ids := make([]string, 0, len(gpus))
	for id := range gpus {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		// One that the market says nothing of is on its way out already.
		hold, known := holds[id]
		age := time.Duration(0)
		if known {
			age = max(0, now.Sub(hold.Since))
		}
		for have := need - 1; have >= 0; have-- {
			from := best[have]
			if from == nil {
				continue
			}
			to := min(need, have+gpus[id])
			with := cover{from.perHour + hold.PerHour, from.age + age, append(slices.Clone(from.leases), id)}
			if best[to] == nil || with.less(*best[to]) {
				best[to] = &with
			}
		}
	}
	if best[need] == nil {
		return nil
	}
	return best[need].leases
}

// claim promises a lease GPUs that leases of the spot market have, beside those
// that are free, which it gets at once. The caller has locked the host.
func (s *Service) claim(ctx context.Context, tx *store.Tx, host *record, r Reservation, want placement.Request) error {
	leaseID := r.LeaseID
	full := fault.New(fault.Conflict, "offer_taken", "this does not fit on the host any more, even if all leases of the spot market left it; search again")
	holds := map[string]SpotHold{}
	if s.cfg.SpotHolds != nil {
		var err error
		if holds, err = s.cfg.SpotHolds(ctx, tx, host.ID); err != nil {
			return fmt.Errorf("claim: %w", err)
		}
	}
	gpus, free := map[string]int{}, 0
	for _, g := range host.GPUs {
		switch {
		case g.Model != r.GPUModel || g.ClaimedBy != "" || !host.fit(g):
		case g.LeaseID == "":
			free++
		case host.claimable(g):
			gpus[g.LeaseID]++
		}
	}
	now := s.clock()
	var leave []string
	free -= host.heldFrom(r.AccountID, r.GPUModel) // which stays free for whom it is held
	if need := want.Count - free; need > 0 {
		if leave = cheapestCover(gpus, holds, need, now); leave == nil {
			return full
		}
	}
	holder := map[string]string{}
	picture := host.snapshot()
	for i := range picture.GPUs {
		g := host.GPUs[i]
		if slices.Contains(leave, g.LeaseID) && g.ClaimedBy == "" && host.fit(g) {
			picture.GPUs[i].Free = true
			holder[g.UUID] = g.LeaseID
		}
	}
	for _, id := range leave {
		if share, counted := host.Spot[id]; counted && !host.Leaving[id] {
			picture.CPUMillis += share.CPUMillis
			picture.MemoryMiB += share.MemoryMiB
		}
	}
	choice, err := placement.Choose([]placement.Host{picture}, want)
	if err != nil {
		return full
	}
	for _, uuid := range choice.GPUs {
		if holder[uuid] == "" {
			if err := s.allot(ctx, tx, host, leaseID, uuid, "offer_taken"); err != nil {
				return err
			}
			continue
		}
		n, err := tx.Exec(ctx, `INSERT INTO fleet_claims (gpu_uuid, host_id, lease_id, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (gpu_uuid) DO NOTHING`,
			uuid, host.ID, leaseID, store.Micros(now))
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if n == 0 {
			return full
		}
	}
	return nil
}

// SettleClaim gives a lease those of the GPUs promised to it that nobody has any
// more, and reports whether it has all of them now, healthy. It may be repeated.
// The caller makes sure that the lease is not given up at the same moment, and
// undoes the transaction where it is not met: nobody else can get the GPUs.
func (s *Service) SettleClaim(ctx context.Context, tx *store.Tx, leaseID string) (bool, error) {
	held, err := readReservation(ctx, tx, leaseID)
	if err != nil {
		return false, fmt.Errorf("settle claim: %w", err)
	}
	if held == nil {
		return false, nil
	}
	host, err := s.lock(ctx, tx, held.HostID)
	if err != nil {
		return false, err
	}
	for _, g := range host.GPUs {
		if g.ClaimedBy != leaseID {
			continue
		}
		if g.LeaseID != "" {
			return false, nil
		}
		if err := s.allot(ctx, tx, host, leaseID, g.UUID, "no_capacity"); err != nil {
			return false, err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM fleet_claims WHERE gpu_uuid = ? AND lease_id = ?`, g.UUID, leaseID); err != nil {
			return false, fmt.Errorf("settle claim: %w", err)
		}
	}
	for _, g := range host.GPUs {
		// What was left behind on a GPU is cleaned before somebody else gets it.
		if (g.LeaseID == leaseID || g.ClaimedBy == leaseID) && (!g.Present || g.Health != protocol.Healthy) {
			return false, nil
		}
	}
	return true, nil
}

// ClaimFree reports whether it is worth calling SettleClaim: nobody has any of the
// GPUs that are promised to the lease.
func (s *Service) ClaimFree(ctx context.Context, tx *store.Tx, leaseID string) (bool, error) {
	var taken int64
	err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM fleet_claims c JOIN fleet_allocations a ON a.gpu_uuid = c.gpu_uuid WHERE c.lease_id = ?`, leaseID).Scan(&taken)
	if err != nil {
		return false, fmt.Errorf("look at claim: %w", err)
	}
	return taken == 0, nil
}

// allot writes that a lease has a GPU from now on.
func (s *Service) allot(ctx context.Context, tx *store.Tx, host *record, leaseID, uuid, code string) error {
	now := store.Micros(s.clock())
	n, err := tx.Exec(ctx, `INSERT INTO fleet_allocations (gpu_uuid, host_id, lease_id, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (gpu_uuid) DO NOTHING`,
		uuid, host.ID, leaseID, now)
	if err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	if n == 0 {
		return fault.New(fault.Conflict, code, "a GPU of this offer was taken a moment ago; search again")
	}
	if _, err := tx.Exec(ctx, `INSERT INTO fleet_rented (lease_id, gpu_uuid, from_at, host_id, account_id, simulated) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		leaseID, uuid, now, host.ID, host.AccountID, bit(host.Simulated)); err != nil {
		return fmt.Errorf("reserve: %w", err)
	}
	return nil
}

// claimable reports whether a lease on demand may be promised a GPU that a lease
// of the spot market has.
func (r *record) claimable(g gpu) bool {
	_, spot := r.Spot[g.LeaseID]
	return spot && g.ClaimedBy == "" && r.fit(g)
}

// readClaims adds to hosts which of their GPUs are promised to whom, and which
// leases of the spot market are there.
func readClaims(ctx context.Context, tx *store.Tx, where string, args []any, byID map[string]*record) error {
	claimed := map[string]string{}
	rows, err := tx.Query(ctx, `SELECT g.gpu_uuid, g.lease_id FROM fleet_claims g`+where, args...)
	if err != nil {
		return err
	}
	err = each(rows, func() error {
		var uuid, lease string
		err := rows.Scan(&uuid, &lease)
		claimed[uuid] = lease
		return err
	})
	if err != nil {
		return err
	}
	and := " WHERE "
	if where != "" {
		and = where + " AND "
	}
	rows, err = tx.Query(ctx, `SELECT g.host_id, g.lease_id, g.cpu_millis, g.memory_mib FROM fleet_reservations g`+and+`g.spot = 1 AND g.compute = 1`, args...)
	if err != nil {
		return err
	}
	err = each(rows, func() error {
		var host, lease string
		var share spotShare
		if err := rows.Scan(&host, &lease, &share.CPUMillis, &share.MemoryMiB); err != nil {
			return err
		}
		if r := byID[host]; r != nil {
			if r.Spot == nil {
				r.Spot = map[string]spotShare{}
			}
			r.Spot[lease] = share
		}
		return nil
	})
	if err != nil || len(claimed) == 0 {
		return err
	}
	for _, r := range byID {
		for i := range r.GPUs {
			g := &r.GPUs[i]
			if g.ClaimedBy = claimed[g.UUID]; g.ClaimedBy == "" || g.LeaseID == "" || r.Leaving[g.LeaseID] {
				continue
			}
			// Who has it leaves, and who waits for it is counted already: with both,
			// GPUs that are free would lack their share of CPU and memory.
			if r.Leaving == nil {
				r.Leaving = map[string]bool{}
			}
			r.Leaving[g.LeaseID] = true
			r.CPUMillis -= r.Spot[g.LeaseID].CPUMillis
			r.MemoryMiB -= r.Spot[g.LeaseID].MemoryMiB
		}
	}
	return nil
}

// claims returns which GPUs of hosts are promised to whom.
func claims(ctx context.Context, tx *store.Tx, hosts []any) (map[string]string, error) {
	out := map[string]string{}
	rows, err := tx.Query(ctx, `SELECT gpu_uuid, lease_id FROM fleet_claims WHERE host_id IN (?`+strings.Repeat(", ?", len(hosts)-1)+`)`, hosts...)
	if err != nil {
		return nil, err
	}
	return out, each(rows, func() error {
		var uuid, lease string
		err := rows.Scan(&uuid, &lease)
		out[uuid] = lease
		return err
	})
}
