package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// amdVendor is AMD's PCI vendor number.
const amdVendor = "0x1002"

// AMD reads the amdgpu and amdkfd drivers' files; no library is needed.
type AMD struct {
	root string // of sysfs
}

// NewAMD returns a source that reads under root, normally /sys.
func NewAMD(root string) *AMD { return &AMD{root: root} }

type amdDevice struct {
	gpu    protocol.GPU
	render string // device node
}

// List implements Source.
func (a *AMD) List(context.Context) ([]protocol.GPU, error) {
	devices, err := a.devices()
	if err != nil {
		return nil, err
	}
	gpus := make([]protocol.GPU, len(devices))
	for i, d := range devices {
		gpus[i] = d.gpu
	}
	return gpus, nil
}

func (a *AMD) devices() ([]amdDevice, error) {
	nodes, err := os.ReadDir(filepath.Join(a.root, "class/kfd/kfd/topology/nodes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no AMD compute driver
	}
	if err != nil {
		return nil, fmt.Errorf("read AMD's topology: %w", err)
	}
	slices.SortFunc(nodes, func(x, y os.DirEntry) int {
		i, _ := strconv.Atoi(x.Name())
		j, _ := strconv.Atoi(y.Name())
		return i - j
	})
	driver := a.text("module/amdgpu/version")
	var found []amdDevice
	for _, n := range nodes {
		dir := "class/kfd/kfd/topology/nodes/" + n.Name()
		id := a.text(dir + "/gpu_id")
		if id == "" || id == "0" {
			continue // a CPU
		}
		p := a.properties(dir + "/properties")
		minor := p["drm_render_minor"]
		card := a.card(minor)
		g := protocol.GPU{
			Vendor: protocol.AMD, Index: len(found), Driver: driver, NUMANode: -1,
			ComputeCapability: gfx(p["gfx_target_version"]), Health: protocol.Health{State: protocol.Healthy},
		}
		// location_id is bus, device and function as the PCI specification packs them.
		loc := p["location_id"]
		g.PCIBusID = fmt.Sprintf("%04x:%02x:%02x.%d", p["domain"], loc>>8&0xff, loc>>3&0x1f, loc&7)
		g.UUID = "GPU-AMD-" + id
		if card != "" {
			dev := card + "/device"
			if unique := a.text(dev + "/unique_id"); unique != "" {
				g.UUID = "GPU-AMD-" + strings.TrimPrefix(unique, "0x")
			}
			g.Name = firstText(a.text(dev+"/product_name"), a.text(dir+"/name"), "AMD GPU "+a.text(dev+"/device"))
			g.VRAMMiB = a.number(dev+"/mem_info_vram_total") >> 20
			g.Stats.UsedMiB = a.number(dev+"/mem_info_vram_used") >> 20
			g.Stats.UtilizationPercent = int(a.number(dev + "/gpu_busy_percent"))
			if t := a.text(dev + "/numa_node"); t != "" {
				g.NUMANode, _ = strconv.Atoi(t)
			}
			g.PCIeWidth = int(a.number(dev + "/max_link_width"))
			g.PCIeGen = pcieGen(a.text(dev + "/max_link_speed"))
			for _, h := range a.glob(dev + "/hwmon/hwmon*") {
				g.Stats.TemperatureC = int(a.number(h+"/temp1_input") / 1000)
				g.Stats.PowerWatts = int(max(a.number(h+"/power1_average"), a.number(h+"/power1_input")) / 1_000_000)
			}
			if ue := a.errors(dev + "/ras/umc_err_count"); ue > 0 {
				g.ECCUncorrected = ue
				g.Health = protocol.Health{State: protocol.Fenced, Reason: fmt.Sprintf("%d uncorrectable memory errors", ue)}
			}
			g.ECCEnabled = a.text(dev+"/ras/umc_err_count") != ""
		} else {
			g.Name = firstText(a.text(dir+"/name"), "AMD GPU")
		}
		found = append(found, amdDevice{gpu: g, render: "/dev/dri/renderD" + strconv.FormatInt(minor, 10)})
	}
	return found, nil
}

func firstText(s ...string) string {
	for _, v := range s {
		if strings.TrimSpace(v) != "" {
			return v
		}
	}
	return ""
}

// gfx writes the driver's packed number, 90402, as gfx942: the minor and stepping
// are hexadecimal digits there.
func gfx(v int64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("gfx%d%x%x", v/10000, v/100%100, v%100)
}

// pcieGen turns "16.0 GT/s PCIe" into 4.
func pcieGen(speed string) int {
	for i, s := range []string{"2.5", "5", "8", "16", "32", "64"} {
		if f := strings.Fields(speed); len(f) > 0 && strings.TrimSuffix(f[0], ".0") == s {
			return i + 1
		}
	}
	return 0
}

// card finds the DRM card that shares a PCI device with the render node.
func (a *AMD) card(minor int64) string {
	for _, c := range a.glob("class/drm/card*") {
		if strings.Contains(filepath.Base(c), "-") || a.text(c+"/device/vendor") != amdVendor {
			continue // a connector, or another maker's
		}
		if _, err := os.Stat(filepath.Join(a.root, c, "device/drm", "renderD"+strconv.FormatInt(minor, 10))); err == nil {
			return c
		}
	}
	return ""
}

func (a *AMD) glob(pattern string) []string {
	list, _ := filepath.Glob(filepath.Join(a.root, pattern))
	for i, p := range list {
		list[i], _ = filepath.Rel(a.root, p)
	}
	return list
}

func (a *AMD) text(path string) string {
	b, err := os.ReadFile(filepath.Join(a.root, path))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (a *AMD) number(path string) int64 {
	n, _ := strconv.ParseInt(a.text(path), 10, 64)
	return n
}

// errors reads the "ue: <n>" line of a RAS counter.
func (a *AMD) errors(path string) int64 {
	for line := range strings.Lines(a.text(path)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "ue" {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

func (a *AMD) properties(path string) map[string]int64 {
	p := map[string]int64{}
	for line := range strings.Lines(a.text(path)) {
		if f := strings.Fields(line); len(f) == 2 {
			p[f[0]], _ = strconv.ParseInt(f[1], 10, 64)
		}
	}
	return p
}

// Attach implements Source.
func (a *AMD) Attach(_ context.Context, uuids []string) (runtime.Attachment, error) {
	devices, err := a.devices()
	if err != nil {
		return runtime.Attachment{}, err
	}
	out := runtime.Attachment{Devices: []string{"/dev/kfd"}, Env: map[string]string{}}
	for _, u := range uuids {
		at := slices.IndexFunc(devices, func(d amdDevice) bool { return d.gpu.UUID == u })
		if at < 0 {
			return runtime.Attachment{}, missing(u)
		}
		out.Devices = append(out.Devices, devices[at].render)
	}
	groups := map[string]bool{}
	for _, d := range out.Devices {
		// The nodes belong to the groups video and render, whose numbers differ
		// between host and image; the number is what counts.
		if st, err := os.Stat(d); err == nil {
			if sys, ok := st.Sys().(*syscall.Stat_t); ok && sys.Gid != 0 {
				groups[strconv.Itoa(int(sys.Gid))] = true
			}
		}
	}
	for g := range groups {
		out.Groups = append(out.Groups, g)
	}
	slices.Sort(out.Groups)
	return out, nil
}

// Inside implements Source.
func (a *AMD) Inside(ctx context.Context, uuids []string) ([]string, error) {
	at, err := a.Attach(ctx, uuids)
	return at.Devices, err
}

// Close implements Source.
func (a *AMD) Close() error { return nil }
