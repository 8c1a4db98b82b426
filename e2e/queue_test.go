package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
)

// Two renters and one GPU: who comes second waits, pays nothing, and has it when the
// first is done, without asking again.
func TestWhoComesSecondGetsTheOnlyGPUWhenTheFirstIsDone(t *testing.T) {
	t.Parallel()
	need(t)
	c := ownCloud(t, "1x4090")
	first, second := newTenant(t, c, "first", "100"), newTenant(t, c, "second", "100")
	first.rent(t, "early")
	r := second.try("rent", "--queue", "1h", "--max-per-hour", "50", "--gpu-model", "RTX 4090", "--simulated", "--name", "late", "--image", "cloud://box:1", "--disk", "1", "--stop-in", "1h")
	if said := r.out + r.err; r.code != 0 || !strings.Contains(said, "waits") || !strings.Contains(said, "suanli queue show late") {
		t.Fatalf("rent --queue: %+v", r)
	}
	show := func() (d api.WaitingRequestDetails) {
		out := second.must(t, "queue", "show", "late", "--json")
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{\n"):]), &d); err != nil {
			t.Fatalf("queue show --json: %v\n%s", err, out)
		}
		return d
	}
	if d := show(); d.State != "waiting" || d.Code != "no_room" || d.Position != 1 || !d.Simulated {
		t.Fatalf("it is %+v", d)
	}
	if out := second.must(t, "queue", "ls"); !strings.Contains(out, "late") {
		t.Errorf("the queue is\n%s", out)
	}
	if out := first.must(t, "queue", "ls", "--all"); strings.Contains(out, "late") {
		t.Errorf("another renter sees it:\n%s", out)
	}
	first.must(t, "end", "early")
	l := second.reaches(t, "late", time.Minute, "running")
	if d := show(); d.State != "started" || d.LeaseID != l.ID || l.StopAt == nil {
		t.Errorf("it is %+v, and its lease %+v", d, l)
	}
	if out := second.inside(t, "late", "echo here"); out != "here\n" {
		t.Errorf("inside it says %q", out)
	}
	if out := second.must(t, "notifications"); !strings.Contains(out, "late has become a lease") {
		t.Errorf("its account was told\n%s", out)
	}
	second.must(t, "end", "late")
	second.reaches(t, "late", time.Minute, "ended")
	c.operator.must(t, "ledger", "verify")
}
