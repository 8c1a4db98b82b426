package meter

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCounterNeverGoesDownWhateverTheKernelSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c Counter
		before := int64(0)
		for range rapid.IntRange(1, 50).Draw(t, "readings") {
			c.Read(rapid.Int64Range(-5, 1<<40).Draw(t, "raw"))
			if c.Total < before {
				t.Fatalf("from %d to %d", before, c.Total)
			}
			before = c.Total
		}
	})
}

func TestCounterAddsUpOverAReset(t *testing.T) {
	t.Parallel()
	var c Counter
	for _, raw := range []int64{100, 100, 250, 40, 60} {
		c.Read(raw)
	}
	if c.Total != 310 {
		t.Errorf("total %d, want 250 before the reset and 60 after", c.Total)
	}
	c.Reset()
	c.Read(500)
	if c.Total != 810 {
		t.Errorf("total %d", c.Total)
	}
}

func TestIdleNeedsTheWholeWindowWithNothingGoingOn(t *testing.T) {
	t.Parallel()
	window := Thresholds{Window: time.Hour, GPUPercent: 5, CPUPercent: 10}
	quiet := Usage{Known: true, GPUPercent: 1, CPUPercent: 2}
	for name, busy := range map[string]Usage{
		"a session":              {Known: true, Sessions: 1},
		"a quiet program works":  {Known: true, Working: true},
		"the GPU works":          {Known: true, GPUPercent: 6},
		"the CPU works":          {Known: true, CPUPercent: 11},
		"it says nothing at all": {},
	} {
		var i Idle
		i.Observe(0, quiet, window)
		if i.Observe(59*time.Minute, quiet, window) {
			t.Errorf("%s: stopped before the window", name)
		}
		if i.Observe(time.Hour, busy, window) {
			t.Errorf("%s: stopped while busy", name)
		}
		if i.Observe(61*time.Minute, quiet, window) || i.Observe(2*time.Hour, quiet, window) {
			t.Errorf("%s: the window did not begin again", name)
		}
		if !i.Observe(121*time.Minute, quiet, window) {
			t.Errorf("%s: never idle", name)
		}
	}
	var i Idle
	if i.Observe(0, quiet, Thresholds{}) || i.Observe(100*time.Hour, quiet, Thresholds{}) {
		t.Error("idle without a window")
	}
}
