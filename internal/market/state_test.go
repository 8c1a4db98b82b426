package market

import (
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/market.md", "<!-- states -->\n", "<!-- end of states -->\n", TransitionTable())
}

func TestEveryStateOfABidIsReachedAndEveryBidCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Waiting: true}
	for range States() {
		for s := range reached {
			for _, e := range events {
				if to, ok := s.Next(e); ok {
					reached[to] = true
				}
			}
		}
	}
	for _, s := range States() {
		if !reached[s] {
			t.Errorf("nothing leads to %s", s)
		}
		if to, ok := s.Next(Cancel); ok == s.Final() || ok && to != Cancelled {
			t.Errorf("%s: withdrawing leads to %q", s, to)
		}
		if to, ok := s.Next(Interrupt); ok && to != Leaving {
			t.Errorf("%s: interrupted, it is %s, and its GPUs would be given away before it has left", s, to)
		}
	}
}
