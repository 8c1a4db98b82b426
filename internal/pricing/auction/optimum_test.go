package auction_test

import (
	"math/rand/v2"
	"testing"

	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/pricing/auction/welfare"
)

func TestAThousandMarketsOfUpToEightHostsHaveTheHighestWelfareAtOnePrice(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 2))
	for i := range 1000 {
		hosts := 1 + r.IntN(8)
		if i%4 == 0 {
			hosts = 8
		}
		m, now := auction.Fresh(r, hosts, hosts*(1+r.IntN(5)), i%2 == 0)
		cleared, err := auction.Clear(m, now)
		if err != nil {
			t.Fatal(err)
		}
		got, wrong := welfare.Of(m, cleared)
		if wrong != 0 {
			t.Errorf("market %d: %d bundle sizes have two prices, or one that somebody did not agree to: %+v", i, wrong, m)
		}
		if want := welfare.Most(m, got); got != want {
			t.Errorf("market %d of %d hosts: welfare %d, and the optimum is %d: %+v", i, hosts, got, want, m)
		}
		if hosts < 4 && auction.Optimum(m) != got {
			t.Errorf("market %d of %d hosts: welfare %d, and the optimum of all ways is %d", i, hosts, got, auction.Optimum(m))
		}
	}
}

// The measure itself: not from what Clear found, but from nothing.
func TestTheMostIsWhatAllWaysComeTo(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 1))
	for range 300 {
		m, _ := auction.Fresh(r, 1+r.IntN(3), 3+r.IntN(8), false)
		if got, want := welfare.Most(m, 0), auction.Optimum(m); got != want {
			t.Errorf("%d, and all ways come to %d: %+v", got, want, m)
		}
	}
}
