package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
)

// clusterCloud is a cloud with hosts whose instances are on networks of their own.
func clusterCloud(t *testing.T, hosts int) (*cloud, *user) {
	t.Helper()
	c := ownCloud(t, "")
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	for range hosts {
		if _, err := c.join("1x4090"); err != nil {
			t.Fatal(err)
		}
	}
	return c, newTenant(t, c, "trainer", "100")
}

func (u *user) cluster(t *testing.T, name string, args ...string) *api.Cluster {
	t.Helper()
	out := u.must(t, append([]string{"cluster", "create", "--json", "--simulated", "--gpu-model", "RTX 4090", "--image", "cloud://box:1", "--disk", "1", "--name", name}, args...)...)
	var k api.Cluster
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{\n"):]), &k); err != nil {
		t.Fatalf("cluster create --json: %v\n%s", err, out)
	}
	return &k
}

func TestTheNodesOfAClusterReachEachOtherAndNobodyElse(t *testing.T) {
	t.Parallel()
	c, u := clusterCloud(t, 2)
	k := u.cluster(t, "train", "--nodes", "2")
	if k.State != "running" || len(k.Nodes) != 2 || k.Nodes[0].Connected != 1 || k.Nodes[0].HostID == k.Nodes[1].HostID {
		t.Fatalf("the cluster is %+v", k)
	}
	other := newTenant(t, c, "other", "100")
	if _, err := c.join("1x4090"); err != nil {
		t.Fatal(err)
	}
	o := other.rent(t, "outside")
	direct := func(u *user, name string) string {
		return strings.TrimSpace(u.inside(t, name, "ip -4 -o addr show dev eth0 | sed 's/.*inet //; s,/.*,,'"))
	}
	first := direct(u, "train-0")
	u.must(t, "exec", "train-0", "--", "sh", "-c", "(while true; do echo hello from $SUANLI_NODE_RANK | nc -l -p 700; done) >/dev/null 2>&1 &")
	if err := within(10*time.Second, func() error {
		r := u.try("exec", "train-1", "--", "sh", "-c", "nc -w 3 node-0 700 </dev/null")
		if r.out != "hello from 0\n" {
			return fmt.Errorf("node 1 reads %q %s", r.out, r.err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	for who, x := range map[string]struct {
		u    *user
		name string
		to   string
	}{
		"a node, past the private network": {u, "train-1", first}, "another tenant, by the private address": {other, "outside", "10.219.0.1"}, "another tenant, directly": {other, "outside", first},
	} {
		if r := x.u.try("exec", x.name, "--", "sh", "-c", "nc -w 2 "+x.to+" 700 </dev/null && echo reached"); strings.Contains(r.out, "reached") || strings.Contains(r.out, "hello") {
			t.Errorf("%s: %s is reached: %q", who, x.to, r.out)
		}
	}
	// The private network is no way to the host.
	if r := u.try("exec", "train-1", "--", "sh", "-c", "ip route; ip addr show dev suanli0; nc -w 2 10.219.0.9 22 </dev/null && echo reached; cat /.suanli/run/hostfile; echo $SLURM_JOB_NODELIST"); strings.Contains(r.out, "reached") || !strings.Contains(r.out, "node-1 slots=1") || !strings.Contains(r.out, "node-[0-1]") {
		t.Errorf("inside of a node: %s%s", r.out, r.err)
	}
	other.must(t, "end", o.ID)
	u.must(t, "cluster", "end", "train")
	var d api.ClusterDetails
	if err := json.Unmarshal([]byte(u.must(t, "cluster", "show", "train", "--json")), &d); err != nil || d.State != "ended" {
		t.Errorf("it is %s (%v)", d.State, err)
	}
}
