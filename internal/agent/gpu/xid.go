package gpu

import (
	"fmt"
	"slices"

	"suanli.dev/internal/protocol"
)

// fencingXids are NVIDIA error numbers that mean damaged or lost hardware. All
// others, such as 13, 31, 43, 45 and 68, are programs' faults or news, and are
// only noted. From NVIDIA's list of Xid errors.
var fencingXids = map[int]string{
	48: "double-bit memory error",
	63: "a memory row is being remapped",
	64: "a memory row could not be remapped",
	74: "NVLink error",
	79: "the GPU has fallen off the bus",
	94: "contained memory error",
	95: "uncontained memory error",
}

// Judge says how fit a GPU is after these Xids since boot.
func Judge(xids []int) protocol.Health {
	for _, x := range slices.Backward(xids) {
		if what, bad := fencingXids[x]; bad {
			return protocol.Health{State: protocol.Fenced, Reason: fmt.Sprintf("Xid %d: %s", x, what), Xids: xids}
		}
	}
	return protocol.Health{State: protocol.Healthy, Xids: xids}
}
