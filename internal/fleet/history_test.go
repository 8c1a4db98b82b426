package fleet

import (
	"context"
	"testing"
	"time"

	"suanli.dev/internal/store"
)

func TestHistoryKeepsWhatWasRentedListedAndAnnounced(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	begin := c.clock()
	id, _ := c.rtx4090s(2)
	c.pass(time.Hour)
	if _, err := c.reserve("ls-1", id, 1); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	for range 2 { // a repeat changes nothing
		if err := c.tx(id, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, "ls-1") }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Unlist(t.Context(), ada, id); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	h, err := c.History(t.Context(), ada.AccountID, begin, c.clock())
	if err != nil || len(h.Rented) != 1 || len(h.Listed) != 2 {
		t.Fatalf("%+v, %v", h, err)
	}
	if r := h.Rented[0]; r.LeaseID != "ls-1" || r.Until.Sub(r.From) != time.Hour || r.HostID != id {
		t.Errorf("rented %+v", r)
	}
	for _, l := range h.Listed {
		if l.Until.Sub(l.From).Round(time.Second) != 2*time.Hour || l.Model != "RTX 4090" {
			t.Errorf("listed %+v", l)
		}
	}
	if h, err = c.History(t.Context(), eve.AccountID, begin, c.clock()); err != nil || len(h.Rented)+len(h.Listed) != 0 {
		t.Errorf("another account sees %+v, %v", h, err)
	}
}

func TestAListingThatEndsIsNotedAtItsEnd(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	begin := c.clock()
	id, _ := c.rtx4090s(1)
	end := c.clock().Add(time.Hour)
	if _, err := c.SetListing(t.Context(), ada, id, ListingChange{EndsAt: &end}); err != nil {
		t.Fatal(err)
	}
	c.pass(3 * time.Hour)
	c.keepAllListed(t.Context())
	h, err := c.History(t.Context(), ada.AccountID, begin, c.clock())
	if err != nil || len(h.Listed) != 1 || !h.Listed[0].Until.Equal(end) {
		t.Errorf("%+v, %v; want an end at %s", h.Listed, err, end)
	}
}

func TestMaintenanceKeepsWhenItWasAnnounced(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	id, _ := c.rtx4090s(1)
	set := func(from, until time.Time) {
		t.Helper()
		if _, err := c.SetMaintenance(t.Context(), ada, id, Window{From: from, Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	first := c.clock()
	from, until := first.Add(100*time.Hour), first.Add(104*time.Hour)
	set(from, until)
	c.pass(time.Hour)
	set(from.Add(time.Hour), until) // shorter: still announced with the first
	got, err := c.Announced(t.Context(), id, from, until)
	if err != nil || len(got) != 1 || !got[0].AnnouncedAt.Equal(first) || !got[0].From.Equal(from.Add(time.Hour)) {
		t.Fatalf("shorter: %+v, %v", got, err)
	}
	set(from, until.Add(time.Hour)) // longer: announced now
	if got, err = c.Announced(t.Context(), id, from, until); err != nil || len(got) != 1 || !got[0].AnnouncedAt.Equal(c.clock()) {
		t.Fatalf("longer: %+v, %v", got, err)
	}
	c.pass(from.Sub(c.clock()) + time.Minute)
	if _, err := c.SetMaintenance(t.Context(), ada, id, Window{}); err != nil {
		t.Fatal(err)
	}
	if got, err = c.Announced(t.Context(), id, from, until); err != nil || len(got) != 1 || got[0].Until.Sub(got[0].From) != time.Minute {
		t.Errorf("taken back after a minute: %+v, %v", got, err)
	}
}
