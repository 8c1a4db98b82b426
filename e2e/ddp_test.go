package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// trainer fits a line by data that is split over the ranks, with gradients averaged by
// gloo, and says what it has learnt. It is the usual program: it knows nothing of suanli.
const trainer = `
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(1, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 64).reshape(-1, 1)[rank::world]
for step in range(200):
    opt.zero_grad()
    loss = ((model(x) - (3 * x + 1)) ** 2).mean()
    loss.backward()
    opt.step()
w, b = (p.item() for p in model.module.parameters())
one = torch.ones(1)
dist.all_reduce(one)
print(f"rank {rank} of {world}: learnt {w:.2f} {b:.2f}, all-reduce {one.item():.0f}", flush=True)
dist.destroy_process_group()
`

func TestPyTorchTrainsOverThePrivateNetworkOfACluster(t *testing.T) {
	t.Parallel()
	rootfs := os.Getenv("SUANLI_TEST_TORCH")
	if rootfs == "" {
		t.Skip("SUANLI_TEST_TORCH does not name a root file system with PyTorch; make test-ddp builds one")
	}
	c, u := clusterCloud(t, 2)
	c.operator.must(t, "image", "push", "torch:1", rootfs)
	u.cluster(t, "ddp", "--no-wait", "--nodes", "2", "--image", "cloud://torch:1", "--disk", "4", "--", "sleep", "100000")
	// The image is large, and both hosts pull it.
	if err := within(8*time.Minute, func() error {
		d, err := u.api.Cluster(t.Context(), "ddp")
		if err == nil && d.State == "failed" {
			return final{fmt.Errorf("it failed: %s", d.Message)}
		}
		if err == nil && d.State != "running" {
			err = fmt.Errorf("the cluster is %s", d.State)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	r := u.try("launch", "--cluster", "ddp", "--", "python3", "-c", trainer)
	if n := len(regexp.MustCompile(`\[[01]\] rank [01] of 2: learnt 3\.00 1\.00, all-reduce 2\n`).FindAllString(r.out, -1)); r.code != 0 || n != 2 {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	r = u.try("launch", "--cluster", "ddp", "--", "python3", "-c", trainer+"import sys; sys.exit(5 if rank == 1 else 0)")
	if r.code != 5 || !strings.Contains(r.out, "(exit code 5)") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	u.must(t, "cluster", "end", "ddp")
}
