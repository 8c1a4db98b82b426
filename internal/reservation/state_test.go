package reservation

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/reservations.md")

const (
	documentFile = "../../docs/reservations.md"
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
		t.Fatalf("docs/reservations.md has no place for the states between %q and %q", tableBegins, tableEnds)
	}
	want := before + tableBegins + TransitionTable() + tableEnds + after
	if *update {
		if err := os.WriteFile(documentFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(content) != want {
		t.Error("docs/reservations.md does not show the states as they are; run `go generate ./internal/reservation`")
	}
}

func TestEveryStateIsReachedAndEveryReservationCanEnd(t *testing.T) {
	t.Parallel()
	reached := map[State]bool{Scheduled: true}
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
		if _, ok := s.Next(Expire); !ok && !s.Over() && s != Scheduled {
			t.Errorf("%s does not expire", s)
		}
	}
}
