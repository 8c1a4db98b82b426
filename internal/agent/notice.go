package agent

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"suanli.dev/internal/protocol"
)

const (
	// noticePatience is how long an instance may take to be told.
	noticePatience = 15 * time.Second
	// noticeSlack is by how much the end of a notice may be told wrong: each
	// answer of the control plane says anew how long it is until then.
	noticeSlack = 5 * time.Second
)

// takeNotice keeps when the control plane takes a lease's place away, as it has
// just said. The caller holds a.mu.
func (a *Agent) takeNotice(l *lease) {
	l.ends = time.Time{}
	if in := l.rec.Limits.InterruptIn; in > 0 {
		l.ends = time.Now().Add(in)
	}
	if l.untold() {
		select {
		case a.notices <- struct{}{}:
		default:
		}
	}
}

// untold reports whether the running instance was told otherwise than it is. The
// caller holds a.mu.
func (l *lease) untold() bool {
	if l.rec.Phase != protocol.PhaseRunning || l.rec.Running != l.rec.Generation {
		return false
	}
	told := l.rec.Told
	if l.rec.ToldRun != l.rec.Running {
		told = time.Time{} // by an earlier container; the first process of this one removed it
	}
	if l.ends.IsZero() || told.IsZero() {
		return !l.ends.Equal(told)
	}
	return l.ends.Sub(told).Abs() > noticeSlack || l.rec.ToldReason != l.rec.Limits.InterruptReason
}

// noticeLoop tells instances when they will be interrupted.
func (a *Agent) noticeLoop(ctx context.Context) {
	for {
		select {
		case <-a.notices:
		case <-ctx.Done():
			return
		}
		var tell sync.WaitGroup
		a.mu.Lock()
		for _, l := range a.leases {
			if l.untold() {
				// All at once: one that hangs keeps no other waiting.
				tell.Go(func() { a.tellNotice(ctx, l) })
			}
		}
		a.mu.Unlock()
		tell.Wait()
	}
}

// tellNotice writes the notice into an instance, or takes it away. What fails is
// tried again at the control plane's next answer.
func (a *Agent) tellNotice(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(ctx, noticePatience)
	defer cancel()
	a.mu.Lock()
	ends, run, reason := l.ends, l.rec.Running, l.rec.Limits.InterruptReason
	a.mu.Unlock()
	text := ""
	if !ends.IsZero() {
		b, err := json.Marshal(protocol.Interruption{InterruptAt: ends.UTC().Round(time.Second), ToldAt: time.Now().UTC().Round(time.Second), Reason: reason})
		if err != nil {
			return
		}
		text = string(b)
	}
	if _, err := a.driver.Exec(ctx, l.id, []string{"instance", "interruption", text}); err != nil {
		a.log.Warn("an instance could not be told of its interruption", "lease", l.id, "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l.rec.Told, l.rec.ToldRun, l.rec.ToldReason = ends, run, reason
	a.keep(l)
}
