package instance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"suanli.dev/internal/protocol"
)

func TestSimulatedSMIAlwaysSaysWhatItIs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gpus.json")
	b, err := json.Marshal([]protocol.GPU{{UUID: "GPU-51300000-1", Name: "NVIDIA H100", VRAMMiB: 81920, Driver: "580.65.06", Stats: protocol.GPUStats{UsedMiB: 20, UtilizationPercent: 7}}})
	if err == nil {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args   string
		code   int
		prints string
	}{
		{"", 0, "SIMULATED H100 (no hardware)"},
		{"-L", 0, "GPU 0: SIMULATED H100 (no hardware) (UUID: GPU-51300000-1)"},
		{"-q", 0, "81920 MiB"},
		{"--query-gpu=uuid,memory.used,utilization.gpu --format=csv,noheader", 0, "GPU-51300000-1, 20 MiB, 7 %"},
		{"--query-gpu=name,memory.total --format=csv,nounits", 0, "name, memory.total\nSIMULATED H100 (no hardware), 81920\n"},
		{"--query-gpu=name", 1, ""},
		{"--query-gpu=fan.speed --format=csv", 1, ""},
		{"-pm 1", 1, ""},
		{"topo -m", 1, ""},
	} {
		var stdout, stderr bytes.Buffer
		code := NVIDIASMI(path, strings.Fields(tc.args), &stdout, &stderr)
		if code != tc.code || !strings.Contains(stdout.String(), tc.prints) {
			t.Errorf("nvidia-smi %s: exit code %d, want %d and %q in\n%s%s", tc.args, code, tc.code, tc.prints, &stdout, &stderr)
		}
		if first, _, _ := strings.Cut(stdout.String(), "\n"); first != "suanli simulated GPU: no real device" {
			t.Errorf("nvidia-smi %s: first line %q", tc.args, first)
		}
		if tc.code != 0 && stderr.Len() == 0 {
			t.Errorf("nvidia-smi %s failed without a word", tc.args)
		}
	}
	if code := NVIDIASMI(path+".absent", nil, &bytes.Buffer{}, &bytes.Buffer{}); code == 0 {
		t.Error("succeeded without GPUs")
	}
}

func TestWordsAreSplitAsAShellDoes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		`a b`:          {"a", "b"},
		`  a	 b `:      {"a", "b"},
		`'a b' "c d"`:  {"a b", "c d"},
		`a\ b ""`:      {"a b", ""},
		`'a\b' "q\"q"`: {`a\b`, `q"q`},
		`x'y'z`:        {"xyz"},
		`"unfinished`:  nil,
		``:             nil,
	} {
		got, err := splitWords(line)
		if (err != nil) != (want == nil) || strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}
