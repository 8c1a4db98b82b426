package cluster

import (
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/clusters.md", "<!-- states -->\n", "<!-- end of states -->\n", TransitionTable())
}

func TestEveryStateIsReachedAndEveryClusterCanEnd(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Queued: true}
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
		if _, ok := s.Next(End); !ok && !s.Over() && s != Ending {
			t.Errorf("%s cannot be ended", s)
		}
	}
}
