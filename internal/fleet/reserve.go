package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/store"
)

// Reservation is what a lease takes of a host.
type Reservation struct {
	LeaseID   string
	AccountID string // whose held GPUs it may have; empty: none
	HostID    string
	GPUModel  string // empty with GPUCount 0
	GPUCount  int
	CPUMillis int64
	MemoryMiB int64
	DiskGiB   int64
	// Ports are container ports that shall have a port of the host's own
	// address; only on hosts that have such ports.
	Ports []int
	// Spot says that it is of the spot market: a lease that is not may be promised
	// its GPUs.
	Spot bool
}

// Allocation is what a reservation got.
type Allocation struct {
	HostID     string
	ProviderID string   // account
	GPUs       []string // those that it waits for among them
	// Waits says that leases of the spot market have GPUs of it still, which leave:
	// SettleClaim says when they have.
	Waits       bool
	CPUMillis   int64
	MemoryMiB   int64
	DiskMiB     int64
	DirectPorts map[int]int // container port → host port
	Simulated   bool
}

// Reserve takes GPUs, CPU, memory, disk and ports of a host for a lease, within
// the caller's transaction. Of any number that want the same GPU exactly one
// succeeds; the others get a Conflict "offer_taken". Reserving again for the
// same lease returns what it has. The caller calls Refresh after the commit.
func (s *Service) Reserve(ctx context.Context, tx *store.Tx, r Reservation) (Allocation, error) {
	if r.LeaseID == "" || r.GPUCount < 0 || r.GPUCount > maxGPUs || r.CPUMillis < 1 || r.MemoryMiB < 1 || r.DiskGiB < 1 || r.DiskGiB > maxDiskMiB/1024 {
		return Allocation{}, fault.New(fault.Invalid, "bad_reservation",
			"%d GPUs, %d m CPU, %d MiB of memory and %d GiB of disk were asked for; CPU, memory and disk must be positive and a host has at most %d GPUs",
			r.GPUCount, r.CPUMillis, r.MemoryMiB, r.DiskGiB, maxGPUs)
	}
	if len(r.Ports) > 64 {
		return Allocation{}, fault.New(fault.Invalid, "too_many_ports", "%d direct ports were asked for; a lease can have 64", len(r.Ports)).At("body.ports")
	}
	host, err := s.lock(ctx, tx, r.HostID)
	if err != nil {
		return Allocation{}, err
	}
	held, err := readReservation(ctx, tx, r.LeaseID)
	if err != nil {
		return Allocation{}, fmt.Errorf("reserve: %w", err)
	}
	if held != nil {
		if held.HostID != r.HostID {
			return Allocation{}, fault.New(fault.Conflict, "already_reserved", "lease %s has a reservation on another host", r.LeaseID)
		}
		return s.allocation(ctx, tx, host, *held)
	}
	if err := s.openFor(host, r, true); err != nil {
		return Allocation{}, err
	}
	want := placement.Request{Models: models(r.GPUModel), Count: r.GPUCount, CPUMillis: r.CPUMillis, MemoryMiB: r.MemoryMiB, DiskMiB: r.DiskGiB * 1024}
	err = s.take(ctx, tx, host, r, want, "offer_taken")
	if f, ok := fault.As(err); ok && f.Code == "offer_taken" && !r.Spot && r.GPUCount > 0 {
		err = s.claim(ctx, tx, host, r, want)
	}
	if err != nil {
		return Allocation{}, err
	}
	now := store.Micros(s.clock())
	_, err = tx.Exec(ctx, `INSERT INTO fleet_reservations (lease_id, host_id, gpu_model, gpu_count, cpu_millis, memory_mib, disk_mib, compute, created_at, spot, account_id)
		VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?)`, r.LeaseID, r.HostID, r.GPUModel, r.GPUCount, r.CPUMillis, r.MemoryMiB, r.DiskGiB*1024, now, bit(r.Spot), r.AccountID)
	if err != nil {
		return Allocation{}, fmt.Errorf("reserve: %w", err)
	}
	if err := s.takePorts(ctx, tx, host, r.LeaseID, r.Ports); err != nil {
		return Allocation{}, err
	}
	return s.allocation(ctx, tx, host, reservation{
		Reservation: Reservation{LeaseID: r.LeaseID, HostID: r.HostID, CPUMillis: r.CPUMillis, MemoryMiB: r.MemoryMiB},
		diskMiB:     r.DiskGiB * 1024,
	})
}

// reservation is a row; diskMiB stands for DiskGiB.
type reservation struct {
	Reservation
	diskMiB int64
	compute bool
}

func readReservation(ctx context.Context, tx *store.Tx, leaseID string) (*reservation, error) {
	r := reservation{Reservation: Reservation{LeaseID: leaseID}}
	var compute int64
	err := tx.QueryRow(ctx, `SELECT host_id, gpu_model, gpu_count, cpu_millis, memory_mib, disk_mib, compute, account_id FROM fleet_reservations WHERE lease_id = ?`, leaseID).
		Scan(&r.HostID, &r.GPUModel, &r.GPUCount, &r.CPUMillis, &r.MemoryMiB, &r.diskMiB, &compute, &r.AccountID)
	if errors.Is(err, store.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r.compute = compute != 0
	return &r, nil
}

// lock reads a host and keeps others from reserving there until the end of the
// transaction, so that sums of CPU, memory and disk hold.
func (s *Service) lock(ctx context.Context, tx *store.Tx, hostID string) (*record, error) {
	r, err := readHost(ctx, tx, hostID, tx.ForUpdate(), s.record(hostID))
	if err != nil {
		return nil, fmt.Errorf("reserve: %w", err)
	}
	if r == nil {
		return nil, fault.New(fault.NotFound, "offer_gone", "the host %q of this offer is gone; search again", hostID)
	}
	return r, nil
}

// open reports why a host takes no lease now, as a fault. With fresh the host
// must be on the market too; starting a stopped lease needs only a live host.
func (s *Service) open(r *record, fresh bool) error {
	s.mu.RLock()
	h := s.hosts[r.ID]
	var l live
	if h != nil {
		l = h.live
	}
	s.mu.RUnlock()
	state, reason := s.state(&host{record: r, live: l})
	switch state {
	case StateListed, StateDegraded:
		return nil
	case StateUnlisted:
		if !fresh {
			return nil
		}
	case StateAwaited, StateOffline, StateJoining, StateNotReady:
		return fault.New(fault.Unavailable, "host_offline", "host %s cannot start anything now (%s); try again, or search for another offer", r.ID, state)
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	if fresh {
		return fault.New(fault.Conflict, "offer_taken", "host %s is %s%s and takes no leases; search again", r.ID, state, reason)
	}
	return fault.New(fault.Conflict, "no_capacity", "host %s is %s%s and starts nothing now; the lease stays stopped and keeps its disk", r.ID, state, reason)
}

// openFor is open, but what is held for its account a lease gets also from a host
// that is drained or off the market.
func (s *Service) openFor(r *record, want Reservation, fresh bool) error {
	err := s.open(r, fresh)
	if err == nil || want.GPUCount < 1 || want.GPUCount > r.heldFor(want.AccountID, want.GPUModel) {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if h := s.hosts[r.ID]; h != nil {
		if state, _ := s.state(&host{record: r, live: h.live}); state == StateDraining || state == StateUnlisted {
			return nil
		}
	}
	return err
}

// take chooses GPUs and writes the allocations.
func (s *Service) take(ctx context.Context, tx *store.Tx, host *record, r Reservation, want placement.Request, code string) error {
	leaseID := r.LeaseID
	if left := host.heldFrom(r.AccountID, r.GPUModel); left > 0 && want.Count > host.free(r.GPUModel)-left {
		return fault.New(fault.Conflict, code, "this does not fit on the host any more: %w", errHeld)
	}
	choice, err := placement.Choose([]placement.Host{host.snapshot()}, want)
	if err != nil {
		return fault.New(fault.Conflict, code, "this does not fit on the host any more: %w", err)
	}
	for _, uuid := range choice.GPUs {
		if err := s.allot(ctx, tx, host, leaseID, uuid, code); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) takePorts(ctx context.Context, tx *store.Tx, host *record, leaseID string, ports []int) error {
	if len(ports) == 0 {
		return nil
	}
	has := host.Inventory.DirectPorts
	if has == nil {
		return fault.New(fault.Conflict, "no_direct_ports", "host %s has no ports of its own; the gateway reaches all ports, or search with: direct_ports", host.ID)
	}
	taken := map[int]bool{}
	rows, err := tx.Query(ctx, `SELECT port FROM fleet_ports WHERE address = ?`, has.Address)
	if err != nil {
		return fmt.Errorf("reserve ports: %w", err)
	}
	err = each(rows, func() error {
		var port int
		err := rows.Scan(&port)
		taken[port] = true
		return err
	})
	if err != nil {
		return fmt.Errorf("reserve ports: %w", err)
	}
	next := has.First
	for _, inside := range slices.Compact(slices.Sorted(slices.Values(ports))) {
		if inside < 1 || inside > 65535 {
			return fault.New(fault.Invalid, "bad_port", "port %d was asked for; ports are 1 to 65535", inside).At("body.ports")
		}
		for {
			for next <= has.Last && taken[next] {
				next++
			}
			if next > has.Last {
				return fault.New(fault.Conflict, "no_direct_ports", "host %s has no free port of its own left; use the gateway, or search for another offer", host.ID)
			}
			// Another host behind the same address may take it at this moment.
			n, err := tx.Exec(ctx, `INSERT INTO fleet_ports (address, port, host_id, lease_id, container_port) VALUES (?, ?, ?, ?, ?) ON CONFLICT (address, port) DO NOTHING`,
				has.Address, next, host.ID, leaseID, inside)
			if err != nil {
				return fmt.Errorf("reserve ports: %w", err)
			}
			next++
			if n == 1 {
				break
			}
		}
	}
	return nil
}

func (s *Service) allocation(ctx context.Context, tx *store.Tx, host *record, r reservation) (Allocation, error) {
	a := Allocation{
		HostID: host.ID, ProviderID: host.AccountID, CPUMillis: r.CPUMillis, MemoryMiB: r.MemoryMiB, DiskMiB: r.diskMiB, Simulated: host.Simulated,
	}
	rows, err := tx.Query(ctx, `SELECT h.gpu_uuid, h.waits FROM
		(SELECT gpu_uuid, 0 AS waits FROM fleet_allocations WHERE lease_id = ? UNION ALL SELECT gpu_uuid, 1 AS waits FROM fleet_claims WHERE lease_id = ?) h
		JOIN fleet_gpus g ON g.uuid = h.gpu_uuid ORDER BY g.position, g.uuid`, r.LeaseID, r.LeaseID)
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation: %w", err)
	}
	err = each(rows, func() error {
		var uuid string
		var waits int64
		err := rows.Scan(&uuid, &waits)
		a.GPUs, a.Waits = append(a.GPUs, uuid), a.Waits || waits == 1
		return err
	})
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation: %w", err)
	}
	rows, err = tx.Query(ctx, `SELECT container_port, port FROM fleet_ports WHERE lease_id = ?`, r.LeaseID)
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation: %w", err)
	}
	err = each(rows, func() error {
		var inside, outside int
		err := rows.Scan(&inside, &outside)
		if a.DirectPorts == nil {
			a.DirectPorts = map[int]int{}
		}
		a.DirectPorts[inside] = outside
		return err
	})
	if err != nil {
		return Allocation{}, fmt.Errorf("read allocation: %w", err)
	}
	return a, nil
}

// ReleaseCompute gives back a lease's GPUs, CPU and memory and keeps its disk
// and ports, as a stop does. It may be repeated. The caller must know that
// nothing of the lease runs on the host any more, and calls Refresh after the
// commit.
func (s *Service) ReleaseCompute(ctx context.Context, tx *store.Tx, leaseID string) error {
	if err := s.endRental(ctx, tx, leaseID); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM fleet_allocations WHERE lease_id = ?`, leaseID); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE fleet_reservations SET compute = 0 WHERE lease_id = ?`, leaseID); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// ReserveCompute takes GPUs, CPU and memory again for a stopped lease, on the
// host that has its disk; perhaps other GPUs of the same model. Without room it
// is a Conflict "no_capacity" and nothing changes. It may be repeated.
func (s *Service) ReserveCompute(ctx context.Context, tx *store.Tx, leaseID string) (Allocation, error) {
	held, err := readReservation(ctx, tx, leaseID)
	if err != nil {
		return Allocation{}, fmt.Errorf("reserve: %w", err)
	}
	if held == nil {
		return Allocation{}, fault.New(fault.NotFound, "no_reservation", "lease %s has nothing reserved", leaseID)
	}
	host, err := s.lock(ctx, tx, held.HostID)
	if err != nil {
		return Allocation{}, err
	}
	// Read again under the lock.
	if held, err = readReservation(ctx, tx, leaseID); err != nil || held == nil {
		return Allocation{}, fault.New(fault.NotFound, "no_reservation", "lease %s has nothing reserved", leaseID)
	}
	if held.compute {
		return s.allocation(ctx, tx, host, *held)
	}
	if err := s.openFor(host, held.Reservation, false); err != nil {
		return Allocation{}, err
	}
	want := placement.Request{Models: models(held.GPUModel), Count: held.GPUCount, CPUMillis: held.CPUMillis, MemoryMiB: held.MemoryMiB}
	// The disk is held already, and a host whose disk is overbooked by a smaller
	// inventory may still start what is on it.
	host.DiskMiB = 0
	if err := s.take(ctx, tx, host, held.Reservation, want, "no_capacity"); err != nil {
		return Allocation{}, err
	}
	if _, err := tx.Exec(ctx, `UPDATE fleet_reservations SET compute = 1 WHERE lease_id = ?`, leaseID); err != nil {
		return Allocation{}, fmt.Errorf("reserve: %w", err)
	}
	return s.allocation(ctx, tx, host, *held)
}

// ReleaseAll gives back all that a lease has. It may be repeated.
func (s *Service) ReleaseAll(ctx context.Context, tx *store.Tx, leaseID string) error {
	if err := s.endRental(ctx, tx, leaseID); err != nil {
		return err
	}
	for _, table := range []string{"fleet_allocations", "fleet_claims", "fleet_ports", "fleet_reservations"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE lease_id = ?`, leaseID); err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	return nil
}

// endRental keeps in the history that a lease has no GPU any more.
func (s *Service) endRental(ctx context.Context, tx *store.Tx, leaseID string) error {
	if _, err := tx.Exec(ctx, `UPDATE fleet_rented SET until_at = ? WHERE lease_id = ? AND until_at = 0`, store.Micros(s.clock()), leaseID); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// models is what a request's model is to placement; none for one without GPUs.
func models(one string) []string {
	if one == "" {
		return nil
	}
	return []string{one}
}
