package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/protocol"
)

// cleanMiB is how much memory of a GPU may be in use with nobody on it: the
// driver's own.
const cleanMiB = 640

// unfit is why a GPU is not offered. A fence remembers the boot in which it was
// put up: a new start of the agent does not repair hardware.
type unfit struct {
	protocol.Health
	BootID string `json:"boot_id"`
}

// dirtReason says what of g is left over from a lease; "" if nothing is.
func dirtReason(g protocol.GPU) string {
	if len(g.Stats.Processes) > 0 {
		return fmt.Sprintf("process %d still holds its memory", g.Stats.Processes[0].PID)
	}
	if g.Stats.UsedMiB > cleanMiB {
		return fmt.Sprintf("%d MiB of its memory are still in use", g.Stats.UsedMiB)
	}
	return ""
}

// proveClean waits until nothing of an ended run is left on the GPUs. Those that
// do not get clean are marked dirty, which keeps them from being offered, and the
// lease goes on: its renter is not to blame for a driver that forgets.
func (a *Agent) proveClean(ctx context.Context, uuids []string) error {
	deadline := a.cfg.clock()
	var gpus []protocol.GPU
	var err error
	for {
		gpus, err = a.gpus.List(ctx)
		dirty := err != nil
		for _, g := range gpus {
			dirty = dirty || slices.Contains(uuids, g.UUID) && dirtReason(g) != ""
		}
		waited, _ := since(a.cfg.clock(), deadline)
		if !dirty || waited >= a.cfg.CleanWait {
			break
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := false
	for _, u := range uuids {
		i := slices.IndexFunc(gpus, func(g protocol.GPU) bool { return g.UUID == u })
		reason := ""
		switch {
		case err != nil:
			reason = "the driver does not answer, so it is not proven clean: " + err.Error()
		case i < 0:
			continue // lost; its absence from the inventory withdraws it
		default:
			reason = dirtReason(gpus[i])
		}
		if reason != "" && a.health[u].State != protocol.Fenced {
			a.health[u] = unfit{Health: protocol.Health{State: protocol.Dirty, Reason: reason}}
			changed = true
			a.log.Error("a GPU is not clean after its lease ended, and is withdrawn", "gpu", u, "reason", reason)
		}
	}
	if changed {
		a.saveHealth()
	}
	return nil
}

// refreshGPUs lists the GPUs, keeps hardware faults fenced, and takes back dirty
// ones that have become clean.
func (a *Agent) refreshGPUs(ctx context.Context) {
	gpus, err := a.gpus.List(ctx)
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if (a.gpuErr == nil) != (err == nil) {
		a.poke()
	}
	a.gpuErr = err
	if err != nil && len(gpus) == 0 {
		return
	}
	held := map[string]bool{}
	for _, l := range a.leases {
		for _, u := range l.rec.GPUs {
			held[u] = true
		}
	}
	changed := false
	for _, g := range gpus {
		a.stats[g.UUID] = g.Stats
		was, bad := a.health[g.UUID]
		switch {
		case g.Health.State == protocol.Fenced && was.State != protocol.Fenced:
			a.health[g.UUID] = unfit{Health: g.Health, BootID: a.cfg.clock().BootID}
			changed = true
			a.log.Error("a GPU has a hardware fault and is fenced", "gpu", g.UUID, "reason", g.Health.Reason)
		case bad && was.State == protocol.Dirty && !held[g.UUID] && err == nil && dirtReason(g) == "":
			delete(a.health, g.UUID)
			changed = true
		}
	}
	if len(gpus) != len(a.seen) {
		changed = true
	}
	if err == nil {
		a.seen = gpus
	}
	if changed {
		a.saveHealth()
		a.wantInv = true
		a.poke()
	}
}

// unfence lets GPUs back that a probe found working, if the host was started anew
// since they were fenced and the driver has nothing against them now.
func (a *Agent) unfence(working []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := false
	for _, g := range a.seen {
		h, ok := a.health[g.UUID]
		if ok && h.State == protocol.Fenced && h.BootID != a.cfg.clock().BootID && g.Health.State == protocol.Healthy && slices.Contains(working, g.UUID) {
			delete(a.health, g.UUID)
			changed = true
			a.log.Info("a GPU passed its probe and is offered again", "gpu", g.UUID)
		}
	}
	if changed {
		a.saveHealth()
		a.wantInv = true
		a.poke()
	}
}
