package sla

import (
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func TestAMinuteThatNobodyWroteIsDowntime(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		start := time.Date(2026, 5, 1, 0, 0, 30, 0, time.UTC)
		at := func(minute int) {
			w.mu.Lock()
			w.now = start.Add(time.Duration(minute) * time.Minute)
			w.mu.Unlock()
		}
		if u, err := w.Uptime(t.Context()); err != nil || len(u.Windows) != 0 || !u.Since.IsZero() {
			t.Fatalf("of a cloud that was never up: %+v, %v", u, err)
		}
		for minute := range 100 {
			if minute >= 40 && minute < 45 { // the control plane is away
				continue
			}
			at(minute)
			for range 3 { // replicas, and again
				if err := w.Beat(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.beaten.Store(0)
			}
		}
		at(100)
		u, err := w.Uptime(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := u.Windows[0]; d.Days != 1 || d.Minutes != 100 || d.Up != 95 || d.Available != 950_000 {
			t.Errorf("last day %+v", d)
		}
		minute := func(n int) time.Time { return start.Truncate(time.Minute).Add(time.Duration(n) * time.Minute) }
		if want := []Gap{{minute(40), minute(45)}}; !slices.Equal(u.Gaps, want) || !u.Since.Equal(minute(0)) {
			t.Errorf("gaps %v since %s, want %v", u.Gaps, u.Since, want)
		}
		// What is too old is forgotten, and the measure begins later.
		w.mu.Lock()
		w.now = w.now.Add(keepFor - 50*time.Minute)
		w.mu.Unlock()
		if err := w.forgetMinutes(t.Context()); err != nil {
			t.Fatal(err)
		}
		if u, err = w.Uptime(t.Context()); err != nil || !u.Since.Equal(minute(50)) {
			t.Errorf("since %s, %v; want %s", u.Since, err, minute(50))
		}
	})
}
