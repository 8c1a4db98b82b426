package fleet

import (
	"fmt"
	"testing"

	"suanli.dev/internal/protocol"
)

// kubernetes is a host of ada's that is a cluster: so many GPUs on each of its nodes.
func (c *cloud) kubernetes(perNode ...int) string {
	c.t.Helper()
	id := c.join(false)
	all := 0
	for _, n := range perNode {
		all += n
	}
	inv := c.machine(id, "NVIDIA GeForce RTX 4090", 24564, all)
	inv.Runtime = "kubernetes 1.37.2"
	i := 0
	for node, n := range perNode {
		for range n {
			inv.GPUs[i].Machine, inv.GPUs[i].NUMANode = fmt.Sprintf("n%d", node), node
			i++
		}
	}
	if r := c.report(id, protocol.Report{Ready: true, Inventory: inv}); !r.Accepted {
		c.t.Fatalf("report refused: %+v", r)
	}
	return id
}

func TestOffersOfAClusterAreNoLargerThanOneOfItsNodes(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	id := c.kubernetes(2, 4, 3)
	if n, most := c.offered(""), c.offered("gpu_count > 4"); n != 4 || most != 0 {
		t.Fatalf("%d offers, %d of them larger than a node; want 1, 2, 3 and 4", n, most)
	}
	a, err := c.reserve("lease-1", id, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range a.GPUs {
		if u < "GPU-"+id+"-6" {
			t.Fatalf("GPUs %v; want the three of the node that they fill", a.GPUs)
		}
	}
	if _, err := c.reserve("lease-2", id, 2); err != nil {
		t.Fatal(err)
	}
	if n, most := c.offered(""), c.offered("gpu_count > 4"); n != 4 || most != 0 {
		t.Fatalf("with 4 free on one node: %d offers, %d larger", n, most)
	}
	if _, err := c.reserve("lease-3", id, 2); err != nil {
		t.Fatal(err)
	}
	if n := c.offered("gpu_count > 2"); n != 0 {
		t.Fatalf("%d offers are larger than the two that are free", n)
	}
}

func TestAClusterMayHaveMoreGPUsThanAMachine(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	nodes := make([]int, 20)
	for i := range nodes {
		nodes[i] = 8
	}
	if id := c.kubernetes(nodes...); c.view(id).State != StateListed || c.offered("") != 8 {
		t.Fatalf("%s: %s; %d offers", c.view(id).State, c.view(id).Reason, c.offered(""))
	}
}
