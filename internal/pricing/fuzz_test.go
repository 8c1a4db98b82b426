package pricing_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func FuzzRate(f *testing.F) {
	for _, s := range []string{"1.29", "-0.000000001", "9223372036.854775807", "", ".", "1e3", "１"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := money.ParseRate(s)
		if err != nil {
			return
		}
		if back, err := money.ParseRate(r.String()); err != nil || back != r {
			t.Errorf("%q is %s, and that %s, %v", s, r, back, err)
		}
	})
}

func FuzzPercent(f *testing.F) {
	for _, s := range []string{"8.875%", "0%", "100%", "0.0001%", "1000.0001%", "-1%", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := pricing.ParsePercent(s); err == nil && (v < 0 || v > 10_000_000) {
			t.Errorf("%q is %d millionths", s, v)
		}
	})
}

func FuzzCoupon(f *testing.F) {
	for _, s := range []string{"WELCOME 12.5% max=100 until=2026-12-31T00:00:00Z meters=compute,storage", "A 5.00CNY", "A 0.000001USD", "A 1% until=2026-12-31T00:00:00.5+08:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := pricing.ParseCoupon(s)
		if err != nil {
			return
		}
		text := c.String()
		back, err := pricing.ParseCoupon(text)
		if err != nil || back.String() != text {
			t.Errorf("%q is %q, and that %q, %v", s, text, back, err)
		}
		if c.PPM < 0 || c.PPM > 1_000_000 || (c.PPM > 0) == (c.Fixed > 0) {
			t.Errorf("%q takes off %d millionths or %s", s, c.PPM, c.Fixed)
		}
	})
}

func FuzzTaxTable(f *testing.F) {
	f.Add("jurisdiction,name,rate,mode,from,until\nUS-NY,\"sales, tax\",8.875%,exclusive,,\nCN,VAT,6%,inclusive,2026-01-01,2026-07-01\n")
	f.Add("jurisdiction,name,rate,mode,from,until\n")
	f.Fuzz(func(t *testing.T, s string) {
		table, err := pricing.ParseTaxTable(strings.NewReader(s))
		if err != nil {
			return
		}
		for _, r := range table {
			if err := r.Check(); err != nil {
				t.Errorf("%q has %+v: %v", s, r, err)
			}
			v, err := pricing.NewInvoice(money.USD, []pricing.InvoiceLine{{Amount: 123_456_789}}, []pricing.TaxRule{r})
			if err != nil || v.Total < v.Subtotal {
				t.Errorf("%+v makes %+v, %v", r, v, err)
			}
		}
	})
}

// A quote comes back from the store as bytes; whatever they are, rating them ends
// in an amount or an error.
func FuzzQuote(f *testing.F) {
	f.Add([]byte(`{"version":2,"plan":"spot","time_zone":"UTC","tariff":{"granularity":"second","compute_per_hour":"1"},"eviction_free_seconds":60}`))
	f.Add([]byte(`{"version":1,"plan":"on_demand","time_zone":"UTC","disk_gib":5,"tariff":{"granularity":"hour","minimum_seconds":-9223372036854775808}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var q pricing.Quote
		if json.Unmarshal(b, &q) != nil {
			return
		}
		u := pricing.Usage{Compute: []pricing.Interval{at(0, 100, 5), at(100, 200, 7)}, Storage: session(0, 1e7), EgressBytes: 1e12, PublicIPs: []pricing.Kept{{"a", 1, session(0, 1000)[0]}}}
		d, err := pricing.Due(q, u)
		if err != nil {
			return
		}
		again, err := pricing.Due(q, u)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := json.Marshal(d)
		if y, _ := json.Marshal(again); !bytes.Equal(x, y) {
			t.Errorf("%s and %s", x, y)
		}
	})
}
