package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Objects is what snapshots need of objectstore.
type Objects interface {
	Begin(ctx context.Context, key string) (string, error)
	PartURL(ctx context.Context, key, upload string, number int, expires time.Duration) (string, error)
	GetURL(ctx context.Context, key string, expires time.Duration) (string, error)
	Parts(ctx context.Context, key, upload string, n int) (objectstore.Parts, error)
	Complete(ctx context.Context, key, upload string, p objectstore.Parts) error
	Abort(ctx context.Context, key, upload string) error
	Uploads(ctx context.Context, prefix string) ([]objectstore.Upload, error)
	Keys(ctx context.Context, prefix string) ([]string, error)
	Size(ctx context.Context, key string) (int64, error)
	Remove(ctx context.Context, key string) error
}

// SnapshotConfig is what snapshots are made of.
type SnapshotConfig struct {
	Objects  Objects // nil: there are no snapshots
	Price    money.Rate
	Currency money.Currency // of Price
	// Most is how many snapshots an account may have at a time; 0: 200.
	Most int
	// PerHost is how many volumes of a host are copied at a time; 0: 2.
	PerHost int
	// SweepEvery is between looks for what a crash has left in the bucket; 0: an hour.
	SweepEvery time.Duration
}

// SnapshotKind is why a snapshot was made.
type SnapshotKind string

// The kinds of snapshots. A passing one is made for a volume that is cloned, moved or
// made larger, is not charged for, and goes when that is done.
const (
	Manual    SnapshotKind = "manual"
	Scheduled SnapshotKind = "scheduled"
	Passing   SnapshotKind = "passing"
)

// maxSnapshotGiB bounds a volume that can be copied: more parts, or larger ones, are
// not to be had.
const maxSnapshotGiB = 1 << 10

// Snapshot is a copy of a volume in object storage.
type Snapshot struct {
	ID, AccountID, UserID       string
	Name                        string
	VolumeID                    string
	HostID                      string // that the volume was on
	Region, Zone                string
	SizeGiB                     int64 // of the volume
	Simulated                   bool
	Kind                        SnapshotKind
	State                       SnapshotState
	Code, Message               string // why it is in its state
	UploadID                    string
	StoredBytes                 int64 // as compressed; so far, while it is copied
	ObjectSHA256, ContentSHA256 string
	Price                       *pricing.Quote // nil: it is not charged for
	CreatedAt, ReadyAt, EndedAt time.Time
}

// key is where its object is. It begins with the account, so that an operator who looks
// into the bucket sees whose it is.
func (s *Snapshot) key() string { return keyPrefix + s.AccountID + "/" + s.ID }

const keyPrefix = "snapshots/"

const snapshotColumns = `id, account_id, user_id, name, volume_id, host_id, region, zone, size_gib, simulated, kind, state, code, message, upload_id, stored_bytes, object_sha256, content_sha256, price, created_at, ready_at, ended_at`

func querySnapshots(ctx context.Context, tx *store.Tx, where string, args ...any) ([]*Snapshot, error) {
	rows, err := tx.Query(ctx, `SELECT `+snapshotColumns+` FROM volume_snapshot WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read snapshots: %w", err)
	}
	defer rows.Close()
	var out []*Snapshot
	for rows.Next() {
		var s Snapshot
		var price []byte
		var simulated, created, ready, ended int64
		if err := rows.Scan(&s.ID, &s.AccountID, &s.UserID, &s.Name, &s.VolumeID, &s.HostID, &s.Region, &s.Zone, &s.SizeGiB, &simulated, &s.Kind, &s.State, &s.Code, &s.Message,
			&s.UploadID, &s.StoredBytes, &s.ObjectSHA256, &s.ContentSHA256, &price, &created, &ready, &ended); err != nil {
			return nil, fmt.Errorf("read snapshots: %w", err)
		}
		if len(price) > 0 {
			s.Price = &pricing.Quote{}
			if err := json.Unmarshal(price, s.Price); err != nil {
				return nil, fmt.Errorf("read the price of snapshot %s: %w", s.ID, err)
			}
		}
		s.Simulated = simulated != 0
		s.CreatedAt, s.ReadyAt, s.EndedAt = store.Time(created), store.Time(ready), store.Time(ended)
		out = append(out, &s)
	}
	return out, rows.Err()
}

func snapshotNotFound(nameOrID string) error {
	return fault.New(fault.NotFound, "snapshot_not_found", "there is no snapshot %q in this account; list yours to see their names", nameOrID)
}

// findSnapshot returns a snapshot of an account's, by identifier, or by the name of one
// that is not over. With suffix it is locked.
func findSnapshot(ctx context.Context, tx *store.Tx, accountID, nameOrID, suffix string) (*Snapshot, error) {
	where, args := `account_id = ? AND name = ? AND state IN ('copying', 'available')`, []any{accountID, nameOrID}
	if ident.Check(ident.Snapshot, nameOrID) == nil {
		where, args = `account_id = ? AND id = ?`, []any{accountID, nameOrID}
	}
	list, err := querySnapshots(ctx, tx, where+` ORDER BY id DESC LIMIT 1`+suffix, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, snapshotNotFound(nameOrID)
	}
	return list[0], nil
}

// Snapshot returns a snapshot of the caller's, by identifier or by name.
func (s *Service) Snapshot(ctx context.Context, p account.Principal, nameOrID string) (x *Snapshot, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		x, err = findSnapshot(ctx, tx, p.AccountID, nameOrID, "")
		return err
	})
	return x, err
}

// ListSnapshots returns a page of the caller's snapshots, newest first, and the cursor
// of the next; with volume, those of one; with open, only those that are not over.
func (s *Service) ListSnapshots(ctx context.Context, p account.Principal, volume string, open bool, cursor string, limit int) (out []*Snapshot, next string, err error) {
	where, args := `account_id = ?`, []any{p.AccountID}
	if volume != "" {
		v, err := s.Get(ctx, p, volume)
		if err != nil {
			return nil, "", err
		}
		where, args = where+` AND volume_id = ?`, append(args, v.ID)
	}
	if open {
		where += ` AND ended_at = 0`
	}
	return store.Page(ctx, s.DB, where, args, cursor, limit, querySnapshots, func(x *Snapshot) string { return x.ID })
}

// SnapshotPlaces returns those snapshots that are among identifiers of any kind, for
// the cloud's own parts, which check who asks.
func (s *Service) SnapshotPlaces(ctx context.Context, ids []string) (out []*Snapshot, err error) {
	err = s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		out = nil
		for _, id := range ids {
			if ident.Check(ident.Snapshot, id) != nil {
				continue
			}
			list, err := querySnapshots(ctx, tx, `id = ?`, id)
			if err != nil {
				return err
			}
			out = append(out, list...)
		}
		return nil
	})
	return out, err
}

// haveObjects is a fault where the operator has set up no object storage.
func (s *Service) haveObjects() error {
	if s.Snapshots.Objects == nil {
		return fault.New(fault.Unavailable, "object_store_off", "this cloud has no object storage, and so no copies of volumes; its operator can set it up (s3_endpoint)")
	}
	return nil
}

// atRest is a fault unless no lease runs that has a volume: what is copied must not
// change meanwhile.
func (s *Service) atRest(ctx context.Context, p account.Principal, v *Volume) error {
	for _, a := range v.Attachments {
		l, err := s.Leases.Resolve(ctx, p, a.LeaseID)
		if err != nil {
			return err
		}
		if l.State != lease.Stopped && l.State != lease.Interrupted {
			return fault.New(fault.Conflict, "volume_in_use", "lease %s is %s and has volume %s; a volume is copied while no lease with it runs: stop the lease first", l.ID, l.State, v.Name)
		}
	}
	return nil
}

// TakeSnapshot begins a copy of a volume in object storage. Its host makes it soon
// after; it is charged for from when it is whole.
func (s *Service) TakeSnapshot(ctx context.Context, p account.Principal, volume, name string) (*Snapshot, error) {
	v, err := s.Get(ctx, p, volume)
	if err != nil {
		return nil, err
	}
	if name != "" && (!volumeName.MatchString(name) || ident.Resembles(name)) {
		return nil, invalid("body.name", "invalid_name", "name %.100q: use 1 to 63 of a-z, 0-9 and -, beginning and ending with a letter or digit, that is not like an identifier", name)
	}
	if err := s.atRest(ctx, p, v); err != nil {
		return nil, err
	}
	var out *Snapshot
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, err := find(ctx, tx, p.AccountID, v.ID, tx.ForUpdate())
		if err != nil {
			return err
		}
		if out, err = s.begin1(ctx, tx, p, v, name, Manual); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "snapshot.create", out.ID, map[string]string{"volume": v.ID})
	})
	if err == nil {
		s.kickSnapshots()
	}
	return out, err
}

// begin1 writes a new snapshot of a volume, which is locked.
func (s *Service) begin1(ctx context.Context, tx *store.Tx, p account.Principal, v *Volume, name string, kind SnapshotKind) (*Snapshot, error) {
	if err := s.haveObjects(); err != nil {
		return nil, err
	}
	if v.State != Available {
		return nil, fault.New(fault.Conflict, "volume_state", "volume %s is %s; it can be copied while it is available", v.Name, v.State)
	}
	if v.MovingTo != "" {
		return nil, moving(v)
	}
	if v.SizeGiB > maxSnapshotGiB {
		return nil, fault.New(fault.Conflict, "volume_too_big", "volume %s has %d GiB; volumes of up to %d can be copied", v.Name, v.SizeGiB, int64(maxSnapshotGiB))
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	x := &Snapshot{ID: ident.New(ident.Snapshot), AccountID: v.AccountID, UserID: p.UserID, Name: name, VolumeID: v.ID, HostID: v.HostID, Region: v.Region, Zone: v.Zone,
		SizeGiB: v.SizeGiB, Simulated: v.Simulated, Kind: kind, State: SnapshotCopying, CreatedAt: now}
	if x.Name == "" {
		x.Name = "snapshot-" + x.ID[len(x.ID)-6:]
	}
	var have, same, copying int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN name = ? AND state IN ('copying', 'available') THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN volume_id = ? AND state = 'copying' THEN 1 ELSE 0 END), 0) FROM volume_snapshot WHERE account_id = ? AND ended_at = 0`,
		x.Name, v.ID, v.AccountID).Scan(&have, &same, &copying); err != nil {
		return nil, fmt.Errorf("count snapshots: %w", err)
	}
	if copying > 0 {
		return nil, fault.New(fault.Conflict, "volume_copied", "volume %s is being copied already; wait for that copy, or remove it", v.Name)
	}
	if same > 0 {
		return nil, fault.New(fault.Conflict, "snapshot_exists", "this account has a snapshot %q already; choose another name", x.Name).At("body.name")
	}
	if have >= s.Snapshots.Most {
		return nil, fault.New(fault.TooMany, "quota_snapshots", "this account has %d snapshots and may have %d; remove one", have, s.Snapshots.Most)
	}
	simulated := 0
	if x.Simulated {
		simulated = 1
	}
	if _, err := tx.Exec(ctx, `INSERT INTO volume_snapshot (`+snapshotColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', '', '', 0, '', '', '', ?, 0, 0)`,
		x.ID, x.AccountID, x.UserID, x.Name, x.VolumeID, x.HostID, x.Region, x.Zone, x.SizeGiB, simulated, string(x.Kind), string(x.State), store.Micros(now)); err != nil {
		return nil, fmt.Errorf("write a snapshot: %w", err)
	}
	return x, nil
}

// RemoveSnapshot gives a snapshot up: it is not charged for any more from now on. One
// that a volume is being made of is a Conflict fault "snapshot_in_use".
func (s *Service) RemoveSnapshot(ctx context.Context, p account.Principal, nameOrID string) (out *Snapshot, err error) {
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if out, err = findSnapshot(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate()); err != nil {
			return err
		}
		if out.State == SnapshotDeleting || out.State.Over() {
			return nil // asking twice is no error
		}
		var using int
		if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM volume WHERE snapshot_id = ? AND state = 'creating'`, out.ID).Scan(&using); err != nil {
			return fmt.Errorf("remove snapshot %s: %w", out.ID, err)
		}
		if using > 0 {
			return fault.New(fault.Conflict, "snapshot_in_use", "a volume is being made of snapshot %s; wait for it, or remove the volume", out.Name)
		}
		if err := s.applySnapshot(ctx, tx, out, SnapshotRemove, "commanded", "removed by its owner"); err != nil {
			return err
		}
		return s.Audit(ctx, tx, p, "snapshot.remove", out.ID, nil)
	})
	if err == nil {
		s.kickSnapshots()
	}
	return out, err
}

// ExhaustSnapshot removes a snapshot that was kept unpaid for the whole grace period.
func (s *Service) ExhaustSnapshot(ctx context.Context, id string) error {
	return s.moveSnapshot(ctx, id, SnapshotRemove, "storage_grace", "removed: it was kept unpaid for the whole grace period")
}

// moveSnapshot moves a snapshot, if its state has such a transition; if not, it stays
// as it is.
func (s *Service) moveSnapshot(ctx context.Context, id string, e SnapshotEvent, code, message string) error {
	err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		x, err := lockSnapshot(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, ok := x.State.Next(e); !ok {
			return nil
		}
		return s.applySnapshot(ctx, tx, x, e, code, message)
	})
	if err == nil {
		s.kickSnapshots()
	}
	return err
}

func lockSnapshot(ctx context.Context, tx *store.Tx, id string) (*Snapshot, error) {
	list, err := querySnapshots(ctx, tx, `id = ?`+tx.ForUpdate(), id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, snapshotNotFound(id)
	}
	return list[0], nil
}

// applySnapshot is the only place that changes a snapshot's state, with what follows of
// it for money. The snapshot is locked.
func (s *Service) applySnapshot(ctx context.Context, tx *store.Tx, x *Snapshot, e SnapshotEvent, code, message string) error {
	to, ok := x.State.Next(e)
	if !ok {
		return fault.New(fault.Conflict, "snapshot_state", "snapshot %s is %s, so that it cannot: %s", x.Name, x.State, e)
	}
	now := s.Clock().UTC().Truncate(time.Microsecond)
	from := x.State
	x.State, x.Code, x.Message = to, code, message
	switch {
	case to == SnapshotAvailable:
		x.ReadyAt = now
		if x.Price != nil {
			// The operator's own: it pays for the bucket, so that no host has a share.
			err := s.Money.BeginLease(ctx, tx, billing.Terms{LeaseID: x.ID, AccountID: x.AccountID, Quote: *x.Price, Simulated: x.Simulated, Zone: x.Zone, Kept: true})
			if err == nil {
				err = s.Money.StartStorage(ctx, tx, x.ID, now)
			}
			if err != nil {
				return err
			}
		}
	case from == SnapshotAvailable && x.Price != nil:
		if err := s.Money.EndLease(ctx, tx, x.ID, now); err != nil {
			return err
		}
	}
	if to.Over() {
		x.EndedAt = now
	}
	price := ""
	if x.Price != nil {
		b, err := json.Marshal(x.Price)
		if err != nil {
			return err
		}
		price = string(b)
	}
	if _, err := tx.Exec(ctx, `UPDATE volume_snapshot SET state = ?, code = ?, message = ?, stored_bytes = ?, object_sha256 = ?, content_sha256 = ?, price = ?, ready_at = ?, ended_at = ? WHERE id = ?`,
		string(x.State), x.Code, x.Message, x.StoredBytes, x.ObjectSHA256, x.ContentSHA256, price, store.Micros(x.ReadyAt), store.Micros(x.EndedAt), x.ID); err != nil {
		return fmt.Errorf("move snapshot %s: %w", x.ID, err)
	}
	s.Log.InfoContext(ctx, "snapshot moved", "snapshot", x.ID, "volume", x.VolumeID, "event", e, "from", from, "to", to, "code", code)
	return nil
}

// price freezes what a snapshot of so many bytes costs an account.
func (s *Service) price(ctx context.Context, x *Snapshot) (*pricing.Quote, error) {
	if x.Kind == Passing {
		return nil, nil
	}
	zone, err := s.TimeZone(ctx, x.AccountID)
	if err != nil {
		return nil, err
	}
	q, err := s.Leases.PriceDisk(ctx, x.AccountID, fleet.DiskTerms{Currency: s.Snapshots.Currency, Storage: s.Snapshots.Price, CommissionBasisPoints: 10_000, Simulated: x.Simulated}, (x.StoredBytes+1<<30-1)>>30, zone)
	return &q, err
}

// finish makes a snapshot available, within the account's money: one that cannot be
// paid for fails.
func (s *Service) finish(ctx context.Context, x *Snapshot) error {
	price, err := s.price(ctx, x)
	if err != nil {
		return err
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := lockSnapshot(ctx, tx, x.ID)
		if err != nil || now.State != SnapshotCopying {
			return err
		}
		now.StoredBytes, now.ObjectSHA256, now.ContentSHA256, now.Price = x.StoredBytes, x.ObjectSHA256, x.ContentSHA256, price
		if err := s.applySnapshot(ctx, tx, now, SnapshotFinish, "", ""); err != nil {
			return err
		}
		return s.retain(ctx, tx, now)
	})
	if f, ok := fault.As(err); ok && (f.Kind == fault.Payment || f.Kind == fault.Conflict) {
		return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, f.Code, "it could not be charged for: "+f.Error())
	}
	return err
}

// retain removes those backups of a volume that are beyond what is kept, oldest first,
// when a new one is whole.
func (s *Service) retain(ctx context.Context, tx *store.Tx, x *Snapshot) error {
	if x.Kind != Scheduled {
		return nil
	}
	var keep int
	err := tx.QueryRow(ctx, `SELECT backup_keep FROM volume WHERE id = ?`, x.VolumeID).Scan(&keep)
	if err != nil || keep < 1 {
		return err
	}
	list, err := querySnapshots(ctx, tx, `volume_id = ? AND kind = 'scheduled' AND state = 'available' AND NOT EXISTS
		(SELECT 1 FROM volume v WHERE v.snapshot_id = volume_snapshot.id AND v.state = 'creating') ORDER BY id DESC`, x.VolumeID)
	if err != nil {
		return err
	}
	for _, old := range list[min(keep, len(list)):] {
		if err := s.applySnapshot(ctx, tx, old, SnapshotRemove, "retention", fmt.Sprintf("removed: the last %d backups are kept", keep)); err != nil {
			return err
		}
	}
	return nil
}

// moving is the fault of what cannot be done with a volume while it is moved.
func moving(v *Volume) error {
	return fault.New(fault.Conflict, "volume_moving", "volume %s is being moved or made larger, as %s; wait until that is done, or remove that one to give it up", v.Name, v.MovingTo)
}

var errLost = errors.New("nothing of the upload is left")
