package market

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/market.md")

const (
	documentFile = "../../docs/market.md"
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
		t.Fatalf("docs/market.md has no place for the states between %q and %q", tableBegins, tableEnds)
	}
	want := before + tableBegins + TransitionTable() + tableEnds + after
	if *update {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(content) != want {
		t.Error("docs/market.md does not show the states of bids as they are; run `go generate ./internal/market`")
	}
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
