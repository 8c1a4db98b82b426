package server

import (
	"testing"

	"suanli.dev/api"
)

func TestAnOperatorReadsAnotherAccountsMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, op := t.Context(), w.operator.client
	if _, err := op.CreateGrant(ctx, api.CreateGrant{AccountID: w.ada.AccountID, Kind: "promotion", Amount: 5_000_000, ValidSeconds: 86400}); err != nil {
		t.Fatal(err)
	}
	if list, err := op.GrantsOf(ctx, w.ada.AccountID); err != nil || len(list) != 1 || list[0].Amount.String() != "5.000000" {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := op.GrantsOf(ctx, w.eve.AccountID); err != nil || len(list) != 0 {
		t.Errorf("another account's: %+v, %v", list, err)
	}
	if _, err := op.SetBillingProfile(ctx, w.ada.AccountID, api.BillingProfile{Name: "Ada Ltd", TaxNumber: "GB123"}); err != nil {
		t.Fatal(err)
	}
	if p, err := op.BillingProfileOf(ctx, w.ada.AccountID); err != nil || p.Name != "Ada Ltd" || p.TaxNumber != "GB123" {
		t.Errorf("%+v, %v", p, err)
	}
	if list, err := op.InvoicesOf(ctx, w.ada.AccountID); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	for _, what := range []string{"invoices", "grants", "billing-profile"} {
		path := "/v1/operator/accounts/ac-00000000000000000000000000/" + what
		w.send("GET", path, w.operator.token, nil).want(t, 404, "account_not_found")
		w.send("GET", path, w.ada.token, nil).want(t, 403, "forbidden")
	}
}
