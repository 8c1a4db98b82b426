package agent

import (
	"testing"

	"suanli.dev/internal/protocol"
)

// C12: what keeps a GPU from being offered to the next renter.
func TestMemoryOrAProcessOnAGPUWithoutALeaseIsDirt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stats protocol.GPUStats
		dirty bool
	}{
		"nothing":                        {},
		"what a driver needs itself":     {stats: protocol.GPUStats{UsedMiB: cleanMiB}},
		"more than that, and no process": {stats: protocol.GPUStats{UsedMiB: cleanMiB + 1}, dirty: true},
		"all of it":                      {stats: protocol.GPUStats{UsedMiB: 81559}, dirty: true},
		"a process without memory":       {stats: protocol.GPUStats{Processes: []protocol.Process{{PID: 7}}}, dirty: true},
	} {
		if reason := dirtReason(protocol.GPU{Stats: c.stats}); (reason != "") != c.dirty {
			t.Errorf("%s: %q, want dirty %v", name, reason, c.dirty)
		}
	}
}
