package pricing_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// However use is cut and whatever is taken back, a share comes to the share of what
// is left, rounded once; the oracle has fractions.
func TestAShareIsOfTheWholeHoweverItIsCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Int64Range(1, 1_000_000).Draw(t, "share")
		var taken pricing.Taken
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			base := money.Amount(rapid.Int64Range(0, 1e9).Draw(t, "base"))
			if rapid.Bool().Draw(t, "back") {
				base = min(base, taken.Base)
				back, err := taken.Less(base, share)
				if err != nil || back < 0 || back > base+1 {
					t.Fatalf("%s of %+v gives back %s, %v", base, taken, back, err)
				}
				taken = pricing.Taken{Base: taken.Base - base, Amount: taken.Amount - back}
			} else {
				more, err := taken.More(base, 1<<60, share)
				if err != nil || more < 0 || more > base {
					t.Fatalf("%s more of %+v pays %s, %v", base, taken, more, err)
				}
				taken = pricing.Taken{Base: taken.Base + base, Amount: taken.Amount + more}
			}
			want := halfEven(new(big.Rat).Mul(big.NewRat(int64(taken.Base), 1), big.NewRat(share, 1_000_000)))
			if want.Cmp(big.NewInt(int64(taken.Amount))) != 0 {
				t.Fatalf("%d millionths of %s are %s, the oracle has %s", share, taken.Base, taken.Amount, want)
			}
		}
	})
}

func TestSharesPayBeforeSumsUpToTheirCapAndEachOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	grants := []pricing.Grant{
		{ID: "sum", Cap: 1000, ActiveFrom: start, ExpiresAt: after(5)},
		{ID: "b", Cap: 200, SharePPM: 500_000, ActiveFrom: start, ExpiresAt: after(10)},
		{ID: "a", Cap: 1000, SharePPM: 100_000, Meters: []pricing.Meter{pricing.Compute}, ActiveFrom: start, ExpiresAt: after(10)},
		{ID: "h", Cap: 9, GPUModels: []string{"H100"}, ActiveFrom: start, ExpiresAt: after(4)},
	}
	draws, rest, err := pricing.DrawGrants(grants, []pricing.Spend{
		{Reference: "l", Meter: pricing.Compute, From: start, Until: after(1), Amount: 300},
		{Reference: "l", Meter: pricing.Storage, From: start, Until: after(1), Amount: 300},
	})
	want := []pricing.Draw{{"a", 0, 30, 300}, {"b", 0, 135, 270}, {"sum", 0, 135, 0}, {"b", 1, 65, 300}, {"sum", 1, 235, 0}}
	if err != nil || len(draws) != len(want) || rest[0]+rest[1] != 0 {
		t.Fatalf("drawn %+v, left %v, %v", draws, rest, err)
	}
	for i := range want {
		if draws[i] != want[i] {
			t.Errorf("draw %d is %+v, want %+v", i, draws[i], want[i])
		}
	}
	if grants[1].Taken != nil || grants[1].Spent != 0 {
		t.Error("asking changed the grants")
	}
}
