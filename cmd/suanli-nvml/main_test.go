//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"

	"suanli.dev/internal/agent/gpu"
)

func TestHelperListsNVIDIAsOwnMockOfADGX(t *testing.T) {
	var out bytes.Buffer
	if err := serve(dgxh100.New(), strings.NewReader("list\nnonsense\nlist\n"), &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("answers: %d", len(lines))
	}
	var r gpu.Reply
	if err := json.Unmarshal([]byte(lines[1]), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.GPUs) != 8 || r.Error != "" {
		t.Fatalf("reply: %+v", r)
	}
	seen := map[string]bool{}
	for _, d := range r.GPUs {
		if !strings.HasPrefix(d.UUID, "GPU-") || seen[d.UUID] || d.VRAMMiB == 0 || !strings.Contains(d.Name, "H100") || d.ComputeCapability != "9.0" {
			t.Errorf("device: %+v", d)
		}
		seen[d.UUID] = true
	}
}

func TestHelperWithoutADriverSaysSo(t *testing.T) {
	var out bytes.Buffer
	lib := nvml.New(nvml.WithLibraryPath("/no/such/library.so"))
	if err := serve(lib, strings.NewReader("list\n"), &out); err != nil {
		t.Fatal(err)
	}
	var r gpu.Reply
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if !r.NoDriver || len(r.GPUs) != 0 {
		t.Errorf("reply: %+v", r)
	}
}
