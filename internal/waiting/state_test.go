package waiting

import (
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/queue.md", "<!-- states -->\n", "<!-- end of states -->\n", TransitionTable())
}

func TestEveryStateIsReachedAndEveryRequestThatWaitsCanEnd(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Waiting: true}
	for _, e := range events {
		if to, ok := Waiting.Next(e); ok {
			reached[to] = true
		} else {
			t.Errorf("%s is nothing that happens to a request that waits", e)
		}
	}
	for _, s := range States() {
		if !reached[s] || s.Over() == (s == Waiting) {
			t.Errorf("%s is reached: %v, and is over: %v", s, reached[s], s.Over())
		}
	}
}
