package pricing

import (
	"flag"
	"os"
	"strings"
	"testing"
)

//go:generate go test . -run TestTheDocumentShowsTheStatesOfInvoices -update

var update = flag.Bool("update", false, "write the states of invoices into docs/operator.md")

func TestTheDocumentShowsTheStatesOfInvoices(t *testing.T) {
	t.Parallel()
	const begins, ends = "<!-- invoice states: begin -->\n", "<!-- invoice states: end -->"
	b, err := os.ReadFile("../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), begins)
	_, after, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		t.Fatal("docs/operator.md has no place for the states of invoices")
	}
	want := before + begins + "\n" + InvoiceTable() + "\n" + ends + after
	if *update {
		if err := os.WriteFile("../../docs/operator.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Error("docs/operator.md does not show the states of invoices as they are; run `go generate ./internal/pricing`")
	}
}
