package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/documented"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var errKilled = errors.New("killed")

// site is a bucket and hosts, with volumes in them, around one control plane that can
// be killed at any call that it makes.
type site struct {
	*world

	mu       sync.Mutex
	objects  map[string]string
	uploads  map[string]map[int]string // "key id" → parts
	begun    map[string]time.Time      // of uploads; one that is not in it is old
	made     int
	volumes  map[string]map[string]string // host → volume → content
	copying  map[string]*protocol.TransferStatus
	damaged  bool // the bucket gives back something else
	refusing *protocol.CommandResult

	calls, killAt int
	killed        bool
	now           time.Time
}

func newSite(t *testing.T, db *store.DB) *site {
	t.Helper()
	s := &site{world: newWorld(t, db), objects: map[string]string{}, uploads: map[string]map[int]string{}, begun: map[string]time.Time{}, volumes: map[string]map[string]string{"ho-1": {}, "ho-2": {}},
		copying: map[string]*protocol.TransferStatus{}, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s.restart()
	return s
}

// restart starts another control plane in the place of the one there was.
func (s *site) restart() {
	s.t.Helper()
	c := s.Config
	c.Clock = func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }
	c.Command = s.command
	c.Snapshots = SnapshotConfig{Objects: objects{s}, Price: 30_000, Currency: "CNY", Most: 20}
	fresh, err := New(c)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	s.killed = false
	s.mu.Unlock()
	s.Service = fresh
}

func (s *site) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// call counts one call to the world outside, does it, and kills whoever makes the
// call in question, before it or after it.
func (s *site) call(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		return errKilled
	}
	s.calls++
	if s.killAt > 0 && s.calls == (s.killAt+1)/2 {
		s.killed = true
		if s.killAt%2 == 0 {
			_ = do()
		}
		return errKilled
	}
	return do()
}

func (s *site) Begin(_ context.Context, key string) (id string, err error) {
	err = s.call(func() error {
		s.made++
		id = strconv.Itoa(s.made)
		s.uploads[key+" "+id], s.begun[key+" "+id] = map[int]string{}, s.now
		return nil
	})
	return id, err
}

func (s *site) PartURL(_ context.Context, key, upload string, n int, _ time.Duration) (string, error) {
	return fmt.Sprintf("%s %s %d", key, upload, n), nil
}

func (s *site) GetURL(_ context.Context, key string, _ time.Duration) (string, error) {
	return key, nil
}

func (s *site) Parts(_ context.Context, key, upload string, n int) (p objectstore.Parts, err error) {
	err = s.call(func() error {
		parts, ok := s.uploads[key+" "+upload]
		if !ok {
			return objectstore.ErrNotFound
		}
		var d objectstore.Digest
		for i := 1; i <= n; i++ {
			p.Bytes += int64(len(parts[i]))
			d.Add(parts[i])
		}
		p.Digest = d.String()
		return nil
	})
	return p, err
}

func (s *site) Complete(_ context.Context, key, upload string, _ objectstore.Parts) error {
	return s.call(func() error {
		parts, ok := s.uploads[key+" "+upload]
		if !ok {
			return objectstore.ErrNotFound
		}
		delete(s.uploads, key+" "+upload)
		s.objects[key] = ""
		for i := 1; i <= len(parts); i++ {
			s.objects[key] += parts[i]
		}
		return nil
	})
}

func (s *site) Abort(_ context.Context, key, upload string) error {
	return s.call(func() error { delete(s.uploads, key+" "+upload); return nil })
}

func (s *site) Uploads(_ context.Context, prefix string) (out []objectstore.Upload, err error) {
	err = s.call(func() error {
		for u := range s.uploads {
			key, id, _ := strings.Cut(u, " ")
			if strings.HasPrefix(key, prefix) {
				out = append(out, objectstore.Upload{Key: key, ID: id, Begun: s.begun[u]})
			}
		}
		return nil
	})
	return out, err
}

func (s *site) Keys(_ context.Context, prefix string) (out []string, err error) {
	err = s.call(func() error { out = slices.Sorted(maps.Keys(s.objects)); return nil })
	return out, err
}

func (s *site) Size(_ context.Context, key string) (n int64, err error) {
	err = s.call(func() error {
		o, ok := s.objects[key]
		if !ok {
			return objectstore.ErrNotFound
		}
		n = int64(len(o))
		return nil
	})
	return n, err
}

// objects is a site as its bucket, whose Remove is not that of volumes.
type objects struct{ *site }

func (s objects) Remove(_ context.Context, key string) error {
	return s.call(func() error {
		delete(s.objects, key)
		for u := range s.uploads {
			if strings.HasPrefix(u, key+" ") {
				delete(s.uploads, u)
			}
		}
		return nil
	})
}

func sumOf(text string) string {
	b := sha256.Sum256([]byte(text))
	return hex.EncodeToString(b[:])
}

// command is the hosts. A copy takes a few commands, each of which puts one part.
func (s *site) command(_ context.Context, host string, c protocol.Command) (r protocol.CommandResult, err error) {
	err = s.call(func() error {
		if s.refusing != nil {
			r = *s.refusing
			return nil
		}
		r = protocol.CommandResult{Accepted: true}
		here := s.volumes[host]
		switch {
		case c.Volume != nil && c.Volume.Present:
			if _, ok := here[c.Volume.VolumeID]; !ok {
				here[c.Volume.VolumeID] = ""
			}
		case c.Volume != nil:
			delete(here, c.Volume.VolumeID)
		case c.Transfer.Want == protocol.TransferStop:
			delete(s.copying, host+" "+c.Transfer.ID)
		case c.Transfer.Want == protocol.TransferFill:
			content := s.objects[c.Transfer.URL]
			if s.damaged {
				content += "?"
			}
			if sumOf(content) != c.Transfer.ContentSHA256 {
				r = protocol.CommandResult{Accepted: true, Code: "snapshot_damaged", Message: "it is something else", Transfer: &protocol.TransferStatus{State: protocol.TransferFailed}}
				return nil
			}
			here[c.Transfer.VolumeID] = content
			r.Transfer = &protocol.TransferStatus{State: protocol.TransferDone}
		default:
			r = s.saveOne(host, *c.Transfer)
		}
		return nil
	})
	return r, err
}

func (s *site) saveOne(host string, c protocol.TransferCommand) protocol.CommandResult {
	content, ok := s.volumes[host][c.VolumeID]
	if !ok {
		return protocol.CommandResult{Accepted: true, Code: "volume_missing", Message: "it is not here", Transfer: &protocol.TransferStatus{State: protocol.TransferFailed}}
	}
	st := s.copying[host+" "+c.ID]
	if st == nil {
		st = &protocol.TransferStatus{State: protocol.TransferRunning, NextPart: 1}
		s.copying[host+" "+c.ID] = st
	}
	pieces := strings.SplitAfter(content, ",")
	for _, p := range c.Parts {
		if p.Number != st.NextPart || st.State != protocol.TransferRunning {
			continue
		}
		at := strings.Fields(p.URL)
		if up, ok := s.uploads[at[0]+" "+at[1]]; ok {
			up[p.Number] = pieces[p.Number-1]
			st.Bytes += int64(len(pieces[p.Number-1]))
			st.NextPart++
		}
		break
	}
	if st.NextPart > len(pieces) {
		var d objectstore.Digest
		for _, p := range pieces {
			d.Add(p)
		}
		*st = protocol.TransferStatus{State: protocol.TransferDone, Bytes: int64(len(content)), Parts: len(pieces), PartsDigest: d.String(), ObjectSHA256: sumOf(content), ContentSHA256: sumOf(content)}
	}
	out := *st
	return protocol.CommandResult{Accepted: true, Transfer: &out}
}

// settle takes turns, and starts again what was killed, until nothing is to be done.
func (s *site) settle() {
	s.t.Helper()
	for range 40 {
		err := errors.Join(s.Turn(s.t.Context()), s.TurnSnapshots(s.t.Context()))
		s.mu.Lock()
		killed := s.killed
		s.mu.Unlock()
		if killed {
			s.restart()
		} else if err != nil && s.refusing == nil {
			s.t.Fatalf("a turn: %v", err)
		}
		var open int
		if err := s.db.View(s.t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM volume WHERE state IN ('creating', 'deleting')) + (SELECT COUNT(*) FROM volume_snapshot WHERE state IN ('copying', 'failing', 'deleting') OR kind = 'passing' AND state = 'available')`).Scan(&open)
		}); err != nil {
			s.t.Fatal(err)
		}
		if open == 0 {
			return
		}
	}
	var open []*Snapshot
	var volumes []*Volume
	if err := s.db.View(s.t.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
		if volumes, err = query(ctx, tx, `state IN ('creating', 'deleting') ORDER BY id`); err == nil {
			open, err = querySnapshots(ctx, tx, `state IN ('copying', 'failing', 'deleting') OR kind = 'passing' AND state = 'available' ORDER BY id`)
		}
		return err
	}); err != nil {
		s.t.Fatal(err)
	}
	for _, x := range open {
		s.t.Errorf("it does not come to rest: %+v", *x)
	}
	for _, v := range volumes {
		s.t.Errorf("it does not come to rest: %+v", *v)
	}
	s.t.FailNow()
}

// left is what there is in the bucket and on hosts, for messages and comparison.
func (s *site) left() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("objects %v uploads %v", slices.Sorted(maps.Values(s.objects)), len(s.uploads))
}

func ok[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const precious = "one,two,three"

// story makes a volume, a snapshot of it and another volume of that, moves it and
// removes all, and looks after each whether it is as it should be.
func (s *site) story() {
	t, ctx := s.t, s.t.Context()
	t.Helper()
	v := ok(s.Create(ctx, ada, Request{Name: "data", HostID: "ho-1", SizeGiB: 10}))(t)
	s.settle()
	s.volumes["ho-1"][v.ID] = precious
	x := ok(s.TakeSnapshot(ctx, ada, "data", "first"))(t)
	s.settle()
	if got := ok(s.Service.Snapshot(ctx, ada, x.ID))(t); got.State != SnapshotAvailable || got.StoredBytes != int64(len(precious)) || got.ContentSHA256 != sumOf(precious) || got.Price == nil {
		t.Fatalf("the snapshot is %+v", got)
	}
	if s.left() != "objects [one,two,three] uploads 0" {
		t.Fatalf("with one snapshot there are %s", s.left())
	}
	back := ok(s.Create(ctx, ada, Request{Name: "back", HostID: "ho-2", Snapshot: "first"}))(t)
	s.settle()
	if got := s.volumes["ho-2"][back.ID]; got != precious {
		t.Fatalf("the restored volume has %q", got)
	}
	moved := ok(s.MoveTo(ctx, ada, "data", Copy{HostID: "ho-2", SizeGiB: 20}))(t)
	s.settle()
	now := ok(s.Get(ctx, ada, "data"))(t)
	if now.ID != moved.ID || now.HostID != "ho-2" || now.SizeGiB != 20 || s.volumes["ho-2"][now.ID] != precious || len(s.volumes["ho-1"]) != 0 {
		t.Fatalf("the moved volume is %+v, and hosts have %v", now, s.volumes)
	}
	if old := ok(s.Get(ctx, ada, v.ID))(t); old.State != Deleted || old.Code != "moved" {
		t.Fatalf("the old one is %+v", old)
	}
	for _, name := range []string{"data", "back"} {
		ok(s.Remove(ctx, ada, name))(t)
	}
	ok(s.RemoveSnapshot(ctx, ada, "first"))(t)
	s.settle()
	if s.left() != "objects [] uploads 0" || len(s.volumes["ho-1"])+len(s.volumes["ho-2"]) != 0 {
		t.Fatalf("in the end there are %s, and hosts have %v", s.left(), s.volumes)
	}
}

func TestWhereverTheControlPlaneIsKilledCopiesAreWholeAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		s.story()
		calls := s.calls
		if calls < 20 {
			t.Fatalf("only %d calls", calls)
		}
		for at := 1; at <= 2*calls; at++ {
			s.calls, s.killAt = 0, at
			s.story()
			if t.Failed() {
				t.Fatalf("killed at call %d of %d", at, calls)
			}
		}
	})
}

func TestTheDocumentShowsTheStatesOfSnapshots(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/volumes.md", "<!-- snapshot states -->\n", "<!-- end of snapshot states -->\n", SnapshotTable())
}

func TestACopyThatFailsLeavesTheVolumeAsItWas(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		ctx := t.Context()
		v := ok(s.Create(ctx, ada, Request{Name: "data", HostID: "ho-1", SizeGiB: 10}))(t)
		s.settle()
		s.volumes["ho-1"][v.ID] = precious

		// What comes back is something else: the move is given up.
		s.damaged = true
		to := ok(s.MoveTo(ctx, ada, "data", Copy{HostID: "ho-2"}))(t)
		_, err := s.Remove(ctx, ada, "data")
		wantCode(t, err, "volume_moving")
		wantCode(t, s.attachNew("data", "ls-1", false), "volume_moving")
		_, err = s.TakeSnapshot(ctx, ada, "data", "")
		wantCode(t, err, "volume_moving")
		s.settle()
		if got := ok(s.Get(ctx, ada, to.ID))(t); got.State != Deleted || got.Code != "snapshot_damaged" {
			t.Errorf("%+v", got)
		}
		if got := ok(s.Get(ctx, ada, "data"))(t); got.ID != v.ID || got.State != Available || got.MovingTo != "" || s.volumes["ho-1"][v.ID] != precious {
			t.Errorf("%+v", got)
		}
		s.damaged = false

		// The new one is removed before it is made: the same.
		to = ok(s.MoveTo(ctx, ada, "data", Copy{HostID: "ho-2"}))(t)
		ok(s.Remove(ctx, ada, to.ID))(t)
		s.settle()
		if got := ok(s.Get(ctx, ada, "data"))(t); got.ID != v.ID || got.MovingTo != "" {
			t.Errorf("%+v", got)
		}

		// Its host says no, and nothing is charged for.
		s.refusing = &protocol.CommandResult{Code: "engine", Message: "no"}
		x := ok(s.TakeSnapshot(ctx, ada, "data", ""))(t)
		for range 3 {
			_ = s.TurnSnapshots(ctx)
		}
		s.refusing = nil
		s.settle()
		if got := ok(s.Service.Snapshot(ctx, ada, x.ID))(t); got.State != SnapshotFailed || got.Code != "engine" || got.Price != nil {
			t.Errorf("%+v", got)
		}
		// A host that is silent is waited for, and not for ever.
		s.refusing = &protocol.CommandResult{Code: "not_ready", Message: "starting"}
		x = ok(s.TakeSnapshot(ctx, ada, "data", ""))(t)
		for range 3 {
			_ = s.TurnSnapshots(ctx)
		}
		if got := ok(s.Service.Snapshot(ctx, ada, x.ID))(t); got.State != SnapshotCopying {
			t.Errorf("%+v", got)
		}
		s.pass(16 * time.Minute)
		_ = s.TurnSnapshots(ctx)
		s.refusing = nil
		s.settle()
		if got := ok(s.Service.Snapshot(ctx, ada, x.ID))(t); got.State != SnapshotFailed || got.Code != "host_unreachable" {
			t.Errorf("%+v", got)
		}
		if s.left() != "objects [] uploads 0" {
			t.Errorf("there are %s", s.left())
		}
	})
}

func TestBackupsAreTakenWhenTheyAreDueAndTheLastAreKept(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		ctx := t.Context()
		v := ok(s.Create(ctx, ada, Request{Name: "data", HostID: "ho-1", SizeGiB: 10}))(t)
		s.settle()
		s.volumes["ho-1"][v.ID] = precious
		_, err := s.SetBackup(ctx, ada, "data", 6, 0)
		wantCode(t, err, "invalid_backup")
		ok(s.SetBackup(ctx, ada, "data", 6, 2))(t)
		for i := range 5 {
			s.settle()
			list, _, err := s.ListSnapshots(ctx, ada, "data", true, "", 100)
			if err != nil || len(list) != min(i, 1)+1 {
				t.Fatalf("after %d: %d backups, %v", i+1, len(list), err)
			}
			s.settle() // not once more
			s.pass(6 * time.Hour)
			_ = s.TurnSnapshots(ctx)
		}
		s.settle()
		// While a lease runs none is taken, and one is when it has stopped.
		l := &lease.Lease{ID: "ls-1", AccountID: ada.AccountID, HostID: "ho-1", State: lease.Running}
		s.leases["ls-1"] = l
		if err := s.attachNew("data", "ls-1", false); err != nil {
			t.Fatal(err)
		}
		_, err = s.TakeSnapshot(ctx, ada, "data", "")
		wantCode(t, err, "volume_in_use")
		all := func() int {
			list, _, err := s.ListSnapshots(ctx, ada, "", false, "", 100)
			if err != nil {
				t.Fatal(err)
			}
			return len(list)
		}
		s.pass(6 * time.Hour)
		before := all()
		s.settle()
		if all() != before {
			t.Error("a backup was taken of what a lease writes to")
		}
		l.State = lease.Stopped
		_ = s.TurnSnapshots(ctx)
		s.settle()
		if all() != before+1 {
			t.Errorf("%d snapshots, want %d", all(), before+1)
		}
		if s.left() != "objects [one,two,three one,two,three] uploads 0" {
			t.Errorf("there are %s", s.left())
		}
		ok(s.SetBackup(ctx, ada, "data", 0, 0))(t)
		s.pass(48 * time.Hour)
		s.settle()
		if all() != before+1 {
			t.Error("a backup was taken after none were wanted")
		}
	})
}

func TestTheSweepRemovesWhatIsOverAndLeavesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := newSite(t, db)
		ctx := t.Context()
		v := ok(s.Create(ctx, ada, Request{Name: "data", HostID: "ho-1", SizeGiB: 10}))(t)
		s.settle()
		s.volumes["ho-1"][v.ID] = precious
		kept := ok(s.TakeSnapshot(ctx, ada, "data", "kept"))(t)
		s.settle()
		gone := ok(s.TakeSnapshot(ctx, ada, "data", "gone"))(t)
		s.settle()
		ok(s.RemoveSnapshot(ctx, ada, "gone"))(t)
		s.settle()
		s.objects[gone.key()] = "late"
		s.uploads[gone.key()+" 98"] = map[int]string{}
		s.uploads[kept.key()+" 99"] = map[int]string{}
		s.objects["snapshots/others/thing"] = "theirs"
		s.uploads["snapshots/others/thing 1"] = map[int]string{}
		s.pass(2 * time.Hour)
		if err := s.TurnSnapshots(ctx); err != nil {
			t.Fatal(err)
		}
		if s.left() != "objects [one,two,three theirs] uploads 1" {
			t.Errorf("there are %s", s.left())
		}
	})
}

func TestEverySnapshotCanEndAndEveryStateIsReached(t *testing.T) {
	t.Parallel()
	reached := map[SnapshotState]bool{SnapshotCopying: true}
	for range SnapshotStates() {
		for s := range reached {
			for _, e := range snapshotEvents {
				if to, ok := s.Next(e); ok {
					reached[to] = true
				}
			}
		}
	}
	for _, s := range SnapshotStates() {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
		if _, ok := s.Next(SnapshotRemove); !ok && !s.Over() && s != SnapshotDeleting {
			t.Errorf("%s cannot be removed", s)
		}
	}
}
