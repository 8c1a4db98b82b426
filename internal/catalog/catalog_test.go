package catalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func loaded(t *testing.T, folder string) *Catalog {
	t.Helper()
	c, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDriverNamesLeadToTheirModels(t *testing.T) {
	t.Parallel()
	c := loaded(t, "")
	for _, tt := range []struct {
		name    string
		vramMiB int64
		model   string
		known   bool
	}{
		{"NVIDIA GeForce RTX 4090", 24564, "RTX 4090", true},
		{"NVIDIA GeForce RTX 4090 D", 24564, "RTX 4090 D", true},
		{"NVIDIA GeForce RTX 3080", 10240, "RTX 3080 10GB", true},
		{"NVIDIA GeForce RTX 3080", 12288, "RTX 3080 12GB", true},
		{"NVIDIA GeForce RTX 3060", 12288, "RTX 3060 12GB", true},
		{"NVIDIA H100 80GB HBM3", 81559, "H100 SXM", true},
		{"NVIDIA H100 PCIe", 81559, "H100 PCIe", true},
		{"NVIDIA H200", 143771, "H200 SXM", true},
		{"NVIDIA A100-SXM4-40GB", 40960, "A100 SXM 40GB", true},
		{"NVIDIA A100-SXM4-80GB", 81920, "A100 SXM 80GB", true},
		{"NVIDIA A100 80GB PCIe", 81920, "A100 PCIe 80GB", true},
		{"NVIDIA B200", 183359, "B200", true},
		{"NVIDIA L40S", 46068, "L40S", true},
		{"NVIDIA A10", 23028, "A10", true},
		{"Tesla T4", 15360, "T4", true},
		{"Tesla V100-SXM2-16GB", 16160, "V100 SXM2 16GB", true},
		{"NVIDIA RTX 6000 Ada Generation", 49140, "RTX 6000 Ada", true},
		{"NVIDIA RTX A6000", 49140, "RTX A6000", true},
		{"AMD Instinct MI300X", 196592, "MI300X", true},
		{"nvidia  geforce rtx 4090", 0, "RTX 4090", true},
		{"NVIDIA GeForce RTX 4090 Laptop GPU", 16376, "RTX 4090 Laptop GPU", false},
		{"NVIDIA GeForce RTX 4090", 49140, "RTX 4090", false}, // with twice the memory it is another card
		{"NVIDIA Z9000", 100000, "Z9000", false},
	} {
		m, known := c.Lookup(tt.name, tt.vramMiB)
		if m.Name != tt.model || known != tt.known {
			t.Errorf("%s with %d MiB is %q (known: %v), want %q (%v)", tt.name, tt.vramMiB, m.Name, known, tt.model, tt.known)
		}
	}
}

func TestFiguresAreThoseOfTheDataSheetsOrAbsent(t *testing.T) {
	t.Parallel()
	c := loaded(t, "")
	for name, fp32 := range map[string]int{"A100 SXM 80GB": 195, "V100 SXM2 16GB": 157, "RTX 3090": 356, "RTX 4090": 826, "A10G": 0, "L20": 0} {
		m, ok := c.Model(name)
		if !ok || m.FP32DeciTFLOPS != fp32 {
			t.Errorf("%s: %d tenths of a TFLOPS, want %d", name, m.FP32DeciTFLOPS, fp32)
		}
	}
	for _, m := range c.Models() {
		if m.Source == "" || m.ComputeCapability == "" || m.VRAMGB == 0 || (m.Vendor != "nvidia" && m.Vendor != "amd") {
			t.Errorf("%+v lacks what each row has", m)
		}
	}
}

func TestMaxCUDAFollowsTheDriver(t *testing.T) {
	t.Parallel()
	c := loaded(t, "")
	for driver, want := range map[string]string{
		"550.54.15": "12.4", "550.54.14": "12.4", "550.54.13": "12.3", "535.104.05": "12.2", "570.124.06": "12.8", "470.82.01": "11.4", "580.65.06": "13.0",
		"999.0": "13.3", "340.108": "", "": "", "nonsense": "",
	} {
		if got := c.MaxCUDA(driver); got != want {
			t.Errorf("driver %q: CUDA %q, want %q", driver, got, want)
		}
	}
	for cuda, want := range map[string]string{"12.4": "525.60.13", "13.0": "580", "11.8": "450.80.02", "7.0": ""} {
		if got := c.MinDriver(cuda); got != want {
			t.Errorf("CUDA %s: driver %q, want %q", cuda, got, want)
		}
	}
}

func TestVersionsCompareByNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"12.10", "12.9", 1}, {"12.4", "12.4.0", 0}, {"550.54.15", "550.54.2", 1}, {"8.9", "9.0", -1}, {"", "1", -1}} {
		if got := CompareVersions(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q compare as %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestNoTemplateAsksForADriverTooOldForItsCUDA(t *testing.T) {
	t.Parallel()
	c := loaded(t, "")
	if len(c.Templates()) < 5 {
		t.Fatalf("%d templates, want at least 5", len(c.Templates()))
	}
	for _, tpl := range c.Templates() {
		if tpl.Needs.CUDA == "" {
			continue
		}
		if lowest := c.MinDriver(tpl.Needs.CUDA); lowest == "" || CompareVersions(tpl.Needs.Driver, lowest) < 0 {
			t.Errorf("template %s needs CUDA %s and driver %q, which is below %q", tpl.Name, tpl.Needs.CUDA, tpl.Needs.Driver, lowest)
		}
	}
	if _, ok := c.Template("digits"); !ok || !c.HasZone("local", "local-1") || c.HasZone("local", "x") || c.HasZone("x", "") {
		t.Error("the demo's template and zone are not there, or too many are")
	}
}

// overlay writes files into a folder of an operator's.
func overlay(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestOperatorsFolderAddsAndReplaces(t *testing.T) {
	t.Parallel()
	c := loaded(t, overlay(t, map[string]string{
		"gpus.csv":              "model,vendor,compute_capability,vram_gb,source\nZ9000,nvidia,13.0,512,own measurement\nT4,nvidia,7.5,16,own measurement\n",
		"names.csv":             "name,model\nZ9000-SXM,Z9000\n",
		"regions.yaml":          "regions:\n  - id: cn-east\n    name: East China\n    zones:\n      - id: cn-east-1\n        name: One\n",
		"templates/debian.yaml": "name: debian\nimage: debian:13\ndisk_gib: 10\n",
		"templates/mine.yaml":   "name: mine\nimage: example/mine:1\ndisk_gib: 5\nports:\n  - port: 80\n    protocol: http\n",
	}))
	if m, ok := c.Lookup("NVIDIA Z9000-SXM", 0); !ok || m.VRAMGB != 512 {
		t.Errorf("the operator's GPU is %+v", m)
	}
	if m, _ := c.Model("T4"); m.Source != "own measurement" {
		t.Errorf("the operator's row did not replace: %+v", m)
	}
	if tpl, _ := c.Template("debian"); tpl.Image != "debian:13" {
		t.Errorf("the operator's template did not replace: %+v", tpl)
	}
	if _, ok := c.Template("mine"); !ok || !c.HasZone("cn-east", "cn-east-1") || !c.HasZone("local", "") {
		t.Error("the operator's template or region is not there")
	}
}

func TestMistakesInAnOperatorsFolderAreNamedWithTheirLine(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		file, text, want string
	}{
		"unknown key":       {"templates/a.yaml", "name: a\nimage: x\ndisk_gib: 5\nimagee: y\n", "[4:1]"},
		"wrong type":        {"templates/a.yaml", "name: a\nimage: x\ndisk_gib: five\n", "[3:"},
		"no image":          {"templates/a.yaml", "name: a\ndisk_gib: 5\n", "no image"},
		"no disk":           {"templates/a.yaml", "name: a\nimage: x\n", "disk_gib is 0"},
		"negative disk":     {"templates/a.yaml", "name: a\nimage: x\ndisk_gib: -5\n", "disk_gib is -5"},
		"port out of range": {"templates/a.yaml", "name: a\nimage: x\ndisk_gib: 5\nports:\n  - port: 70000\n    protocol: tcp\n", "port 70000"},
		"bad variable":      {"templates/a.yaml", "name: a\nimage: x\ndisk_gib: 5\nenvironment:\n  \"A B\": c\n", "environment variable"},
		"bad name":          {"templates/a.yaml", "name: A/b\nimage: x\ndisk_gib: 5\n", "name \"A/b\""},
		"unknown column":    {"gpus.csv", "model,speed\nX,9\n", "unknown column \"speed\""},
		"no source":         {"gpus.csv", "model,vram_gb\nX,9\n", "line 2"},
		"not a number":      {"gpus.csv", "model,vram_gb,source\nX,lots,me\n", "line 2"},
		"name of no model":  {"names.csv", "name,model\nX,Y\n", "line 2"},
		"bad granularity":   {"regions.yaml", "regions:\n  - id: a\n    granularity: day\n", "granularity \"day\""},
		"bad minimum":       {"regions.yaml", "regions:\n  - id: a\n    minimum_seconds: -1\n", "minimum_seconds -1"},
		"bad region":        {"regions.yaml", "regions:\n  - id: Ä\n", "region id"},
	} {
		_, err := Load(overlay(t, map[string]string{tt.file: tt.text}))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), tt.file) {
			t.Errorf("%s: got %v, want %q in %s", name, err, tt.want, tt.file)
		}
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a folder that is not there was accepted")
	}
}
