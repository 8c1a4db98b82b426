package pricing

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
)

func TestDerivationsCarryWhatRoundingLeavesAndAddUpToTheAmount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tariff := Tariff{
			Currency: money.CNY, Compute: money.Rate(rapid.Int64Range(0, 9_999_999_999).Draw(t, "compute")), Storage: money.Rate(rapid.Int64Range(0, 999_999_999).Draw(t, "storage")),
			Egress:      money.Rate(rapid.Int64Range(0, 999_999_999).Draw(t, "egress")),
			Granularity: rapid.SampledFrom([]Granularity{Second, Minute, Hour}).Draw(t, "granularity"), MinimumSeconds: rapid.SampledFrom([]int64{0, 60}).Draw(t, "minimum"),
		}
		start := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		q, err := NewQuote(tariff, Request{Plan: OnDemand, DiskGiB: 7}, start)
		if err != nil {
			t.Fatal(err)
		}
		var u Usage
		at := start
		for range rapid.IntRange(0, 6).Draw(t, "runs") {
			at = at.Add(time.Duration(rapid.Int64Range(1, 9_000).Draw(t, "gap")) * time.Second)
			end := at.Add(time.Duration(rapid.Int64Range(1, 90_000_000_000).Draw(t, "run µs")) * time.Microsecond)
			u.Compute = append(u.Compute, Interval{Start: at, End: end})
			at = end
		}
		u.Storage = []Interval{{Start: start, End: at}}
		u.EgressBytes = rapid.Int64Range(0, 1_000_000_000_000).Draw(t, "bytes")
		items, err := Itemise(q, u)
		if err != nil {
			t.Fatal(err)
		}
		left := new(big.Rat)
		for _, d := range Derive(items) {
			if !d.Holds() {
				t.Fatalf("%+v leaves %s", d.Item, d.Left)
			}
			if d.Meter == Compute {
				if d.Carried.Cmp(left) != 0 {
					t.Fatalf("%s was left, and %s is carried", left, d.Carried)
				}
				left = d.Left
			}
			sum := new(big.Rat).Add(d.Carried, d.Exact)
			if sum.Sub(sum, d.Left).Cmp(new(big.Rat).SetInt64(int64(d.Amount))) != 0 {
				t.Fatalf("%+v: %s + %s - %s", d.Item, d.Carried, d.Exact, d.Left)
			}
		}
	})
}

func TestFractionsOfAMicroUnitAreWrittenExactly(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]*big.Rat{
		"3.600000": big.NewRat(3_600_000, 1), "0.333333 + 1/3 × 0.000001": big.NewRat(1_000_000, 3), "0.000000 - 1/2 × 0.000001": big.NewRat(-1, 2),
		"-0.000001 - 1/2 × 0.000001": big.NewRat(-3, 2), "0.000000": new(big.Rat),
	} {
		if got := FractionText(r); got != want {
			t.Errorf("%s: %q, want %q", r, got, want)
		}
	}
}
