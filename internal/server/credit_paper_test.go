package server

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"suanli.dev/api"
)

func TestACreditNoteIsDownloadedAsPDFByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	amount, err := api.ParseAmount("1.25")
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.operator.client.CreditInvoice(t.Context(), v.Number, api.Credit{Lines: []api.CreditLine{{Position: 0, Amount: amount}}, Reason: "主机故障 host at fault"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.ada.client.CreditNotePDF(t.Context(), v.Number, n.Number)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil || !bytes.HasPrefix(content, []byte("%PDF-")) || !bytes.Contains(content, []byte(n.Number)) || !bytes.Contains(content, []byte("(1.25)")) || !bytes.Contains(content, []byte("(1.35)")) {
		t.Errorf("%q, %v", content, err)
	}
	path := "/v1/invoices/" + v.Number + "/credit-notes/"
	w.send(http.MethodGet, path+n.Number+"/pdf", w.eve.token, nil).want(t, 404, "invoice_not_found")
	w.send(http.MethodGet, path+"CN-000077/pdf", w.ada.token, nil).want(t, 404, "credit_note_not_found")
}
