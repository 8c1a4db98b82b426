package agent

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

// memory is a folder on tmpfs.
func memory(t *testing.T) string {
	t.Helper()
	for _, folder := range keyFolders {
		var st unix.Statfs_t
		if unix.Statfs(folder, &st) != nil || int64(st.Type) != unix.TMPFS_MAGIC {
			continue
		}
		if dir, err := os.MkdirTemp(folder, "suanli-test-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			return dir
		}
	}
	t.Skip("no folder on this machine is in memory and writable")
	return ""
}

// holding lists the files below dir that contain text.
func holding(t *testing.T, dir, text string) []string {
	t.Helper()
	var found []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if b, _ := os.ReadFile(path); bytes.Contains(b, []byte(text)) {
				found = append(found, path)
			}
		}
		return nil
	})
	return found
}

func TestSecretsAreNotOnTheHostsDiskAndOutliveTheAgent(t *testing.T) {
	t.Parallel()
	const secret = "hf_do-not-write-this-down"
	w, sim := simWorld(t)
	w.kill()
	w.cfg.keyFolders = []string{memory(t)}
	w.start()
	id := ident.New(ident.Lease)
	s := spec()
	s.Environment, s.StartScript, s.Command = map[string]string{"HF_TOKEN": secret}, "login "+secret, []string{"serve", secret}
	s.DirectPorts = map[int]int{80: 30080}
	command := protocol.Command{LeaseID: id, Generation: 1, Want: protocol.WantRunning, Spec: s}
	w.send(command)
	w.reach(id, 1, protocol.PhaseRunning)
	if found := holding(t, w.cfg.Dir, secret); len(found) > 0 {
		t.Errorf("the secret is in %v", found)
	}

	// Another process of the agent, on the same boot.
	w.kill()
	w.start()
	w.reach(id, 1, protocol.PhaseRunning)
	w.a.mu.Lock()
	got := w.a.leases[id].rec
	w.a.mu.Unlock()
	if !got.complete() || got.Spec.Environment["HF_TOKEN"] != secret || got.Spec.StartScript != s.StartScript || len(got.Spec.Command) != 2 {
		t.Errorf("after a new start of the agent: %+v", got.Spec)
	}

	// Another boot: the key is gone, and so is the instance, before it ever ran.
	w.kill()
	if err := os.RemoveAll(w.cfg.keyFolders[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.cfg.keyFolders[0], 0o700); err != nil {
		t.Fatal(err)
	}
	if err := sim.Remove(t.Context(), id); err != nil {
		if err := sim.Stop(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if err := sim.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(w.cfg.Dir, "leases", id, "lease.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"running":1,`), nil, 1)
	b = bytes.Replace(b, []byte(`"phase":"running"`), []byte(`"phase":"pulling"`), 1)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.until("it is known again, with its ports", func() bool {
		st, ok := w.status(id)
		return ok && st.Phase != protocol.PhaseRunning && st.DirectPorts[80] == 30080
	})
	if st, _ := w.status(id); st.Phase == protocol.PhaseFailed {
		t.Errorf("it was given up at once: %+v", st)
	}
	w.send(command) // the control plane repeats it until the lease runs
	w.reach(id, 1, protocol.PhaseRunning)
	if found := holding(t, w.cfg.Dir, secret); len(found) > 0 {
		t.Errorf("the secret is in %v", found)
	}
}

func TestAKeyThatSomebodyElsePutThereIsNotTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := bytes.Repeat([]byte{7}, keyBytes)
	open := filepath.Join(dir, "open")
	if err := os.WriteFile(open, known, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, link} {
		if key, err := keepKey(path, bytes.Repeat([]byte{8}, keyBytes)); err == nil {
			t.Errorf("%s: the key %v was taken", path, key)
		}
	}
}
