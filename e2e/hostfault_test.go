package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// costsNothing checks that a lease that never ran left neither a bill nor a trace.
func costsNothing(t *testing.T, c *cloud, u *user, lease string) {
	t.Helper()
	if b := u.bill(t, lease); b.Total != 0 {
		t.Errorf("never ran, and costs %s", b.Total)
	}
	if b, err := u.api.Balance(t.Context()); err != nil || b.Held != 0 || b.Available != 100_000_000 {
		t.Errorf("the balance is %+v, %v", b, err)
	}
	if err := within(20*time.Second, func() error { return noTrace(c, lease) }); err != nil {
		t.Error(err)
	}
}

func TestADirectPortThatAnotherProgramHasFailsTheLeaseByName(t *testing.T) {
	t.Parallel()
	c := ownCloud(t, "")
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := c.join("8x4090", "--direct-ports", fmt.Sprintf("127.0.0.1:%d-%d", port, port)); err != nil {
		t.Fatal(err)
	}
	u := newTenant(t, c, "ported", "100")
	lease := u.failed(t, "ported", "--image", "cloud://box:1", "-p", "8000")
	if lease.State != "failed" || lease.Code != "port_taken" || !strings.Contains(lease.Message, fmt.Sprint(port)) {
		t.Errorf("the lease is %s (%s): %s", lease.State, lease.Code, lease.Message)
	}
	costsNothing(t, c, u, lease.ID)
	l.Close()
	again := u.rent(t, "free-port", "-p", "8000", "--", "/bin/sh", "-c", "httpd -p 8000 -h /www; exec tail -f /dev/null")
	if err := within(15*time.Second, func() error { return wantPage(fmt.Sprintf("http://127.0.0.1:%d/", port), "", "a page from inside") }); err != nil {
		t.Error(err)
	}
	u.must(t, "end", again.ID)
}

func TestAnImageLargerThanTheLeasesDiskIsRefusedBeforeItFillsTheHost(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "big-images", "100")
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	const size = 1030 << 20 // zeros, which are packed to little
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for range size >> 20 {
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.push("big:1", image(v1.ConfigFile{Config: v1.Config{Cmd: []string{"/zeros"}}}, layer.Bytes())); err != nil {
		t.Fatal(err)
	}
	l := u.failed(t, "too-big", "--image", "cloud://big:1")
	if l.State != "failed" || l.Code != "image_too_big" || !strings.Contains(l.Message, "disk") {
		t.Errorf("the lease is %s (%s): %s", l.State, l.Code, l.Message)
	}
	costsNothing(t, c, u, l.ID)
}

func TestATemplateThatNoHostCanServeSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	catalog := filepath.Join(dir, "catalog", "templates")
	if err := os.MkdirAll(catalog, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, needs := range map[string]string{"many": "gpus: 64", "vast": "vram_gib: 5000"} {
		text := fmt.Sprintf("name: %s\ntitle: Too %s\ndescription: More than there is.\nscenario: development\nimage: cloud://box:1\ndisk_gib: 1\nneeds:\n  %s\n", name, name, needs)
		if err := os.WriteFile(filepath.Join(catalog, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, u := simCloud(t, dir, "--catalog-dir", filepath.Dir(catalog))
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"many": "64", "vast": "5000"} {
		r := u.try("rent", "--where", "gpu_count = 1", "--template", name, "--name", name)
		if r.code == 0 || strings.Contains(r.err, "panic") || !strings.Contains(r.err, want) {
			t.Errorf("template %s: exit code %d, %s", name, r.code, r.err)
		}
	}
	if b, err := u.api.Balance(t.Context()); err != nil || b.Held != 0 || b.Available != 100_000_000 {
		t.Errorf("the balance is %+v, %v", b, err)
	}
}

// A host's disk fills up by no lease's fault: what runs goes on, on the disk that is
// reserved for it; what is new fails with the reason; with room again, all is well.
func TestAFullDiskOfAHostHarmsNoLeaseThatRuns(t *testing.T) {
	t.Parallel()
	need(t)
	root := t.TempDir()
	dir := filepath.Join(root, "host0") // of the host that joins first
	small := filepath.Join(root, "small.img")
	for _, step := range [][]string{
		{"truncate", "-s", "6G", small}, {"mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", small}, {"mkdir", dir}, {"mount", "-o", "loop", small, dir},
	} {
		if out, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			t.Skipf("a small file system cannot be mounted: %v: %s", step, out)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount the small file system: %v", err)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	c, err := newCloud(root)
	if err != nil {
		t.Fatal(err)
	}
	c.showLogs(t)
	t.Cleanup(func() {
		if err := c.close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	h, err := c.join("8x4090")
	if err != nil {
		t.Fatal(err)
	}
	u := newTenant(t, c, "crowded", "100")
	before := u.rent(t, "before")
	u.rent(t, "stopped")
	u.must(t, "stop", "stopped")

	// While this is asked for, there is room; a moment later there is none.
	fill := filepath.Join(dir, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for size := int64(1 << 30); size >= 4096; {
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Fallocate(int(f.Fd()), 0, st.Size(), size); err != nil {
			size /= 2
		}
	}
	f.Close()
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil || st.Bavail > 8 {
		t.Fatalf("%d blocks are left, %v", st.Bavail, err)
	}

	// What runs goes on and can write all its disk.
	if out := u.inside(t, before.ID, "dd if=/dev/zero of=/root/much bs=1M count=600 2>&1 && rm /root/much && echo fine"); !strings.Contains(out, "fine") {
		t.Errorf("writing onto a reserved disk: %s", out)
	}
	// What is new is not offered, or fails with the reason.
	r := u.try("rent", "--name", "refused", "--where", oneGPU, "--image", "cloud://box:1", "--disk", "1")
	if r.code == 0 || !strings.Contains(strings.ToLower(r.err+r.out), "disk") && !strings.Contains(r.err, "offer") {
		t.Errorf("a rental on a full disk: %+v", r)
	}
	// The agent can be killed and comes back to its leases.
	h.p.kill()
	if err := h.start(); err != nil {
		t.Fatal(err)
	}
	err = within(30*time.Second, func() error {
		out, err := u.run("exec", before.ID, "--", "echo in")
		if err == nil && out != "in\n" {
			err = errors.New(out)
		}
		return err
	})
	if err != nil {
		t.Errorf("with the agent back on a full disk: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if err := h.listed(); err != nil {
		t.Error(err)
	}
	u.must(t, "start", "stopped")
	// A host says each minute how much room it has.
	if err := within(150*time.Second, func() error {
		_, err := u.run("rent", "--name", "after", "--where", oneGPU, "--image", "cloud://box:1", "--disk", "1")
		return err
	}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"before", "stopped", "after"} {
		u.must(t, "end", name)
	}
	if out := c.operator.must(t, "ledger", "verify", "--json"); !strings.Contains(out, `"ok": true`) {
		t.Errorf("the ledger: %s", out)
	}
}
