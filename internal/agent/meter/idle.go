package meter

import "time"

// Usage is one look at a running instance.
type Usage struct {
	GPUPercent int
	CPUPercent int
	Sessions   int
	Working    bool // a program inside says that it has work going on
	Known      bool // false: the instance does not answer, so it counts as busy
}

// Thresholds say what is idle: both percentages below, for the whole window.
type Thresholds struct {
	Window     time.Duration // 0: never idle
	GPUPercent int
	CPUPercent int
}

// Idle follows one instance. Its zero value is ready.
type Idle struct {
	since time.Duration
	idle  bool
}

// Observe takes in a look at time now, a reading of a clock that does not jump,
// and reports whether the instance has been idle for the whole window. A changed
// window counts from the same beginning.
func (i *Idle) Observe(now time.Duration, u Usage, t Thresholds) bool {
	if t.Window <= 0 || !u.Known || u.Sessions > 0 || u.Working || u.GPUPercent > t.GPUPercent || u.CPUPercent > t.CPUPercent {
		i.idle = false
		return false
	}
	if !i.idle {
		i.idle, i.since = true, now
	}
	return now-i.since >= t.Window
}
