package lease

import (
	"testing"
	"time"
)

func TestStopsAreNoRunningTime(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Date(2026, 3, 2, 0, minutes, 0, 0, time.UTC) }
	for _, c := range []struct {
		changes []Change
		first   time.Time
		ran     time.Duration
	}{
		{nil, time.Time{}, 0},
		{[]Change{{At: at(0), To: Accepted}, {At: at(1), To: Failed}}, time.Time{}, 0},
		{[]Change{{At: at(0), To: Accepted}, {At: at(2), To: Running}}, at(2), 58 * time.Minute},
		{[]Change{{At: at(2), To: Running}, {At: at(5), To: Stopping}, {At: at(6), To: Stopped}, {At: at(10), To: Running}, {At: at(11), To: Running}, {At: at(14), To: Ending}, {At: at(15), To: Ended}}, at(2), 7 * time.Minute},
	} {
		first, total := ran(c.changes, at(60))
		if !first.Equal(c.first) || total != c.ran {
			t.Errorf("%v: from %s for %s, want %s and %s", c.changes, first, total, c.first, c.ran)
		}
	}
}
