package fleet

import (
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/protocol"
)

// fencing holds the Xid errors after which a GPU is not trusted until a probe
// has exercised it: double-bit ECC and row remapping (48, 63, 64, 94, 95),
// NVLink (74) and a GPU that fell off the bus (79). Others, such as the illegal
// accesses of an application (13, 31, 43, 45, 68), say something of the program
// and not of the device; they are shown and nothing more. After NVIDIA's
// document "Xid Errors".
var fencing = map[int]string{
	48: "double-bit ECC error", 63: "row remapping pending", 64: "row remapping failed", 74: "NVLink error",
	79: "the GPU has fallen off the bus", 94: "contained memory error", 95: "uncontained memory error",
}

// judge returns what a GPU's health becomes when its agent reports reported.
// A fence is left only when a self-test that began after it has passed.
func judge(g gpu, reported protocol.Health, test tested, passed bool, now time.Time) gpu {
	// An Xid that is not reported any more (the host rebooted) may count again.
	g.ClearedXids = slices.DeleteFunc(slices.Clone(g.ClearedXids), func(x int) bool { return !slices.Contains(reported.Xids, x) })
	fence := ""
	if reported.State == protocol.Fenced {
		fence = reported.Reason
		if fence == "" {
			fence = "its agent found a hardware fault"
		}
	}
	for _, x := range reported.Xids {
		if what, ok := fencing[x]; ok && fence == "" && !slices.Contains(g.ClearedXids, x) {
			fence = fmt.Sprintf("Xid %d, %s", x, what)
		}
	}
	probed := passed && g.Health == protocol.Fenced && !g.FencedAt.IsZero() && time.UnixMicro(test.At).After(g.FencedAt) && slices.Contains(test.GPUs, g.UUID)
	switch {
	case g.Health == protocol.Fenced && reported.State != protocol.Fenced && probed:
		g.ClearedXids = slices.Clone(reported.Xids)
		g.Health, g.Reason, g.FencedAt = protocol.Healthy, "", time.Time{}
	case fence != "":
		if g.Health != protocol.Fenced {
			g.FencedAt = now
		}
		g.Health, g.Reason = protocol.Fenced, fence
		return g
	case g.Health == protocol.Fenced:
		return g
	}
	if reported.State == protocol.Dirty {
		g.Health, g.Reason = protocol.Dirty, reported.Reason
		return g
	}
	g.Health, g.Reason = protocol.Healthy, ""
	return g
}

// The most that a host can have; more is a fault of its report. They keep sums
// far from overflow.
const (
	maxGPUs      = 64      // of a machine, and of a lease
	clusterGPUs  = 1024    // of a cluster that is one host
	maxCPUs      = 1 << 17 // of such a cluster
	maxMemoryMiB = 1 << 28 // 256 TiB
	maxDiskMiB   = 1 << 34 // 16 PiB
	maxText      = 256
)

// mostGPUs is how many GPUs a host with such an inventory can have.
func mostGPUs(inv *protocol.Inventory) int64 {
	for _, g := range inv.GPUs {
		if g.Machine == "" {
			return maxGPUs
		}
	}
	return clusterGPUs
}

// contradiction says what is impossible in an inventory, or "".
func contradiction(inv *protocol.Inventory) string {
	for _, size := range []struct {
		what     string
		is, most int64
	}{
		{"CPUs", int64(inv.CPUs), maxCPUs}, {"MiB of memory", inv.MemoryMiB, maxMemoryMiB}, {"MiB of disk", inv.DiskMiB, maxDiskMiB},
		{"GPUs", int64(len(inv.GPUs)), mostGPUs(inv)},
	} {
		if size.is < 0 || size.is > size.most {
			return fmt.Sprintf("it reports %d %s; 0 to %d are possible", size.is, size.what, size.most)
		}
	}
	if inv.CPUs == 0 || inv.MemoryMiB == 0 {
		return fmt.Sprintf("it reports %d CPUs and %d MiB of memory; a host has some of both", inv.CPUs, inv.MemoryMiB)
	}
	for _, text := range []string{inv.Hostname, inv.OS, inv.Kernel, inv.Architecture, inv.CPUModel, inv.Runtime, inv.DiskQuota} {
		if len(text) > maxText {
			return fmt.Sprintf("it reports a text of %d bytes; up to %d are possible", len(text), maxText)
		}
	}
	seen := map[string]bool{}
	for _, g := range inv.GPUs {
		switch {
		case g.UUID == "" || len(g.UUID) > maxText:
			return fmt.Sprintf("GPU %d has no usable UUID", g.Index)
		case seen[g.UUID]:
			return fmt.Sprintf("two GPUs have the UUID %s", g.UUID)
		case g.Name == "" || len(g.Name) > maxText || len(g.Driver) > maxText || len(g.MaxCUDA) > maxText || len(g.ComputeCapability) > maxText:
			return fmt.Sprintf("GPU %d has no usable name", g.Index)
		case g.VRAMMiB <= 0 || g.VRAMMiB > maxMemoryMiB:
			return fmt.Sprintf("GPU %d has %d MiB of memory", g.Index, g.VRAMMiB)
		}
		if problem := overused(g.Index, g.VRAMMiB, g.Stats); problem != "" {
			return problem
		}
		seen[g.UUID] = true
	}
	if p := inv.DirectPorts; p != nil && (p.First < 1 || p.Last > 65535 || p.Last < p.First || p.Address == "" || len(p.Address) > maxText) {
		return fmt.Sprintf("it reports direct ports %d to %d at %q", p.First, p.Last, p.Address)
	}
	return ""
}

// overused says that more of a GPU's memory is used than it has, or "": a driver
// or agent that counts like this is wrong about what is free, too.
func overused(index int, vramMiB int64, st protocol.GPUStats) string {
	if st.UsedMiB < 0 || st.UsedMiB > vramMiB {
		return fmt.Sprintf("GPU %d reports %d MiB in use of %d", index, st.UsedMiB, vramMiB)
	}
	return ""
}

// clamp makes an impossible inventory safe to show.
func clamp(inv *protocol.Inventory) {
	within := func(v, most int64) int64 { return max(0, min(v, most)) }
	inv.CPUs = int(within(int64(inv.CPUs), maxCPUs))
	inv.MemoryMiB = within(inv.MemoryMiB, maxMemoryMiB)
	inv.DiskMiB = within(inv.DiskMiB, maxDiskMiB)
	inv.GPUs = inv.GPUs[:min(len(inv.GPUs), int(mostGPUs(inv)))]
	for i := range inv.GPUs {
		inv.GPUs[i].VRAMMiB = within(inv.GPUs[i].VRAMMiB, maxMemoryMiB)
	}
	for _, text := range []*string{&inv.Hostname, &inv.OS, &inv.Kernel, &inv.Architecture, &inv.CPUModel, &inv.Runtime, &inv.DiskQuota} {
		*text = (*text)[:min(len(*text), maxText)]
	}
	inv.DirectPorts = nil
}
