package pricing_test

import (
	"fmt"
	"log"
	"os"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// The examples of docs/pricing.md, which a test compares with these.

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func say(format string, a ...any) { fmt.Fprintf(os.Stdout, format+"\n", a...) }

func ExampleDue() {
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	quote := must(pricing.NewQuote(
		pricing.Tariff{Currency: money.CNY, Compute: must(money.ParseRate("1.29")), Granularity: pricing.Second, MinimumSeconds: 60},
		pricing.Request{Plan: pricing.OnDemand}, begin))
	for _, ran := range []time.Duration{59 * time.Second, 3599 * time.Second, time.Hour} {
		due := must(pricing.Due(quote, pricing.Usage{Compute: []pricing.Interval{{Start: begin, End: begin.Add(ran)}}}))
		say("%s: %s", ran, due[pricing.Compute])
	}
	// Output:
	// 59s: 0.021500
	// 59m59s: 1.289642
	// 1h0m0s: 1.290000
}

func ExampleDue_spot() {
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	quote := must(pricing.NewQuote(
		pricing.Tariff{Currency: money.USD, Compute: must(money.ParseRate("0.80")), Granularity: pricing.Second},
		pricing.Request{Plan: pricing.Spot, Bid: must(money.ParseRate("1.48"))}, begin))
	cheap, dear := must(money.ParseRate("0.80")), must(money.ParseRate("1.48"))
	due := must(pricing.Due(quote, pricing.Usage{Compute: []pricing.Interval{
		{Start: begin, End: begin.Add(8 * time.Hour), Rate: cheap},
		{Start: begin.Add(8 * time.Hour), End: begin.Add(10 * time.Hour), Rate: dear},
	}}))
	say("%s", due[pricing.Compute].Display())
	// Output: 9.36
}

func ExampleApplyReservations() {
	hour := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	reservation := pricing.Reservation{
		ID: "r", GPUModel: "H100", Zone: "a", GPUs: 1, From: hour, Until: hour.Add(time.Hour), Payment: pricing.NoUpfront, Hourly: must(money.ParseRate("1.20")),
	}
	var runs []pricing.Run
	for _, lease := range []string{"x", "y", "z"} {
		runs = append(runs, pricing.Run{LeaseID: lease, GPUModel: "H100", Zone: "a", GPUs: 1, Compute: []pricing.Interval{{Start: hour, End: hour.Add(time.Hour)}}})
	}
	applied := must(pricing.ApplyReservations([]pricing.Reservation{reservation}, runs, hour.Add(time.Hour)))
	for _, l := range applied.Hours[0].Leases {
		say("%s: %d s of the reservation, %d s on demand", l.LeaseID, l.Seconds, 3600-l.Seconds)
	}
	// Output:
	// x: 1200 s of the reservation, 2400 s on demand
	// y: 1200 s of the reservation, 2400 s on demand
	// z: 1200 s of the reservation, 2400 s on demand
}

func ExampleReserve() {
	priced := must(pricing.Reserve(pricing.Purchase{
		ID: "r", GPUModel: "H100", Zone: "a", GPUs: 1, Currency: money.CNY, ListHourly: must(money.ParseRate("10")),
		From: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC), TimeZone: "UTC", Months: 3, Payment: pricing.PartialUpfront,
	}, pricing.Curve{Terms: []pricing.TermDiscount{{Months: 1, BasisPoints: 1000}, {Months: 3, BasisPoints: 2500}}}, pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 5000}))
	say("%d hours, %s upfront and %s an hour, %s in all", priced.Hours, priced.Reservation.UpfrontDue.Display(), priced.Reservation.Hourly.Display(), priced.Total.Display())
	// Output: 2184 hours, 8190.00 upfront and 3.75 an hour, 16380.00 in all
}

func ExamplePrepaid_Change() {
	zone := must(time.LoadLocation("Asia/Shanghai"))
	plan := must(pricing.NewPrepaid(time.Date(2026, 3, 1, 0, 0, 0, 0, zone), "Asia/Shanghai", must(money.ParseAmount("3000")), 1, nil, true))
	change := must(plan.Change(must(money.ParseAmount("5000")), 0, time.Date(2026, 3, 13, 0, 0, 0, 0, zone)))
	say("%s is credited and %s charged: %s", change.Credit, change.Charge, change.Net)
	end := must(plan.End(time.Date(2026, 3, 13, 0, 0, 0, 0, zone)))
	say("ended instead, %s is given back", end.Refund)
	// Output:
	// 1838.709677 is credited and 3064.516129 charged: 1225.806452
	// ended instead, 1838.709677 is given back
}

func ExampleBoundary() {
	zone := must(time.LoadLocation("Asia/Shanghai"))
	for n := range 4 {
		b := must(pricing.Boundary(time.Date(2026, 1, 31, 9, 30, 0, 0, zone), "Asia/Shanghai", n))
		say("%s", b.In(zone).Format("2 January 15:04"))
	}
	// Output:
	// 31 January 09:30
	// 28 February 09:30
	// 31 March 09:30
	// 30 April 09:30
}

func ExampleDrawGrants() {
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	trial := must(pricing.NewTrial("trial", pricing.TrialTerms{Worth: must(money.ParseAmount("20"))}, begin))
	quote := must(pricing.NewQuote(
		pricing.Tariff{Currency: money.CNY, Compute: must(money.ParseRate("3.60")), Granularity: pricing.Second},
		pricing.Request{Plan: pricing.Trial}, begin))
	late := trial.ExpiresAt.Add(-time.Minute) // ran for two minutes over the end
	spends := must(pricing.Spends(quote, pricing.Usage{Compute: []pricing.Interval{{Start: late, End: late.Add(2 * time.Minute)}}}, "lease", "H100", []time.Time{trial.ExpiresAt}))
	draws, rest, err := pricing.DrawGrants([]pricing.Grant{trial}, spends)
	if err != nil {
		log.Fatal(err)
	}
	say("%s from the trial, %s from the wallet", draws[0].Amount.Display(), rest[1].Display())
	// Output: 0.06 from the trial, 0.06 from the wallet
}

func ExampleNewInvoice() {
	var lines []pricing.InvoiceLine
	for _, a := range []string{"68.33", "68.33", "57.50", "85.00"} {
		lines = append(lines, pricing.InvoiceLine{Amount: must(money.ParseAmount(a))})
	}
	invoice := must(pricing.NewInvoice(money.USD, lines, []pricing.TaxRule{{Jurisdiction: "FR", Name: "TVA", PPM: 200_000}}))
	for _, l := range invoice.Lines {
		say("%s + %s", l.Shown.Display(), l.Tax[0].Display())
	}
	say("%s + %s = %s", invoice.Subtotal.Display(), invoice.Taxes[0].Amount.Display(), invoice.Total.Display())
	// Output:
	// 68.33 + 13.67
	// 68.33 + 13.66
	// 57.50 + 11.50
	// 85.00 + 17.00
	// 279.16 + 55.83 = 334.99
}

func ExampleMeasure() {
	april := time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	a := must(pricing.Measure(pricing.DefaultPromise(),
		[]pricing.Interval{{Start: april, End: april.AddDate(0, 1, 0)}},
		[]pricing.Evidence{{Cause: pricing.HostDown, Start: april, End: april.Add(50 * time.Minute), Source: "agent", Reference: "outage-1"}},
		april, "UTC"))
	credit := must(a.Credit(must(money.ParseAmount("720"))))
	say("%d millionths, %s of 720.00 is given back", a.PPM, credit.Display())
	// Output: 998842 millionths, 72.00 of 720.00 is given back
}
