package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/instance"
	"suanli.dev/internal/protocol"
)

// TestMain lets the test binary stand for the helper.
func TestMain(m *testing.M) {
	if os.Getenv("SUANLI_NVML_HELPER") == "1" && os.Getenv("FAKE_HELPER") != "" {
		fakeHelper(os.Getenv("FAKE_HELPER"))
		return
	}
	os.Exit(m.Run())
}

// fakeHelper answers as its script says; each start takes the next word of it.
func fakeHelper(script string) {
	state := os.Getenv("FAKE_HELPER_STATE")
	b, _ := os.ReadFile(state)
	_ = os.WriteFile(state, append(b, '.'), 0o600)
	words := strings.Fields(script)
	word := words[min(len(b), len(words)-1)]
	var line string
	for {
		if _, err := fmt.Scanln(&line); err != nil {
			return
		}
		switch word {
		case "crash":
			os.Exit(139)
		case "hang":
			select {}
		case "nonsense":
			fmt.Println("{]")
		case "xid79", "xid31", "fine":
			d := Device{GPU: protocol.GPU{UUID: "GPU-1", Name: "NVIDIA H100 80GB HBM3", VRAMMiB: 81559, Simulated: true}}
			if word != "fine" {
				var x int
				_, _ = fmt.Sscanf(word, "xid%d", &x)
				d.Health.Xids = []int{x}
			}
			b, _ := json.Marshal(Reply{GPUs: []Device{d, {GPU: protocol.GPU{UUID: "GPU-2"}}}})
			fmt.Println(string(b))
		}
	}
}

func helper(t *testing.T, script string) *NVML {
	t.Helper()
	t.Setenv("FAKE_HELPER", script)
	t.Setenv("FAKE_HELPER_STATE", filepath.Join(t.TempDir(), "starts"))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := NewNVML(exe, nil)
	n.timeout, n.pause = 500*time.Millisecond, time.Nanosecond
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func TestADriverThatCrashesHangsOrBabblesIsAskedAgain(t *testing.T) {
	n := helper(t, "crash hang nonsense fine")
	for i := range 3 {
		if _, err := n.List(t.Context()); err == nil {
			t.Fatalf("failure %d was not told", i)
		}
	}
	gpus, err := n.List(t.Context())
	if err != nil || len(gpus) != 2 || gpus[0].UUID != "GPU-1" {
		t.Fatalf("%+v %v", gpus, err)
	}
	if gpus[0].Simulated || gpus[0].Vendor != protocol.NVIDIA {
		t.Errorf("the kind of driver sets these, not the helper: %+v", gpus[0])
	}
	if gpus, err = n.List(t.Context()); err != nil || len(gpus) != 2 {
		t.Errorf("the second question to one helper: %+v %v", gpus, err)
	}
}

func TestAFencingXidStaysOverAHelpersRestart(t *testing.T) {
	n := helper(t, "xid79 fine")
	gpus, err := n.List(t.Context())
	if err != nil || gpus[0].Health.State != protocol.Fenced || gpus[1].Health.State != protocol.Healthy {
		t.Fatalf("%+v %v", gpus, err)
	}
	n.mu.Lock()
	n.drop(errors.New("restart"))
	n.mu.Unlock()
	gpus, err = n.List(t.Context())
	if err != nil || gpus[0].Health.State != protocol.Fenced {
		t.Errorf("%+v %v", gpus, err)
	}
}

func TestOnlyHardwareXidsFence(t *testing.T) {
	t.Parallel()
	for _, x := range []int{13, 31, 43, 45, 68} {
		if h := Judge([]int{x}); h.State != protocol.Healthy || !slices.Contains(h.Xids, x) {
			t.Errorf("Xid %d: %+v", x, h)
		}
	}
	for _, x := range []int{48, 63, 64, 74, 79, 94, 95} {
		if h := Judge([]int{13, x, 43}); h.State != protocol.Fenced || !strings.Contains(h.Reason, fmt.Sprint(x)) {
			t.Errorf("Xid %d: %+v", x, h)
		}
	}
}

func TestEverySimulatedGPUSaysThatItIs(t *testing.T) {
	t.Parallel()
	if len(Machines()) == 0 {
		t.Fatal("no machines")
	}
	seen := map[string]bool{}
	for _, m := range Machines() {
		s, err := NewSimulated(m, "ho-1", "", "")
		if err != nil {
			t.Fatal(err)
		}
		gpus, _ := s.List(t.Context())
		if len(gpus) == 0 {
			t.Errorf("%s has no GPUs", m)
		}
		for _, g := range gpus {
			if !g.Simulated || !strings.HasPrefix(g.Name, "SIMULATED ") || !strings.HasPrefix(g.UUID, SimulatedUUIDPrefix) || len(g.UUID) != len("GPU-51300000-0000-0000-0000-000000000000") || seen[g.UUID] || g.VRAMMiB == 0 {
				t.Errorf("%s: %+v", m, g)
			}
			seen[g.UUID] = true
		}
	}
	other, _ := NewSimulated("8x4090", "ho-2", "", "")
	gpus, _ := other.List(t.Context())
	if seen[gpus[0].UUID] {
		t.Error("two hosts share a simulated UUID")
	}
	if _, err := NewSimulated("9x9999", "ho-1", "", ""); err == nil || !strings.Contains(err.Error(), "dgx-h100") {
		t.Errorf("an unknown machine: %v", err)
	}
}

func TestSimulatedNVIDIASMIShowsWhatIsGivenAndNeverPretends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := NewSimulated("8x4090", "ho-1", dir, "/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	gpus, _ := s.List(t.Context())
	a, err := s.Attach(t.Context(), []string{gpus[5].UUID})
	if err != nil {
		t.Fatal(err)
	}
	if a.Env["NVIDIA_VISIBLE_DEVICES"] != "void" || a.Env["SUANLI_SIMULATED_GPU"] != "1" {
		t.Errorf("environment: %v", a.Env)
	}
	var out bytes.Buffer
	if code := instance.NVIDIASMI(a.Mounts[0].Source, []string{"-L"}, &out, io.Discard); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if !strings.HasPrefix(out.String(), "suanli simulated GPU: no real device"+"\n") || !strings.Contains(out.String(), gpus[5].UUID) || strings.Contains(out.String(), gpus[4].UUID) {
		t.Errorf("output: %s", out.String())
	}
	out.Reset()
	if code := instance.NVIDIASMI(a.Mounts[0].Source, []string{"--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"}, &out, io.Discard); code != 0 || out.String() != "suanli simulated GPU: no real device\n0, SIMULATED GeForce RTX 4090 (no hardware), 24564\n" {
		t.Errorf("%d %q", code, out.String())
	}
	out.Reset()
	if code := instance.NVIDIASMI(a.Mounts[0].Source, []string{"--query-gpu=soul"}, &out, io.Discard); code == 0 {
		t.Error("an unknown field was answered")
	}
	if code := instance.NVIDIASMI(a.Mounts[0].Source, []string{"-pm", "1"}, &out, io.Discard); code == 0 {
		t.Error("a change pretended to succeed")
	}
	if code := instance.NVIDIASMI(filepath.Join(dir, "absent"), nil, &out, io.Discard); code == 0 {
		t.Error("no inventory, and exit code 0")
	}
}

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMDIsReadFromSysfs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	node, dev := "class/kfd/kfd/topology/nodes/", "class/drm/card1/device/"
	write(t, root, map[string]string{
		node + "0/gpu_id": "0", node + "0/properties": "cpu_cores_count 64\nsimd_count 0",
		node + "1/gpu_id":               "51500",
		node + "1/properties":           "simd_count 1216\ngfx_target_version 90402\nlocation_id 49408\ndomain 0\ndrm_render_minor 128",
		"class/drm/card0/device/vendor": "0x1a03",
		dev + "vendor":                  "0x1002", dev + "device": "0x74a1", dev + "drm/renderD128/dev": "226:128",
		dev + "mem_info_vram_total": "206141652992", dev + "mem_info_vram_used": "1048576000", dev + "gpu_busy_percent": "37",
		dev + "unique_id": "a1b2c3d4e5f60718", dev + "product_name": "AMD Instinct MI300X", dev + "numa_node": "1",
		dev + "max_link_speed": "32.0 GT/s PCIe", dev + "max_link_width": "16",
		dev + "hwmon/hwmon3/temp1_input": "41000", dev + "hwmon/hwmon3/power1_average": "152000000",
		dev + "ras/umc_err_count": "ue: 0\nce: 3",
		"module/amdgpu/version":   "6.10.5",
	})
	a := NewAMD(root)
	gpus, err := a.List(t.Context())
	if err != nil || len(gpus) != 1 {
		t.Fatalf("%+v %v", gpus, err)
	}
	g := gpus[0]
	if g.Name != "AMD Instinct MI300X" || g.UUID != "GPU-AMD-a1b2c3d4e5f60718" || g.VRAMMiB != 196592 || g.ComputeCapability != "gfx942" ||
		g.PCIBusID != "0000:c1:00.0" || g.PCIeGen != 5 || g.PCIeWidth != 16 || g.NUMANode != 1 || g.Driver != "6.10.5" || !g.ECCEnabled ||
		g.Stats.UsedMiB != 1000 || g.Stats.UtilizationPercent != 37 || g.Stats.TemperatureC != 41 || g.Stats.PowerWatts != 152 || g.Health.State != protocol.Healthy || g.Simulated {
		t.Errorf("%+v", g)
	}
	at, err := a.Attach(t.Context(), []string{g.UUID})
	if err != nil || !slices.Equal(at.Devices, []string{"/dev/kfd", "/dev/dri/renderD128"}) {
		t.Errorf("%+v %v", at, err)
	}
	write(t, root, map[string]string{dev + "ras/umc_err_count": "ue: 2\nce: 3"})
	if gpus, _ = a.List(t.Context()); gpus[0].Health.State != protocol.Fenced {
		t.Errorf("uncorrectable errors: %+v", gpus[0].Health)
	}
	if gpus, err := NewAMD(t.TempDir()).List(t.Context()); err != nil || len(gpus) != 0 {
		t.Errorf("a host without AMD: %+v %v", gpus, err)
	}
}

// broken is a source whose driver is gone.
type broken struct{}

func (broken) List(context.Context) ([]protocol.GPU, error) { return nil, errors.New("gone") }
func (broken) Attach(context.Context, []string) (runtime.Attachment, error) {
	return runtime.Attachment{}, errors.New("gone")
}
func (broken) Inside(context.Context, []string) ([]string, error) { return nil, errors.New("gone") }
func (broken) Close() error                                       { return nil }

func TestOneBrokenSourceDoesNotHideTheOthers(t *testing.T) {
	t.Parallel()
	sim, _ := NewSimulated("1xt4", "ho-1", "", "")
	s := Set{broken{}, sim}
	gpus, err := s.List(t.Context())
	if err == nil || len(gpus) != 1 {
		t.Fatalf("%+v %v", gpus, err)
	}
	if _, err := s.Attach(t.Context(), []string{gpus[0].UUID}); err != nil {
		t.Error(err)
	}
	if _, err := s.Attach(t.Context(), []string{"GPU-gone"}); runtime.CodeOf(err) != "gpu_missing" {
		t.Errorf("%v", err)
	}
}
