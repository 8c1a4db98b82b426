package pricing_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func rateOf(t *testing.T, s string) *money.Rate {
	t.Helper()
	r := rate(t, s)
	return &r
}

func TestAPriceListMakesTheTariffThatAQuoteFreezes(t *testing.T) {
	t.Parallel()
	listed := pricing.Tariff{Currency: money.CNY, Compute: rate(t, "8"), Storage: rate(t, "0.35"), Egress: rate(t, "0.8")}
	p := pricing.PriceList{ID: "pl-1", Name: "research", Currency: money.CNY, From: start, Until: after(10), Rules: []pricing.PriceRule{
		{Meter: pricing.Compute, OffPPM: 125_000}, {Meter: pricing.Storage, Rate: rateOf(t, "0.1")},
		{GPUModel: "H100", Meter: pricing.Compute, Rate: rateOf(t, "1.5")}, {GPUModel: "A100", Meter: pricing.Egress, OffPPM: 1_000_000},
	}}
	for _, c := range []struct {
		model                    string
		gpus                     int64
		compute, storage, egress string
	}{
		{"RTX", 4, "7", "0.1", "0.8"}, {"H100", 4, "6", "0.1", "0.8"}, {"A100", 1, "7", "0.1", "0"}, {"", 0, "7", "0.1", "0.8"},
	} {
		got, applied, err := p.Tariff(listed, c.model, c.gpus, start)
		if err != nil || applied == nil || got.Compute != rate(t, c.compute) || got.Storage != rate(t, c.storage) || got.Egress != rate(t, c.egress) {
			t.Fatalf("%s: got %+v, %v", c.model, got, err)
		}
		if err := applied.Check(listed, got); err != nil {
			t.Errorf("%s: %v", c.model, err)
		}
		other := got
		other.Storage++
		if applied.Check(listed, other) == nil {
			t.Errorf("%s: other prices are taken for its own", c.model)
		}
	}
	for _, at := range []int64{-1, 10} {
		if got, applied, err := p.Tariff(listed, "H100", 1, after(at)); err != nil || applied != nil || got != listed {
			t.Errorf("out of its time, at %d: %+v, %v", at, got, err)
		}
	}
	dollars := listed
	dollars.Currency = money.USD
	if _, _, err := p.Tariff(dollars, "H100", 1, start); err == nil {
		t.Error("prices in yuan are taken for dollars")
	}
	p.Rules = []pricing.PriceRule{{Meter: pricing.Compute}}
	if _, applied, err := p.Tariff(listed, "H100", 1, start); err != nil || applied != nil {
		t.Errorf("a list that changes nothing was applied: %+v, %v", applied, err)
	}
}

func TestAPriceListThatIsNotSoundIsRefused(t *testing.T) {
	t.Parallel()
	less := money.Rate(-1)
	for name, rules := range map[string][]pricing.PriceRule{
		"nothing":           nil,
		"an unknown meter":  {{Meter: "air"}},
		"less than nothing": {{Meter: pricing.Compute, OffPPM: -1}},
		"more than all":     {{Meter: pricing.Compute, OffPPM: 1_000_001}},
		"a negative price":  {{Meter: pricing.Compute, Rate: &less}},
		"both":              {{Meter: pricing.Compute, OffPPM: 1, Rate: rateOf(t, "1")}},
		"twice":             {{Meter: pricing.Compute, OffPPM: 1}, {Meter: pricing.Compute, OffPPM: 2}},
	} {
		if (pricing.PriceList{Currency: money.CNY, Rules: rules, From: start}).Check() == nil {
			t.Errorf("a list with %s is taken", name)
		}
	}
	one := []pricing.PriceRule{{Meter: pricing.Compute, Rate: rateOf(t, "1")}}
	if (pricing.PriceList{Rules: one, From: start}).Check() == nil {
		t.Error("a list of prices in no currency is taken")
	}
	if (pricing.PriceList{Currency: money.CNY, Rules: one, From: start, Until: start}).Check() == nil {
		t.Error("a list of no time is taken")
	}
}

// The oracle divides fractions.
func TestWhatAPriceListTakesOffIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		listed := pricing.Tariff{Currency: money.CNY, Compute: money.Rate(rapid.Int64Range(0, 1e15).Draw(t, "rate"))}
		off := rapid.Int64Range(0, 1_000_000).Draw(t, "off")
		p := pricing.PriceList{From: start, Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: off}}}
		got, _, err := p.Tariff(listed, "", 1, start)
		if err != nil {
			t.Fatal(err)
		}
		want := halfEven(new(big.Rat).Mul(big.NewRat(int64(listed.Compute), 1), big.NewRat(1_000_000-off, 1_000_000)))
		if want.Cmp(big.NewInt(int64(got.Compute))) != 0 {
			t.Fatalf("%d less %d millionths is %d, the oracle has %s", listed.Compute, off, got.Compute, want)
		}
	})
}
