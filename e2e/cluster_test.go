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

func TestACommandRunsOnAllNodesAndTheirSumsAreRight(t *testing.T) {
	t.Parallel()
	_, u := clusterCloud(t, 3)
	k := u.cluster(t, "ring", "--nodes", "3")
	if len(k.Nodes) != 3 {
		t.Fatalf("the cluster is %+v", k)
	}
	r := u.try("launch", "--cluster", "ring", "--", "sh", "-c", "echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR; ip addr show dev $NCCL_SOCKET_IFNAME | grep inet")
	for rank, address := range []string{"10.219.0.1", "10.219.0.2", "10.219.0.3"} {
		for _, want := range []string{fmt.Sprintf("[%d] rank %d of 3 at node-0\n", rank, rank), address + "/16"} {
			if r.code != 0 || strings.Count(r.out, want) != 1 {
				t.Errorf("exit code %d; %q is there %d times in %s%s", r.code, want, strings.Count(r.out, want), r.out, r.err)
			}
		}
	}
	var speeds []struct {
		Nodes   int     `json:"nodes"`
		BusMbps float64 `json:"bus_mbps"`
		Correct bool    `json:"correct"`
	}
	out := u.must(t, "cluster", "check", "ring", "--mib", "8", "--json")
	if err := json.Unmarshal([]byte(out), &speeds); err != nil || len(speeds) != 3 {
		t.Fatalf("the check printed %s (%v)", out, err)
	}
	for i, s := range speeds {
		if s.Nodes != 3 || !s.Correct || s.BusMbps <= 0 {
			t.Errorf("node %d measured %+v", i, s)
		}
	}
	t.Logf("an all-reduce of 8 MiB over three containers on separate networks: %.0f Mbit/s of bus bandwidth", speeds[0].BusMbps)

	// Of a rank that fails the others hear, and do not wait for ever.
	began := time.Now()
	r = u.try("launch", "--cluster", "ring", "--", "sh", "-c", `[ $RANK = 2 ] && exit 7; trap 'echo told; cat "$SUANLI_FAILURE_FILE"; echo; exit 1' TERM; while true; do sleep 0.1; done`)
	if r.code != 7 || time.Since(began) > 30*time.Second || strings.Count(r.out, "told") != 2 || strings.Count(r.out, `"rank":2,"node":2,"exit_code":7`) != 2 {
		t.Errorf("after %s: exit code %d, %s%s", time.Since(began), r.code, r.out, r.err)
	}
	// It begins again as often as it may, and the cluster ends with it.
	r = u.try("launch", "--cluster", "ring", "--policy", "restart", "--max-restarts", "2", "--end", "--", "sh", "-c", `[ $RANK = 1 ] && [ $SUANLI_ATTEMPT = 0 ] && exit 9; echo attempt $SUANLI_ATTEMPT`)
	if r.code != 0 || strings.Count(r.out, "attempt 1") != 3 {
		t.Errorf("exit code %d, %s%s", r.code, r.out, r.err)
	}
	if err := within(40*time.Second, func() error {
		var d api.ClusterDetails
		if err := json.Unmarshal([]byte(u.must(t, "cluster", "show", "ring", "--json")), &d); err != nil || d.State != "ended" {
			return fmt.Errorf("it is %s (%v)", d.State, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
