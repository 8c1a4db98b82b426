package placement

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// host has n free GPUs on two NUMA nodes, with these NVLinks between pairs.
func host(id string, n int, links ...[3]int) Host {
	h := Host{ID: id, CPUMillis: 1000, MemoryMiB: 1000, DiskMiB: 1000}
	for i := range n {
		h.GPUs = append(h.GPUs, GPU{UUID: fmt.Sprintf("%s-%d", id, i), Index: i, Model: "M", NUMA: i * 2 / max(n, 1), Free: true})
	}
	for _, l := range links {
		a, b, count := l[0], l[1], l[2]
		h.GPUs[a].Links = append(h.GPUs[a].Links, Link{Peer: h.GPUs[b].UUID, Count: count})
		h.GPUs[b].Links = append(h.GPUs[b].Links, Link{Peer: h.GPUs[a].UUID, Count: count})
	}
	return h
}

func (h Host) taken(indexes ...int) Host {
	h.GPUs = slices.Clone(h.GPUs)
	for _, i := range indexes {
		h.GPUs[i].Free = false
	}
	return h
}

func (h Host) switched() Host {
	h.GPUs = slices.Clone(h.GPUs)
	for i := range h.GPUs {
		h.GPUs[i].Links = []Link{{Count: 18}}
	}
	return h
}

func TestGPUsAreChosenByTopologyThenByWhatStaysWhole(t *testing.T) {
	t.Parallel()
	pairs := [][3]int{{0, 1, 4}, {2, 3, 4}, {4, 5, 4}, {6, 7, 4}}
	// A cube mesh as of a V100 machine: some pairs have two links, some one.
	mesh := [][3]int{{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {1, 2, 2}, {1, 3, 1}, {2, 3, 1}}
	for name, tt := range map[string]struct {
		host  Host
		count int
		want  []int
	}{
		"a pair that is linked":             {host("h", 8, pairs...).taken(0), 2, []int{2, 3}},
		"one from a broken pair":            {host("h", 8, pairs...).taken(3), 1, []int{2}},
		"the doubly linked":                 {host("h", 4, mesh...), 2, []int{1, 2}},
		"one NUMA node without links":       {host("h", 8).taken(1, 3), 3, []int{4, 5, 6}},
		"the fuller NUMA node for one":      {host("h", 8).taken(5), 1, []int{4}},
		"all of a switch":                   {host("h", 8).switched(), 8, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"one node of a switch":              {host("h", 8).switched().taken(0), 4, []int{4, 5, 6, 7}},
		"two linked pairs of one node":      {host("h", 8, pairs...), 4, []int{0, 1, 2, 3}},
		"a lost GPU leaves the rest usable": {host("h", 8, pairs...).taken(3), 7, []int{0, 1, 2, 4, 5, 6, 7}},
	} {
		got, err := Choose([]Host{tt.host}, Request{Models: []string{"M"}, Count: tt.count})
		var want []string
		for _, i := range tt.want {
			want = append(want, fmt.Sprintf("h-%d", i))
		}
		if err != nil || !slices.Equal(got.GPUs, want) {
			t.Errorf("%s: chose %v, %v; want %v", name, got.GPUs, err, want)
		}
	}
}

func TestTheFullerOfTwoHostsIsTaken(t *testing.T) {
	t.Parallel()
	got, err := Choose([]Host{host("a", 8), host("b", 8).taken(0, 1, 2, 3)}, Request{Models: []string{"M"}, Count: 4})
	if err != nil || got.HostID != "b" {
		t.Errorf("chose %+v, %v; want host b, which leaves a whole", got, err)
	}
	got, err = Choose([]Host{host("b", 2), host("a", 2)}, Request{Models: []string{"M"}, Count: 1})
	if err != nil || got.HostID != "a" {
		t.Errorf("chose %+v, %v; want host a of two equal ones, whatever their order", got, err)
	}
}

func TestRefusalGroupsHostsByWhatTheyLack(t *testing.T) {
	t.Parallel()
	small := host("a", 4).taken(0, 1, 2)
	_, err := Choose([]Host{small, host("b", 4), host("c", 4), host("d", 4)}, Request{Models: []string{"M"}, Count: 2, CPUMillis: 2000, MemoryMiB: 1, DiskMiB: 1})
	var refusal *Refusal
	want := []Group{{Reason: ReasonCPU, Hosts: []string{"b", "c", "d"}, Wanted: 2000, Most: 1000}, {Reason: ReasonGPU, Hosts: []string{"a"}, Wanted: 2, Most: 1}}
	if !errors.As(err, &refusal) || !reflect.DeepEqual(refusal.Groups, want) {
		t.Fatalf("refusal %+v", refusal)
	}
	if got := err.Error(); got != "3 hosts: 2000 m CPU wanted, at most 1000 free; 1 hosts: 2 GPUs wanted, at most 1 free" {
		t.Errorf("it reads %q", got)
	}
	if c := refusal.Changes; len(c) != 1 || c[0].Field != ReasonCPU || c[0].From != 2000 || c[0].To != 1000 {
		t.Errorf("changes %+v; want 1000 m CPU", c)
	}
	for reason, r := range map[Reason]Request{ReasonMemory: {MemoryMiB: 1001}, ReasonDisk: {DiskMiB: 1001}, ReasonModel: {Models: []string{"other"}, Count: 1}} {
		_, err := Choose([]Host{host("a", 1)}, r)
		if !errors.As(err, &refusal) || refusal.Groups[0].Reason != reason {
			t.Errorf("want %s lacking, got %v", reason, err)
		}
	}
	if _, err := Choose(nil, Request{}); err == nil {
		t.Error("a host was chosen of none")
	}
}

// Whatever the host: the choice is of free GPUs of the model, as many as asked
// for, each once, the same each time and whatever the order they are given in.
func TestChoiceIsFreeDistinctAndRepeatable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(t, "gpus")
		h := Host{ID: "h"}
		for i := range n {
			g := GPU{
				UUID: fmt.Sprint("g", i), Index: i, Model: rapid.SampledFrom([]string{"M", "N"}).Draw(t, "model"),
				NUMA: rapid.IntRange(-1, 3).Draw(t, "numa"), Free: rapid.Bool().Draw(t, "free"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "links") {
				peer := "" // a switch
				if p := rapid.IntRange(-1, n).Draw(t, "peer"); p >= 0 {
					peer = fmt.Sprint("g", p) // perhaps itself, or one that is not there
				}
				g.Links = append(g.Links, Link{Peer: peer, Count: rapid.IntRange(0, 18).Draw(t, "count")})
			}
			h.GPUs = append(h.GPUs, g)
		}
		r := Request{Models: []string{"M"}, Count: rapid.IntRange(0, 10).Draw(t, "want")}
		usable := map[string]bool{}
		for _, g := range h.GPUs {
			if g.Free && g.Model == "M" {
				usable[g.UUID] = true
			}
		}
		got, err := Choose([]Host{h}, r)
		if (err == nil) != (len(usable) >= r.Count) {
			t.Fatalf("%d usable, %d wanted: %v", len(usable), r.Count, err)
		}
		if err != nil {
			return
		}
		if len(got.GPUs) != r.Count {
			t.Fatalf("%d chosen, %d wanted", len(got.GPUs), r.Count)
		}
		for _, uuid := range got.GPUs {
			if !usable[uuid] {
				t.Fatalf("%s is not usable, or chosen twice", uuid)
			}
			delete(usable, uuid)
		}
		slices.Reverse(h.GPUs)
		again, err := Choose([]Host{h}, r)
		if err != nil || !slices.Equal(again.GPUs, got.GPUs) {
			t.Fatalf("chose %v, and %v of the same in another order", got.GPUs, again.GPUs)
		}
	})
}

func BenchmarkChooseHalfOfAHostOfEight(b *testing.B) {
	h := host("h", 8).switched()
	for b.Loop() {
		if _, err := Choose([]Host{h}, Request{Models: []string{"M"}, Count: 4}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChooseHalfOfAHostOfSixteen(b *testing.B) {
	h := host("h", 16).switched()
	for b.Loop() {
		if _, err := Choose([]Host{h}, Request{Models: []string{"M"}, Count: 8}); err != nil {
			b.Fatal(err)
		}
	}
}
