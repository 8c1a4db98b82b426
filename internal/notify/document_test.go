package notify

import (
	"os"
	"strings"
	"testing"

	"suanli.dev/internal/documented"
)

func TestTheDocumentShowsTheGlossary(t *testing.T) {
	t.Parallel()
	const path, begin = "../../docs/notifications.md", "\n## Kinds\n\n"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(b), begin)
	if !ok {
		t.Fatalf("%s has no part with the kinds", path)
	}
	documented.Whole(t, path, before+begin+strings.TrimSuffix(Glossary(), "\n"))
}
