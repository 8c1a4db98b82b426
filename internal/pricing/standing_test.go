package pricing

import (
	"testing"

	"suanli.dev/internal/documented"
)

//go:generate go test . -run TestTheDocumentShowsTheStatesOfInvoices -update

func TestTheDocumentShowsTheStatesOfInvoices(t *testing.T) {
	t.Parallel()
	documented.Part(t, "../../docs/operator.md", "<!-- invoice states: begin -->\n", "<!-- invoice states: end -->", "\n"+InvoiceTable()+"\n")
}
