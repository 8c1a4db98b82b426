package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

const (
	// urlLife is how long a signed URL is good for: the time in which a part gets to
	// the bucket from a slow host.
	urlLife = time.Hour
	// urlsAhead is how many parts' URLs a host has at a time.
	urlsAhead = 24
	// partMiB is the size of parts of all but large volumes.
	partMiB = 16
	// uploadAge is how old an upload that nobody knows of is before it is given up:
	// one that is being begun is written down within moments.
	uploadAge = time.Hour
)

// partSize is the size of parts, of which even a copy that did not compress has no more
// than are allowed.
func partSize(sizeGiB int64) int64 {
	return max(partMiB, (sizeGiB<<10)*11/10/objectstore.MaxParts+1)
}

// copies is what the leading replica knows of copies that go on. Nothing is lost with
// it: what it does not know it asks the host.
type copies struct {
	mu    sync.Mutex
	busy  map[string]bool
	next  map[string]int       // part whose URL the host wants next
	heard map[string]time.Time // when its host last said something of it
	swept time.Time
}

func (s *Service) kickSnapshots() { signal(s.wakeSnapshots) }

// RunSnapshots takes turns until ctx ends: copies volumes to object storage and from
// it, takes backups that are due, and removes what is to go. One replica runs it; two
// for a moment do no harm.
func (s *Service) RunSnapshots(ctx context.Context) error {
	return s.loop(ctx, s.wakeSnapshots, s.beginCopies, "a copy of a volume is not as it is wanted yet; it is tried again", "look for copies of volumes to make and to remove")
}

// TurnSnapshots takes one turn, and returns when all of it is done.
func (s *Service) TurnSnapshots(ctx context.Context) error { return once(ctx, s.beginCopies) }

// beginCopies goes on with everything that is open, each by a goroutine of its own.
func (s *Service) beginCopies(ctx context.Context, all *sync.WaitGroup, done func(error)) error {
	if err := s.backUp(ctx); err != nil {
		return err
	}
	var open []*Snapshot
	var fills []*Volume
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if open, err = querySnapshots(ctx, tx, `state IN ('copying', 'failing', 'deleting') ORDER BY id`); err != nil {
			return err
		}
		if fills, err = query(ctx, tx, `ended_at = 0 AND state = 'creating' AND snapshot_id <> '' ORDER BY id`); err != nil {
			return err
		}
		// Passing ones whose volume is made, or is not made any more.
		passed, err := querySnapshots(ctx, tx, `kind = 'passing' AND state = 'available' AND NOT EXISTS
			(SELECT 1 FROM volume v WHERE v.snapshot_id = volume_snapshot.id AND v.state = 'creating') ORDER BY id`)
		open = append(open, passed...)
		return err
	})
	if err != nil {
		return err
	}
	onHost := map[string]int{}
	start := func(id, host string, do func() error) {
		s.copies.mu.Lock()
		defer s.copies.mu.Unlock()
		if host != "" {
			if onHost[host]++; onHost[host] > s.Snapshots.PerHost {
				s.copies.heard[id] = s.Clock() // it waits for the host, which is not the host's silence
				return
			}
		}
		if s.copies.busy[id] {
			return
		}
		s.copies.busy[id] = true
		all.Go(func() {
			err := do()
			s.copies.mu.Lock()
			delete(s.copies.busy, id)
			s.copies.mu.Unlock()
			if err != nil {
				err = fmt.Errorf("%s: %w", id, err)
			}
			done(err)
		})
	}
	for _, x := range open {
		switch x.State {
		case SnapshotCopying:
			start(x.ID, x.HostID, func() error { return s.save(ctx, x) })
		case SnapshotAvailable:
			start(x.ID, "", func() error {
				return s.moveSnapshot(ctx, x.ID, SnapshotRemove, "passed", "the volume that it was made for is made")
			})
		default:
			start(x.ID, "", func() error { return s.clear(ctx, x) })
		}
	}
	for _, v := range fills {
		start(v.ID, v.HostID, func() error { return s.fill(ctx, v) })
	}
	s.copies.mu.Lock()
	due := s.Snapshots.Objects != nil && s.Clock().Sub(s.copies.swept) >= s.Snapshots.SweepEvery
	if due {
		s.copies.swept = s.Clock()
	}
	s.copies.mu.Unlock()
	if due {
		start("sweep", "", func() error { return s.sweep(ctx) })
	}
	return nil
}

// forget forgets what is known of a copy that has ended.
func (s *Service) forget(id string) {
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	delete(s.copies.next, id)
	delete(s.copies.heard, id)
}

// silentFor says how long a host has said nothing of a copy.
func (s *Service) silentFor(id string) time.Duration {
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	if _, ok := s.copies.heard[id]; !ok {
		s.copies.heard[id] = s.Clock()
	}
	return s.Clock().Sub(s.copies.heard[id])
}

func (s *Service) heard(id string, next int) {
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	s.copies.heard[id], s.copies.next[id] = s.Clock(), max(1, next)
}

// ask sends a host one command of a copy, and says what became of it. What the host
// refuses for good, and a host that was silent for too long, come back as a code.
func (s *Service) ask(ctx context.Context, host string, c protocol.TransferCommand) (status *protocol.TransferStatus, code, message string, err error) {
	within, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	res, err := s.Command(within, host, protocol.Command{Transfer: &c})
	switch {
	case err == nil && res.Accepted && res.Transfer != nil:
		s.heard(c.ID, res.Transfer.NextPart)
		if res.Transfer.State == protocol.TransferFailed {
			return nil, res.Code, res.Message, nil
		}
		return res.Transfer, "", "", nil
	case err == nil && (res.Code == "bad_spec" || res.Code == "engine"):
		return nil, res.Code, "its host cannot copy it: " + res.Message, nil
	case err == nil:
		err = fmt.Errorf("%s: %s", res.Code, res.Message)
	}
	if s.silentFor(c.ID) > s.Patience {
		return nil, "host_unreachable", fmt.Sprintf("its host has said nothing of the copy for %s", s.Patience), nil
	}
	return nil, "", "", err
}

// stop tells a host to forget a copy. Nothing depends on it.
func (s *Service) stop(ctx context.Context, host, volume, id string) {
	within, cancel := context.WithTimeout(ctx, commandPatience)
	defer cancel()
	_, _ = s.Command(within, host, protocol.Command{Transfer: &protocol.TransferCommand{ID: id, VolumeID: volume, Want: protocol.TransferStop}})
	s.forget(id)
}

// save goes on with a snapshot that is being copied, by one step.
func (s *Service) save(ctx context.Context, x *Snapshot) error {
	objects := s.Snapshots.Objects
	if objects == nil {
		return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, "object_store_off", "this cloud has no object storage any more")
	}
	of, err := s.Places(ctx, []string{x.VolumeID})
	if err != nil {
		return err
	}
	if len(of) == 0 || of[0].State != Available {
		return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, "volume_gone", "the volume is not there any more")
	}
	if x.UploadID == "" {
		return s.beginUpload(ctx, x)
	}
	c := protocol.TransferCommand{ID: x.ID, VolumeID: x.VolumeID, Want: protocol.TransferSave, PartMiB: partSize(x.SizeGiB)}
	s.copies.mu.Lock()
	next := max(1, s.copies.next[x.ID])
	s.copies.mu.Unlock()
	for n := next; n < next+urlsAhead && n <= objectstore.MaxParts; n++ {
		u, err := objects.PartURL(ctx, x.key(), x.UploadID, n, urlLife)
		if err != nil {
			return err
		}
		c.Parts = append(c.Parts, protocol.SignedPart{Number: n, URL: u})
	}
	status, code, message, err := s.ask(ctx, x.HostID, c)
	if err != nil {
		return err
	}
	if status == nil {
		return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, code, message)
	}
	if status.State != protocol.TransferDone {
		return s.progress(ctx, x, status.Bytes)
	}
	switch err := s.complete(ctx, x, status); {
	case errors.Is(err, errLost):
		// Somebody else gave the upload up: the copy is begun again.
		s.stop(ctx, x.HostID, x.VolumeID, x.ID)
		return s.noteUpload(ctx, x, "")
	case errors.Is(err, errDiffers):
		return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, "upload_differs", err.Error())
	case err != nil:
		return err
	}
	x.StoredBytes, x.ObjectSHA256, x.ContentSHA256 = status.Bytes, status.ObjectSHA256, status.ContentSHA256
	if err := s.finish(ctx, x); err != nil {
		return err
	}
	s.stop(ctx, x.HostID, x.VolumeID, x.ID)
	return nil
}

var errDiffers = errors.New("object storage does not have what the host has sent")

// complete makes one object of the parts, unless it is one already: whoever did that
// before was cut off afterwards.
func (s *Service) complete(ctx context.Context, x *Snapshot, status *protocol.TransferStatus) error {
	parts, err := s.Snapshots.Objects.Parts(ctx, x.key(), x.UploadID, status.Parts)
	if errors.Is(err, objectstore.ErrNotFound) {
		switch n, err := s.Snapshots.Objects.Size(ctx, x.key()); {
		case errors.Is(err, objectstore.ErrNotFound) || err == nil && n != status.Bytes:
			return errLost
		default:
			return err
		}
	}
	if err != nil {
		return err
	}
	if parts.Digest != status.PartsDigest || parts.Bytes != status.Bytes {
		return errDiffers
	}
	if status.Bytes > x.SizeGiB<<30+x.SizeGiB<<24+1<<20 {
		return fmt.Errorf("%w: %d bytes are more than the volume can have", errDiffers, status.Bytes)
	}
	return s.Snapshots.Objects.Complete(ctx, x.key(), x.UploadID, parts)
}

// beginUpload gives up what uploads to the key there are, which a crash has left, and
// begins one. Of two that do so the first to write it down wins.
func (s *Service) beginUpload(ctx context.Context, x *Snapshot) error {
	objects := s.Snapshots.Objects
	if err := objects.Remove(ctx, x.key()); err != nil {
		return err
	}
	id, err := objects.Begin(ctx, x.key())
	if err != nil {
		if f, ok := fault.As(err); ok && f.Kind == fault.Invalid {
			return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, f.Code, f.Error())
		}
		if s.silentFor(x.ID) > s.Patience {
			return s.moveSnapshot(ctx, x.ID, SnapshotRefuse, "object_store_unreachable", err.Error())
		}
		return err
	}
	if err := s.noteUpload(ctx, x, id); err != nil {
		return errors.Join(err, objects.Abort(ctx, x.key(), id))
	}
	s.kickSnapshots()
	return nil
}

// noteUpload writes down which upload a snapshot has, if it is as x says until then.
func (s *Service) noteUpload(ctx context.Context, x *Snapshot, id string) error {
	return s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		now, err := lockSnapshot(ctx, tx, x.ID)
		if err != nil {
			return err
		}
		if now.State != SnapshotCopying || now.UploadID != x.UploadID {
			return fmt.Errorf("snapshot %s has moved on", x.ID)
		}
		_, err = tx.Exec(ctx, `UPDATE volume_snapshot SET upload_id = ? WHERE id = ?`, id, x.ID)
		return err
	})
}

// progress writes down how much is copied, for people who wait.
func (s *Service) progress(ctx context.Context, x *Snapshot, n int64) error {
	if n == x.StoredBytes {
		return nil
	}
	return s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE volume_snapshot SET stored_bytes = ? WHERE id = ? AND state = 'copying'`, n, x.ID)
		return err
	})
}

// clear removes what object storage has of a snapshot that is to go.
func (s *Service) clear(ctx context.Context, x *Snapshot) error {
	if s.Snapshots.Objects == nil {
		return s.haveObjects() // it is kept in mind until there is a bucket again
	}
	if x.ReadyAt.IsZero() {
		s.stop(ctx, x.HostID, x.VolumeID, x.ID)
	}
	if err := s.Snapshots.Objects.Remove(ctx, x.key()); err != nil {
		return err
	}
	return s.moveSnapshot(ctx, x.ID, SnapshotGone, x.Code, x.Message)
}

// sweep gives up uploads and removes objects of snapshots that are over, which crashes
// have left. What it does not know it leaves alone: the bucket may be others', too.
func (s *Service) sweep(ctx context.Context) error {
	objects := s.Snapshots.Objects
	uploads, err := objects.Uploads(ctx, keyPrefix)
	if err != nil {
		return err
	}
	keys, err := objects.Keys(ctx, keyPrefix)
	if err != nil {
		return err
	}
	var failed []error
	for _, u := range uploads {
		x, err := s.ofKey(ctx, u.Key)
		if err == nil && x != nil && x.UploadID != u.ID && s.Clock().Sub(u.Begun) > uploadAge || x != nil && x.State.Over() {
			failed = append(failed, objects.Abort(ctx, u.Key, u.ID))
		}
		failed = append(failed, err)
	}
	for _, key := range keys {
		x, err := s.ofKey(ctx, key)
		if x != nil && x.State.Over() {
			failed = append(failed, objects.Remove(ctx, key))
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// ofKey returns the snapshot of a key; nil: it is of none.
func (s *Service) ofKey(ctx context.Context, key string) (*Snapshot, error) {
	list, err := s.SnapshotPlaces(ctx, []string{key[strings.LastIndexByte(key, '/')+1:]})
	if err != nil || len(list) == 0 || list[0].key() != key {
		return nil, err
	}
	return list[0], nil
}

// fill goes on with a volume that is made of a snapshot, by one step.
func (s *Service) fill(ctx context.Context, v *Volume) error {
	list, err := s.SnapshotPlaces(ctx, []string{v.SnapshotID})
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("there is no snapshot %s", v.SnapshotID)
	}
	x := list[0]
	switch x.State {
	case SnapshotCopying:
		return nil
	case SnapshotAvailable:
	default:
		_, err := s.move(ctx, v.ID, Refuse, s.Clock(), x.Code, "the copy that it was to be made of failed: "+x.Message)
		s.kick()
		return err
	}
	if err := s.haveObjects(); err != nil {
		return err
	}
	u, err := s.Snapshots.Objects.GetURL(ctx, x.key(), urlLife)
	if err != nil {
		return err
	}
	status, code, message, err := s.ask(ctx, v.HostID, protocol.TransferCommand{
		ID: v.ID, VolumeID: v.ID, Want: protocol.TransferFill, URL: u, SizeMiB: v.SizeGiB << 10, Bytes: x.StoredBytes, ObjectSHA256: x.ObjectSHA256, ContentSHA256: x.ContentSHA256,
	})
	switch {
	case err != nil:
		return err
	case status == nil:
		_, err = s.move(ctx, v.ID, Refuse, s.Clock(), code, message)
	case status.State == protocol.TransferDone:
		if _, err = s.move(ctx, v.ID, Make, s.Clock(), "", ""); err == nil {
			s.stop(ctx, v.HostID, v.ID, v.ID)
		}
	}
	s.kick()
	s.kickSnapshots()
	return err
}

// backUp takes the backups that are due. One whose volume is in use is taken when it
// comes free.
func (s *Service) backUp(ctx context.Context) error {
	if s.Snapshots.Objects == nil {
		return nil
	}
	var due []*Volume
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		due, err = query(ctx, tx, `backup_hours > 0 AND ended_at = 0 AND state = 'available' AND moving_to = '' AND backup_next <= ? ORDER BY backup_next LIMIT 100`, store.Micros(s.Clock()))
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range due {
		p := account.Principal{AccountID: v.AccountID, UserID: v.UserID}
		if err := s.atRest(ctx, p, v); err != nil {
			if f, ok := fault.As(err); ok && f.Code == "volume_in_use" {
				continue
			}
			s.Log.WarnContext(ctx, "look whether a volume is at rest", "volume", v.ID, "error", err)
			continue
		}
		err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			v, err := find(ctx, tx, v.AccountID, v.ID, tx.ForUpdate())
			if err != nil || v.BackupHours < 1 || v.BackupNext.After(s.Clock()) {
				return err
			}
			// Whatever becomes of this one: a backup that cannot be made now is no
			// reason to try it each second.
			if _, err := tx.Exec(ctx, `UPDATE volume SET backup_next = ? WHERE id = ?`, store.Micros(s.Clock().Add(time.Duration(v.BackupHours)*time.Hour)), v.ID); err != nil {
				return err
			}
			_, err = s.begin1(ctx, tx, p, v, "backup-"+strings.ToLower(s.Clock().UTC().Format("20060102-150405"))+"-"+tail(v.ID), Scheduled)
			if _, ok := fault.As(err); ok {
				s.Log.WarnContext(ctx, "a backup cannot be taken; the next is tried when it is due", "volume", v.ID, "error", err)
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func tail(id string) string { return id[max(0, len(id)-6):] }

// SetBackup has a volume backed up every so many hours, of which the last few are
// kept; 0 hours: it is not any more, and what there is stays.
func (s *Service) SetBackup(ctx context.Context, p account.Principal, nameOrID string, hours, keep int64) (out *Volume, err error) {
	if hours < 0 || hours > 24*366 || hours > 0 && (keep < 1 || keep > 100) {
		return nil, invalid("body.every_hours", "invalid_backup", "a backup every %d hours of which %d are kept: want 1 to %d hours and 1 to 100 backups, or 0 hours for none", hours, keep, 24*366)
	}
	if hours == 0 {
		keep = 0
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if out, err = find(ctx, tx, p.AccountID, nameOrID, tx.ForUpdate()); err != nil {
			return err
		}
		if hours > 0 {
			if err := s.haveObjects(); err != nil {
				return err
			}
			if out.State.Over() || out.State == Deleting {
				return fault.New(fault.Conflict, "volume_state", "volume %s is %s, and is not backed up any more", out.Name, out.State)
			}
		}
		out.BackupHours, out.BackupKeep, out.BackupNext = hours, keep, time.Time{}
		if hours > 0 {
			out.BackupNext = s.Clock().UTC().Truncate(time.Microsecond)
		}
		if _, err := tx.Exec(ctx, `UPDATE volume SET backup_hours = ?, backup_keep = ?, backup_next = ? WHERE id = ?`, hours, keep, store.Micros(out.BackupNext), out.ID); err != nil {
			return fmt.Errorf("set the backups of volume %s: %w", out.ID, err)
		}
		return s.Audit(ctx, tx, p, "volume.backup", out.ID, map[string]int64{"every_hours": hours, "keep": keep})
	})
	if err == nil {
		s.kickSnapshots()
	}
	return out, err
}
