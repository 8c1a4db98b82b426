package server

import (
	"net/http"
	"testing"

	"suanli.dev/api"
)

func TestAnOperatorGivesCreditAndTheRenterSeesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	days := 30
	c, err := w.operator.client.SetCreditLimit(ctx, w.ada.AccountID, api.SetCreditLimit{CreditLimit: 50_000_000, NetDays: &days, Reason: "contract"})
	if err != nil || c.CreditLimit.String() != "50.000000" || c.NetDays != 30 || c.SetAt == nil {
		t.Fatalf("%+v, %v", c, err)
	}
	own, err := w.ada.client.CreditLimit(ctx)
	if err != nil || own.CreditLimit != c.CreditLimit || own.Used != 0 {
		t.Errorf("%+v, %v", own, err)
	}
	b, err := w.ada.client.Balance(ctx)
	if err != nil || b.CreditLimit != c.CreditLimit || b.Available != c.CreditLimit || b.Settled != 0 {
		t.Errorf("%+v, %v", b, err)
	}
	if theirs, err := w.eve.client.CreditLimit(ctx); err != nil || theirs.CreditLimit != 0 || theirs.NetDays != 14 {
		t.Errorf("another has %+v, %v", theirs, err)
	}
	if c, err := w.operator.client.SetCreditLimit(ctx, w.ada.AccountID, api.SetCreditLimit{}); err != nil || c.CreditLimit != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	path := "/v1/operator/accounts/" + w.ada.AccountID + "/credit-limit"
	w.send(http.MethodPut, path, w.ada.token, `{"credit_limit":"1000"}`).want(t, 403, "forbidden")
	w.send(http.MethodGet, path, w.ada.token, nil).want(t, 403, "forbidden")
	w.send(http.MethodPut, path, w.operator.token, `{"credit_limit":"-1"}`).want(t, 422, "credit_limit_invalid")
	w.send(http.MethodPut, "/v1/operator/accounts/ac-00000000000000000000000000/credit-limit", w.operator.token, `{"credit_limit":"1"}`).want(t, 404, "account_not_found")
}

func TestARenterSeesHowItsInvoicesStandAndNobodyElses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	v := w.invoiced(w.ada)
	list, err := w.ada.client.Dues(ctx)
	if err != nil || len(list) != 1 || list[0].Number != v.Number || list[0].State != "paid" || list[0].Owed != 0 || list[0].Total != v.Total || list[0].DueAt.IsZero() {
		t.Fatalf("%+v, %v", list, err)
	}
	if one, err := w.ada.client.Due(ctx, v.Number); err != nil || one.InvoiceID != v.ID {
		t.Errorf("%+v, %v", one, err)
	}
	if of, err := w.operator.client.DuesOf(ctx, w.ada.AccountID); err != nil || len(of) != 1 {
		t.Errorf("%+v, %v", of, err)
	}
	if theirs, err := w.eve.client.Dues(ctx); err != nil || len(theirs) != 0 {
		t.Errorf("another sees %+v, %v", theirs, err)
	}
	w.send(http.MethodGet, "/v1/invoices/"+v.Number+"/due", w.eve.token, nil).want(t, 404, "invoice_not_found")
	w.send(http.MethodGet, "/v1/operator/accounts/"+w.ada.AccountID+"/dues", w.eve.token, nil).want(t, 403, "forbidden")
	w.send(http.MethodPost, "/v1/operator/invoices/"+v.ID+"/write-off", w.ada.token, `{}`).want(t, 403, "forbidden")
	w.send(http.MethodPost, "/v1/operator/invoices/"+v.ID+"/write-off", w.operator.token, `{}`).want(t, 409, "invoice_not_overdue")
}
