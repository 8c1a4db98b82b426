package instance

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"suanli.dev/internal/protocol"
)

// clusterEnvironment adds what programs that train on several machines look for. What
// suanli says of the cluster stands; settings of libraries are defaults, which the
// renter's own go before.
func clusterEnvironment(env []string, c *protocol.Cluster) []string {
	if c == nil {
		return env
	}
	nodes, rank, gpus := strconv.Itoa(len(c.Nodes)), strconv.Itoa(c.Rank), strconv.Itoa(c.GPUsPerNode)
	master, port := c.Nodes[0].Name, strconv.Itoa(c.MasterPort)
	for _, v := range [][2]string{
		{"SUANLI_CLUSTER", c.Name}, {"SUANLI_CLUSTER_ID", c.ID}, {"SUANLI_NODE_RANK", rank}, {"SUANLI_NNODES", nodes}, {"SUANLI_GPUS_PER_NODE", gpus},
		{"SUANLI_HOSTFILE", protocol.InstanceHostfile},
		{"SUANLI_TORCHRUN_ARGS", fmt.Sprintf("--nnodes=%s --nproc-per-node=%s --node-rank=%s --master-addr=%s --master-port=%s", nodes, gpus, rank, master, port)},
	} {
		env = setenv(env, v[0], v[1])
	}
	defaults := [][2]string{
		{"MASTER_ADDR", master}, {"MASTER_PORT", port}, {"NNODES", nodes}, {"NODE_RANK", rank}, {"WORLD_SIZE", strconv.Itoa(len(c.Nodes) * c.GPUsPerNode)},
		// As Slurm tells the processes that it starts.
		{"SLURM_JOB_ID", c.ID}, {"SLURM_JOB_NAME", c.Name}, {"SLURM_NODEID", rank}, {"SLURM_NNODES", nodes}, {"SLURM_JOB_NUM_NODES", nodes},
		{"SLURM_JOB_NODELIST", fmt.Sprintf("node-[0-%d]", len(c.Nodes)-1)}, {"SLURM_NODELIST", fmt.Sprintf("node-[0-%d]", len(c.Nodes)-1)},
		{"SLURM_GPUS_ON_NODE", gpus}, {"SLURM_NTASKS_PER_NODE", gpus}, {"SLURM_NTASKS", strconv.Itoa(len(c.Nodes) * c.GPUsPerNode)}, {"SLURMD_NODENAME", c.Nodes[c.Rank].Name},
		// All that leads to the other nodes is one interface over IP: no RDMA device is
		// given to an instance, and without this the libraries look for one, or take the
		// way to the outside.
		{"NCCL_SOCKET_IFNAME", protocol.InstanceOverlay}, {"NCCL_IB_DISABLE", "1"}, {"GLOO_SOCKET_IFNAME", protocol.InstanceOverlay}, {"TP_SOCKET_IFNAME", protocol.InstanceOverlay},
		{"OMPI_MCA_btl_tcp_if_include", protocol.InstanceOverlay}, {"OMPI_MCA_oob_tcp_if_include", protocol.InstanceOverlay}, {"HYDRA_IFACE", protocol.InstanceOverlay},
	}
	if c.GPUsPerNode == 1 {
		// With one process a node, the node's rank is the process's.
		defaults = append(defaults, [2]string{"RANK", rank}, [2]string{"LOCAL_RANK", "0"}, [2]string{"SLURM_PROCID", rank}, [2]string{"SLURM_LOCALID", "0"})
	}
	for _, v := range defaults {
		env = setDefault(env, v[0], v[1])
	}
	return env
}

// writeHostfile lists the cluster's nodes as Open MPI and MPICH's mpirun read them.
func writeHostfile(path string, c *protocol.Cluster) error {
	if c == nil {
		return nil
	}
	var b strings.Builder
	for _, n := range c.Nodes {
		fmt.Fprintf(&b, "%s slots=%d\n", n.Name, max(1, c.GPUsPerNode))
	}
	if err := os.RemoveAll(path); err != nil { // never through a link of a renter's
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
