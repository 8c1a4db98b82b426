package fleet

import (
	"context"
	"fmt"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// DiskReservation is disk of a host that is kept whether a lease runs or not, such as
// a volume's.
type DiskReservation struct {
	ID      string // of what keeps it, in the place of a lease's
	HostID  string
	DiskGiB int64
}

// DiskTerms are where kept disk is, whose it is and what its host asks for it.
type DiskTerms struct {
	HostID, ProviderID    string
	Region, Zone          string
	Currency              money.Currency
	Storage               money.Rate // per GiB and month
	CommissionBasisPoints int64
	Simulated             bool
}

// ReserveDisk takes disk of a host, within the caller's transaction, and says on what
// terms. It is a Conflict fault "disk_too_big" if the host has less free, and one of
// Reserve's if the host takes nothing now. ReleaseAll gives it back. The caller calls
// Refresh after the commit.
func (s *Service) ReserveDisk(ctx context.Context, tx *store.Tx, r DiskReservation) (DiskTerms, error) {
	if r.ID == "" || r.DiskGiB < 1 || r.DiskGiB > maxDiskMiB/1024 {
		return DiskTerms{}, fault.New(fault.Invalid, "bad_disk", "%d GiB of disk were asked for; want 1 to %d", r.DiskGiB, int64(maxDiskMiB/1024)).At("body.size_gib")
	}
	host, err := s.lock(ctx, tx, r.HostID)
	if err != nil {
		return DiskTerms{}, err
	}
	t := s.diskTerms(host)
	if held, err := readReservation(ctx, tx, r.ID); err != nil {
		return t, fmt.Errorf("reserve disk: %w", err)
	} else if held != nil {
		return t, nil
	}
	if err := s.open(host, true); err != nil {
		return t, err
	}
	if free := host.snapshot().DiskMiB; r.DiskGiB*1024 > free {
		return t, fault.New(fault.Conflict, "disk_too_big", "%d GiB of disk were asked for; the host %s has %d free", r.DiskGiB, host.ID, max(0, free)/1024).At("body.size_gib")
	}
	if _, err := tx.Exec(ctx, `INSERT INTO fleet_reservations (lease_id, host_id, gpu_model, gpu_count, cpu_millis, memory_mib, disk_mib, compute, created_at, spot, account_id)
		VALUES (?, ?, '', 0, 0, 0, ?, 0, ?, 0, '')`, r.ID, r.HostID, r.DiskGiB*1024, store.Micros(s.clock())); err != nil {
		return t, fmt.Errorf("reserve disk: %w", err)
	}
	return t, nil
}

// DiskTerms returns what a host asks for kept disk now, or a NotFound fault.
func (s *Service) DiskTerms(hostID string) (DiskTerms, error) {
	r := s.record(hostID)
	if r == nil {
		return DiskTerms{}, fault.New(fault.NotFound, "offer_gone", "there is no host %q; search for offers to see which there are", hostID)
	}
	return s.diskTerms(r), nil
}

func (s *Service) diskTerms(r *record) DiskTerms {
	d := s.cfg.Defaults
	return DiskTerms{
		HostID: r.ID, ProviderID: r.AccountID, Region: r.Region, Zone: r.Zone, Simulated: r.Simulated,
		Currency: d.Currency, Storage: s.terms(r.Listing).storage, CommissionBasisPoints: d.CommissionBasisPoints,
	}
}
