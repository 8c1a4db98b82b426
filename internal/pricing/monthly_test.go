package pricing_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// zones have a change of clocks of every kind: by half an hour, over midnight, a
// whole day left out, none at all.
var zones = []string{"UTC", "Asia/Shanghai", "America/New_York", "Europe/London", "Pacific/Apia", "Asia/Kathmandu", "America/Havana", "Australia/Lord_Howe", "America/Los_Angeles", "America/St_Johns"}

func moment(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestMonthsAreCountedFromTheAnchor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		anchor, zone string
		want         []string
	}{
		{"2026-01-31T09:30:00+08:00", "Asia/Shanghai", []string{"2026-01-31T09:30:00+08:00", "2026-02-28T09:30:00+08:00", "2026-03-31T09:30:00+08:00", "2026-04-30T09:30:00+08:00", "2026-05-31T09:30:00+08:00"}},
		{"2028-01-30T00:00:00Z", "UTC", []string{"2028-01-30T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-30T00:00:00Z"}},
		{"2024-02-29T12:00:00Z", "UTC", []string{"2024-02-29T12:00:00Z", "2024-03-29T12:00:00Z"}},
		// Clocks go forward on the night of 31 March: one boundary, at local midnight.
		{"2024-03-01T00:00:00+01:00", "Europe/Paris", []string{"2024-03-01T00:00:00+01:00", "2024-04-01T00:00:00+02:00", "2024-05-01T00:00:00+02:00"}},
		// 02:30 does not exist on 8 March 2026 in New York, and comes twice on 1 November.
		{"2026-02-08T02:30:00-05:00", "America/New_York", []string{"2026-02-08T02:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-04-08T02:30:00-04:00"}},
		{"2026-10-01T01:30:00-04:00", "America/New_York", []string{"2026-10-01T01:30:00-04:00", "2026-11-01T01:30:00-04:00", "2026-12-01T01:30:00-05:00"}},
		// Samoa had no 30 December 2011.
		{"2011-11-30T10:00:00-10:00", "Pacific/Apia", []string{"2011-11-30T10:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-30T10:00:00+14:00"}},
	} {
		for n, want := range c.want {
			got, err := pricing.Boundary(moment(t, c.anchor), c.zone, n)
			if err != nil || !got.Equal(moment(t, want)) {
				t.Errorf("boundary %d from %s in %s is %s, %v; want %s", n, c.anchor, c.zone, got, err, want)
			}
		}
	}
}

// On 30 May nothing of an account that began on 31 March is due yet.
func TestAPeriodDoesNotEndADayEarly(t *testing.T) {
	t.Parallel()
	p, err := pricing.PeriodAt(moment(t, "2026-03-31T00:00:00Z"), "UTC", 1, moment(t, "2026-05-30T23:59:59Z"))
	if err != nil || p.Number != 1 || !p.End.Equal(moment(t, "2026-05-31T00:00:00Z")) {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestPeriodsTileTime(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		anchor := time.Unix(rapid.Int64Range(1_100_000_000, 1_900_000_000).Draw(t, "anchor"), 0)
		months := rapid.SampledFrom(pricing.Terms[:]).Draw(t, "months")
		at := anchor.Add(time.Duration(rapid.Int64Range(0, 10*366*86_400).Draw(t, "after s")) * time.Second)
		p, err := pricing.PeriodAt(anchor, zone, months, at)
		if err != nil {
			t.Fatal(err)
		}
		if at.Before(p.Start) || !at.Before(p.End) {
			t.Fatalf("%s is not in %+v", at, p)
		}
		next, err := pricing.PeriodAt(anchor, zone, months, p.End)
		if err != nil || next.Number != p.Number+1 || !next.Start.Equal(p.End) {
			t.Fatalf("after %+v comes %+v, %v", p, next, err)
		}
		if d := p.End.Sub(p.Start); d < time.Duration(months)*27*24*time.Hour || d > time.Duration(months)*32*24*time.Hour {
			t.Fatalf("a period of %d months has %s", months, d)
		}
	})
}

func TestDaysAreTheZonesDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, until, zone string
		want              int64
	}{
		{"2025-04-01T00:00:00+02:00", "2025-07-01T00:00:00+02:00", "Europe/Paris", 91},
		{"2025-05-20T00:00:00+02:00", "2025-07-01T00:00:00+02:00", "Europe/Paris", 42},
		{"2025-04-15T00:00:00+02:00", "2025-07-15T00:00:00+02:00", "Europe/Paris", 91},
		{"2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00", "America/New_York", 1},
		{"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00", "America/New_York", 1},
		{"2017-03-01T23:30:00-08:00", "2017-03-31T23:30:00-07:00", "America/Los_Angeles", 30},
		{"2011-12-01T00:00:00-10:00", "2012-01-01T00:00:00+14:00", "Pacific/Apia", 30},
		{"2026-03-08T00:00:00Z", "2026-03-08T00:00:00Z", "UTC", 0},
	} {
		if got, err := pricing.Days(moment(t, c.from), moment(t, c.until), c.zone); err != nil || got != c.want {
			t.Errorf("%s to %s in %s: %d days, %v; want %d", c.from, c.until, c.zone, got, err, c.want)
		}
	}
}

func prepaid(t testing.TB, anchor, perMonth string, months int, bp int64) pricing.Prepaid {
	t.Helper()
	return pricing.Prepaid{Anchor: moment(t, anchor), TimeZone: "Asia/Shanghai", PerMonth: amount(t, perMonth), TermMonths: months, BasisPoints: bp, Renews: true}
}

func TestAChangeIsProratedByTheDay(t *testing.T) {
	t.Parallel()
	p := prepaid(t, "2026-03-01T00:00:00+08:00", "3000", 1, 0)
	c, err := p.Change(amount(t, "5000"), 0, moment(t, "2026-03-13T00:00:00+08:00"))
	if err != nil || c.Credit.String() != "1838.709677" || c.Charge.String() != "3064.516129" || c.Net.String() != "1225.806452" {
		t.Errorf("got %+v, %v", c, err)
	}
	// After half of a day, and of a month that lost an hour.
	p = pricing.Prepaid{Anchor: moment(t, "2026-03-01T00:00:00-05:00"), TimeZone: "America/New_York", PerMonth: amount(t, "3100"), TermMonths: 1}
	c, err = p.Change(0, 0, moment(t, "2026-03-20T12:00:00-04:00"))
	if err != nil || c.Net.String() != "-1150.000000" {
		t.Errorf("11.5 of 31 days at 100 a day: got %+v, %v", c, err)
	}
}

func TestAnEarlyEndGivesBackWhatTheUndiscountedPriceLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		p               pricing.Prepaid
		at              string
		paid, used, got string
	}{
		{"at once", prepaid(t, "2026-03-01T00:00:00+08:00", "3100", 1, 0), "2026-03-01T00:00:00+08:00", "3100.000000", "0.000000", "3100.000000"},
		{"after 12 of 31 days", prepaid(t, "2026-03-01T00:00:00+08:00", "3100", 1, 0), "2026-03-13T00:00:00+08:00", "3100.000000", "1200.000000", "1900.000000"},
		{"a year with 20 % off, after 3 months and 10 of 30 days", prepaid(t, "2026-01-01T00:00:00+08:00", "3000", 12, 2000), "2026-04-11T00:00:00+08:00", "28800.000000", "10000.000000", "18800.000000"},
		{"the discount is used up", prepaid(t, "2026-01-01T00:00:00+08:00", "3000", 12, 2000), "2026-11-01T00:00:00+08:00", "28800.000000", "30000.000000", "0.000000"},
	} {
		r, err := c.p.End(moment(t, c.at))
		if err != nil || r.Paid.String() != c.paid || r.Used.String() != c.used || r.Refund.String() != c.got {
			t.Errorf("%s: got %+v, %v", c.name, r, err)
		}
	}
}

func TestATermIsPaidInAdvanceAndRenewsIfTold(t *testing.T) {
	t.Parallel()
	table := []pricing.TermDiscount{{1, 0}, {3, 500}, {6, 1000}, {12, 2000}}
	p, err := pricing.NewPrepaid(moment(t, "2026-01-31T09:30:00+08:00"), "Asia/Shanghai", amount(t, "1000"), 3, table, true)
	if err != nil {
		t.Fatal(err)
	}
	terms, err := p.Payments(moment(t, "2026-07-31T09:30:00+08:00"))
	if err != nil || len(terms) != 3 {
		t.Fatalf("got %+v, %v", terms, err)
	}
	for _, term := range terms {
		if term.Amount.String() != "2850.000000" {
			t.Errorf("a term costs %s", term.Amount)
		}
	}
	if !terms[1].Period.Start.Equal(moment(t, "2026-04-30T09:30:00+08:00")) {
		t.Errorf("the second term begins at %s", terms[1].Period.Start)
	}
	p.Renews = false
	if terms, err := p.Payments(moment(t, "2026-07-31T09:30:00+08:00")); err != nil || len(terms) != 1 {
		t.Errorf("without renewal: %+v, %v", terms, err)
	}
	if _, err := p.End(moment(t, "2026-07-31T09:30:00+08:00")); err == nil {
		t.Error("a term that is over can be ended")
	}
}

func TestARefundIsNeverLessThanNothingNorMoreThanWasPaid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := pricing.Prepaid{
			Anchor: time.Unix(rapid.Int64Range(1_100_000_000, 1_900_000_000).Draw(t, "anchor"), 0), TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"),
			PerMonth: money.Amount(rapid.Int64Range(0, 1_000_000_000_000).Draw(t, "price")), TermMonths: rapid.SampledFrom(pricing.Terms[:]).Draw(t, "months"),
			BasisPoints: rapid.Int64Range(0, 10_000).Draw(t, "discount"), Renews: true,
		}
		at := p.Anchor
		last := money.Amount(-1)
		term := 0
		for range 10 {
			at = at.Add(time.Duration(rapid.Int64Range(0, 20*86_400).Draw(t, "step")) * time.Second)
			r, err := p.End(at)
			if err != nil || r.Refund < 0 || r.Refund > r.Paid {
				t.Fatalf("%+v, %v", r, err)
			}
			if r.Term.Number == term && last >= 0 && r.Refund > last {
				t.Fatalf("the refund grows from %s to %s", last, r.Refund)
			}
			last, term = r.Refund, r.Term.Number
			// A change to the same price is no change.
			if c, err := p.Change(p.PerMonth, p.BasisPoints, at); err != nil || c.Net != 0 || c.Credit < 0 {
				t.Fatalf("%+v, %v", c, err)
			}
		}
	})
}
