package store_test

import (
	"fmt"
	"os"
	program "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

func TestOneControlPlaneHoldsAnEmbeddedDatabase(t *testing.T) {
	t.Parallel()
	address := "sqlite:" + filepath.Join(t.TempDir(), "new", "suanli.db")
	release, err := store.Lock(address)
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Lock(address)
	f, ok := fault.As(err)
	if !ok || f.Code != "store_in_use" || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Fatalf("a second lock: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	release, err = store.Lock(address)
	if err != nil {
		t.Fatalf("after the first is released: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestLockEndsWithAKilledProcess(t *testing.T) {
	if address := os.Getenv("SUANLI_TEST_HOLD_LOCK"); address != "" {
		if _, err := store.Lock(address); err != nil {
			t.Fatal(err)
		}
		fmt.Println("held")
		select {}
	}
	t.Parallel()
	address := "sqlite:" + filepath.Join(t.TempDir(), "suanli.db")
	holder := program.Command(os.Args[0], "-test.run=^TestLockEndsWithAKilledProcess$")
	holder.Env = append(os.Environ(), "SUANLI_TEST_HOLD_LOCK="+address)
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 4)
	if _, err := out.Read(said); err != nil || string(said) != "held" {
		t.Errorf("the holder says %q, %v", said, err)
	}
	if _, err := store.Lock(address); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d", holder.Process.Pid)) {
		t.Errorf("while another process holds it: %v", err)
	}
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // killed, as intended
	release, err := store.Lock(address)
	if err != nil {
		t.Fatalf("after the holder was killed: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestPostgreSQLIsSharedByControlPlanes(t *testing.T) {
	t.Parallel()
	for range 2 {
		if _, err := store.Lock("postgres://user@db/suanli"); err != nil {
			t.Error(err)
		}
	}
}
