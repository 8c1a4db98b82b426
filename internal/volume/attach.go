package volume

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// Attach implements lease.Volumes: in the transaction that accepts a lease.
func (s *Service) Attach(ctx context.Context, tx *store.Tx, a lease.Attachment) error {
	for _, u := range a.Uses {
		v, err := find(ctx, tx, a.AccountID, u.Volume, tx.ForUpdate())
		if err != nil {
			return err
		}
		if err := s.attach(ctx, tx, v, a.LeaseID, a.HostID, u); err != nil {
			return err
		}
	}
	return nil
}

// attach counts a lease among those that have a volume, which is locked.
func (s *Service) attach(ctx context.Context, tx *store.Tx, v *Volume, leaseID, hostID string, u lease.VolumeUse) error {
	if v.State != Available {
		return fault.New(fault.Conflict, "volume_state", "volume %s is %s; it can be attached while it is available", v.Name, v.State)
	}
	if v.MovingTo != "" {
		return moving(v)
	}
	if v.HostID != hostID {
		return fault.New(fault.Conflict, "volume_elsewhere", "volume %s is on host %s and the lease would be on another; rent an offer of that host: suanli search 'host_id = \"%s\"'", v.Name, v.HostID, v.HostID)
	}
	for _, other := range v.Attachments {
		if other.LeaseID == leaseID {
			if other.Path == u.Path && other.ReadOnly == u.ReadOnly {
				return nil // the same again
			}
			return fault.New(fault.Conflict, "volume_attached", "lease %s has volume %s already, at %s; detach it first", leaseID, v.Name, other.Path)
		}
		if !u.ReadOnly && !other.ReadOnly {
			return fault.New(fault.Conflict, "volume_in_use", "lease %s has volume %s and may write to it, which one lease can at a time; detach it there, or attach it read-only", other.LeaseID, v.Name)
		}
	}
	readOnly := 0
	if u.ReadOnly {
		readOnly = 1
	}
	var taken int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM volume_attachment WHERE lease_id = ? AND path = ?`, leaseID, u.Path).Scan(&taken); err != nil {
		return fmt.Errorf("attach volume %s: %w", v.ID, err)
	}
	if taken > 0 {
		return fault.New(fault.Conflict, "volume_attached", "lease %s has another volume at %s; choose another path", leaseID, u.Path)
	}
	at := s.Clock().UTC().Truncate(time.Microsecond)
	if _, err := tx.Exec(ctx, `INSERT INTO volume_attachment (volume_id, lease_id, path, read_only, attached_at) VALUES (?, ?, ?, ?, ?)`, v.ID, leaseID, u.Path, readOnly, store.Micros(at)); err != nil {
		return fmt.Errorf("attach volume %s: %w", v.ID, err)
	}
	v.Attachments = append(v.Attachments, Attachment{LeaseID: leaseID, Path: u.Path, ReadOnly: u.ReadOnly, AttachedAt: at})
	return nil
}

// Mounts implements lease.Volumes.
func (s *Service) Mounts(ctx context.Context, leaseID string) (out []protocol.VolumeMount, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		rows, err := tx.Query(ctx, `SELECT volume_id, path, read_only FROM volume_attachment WHERE lease_id = ? ORDER BY path`, leaseID)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var m protocol.VolumeMount
			var readOnly int64
			if err := rows.Scan(&m.VolumeID, &m.Path, &readOnly); err != nil {
				return err
			}
			m.ReadOnly = readOnly != 0
			out = append(out, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("volumes of lease %s: %w", leaseID, err)
	}
	return out, nil
}

// Release implements lease.Volumes.
func (s *Service) Release(ctx context.Context, tx *store.Tx, leaseID string) error {
	if _, err := tx.Exec(ctx, `DELETE FROM volume_attachment WHERE lease_id = ?`, leaseID); err != nil {
		return fmt.Errorf("release the volumes of lease %s: %w", leaseID, err)
	}
	return nil
}

// AttachTo gives a volume to a lease of the caller's that is stopped, which has it from
// its next start on: nothing is mounted into an instance that runs.
func (s *Service) AttachTo(ctx context.Context, p account.Principal, nameOrID, leaseNameOrID, path string, readOnly bool) (*Volume, error) {
	// Whose volume it is comes before what is asked of it.
	if _, err := s.Get(ctx, p, nameOrID); err != nil {
		return nil, err
	}
	if err := lease.CheckMount("body.path", path); err != nil {
		return nil, err
	}
	return s.change(ctx, p, nameOrID, leaseNameOrID, "volume.attach", func(ctx context.Context, tx *store.Tx, v *Volume, l *lease.Lease) error {
		if l.State != lease.Stopped && l.State != lease.Interrupted {
			return fault.New(fault.Conflict, "lease_state", "lease %s is %s; volumes are attached while it is stopped, or named when it is rented: stop it first", l.ID, l.State)
		}
		return s.attach(ctx, tx, v, l.ID, l.HostID, lease.VolumeUse{Volume: v.ID, Path: path, ReadOnly: readOnly})
	})
}

// DetachFrom takes a volume from a lease of the caller's that is stopped. With force
// also from one that has ended or failed and whose host has not confirmed yet that
// nothing is left of it.
func (s *Service) DetachFrom(ctx context.Context, p account.Principal, nameOrID, leaseNameOrID string, force bool) (*Volume, error) {
	return s.change(ctx, p, nameOrID, leaseNameOrID, "volume.detach", func(ctx context.Context, tx *store.Tx, v *Volume, l *lease.Lease) error {
		has := -1
		for i, a := range v.Attachments {
			if a.LeaseID == l.ID {
				has = i
			}
		}
		if has < 0 {
			return nil // it is as was asked for
		}
		switch {
		case l.State == lease.Stopped, l.State == lease.Interrupted, l.State.Over() && force:
		case l.State.Over():
			return fault.New(fault.Conflict, "volume_mounted", "lease %s is %s and its host has not confirmed yet that nothing is left of it; the volume comes free by itself then, or detach it with force", l.ID, l.State)
		default:
			return fault.New(fault.Conflict, "volume_mounted", "lease %s is %s and has volume %s mounted; stop or end it first", l.ID, l.State, v.Name)
		}
		if _, err := tx.Exec(ctx, `DELETE FROM volume_attachment WHERE volume_id = ? AND lease_id = ?`, v.ID, l.ID); err != nil {
			return fmt.Errorf("detach volume %s: %w", v.ID, err)
		}
		v.Attachments = append(v.Attachments[:has:has], v.Attachments[has+1:]...)
		return nil
	})
}

// change changes what a lease has of a volume; both are of the caller's account and
// locked.
func (s *Service) change(ctx context.Context, p account.Principal, nameOrID, leaseNameOrID, action string, do func(ctx context.Context, tx *store.Tx, v *Volume, l *lease.Lease) error) (*Volume, error) {
	if _, err := s.Get(ctx, p, nameOrID); err != nil {
		return nil, err
	}
	if leaseNameOrID == "" {
		return nil, invalid("body.lease_id", "missing_lease", "name a lease, by its identifier or its name")
	}
	seen, err := s.Leases.Resolve(ctx, p, leaseNameOrID)
	if err != nil {
		return nil, err
	}
	var out *Volume
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.Leases.Lock(ctx, tx, p, seen.ID)
		if err != nil {
			return err
		}
		if out, err = find(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate()); err != nil {
			return err
		}
		if err := do(ctx, tx, out, l); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, action, out.ID, map[string]string{"lease": l.ID})
	})
	return out, err
}
