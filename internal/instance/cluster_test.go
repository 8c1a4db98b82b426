package instance

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"suanli.dev/internal/protocol"
)

func TestANodeIsToldItsPlaceAsTrainersLookForIt(t *testing.T) {
	t.Parallel()
	c := &protocol.Cluster{ID: "cl-1", Name: "train", Rank: 1, GPUsPerNode: 8, MasterPort: 29500, Nodes: []protocol.ClusterNode{
		{Name: "node-0", Address: netip.MustParseAddr("10.219.0.1")}, {Name: "node-1", Address: netip.MustParseAddr("10.219.0.2")}}}
	env := environment(nil, protocol.InstanceSettings{LeaseID: "ls-1", Cluster: c, Environment: map[string]string{"NCCL_IB_DISABLE": "0", "SUANLI_NODE_RANK": "7"}}, account{home: "/root", name: "root"})
	for name, want := range map[string]string{
		"SUANLI_NODE_RANK": "1", "SUANLI_NNODES": "2", "MASTER_ADDR": "node-0", "MASTER_PORT": "29500", "WORLD_SIZE": "16", "SLURM_JOB_NODELIST": "node-[0-1]", "SLURM_NODEID": "1",
		"NCCL_SOCKET_IFNAME": "suanli0", "NCCL_IB_DISABLE": "0", "RANK": "",
		"SUANLI_TORCHRUN_ARGS": "--nnodes=2 --nproc-per-node=8 --node-rank=1 --master-addr=node-0 --master-port=29500",
	} {
		if got := getenv(env, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	c.GPUsPerNode = 1
	if env := clusterEnvironment(nil, c); getenv(env, "RANK") != "1" || getenv(env, "WORLD_SIZE") != "2" {
		t.Errorf("with one GPU a node its environment is %v", env)
	}
	path := filepath.Join(t.TempDir(), "hostfile")
	err := writeHostfile(path, c)
	b, err2 := os.ReadFile(path)
	if err != nil || err2 != nil || string(b) != "node-0 slots=1\nnode-1 slots=1\n" {
		t.Errorf("the list of nodes is %q (%v, %v)", b, err, err2)
	}
}
