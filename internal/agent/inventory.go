package agent

import (
	"bufio"
	"net"
	"os"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/protocol"
)

// machineFacts do not change while the agent runs.
var machineFacts = sync.OnceValue(func() protocol.Inventory {
	inv := protocol.Inventory{Architecture: goruntime.GOARCH, CPUs: goruntime.NumCPU()}
	inv.Hostname, _ = os.Hostname()
	inv.OS = field("/etc/os-release", "PRETTY_NAME", "=")
	inv.CPUModel = field("/proc/cpuinfo", "model name", ":")
	kib, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal", ":"), " kB"), 10, 64)
	inv.MemoryMiB = kib >> 10
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		inv.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	return inv
})

// field returns the value of a "key<sep>value" line of a file.
func field(path, key, sep string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		k, v, ok := strings.Cut(s.Text(), sep)
		if ok && strings.TrimSpace(k) == key {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return ""
}

// inventory describes the host. The caller holds a.mu.
func (a *Agent) inventory() protocol.Inventory {
	inv := machineFacts()
	inv.GPUs = slices.Clone(a.seen)
	if inv.GPUs == nil {
		inv.GPUs = []protocol.GPU{}
	}
	for i, g := range inv.GPUs {
		if h, bad := a.health[g.UUID]; bad {
			inv.GPUs[i].Health = h.Health
		}
		inv.Simulated = inv.Simulated || g.Simulated
	}
	inv.Simulated = inv.Simulated || a.info.Name == "sim"
	inv.Runtime, inv.Isolation, inv.DiskQuota, inv.DiskMiB = a.info.Name, a.info.Isolation, a.info.DiskQuota, a.info.DiskMiB
	inv.DirectPorts, inv.SelfTest = a.cfg.DirectPorts, a.selfTest
	inv.Addresses = hostAddresses()
	if m := a.info.Machine; m != nil {
		// Instances run elsewhere: nothing of the agent's own machine is offered.
		inv.Hostname, inv.OS, inv.Kernel, inv.Architecture, inv.CPUModel = m.Hostname, m.OS, m.Kernel, m.Architecture, m.CPUModel
		inv.CPUs, inv.MemoryMiB, inv.Addresses = m.CPUs, m.MemoryMiB, []string{}
	}
	return inv
}

// hostAddresses are those of the host's own interfaces, without leases' bridges.
func hostAddresses() []string {
	found := []string{}
	ifaces, _ := net.Interfaces()
	for _, i := range ifaces {
		if i.Flags&net.FlagLoopback != 0 || strings.HasPrefix(i.Name, "sl") || strings.HasPrefix(i.Name, "veth") || strings.HasPrefix(i.Name, "docker") || strings.HasPrefix(i.Name, "br-") {
			continue
		}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				found = append(found, n.IP.String())
			}
		}
	}
	slices.Sort(found)
	return found
}
