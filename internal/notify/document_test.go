package notify

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the glossary into its document")

func TestTheDocumentShowsTheGlossary(t *testing.T) {
	t.Parallel()
	const path, begin = "../../docs/notifications.md", "\n## Kinds\n\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, shown, ok := strings.Cut(string(b), begin)
	if !ok {
		t.Fatalf("%s has no part with the kinds", path)
	}
	want := strings.TrimSuffix(Glossary(), "\n")
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if shown != want {
		t.Errorf("%s does not show the kinds as they are; run: go generate ./internal/notify", path)
	}
}
