package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
)

func TestADrillOfAHostsOutageIsFeltAndOverByItself(t *testing.T) {
	t.Parallel()
	c, u := simCloud(t, t.TempDir())
	l := u.rent(t, "feels-it", "--image", "debian:12")
	u.reaches(t, l.ID, 30*time.Second, "running")
	host := c.hosts[0].id
	if r := c.operator.try("drill", "host-outage", "--host", host, "--for", "6s"); r.code == 0 || !strings.Contains(r.err, "1 leases") {
		t.Fatalf("without consent: %+v", r)
	}
	if r := u.try("drill", "host-outage", "--host", host, "--for", "6s", "--yes"); r.code == 0 {
		t.Fatalf("a renter's drill: %+v", r)
	}
	out := c.operator.must(t, "drill", "host-outage", "--host", host, "--for", "6s", "--yes", "--json")
	var d api.Drill
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !d.Over || !d.Recovered || len(d.Leases) != 1 || d.Leases[0].LeaseID != l.ID || d.Leases[0].Now != "running" || d.Leases[0].Ended || d.Leases[0].UnreachableSeconds < 1 {
		t.Errorf("what was felt: %s", out)
	}
	if got := u.lease(t, l.ID); got.State != "running" {
		t.Errorf("the lease is %s (%s)", got.State, got.Message)
	}
	if out := c.operator.must(t, "ledger", "verify", "--json"); !strings.Contains(out, `"ok": true`) {
		t.Errorf("the ledger: %s", out)
	}
}
