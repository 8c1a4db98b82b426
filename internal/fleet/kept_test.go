package fleet

import (
	"context"
	"testing"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func (c *cloud) keepDisk(id, hostID string, gib int64) (t DiskTerms, err error) {
	err = c.tx(hostID, func(ctx context.Context, tx *store.Tx) error {
		t, err = c.ReserveDisk(ctx, tx, DiskReservation{ID: id, HostID: hostID, DiskGiB: gib})
		return err
	})
	return t, err
}

func TestKeptDiskIsNotOfferedAndComesBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCloudOn(t, db)
		host, _ := c.rtx4090s(1)
		free := func() int64 {
			return c.view(host).Free.DiskMiB
		}
		before := free()
		terms, err := c.keepDisk("vo-1", host, 3)
		if err != nil || terms.HostID != host || terms.Storage <= 0 {
			t.Fatalf("%+v, %v", terms, err)
		}
		if _, err := c.keepDisk("vo-1", host, 3); err != nil {
			t.Fatalf("the same again: %v", err)
		}
		if got := free(); got != before-3*1024 {
			t.Errorf("%d MiB are free, want %d less than %d", got, 3*1024, before)
		}
		_, err = c.keepDisk("vo-2", host, before/1024)
		wantCode(t, err, "disk_too_big")
		if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, "vo-1") }); err != nil {
			t.Fatal(err)
		}
		if got := free(); got != before {
			t.Errorf("%d MiB are free in the end, want %d", got, before)
		}
	})
}
