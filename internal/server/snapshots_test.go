package server

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/protocol"
)

func init() {
	belongings["snapshot_id"] = func(w *world, p person) string {
		w.deposit(p, "10")
		v := w.keep(p, api.VolumeCreate{SizeGiB: 1})
		r := w.send(http.MethodPost, "/v1/volumes/"+v.ID+"/snapshots", p.token, api.SnapshotCreate{})
		if r.Status != http.StatusCreated {
			r = w.send(http.MethodPost, "/v1/volumes/"+v.ID+"/snapshots", w.newKey(p, account.AllScopes), api.SnapshotCreate{})
		}
		r.want(w.t, 201, "")
		w.turnSnapshots()
		return decode[api.Snapshot](w.t, r).ID
	}
}

// bucket is object storage that has whatever it is asked for.
type bucket struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (b *bucket) Begin(context.Context, string) (string, error) { return "up", nil }
func (b *bucket) PartURL(context.Context, string, string, int, time.Duration) (string, error) {
	return "https://bucket.example.com/part", nil
}
func (b *bucket) GetURL(context.Context, string, time.Duration) (string, error) {
	return "https://bucket.example.com/object", nil
}
func (b *bucket) Parts(context.Context, string, string, int) (objectstore.Parts, error) {
	return objectstore.Parts{Bytes: storedBytes, Digest: "all"}, nil
}
func (b *bucket) Complete(_ context.Context, key, _ string, _ objectstore.Parts) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[key] = true
	return nil
}
func (b *bucket) Abort(context.Context, string, string) error { return nil }
func (b *bucket) Uploads(context.Context, string) ([]objectstore.Upload, error) {
	return nil, nil
}
func (b *bucket) Keys(context.Context, string) ([]string, error) { return nil, nil }
func (b *bucket) Size(context.Context, string) (int64, error)    { return storedBytes, nil }
func (b *bucket) Remove(_ context.Context, key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, key)
	return nil
}

// storedBytes is what a snapshot comes to here: a little more than two GiB, which are
// charged for as three.
const storedBytes = 2<<30 + 1

// onTransfer is a host that has done at once what it is asked for.
func onTransfer() protocol.CommandResult {
	return protocol.CommandResult{Accepted: true, Transfer: &protocol.TransferStatus{State: protocol.TransferDone, Bytes: storedBytes, Parts: 1, PartsDigest: "all", ObjectSHA256: "o", ContentSHA256: "c"}}
}

func (w *world) turnSnapshots() {
	w.t.Helper()
	for range 6 { // begun, copied, filled, and what is over cleared away
		if err := w.volumes.TurnSnapshots(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestASnapshotIsChargedByWhatIsStoredUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	c, ctx := w.ada.client, t.Context()
	v := w.keep(w.ada, api.VolumeCreate{Name: "data", SizeGiB: 100})
	x, err := c.CreateSnapshot(ctx, "data", api.SnapshotCreate{Name: "first"})
	if err != nil || x.State != "copying" || x.VolumeID != v.ID {
		t.Fatalf("%+v, %v", x, err)
	}
	_, err = c.CreateSnapshot(ctx, "data", api.SnapshotCreate{Name: "second"})
	wantProblem(t, err, "volume_copied")
	w.clock.Advance(time.Hour)
	w.turnSnapshots()
	if x, err = c.Snapshot(ctx, "first"); err != nil || x.State != "available" || x.StoredBytes != storedBytes || x.ReadyAt == nil || x.PerMonth != 3*api.Amount(30_000) {
		t.Fatalf("%+v, %v", x, err)
	}
	w.clock.Advance(24 * time.Hour)
	bill := func() api.Amount {
		b, err := w.billing.Due(ctx, x.ID, w.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		return b.Total
	}
	day := bill()
	if day <= x.PerMonth/32 || day > x.PerMonth/27 {
		t.Errorf("a day came to %s of %s a month", day, x.PerMonth)
	}
	if b := decode[api.Bill](t, w.send("GET", "/v1/bills/first", w.ada.token, nil)); b.LeaseID != x.ID || b.Total != day {
		t.Errorf("the bill by its name is %+v", b)
	}
	// It outlives its volume, and a volume is made of it again.
	if _, err := c.DeleteVolume(ctx, "data"); err != nil {
		t.Fatal(err)
	}
	_, err = c.CreateVolume(ctx, api.VolumeCreate{Name: "back", HostID: v.HostID, Snapshot: "first", SizeGiB: 99})
	wantProblem(t, err, "invalid_volume_size")
	back, err := c.CreateVolume(ctx, api.VolumeCreate{Name: "back", HostID: v.HostID, Snapshot: "first"})
	if err != nil || back.SizeGiB != 100 || back.SnapshotID != x.ID {
		t.Fatalf("%+v, %v", back, err)
	}
	_, err = c.DeleteSnapshot(ctx, "first")
	wantProblem(t, err, "snapshot_in_use")
	w.turnSnapshots()
	if back, err = c.Volume(ctx, "back"); err != nil || back.State != "available" {
		t.Fatalf("%+v, %v", back, err)
	}
	if x, err = c.DeleteSnapshot(ctx, "first"); err != nil || x.State != "deleting" {
		t.Fatalf("%+v, %v", x, err)
	}
	w.clock.Advance(24 * time.Hour)
	w.turnSnapshots()
	if x, err = c.Snapshot(ctx, x.ID); err != nil || x.State != "deleted" || x.EndedAt == nil || len(w.bucket.keys) != 0 {
		t.Fatalf("%+v, %v; the bucket has %v", x, err, w.bucket.keys)
	}
	if after := bill(); after != day {
		t.Errorf("it came to %s in the end and to %s when it was removed", after, day)
	}
	w.booksAreRight()
	charges, err := w.billing.Charges(ctx, w.ada.AccountID, x.ID, "", 100)
	if err != nil || len(charges) == 0 {
		t.Fatalf("%+v, %v", charges, err)
	}
	for _, ch := range charges {
		if ch.ProviderShare != 0 {
			t.Errorf("a host earns %s by the operator's bucket", ch.ProviderShare)
		}
		if e, err := w.billing.Explain(ctx, w.ada.AccountID, ch.ID); err != nil || !e.OK() {
			t.Errorf("charge %s is not explained: %+v, %v", ch.ID, e, err)
		}
	}
	export := w.send("GET", "/v1/exports/focus?format=jsonl&period="+x.CreatedAt.UTC().Format("2006-01"), w.ada.token, nil)
	if !strings.Contains(export.Body, `"ResourceName":"first","ResourceType":"Snapshot"`) {
		t.Errorf("the export says of it: %s", export.Body)
	}
}

func TestAMovedVolumeIsChargedOnceAtEveryMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	c, ctx := w.ada.client, t.Context()
	v := w.keep(w.ada, api.VolumeCreate{Name: "data", SizeGiB: 10})
	w.clock.Advance(24 * time.Hour)
	to, err := c.MoveVolume(ctx, "data", api.VolumeMove{SizeGiB: 20})
	if err != nil || to.ID == v.ID || to.Replaces != v.ID {
		t.Fatalf("%+v, %v", to, err)
	}
	w.clock.Advance(time.Hour)
	if b, err := w.billing.Due(ctx, to.ID, w.clock.Now()); err != nil || b.Total != 0 {
		t.Errorf("what is not made costs %s, %v", b.Total, err)
	}
	_, err = c.DeleteVolume(ctx, "data")
	wantProblem(t, err, "volume_moving")
	w.turnSnapshots()
	now, err := c.Volume(ctx, "data")
	if err != nil || now.ID != to.ID || now.SizeGiB != 20 || now.State != "available" {
		t.Fatalf("%+v, %v", now, err)
	}
	old, err := c.Volume(ctx, v.ID)
	if err != nil || old.State != "deleting" && old.State != "deleted" || old.Code != "moved" {
		t.Fatalf("%+v, %v", old, err)
	}
	if b, err := w.billing.Due(ctx, v.ID, w.clock.Now()); err != nil || b.Total == 0 {
		t.Errorf("the old one came to %s, %v", b.Total, err)
	}
	w.clock.Advance(24 * time.Hour)
	before, err := w.billing.Due(ctx, v.ID, w.clock.Now())
	if err != nil || before.Total > v.PerMonth/25 {
		t.Errorf("25 hours of the old one came to %s of %s a month, %v", before.Total, v.PerMonth, err)
	}
	if b, err := w.billing.Due(ctx, to.ID, w.clock.Now()); err != nil || b.Total <= now.PerMonth/32 {
		t.Errorf("a day of the new one came to %s, %v", b.Total, err)
	}
	if list, err := c.Snapshots(ctx, "", true); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v are left", list, err)
	}
	if got, err := c.BackUpVolume(ctx, "data", api.VolumeBackup{EveryHours: 12, Keep: 3}); err != nil || got.Backup == nil || got.Backup.Keep != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	w.booksAreRight()
}
