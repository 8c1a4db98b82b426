package lease

import (
	"testing"
	"time"
	"unsafe"

	"suanli.dev/internal/protocol"
)

func TestWhatALeaseUsedIsKeptInBoundsAndNotSpreadOverSilence(t *testing.T) {
	t.Parallel()
	u, at := newUsed(), time.Unix(1_800_000_000, 0).UTC()
	st := &protocol.InstanceStatus{GPUPercent: 50, CPUPercent: 350, MemoryUsedMiB: 2048, DiskUsedMiB: 10, EgressBytes: 1 << 40}
	stats := map[string]protocol.GPUStats{"a": {UsedMiB: 100}, "b": {UsedMiB: 11}, "of another": {UsedMiB: 1 << 20}}
	beat := func(n int) {
		for range n {
			at = at.Add(10 * time.Second)
			st.EgressBytes += 10 << 20
			u.take(at, st, stats, []string{"a", "b"})
		}
	}
	beat(3 * 24 * 360) // three days
	fine, coarse := u.fine.points(), u.coarse.points()
	if len(fine) != 180 || len(coarse) != 144 || cap(u.fine.ring) != 180 || cap(u.coarse.ring) != 144 {
		t.Fatalf("%d fine and %d coarse points are kept in room for %d and %d", len(fine), len(coarse), cap(u.fine.ring), cap(u.coarse.ring))
	}
	if size := unsafe.Sizeof(point{}) * 324; size > 10<<10 {
		t.Errorf("a full history takes %d bytes", size)
	}
	for name, list := range map[string][]point{"fine": fine, "coarse": coarse} {
		last := list[len(list)-1].sample()
		for i, p := range list[1:] {
			if p.at <= list[i].at {
				t.Fatalf("the %s points are not in order at %d", name, i)
			}
		}
		if last.GPUPercent != 50 || last.CPUPercent != 350 || last.MemoryMiB != 2048 || last.GPUMemoryMiB != 111 || last.DiskMiB != 10 || last.EgressPerSecond != 1<<20 {
			t.Errorf("the last %s point is %+v", name, last)
		}
		if at.Sub(last.At) > u.coarse.step {
			t.Errorf("the last %s point is of %v, and it is %v", name, last.At, at)
		}
	}

	// Stopped for an hour: what was sent meanwhile (before the report came) is no
	// rate of now, and there are no points of the time between.
	at = at.Add(time.Hour)
	st.EgressBytes += 1 << 40
	beat(3)
	fine = u.fine.points()
	last, before := fine[len(fine)-1].sample(), fine[len(fine)-2].sample()
	if last.EgressPerSecond != 1<<20 || last.At.Sub(before.At) < time.Hour {
		t.Errorf("after the silence %+v, before %+v", last, before)
	}
}

func TestAHostThatReportsNonsenseFillsNoGraphWithIt(t *testing.T) {
	t.Parallel()
	u, at := newUsed(), time.Unix(1_800_000_000, 0)
	for i := range 10 {
		at = at.Add(10 * time.Second)
		u.take(at, &protocol.InstanceStatus{GPUPercent: 1 << 40, CPUPercent: -5, MemoryUsedMiB: 1 << 62, EgressBytes: int64(i%2) << 62, IngressBytes: -1 << 62}, nil, nil)
	}
	u.take(at.Add(-time.Hour), &protocol.InstanceStatus{}, nil, nil) // a clock that went back
	list := u.fine.points()
	if len(list) != 4 {
		t.Fatalf("%d points", len(list))
	}
	for _, p := range list {
		s := p.sample()
		if s.GPUPercent != 100 || s.CPUPercent != 0 || s.MemoryMiB != 1<<32-1 || s.IngressPerSecond != 0 || s.EgressPerSecond < 0 {
			t.Errorf("point %+v", s)
		}
	}
}
