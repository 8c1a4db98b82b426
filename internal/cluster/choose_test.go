package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
)

func anyHosts(t *rapid.T, label string) []Host {
	n := rapid.IntRange(0, 12).Draw(t, label)
	var list []Host
	for i := range n {
		list = append(list, Host{
			ID: fmt.Sprintf("%s-%d", label, i), OfferID: fmt.Sprint("offer-", i), Region: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "region"),
			Zone: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "zone"), Rack: rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "rack"),
			Rate: money.Rate(rapid.Int64Range(1, 5).Draw(t, "rate")), NetMbps: rapid.SampledFrom([]int64{0, 1000, 10_000, 100_000}).Draw(t, "net"),
			Waits: rapid.Bool().Draw(t, "waits"),
		})
	}
	return list
}

func TestAChoiceIsWholeOnHostsOfTheirOwnAndInOnePlaceIfItIsFast(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hosts := anyHosts(t, "host")
		w := Wish{Nodes: rapid.IntRange(1, 6).Draw(t, "nodes"), Fast: rapid.Bool().Draw(t, "fast"), Avoid: map[string]bool{}}
		for _, h := range hosts {
			if rapid.IntRange(0, 4).Draw(t, "avoid") == 0 {
				w.Avoid[h.ID] = true
			}
		}
		chosen, err := Choose(hosts, w)
		if err != nil {
			var short *Shortage
			if !errors.As(err, &short) || len(chosen) != 0 {
				t.Fatalf("a refusal is %v with %d hosts", err, len(chosen))
			}
			// A host more never makes it impossible, and enough of them make it possible.
			for i := range w.Nodes {
				hosts = append(hosts, Host{ID: fmt.Sprint("more-", i), Region: "c", Zone: "3", Rate: 9, NetMbps: fastMbps})
			}
			if _, err := Choose(hosts, w); err != nil {
				t.Fatalf("%d fit hosts in one place do not help: %v", w.Nodes, err)
			}
			return
		}
		if len(chosen) != w.Nodes {
			t.Fatalf("%d hosts, want %d", len(chosen), w.Nodes)
		}
		seen := map[string]bool{}
		for _, h := range chosen {
			if seen[h.ID] || w.Avoid[h.ID] {
				t.Fatalf("host %s is chosen twice, or was to be avoided", h.ID)
			}
			seen[h.ID] = true
			if w.Fast && (h.NetMbps < fastMbps || zone(h) != zone(chosen[0])) {
				t.Fatalf("a fast network of %+v", chosen)
			}
		}
		mixed := rapid.Permutation(hosts).Draw(t, "order")
		if again, err := Choose(mixed, w); err != nil || !reflect.DeepEqual(again, chosen) {
			t.Fatalf("in another order it is %v (%v), was %v", again, err, chosen)
		}
		more := append(slices.Clone(hosts), anyHosts(t, "further")...)
		if _, err := Choose(more, w); err != nil {
			t.Fatalf("more hosts make it impossible: %v", err)
		}
	})
}

func TestARackIsPreferredToACheaperSpread(t *testing.T) {
	t.Parallel()
	hosts := []Host{
		{ID: "a", Region: "r", Zone: "z", Rack: "1", Rate: 5}, {ID: "b", Region: "r", Zone: "z", Rack: "1", Rate: 6},
		{ID: "c", Region: "r", Zone: "z", Rack: "2", Rate: 1}, {ID: "d", Region: "r", Zone: "y", Rack: "3", Rate: 1},
	}
	chosen, err := Choose(hosts, Wish{Nodes: 2})
	if err != nil || chosen[0].ID != "a" || chosen[1].ID != "b" {
		t.Errorf("chosen %v (%v), want the two of one rack", chosen, err)
	}
	if chosen, err = Choose(hosts, Wish{Nodes: 3}); err != nil || zone(chosen[0]) != zone(chosen[2]) {
		t.Errorf("chosen %v (%v), want the three of one zone", chosen, err)
	}
	if chosen, err = Choose(hosts, Wish{Nodes: 1, Near: hosts[:1]}); err != nil || chosen[0].ID != "b" {
		t.Errorf("chosen %v (%v), want the one beside the others", chosen, err)
	}
}

func TestAShortageSaysWhatWouldFit(t *testing.T) {
	t.Parallel()
	_, err := Choose([]Host{{ID: "a", Zone: "z", NetMbps: 1000}, {ID: "b", Zone: "z", NetMbps: 20_000}}, Wish{Nodes: 2, Fast: true})
	if want := "2 hosts are wanted at once and 2 have this many GPUs free (of them 1 have less than 10 Gbit/s); the most in one zone is 1, in z"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
