package documented

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAPartIsWrittenBetweenItsMarksOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.md")
	if err := os.WriteFile(path, []byte("head\n"+Begins+"old\n"+Ends+"tail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	*update = true
	defer func() { *update = false }()
	Part(t, path, Begins, Ends, "new\n")
	if got, err := os.ReadFile(path); err != nil || string(got) != "head\n"+Begins+"new\n"+Ends+"tail\n" {
		t.Errorf("%q, %v", got, err)
	}
	*update = false
	Part(t, path, Begins, Ends, "new\n") // as it is: nothing is wrong
}
