package cluster

import (
	"strings"
	"testing"
	"time"
)

func TestARunWhoseGPUsSpinAndWhoseRanksAreSilentIsToldOfAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, 1)
	k := w.create(2, 1)
	r := w.launch(k, Launch{})
	w.runs(r, RunRunning, 2*time.Minute)
	use := func(percent int) {
		w.set(func(_ int, h *fakeHost) {
			for _, i := range h.instances {
				i.GPUPercent = percent
			}
		})
	}
	told := func() bool { return w.run(r.ID).Code == codeNoProgress }
	quiet := func(what string, most time.Duration) {
		t.Helper()
		for end := w.clock().Add(most); w.clock().Before(end); {
			if w.pass(); told() {
				t.Fatalf("it is said to make no progress: %s", what)
			}
		}
	}
	use(40)
	quiet("its GPUs are not busy", 20*time.Minute)
	use(100)
	for range 4 {
		w.mu.Lock()
		for _, x := range w.ranks {
			x.status.Printed += 80
		}
		w.mu.Unlock()
		quiet("it prints now and then", 14*time.Minute)
	}
	silent := w.clock()
	w.until("it is told of", 5*time.Minute, told)
	if after := w.clock().Sub(silent); after > 2*time.Minute {
		t.Errorf("it is told of %s late", after)
	}
	if now := w.run(r.ID); now.State != RunRunning || !strings.Contains(now.Message, "15m0s") {
		t.Errorf("it is %s: %s", now.State, now.Message)
	}
	w.mu.Lock()
	for _, x := range w.ranks {
		x.status.Printed++
	}
	w.mu.Unlock()
	w.until("it is taken back", time.Minute, func() bool { return !told() })
	for _, x := range w.on(r, 0) {
		w.exits(x, 0)
	}
	w.runs(r, RunSucceeded, time.Minute)
}
