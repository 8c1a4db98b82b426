package server

import (
	"testing"
	"time"

	"suanli.dev/api"
)

func TestAnOperatorGivesAndTheRenterUsesItBeforeTheBalance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	in := api.CreateGrant{AccountID: w.ada.AccountID, Kind: "trial", Amount: 5_000_000, Meters: []string{"compute"}, Reference: "fair"}
	g, err := w.operator.client.CreateGrant(api.IdempotencyKey(ctx, "one"), in)
	if err != nil || g.Left != g.Amount || g.ExpiresAt != nil || g.ValidSeconds != 72*3600 {
		t.Fatalf("%+v, %v", g, err)
	}
	if again, err := w.operator.client.CreateGrant(api.IdempotencyKey(ctx, "one"), in); err != nil || again.ID != g.ID {
		t.Errorf("a repeat gives %+v, %v", again, err)
	}
	b, err := w.ada.client.Balance(ctx)
	if err != nil || b.Granted != g.Amount || b.Available != 0 {
		t.Errorf("balance %+v, %v", b, err)
	}
	id := w.billedLease(w.ada, false)
	w.clock.Advance(1000 * time.Second)
	w.billing.ConfirmAlive([]string{id}, w.clock.Now())
	if err := w.billing.Settle(ctx, w.clock.Now()); err != nil {
		t.Fatal(err)
	}
	list, err := w.ada.client.Grants(ctx)
	if err != nil || len(list) != 1 || list[0].Spent.String() != "1.000000" || list[0].Left.String() != "4.000000" || list[0].ExpiresAt == nil {
		t.Errorf("grants %+v, %v", list, err)
	}
	if list, err := w.eve.client.Grants(ctx); err != nil || len(list) != 0 {
		t.Errorf("another sees %+v, %v", list, err)
	}
	w.send("POST", "/v1/operator/grants", w.operator.token, in).want(t, 409, "trial_given")
	w.send("POST", "/v1/operator/grants", w.operator.token, `{"account_id":"`+w.ada.AccountID+`","amount":"1","valid_seconds":9223372036854775807}`).want(t, 422, "invalid_grant")
	w.send("POST", "/v1/operator/grants", w.ada.token, in).want(t, 403, "forbidden")
}

func TestARenterRedeemsACouponOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	if _, err := w.operator.client.CreateCoupon(ctx, api.CreateCoupon{Rule: "THANKS 5.00USD max=10", ValidSeconds: 3600}); err != nil {
		t.Fatal(err)
	}
	first, err := w.ada.client.RedeemCoupon(ctx, "THANKS")
	if err != nil || first.Kind != "coupon" || first.Left.String() != "5.000000" || first.AccountID != w.ada.AccountID {
		t.Fatalf("%+v, %v", first, err)
	}
	if again, err := w.ada.client.RedeemCoupon(ctx, "THANKS"); err != nil || again.ID != first.ID {
		t.Errorf("again: %+v, %v", again, err)
	}
	if list, err := w.operator.client.Coupons(ctx); err != nil || len(list) != 1 || list[0].Used != 1 || list[0].Rule != "THANKS 5.00USD max=10" {
		t.Errorf("coupons %+v, %v", list, err)
	}
	w.send("GET", "/v1/operator/coupons", w.ada.token, nil).want(t, 403, "forbidden")
	w.send("POST", "/v1/coupons/redeem", w.eve.token, `{"code":"GUESS"}`).want(t, 404, "coupon_not_found")
}

func TestACouponOfAShareAndAGrantForAModelAreShownAsSuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	if _, err := w.operator.client.CreateCoupon(ctx, api.CreateCoupon{Rule: "WELCOME 12.5% upto=5.00USD", ValidSeconds: 3600}); err != nil {
		t.Fatal(err)
	}
	g, err := w.ada.client.RedeemCoupon(ctx, "WELCOME")
	if err != nil || g.SharePPM != 125_000 || g.Amount.String() != "5.000000" {
		t.Fatalf("%+v, %v", g, err)
	}
	if b, err := w.ada.client.Balance(ctx); err != nil || b.Granted != 0 {
		t.Errorf("a share counts as money: %+v, %v", b, err)
	}
	m, err := w.operator.client.CreateGrant(ctx, api.CreateGrant{AccountID: w.ada.AccountID, Amount: 5_000_000, ValidSeconds: 3600, GPUModel: "rtx 4090"})
	if err != nil || m.GPUModel != "RTX 4090" {
		t.Errorf("%+v, %v", m, err)
	}
	w.send("POST", "/v1/operator/grants", w.operator.token, `{"account_id":"`+w.ada.AccountID+`","amount":"1","valid_seconds":1,"gpu_model":"RTX 40900"}`).want(t, 422, "gpu_model_not_found")
	w.send("POST", "/v1/operator/coupons", w.operator.token, `{"rule":"ALL 10%","valid_seconds":1}`).want(t, 422, "coupon_share")
	w.send("POST", "/v1/operator/coupons", w.operator.token, `{"rule":"ALL 101% upto=1.00USD","valid_seconds":1}`).want(t, 422, "invalid_coupon")
}
