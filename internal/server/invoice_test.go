package server

import (
	"context"
	"encoding/csv"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

func init() {
	belongings["invoice_id"] = func(w *world, p person) string { return w.invoiced(p).ID }
}

// invoiced returns an invoice of p's for a lease that ran an hour, 70 days before
// the world's now, at 3.60 an hour with 8 % of tax on it.
func (w *world) invoiced(p person) billing.Invoice {
	w.t.Helper()
	ctx := w.t.Context()
	if list, err := w.billing.Invoices(ctx, p.AccountID, "", 1); err == nil && len(list) > 0 {
		return list[0]
	}
	now := w.clock.Now().Add(-70 * 24 * time.Hour)
	clock := func() time.Time { return now }
	books, err := ledger.New(w.db, clock)
	if err != nil {
		w.t.Fatal(err)
	}
	past, err := billing.New(billing.Config{
		DB: w.db, Clock: clock, Ledger: books, Issuer: "Suanli Ltd.",
		CurrencyOf: func(context.Context, string) (money.Currency, error) { return money.USD, nil },
		PartyOf: func(context.Context, string) (billing.Party, error) {
			return billing.Party{Name: "算力 Ltd.", TimeZone: "Asia/Shanghai"}, nil
		},
		Taxes: []pricing.TaxRule{{Jurisdiction: "X", Name: "VAT", PPM: 80_000}}, Jurisdiction: "X",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := past.Deposit(ctx, w.operator.principal(), p.AccountID, 10_000_000, "", ""); err != nil {
		w.t.Fatal(err)
	}
	q, err := pricing.NewQuote(pricing.Tariff{Currency: money.USD, Compute: 3_600_000_000, Granularity: pricing.Second}, pricing.Request{Plan: pricing.OnDemand, Simulated: true}, now)
	if err != nil {
		w.t.Fatal(err)
	}
	id := ident.New(ident.Lease)
	for _, step := range []func(ctx context.Context, tx *store.Tx) error{
		func(ctx context.Context, tx *store.Tx) error {
			return past.BeginLease(ctx, tx, billing.Terms{LeaseID: id, AccountID: p.AccountID, ProviderID: w.eve.AccountID, Quote: q})
		},
		func(ctx context.Context, tx *store.Tx) error { return past.StartCompute(ctx, tx, id, now) },
		func(ctx context.Context, tx *store.Tx) error {
			now = now.Add(time.Hour)
			return past.EndLease(ctx, tx, id, now)
		},
	} {
		if err := w.db.Update(ctx, step); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := past.CloseMonths(ctx, now); err != nil {
		w.t.Fatal(err)
	}
	now = w.clock.Now()
	if err := past.CloseMonths(ctx, now); err != nil {
		w.t.Fatal(err)
	}
	list, err := past.Invoices(ctx, p.AccountID, "", 10)
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

func TestARenterReadsInvoicesAndStatements(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	list, err := w.ada.client.Invoices(t.Context())
	if err != nil || len(list) != 1 || list[0].Total.String() != "3.890000" || list[0].Lines[0].Amount.String() != "3.600000" || !list[0].Simulated || list[0].Taxes[0].RatePPM != 80_000 {
		t.Fatalf("%+v, %v", list, err)
	}
	one, err := w.ada.client.Invoice(t.Context(), v.Number)
	if err != nil || one.ID != v.ID {
		t.Errorf("%+v, %v", one, err)
	}
	st, err := w.ada.client.Statements(t.Context())
	if err != nil || len(st) < 2 || st[len(st)-1].InvoiceID != v.ID || st[0].Closing.String() != "6.110000" {
		t.Errorf("%+v, %v", st, err)
	}
	w.send(http.MethodGet, "/v1/statements?cursor=x", w.ada.token, nil).want(t, 422, "bad_cursor")
}

func TestAnInvoicesTableAddsUpToItsTotal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	f, err := w.ada.client.InvoiceFile(t.Context(), v.ID, "csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) < 3 {
		t.Fatalf("%v, %v", rows, err)
	}
	var sum money.Amount
	for _, r := range rows[1:] {
		a, err := money.ParseAmount(r[7])
		if err != nil {
			t.Fatal(err)
		}
		sum += a
	}
	if sum != v.Total {
		t.Errorf("the rows add up to %s, the total is %s: %v", sum, v.Total, rows)
	}
}

func TestAnInvoiceOnPaperSaysWhatItComesTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	f, err := w.ada.client.InvoiceFile(t.Context(), v.Number, "pdf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil || !strings.HasPrefix(string(content), "%PDF-1.4\n") {
		t.Fatalf("%.20q, %v", content, err)
	}
	// Three pages of lines, and each of them there.
	for len(v.Lines) < 120 {
		v.Lines = append(v.Lines, v.Lines[0])
	}
	if content, err = invoicePDF(v); err != nil || !strings.Contains(string(content), "/Count 3") {
		t.Errorf("120 lines are not on 3 pages: %v", err)
	}
	if _, err := exec.LookPath("pdftotext"); err != nil {
		t.Skip("there is no pdftotext here")
	}
	name := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "pdftotext", "-layout", name, "-").Output()
	if err != nil || strings.Count(string(out), v.Lines[0].LeaseID+" *") != 120 || !strings.Contains(string(out), "3.89") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestOperatorsSayWhoAnAccountIsOnPaper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := api.BillingProfile{Name: "上海某某有限公司", TaxNumber: "91310000X", Jurisdiction: "CN"}
	got, err := w.operator.client.SetBillingProfile(t.Context(), w.ada.AccountID, in)
	if err != nil || got.Name != in.Name {
		t.Fatalf("%+v, %v", got, err)
	}
	own, err := w.ada.client.BillingProfile(t.Context())
	if err != nil || own.TaxNumber != in.TaxNumber || own.TimeZone != "UTC" {
		t.Errorf("%+v, %v", own, err)
	}
	w.send(http.MethodPut, "/v1/operator/accounts/"+w.ada.AccountID+"/billing-profile", w.ada.token, in).want(t, 403, "forbidden")
}

func TestACreditNoteThatIsSentTwiceIsMadeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	in := api.Credit{Lines: []api.CreditLine{{Position: 0, Amount: 1_000_000}}, Reason: "host at fault"}
	for range 3 {
		n, err := w.operator.client.CreditInvoice(api.IdempotencyKey(t.Context(), "k"), v.Number, in)
		if err != nil || n.Number != "CN-000001" || n.Total.String() != "1.080000" {
			t.Fatalf("%+v, %v", n, err)
		}
	}
	notes, err := w.ada.client.CreditNotes(t.Context(), v.ID)
	if err != nil || len(notes) != 1 || notes[0].Lines[0].Tax[0].String() != "0.080000" {
		t.Errorf("%+v, %v", notes, err)
	}
	b, err := w.ada.client.Balance(t.Context())
	if err != nil || b.Settled.String() != "7.190000" { // 10 − 3.89 + 1.08
		t.Errorf("%+v, %v", b, err)
	}
	r, err := w.operator.client.Refund(t.Context(), api.Deposit{AccountID: w.ada.AccountID, Amount: 7_000_000, Reference: "bank 9"})
	if err != nil || r.Code != "paid_back" {
		t.Errorf("%+v, %v", r, err)
	}
	w.send(http.MethodPost, "/v1/operator/refunds", w.operator.token, api.Deposit{AccountID: w.ada.AccountID, Amount: 7_000_000}).want(t, 402, "insufficient_balance")
}
