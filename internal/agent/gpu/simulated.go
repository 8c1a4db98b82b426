package gpu

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// SimulatedUUIDPrefix begins the UUID of every simulated GPU; no real one has it.
const SimulatedUUIDPrefix = "GPU-51300000-"

//go:embed machines/*.json
var machines embed.FS

// machine is a recorded inventory: what nvidia-smi -q said of one.
type machine struct {
	Description string         `json:"description"`
	Source      string         `json:"source"`
	Count       int            `json:"count"`
	GPU         protocol.GPU   `json:"gpu"`
	IdleStats   map[string]int `json:"idle"` // "temperature_c", "power_watts"
	NVLinks     []int          `json:"nv_links_by_switch"`
}

// Machines lists what can be simulated.
func Machines() []string {
	entries, _ := fs.ReadDir(machines, "machines")
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return names
}

// Simulated offers the GPUs of a recorded machine.
type Simulated struct {
	gpus   []protocol.GPU
	dir    string // where inventories for instances are written
	binary string // answers as nvidia-smi inside
}

// NewSimulated returns the GPUs of the named machine, with UUIDs that stay the
// same for a host. Files for instances go to dir; binary is the static binary
// that answers as nvidia-smi.
func NewSimulated(name, hostID, dir, binary string) (*Simulated, error) {
	b, err := machines.ReadFile("machines/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("no machine %q can be simulated; there are: %s", name, strings.Join(Machines(), ", "))
	}
	var m machine
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("read the inventory of %s: %w", name, err)
	}
	s := &Simulated{dir: dir, binary: binary}
	for i := range m.Count {
		g := m.GPU
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", hostID, name, i))
		g.UUID = fmt.Sprintf("%s%x-%x-%x-%x", SimulatedUUIDPrefix, sum[0:2], sum[2:4], sum[4:6], sum[6:12])
		g.Index = i
		g.PCIBusID = fmt.Sprintf("00000000:%02X:00.0", 0x10+i*8)
		g.NUMANode = i * 2 / m.Count
		g.Name = "SIMULATED " + strings.TrimPrefix(m.GPU.Name, "NVIDIA ") + " (no hardware)"
		g.Simulated = true
		g.Health = protocol.Health{State: protocol.Healthy}
		g.Stats = protocol.GPUStats{TemperatureC: m.IdleStats["temperature_c"], PowerWatts: m.IdleStats["power_watts"]}
		for _, links := range m.NVLinks {
			g.NVLinks = append(g.NVLinks, protocol.Link{Links: links})
		}
		s.gpus = append(s.gpus, g)
	}
	return s, nil
}

// List implements Source.
func (s *Simulated) List(context.Context) ([]protocol.GPU, error) { return slices.Clone(s.gpus), nil }

// Inside implements Source. Emptying the file of a set of GPUs in the folder of
// simulated GPUs takes them from the instance that has them; a new instance gets
// them again. That is how the loss of GPUs is tried without any.
func (s *Simulated) Inside(_ context.Context, uuids []string) ([]string, error) {
	for _, u := range uuids {
		if !slices.ContainsFunc(s.gpus, func(g protocol.GPU) bool { return g.UUID == u }) {
			return nil, missing(u)
		}
	}
	return []string{protocol.InstanceGPUs}, nil
}

// Attach implements Source. There is no device and no driver library, so that a
// CUDA program fails and does not pretend.
func (s *Simulated) Attach(_ context.Context, uuids []string) (runtime.Attachment, error) {
	var given []protocol.GPU
	for _, u := range uuids {
		i := slices.IndexFunc(s.gpus, func(g protocol.GPU) bool { return g.UUID == u })
		if i < 0 {
			return runtime.Attachment{}, missing(u)
		}
		given = append(given, s.gpus[i])
	}
	a := runtime.Attachment{Env: map[string]string{"SUANLI_SIMULATED_GPU": "1", "NVIDIA_VISIBLE_DEVICES": "void"}}
	if s.dir == "" || s.binary == "" {
		return a, nil
	}
	b, err := json.Marshal(given)
	if err != nil {
		return runtime.Attachment{}, err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return runtime.Attachment{}, err
	}
	// Named by content: the same set of GPUs makes the same file, and nothing piles up.
	path := filepath.Join(s.dir, fmt.Sprintf("gpus-%x.json", sha256.Sum256(b))[:29]+".json")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		return runtime.Attachment{}, err
	}
	a.Mounts = []runtime.Mount{{Source: path, Target: protocol.InstanceGPUs}, {Source: s.binary, Target: "/usr/bin/nvidia-smi"}}
	return a, nil
}

// Close implements Source.
func (s *Simulated) Close() error { return nil }
