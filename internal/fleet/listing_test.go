package fleet

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/money"
)

func TestProvidersTermsDecideWhatIsOffered(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(8)
	if _, err := c.SetListing(t.Context(), ada, host, ListingChange{MinGPUs: ptr(4)}); err != nil {
		t.Fatal(err)
	}
	if n := c.offered("gpu_count < 4"); n != 0 || c.offered("") != 5 {
		t.Errorf("with a smallest bundle of 4: %d smaller ones, %d in all, want 0 and 5", n, c.offered(""))
	}
	if _, err := c.SetListing(t.Context(), ada, host, ListingChange{EndsAt: ptr(c.now.Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	c.pass(2 * time.Hour)
	c.beats(1, host)
	if n := c.offered(""); n != 0 {
		t.Errorf("%d offers after the listing's end", n)
	}
	if _, err := c.reserve("ls-1", host, 4); err == nil {
		t.Error("a host was reserved after its listing's end")
	}
	for name, change := range map[string]ListingChange{
		"bad_price":    {PerGPUHour: map[string]money.Rate{"RTX 4090": -1}},
		"bad_min_gpus": {MinGPUs: ptr(-1)},
		"bad_end":      {EndsAt: ptr(c.now.Add(-time.Hour))},
	} {
		_, err := c.SetListing(t.Context(), ada, host, change)
		wantCode(t, err, name)
	}
	_, err := c.SetListing(t.Context(), ada, host, ListingChange{PerGPUHour: map[string]money.Rate{"RTX 9999": 1}})
	wantCode(t, err, "unknown_gpu_model")
	if err == nil || !strings.Contains(err.Error(), "it has: RTX 4090") {
		t.Errorf("a model that it does not have: %v", err)
	}
	_, _, err = c.CreateJoinToken(t.Context(), ada, JoinToken{Name: "rack\u202e"})
	wantCode(t, err, "text_invalid")
	_, err = c.SetListing(t.Context(), eve, host, ListingChange{})
	wantCode(t, err, "host_not_found")
}

func TestWindowsOpenAndCloseByThemselves(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(1)
	if _, err := c.SetMaintenance(t.Context(), ada, host, Window{From: c.now.Add(time.Hour), Until: c.now.Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		wait time.Duration
		want int
	}{{time.Minute, 1}, {time.Hour, 0}, {time.Hour, 1}} {
		c.pass(step.wait)
		c.beats(1, host)
		if n := c.offered(""); n != step.want {
			t.Errorf("at %s: %d offers, want %d", c.now, n, step.want)
		}
	}
}

func TestHostWithLeasesIsNotRemoved(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(2)
	if _, err := c.reserve("ls-1", host, 1); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.Remove(t.Context(), ada, host), "host_in_use")
	wantCode(t, c.Remove(t.Context(), eve, host), "host_not_found")
}

func TestSearchGoesOnWhileHostsChange(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.index = market(2000, 1)
	var group sync.WaitGroup
	stop := make(chan struct{})
	group.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			id := fmt.Sprintf("ho-%08d", i%2000)
			e := *c.index.entry(id)
			e.region = "elsewhere"
			c.index.put(id, &e)
			if i%500 == 0 {
				c.index.compact()
			}
		}
	})
	want := c.offered("")
	for range 200 {
		offers, _, err := c.Search(t.Context(), Query{Sort: "-reliability", Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, o := range offers {
			if seen[o.ID] {
				t.Fatalf("offer %s came twice", o.ID)
			}
			seen[o.ID] = true
		}
		if len(offers) != want {
			t.Fatalf("%d offers while hosts change, want %d", len(offers), want)
		}
	}
	close(stop)
	group.Wait()
}
