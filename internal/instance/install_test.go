package instance

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestInstallCopiesTheBinaryThatRuns(t *testing.T) {
	t.Parallel()
	to := filepath.Join(t.TempDir(), "suanli")
	if err := install([]string{to}); err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.Stat(to)
	if err != nil || got.Size() != want.Size() || got.Mode()&0o111 == 0 {
		t.Fatalf("installed %v (%v), want the %d bytes of %s, executable", got, err, want.Size(), own)
	}
}

func TestAnOldReportIsNotPrinted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "status.json")
	if err := os.WriteFile(path, []byte("{\"sessions\":2}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printReport(dir, &out); err != nil || out.String() != "{\"sessions\":2}\n" {
		t.Fatalf("printed %q, %v", out.String(), err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if err := printReport(dir, &out); err == nil {
		t.Fatal("a report of a minute ago was printed as if init still lived")
	}
}
