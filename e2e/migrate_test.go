package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"suanli.dev/internal/store/storetest"
)

func TestALivedInCloudMovesToPostgreSQLAndBack(t *testing.T) {
	t.Parallel()
	database := storetest.PostgresAddress(t)
	c, u := simCloud(t, t.TempDir(), "--trial-amount", "5")
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	u.rent(t, "runs")
	u.rent(t, "stopped")
	u.must(t, "stop", "stopped")
	u.rent(t, "over")
	u.must(t, "end", "over")
	u.must(t, "rent", "--spot", "--bid", "0.50", "--gpu-model", "RTX 4090", "--image", "cloud://box:1", "--disk", "1", "--name", "spot", "--no-wait")
	c.operator.must(t, "deposit", u.account, "5000")
	u.rent(t, "months", "--plan", "monthly", "--months", "1")
	c.operator.must(t, "account", "grant", u.account, "3", "--valid-for", "72h")
	u.must(t, "budget", "create", "all", "50")
	u.reaches(t, "spot", 60*time.Second, "running")
	before := look(t, u)

	if out, code := runToEnd(t, "migrate", "--data-dir", c.dataDir, "--to", database); code == 0 || !strings.Contains(out, "is in use by") {
		t.Fatalf("migrate while the cloud runs: %s", out)
	}
	if err := c.server.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	out, code := runToEnd(t, "migrate", "--data-dir", c.dataDir, "--to", database, "--json")
	if code != 0 {
		t.Fatalf("migrate: %s", out)
	}
	var m struct {
		Rows   int64
		Proven int64 `json:"transfers_proven"`
		Tables []struct{ Table string }
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &m); err != nil || m.Rows < 100 || m.Proven < 5 || len(m.Tables) < 60 {
		t.Errorf("migrate says %s, %v", out, err)
	}
	t.Logf("%d rows of %d tables in %v", m.Rows, len(m.Tables), time.Since(begin).Round(10*time.Millisecond))
	if out, code := runToEnd(t, "migrate", "--data-dir", c.dataDir, "--to", database); code == 0 || !strings.Contains(out, "empty") {
		t.Fatalf("migrate again, to what is not empty: %s", out)
	}

	alive := func(what string) {
		t.Helper()
		if err := c.startServer(); err != nil {
			t.Fatal(err)
		}
		after := look(t, u)
		if !slices.Equal(after.Leases, before.Leases) || after.Settled != before.Settled || after.Held != before.Held {
			t.Errorf("%s: before %+v\nafter  %+v", what, before, after)
		}
		if out := c.operator.must(t, "ledger", "verify", "--json"); !strings.Contains(out, `"ok": true`) {
			t.Errorf("%s: the ledger: %s", what, out)
		}
		if err := c.hosts[0].listed(); err != nil {
			t.Error(err)
		}
		u.reaches(t, "runs", 30*time.Second, "running")
	}
	flags := c.serverFlags
	c.serverFlags = append(slices.Clone(flags), "--database", database)
	alive("on PostgreSQL")
	u.must(t, "start", "stopped")
	u.must(t, "stop", "stopped")
	before = look(t, u)
	if out, code := runToEnd(t, "migrate", "--data-dir", c.dataDir, "--from", database, "--to", "sqlite:"+filepath.Join(c.dir, "x.db")); code == 0 || !strings.Contains(out, "runs on this database") {
		t.Fatalf("migrate from PostgreSQL while the cloud runs: %s", out)
	}
	if err := c.server.end(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	back := "sqlite:" + filepath.Join(c.dir, "back.db")
	if out, code := runToEnd(t, "migrate", "--data-dir", c.dataDir, "--from", database, "--to", back); code != 0 {
		t.Fatalf("migrate back: %s", out)
	}
	c.serverFlags = append(slices.Clone(flags), "--database", back)
	alive("back on SQLite")
}
