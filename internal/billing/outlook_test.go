package billing

import (
	"testing"
	"time"

	"suanli.dev/internal/money"
)

func TestAnOutlookIsUsedForLongOnlyWhenNothingEndsSoon(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, c := range []struct {
		name string
		o    outlook
		want time.Duration
	}{
		{"money beyond the horizon", outlook{}, outlookLifeFar},
		{"money for a week", outlook{until: now.Add(7 * day)}, outlookLifeFar},
		{"money for a day", outlook{until: now.Add(day)}, outlookLife},
		{"money that ran out", outlook{until: now.Add(-time.Second)}, outlookLife},
		{"debt", outlook{funds: money.Amount(-1)}, outlookLife},
		{"a spending cap that is near", outlook{caps: map[string]time.Time{"a": now.Add(7 * day), "b": now.Add(time.Hour)}}, outlookLife},
		{"a run that is over its limit", outlook{limits: map[string]time.Time{"a": now}}, outlookLife},
	} {
		c.o.at = now
		if got := c.o.life(); got != c.want {
			t.Errorf("%s: used for %s, want %s", c.name, got, c.want)
		}
	}
}
