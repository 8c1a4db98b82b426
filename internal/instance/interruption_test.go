package instance

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheNoticeIsAFileThatComesAndGoes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "interruption.json")
	var errs bytes.Buffer
	for i, text := range []string{`{"a":1}`, `{"a":2}`} {
		fresh, code := tellInterruption(path, text, &errs)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		if fresh != (i == 0) {
			t.Errorf("notice %d counts as the first: %v", i, fresh)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text+"\n" {
			t.Errorf("the file says %q (%v), want %q", got, err, text)
		}
	}
	for range 2 {
		if _, code := tellInterruption(path, "", &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a notice that was taken back is still there: %v", err)
	}
	if _, code := tellInterruption(filepath.Join(path, "no", "folder"), "x", &errs); code == 0 || errs.Len() == 0 {
		t.Error("a notice that could not be written passes for one")
	}
}
