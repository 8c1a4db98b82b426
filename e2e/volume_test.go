package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
)

func (u *user) volume(t *testing.T, args ...string) api.Volume {
	t.Helper()
	out := u.must(t, append([]string{"volume"}, append(args, "--json")...)...)
	var v api.Volume
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{\n"):]), &v); err != nil {
		t.Fatalf("volume %v --json: %v\n%s", args, err, out)
	}
	return v
}

func TestAVolumeOutlivesItsLeasesAndIsOneWritersAtATime(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "keeper", "100")
	first := u.rent(t, "first")
	// Large enough to cost something in the seconds that it is there on a fast machine.
	v := u.volume(t, "create", "data", "--size", "5", "--lease", "first")
	if v.State != "available" || v.HostID != first.HostID || v.ReadyAt == nil {
		t.Fatalf("%+v", v)
	}
	u.must(t, "stop", "first")
	u.reaches(t, "first", time.Minute, "stopped")
	u.volume(t, "attach", "data", "first", "--path", "/keep")
	u.must(t, "start", "first")
	u.reaches(t, "first", time.Minute, "running")
	u.inside(t, "first", "echo precious > /keep/file; dd if=/dev/zero of=/keep/big bs=1M count=1200 2>/dev/null; rm -f /keep/big; sync")
	if out := u.inside(t, "first", "df -m /keep | tail -1"); !strings.Contains(out, "/keep") {
		t.Errorf("the volume is not a file system of its own: %s", out)
	}
	if r := u.try("rent", "--name", "rival", "--image", "cloud://box:1", "--disk", "1", "--where", oneGPU, "--volume", "data:/keep"); r.code == 0 || !strings.Contains(r.err, "may write") {
		t.Errorf("a second writer: %+v", r)
	}
	u.rent(t, "reader", "--volume", "data:/in:ro")
	if out := u.inside(t, "reader", "cat /in/file; touch /in/x 2>/dev/null || echo refused"); out != "precious\nrefused\n" {
		t.Errorf("the reader says %q", out)
	}
	if r := u.try("volume", "rm", "data"); r.code == 0 {
		t.Error("a volume in use was removed")
	}
	for _, name := range []string{"first", "reader"} {
		u.must(t, "end", name)
		u.reaches(t, name, time.Minute, "ended")
	}
	u.rent(t, "second", "--volume", "data:/other")
	if out := u.inside(t, "second", "cat /other/file"); out != "precious\n" {
		t.Errorf("the second lease finds %q", out)
	}
	u.must(t, "end", "second")
	u.reaches(t, "second", time.Minute, "ended")
	u.volume(t, "rm", "data")
	err := within(time.Minute, func() error {
		v := u.volume(t, "show", v.ID)
		if v.State != "deleted" {
			return fmt.Errorf("the volume is %s: %s", v.State, v.Message)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range c.hosts {
		if left, _ := filepath.Glob(filepath.Join(h.dir, "volumes", "*")); len(left) > 0 {
			t.Errorf("the host keeps %q", left)
		}
	}
	u.must(t, "bill", "explain", firstCharge(t, u, v.ID))
	c.operator.must(t, "ledger", "verify")
}

// firstCharge is the identifier of the first charge of something that was billed.
func firstCharge(t *testing.T, u *user, id string) string {
	t.Helper()
	list, err := u.api.Charges(t.Context(), id)
	if err != nil || len(list) == 0 {
		t.Fatalf("charges of %s: %+v, %v", id, list, err)
	}
	return list[0].ID
}
