package market_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/store"
)

func TestARoundInWhichNothingChangesWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1, "0.40")
	ada := w.tenant("ada", "100")
	runs, waits := w.bid(ada, 1, "0.80"), w.bid(ada, 1, "0.60")
	w.turn()
	w.pass(2 * time.Minute)
	w.want(runs, market.Placed, lease.Running)
	w.want(waits, market.Waiting, "")
	before, err := w.History(w.ctx, market.Span{Model: "RTX 4090", From: w.clock().Add(-time.Hour)})
	w.check(err)
	var wrote []string
	var rounds int
	watched := store.Observe(w.ctx, func(statement string) {
		verb, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
		if slices.Contains([]string{"INSERT", "UPDATE", "DELETE"}, verb) {
			wrote = append(wrote, statement)
		}
		if strings.Contains(statement, "FROM market WHERE") {
			rounds++
		}
	})
	for range 12 {
		w.mu.Lock()
		w.now = w.now.Add(beat)
		w.mu.Unlock()
		w.check(w.Turn(watched))
	}
	if len(wrote) > 0 || rounds < 12 {
		t.Errorf("%d rounds of no news wrote %q", rounds, wrote)
	}
	after, err := w.History(context.WithoutCancel(w.ctx), market.Span{Model: "RTX 4090", From: before.From})
	w.check(err)
	if !slices.Equal(before.Steps, after.Steps) {
		t.Errorf("the history went from %v to %v", before.Steps, after.Steps)
	}
	// What changes is in it, and holds from then on.
	up := price(t, "0.70")
	_, err = w.Change(w.ctx, ada, waits, market.Change{Price: &up})
	w.check(err)
	w.check(w.Turn(w.ctx))
	after, err = w.History(w.ctx, market.Span{Model: "RTX 4090", From: before.From})
	w.check(err)
	if last := after.Steps[len(after.Steps)-1]; len(after.Steps) != len(before.Steps)+1 || last.Price != price(t, "0.7001") {
		t.Errorf("after a higher bid the history is %v", after.Steps)
	}
}
