package server

import (
	"net/http"
	"strings"
	"testing"
)

func init() {
	belongings["charge_id"] = func(w *world, p person) string {
		w.invoiced(p)
		list, err := w.billing.Charges(w.t.Context(), p.AccountID, "", "", 1)
		if err != nil || len(list) == 0 {
			w.t.Fatalf("%v, %v", list, err)
		}
		return list[0].ID
	}
}

func TestARenterHasEachChargeExplainedAndNobodyElseHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.invoiced(w.ada)
	list, err := w.ada.client.Charges(t.Context(), "")
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	e, err := w.ada.client.Explain(t.Context(), list[0].ID)
	if err != nil || !e.OK || e.Amount != list[0].Amount || !e.Simulated {
		t.Fatalf("%+v, %v", e, err)
	}
	var words, chinese strings.Builder
	for _, s := range e.Steps {
		words.WriteString(s.Words)
		chinese.WriteString(s.WordsZH)
	}
	for _, want := range []string{"3600 s × 3.60 USD ÷ 3600 s is exactly 3.600000", "X VAT at 8 % is added: 0.29 USD", "exactly what was posted", "no hardware"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("it does not say %q: %s", want, words.String())
		}
	}
	if !strings.Contains(chinese.String(), "与入账金额完全一致") {
		t.Errorf("%s", chinese.String())
	}
	path := "/v1/charges/" + list[0].ID + "/explanation"
	w.send(http.MethodGet, path, w.eve.token, nil).want(t, 404, "charge_not_found")
	w.send(http.MethodGet, path, w.operator.token, nil).want(t, 200, "")
}
