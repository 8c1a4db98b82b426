package market_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
)

// What advice and history say a run cost is what its bill says, also where the
// price changed in the middle of a second, or in the last one that only began.
func TestAHistoryCostsARunWhatItsBillDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		noon := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		span := auction.Span{Start: noon.Add(time.Duration(rapid.IntRange(0, 5_000).Draw(t, "from")) * time.Millisecond)}
		span.End = span.Start.Add(time.Duration(rapid.IntRange(1, 30_000).Draw(t, "long")) * time.Millisecond)
		history := []auction.Step{{At: noon, Price: 1_500_000_000}}
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			at := noon.Add(time.Duration(rapid.IntRange(1, 40_000).Draw(t, "at")) * time.Millisecond)
			history = append(history, auction.Step{At: at, Price: auction.Price(rapid.IntRange(1, 50_000).Draw(t, "price")) * 100_000})
		}
		gpus := rapid.IntRange(1, 8).Draw(t, "gpus")
		var use pricing.Usage
		steps := auction.Window(history, span.Start, span.End)
		for i, s := range steps {
			end := span.End
			if i+1 < len(steps) {
				end = steps[i+1].At
			}
			bundle, err := s.Price.Bundle(gpus)
			if err != nil {
				t.Fatal(err)
			}
			use.Compute = append(use.Compute, pricing.Interval{Start: s.At, End: end, Rate: bundle})
		}
		tariff := pricing.Tariff{Currency: money.USD, Compute: 1, Granularity: pricing.Second}
		quote, err := pricing.NewQuote(tariff, pricing.Request{Plan: pricing.Spot, DiskGiB: 1, TimeZone: "UTC", Bid: money.Rate(auction.MaxPrice)}, noon)
		if err != nil {
			t.Fatal(err)
		}
		due, err := pricing.Due(quote, use)
		if err != nil {
			t.Fatal(err)
		}
		cost, err := auction.Cost(history, gpus, span)
		if err != nil || cost != due[pricing.Compute] {
			t.Fatalf("by the history %s (%v), by the bill %s", cost, err, due[pricing.Compute])
		}
	})
}
