package lease

import (
	"context"
	"math"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/protocol"
)

// What a lease used is kept for people to look at: the last hour in points of
// twenty seconds and the last day in points of ten minutes, in memory alone, as
// a write per heartbeat is what running leases must not cost. A full history is
// 9 KiB.
const (
	fineStep   = 20 * time.Second
	finePast   = time.Hour
	coarseStep = 10 * time.Minute
	coarsePast = 24 * time.Hour
)

// silence is how long nothing may be heard of a lease before what comes next is
// no continuation: its counters are not spread over the time between.
const silence = time.Minute

// Sample is what a running lease used over a step of time, as its host says.
type Sample struct {
	At               time.Time // end of the step
	GPUPercent       int       // mean over its GPUs
	CPUPercent       int       // of one CPU
	GPUMemoryMiB     int64     // on all its GPUs together
	MemoryMiB        int64
	DiskMiB          int64
	EgressPerSecond  int64 // bytes
	IngressPerSecond int64 // bytes
}

// Recent is what a lease used lately.
type Recent struct {
	Lease   *Lease
	Step    time.Duration // between samples, while it runs and its host is heard
	Samples []Sample      // oldest first; where it did not run there are none
	// Now is the newest reading, which no sample may have yet; nil: none came.
	Now *Sample
}

// Recent returns what a lease of the caller's used over the past, which is up to
// a day; more than an hour is told in coarser steps. It forgets at a restart of
// the control plane, and when the lease is over.
func (s *Service) Recent(ctx context.Context, p account.Principal, nameOrID string, past time.Duration) (Recent, error) {
	l, err := s.Resolve(ctx, p, nameOrID)
	if err != nil {
		return Recent{}, err
	}
	return s.recent(l, past), nil
}

func (s *Service) recent(l *Lease, past time.Duration) Recent {
	out := Recent{Lease: l, Step: fineStep}
	if past > finePast {
		out.Step = coarseStep
	}
	from := s.Clock().Add(-past)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.live[l.ID]
	if t == nil || t.used == nil {
		return out
	}
	series := &t.used.fine
	if past > finePast {
		series = &t.used.coarse
	}
	for _, x := range series.points() {
		if sample := x.sample(); sample.At.After(from) {
			out.Samples = append(out.Samples, sample)
		}
	}
	if now := t.used.now; !now.At.IsZero() && now.At.After(from) {
		out.Now = &now
	}
	return out
}

// used is the history of one lease.
type used struct {
	fine, coarse series
	now          Sample
	out, in      int64 // counters at now
}

func newUsed() *used {
	return &used{
		fine:   series{step: fineStep, most: int(finePast / fineStep)},
		coarse: series{step: coarseStep, most: int(coarsePast / coarseStep)},
	}
}

// take adds a reading.
func (u *used) take(at time.Time, st *protocol.InstanceStatus, stats map[string]protocol.GPUStats, gpus []string) {
	s := Sample{At: at, GPUPercent: st.GPUPercent, CPUPercent: st.CPUPercent, MemoryMiB: st.MemoryUsedMiB, DiskMiB: st.DiskUsedMiB}
	for _, g := range gpus {
		s.GPUMemoryMiB += stats[g].UsedMiB
	}
	passed := at.Sub(u.now.At)
	if passed <= 0 {
		return
	}
	if u.now.At.IsZero() || passed > silence {
		u.fine.begin(at)
		u.coarse.begin(at)
	} else {
		s.EgressPerSecond = perSecond(st.EgressBytes-u.out, passed)
		s.IngressPerSecond = perSecond(st.IngressBytes-u.in, passed)
		u.fine.add(s, passed)
		u.coarse.add(s, passed)
	}
	u.now, u.out, u.in = s, st.EgressBytes, st.IngressBytes
}

// perSecond is a rate; counters that went down say nothing.
func perSecond(bytes int64, over time.Duration) int64 {
	if bytes <= 0 {
		return 0
	}
	return int64(float64(bytes) / over.Seconds())
}

// point is a Sample in little room: hosts that report nonsense have it cut off.
type point struct {
	at                     uint32 // seconds of Unix time
	gpuMemory, memory, dsk uint32 // MiB
	out, in                uint32 // KiB a second
	cpu                    uint16
	gpu                    uint8
}

func (p point) sample() Sample {
	return Sample{
		At: time.Unix(int64(p.at), 0).UTC(), GPUPercent: int(p.gpu), CPUPercent: int(p.cpu),
		GPUMemoryMiB: int64(p.gpuMemory), MemoryMiB: int64(p.memory), DiskMiB: int64(p.dsk),
		EgressPerSecond: int64(p.out) << 10, IngressPerSecond: int64(p.in) << 10,
	}
}

// series is a ring of points, each the mean over a step.
type series struct {
	step time.Duration
	most int
	ring []point
	next int // where the next one goes, once the ring is full

	began time.Time // of the step under way
	sum   [7]float64
	over  float64 // seconds that the sum is of
}

// begin forgets the step under way.
func (s *series) begin(at time.Time) { s.began, s.sum, s.over = at, [7]float64{}, 0 }

// add counts a reading that stands for the time that passed before it.
func (s *series) add(x Sample, passed time.Duration) {
	weight := passed.Seconds()
	for i, v := range []int64{int64(x.GPUPercent), int64(x.CPUPercent), x.GPUMemoryMiB, x.MemoryMiB, x.DiskMiB, x.EgressPerSecond, x.IngressPerSecond} {
		s.sum[i] += float64(max(0, v)) * weight
	}
	s.over += weight
	if x.At.Sub(s.began) < s.step {
		return
	}
	mean := func(i int, most float64) float64 { return min(math.Round(s.sum[i]/s.over), most) }
	p := point{
		at: uint32(x.At.Unix()), gpu: uint8(mean(0, 100)), cpu: uint16(mean(1, math.MaxUint16)), //nolint:gosec // bounded by mean; until 2106
		gpuMemory: uint32(mean(2, math.MaxUint32)), memory: uint32(mean(3, math.MaxUint32)), dsk: uint32(mean(4, math.MaxUint32)),
		out: uint32(min(math.Round(s.sum[5]/s.over/1024), math.MaxUint32)), in: uint32(min(math.Round(s.sum[6]/s.over/1024), math.MaxUint32)),
	}
	s.begin(x.At)
	if len(s.ring) < s.most {
		if len(s.ring) == cap(s.ring) { // not by append, which would make room for more than there will be
			grown := make([]point, len(s.ring), min(s.most, max(8, 2*len(s.ring))))
			copy(grown, s.ring)
			s.ring = grown
		}
		s.ring = append(s.ring, p)
		return
	}
	s.ring[s.next] = p
	s.next = (s.next + 1) % s.most
}

// points returns them oldest first.
func (s *series) points() []point {
	return append(append(make([]point, 0, len(s.ring)), s.ring[s.next:]...), s.ring[:s.next]...)
}

// NowUsed returns the newest reading of a lease; nil: none came. Who may see the
// lease is the caller's to check.
func (s *Service) NowUsed(leaseID string) *Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.live[leaseID]
	if t == nil || t.used == nil {
		return nil
	}
	now := t.used.now
	return &now
}
