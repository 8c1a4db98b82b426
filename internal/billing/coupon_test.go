package billing_test

import (
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/ledger"
)

func TestACouponIsAGrantOnceAnAccountUntilItIsUsedUpOrOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		who := func(id string) account.Principal {
			return account.Principal{UserID: "us-" + id, AccountID: id, Role: account.Owner}
		}
		_, err := w.CreateCoupon(w.ctx, who("ac-1"), "MINE 50.00CNY", time.Hour)
		wantCode(t, err, "forbidden")
		for rule, code := range map[string]string{"x": "invalid_coupon", "HALF 50%": "coupon_share"} {
			_, err := w.CreateCoupon(w.ctx, operator, rule, time.Hour)
			wantCode(t, err, code)
		}
		until := w.clock().Add(10 * time.Hour).Format(time.RFC3339)
		if _, err := w.CreateCoupon(w.ctx, operator, "THANKS 50.00CNY max=2 until="+until+" meters=compute", 48*time.Hour); err != nil {
			t.Fatal(err)
		}
		_, err = w.CreateCoupon(w.ctx, operator, "THANKS 1.00CNY", time.Hour)
		wantCode(t, err, "coupon_exists")
		_, err = w.Redeem(w.ctx, who("ac-1"), "thank")
		wantCode(t, err, "coupon_not_found")
		first, err := w.Redeem(w.ctx, who("ac-1"), "thanks ")
		if err != nil || first.Amount.String() != "50.000000" || !first.ExpiresAt.Equal(w.clock().Add(48*time.Hour)) || first.Kind != "coupon" {
			t.Fatalf("%+v, %v", first, err)
		}
		if again, err := w.Redeem(w.ctx, who("ac-1"), "THANKS"); err != nil || again.ID != first.ID {
			t.Errorf("again it is %+v, %v", again, err)
		}
		w.wantBalance(ledger.Grant("ac-1"), "50.000000")
		if _, err := w.Redeem(w.ctx, who("ac-2"), "THANKS"); err != nil {
			t.Fatal(err)
		}
		_, err = w.Redeem(w.ctx, who("ac-3"), "THANKS")
		wantCode(t, err, "coupon_unusable")
		if list, err := w.Coupons(w.ctx); err != nil || len(list) != 1 || list[0].Used != 2 {
			t.Errorf("coupons %+v, %v", list, err)
		}
		if _, err := w.CreateCoupon(w.ctx, operator, "LATE 1.00CNY until="+until, time.Hour); err != nil {
			t.Fatal(err)
		}
		if _, err := w.CreateCoupon(w.ctx, operator, "DOLLAR 1.00USD", time.Hour); err != nil {
			t.Fatal(err)
		}
		_, err = w.Redeem(w.ctx, who("ac-3"), "DOLLAR")
		wantCode(t, err, "currency_mismatch")
		w.pass(10 * time.Hour)
		_, err = w.Redeem(w.ctx, who("ac-3"), "LATE")
		wantCode(t, err, "coupon_unusable")
		w.wantBalance(ledger.Promotions, "-100.000000")
		w.right()
	})
}
