package pricing_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func TestDiscountsComeInTheirOrderAndAreExplained(t *testing.T) {
	t.Parallel()
	d := pricing.Discounts{
		PriceList: "research", Term: 1000, TermName: "12 months", Coupon: &pricing.Coupon{Code: "WELCOME", PPM: 100_000, Meters: []pricing.Meter{pricing.Compute}},
		Tiers: []pricing.Tier{{amount(t, "100"), 1000}, {amount(t, "500"), 2000}},
	}
	got, err := d.Apply(pricing.MonthUse{
		Listed: map[pricing.Meter]money.Amount{pricing.Compute: amount(t, "1000"), pricing.Storage: amount(t, "50")},
		Own:    map[pricing.Meter]money.Amount{pricing.Compute: amount(t, "800"), pricing.Storage: amount(t, "50")},
	})
	if err != nil {
		t.Fatal(err)
	}
	// 1000 → 800 → 720 → 648; with 50 of storage 698; 10 % off 400 and 20 % off 198.
	want := []pricing.Explained{
		{pricing.ListStep, "", pricing.Compute, 0, amount(t, "1000"), amount(t, "1000")},
		{pricing.PriceListStep, "research", pricing.Compute, amount(t, "1000"), amount(t, "-200"), amount(t, "800")},
		{pricing.TermStep, "12 months", pricing.Compute, amount(t, "800"), amount(t, "-80"), amount(t, "720")},
		{pricing.ListStep, "", pricing.Storage, 0, amount(t, "50"), amount(t, "50")},
		{pricing.CouponStep, "WELCOME", pricing.Compute, amount(t, "720"), amount(t, "-72"), amount(t, "648")},
		{pricing.VolumeStep, "", "", amount(t, "698"), amount(t, "-79.6"), amount(t, "618.4")},
	}
	if !reflect.DeepEqual(got.Lines, want) {
		t.Errorf("got %+v", got.Lines)
	}
	lines, wallet, err := got.Pay([]pricing.Draw{{"g", 0, amount(t, "18"), 0}, {"g", 1, amount(t, "0.4"), 0}})
	if err != nil || wallet != amount(t, "600") || len(lines) != 2 || lines[0].Change != amount(t, "-18.4") || lines[1].Step != pricing.WalletStep {
		t.Errorf("paid: %+v, %s, %v", lines, wallet, err)
	}
}

// An event that is taken back moves its month into lower tiers: the difference of
// the whole month is given back, not the event at the dearest tier.
func TestACorrectionRatesTheMonthAgain(t *testing.T) {
	t.Parallel()
	tiers := []pricing.Tier{{amount(t, "100"), 5000}, {amount(t, "200"), 6600}}
	net := func(month string) money.Amount {
		off, err := pricing.VolumeDiscount(tiers, amount(t, month))
		if err != nil {
			t.Fatal(err)
		}
		return amount(t, month) - off
	}
	if got := net("300"); got != amount(t, "184") { // 100 + 50 + 34
		t.Errorf("300 costs %s, want 184", got)
	}
	if got := net("300") - net("150"); got != amount(t, "59") { // 25 of the second tier, 34 of the third
		t.Errorf("taking back 150 gives back %s, want 59", got)
	}
}

// Three tiers by the hours since the last change of configuration: the first price,
// half of it, and 34 % of it.
func TestGraduatedRatesAreSplitAtTheirBounds(t *testing.T) {
	t.Parallel()
	const hour, day = 3600, 86_400
	tiers := []pricing.RateTier{{0, rate(t, "1.00")}, {4 * day, rate(t, "0.50")}, {15 * day, rate(t, "0.34")}}
	for quantity, want := range map[int64]string{0: "0.000000", 4 * day: "96.000000", 4*day + hour: "96.500000", 15 * day: "228.000000", 15*day + hour + 1: "228.340094"} {
		if got, err := pricing.Graduated(tiers, quantity, hour); err != nil || got.String() != want {
			t.Errorf("%d s cost %s, %v; want %s", quantity, got, err, want)
		}
	}
	for name, bad := range map[string][]pricing.RateTier{"a gap at the begin": {{1, 1}}, "out of order": {{0, 1}, {5, 1}, {5, 1}}, "a negative rate": {{0, -1}}} {
		if _, err := pricing.Graduated(bad, 10, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := money.Rate(rapid.Int64Range(0, 1e12).Draw(t, "rate"))
		quantity := rapid.Int64Range(0, 1e6).Draw(t, "quantity")
		// Tiers of one rate are one tier, wherever the bounds are.
		got, err := pricing.Graduated([]pricing.RateTier{{0, r}, {rapid.Int64Range(1, 1e6).Draw(t, "bound"), r}}, quantity, hour)
		if want, e := r.Times(quantity, hour); err != nil || e != nil || got != want {
			t.Fatalf("%s, %v; want %s, %v", got, err, want, e)
		}
	})
}

func TestAFixedCouponIsUsedUpOnce(t *testing.T) {
	t.Parallel()
	d := pricing.Discounts{Coupon: &pricing.Coupon{Code: "C", Fixed: amount(t, "50")}, CouponTaken: amount(t, "20")}
	got, err := d.Apply(pricing.MonthUse{Listed: map[pricing.Meter]money.Amount{pricing.Compute: amount(t, "10"), pricing.Storage: amount(t, "40")}})
	if err != nil || got.Total != amount(t, "20") {
		t.Errorf("30 of 50 were left for 50: %s is to be paid, %v; want 20", got.Total, err)
	}
	c := pricing.Coupon{Code: "C", MaxUses: 2, Until: after(10)}
	if c.Usable(1, after(9)) != nil || c.Usable(2, after(9)) == nil || c.Usable(0, after(10)) == nil {
		t.Error("a coupon is usable while its uses and its time last, and no longer")
	}
}

func TestCouponsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"WELCOME 12.5% max=100 until=2026-12-31T00:00:00Z meters=compute,storage", "WELCOME 12.5% upto=50.00CNY max=100 from=2026-12-01T00:00:00Z until=2026-12-31T00:00:00Z", "THANKS 50.00CNY", "X-1 0.0001%"} {
		c, err := pricing.ParseCoupon(s)
		if err != nil || c.String() != s {
			t.Errorf("%q is read as %q, %v", s, c, err)
		}
	}
	for name, s := range map[string]string{
		"nothing": "", "up to nothing": "X 1% upto=0.00CNY", "up to a number": "X 1% upto=50", "a sum up to another": "X 5.00CNY upto=1.00CNY", "an end before its begin": "X 1% from=2026-12-31T00:00:00Z until=2026-12-31T00:00:00Z", "no discount": "X", "a small letter": "x 10%", "nothing off": "X 0%", "more than all": "X 100.0001%", "five decimals": "X 0.00001%",
		"another currency": "X 5.00EUR", "a negative sum": "X -5.00CNY", "an unknown meter": "X 1% meters=gold", "a meter twice": "X 1% meters=compute,compute",
		"no uses": "X 1% max=0", "an unknown condition": "X 1% min=3", "a condition twice": "X 1% max=1 max=2", "no time": "X 1% until=tomorrow",
	} {
		if c, err := pricing.ParseCoupon(s); err == nil {
			t.Errorf("%s: %q is read as %+v", name, s, c)
		}
	}
}

func TestDiscountsNeverTakeMoreThanThereIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		listed := map[pricing.Meter]money.Amount{}
		var whole money.Amount
		for _, m := range pricing.Meters {
			listed[m] = money.Amount(rapid.Int64Range(0, 1e12).Draw(t, string(m)))
			whole += listed[m]
		}
		d := pricing.Discounts{Term: rapid.Int64Range(0, 10_000).Draw(t, "term"), Tiers: []pricing.Tier{{0, rapid.Int64Range(0, 10_000).Draw(t, "tier")}, {1e9, rapid.Int64Range(0, 10_000).Draw(t, "tier")}}}
		if rapid.Bool().Draw(t, "fixed") {
			d.Coupon = &pricing.Coupon{Code: "C", Fixed: money.Amount(rapid.Int64Range(1, 1e12).Draw(t, "sum"))}
		} else {
			d.Coupon = &pricing.Coupon{Code: "C", PPM: rapid.Int64Range(1, 1_000_000).Draw(t, "share")}
		}
		got, err := d.Apply(pricing.MonthUse{Listed: listed})
		if err != nil {
			t.Fatal(err)
		}
		var net, explained money.Amount
		for _, a := range got.Net {
			if a < 0 {
				t.Fatalf("%+v", got)
			}
			net += a
		}
		for _, l := range got.Lines {
			if l.Before+l.Change != l.After {
				t.Fatalf("line %+v", l)
			}
			explained += l.Change
		}
		if net != got.Total || explained != got.Total || got.Total > whole || got.Total < 0 {
			t.Fatalf("total %s, meters %s, lines %s, listed %s", got.Total, net, explained, whole)
		}
	})
}
