package fleet

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func (c *cloud) hold(id, account, hostID string, n int) error {
	return c.tx(hostID, func(ctx context.Context, tx *store.Tx) error {
		return c.Hold(ctx, tx, Holding{ID: id, HostID: hostID, AccountID: account, GPUModel: "RTX 4090", GPUCount: n})
	})
}

func (c *cloud) reserveAs(account, lease, hostID string, n int) error {
	return c.tx(hostID, func(ctx context.Context, tx *store.Tx) error {
		_, err := c.Reserve(ctx, tx, Reservation{
			LeaseID: lease, AccountID: account, HostID: hostID, GPUModel: "RTX 4090", GPUCount: n, CPUMillis: 1000 * int64(n), MemoryMiB: 1024 * int64(n), DiskGiB: 1,
		})
		return err
	})
}

// largest is the largest bundle that an account is offered; without one, anybody.
func (c *cloud) largest(account string) int {
	c.t.Helper()
	offers, _, err := c.Search(c.t.Context(), Query{AccountID: account, Limit: 500})
	if err != nil {
		c.t.Fatal(err)
	}
	most, seen := 0, map[string]bool{}
	for _, o := range offers {
		if seen[o.ID] {
			c.t.Errorf("offer %s is found twice", o.ID)
		}
		seen[o.ID] = true
		most = max(most, o.GPUCount)
	}
	return most
}

func TestHeldGPUsAreOfferedToWhoHoldsThemAlone(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCloudOn(t, db)
		host, _ := c.rtx4090s(4)
		if err := c.hold("rv-1", "ac-ada", host, 3); err != nil {
			t.Fatal(err)
		}
		if err := c.hold("rv-1", "ac-ada", host, 3); err != nil {
			t.Errorf("again: %v", err)
		}
		wantCode(t, c.hold("rv-2", "ac-eve", host, 2), "offer_taken")
		if all, own := c.largest(""), c.largest("ac-ada"); all != 1 || own != 4 {
			t.Errorf("everybody is offered %d GPUs and the holder %d, want 1 and 4", all, own)
		}
		if _, err := c.OfferTo(t.Context(), "ac-eve", OfferID(host, "RTX 4090", 2), 0, "UTC"); err == nil {
			t.Error("another can have an offer of what is held")
		}
		if _, err := c.OfferTo(t.Context(), "ac-ada", OfferID(host, "RTX 4090", 3), 0, "UTC"); err != nil {
			t.Errorf("the holder has no offer: %v", err)
		}
		wantCode(t, c.reserveAs("ac-eve", "ls-1", host, 2), "offer_taken")
		if err := c.reserveAs("ac-ada", "ls-2", host, 2); err != nil {
			t.Fatal(err)
		}
		// Two of the three are in use, so one is left for others and one held.
		if all, own := c.largest(""), c.largest("ac-ada"); all != 1 || own != 2 {
			t.Errorf("everybody is offered %d GPUs and the holder %d, want 1 and 2", all, own)
		}
		if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseCompute(ctx, tx, "ls-2") }); err != nil {
			t.Fatal(err)
		}
		if err := c.reserveAs("ac-eve", "ls-3", host, 1); err != nil {
			t.Fatal(err)
		}
		if all := c.largest(""); all != 0 {
			t.Errorf("everybody is offered %d GPUs, want none", all)
		}
		if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.Unhold(ctx, tx, "rv-1") }); err != nil {
			t.Fatal(err)
		}
		if all := c.largest(""); all != 3 {
			t.Errorf("everybody is offered %d GPUs when nothing is held any more, want 3", all)
		}
	})
}

func TestADrainedHostServesWhatIsHeldOnIt(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(4)
	if err := c.hold("rv-1", "ac-ada", host, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Drain(t.Context(), ada, host, true); err != nil {
		t.Fatal(err)
	}
	if all, own := c.largest(""), c.largest("ac-ada"); all != 0 || own != 2 {
		t.Errorf("everybody is offered %d GPUs and the holder %d, want 0 and 2", all, own)
	}
	if ok, _, _ := c.Delivers(host, "rv-1"); !ok {
		t.Error("it does not deliver")
	}
	wantCode(t, c.reserveAs("ac-ada", "ls-1", host, 3), "offer_taken")
	if err := c.reserveAs("ac-ada", "ls-1", host, 2); err != nil {
		t.Error(err)
	}
	if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, "ls-1") }); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.Remove(t.Context(), ada, host), "host_in_use")
}

func TestAHostDeliversWhatIsHeldAsLongAsItAnswersAndHasTheGPUs(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, inv := c.rtx4090s(2)
	for i, id := range []string{"rv-1", "rv-2"} {
		if err := c.hold(id, "ac-ada", host, 1); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Second)
		if i == 0 {
			if err := c.reserveAs("ac-ada", "ls-1", host, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(what string, first, second bool) {
		t.Helper()
		for id, is := range map[string]bool{"rv-1": first, "rv-2": second} {
			if ok, _, _ := c.Delivers(host, id); ok != is {
				t.Errorf("%s: %s is delivered: %t, want %t", what, id, ok, is)
			}
		}
	}
	want("all is well", true, true)
	inv.GPUs[1].Health = protocol.Health{State: protocol.Fenced, Reason: "Xid 79"}
	c.report(host, protocol.Report{Ready: true, Inventory: inv})
	want("a GPU is fenced", true, false)
	seen := c.view(host).LastSeen
	c.beats(5)
	want("the host is silent", false, false)
	if _, _, since := c.Delivers(host, "rv-1"); !since.Equal(seen) {
		t.Errorf("it is said to be gone since %s, and it was seen last at %s", since, seen)
	}
}

func TestADiscountForReservationsStaysWithinTheOperatorsBounds(t *testing.T) {
	t.Parallel()
	c := newCloud(t, func(c *Config) { c.Defaults.ReserveBounds = pricing.Bounds{MaxMonths: 6, MaxBasisPoints: 3000} })
	host, _ := c.rtx4090s(1)
	set := func(terms ...pricing.TermDiscount) error {
		_, err := c.SetListing(t.Context(), ada, host, ListingChange{Reserve: &pricing.Curve{Terms: terms}})
		return err
	}
	wantCode(t, set(pricing.TermDiscount{Months: 12, BasisPoints: 100}), "bad_discount")
	wantCode(t, set(pricing.TermDiscount{Months: 1, BasisPoints: 3001}), "bad_discount")
	if err := set(pricing.TermDiscount{Months: 1, BasisPoints: 3000}); err != nil {
		t.Fatal(err)
	}
	offer := func() Offer {
		o, err := c.Offer(t.Context(), OfferID(host, "RTX 4090", 1), 0, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := offer(); o.Reserve == nil || o.Reserve.Terms[0].BasisPoints != 3000 {
		t.Errorf("the offer has %+v", o.Reserve)
	}
	if err := set(); err != nil {
		t.Fatal(err)
	}
	if o := offer(); o.Reserve != nil {
		t.Errorf("the offer has still %+v", o.Reserve)
	}
}

// Whatever holders and others take and give back, nobody is ever kept from what is
// held for them.
func TestWhatIsHeldCanAlwaysBeHad(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := newCloud(t)
		const gpus = 5
		host, _ := c.rtx4090s(gpus)
		accounts := []string{"ac-a", "ac-b", "ac-c"}
		held, used := map[string]map[string]int{}, map[string]map[string]int{}
		sum := func(m map[string]int) (n int) {
			for _, x := range m {
				n += x
			}
			return n
		}
		for _, a := range accounts {
			held[a], used[a] = map[string]int{}, map[string]int{}
		}
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			a := rapid.SampledFrom(accounts).Draw(rt, "account")
			n := rapid.IntRange(1, 3).Draw(rt, "n")
			free, others := gpus, 0
			for _, b := range accounts {
				free -= sum(used[b])
				if b != a {
					others += max(0, sum(held[b])-sum(used[b]))
				}
			}
			own := max(0, sum(held[a])-sum(used[a]))
			switch rapid.SampledFrom([]string{"hold", "lease", "end", "unhold"}).Draw(rt, "act") {
			case "hold":
				id := fmt.Sprintf("rv-%d", i)
				err := c.hold(id, a, host, n)
				fits := max(0, sum(held[a])+n-sum(used[a]))+others <= free
				if (err == nil) != fits {
					rt.Fatalf("hold of %d: %v; it fits: %t", n, err, fits)
				}
				if err == nil {
					held[a][id] = n
				}
			case "lease":
				id := fmt.Sprintf("ls-%d", i)
				err := c.reserveAs(a, id, host, n)
				if fits := n <= free-others; (err == nil) != fits {
					rt.Fatalf("lease of %d: %v; it fits: %t (%d held for it)", n, err, fits, own)
				}
				if err == nil {
					used[a][id] = n
				}
			case "end":
				for id := range used[a] {
					if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.ReleaseAll(ctx, tx, id) }); err != nil {
						rt.Fatal(err)
					}
					delete(used[a], id)
					break
				}
			case "unhold":
				for id := range held[a] {
					if err := c.tx(host, func(ctx context.Context, tx *store.Tx) error { return c.Unhold(ctx, tx, id) }); err != nil {
						rt.Fatal(err)
					}
					delete(held[a], id)
					break
				}
			}
			if own > 0 && own > c.largest(a) && sum(held[a])-sum(used[a]) == own {
				rt.Fatalf("%d GPUs are held for %s, and it is offered %d", own, a, c.largest(a))
			}
		}
	})
}
