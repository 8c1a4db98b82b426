//go:build cgo

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/protocol"
)

func main() {
	if err := serve(nvml.New(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "suanli-nvml:", err)
		os.Exit(1)
	}
}

// helper holds what outlives one question.
type helper struct {
	lib  nvml.Interface
	mu   sync.Mutex
	xids map[string][]int // by UUID, since the helper began
}

// serve answers questions until in ends.
func serve(lib nvml.Interface, in io.Reader, out io.Writer) error {
	h := &helper{lib: lib, xids: map[string][]int{}}
	failed := nvml.ERROR_UNINITIALIZED
	w := bufio.NewWriter(out)
	for s := bufio.NewScanner(in); s.Scan(); {
		if strings.TrimSpace(s.Text()) != "list" {
			continue
		}
		if failed != nvml.SUCCESS { // a driver may be installed while the host is up
			if failed = lib.Init(); failed == nvml.SUCCESS {
				defer func() { _ = lib.Shutdown() }()
				try(h.watch)
			}
		}
		var r gpu.Reply
		switch failed {
		case nvml.SUCCESS:
			r = h.list()
		case nvml.ERROR_LIBRARY_NOT_FOUND, nvml.ERROR_DRIVER_NOT_LOADED:
			r = gpu.Reply{NoDriver: true, Error: lib.ErrorString(failed)}
		default:
			r = gpu.Reply{Error: lib.ErrorString(failed)}
		}
		if r.GPUs == nil {
			r.GPUs = []gpu.Device{}
		}
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// list reads every device. What a device's driver cannot tell stays zero.
func (h *helper) list() gpu.Reply {
	count, ret := h.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return gpu.Reply{Error: "count GPUs: " + h.lib.ErrorString(ret)}
	}
	driver, cuda := "", ""
	try(func() { driver, _ = h.lib.SystemGetDriverVersion() })
	try(func() {
		if v, ret := h.lib.SystemGetCudaDriverVersion_v2(); ret == nvml.SUCCESS {
			cuda = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	})
	var r gpu.Reply
	byBus := map[string]string{}
	var handles []nvml.Device
	for i := range count {
		dev, ret := h.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			// One lost GPU must not hide the others. Without a handle it has no UUID,
			// so that it is simply gone from the list.
			fmt.Fprintf(os.Stderr, "suanli-nvml: GPU %d cannot be opened: %s\n", i, h.lib.ErrorString(ret))
			continue
		}
		d, ok := h.device(i, dev, driver, cuda)
		if !ok {
			continue
		}
		r.GPUs = append(r.GPUs, d)
		handles = append(handles, dev)
		byBus[d.PCIBusID] = d.UUID
	}
	for i := range r.GPUs {
		r.GPUs[i].NVLinks = links(handles[i], byBus)
	}
	return r
}

// try keeps a device whose mock or driver lacks a call from ending everything.
func try(f func()) {
	defer func() { _ = recover() }()
	f()
}

func (h *helper) device(index int, dev nvml.Device, driver, cuda string) (gpu.Device, bool) {
	d := gpu.Device{GPU: protocol.GPU{Index: index, Vendor: protocol.NVIDIA, Driver: driver, MaxCUDA: cuda, NUMANode: -1, Health: protocol.Health{State: protocol.Healthy}}, Minor: index}
	uuid, ret := dev.GetUUID()
	if ret != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "suanli-nvml: GPU %d does not tell its UUID: %s\n", index, h.lib.ErrorString(ret))
		return d, false
	}
	d.UUID = uuid
	try(func() { d.Name, _ = dev.GetName() })
	try(func() {
		if m, ret := dev.GetMinorNumber(); ret == nvml.SUCCESS {
			d.Minor = m
		}
	})
	try(func() {
		if p, ret := dev.GetPciInfo(); ret == nvml.SUCCESS {
			d.PCIBusID = busID(p)
		}
	})
	try(func() {
		// Version 2 keeps what the driver reserves apart from what is used.
		if m, ret := dev.GetMemoryInfo_v2(); ret == nvml.SUCCESS {
			d.VRAMMiB, d.Stats.UsedMiB = int64(m.Total>>20), int64(m.Used>>20)
		}
	})
	if d.VRAMMiB == 0 {
		try(func() {
			if m, ret := dev.GetMemoryInfo(); ret == nvml.SUCCESS {
				d.VRAMMiB, d.Stats.UsedMiB = int64(m.Total>>20), int64(m.Used>>20)
			}
		})
	}
	try(func() {
		if major, minor, ret := dev.GetCudaComputeCapability(); ret == nvml.SUCCESS {
			d.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
		}
	})
	try(func() { d.PCIeGen, _ = dev.GetMaxPcieLinkGeneration() })
	try(func() { d.PCIeWidth, _ = dev.GetMaxPcieLinkWidth() })
	try(func() {
		if n, ret := dev.GetNumaNodeId(); ret == nvml.SUCCESS {
			d.NUMANode = n
		}
	})
	try(func() {
		if mode, _, ret := dev.GetMigMode(); ret == nvml.SUCCESS {
			d.MIGEnabled = mode == nvml.DEVICE_MIG_ENABLE
		}
	})
	try(func() {
		if mode, _, ret := dev.GetEccMode(); ret == nvml.SUCCESS && mode == nvml.FEATURE_ENABLED {
			d.ECCEnabled = true
			n, _ := dev.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
			d.ECCUncorrected = int64(n)
		}
	})
	try(func() {
		if u, ret := dev.GetUtilizationRates(); ret == nvml.SUCCESS {
			d.Stats.UtilizationPercent = int(u.Gpu)
		}
	})
	try(func() {
		if t, ret := dev.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
			d.Stats.TemperatureC = int(t)
		}
	})
	try(func() {
		if p, ret := dev.GetPowerUsage(); ret == nvml.SUCCESS {
			d.Stats.PowerWatts = int(p / 1000)
		}
	})
	for _, list := range []func() ([]nvml.ProcessInfo, nvml.Return){dev.GetComputeRunningProcesses, dev.GetGraphicsRunningProcesses} {
		try(func() {
			running, ret := list()
			if ret != nvml.SUCCESS {
				return
			}
			for _, p := range running {
				d.Stats.Processes = append(d.Stats.Processes, protocol.Process{PID: int(p.Pid), UsedMiB: int64(p.UsedGpuMemory >> 20)})
			}
		})
	}
	h.health(&d, dev)
	return d, true
}

// health notes Xids, and what the driver says of the memory itself.
func (h *helper) health(d *gpu.Device, dev nvml.Device) {
	h.mu.Lock()
	d.Health.Xids = append([]int(nil), h.xids[d.UUID]...)
	h.mu.Unlock()
	fence := func(reason string) {
		d.Health.State, d.Health.Reason = protocol.Fenced, reason
	}
	if d.ECCUncorrected > 0 {
		fence(fmt.Sprintf("%d uncorrectable memory errors since the driver was loaded", d.ECCUncorrected))
	}
	try(func() {
		if _, _, pending, failed, ret := dev.GetRemappedRows(); ret == nvml.SUCCESS && (pending || failed) {
			fence("a memory row is to be remapped, or could not be; reset the GPU")
		}
	})
	try(func() {
		if pending, ret := dev.GetRetiredPagesPendingStatus(); ret == nvml.SUCCESS && pending == nvml.FEATURE_ENABLED {
			fence("a memory page is to be retired; restart the host")
		}
	})
	try(func() {
		if _, ret := dev.GetUtilizationRates(); ret == nvml.ERROR_GPU_IS_LOST || ret == nvml.ERROR_RESET_REQUIRED {
			fence("the driver says: " + h.lib.ErrorString(ret))
		}
	})
}

// links counts the device's active NVLinks by what is at their other end.
func links(dev nvml.Device, byBus map[string]string) (found []protocol.Link) {
	try(func() {
		for l := range nvml.NVLINK_MAX_LINKS {
			if state, ret := dev.GetNvLinkState(l); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
				continue
			}
			peer := ""
			if p, ret := dev.GetNvLinkRemotePciInfo(l); ret == nvml.SUCCESS {
				peer = byBus[busID(p)] // a switch is in nobody's list
			}
			at := -1
			for i := range found {
				if found[i].PeerUUID == peer {
					at = i
				}
			}
			if at < 0 {
				found = append(found, protocol.Link{PeerUUID: peer})
				at = len(found) - 1
			}
			found[at].Links++
		}
	})
	return found
}

func busID(p nvml.PciInfo) string {
	var b strings.Builder
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// watch collects Xids while the helper lives.
func (h *helper) watch() {
	set, ret := h.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return
	}
	registered := false
	count, _ := h.lib.DeviceGetCount()
	for i := range count {
		try(func() {
			dev, ret := h.lib.DeviceGetHandleByIndex(i)
			if ret != nvml.SUCCESS {
				return
			}
			registered = dev.RegisterEvents(nvml.EventTypeXidCriticalError, set) == nvml.SUCCESS || registered
		})
	}
	if !registered {
		return
	}
	go func() {
		for {
			e, ret := set.Wait(5000)
			if ret == nvml.ERROR_TIMEOUT {
				continue
			}
			if ret != nvml.SUCCESS {
				return
			}
			if uuid, ret := e.Device.GetUUID(); ret == nvml.SUCCESS {
				h.mu.Lock()
				h.xids[uuid] = append(h.xids[uuid], int(e.EventData))
				h.mu.Unlock()
			}
		}
	}()
}
