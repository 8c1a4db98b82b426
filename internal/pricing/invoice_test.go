package pricing_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func invoiceOf(t testing.TB, taxes []pricing.TaxRule, amounts ...string) pricing.Invoice {
	t.Helper()
	var lines []pricing.InvoiceLine
	for _, a := range amounts {
		lines = append(lines, pricing.InvoiceLine{Amount: amount(t, a)})
	}
	v, err := pricing.NewInvoice(money.CNY, lines, taxes)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Four credit notes for these lines, each rounded by itself, come to 335.00.
func TestCreditNotesForAllLinesAreTheInvoiceExactly(t *testing.T) {
	t.Parallel()
	v := invoiceOf(t, []pricing.TaxRule{{Jurisdiction: "FR", Name: "TVA", PPM: 200_000}}, "68.33", "68.33", "57.50", "85.00")
	if v.Total.String() != "334.990000" || v.Taxes[0].Amount.String() != "55.830000" {
		t.Errorf("total %s with a tax of %s, want 334.99 and 55.83", v.Total, v.Taxes[0].Amount)
	}
	for i, want := range []string{"13.670000", "13.660000", "11.500000", "17.000000"} {
		if got := v.Lines[i].Tax[0]; got.String() != want {
			t.Errorf("line %d has a tax of %s, want %s", i, got, want)
		}
	}
	var done pricing.Credited
	var sum money.Amount
	for i := range v.Lines {
		take := make([]money.Amount, len(v.Lines))
		take[i] = v.Lines[i].Shown
		note, now, err := v.Credit(done, take)
		if err != nil {
			t.Fatal(err)
		}
		sum, done = sum+note.Total, now
	}
	if sum != v.Total {
		t.Errorf("the notes add up to %s, the invoice is %s", sum, v.Total)
	}
	if _, _, err := v.Credit(done, []money.Amount{10_000, 0, 0, 0}); err == nil {
		t.Error("a cent more than the invoice is credited")
	}
}

func TestATaxThatIsInThePriceAddsNothing(t *testing.T) {
	t.Parallel()
	v := invoiceOf(t, []pricing.TaxRule{{Jurisdiction: "CN", Name: "VAT", PPM: 60_000, Inclusive: true}}, "106.00")
	if v.Total.String() != "106.000000" || v.Taxes[0].Amount.String() != "6.000000" {
		t.Errorf("total %s with a tax of %s, want 106 and 6", v.Total, v.Taxes[0].Amount)
	}
	if _, err := pricing.NewInvoice(money.CNY, nil, []pricing.TaxRule{{Inclusive: true}, {}}); err == nil {
		t.Error("one tax is in prices and one is not")
	}
}

// 60 s at 1.28 thousandths of a cent is nothing by itself; 720 of them are 55
// cents and a remainder, and nothing of it is lost.
func TestRoundingHappensOnce(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "0.046080")}, pricing.Request{}) // 0.0000128 a second
	var posted money.Amount
	for n := int64(1); n <= 720; n++ {
		d := due(t, q, pricing.Usage{Compute: session(0, 60*n)})[pricing.Compute]
		posted += d - posted
	}
	v := invoiceOf(t, nil, posted.String())
	if posted.String() != "0.552960" || v.Subtotal.String() != "0.550000" || v.Rounding.String() != "-0.002960" {
		t.Errorf("posted %s, invoiced %s, rounding %s", posted, v.Subtotal, v.Rounding)
	}
	cents := invoiceOf(t, nil, "0.004", "0.004", "0.004")
	if cents.Total.String() != "0.010000" || cents.Lines[0].Shown.String() != "0.010000" || cents.Lines[1].Shown != 0 {
		t.Errorf("three times 0.4 cents: %+v", cents)
	}
}

func TestEverythingOnAnInvoiceAddsUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lines []pricing.InvoiceLine
		for range rapid.IntRange(0, 8).Draw(t, "lines") {
			lines = append(lines, pricing.InvoiceLine{Amount: money.Amount(rapid.Int64Range(-1e9, 1e12).Draw(t, "amount")), Untaxed: rapid.Bool().Draw(t, "untaxed")})
		}
		inclusive := rapid.Bool().Draw(t, "inclusive")
		var taxes []pricing.TaxRule
		for range rapid.IntRange(0, 3).Draw(t, "taxes") {
			taxes = append(taxes, pricing.TaxRule{Jurisdiction: "x", Name: "y", PPM: rapid.Int64Range(0, 400_000).Draw(t, "rate"), Inclusive: inclusive})
		}
		v, err := pricing.NewInvoice(money.USD, lines, taxes)
		if err != nil {
			t.Fatal(err)
		}
		var shown, exact, taxed money.Amount
		perTax := make([]money.Amount, len(taxes))
		for _, l := range v.Lines {
			shown, exact = shown+l.Shown, exact+l.Amount
			if off := l.Shown - l.Amount; off <= -10_000 || off >= 10_000 {
				t.Fatalf("line %s is shown as %s", l.Amount, l.Shown)
			}
			for n, a := range l.Tax {
				perTax[n] += a
			}
		}
		for n, a := range perTax {
			if a != v.Taxes[n].Amount {
				t.Fatalf("tax %d is %s, its lines %s", n, v.Taxes[n].Amount, a)
			}
			if !inclusive {
				taxed += a
			}
		}
		if shown != v.Subtotal || exact+v.Rounding != v.Subtotal || v.Subtotal+taxed != v.Total || v.Rounding < -5_000 || v.Rounding > 5_000 {
			t.Fatalf("%+v", v)
		}
		// Credited in random parts, then the rest: exactly the invoice.
		var done pricing.Credited
		var sum money.Amount
		for last := 3; last >= 0; last-- {
			take := make([]money.Amount, len(v.Lines))
			for i, l := range v.Lines {
				left := l.Shown
				if done != nil {
					left -= done[i]
				}
				if take[i] = left; last > 0 {
					take[i] = left / 10_000 * money.Amount(rapid.Int64Range(0, 4).Draw(t, "part")) / 4 * 10_000
				}
			}
			note, now, err := v.Credit(done, take)
			if err != nil {
				t.Fatal(err)
			}
			sum, done = sum+note.Total, now
		}
		if sum != v.Total {
			t.Fatalf("credit notes come to %s of %s", sum, v.Total)
		}
	})
}

func TestTaxesAreReadFromATable(t *testing.T) {
	t.Parallel()
	table, err := pricing.ParseTaxTable(strings.NewReader("jurisdiction,name,rate,mode,from,until\nUS-NY,sales tax,8.875%,exclusive,,\nCN,VAT,6%,inclusive,2026-01-01,2026-07-01\nCN,VAT,5%,inclusive,2026-07-01,\n"))
	if err != nil || len(table) != 3 || table[0].PPM != 88_750 {
		t.Fatalf("got %+v, %v", table, err)
	}
	for at, want := range map[string]int64{"2026-06-30T23:59:59Z": 60_000, "2026-07-01T00:00:00Z": 50_000} {
		if rules, err := pricing.TaxesOf(table, "CN", moment(t, at)); err != nil || len(rules) != 1 || rules[0].PPM != want {
			t.Errorf("at %s: %+v, %v", at, rules, err)
		}
	}
	if rules, err := pricing.TaxesOf(table, "AQ", start); err != nil || len(rules) != 0 {
		t.Errorf("nowhere: %+v, %v", rules, err)
	}
	for name, bad := range map[string]string{
		"nothing": "", "other columns": "a,b\n", "no rate": "jurisdiction,name,rate,mode,from,until\nCN,VAT,,inclusive,,\n",
		"a mode of its own": "jurisdiction,name,rate,mode,from,until\nCN,VAT,6%,sometimes,,\n", "an end before its begin": "jurisdiction,name,rate,mode,from,until\nCN,VAT,6%,inclusive,2026-02-01,2026-01-01\n",
		"no place": "jurisdiction,name,rate,mode,from,until\n,VAT,6%,inclusive,,\n", "more than all": "jurisdiction,name,rate,mode,from,until\nCN,VAT,101%,inclusive,,\n",
	} {
		if got, err := pricing.ParseTaxTable(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnExchangeLeavesItsAccountsExact(t *testing.T) {
	t.Parallel()
	r := pricing.ExchangeRate{ID: "2026-03-02/USD/CNY", From: money.USD, To: money.CNY, Rate: rate(t, "7.123456789")}
	e, err := r.Convert(amount(t, "100.000001"), money.USD, money.CNY)
	if err != nil || e.Bought.String() != "712.345686" {
		t.Errorf("got %+v, %v", e, err)
	}
	if e, _ := r.Convert(amount(t, "-0.000001"), money.USD, money.CNY); e.Bought.String() != "-0.000007" {
		t.Errorf("a refund converts to %s", e.Bought)
	}
	if _, err := r.Convert(1, money.CNY, money.USD); err == nil {
		t.Error("the rate was turned over")
	}
	half := pricing.ExchangeRate{ID: "h", From: money.USD, To: money.CNY, Rate: rate(t, "0.5")}
	for in, want := range map[money.Amount]money.Amount{1: 0, 3: 2, 5: 2} {
		if e, err := half.Convert(in, money.USD, money.CNY); err != nil || e.Bought != want {
			t.Errorf("half of %d micro is %d, %v; want %d", in, e.Bought, err, want)
		}
	}
	held, err := pricing.Position([]pricing.Exchange{e, e, e.Reverse(), e.Reverse()})
	if err != nil || held[money.USD] != 0 || held[money.CNY] != 0 {
		t.Errorf("after a refund the accounts hold %v, %v", held, err)
	}
}

func TestAChargeIsTheProvidersShareCommissionAndTax(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paid := money.Amount(rapid.Int64Range(0, 1<<60).Draw(t, "paid"))
		tax := money.Amount(rapid.Int64Range(0, int64(paid)).Draw(t, "tax"))
		p, err := pricing.Divide(paid, tax, rapid.Int64Range(0, 10_000).Draw(t, "commission"))
		if err != nil || p.Provider+p.Commission+p.Tax != paid || p.Provider < 0 || p.Commission < 0 {
			t.Fatalf("%+v, %v", p, err)
		}
	})
}

func TestAnAccountEastOfGreenwichIsInvoicedOnce(t *testing.T) {
	t.Parallel()
	a, err := pricing.InvoicePeriod(moment(t, "2026-05-30T20:00:00Z"), "Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	b, err := pricing.InvoicePeriod(moment(t, "2026-05-30T23:00:00Z"), "Europe/Paris")
	if err != nil || a != b || !a.End.Equal(moment(t, "2026-05-01T00:00:00+02:00")) {
		t.Errorf("%+v and %+v, %v", a, b, err)
	}
}

func TestAStatementCloses(t *testing.T) {
	t.Parallel()
	s, err := pricing.Statement{Opening: 5, Invoiced: 100, Credited: 20, Paid: 90, Refunded: 3}.Close()
	if err != nil || s.Closing != 12 {
		t.Errorf("%+v, %v", s, err)
	}
}
