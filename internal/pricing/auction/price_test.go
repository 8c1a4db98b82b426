package auction

import (
	"encoding/json"
	"errors"
	"math"
	"testing"

	"suanli.dev/internal/money"
)

func FuzzParsePrice(f *testing.F) {
	for _, s := range []string{"0", "1.5", "0.0001", "100000", "100000.000000001", "-1", "1e3", "", ".", "１", "9223372036854775807", "0.1234567891"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrice(s)
		if err != nil {
			return
		}
		if p < 0 || p > MaxPrice {
			t.Fatalf("%q is taken as %s", s, p)
		}
		for _, text := range []string{p.String(), p.Display()} {
			if again, err := ParsePrice(text); err != nil || again != p {
				t.Fatalf("%q became %s, and that %s, %v", s, text, again, err)
			}
		}
	})
}

func TestAPriceIsAStringInJSON(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(Bid{ID: "a", GPUs: 4, Price: price("1.25")})
	var back Bid
	if err != nil || json.Unmarshal(b, &back) != nil || back.Price != price("1.25") {
		t.Errorf("%s, %v: %+v", b, err, back)
	}
	if json.Unmarshal([]byte(`{"bid_per_gpu_hour": "-1"}`), &back) == nil {
		t.Error("a negative bid is taken")
	}
}

func TestABundleNeverCostsMoreThanWhatItWasSplitFrom(t *testing.T) {
	t.Parallel()
	for _, total := range []money.Rate{0, 1, 999_999_999, 1_000_000_000, 4_000_000_003} {
		for gpus := 1; gpus <= 9; gpus++ {
			p, err := PerGPU(total, gpus)
			if err != nil {
				t.Fatal(err)
			}
			if back, err := p.Bundle(gpus); err != nil || back > total || total-back >= money.Rate(gpus) {
				t.Errorf("%s for %d is %s each, together %s, %v", total, gpus, p, back, err)
			}
		}
	}
	if _, err := PerGPU(1, 0); err == nil {
		t.Error("no GPUs have a price")
	}
	if _, err := PerGPU(math.MaxInt64, 1); err == nil {
		t.Error("a price over the highest is taken")
	}
	if _, err := Price(math.MaxInt64).Bundle(3); !errors.Is(err, money.ErrOverflow) {
		t.Errorf("overflow: %v", err)
	}
}
