package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"suanli.dev/api"
)

// simCloud is a cloud with a host whose engine is simulated, for what is about
// the control plane.
func simCloud(t *testing.T, dir string, flags ...string) (*cloud, *user) {
	t.Helper()
	needRoot(t)
	c, err := newCloud(dir, flags...)
	if err != nil {
		t.Fatal(err)
	}
	c.engine, c.expectLeftLeases = "sim", true
	c.showLogs(t)
	t.Cleanup(func() {
		for _, h := range c.hosts {
			h.p.kill()
			_ = exec.Command("nft", "delete", "table", "inet", h.table).Run()
		}
		c.server.kill()
	})
	if _, err := c.join("8x4090"); err != nil {
		t.Fatal(err)
	}
	return c, newTenant(t, c, "keeper", "100")
}

type account struct {
	Leases  []string
	Settled api.Amount
	Held    api.Amount
}

// look reads what a backup has to bring back.
func look(t *testing.T, u *user) account {
	t.Helper()
	var a account
	p, err := u.api.Leases(t.Context(), "", false, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Items {
		a.Leases = append(a.Leases, fmt.Sprintf("%s %s %s generation %d on %v of %s", l.ID, l.Name, l.State, l.Generation, l.GPUs, l.HostID))
	}
	b, err := u.api.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.Settled, a.Held = b.Settled, b.Held
	return a
}

func TestABackupOfARunningCloudBringsItBack(t *testing.T) {
	t.Parallel()
	c, u := simCloud(t, t.TempDir())
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	u.rent(t, "runs")
	u.rent(t, "stopped")
	u.must(t, "stop", "stopped")
	u.rent(t, "over")
	u.must(t, "end", "over")
	before := look(t, u)

	// While it is written, others read and write.
	busy, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-busy:
				return
			default:
				_, _ = c.operator.run("deposit", c.operator.account, "1")
			}
		}
	}()
	file := filepath.Join(t.TempDir(), "backup.tar")
	out, code := runToEnd(t, "backup", file, "--data-dir", c.dataDir)
	close(busy)
	<-done
	if code != 0 {
		t.Fatalf("backup: %s", out)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the backup, which has keys in it, is %v, %v", st.Mode(), err)
	}

	c.server.kill()
	if out, code := runToEnd(t, "restore", file, "--data-dir", c.dataDir); code == 0 {
		t.Errorf("a restore over a cloud that is there: %s", out)
	}
	c.dataDir = filepath.Join(c.dir, "restored")
	if out, code := runToEnd(t, "restore", file, "--data-dir", c.dataDir); code != 0 {
		t.Fatalf("restore: %s", out)
	}
	if err := c.startServer(); err != nil {
		t.Fatal(err)
	}
	after := look(t, u)
	if !slices.Equal(after.Leases, before.Leases) || after.Settled != before.Settled || after.Held != before.Held {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if out := c.operator.must(t, "ledger", "verify", "--json"); !strings.Contains(out, `"ok": true`) {
		t.Errorf("the ledger: %s", out)
	}
	// The host comes back by itself, the lease runs on, and life goes on.
	if err := c.hosts[0].listed(); err != nil {
		t.Error(err)
	}
	u.reaches(t, "runs", 30*time.Second, "running")
	u.must(t, "start", "stopped")
	u.must(t, "end", "stopped")
	u.must(t, "end", "runs")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.api+"/v2/box/manifests/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth("token", c.token(c.operator))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != 200 {
		t.Errorf("the cloud's image: %s", res.Status)
	}
}

func TestAFullDiskOfTheServerIsSaidAndLosesNothing(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "server")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("suanli-e2e", data, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	c, u := simCloud(t, dir)
	u.rent(t, "before")

	fill := filepath.Join(data, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	f.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}

	// Some writes still fit into what the store has; then they are refused.
	var refusal result
	err = within(60*time.Second, func() error {
		if refusal = c.operator.try("deposit", u.account, "0.01", "--reference", strings.Repeat("x", 150)+rand.Text()); refusal.code == 0 {
			return errors.New("writes still succeed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if refusal.code != 7 || !strings.Contains(refusal.err, "disk") {
		t.Errorf("with a full disk: exit code %d, %s", refusal.code, refusal.err)
	}
	// Reading goes on, and the machine that watches is told.
	if r := u.try("ps"); r.code != 0 {
		t.Errorf("ps: %+v", r)
	}
	if res, err := http.Get("http://" + c.api + "/healthz"); err != nil || res.StatusCode != 200 {
		t.Errorf("healthz: %v, %v", res, err)
	}
	select {
	case <-c.server.done:
		t.Fatalf("the server ended: %s", tail(c.server.log, 5))
	default:
	}

	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	err = within(30*time.Second, func() error {
		_, err := c.operator.run("deposit", u.account, "1")
		return err
	})
	if err != nil {
		t.Error(err)
	}
	u.rent(t, "after")
	sound := func() {
		if out := c.operator.must(t, "ledger", "verify", "--json"); !strings.Contains(out, `"ok": true`) {
			t.Errorf("the ledger: %s", out)
		}
	}
	sound()
	c.server.kill()
	if err := c.startServer(); err != nil {
		t.Fatal(err)
	}
	sound()
	u.must(t, "end", "after")
	u.must(t, "end", "before")
}
