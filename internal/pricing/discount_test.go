package pricing_test

import (
	"testing"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

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

func TestACouponIsUsableForItsUsesAndItsTime(t *testing.T) {
	t.Parallel()
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
