package placement

import (
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var testModels = []string{"A100 40GB", "H100", "T4"}

// anyHost draws a host with all kinds of things on it, also such as cannot be.
func anyHost(t *rapid.T, id string) Host {
	h := Host{
		ID: id, Region: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "region"), Zone: rapid.SampledFrom([]string{"z1", "z2"}).Draw(t, "zone"),
		Rack: rapid.SampledFrom([]string{"k1", "k2", "k3"}).Draw(t, "rack"), Fabric: []string{"s1", rapid.SampledFrom([]string{"l1", "l2"}).Draw(t, "leaf")},
		CPUMillis: rapid.Int64Range(-5, 40).Draw(t, "cpu"), MemoryMiB: rapid.Int64Range(-5, 40).Draw(t, "memory"), DiskMiB: 40, NetworkMbps: 40, Ports: 4,
	}
	if rapid.Bool().Draw(t, "labelled") {
		h.Labels = map[string]string{"disk": "nvme"}
	}
	model := rapid.SampledFrom(testModels).Draw(t, "model")
	for i := range rapid.IntRange(0, 4).Draw(t, "gpus") {
		g := GPU{UUID: fmt.Sprint(id, "-", i), Index: i, Model: model, NUMA: i / 2, Free: rapid.IntRange(0, 3).Draw(t, "free") > 0}
		if rapid.IntRange(0, 5).Draw(t, "linked") == 0 {
			g.Links = []Link{{Count: 18}}
		}
		for range max(0, rapid.IntRange(-2, 2).Draw(t, "parts")) {
			g.Parts = append(g.Parts, Part{
				Kind: rapid.SampledFrom([]Enforcement{HAMi, MPS}).Draw(t, "kind"), Milli: rapid.IntRange(-10, 1200).Draw(t, "milli"),
			})
		}
		h.GPUs = append(h.GPUs, g)
	}
	if rapid.IntRange(0, 4).Draw(t, "holds") == 0 {
		h.Holds = []Hold{{Owner: "ac-1", Model: model, GPUs: 1}}
	}
	return h
}

func anyHosts(t *rapid.T) []Host {
	var hosts []Host
	for i := range rapid.IntRange(0, 7).Draw(t, "hosts") {
		hosts = append(hosts, anyHost(t, fmt.Sprintf("h%d", i)))
	}
	return hosts
}

func anyRequest(t *rapid.T) Request {
	r := Request{
		Nodes: rapid.IntRange(0, 3).Draw(t, "nodes"), Count: rapid.IntRange(0, 3).Draw(t, "count"),
		CPUMillis: rapid.Int64Range(0, 20).Draw(t, "want cpu"), MemoryMiB: rapid.Int64Range(0, 20).Draw(t, "want memory"),
		Owner: rapid.SampledFrom([]string{"", "ac-1", "ac-2"}).Draw(t, "owner"),
	}
	if rapid.Bool().Draw(t, "picky") {
		r.Models = []string{rapid.SampledFrom(testModels).Draw(t, "want model")}
	}
	if r.Count > 0 {
		switch rapid.IntRange(0, 3).Draw(t, "share") {
		case 1:
			r.Share = Share{Kind: rapid.SampledFrom([]Enforcement{HAMi, MPS}).Draw(t, "want kind"), Milli: rapid.IntRange(1, 999).Draw(t, "want milli")}
		case 2:
			r.Share = Share{Kind: MIG, Profile: rapid.SampledFrom([]string{"1g.5gb", "2g.10gb", "3g.40gb", "7g.80gb", "9g.1gb"}).Draw(t, "profile")}
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "where") {
	case 0:
		r.Zones = []string{"z1"}
	case 1:
		r.Require = map[string]string{"disk": "nvme"}
	case 2:
		r.Forbid = map[string]string{"disk": "nvme"}
	case 3:
		r.Avoid, r.Tag = []string{"x"}, "x"
	case 4:
		r.Within = rapid.SampledFrom([]Level{LevelZone, LevelLeaf, LevelRack}).Draw(t, "within")
	case 5:
		r.Spread = rapid.SampledFrom([]Level{LevelZone, LevelRack}).Draw(t, "spread")
	}
	return r
}

func fleetOf(hosts []Host) *Fleet {
	f := NewFleet(Standard())
	for _, h := range hosts {
		f.Set(h)
	}
	return f
}

// holds reports what is wrong with a placement on these hosts, judged without the
// index.
func holds(hosts map[string]Host, r Request, p Placement) error {
	if len(p.Nodes) != max(1, r.Nodes) {
		return fmt.Errorf("%d nodes of %d", len(p.Nodes), max(1, r.Nodes))
	}
	seen := map[string]bool{}
	domain := ""
	for i, c := range p.Nodes {
		h, ok := hosts[c.HostID]
		if !ok || seen[c.HostID] {
			return fmt.Errorf("host %q is not there, or has two nodes of the gang", c.HostID)
		}
		seen[c.HostID] = true
		if r.Within != LevelAny && i > 0 && h.domain(r.Within) != domain {
			return fmt.Errorf("the gang leaves its %s", r.Within)
		}
		domain = h.domain(r.Within)
		switch {
		case max(0, h.CPUMillis) < r.CPUMillis || max(0, h.MemoryMiB) < r.MemoryMiB:
			return fmt.Errorf("%s lacks CPU or memory", h.ID)
		case len(r.Zones) > 0 && !slices.Contains(r.Zones, h.Zone):
			return fmt.Errorf("%s is in zone %s", h.ID, h.Zone)
		case r.Require != nil && h.Labels["disk"] != "nvme", r.Forbid != nil && h.Labels["disk"] == "nvme":
			return fmt.Errorf("%s is labelled %v", h.ID, h.Labels)
		case len(r.Avoid) > 0 && slices.Contains(h.Tags, "x"):
			return fmt.Errorf("%s has what is avoided", h.ID)
		case len(c.GPUs) != r.Count:
			return fmt.Errorf("%s gives %d GPUs of %d", h.ID, len(c.GPUs), r.Count)
		}
		got := map[string]bool{}
		for k, uuid := range c.GPUs {
			at := slices.IndexFunc(h.GPUs, func(g GPU) bool { return g.UUID == uuid })
			if at < 0 || got[uuid] {
				return fmt.Errorf("GPU %s is not there, or chosen twice", uuid)
			}
			got[uuid] = true
			g := h.GPUs[at]
			if !g.Free || (len(r.Models) > 0 && !slices.Contains(r.Models, g.Model)) {
				return fmt.Errorf("GPU %s is not free, or a %s", uuid, g.Model)
			}
			sum, mask := r.Share.Milli, uint8(0)
			for _, part := range g.Parts {
				if part.Kind != r.Share.Kind {
					return fmt.Errorf("GPU %s is divided by %q", uuid, part.Kind)
				}
				sum += part.Milli
				if part.Kind == MIG {
					geo, _ := geometryOf(g.Model)
					mask |= geo.profiles[part.Profile].mask(part.Start)
				}
			}
			if sum > WholeMilli {
				return fmt.Errorf("GPU %s has %d taken", uuid, sum)
			}
			if r.Share.Kind == MIG {
				geo, _ := geometryOf(g.Model)
				pr := geo.profiles[r.Share.Profile]
				if !slices.Contains(pr.starts, c.Starts[k]) || mask&pr.mask(c.Starts[k]) != 0 {
					return fmt.Errorf("GPU %s cannot have %s at %d", uuid, r.Share.Profile, c.Starts[k])
				}
			}
		}
	}
	return nil
}

func byID(hosts []Host) map[string]Host {
	out := map[string]Host{}
	for _, h := range hosts {
		out[h.ID] = h
	}
	return out
}

// A placement is within what is free, all nodes or none on hosts of their own, and
// the same whatever the order in which hosts were told and what was asked before.
func TestAPlacementIsWithinCapacityWholeAndRepeatable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hosts, r := anyHosts(t), anyRequest(t)
		f := fleetOf(hosts)
		for range rapid.IntRange(0, 60).Draw(t, "observed") {
			f.Observe(r)
		}
		p, ok := f.Place(r)
		if ok {
			if err := holds(byID(hosts), r, p); err != nil {
				t.Fatalf("%+v: %v", p, err)
			}
		}
		f.Explain(anyRequest(t))
		other := slices.Clone(hosts)
		rand.New(rand.NewSource(rapid.Int64().Draw(t, "order"))).Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		q, again := rebuilt(f, other).Place(r)
		if again != ok || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v, %v; and %+v, %v when told in another order", p, ok, q, again)
		}
	})
}

// rebuilt is a fleet that has learnt what f has, told of hosts anew.
func rebuilt(f *Fleet, hosts []Host) *Fleet {
	g := NewFleet(f.policy)
	g.mix, g.models = f.mix, f.models
	for _, h := range hosts {
		g.Set(h)
	}
	return g
}

// What an explanation says is what Place does: it fits or it does not; each host is
// under one reason, or suitable; and every change that it names makes it fit.
func TestTheExplanationAgreesWithTheDecision(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hosts, r := anyHosts(t), anyRequest(t)
		f := fleetOf(hosts)
		p, ok := f.Place(r)
		e := f.Explain(r)
		if e.Fits != ok || !reflect.DeepEqual(e.Placement, p) || e.Hosts != len(hosts) {
			t.Fatalf("placed %v %+v, explained %+v", ok, p, e)
		}
		told := map[string]Reason{}
		for _, g := range e.Groups {
			for _, id := range g.Hosts {
				if told[id] != "" {
					t.Fatalf("%s is under %s and %s", id, told[id], g.Reason)
				}
				told[id] = g.Reason
			}
		}
		single := r
		single.Nodes, single.Within = 1, LevelAny
		suitable := 0
		for _, h := range hosts {
			_, alone := fleetOf([]Host{h}).Place(single)
			reason := told[h.ID]
			if alone {
				suitable++
			}
			if alone != (reason == "" || reason == ReasonGang) {
				t.Fatalf("%s alone holds it: %v; told %q", h.ID, alone, reason)
			}
		}
		if suitable != e.Suitable || (ok && len(e.Changes) > 0) || (!ok && r.Nodes < 2 && suitable > 0) {
			t.Fatalf("%d suitable: %+v", suitable, e)
		}
		for _, c := range e.Changes {
			changed := r
			switch c.Field {
			case ReasonCPU:
				changed.CPUMillis = c.To
			case ReasonMemory:
				changed.MemoryMiB = c.To
			case ReasonZone:
				changed.Zones = c.Any
			case ReasonModel:
				changed.Models = c.Any
			case ReasonLabel:
				changed.Require, changed.Forbid = nil, nil
			case ReasonAvoided:
				changed.Avoid = nil
			case ReasonGPU:
				changed.Count = int(c.To)
			case ReasonGang:
				changed.Nodes = int(c.To)
			}
			if _, fits := f.Place(changed); !fits {
				t.Fatalf("with %+v it does not fit", c)
			}
		}
	})
}

func TestAFreeHostMoreNeverMakesARequestUnplaceable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hosts, r := anyHosts(t), anyRequest(t)
		f := fleetOf(hosts)
		_, before := f.Place(r)
		f.Set(anyHost(t, "another"))
		if _, after := f.Place(r); before && !after {
			t.Fatal("it fitted without the host")
		}
	})
}

// Whatever comes, goes and vanishes, and in which order: what is taken and what is
// free of each GPU is all of it, and of CPU and memory all there was.
func TestTakenAndFreeAreAlwaysAll(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := NewFleet(Standard())
		total := map[string]Host{}
		for i := range 4 {
			h := anyHost(t, fmt.Sprintf("h%d", i))
			h.CPUMillis, h.MemoryMiB, h.Holds = max(0, h.CPUMillis), max(0, h.MemoryMiB), nil
			for k := range h.GPUs {
				h.GPUs[k].Free, h.GPUs[k].Parts = true, nil
			}
			total[h.ID] = h
			f.Set(h)
		}
		type taken struct {
			r Request
			p Placement
		}
		var live []taken
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0, 1, 2:
				r := anyRequest(t)
				f.Observe(r)
				if p, ok := f.Place(r); ok {
					now := map[string]Host{}
					for id := range total {
						now[id], _ = f.Host(id)
					}
					if err := holds(now, r, p); err != nil {
						t.Fatal(err)
					}
					f.Take(r, p)
					live = append(live, taken{r, p})
				}
			case 3, 4:
				if len(live) > 0 {
					i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
					f.Release(live[i].r, live[i].p)
					live = slices.Delete(live, i, i+1)
				}
			case 5: // a GPU vanishes with whatever is on it
				id := rapid.SampledFrom(slices.Sorted(maps.Keys(total))).Draw(t, "host")
				h, _ := f.Host(id)
				if n := len(h.GPUs); n > 0 {
					k := rapid.IntRange(0, n-1).Draw(t, "gpu")
					h.GPUs = slices.Delete(slices.Clone(h.GPUs), k, k+1)
					f.Set(h)
				}
			}
			free := int64(0)
			for id, all := range total {
				h, _ := f.Host(id)
				cpu, memory := h.CPUMillis, h.MemoryMiB
				used := map[string]int{}
				for _, l := range live {
					for _, c := range l.p.Nodes {
						if c.HostID == id {
							cpu, memory = cpu+l.r.CPUMillis, memory+l.r.MemoryMiB
							for _, uuid := range c.GPUs {
								used[uuid] += map[bool]int{true: l.r.Share.Milli, false: WholeMilli}[l.r.Share.Milli > 0]
							}
						}
					}
				}
				if cpu != all.CPUMillis || memory != all.MemoryMiB || h.CPUMillis < 0 || h.MemoryMiB < 0 {
					t.Fatalf("%s: %d m CPU, %d MiB of %d, %d", id, cpu, memory, all.CPUMillis, all.MemoryMiB)
				}
				for _, g := range h.GPUs {
					s := slotOf(g)
					free += int64(s.milli)
					if s.kind != MIG && used[g.UUID]+int(s.milli) != WholeMilli {
						t.Fatalf("%s: %d taken and %d free", g.UUID, used[g.UUID], s.milli)
					}
				}
			}
			if free != f.Free() {
				t.Fatalf("%d free, the fleet says %d", free, f.Free())
			}
		}
	})
}

// KAI-Scheduler#2153: sixteen halves of eight GPUs, in any order of hosts.
func TestSixteenHalvesFillEightGPUsTwoEach(t *testing.T) {
	t.Parallel()
	f := fleetOf([]Host{host("a", 4), host("b", 4)})
	r := Request{Models: []string{"M"}, Count: 1, Share: Share{Kind: HAMi, Milli: 500}}
	on := map[string]int{}
	for i := range 16 {
		f.Observe(r)
		p, ok := f.Place(r)
		if !ok {
			t.Fatalf("half %d: %+v", i, f.Explain(r))
		}
		f.Take(r, p)
		on[p.Nodes[0].GPUs[0]]++
	}
	for uuid, n := range on {
		if n != 2 || len(on) != 8 {
			t.Errorf("%s has %d", uuid, n)
		}
	}
	if p, ok := f.Place(r); ok {
		t.Errorf("a seventeenth went to %+v", p)
	}
}

// HAMi#1181 and akash support#192: more taken than there is, and less than nothing
// free, is nothing free and not very much.
func TestWhatIsLessThanNothingIsNothing(t *testing.T) {
	t.Parallel()
	h := host("a", 1)
	h.CPUMillis = -1
	h.GPUs[0].Parts = []Part{{Kind: HAMi, Milli: 900}, {Kind: HAMi, Milli: 900}}
	f := fleetOf([]Host{h})
	for _, r := range []Request{{CPUMillis: 1}, {Count: 1}, {Count: 1, Share: Share{Kind: HAMi, Milli: 1}}} {
		if p, ok := f.Place(r); ok {
			t.Errorf("%+v went to %+v", r, p)
		}
	}
	if f.Free() != 0 {
		t.Errorf("%d free", f.Free())
	}
}

func TestMIGProfilesAreCutAsTheDriverAllows(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]map[string]int{
		"A100 80GB": {"1g.10gb": 7, "1g.20gb": 4, "2g.20gb": 3, "3g.40gb": 2, "4g.40gb": 1, "7g.80gb": 1},
		"H200":      {"1g.18gb": 7, "3g.71gb": 2}, "A30": {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1},
	} {
		for profile, n := range want {
			h := host("a", 1)
			h.GPUs[0].Model = model
			f := fleetOf([]Host{h})
			r := Request{Models: []string{model}, Count: 1, Share: Share{Kind: MIG, Profile: profile}}
			got := 0
			for p, ok := f.Place(r); ok; p, ok = f.Place(r) {
				f.Take(r, p)
				got++
			}
			if got != n || Profiles(model)[profile] != n {
				t.Errorf("%s: %d of %s; want %d", model, got, profile, n)
			}
			if _, ok := f.Place(Request{Count: 1}); ok {
				t.Errorf("%s: all of a divided GPU was given", model)
			}
			if _, ok := f.Place(Request{Count: 1, Share: Share{Kind: MPS, Milli: 1}}); ok {
				t.Errorf("%s: a GPU was divided in two ways", model)
			}
		}
	}
	if Profiles("RTX 4090") != nil {
		t.Error("a GPU without MIG has profiles")
	}
}

func TestAGangIsPutCloseOrSpread(t *testing.T) {
	t.Parallel()
	var hosts []Host
	for i := range 12 {
		h := host(fmt.Sprintf("h%02d", i), 8)
		// Leaf a has two hosts, b four, c six.
		h.Region, h.Zone, h.Fabric = "r", "z", []string{"s", []string{"a", "a", "b", "b", "b", "b", "c", "c", "c", "c", "c", "c"}[i]}
		hosts = append(hosts, h)
	}
	f := fleetOf(hosts)
	leaves := func(r Request) map[string]int {
		p, ok := f.Place(r)
		if !ok {
			return nil
		}
		out := map[string]int{}
		for _, c := range p.Nodes {
			out[byID(hosts)[c.HostID].Fabric[1]]++
		}
		return out
	}
	for _, tt := range []struct {
		nodes          int
		within, spread Level
		want           map[string]int
	}{
		{2, "", "", map[string]int{"a": 2}},
		{3, "", "", map[string]int{"b": 3}},
		{6, "", "", map[string]int{"c": 6}},
		{8, "", "", map[string]int{"c": 6, "a": 2}},
		{12, "", "", map[string]int{"a": 2, "b": 4, "c": 6}},
		{13, "", "", nil},
		{7, LevelLeaf, "", nil},
		{3, "", LevelLeaf, map[string]int{"a": 1, "b": 1, "c": 1}},
	} {
		if got := leaves(Request{Nodes: tt.nodes, Count: 8, Within: tt.within, Spread: tt.spread}); !maps.Equal(got, tt.want) {
			t.Errorf("%d nodes, within %q, spread %q: %v, want %v", tt.nodes, tt.within, tt.spread, got, tt.want)
		}
	}
	if d := Distance(hosts[0], hosts[1]); d != 0 {
		t.Errorf("two hosts of a rack are %d apart", d)
	}
	if d := Distance(hosts[0], hosts[2]); d != 2 {
		t.Errorf("two hosts of two leaves are %d apart", d)
	}
}
