package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// fill lets requests come until they ask for all GPUs of a small fleet, and returns
// what was placed, in thousandths of a GPU.
func fill(foresight int, seed uint64) int {
	p := Standard()
	p.Foresight = foresight
	f := NewFleet(p)
	total := 0
	for i := range 30 {
		h := Host{ID: fmt.Sprint("h", i), CPUMillis: 96_000, MemoryMiB: 1 << 19}
		gpus := 8
		if i%3 == 0 {
			gpus, h.CPUMillis = 2, 104_000
		}
		for k := range gpus {
			h.GPUs = append(h.GPUs, GPU{UUID: fmt.Sprint(k), Index: k, Model: "A", NUMA: -1, Free: true})
			total += WholeMilli
		}
		f.Set(h)
	}
	r := rand.New(rand.NewPCG(seed, seed))
	placed := 0
	for asked := 0; asked < total; {
		q := Request{Count: 1, CPUMillis: int64(4+4*r.IntN(4)) * 1000, MemoryMiB: 16 << 10}
		switch r.IntN(10) {
		case 0, 1:
			q.Share = Share{Kind: TimeSlicing, Milli: 650}
		case 2, 3:
			q.Share = Share{Kind: TimeSlicing, Milli: 470}
		case 4, 5:
			q.Share = Share{Kind: TimeSlicing, Milli: 320}
		case 6:
			q.Count, q.CPUMillis = 4, 32_000
		}
		n := int(q.gpus())
		asked += n
		f.Observe(q)
		if p, ok := f.Place(q); ok {
			f.Take(q, p)
			placed += n
		}
	}
	return placed
}

func TestAFutureFillsAHostAsFarAsItsCPULasts(t *testing.T) {
	t.Parallel()
	f := NewFleet(Standard())
	for range 40 {
		f.Observe(Request{Count: 1, Share: Share{Kind: MPS, Milli: 500}, CPUMillis: 8000})
	}
	f.Set(Host{ID: "h", CPUMillis: 64_000, GPUs: []GPU{{UUID: "g", Model: "A", NUMA: -1, Free: true}}})
	n := f.nodes["h"]
	for cpu, want := range map[int64]int64{7999: 0, 8000: 500, 15_999: 500, 16_000: 1000, 64_000: 1000} {
		if got := f.holds(n.hw, n.slots, amounts{cpu}); got != want*futures {
			t.Errorf("with %d thousandths of a core a host holds %d thousandths of a GPU in %d futures, want %d in each", cpu, got, futures, want)
		}
	}
}

func TestImaginedFuturesAreTheSameForTheSameMix(t *testing.T) {
	t.Parallel()
	if a, b := fill(16, 7), fill(16, 7); a != b {
		t.Errorf("the same requests were placed to %d and %d thousandths of a GPU", a, b)
	}
}
