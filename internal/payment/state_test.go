package payment

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/payments.md")

const (
	documentFile = "../../docs/payments.md"
	tableBegins  = "<!-- states -->\n"
	tableEnds    = "<!-- end of states -->\n"
)

func TestTheDocumentShowsTheStateMachine(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(documentFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(content), tableBegins)
	_, after, ended := strings.Cut(rest, tableEnds)
	if !ok || !ended {
		t.Fatalf("docs/payments.md has no place for the states between %q and %q", tableBegins, tableEnds)
	}
	want := before + tableBegins + TransitionTable() + tableEnds + after
	if *update {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(content) != want {
		t.Error("docs/payments.md does not show the states of payments as they are; run `go generate ./internal/payment`")
	}
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
