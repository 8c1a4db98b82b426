package volume

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

// Copy asks for another volume with what is in one.
type Copy struct {
	Name    string // of a clone; empty: one is made up
	HostID  string // empty: the volume's own
	SizeGiB int64  // 0: the volume's own; no less than that
}

// Clone begins to make a second volume with what is in one. The first is as it was, and
// must be at rest until the copy of it is in object storage.
func (s *Service) Clone(ctx context.Context, p account.Principal, nameOrID string, c Copy) (*Volume, error) {
	return s.copyTo(ctx, p, nameOrID, c, false)
}

// MoveTo begins to put another volume in the place of one: on another host of its
// region, larger, or both. Until the new one is made, and read again from its disk as
// the same, the old one is there, locked; in one transaction then the new one takes its
// name and is charged for, and the old one is removed and is not charged for any more.
// Whatever fails before leaves the old one as it was.
func (s *Service) MoveTo(ctx context.Context, p account.Principal, nameOrID string, c Copy) (*Volume, error) {
	return s.copyTo(ctx, p, nameOrID, c, true)
}

func (s *Service) copyTo(ctx context.Context, p account.Principal, nameOrID string, c Copy, replace bool) (*Volume, error) {
	v, err := s.Get(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	if err := s.haveObjects(); err != nil {
		return nil, err
	}
	if c.HostID == "" {
		c.HostID = v.HostID
	}
	if c.SizeGiB == 0 {
		c.SizeGiB = v.SizeGiB
	}
	if replace && c.HostID == v.HostID && c.SizeGiB == v.SizeGiB {
		return v, nil // it is as was asked for
	}
	if !replace {
		if err := s.atRest(ctx, p, v); err != nil {
			return nil, err
		}
	}
	return s.make(ctx, p, Request{Name: c.Name, HostID: c.HostID, SizeGiB: c.SizeGiB}, func(ctx context.Context, tx *store.Tx, made *Volume) error {
		v, err := find(ctx, tx, p.AccountID, v.ID, tx.ForUpdate())
		if err != nil {
			return err
		}
		if err := fits(made, v.SizeGiB, v.Region, v.Simulated, "volume "+v.Name); err != nil {
			return err
		}
		if replace && len(v.Attachments) > 0 {
			a := v.Attachments[0]
			return fault.New(fault.Conflict, "volume_in_use", "lease %s has volume %s, and leases stay on their host; detach it first: suanli volume detach %s %s", a.LeaseID, v.Name, v.Name, a.LeaseID)
		}
		x, err := s.begin1(ctx, tx, p, v, "", Passing)
		if err != nil {
			return err
		}
		made.SnapshotID = x.ID
		if replace {
			made.Replaces = v.ID
			if _, err := tx.Exec(ctx, `UPDATE volume SET moving_to = ? WHERE id = ?`, made.ID, v.ID); err != nil {
				return fmt.Errorf("move volume %s: %w", v.ID, err)
			}
		}
		return nil
	})
}

// ofSnapshot makes a new volume one of a snapshot of the caller's.
func ofSnapshot(p account.Principal, nameOrID string) func(ctx context.Context, tx *store.Tx, made *Volume) error {
	return func(ctx context.Context, tx *store.Tx, made *Volume) error {
		x, err := findSnapshot(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate())
		if err != nil {
			return err
		}
		if x.State != SnapshotAvailable || x.Kind == Passing {
			return fault.New(fault.Conflict, "snapshot_state", "snapshot %s is %s; a volume can be made of it while it is available", x.Name, x.State)
		}
		made.SnapshotID = x.ID
		return fits(made, x.SizeGiB, x.Region, x.Simulated, "snapshot "+x.Name)
	}
}

// fits is a fault unless a new volume can have what is in something.
func fits(made *Volume, sizeGiB int64, region string, simulated bool, what string) error {
	if made.SizeGiB < sizeGiB {
		return invalid("body.size_gib", "invalid_volume_size", "a volume of %d GiB was asked for and %s has %d; want that or more", made.SizeGiB, what, sizeGiB)
	}
	if made.Region != region {
		return fault.New(fault.Conflict, "snapshot_elsewhere", "%s is of region %s and the host is in %s; choose a host of its region", what, region, made.Region)
	}
	if made.Simulated != simulated {
		return fault.New(fault.Conflict, "snapshot_elsewhere", "%s is of a simulated host and the other is not, or the other way round; choose another host", what)
	}
	return nil
}

// takePlace gives a volume that is made the place of the one that it replaces: its name,
// and its backups. Both are locked.
func (s *Service) takePlace(ctx context.Context, tx *store.Tx, v *Volume, now time.Time) error {
	list, err := query(ctx, tx, `id = ?`+tx.ForUpdate(), v.Replaces)
	if err != nil || len(list) == 0 {
		return err
	}
	old := list[0]
	if old.State == Available {
		if err := s.apply(ctx, tx, old, Remove, now, "moved", "moved to "+v.ID); err != nil {
			return err
		}
	}
	var taken int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM volume WHERE account_id = ? AND name = ? AND state IN ('creating', 'available')`, v.AccountID, old.Name).Scan(&taken); err != nil {
		return fmt.Errorf("move volume %s: %w", old.ID, err)
	}
	if taken == 0 { // the old one may have been lost, and its name given to another
		v.Name = old.Name
	}
	v.BackupHours, v.BackupKeep, v.BackupNext = old.BackupHours, old.BackupKeep, old.BackupNext
	if _, err := tx.Exec(ctx, `UPDATE volume SET name = ?, backup_hours = ?, backup_keep = ?, backup_next = ? WHERE id = ?`,
		v.Name, v.BackupHours, v.BackupKeep, store.Micros(v.BackupNext), v.ID); err != nil {
		return fmt.Errorf("move volume %s: %w", old.ID, err)
	}
	return nil
}
