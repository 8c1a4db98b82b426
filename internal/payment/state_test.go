package payment

import (
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/payments.md", "<!-- states -->\n", "<!-- end of states -->\n", TransitionTable())
}

func TestEveryStateOfAPaymentIsReachedAndMoneyThatCameIsNeverForgotten(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Created: true}
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
		if _, ok := s.Next(Succeed); ok == s.InWallet() && s != Aside && s != Succeeded {
			t.Errorf("%s: that the provider has the money is taken: %v", s, ok)
		}
		for _, e := range events {
			if to, ok := s.Next(e); ok && s.InWallet() && !to.InWallet() {
				t.Errorf("%s leads from %s to %s, as if it had never been credited", e, s, to)
			}
		}
	}
}
