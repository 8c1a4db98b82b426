package volume

import (
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/volumes.md", "<!-- states -->\n", "<!-- end of states -->\n", TransitionTable())
}

func TestEveryStateIsReachedAndEveryVolumeCanEnd(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Creating: true}
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
		if _, ok := s.Next(Lose); !ok && !s.Over() {
			t.Errorf("%s cannot be lost with its host", s)
		}
		if _, ok := s.Next(Remove); !ok && !s.Over() && s != Deleting {
			t.Errorf("%s cannot be removed", s)
		}
	}
}
