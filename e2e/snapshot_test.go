package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/objectstore/s3test"
)

func (u *user) snapshot(t *testing.T, args ...string) api.Snapshot {
	t.Helper()
	out := u.must(t, append([]string{"snapshot"}, append(args, "--json")...)...)
	var x api.Snapshot
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{\n"):]), &x); err != nil {
		t.Fatalf("snapshot %v --json: %v\n%s", args, err, out)
	}
	return x
}

func TestAVolumesSnapshotIsRestoredOnAnotherHostAndTheVolumeMovesThere(t *testing.T) {
	t.Parallel()
	need(t)
	s3 := s3test.Start(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(s3.SecretKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := ownCloud(t, "4x4090", "--minimum-seconds", "1", "--s3-endpoint", s3.Endpoint, "--s3-bucket", s3.Bucket, "--s3-access-key", s3.AccessKey, "--s3-secret-key-file", secret, "--s3-prefix", s3.Prefix)
	if _, err := c.join("4x4090"); err != nil {
		t.Fatal(err)
	}
	u := newTenant(t, c, "keeper", "100")
	first := u.rent(t, "first")
	other := ""
	offers, err := u.api.Offers(t.Context(), api.OfferQuery{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offers.Items {
		if o.HostID != first.HostID {
			other = o.HostID
		}
	}
	if other == "" {
		t.Fatalf("there is one host: %+v", offers)
	}

	// Data is written, and the lease is over.
	v := u.volume(t, "create", "data", "--size", "1", "--lease", "first")
	u.must(t, "stop", "first")
	u.reaches(t, "first", time.Minute, "stopped")
	u.volume(t, "attach", "data", "first", "--path", "/keep")
	u.must(t, "start", "first")
	u.reaches(t, "first", time.Minute, "running")
	u.inside(t, "first", "echo precious > /keep/file; dd if=/dev/urandom of=/keep/noise bs=1M count=40 2>/dev/null; sync")
	sum := u.inside(t, "first", "sha256sum < /keep/noise")
	if r := u.try("snapshot", "create", "data", "early"); r.code == 0 || !strings.Contains(r.err, "stop the lease") {
		t.Errorf("a snapshot of what a lease writes to: %+v", r)
	}
	u.must(t, "end", "first")
	u.reaches(t, "first", time.Minute, "ended")

	x := u.snapshot(t, "create", "data", "kept")
	if x.State != "available" || x.StoredBytes < 40<<20 || x.StoredBytes > 60<<20 || x.ContentSHA256 == "" || x.PerMonth == 0 {
		t.Fatalf("%+v", x)
	}
	bucket, err := objectstore.New(s3.Config)
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := bucket.Keys(t.Context(), "snapshots/"); err != nil || len(keys) != 1 || !strings.HasSuffix(keys[0], x.ID) {
		t.Fatalf("the bucket has %q, %v", keys, err)
	}

	// Another host has it, in a volume of its own.
	back := u.volume(t, "create", "back", "--snapshot", "kept", "--host", other)
	if back.State != "available" || back.HostID != other || back.SizeGiB != 1 {
		t.Fatalf("%+v", back)
	}
	u.rent(t, "second", "--volume", "back:/in")
	if out := u.inside(t, "second", "cat /in/file; sha256sum < /in/noise"); out != "precious\n"+sum {
		t.Errorf("the other host has %q, want the sum %q", out, sum)
	}
	u.must(t, "end", "second")
	u.reaches(t, "second", time.Minute, "ended")

	// The volume itself moves, grows on its way, and nothing of it stays.
	moved := u.volume(t, "move", "data", "--host", other)
	if moved.Name != "data" || moved.HostID != other || moved.ID == v.ID {
		t.Fatalf("%+v", moved)
	}
	grown := u.volume(t, "resize", "data", "2")
	if grown.SizeGiB != 2 || grown.HostID != other {
		t.Fatalf("%+v", grown)
	}
	u.rent(t, "third", "--volume", "data:/in")
	if out := u.inside(t, "third", "cat /in/file; sha256sum < /in/noise; df -m /in | tail -1"); !strings.HasPrefix(out, "precious\n"+sum) || !strings.Contains(out, " 1") && !strings.Contains(out, " 2") {
		t.Errorf("the moved volume has %q, want the sum %q", out, sum)
	}
	u.must(t, "end", "third")
	u.reaches(t, "third", time.Minute, "ended")

	for _, name := range []string{"data", "back"} {
		u.volume(t, "rm", name)
	}
	u.snapshot(t, "rm", "kept")
	err = within(time.Minute, func() error {
		keys, err := bucket.Keys(t.Context(), "")
		if err != nil {
			return final{err}
		}
		uploads, err := bucket.Uploads(t.Context(), "")
		if err != nil {
			return final{err}
		}
		left := slices.Clone(keys)
		for _, h := range c.hosts {
			files, _ := filepath.Glob(filepath.Join(h.dir, "volumes", "*"))
			left = append(left, files...)
		}
		if len(left)+len(uploads) > 0 {
			return fmt.Errorf("there are %q and uploads %v", left, uploads)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, id := range []string{x.ID, moved.ID} {
		u.must(t, "bill", "explain", firstCharge(t, u, id))
	}
	c.operator.must(t, "ledger", "verify")
	logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
	for _, l := range logs {
		if b, err := os.ReadFile(l); err != nil || strings.Contains(string(b), s3.SecretKey) || strings.Contains(string(b), "X-Amz-Signature") {
			t.Errorf("a key or a signed URL is in %s, %v", l, err)
		}
	}
}
