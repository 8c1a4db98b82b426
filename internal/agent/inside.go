package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/protocol"
)

// insidePatience is how long a look from inside of an instance may take. One that
// takes longer, as in an instance whose processes are at their limit, says nothing.
const insidePatience = 15 * time.Second

// insideLoop looks at every running instance's GPUs from inside. The host's own
// view stays good when something on it takes devices away from a container that
// runs, as a reload of its service manager does to device rules that it does not
// know; only a program in the container notices.
func (a *Agent) insideLoop(ctx context.Context) {
	wait := a.cfg.look
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		wait = a.cfg.look
		if !a.isAdopted() {
			continue
		}
		var looks sync.WaitGroup
		a.mu.Lock()
		for _, l := range a.leases {
			if l.rec.Phase == protocol.PhaseRunning && l.rec.Running == l.rec.Generation && len(l.rec.GPUs) > 0 {
				// All at once: one that hangs keeps no other waiting.
				looks.Go(func() { a.lookInside(ctx, l) })
			}
		}
		a.mu.Unlock()
		looks.Wait()
		a.mu.Lock()
		for _, l := range a.leases {
			if l.suspect != nil && l.gpuFault == nil {
				wait = a.cfg.look / 6 // is it so still?
			}
		}
		a.mu.Unlock()
	}
}

// lookInside asks one instance whether it can use its GPUs. What was seen twice in
// a row, while the host can use them, is the host's fault.
func (a *Agent) lookInside(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(ctx, insidePatience)
	defer cancel()
	a.mu.Lock()
	generation, uuids := l.rec.Generation, slices.Clone(l.rec.GPUs)
	a.mu.Unlock()
	began := a.cfg.clock()
	paths, err := a.gpus.Inside(ctx, uuids)
	if err != nil {
		return // the host cannot use them either, which its inventory tells
	}
	out, err := a.driver.Exec(ctx, l.id, append([]string{"instance", "probe", "gpus"}, paths...))
	if err != nil {
		a.log.Debug("an instance could not be asked for its GPUs", "lease", l.id, "error", err)
		return
	}
	var found probe.Result
	if json.Unmarshal(out, &found) != nil {
		return
	}
	var problems []string
	for _, path := range slices.Sorted(maps.Keys(found.Values)) {
		// What is not on the host at all, such as a list of simulated GPUs, cannot
		// be tried there.
		if err := probe.Usable(path); slices.Contains(paths, path) && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			// A renter's program could have had a hand in the text.
			problems = append(problems, strings.ToValidUTF8(found.Values[path][:min(200, len(found.Values[path]))], "?"))
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.rec.Phase != protocol.PhaseRunning || l.rec.Running != generation {
		return // it ended meanwhile
	}
	was := l.gpuFault
	switch {
	case len(problems) == 0:
		l.suspect, l.gpuFault = nil, nil
	case l.suspect == nil:
		l.suspect = &protocol.GPUFault{Since: began, Reason: "the running instance cannot use its GPUs any more, and the host can: " + strings.Join(problems, "; ")}
	default:
		l.gpuFault = l.suspect
	}
	if (was == nil) != (l.gpuFault == nil) {
		if was == nil {
			a.log.Error("an instance lost its GPUs while it runs", "lease", l.id, "reason", l.gpuFault.Reason)
		} else {
			a.log.Info("an instance can use its GPUs again", "lease", l.id)
		}
		a.poke()
	}
}
