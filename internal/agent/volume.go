package agent

import (
	"context"
	"fmt"
	"path"
	"strings"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// maxVolumes bounds the volumes of one instance.
const maxVolumes = 16

// VolumeCommand makes a volume or removes it, and returns when that is done: it is
// files on this host's disk, and takes no longer than a disk of a lease does.
func (a *Agent) VolumeCommand(ctx context.Context, c protocol.VolumeCommand) protocol.CommandResult {
	if !runtime.ValidVolumeID(c.VolumeID) || c.Present && (c.SizeMiB < 16 || c.SizeMiB > maxMiB) {
		return protocol.CommandResult{Code: "bad_spec", Message: fmt.Sprintf("a volume %q of %d MiB: want an id of a-z, 0-9 and -, and 16 to %d MiB", c.VolumeID, c.SizeMiB, maxMiB)}
	}
	if !a.isAdopted() {
		return protocol.CommandResult{Code: "not_ready", Message: "the agent has not heard from its container engine yet; send the command again"}
	}
	act := func(ctx context.Context, id string) error {
		a.stopTransfers(func(_ string, t *transfer) bool { return t.volume == id })
		return a.driver.EraseVolume(ctx, id)
	}
	if c.Present {
		act = func(ctx context.Context, id string) error { return a.driver.MakeVolume(ctx, id, c.SizeMiB) }
	}
	if err := act(ctx, c.VolumeID); err != nil {
		code := runtime.CodeOf(err)
		if code == "" {
			code = "not_ready"
		}
		a.log.Warn("a volume is not as it was commanded", "volume", c.VolumeID, "present", c.Present, "code", code, "error", err)
		return protocol.CommandResult{Code: code, Message: err.Error()}
	}
	a.poke() // free disk has changed
	return protocol.CommandResult{Accepted: true}
}

func checkVolumes(list []protocol.VolumeMount) error {
	if len(list) > maxVolumes {
		return fmt.Errorf("%d volumes: want at most %d", len(list), maxVolumes)
	}
	seen := map[string]bool{}
	for _, m := range list {
		if !runtime.ValidVolumeID(m.VolumeID) {
			return fmt.Errorf("volume id %q: want 1 to 63 of a-z, 0-9 and -", m.VolumeID)
		}
		if !path.IsAbs(m.Path) || path.Clean(m.Path) != m.Path || m.Path == "/" || strings.ContainsAny(m.Path, "\x00:") {
			return fmt.Errorf("volume %s at %q: want an absolute path", m.VolumeID, m.Path)
		}
		if seen[m.Path] || seen[m.VolumeID] {
			return fmt.Errorf("volume %s at %q: each volume and each path once", m.VolumeID, m.Path)
		}
		seen[m.Path], seen[m.VolumeID] = true, true
	}
	return nil
}
