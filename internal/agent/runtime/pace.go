package runtime

import (
	"context"
	"sync"
	"time"
)

// slowest is the slowest download that is worth waiting for, in bytes a second: a
// line of one Mbit/s. GPUs are held meanwhile, and nobody pays for them.
const slowest = 128 << 10

// firstByteWait is how long a registry may take to say anything.
const firstByteWait = 30 * time.Second

// pace ends a download that does not begin, or that is too slow over a window of
// time. How long it takes in all does not matter: the size of an image and the
// speed of a line say nothing about how long is too long.
type pace struct {
	mu     sync.Mutex
	window time.Duration
	got    int64 // in this window
	begun  bool
	fired  bool
	timer  *time.Timer
	cancel context.CancelFunc
}

func newPace(ctx context.Context, window time.Duration) (context.Context, *pace) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pace{window: window, cancel: cancel}
	p.timer = time.AfterFunc(min(firstByteWait, window), p.look)
	return ctx, p
}

// need is how much has to come in a window.
func (p *pace) need() int64 { return slowest * int64(p.window/time.Millisecond) / 1000 }

func (p *pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun || p.got < p.need() {
		p.fired = true
		p.cancel()
		return
	}
	p.got = 0 // enough came at its beginning
	p.timer.Reset(p.window)
}

// note takes in n more bytes. The window begins anew once enough has come.
func (p *pace) note(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fired {
		return
	}
	p.got += n
	if !p.begun || p.got >= p.need() {
		if p.begun {
			p.got = 0
		}
		p.begun = true
		p.timer.Reset(p.window)
	}
}

func (p *pace) tooSlow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fired
}

func (p *pace) stop() { p.timer.Stop(); p.cancel() }

// silence ends work that shows no sign of life.
type silence struct {
	timer  *time.Timer
	length time.Duration
}

func newSilence(ctx context.Context, length time.Duration) (context.Context, *silence) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, &silence{timer: time.AfterFunc(length, cancel), length: length}
}

func (s *silence) broken() { s.timer.Reset(s.length) }
func (s *silence) stop()   { s.timer.Stop() }
