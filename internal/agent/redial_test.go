package agent

import (
	"testing"
	"time"
)

func TestAnAgentOfSeveralControlPlanesIsNeverAwayForLongAfterOneTakesItsHostAgain(t *testing.T) {
	t.Parallel()
	for elsewhere, most := range map[bool]time.Duration{true: 3 * time.Second, false: 30 * time.Second} {
		var r redial
		var last time.Duration
		for n := range 12 { // all refuse, as while they miss the one that died
			p := r.next(elsewhere)
			if p > most || p < last || n == 0 && p > time.Second {
				t.Errorf("with others: %v; pause %d is %s, after %s", elsewhere, n, p, last)
			}
			last = p
		}
		if last != most {
			t.Errorf("with others: %v; the longest pause is %s, want %s", elsewhere, last, most)
		}
	}
}
