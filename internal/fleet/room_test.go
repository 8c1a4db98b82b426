package fleet

import (
	"slices"
	"testing"

	"suanli.dev/internal/money"
	"suanli.dev/internal/placement"
)

func TestRoomsSayWhatIsFreeAndHeldAndWhatABundleCostsWhileItIsTaken(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(4)
	open, _, err := c.Search(t.Context(), Query{Expression: "count = 2", DiskGiB: 30, Limit: 1})
	if err != nil || len(open) != 1 {
		t.Fatalf("%v (%v)", open, err)
	}
	if err := c.hold("rv-1", "ac-ada", host, 2); err != nil {
		t.Fatal(err)
	}
	for _, by := range []struct{ account, lease string }{{"ac-ada", "ls-1"}, {"ac-eve", "ls-2"}} {
		if err := c.reserveAs(by.account, by.lease, host, 1); err != nil {
			t.Fatal(err)
		}
	}
	rooms := c.Rooms(false)
	if len(rooms) != 1 || len(c.Rooms(true)) != 0 {
		t.Fatalf("there are the rooms %+v", rooms)
	}
	r := rooms[0]
	free := 0
	for _, g := range r.GPUs {
		if g.Free {
			free++
		}
	}
	if free != 2 || !slices.Equal(r.Holds, []placement.Hold{{Owner: "ac-ada", Model: "RTX 4090", GPUs: 1}}) || len(r.Claimable) != 0 || r.Labels[KindLabel+":"+r.Kind] != "1" {
		t.Errorf("the room is %+v", r)
	}
	// As many as one that is not ada gets, and no more.
	f := placement.NewFleet(placement.Standard())
	f.Set(r.Host)
	for account, most := range map[string]int{"ac-ada": 2, "ac-eve": 1} {
		if _, fits := f.Place(placement.Request{Count: most, Owner: account}); !fits {
			t.Errorf("%s does not get %d", account, most)
		}
		if _, fits := f.Place(placement.Request{Count: most + 1, Owner: account}); fits {
			t.Errorf("%s gets more than %d", account, most)
		}
	}
	// What all of it costs is known while it is taken, and the host stays what it is.
	for n, want := range map[int]bool{2: true, 4: true, 5: false} {
		o, sold, err := c.OfferWhenEmpty(t.Context(), host, "RTX 4090", n, 30, "")
		if err != nil || sold != want {
			t.Errorf("a bundle of %d is there: %v (%v), want %v", n, sold, err, want)
		}
		if n == 2 && (o.Price != open[0].Price || o.CPUMillis != open[0].CPUMillis || o.ID != open[0].ID) {
			t.Errorf("it is %+v, and was offered as %+v", o, open[0])
		}
	}
	if again := c.Rooms(false)[0]; again.Kind != r.Kind || c.offered("") == 0 {
		t.Errorf("the kind is %s, and was %s", again.Kind, r.Kind)
	}
	if _, sold, err := c.OfferWhenEmpty(t.Context(), "ho-none", "RTX 4090", 1, 30, ""); sold || err != nil {
		t.Errorf("a host that is not there: %v (%v)", sold, err)
	}
	// Another price is another kind.
	if _, err := c.SetListing(t.Context(), ada, host, ListingChange{PerGPUHour: map[string]money.Rate{"RTX 4090": 1}}); err != nil {
		t.Fatal(err)
	}
	if again := c.Rooms(false)[0]; again.Kind == r.Kind {
		t.Error("its price is another one and its kind is not")
	}
}
