package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"suanli.dev/internal/agent/meter"
	"suanli.dev/internal/agent/overlay"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// lease is one lease on this host. Everything but id and wake is guarded by
// Agent.mu.
type lease struct {
	id   string
	wake chan struct{} // capacity 1

	rec      record
	started  bool // its goroutine runs
	abort    context.CancelFunc
	progress protocol.Progress
	stats    runtime.Stats
	cpu      int // percent of one CPU
	gpu      int
	sessions int
	streams  int  // open connections to its ports through the gateway
	working  bool // a program inside says so
	idle     meter.Idle
	statsAt  time.Duration
	tries    int
	// suspect is a fault of its GPUs that was seen once, gpuFault one that was seen
	// twice in a row.
	suspect  *protocol.GPUFault
	gpuFault *protocol.GPUFault

	// firstSeq is the first report that named the lease; answers to earlier ones
	// prove nothing about it. missing counts complete answers without it.
	firstSeq int64
	missing  int
	lastSave protocol.Instant

	ends time.Time // when its place is taken away; zero: it is not

	// The private network of its cluster. meshOf is the generation whose container it is
	// in; meshErr is why there is none.
	mesh    *overlay.Mesh
	meshOf  int64
	meshErr error
	peers   []protocol.Peer
}

func newLease(id string) *lease { return &lease{id: id, wake: make(chan struct{}, 1)} }

func (l *lease) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// launch starts the lease's goroutine. The caller holds a.mu.
func (a *Agent) launch(ctx context.Context, l *lease) {
	if l.started {
		return
	}
	l.started = true
	a.wg.Add(1)
	go func() {
		defer a.wg.Done()
		a.work(ctx, l)
	}()
}

// work brings one lease to its wanted state, again and again.
func (a *Agent) work(ctx context.Context, l *lease) {
	pause := 200 * time.Millisecond
	for {
		opCtx, cancel := context.WithCancel(ctx)
		a.mu.Lock()
		l.abort = cancel
		generation, want := l.rec.Generation, l.rec.Want
		a.mu.Unlock()
		err := a.reconcile(opCtx, l)
		cancel()

		a.mu.Lock()
		gone := l.rec.Phase == protocol.PhaseAbsent
		superseded := l.rec.Generation != generation || l.rec.Want != want
		next := a.nextDeadline(l)
		a.mu.Unlock()
		if ctx.Err() != nil || gone {
			return
		}
		wait := 10 * time.Second
		switch {
		case superseded:
			wait = 0
		case err != nil:
			a.log.Warn("a lease is not in its wanted state yet", "lease", l.id, "generation", generation, "want", want, "error", err, "again_in_ms", pause.Milliseconds())
			wait = pause
			pause = min(2*pause, 15*time.Second)
		default:
			pause = 200 * time.Millisecond
			wait = min(wait, next)
		}
		select {
		case <-l.wake:
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// nextDeadline is how long until a limit of the lease may be reached. The caller
// holds a.mu.
func (a *Agent) nextDeadline(l *lease) time.Duration {
	next := time.Hour
	for _, limit := range []time.Duration{l.rec.Limits.PaidFor, l.rec.Limits.StopIn} {
		if limit > 0 {
			passed, _ := since(a.cfg.clock(), l.rec.LimitsAt)
			next = min(next, max(limit-passed, 0)+time.Millisecond)
		}
	}
	return next
}

// enforce stops the lease's run if a limit is reached. The caller holds a.mu.
func (a *Agent) enforce(l *lease) {
	r := &l.rec
	if r.Want != protocol.WantRunning || r.Final || r.StopCode != "" {
		return
	}
	passed, same := since(a.cfg.clock(), r.LimitsAt)
	if !same {
		return // another boot: nothing of that run is left
	}
	switch {
	case r.Limits.StopIn > 0 && passed >= r.Limits.StopIn:
		r.StopCode, r.StopReason = "deadline", "the lease's deadline was reached"
	case r.Limits.PaidFor > 0 && passed >= r.Limits.PaidFor:
		r.StopCode, r.StopReason = "unpaid", fmt.Sprintf("the control plane was not heard for %s, which is as long as the lease was paid for", r.Limits.PaidFor.Round(time.Second))
	default:
		return
	}
	a.keep(l)
}

// reconcile takes the lease one step closer to what is wanted, or all the way.
func (a *Agent) reconcile(ctx context.Context, l *lease) error {
	if !a.isAdopted() {
		return nil // the engine has not answered yet; adoption wakes the lease
	}
	a.mu.Lock()
	a.enforce(l)
	rec := l.rec
	a.mu.Unlock()

	state, err := a.driver.Inspect(ctx, l.id)
	if err != nil {
		return err
	}
	switch {
	case rec.Want == protocol.WantAbsent:
		return a.clear(ctx, l, state, "commanded", "")
	case rec.Want == protocol.WantStopped:
		return a.halt(ctx, l, state, "commanded", "")
	case rec.StopCode != "" && !rec.Final:
		return a.halt(ctx, l, state, rec.StopCode, rec.StopReason)
	case rec.Final:
		if state.Exists { // the agent died between the end and the removal
			return a.halt(ctx, l, state, rec.Code, rec.Reason)
		}
		return a.release(ctx, l)
	case state.Exists && state.Generation != rec.Generation:
		// Left by an older generation; the disk stays for the new one.
		if err := a.takeDown(ctx, l, state); err != nil {
			return err
		}
		a.endRun(l, "superseded", state)
		if err := a.release(ctx, l); err != nil {
			return err
		}
		a.set(l, func(r *record) { r.Started, r.Stopped, r.Alive = nil, nil, nil })
		return a.bringUp(ctx, l, runtime.State{})
	case state.Exists && state.Running:
		a.joinMesh(ctx, l, state.Generation)
		a.confirmRunning(l, state)
		return nil
	case state.Exists && !state.NeverRan:
		return a.ended(ctx, l, state)
	case !state.Exists && rec.Running == rec.Generation && rec.Generation > 0:
		// It ran and somebody removed it.
		return a.finish(ctx, l, state, "engine", "the container was removed from outside suanli")
	default:
		return a.bringUp(ctx, l, state)
	}
}

// set changes the lease's record and asks for a report.
func (a *Agent) set(l *lease, change func(*record)) {
	a.mu.Lock()
	change(&l.rec)
	a.keep(l)
	a.mu.Unlock()
	a.poke()
}

func (a *Agent) phase(l *lease, p protocol.Phase) {
	a.mu.Lock()
	same := l.rec.Phase == p
	a.mu.Unlock()
	if !same {
		a.set(l, func(r *record) { r.Phase = p })
	}
}

// lostTries is how often a lease is looked at, up to 15 s apart, before its secrets
// are given up: the control plane repeats its command much sooner.
const lostTries = 20

// bringUp pulls, makes and starts the instance.
func (a *Agent) bringUp(ctx context.Context, l *lease, state runtime.State) error {
	a.mu.Lock()
	rec := l.rec
	a.mu.Unlock()
	// One that was made already needs no more than to be started.
	if !rec.complete() && (!rec.Lost || !state.Exists) {
		a.mu.Lock()
		l.tries++
		tries := l.tries
		a.mu.Unlock()
		if rec.Lost && tries < lostTries {
			return errors.New("the host was started anew and has forgotten the instance's secrets; the control plane sends them with its next command")
		}
		return a.finish(ctx, l, state, "engine", "the agent has no description of the instance; send the command again under a new generation")
	}
	spec := *rec.Spec
	err := a.up(ctx, l, rec, spec, state)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a.mu.Lock()
	l.tries++
	tries := l.tries
	superseded := l.rec.Generation != rec.Generation || l.rec.Want != rec.Want
	a.mu.Unlock()
	if superseded {
		return nil
	}
	code := runtime.CodeOf(err)
	if code == "" {
		if _, infoErr := a.driver.Info(ctx); infoErr != nil || tries < 3 {
			return err // the engine is away, or may have stumbled: again
		}
		code = "engine"
	}
	a.log.Warn("an instance could not start", "lease", l.id, "generation", rec.Generation, "code", code, "error", err)
	return a.finish(ctx, l, state, code, err.Error())
}

func (a *Agent) up(ctx context.Context, l *lease, rec record, spec protocol.InstanceSpec, state runtime.State) error {
	if err := a.takeGPUs(l, spec.GPUs); err != nil {
		return err
	}
	if !state.Exists {
		attach, err := a.gpus.Attach(ctx, spec.GPUs)
		if err != nil {
			return err
		}
		a.phase(l, protocol.PhasePulling)
		image, err := a.driver.Pull(ctx, runtime.PullRequest{
			Reference: spec.Image, MaxBytes: spec.DiskMiB << 20, Stall: a.cfg.PullStall,
			Progress: func(p protocol.Progress) { a.pullProgress(l, p) },
		})
		if err != nil {
			return err
		}
		a.phase(l, protocol.PhaseCreating)
		key, err := hostKey(a.leaseDir(l.id))
		if err != nil {
			return err
		}
		err = a.driver.Create(ctx, runtime.Container{
			LeaseID: l.id, Generation: rec.Generation, Image: image,
			Settings: settings(l.id, rec.Generation, spec, image, attach, key, append(slices.Clone(a.cfg.GatewayKeys), spec.GatewayKeys...)),
			GPUs:     attach, GPUUUIDs: spec.GPUs, CPUMillis: spec.CPUMillis, MemoryMiB: spec.MemoryMiB, DiskMiB: spec.DiskMiB,
			PIDs: spec.PIDs, ShmMiB: spec.ShmMiB, DirectPorts: spec.DirectPorts, OpenPrivate: spec.OpenPrivate, EgressPorts: spec.EgressPorts, Volumes: spec.Volumes,
			Isolation: firstOf(spec.Isolation, a.cfg.Isolation),
		})
		if err != nil {
			// What was half made must not be mistaken for a container to start.
			if cleanErr := a.driver.Remove(context.WithoutCancel(ctx), l.id); cleanErr != nil {
				err = errors.Join(err, cleanErr)
			}
			return err
		}
	}
	a.phase(l, protocol.PhaseCreating)
	// After a crash in between, the engine itself tells whether it ran.
	if err := a.driver.Start(ctx, l.id); err != nil {
		return err
	}
	a.joinMesh(ctx, l, rec.Generation)
	a.confirmRunning(l, runtime.State{Generation: rec.Generation})
	return nil
}

func firstOf(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

func (a *Agent) pullProgress(l *lease, p protocol.Progress) {
	a.mu.Lock()
	l.progress = p
	a.mu.Unlock()
}

// takeGPUs makes sure that no other lease on this host holds the GPUs, and that
// none of them is unfit. The control plane should never ask for such.
func (a *Agent) takeGPUs(l *lease, uuids []string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, u := range uuids {
		for id, other := range a.leases {
			if id != l.id && slices.Contains(other.rec.GPUs, u) {
				return fmt.Errorf("the GPU %s is still held by another lease", u)
			}
		}
		if h, bad := a.health[u]; bad {
			return &runtime.Error{Code: "gpu_missing", Reason: fmt.Sprintf("the GPU %s is %s: %s", u, h.State, h.Reason)}
		}
	}
	l.rec.GPUs = slices.Clone(uuids)
	return a.save(l)
}

// confirmRunning notes that the instance runs, and since when.
func (a *Agent) confirmRunning(l *lease, state runtime.State) {
	a.mu.Lock()
	now := a.cfg.clock()
	if l.rec.Phase == protocol.PhaseRunning && l.rec.Running == state.Generation && l.rec.Started != nil && l.rec.Started.BootID == now.BootID {
		l.rec.Alive = &now
		a.mu.Unlock()
		return
	}
	l.rec.Phase, l.rec.Running, l.rec.Alive, l.rec.Stopped = protocol.PhaseRunning, state.Generation, &now, nil
	l.rec.Started = &now
	l.rec.Code, l.rec.Reason, l.rec.ExitCode = "", "", nil
	l.tries = 0
	l.idle = meter.Idle{}
	l.suspect, l.gpuFault = nil, nil
	a.keep(l)
	a.mu.Unlock()
	a.poke()
	a.log.Info("an instance runs", "lease", l.id, "generation", state.Generation)
}

// ended handles a container whose processes are gone.
func (a *Agent) ended(ctx context.Context, l *lease, state runtime.State) error {
	code, reason := "exited", fmt.Sprintf("the command ended with exit code %d", state.ExitCode)
	switch {
	case state.OOMKilled:
		code, reason = "oom_killed", "the instance used more memory than its limit and was killed"
	case state.Code != "":
		code, reason = state.Code, state.Reason // the engine ended it, and not its command
	}
	return a.finish(ctx, l, state, code, reason)
}

// halt stops the instance, keeping its disk.
func (a *Agent) halt(ctx context.Context, l *lease, state runtime.State, code, reason string) error {
	a.mu.Lock()
	done := l.rec.Final && !state.Exists && len(l.rec.GPUs) == 0 && l.rec.Phase == protocol.PhaseStopped
	a.mu.Unlock()
	if done {
		return nil
	}
	return a.finish(ctx, l, state, code, reason)
}

// finish ends the present generation's run: processes, container, network; then
// the GPUs are proven clean, and only then it counts as stopped or failed.
func (a *Agent) finish(ctx context.Context, l *lease, state runtime.State, code, reason string) error {
	a.mu.Lock()
	final := l.rec.Final
	a.mu.Unlock()
	if !final {
		a.phase(l, protocol.PhaseStopping)
	}
	if err := a.takeDown(ctx, l, state); err != nil {
		return err
	}
	a.endRun(l, code, state)
	if err := a.release(ctx, l); err != nil {
		return err
	}
	a.set(l, func(r *record) {
		if r.Final && r.Code != "" {
			return // the first reason stands
		}
		ran := r.Running == r.Generation || state.Exists && !state.NeverRan || code == "commanded" || r.StopCode != ""
		r.Phase = protocol.PhaseFailed
		if ran {
			r.Phase = protocol.PhaseStopped
		}
		r.Final, r.Code, r.Reason = true, code, reason
		if state.Exists && !state.Running && !state.NeverRan && (code == "exited" || code == "oom_killed") {
			exit := state.ExitCode
			r.ExitCode = &exit
		}
		if r.Stopped == nil {
			now := a.cfg.clock()
			r.Stopped = &now
		}
		r.Running = 0
	})
	a.mu.Lock()
	if l.rec.Want != protocol.WantAbsent && l.rec.Phase == protocol.PhaseStopping {
		l.rec.Phase = protocol.PhaseStopped
		a.keep(l)
	}
	a.mu.Unlock()
	a.log.Info("an instance ended", "lease", l.id, "code", code)
	return nil
}

// takeDown stops and removes the container; its output is kept first.
func (a *Agent) takeDown(ctx context.Context, l *lease, state runtime.State) error {
	defer a.leaveMesh(l)
	if state.Exists && state.Running {
		if err := a.driver.Stop(ctx, l.id, a.cfg.StopGrace); err != nil {
			return err
		}
		after, err := a.driver.Inspect(ctx, l.id)
		if err != nil {
			return err
		}
		if after.Running {
			return errors.New("the engine said that it stopped the container, and it still runs")
		}
		a.noteStopped(l, runtime.State{})
	} else if state.Exists {
		a.noteStopped(l, state)
	}
	a.meter(ctx) // the last reading before the counters go
	if state.Exists {
		if err := a.keepLogs(ctx, l.id, state.Generation); err != nil {
			a.log.Error("an instance's output could not be kept", "lease", l.id, "error", err)
		}
	}
	if err := a.driver.Remove(ctx, l.id); err != nil {
		return err
	}
	a.mu.Lock()
	l.rec.Egress.Reset()
	l.rec.Ingress.Reset()
	a.keep(l)
	a.mu.Unlock()
	return nil
}

// noteStopped dates the end of the run. The engine dates it by the wall clock,
// which may have jumped; the result is held between the last time the instance
// was seen alive and now.
func (a *Agent) noteStopped(l *lease, state runtime.State) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.rec.Started == nil || l.rec.Stopped != nil {
		return
	}
	now := a.cfg.clock()
	if l.rec.Started.BootID != now.BootID {
		last := *l.rec.Started
		if l.rec.Alive != nil && l.rec.Alive.BootID == last.BootID {
			last = *l.rec.Alive
		}
		l.rec.Stopped = &last // the host went down; what is after the last sign of life is not charged
		return
	}
	at := now
	if !state.FinishedAt.IsZero() {
		at.Nanos -= max(time.Since(state.FinishedAt), 0).Nanoseconds()
		low := l.rec.Started.Nanos
		if l.rec.Alive != nil && l.rec.Alive.BootID == now.BootID {
			low = l.rec.Alive.Nanos
		}
		at.Nanos = min(max(at.Nanos, low), now.Nanos)
	}
	l.rec.Stopped = &at
}

// endRun writes a run that has ended to the list that waits for acknowledgement.
func (a *Agent) endRun(l *lease, code string, state runtime.State) {
	a.mu.Lock()
	if l.rec.Started == nil || l.rec.Running == 0 {
		a.mu.Unlock()
		return
	}
	a.mu.Unlock()
	a.noteStopped(l, state)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.past {
		if p.LeaseID == l.id && p.Generation == l.rec.Running && p.Started == *l.rec.Started {
			return // written before a crash
		}
	}
	if l.rec.Final {
		return
	}
	stopped := *l.rec.Stopped
	a.past = append(a.past, protocol.PastRun{ID: a.nextPast, LeaseID: l.id, Generation: l.rec.Running, Started: *l.rec.Started, Stopped: &stopped, Code: code, EgressBytes: l.rec.Egress.Total})
	a.nextPast++
	a.savePast()
	if l.rec.Running != l.rec.Generation {
		l.rec.Running = 0
		a.keep(l)
	}
}

// clear removes everything of the lease.
func (a *Agent) clear(ctx context.Context, l *lease, state runtime.State, code, reason string) error {
	a.phase(l, protocol.PhaseStopping)
	if err := a.takeDown(ctx, l, state); err != nil {
		return err
	}
	a.endRun(l, code, state)
	if err := a.driver.Erase(ctx, l.id); err != nil {
		return err
	}
	if err := a.release(ctx, l); err != nil {
		return err
	}
	a.mu.Lock()
	// The fence comes first: a crash after it leaves a folder to clear again, a
	// crash before it would leave an older generation acceptable.
	err := a.fence(l.id, l.rec.Generation)
	if err == nil {
		err = os.RemoveAll(filepath.Join(a.leaseDir(l.id), "lease.json"))
	}
	if err == nil {
		err = errors.Join(os.RemoveAll(filepath.Join(a.leaseDir(l.id), "host_key")), overlay.EraseKey(a.leaseDir(l.id)))
	}
	if err == nil {
		err = removeUnfinished(a.leaseDir(l.id))
	}
	if err == nil {
		// Not RemoveAll: a mount that was missed must not be emptied.
		err = os.Remove(a.leaseDir(l.id))
	}
	if err == nil {
		l.rec.Phase, l.rec.Code, l.rec.Reason, l.rec.Spec, l.rec.Final = protocol.PhaseAbsent, code, reason, nil, true
	}
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("remove what is left of lease %s: %w", l.id, err)
	}
	a.poke()
	a.log.Info("a lease has left the host", "lease", l.id)
	return nil
}

// release proves the lease's GPUs clean and lets go of them.
func (a *Agent) release(ctx context.Context, l *lease) error {
	a.mu.Lock()
	held := slices.Clone(l.rec.GPUs)
	a.mu.Unlock()
	if len(held) == 0 {
		return nil
	}
	if err := a.proveClean(ctx, held); err != nil {
		return err
	}
	a.set(l, func(r *record) { r.GPUs = nil })
	return nil
}
