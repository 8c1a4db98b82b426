package pricing_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func market(t testing.TB) pricing.Market {
	clearing, month := rate(t, "0.40"), amount(t, "500")
	trial := grant("t", "20", 0, pricing.TrialSeconds, t)
	return pricing.Market{
		GPUModel: "H100", Zone: "a", GPUs: 2,
		Tariff:   pricing.Tariff{Currency: money.CNY, Compute: rate(t, "1"), Storage: rate(t, "0.744"), Egress: rate(t, "0.8"), Granularity: pricing.Second, MinimumSeconds: 60},
		Clearing: &clearing, PerMonth: &month, Terms: []pricing.TermDiscount{{1, 0}, {12, 2000}},
		Curve: &pricing.Curve{Terms: []pricing.TermDiscount{{1, 1000}, {12, 4000}}, AllBasisPoints: 500}, Bounds: pricing.Bounds{12, 5000},
		Trial: &trial,
	}
}

func TestAllPlansAreShownSideBySide(t *testing.T) {
	t.Parallel()
	c, err := pricing.Compare(market(t), pricing.Request{DiskGiB: 10, TimeZone: "UTC", RunSeconds: 100 * 3600}, start)
	if err != nil {
		t.Fatal(err)
	}
	// 10 GiB of disk are 0.01 an hour in a March of 744 hours.
	want := map[string]struct{ now, hour, run string }{
		"on_demand/0/":        {"0.000000", "1.010000", "101.000000"},
		"spot/0/":             {"0.000000", "0.410000", "41.000000"},
		"reserved/1/none":     {"0.000000", "0.910000", "670.600000"}, // 744 clock hours at 0.90, and the disk
		"reserved/1/all":      {"632.400000", "0.860000", "633.400000"},
		"reserved/12/none":    {"0.000000", "0.610000", ""},
		"monthly/1/":          {"500.000000", "0.682043", "501.000000"},
		"monthly/12/":         {"4800.000000", "0.547634", "4801.000000"},
		"trial/0/":            {"0.000000", "1.010000", "81.000000"},
		"reserved/12/all":     {"", "0.560000", ""},
		"monthly/3/":          {"1500.000000", "", ""},
		"reserved/12/partial": {"", "0.610000", ""},
	}
	var plans []string
	for _, o := range c.Options {
		if !slices.Contains(plans, o.Plan) {
			plans = append(plans, o.Plan)
		}
		key := o.Plan + "/" + string(rune('0'+o.TermMonths%100/10)) + string(rune('0'+o.TermMonths%10)) + "/" + string(o.Payment)
		key = string(bytes.Replace([]byte(key), []byte("/0"), []byte("/"), 1))
		w, ok := want[key]
		if !ok {
			continue
		}
		delete(want, key)
		if !o.Available || len(o.NotIncluded) == 0 {
			t.Errorf("%s: %+v", key, o)
		}
		for _, p := range [][2]string{{o.DueNow.String(), w.now}, {o.Totals.PerHour.String(), w.hour}, {o.Totals.ForRun.String(), w.run}} {
			if p[1] != "" && p[0] != p[1] {
				t.Errorf("%s: %s, want %s (%+v)", key, p[0], p[1], o)
			}
		}
	}
	if !slices.Equal(plans, pricing.Plans[:]) {
		t.Errorf("plans %v", plans)
	}
	for key := range want {
		t.Errorf("%s is missing", key)
	}
}

func TestWhatCannotBeHadIsShownWithAReason(t *testing.T) {
	t.Parallel()
	m := market(t)
	m.PerMonth, m.Curve = nil, nil
	m.Trial.Spent = m.Trial.Cap
	c, err := pricing.Compare(m, pricing.Request{Bid: rate(t, "0.39")}, start)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{pricing.Spot: pricing.BidTooLow, pricing.Reserved: pricing.NotOffered, pricing.Monthly: pricing.NotOffered, pricing.Trial: pricing.TrialExpired}
	for _, o := range c.Options {
		if o.Why != want[o.Plan] || o.Available != (o.Plan == pricing.OnDemand) {
			t.Errorf("%s: available %t, %q", o.Plan, o.Available, o.Why)
		}
	}
}

func TestAComparisonIsTheSameWhenItIsAskedForAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		clearing, month := money.Rate(rapid.Int64Range(0, 1e10).Draw(t, "clearing")), money.Amount(rapid.Int64Range(0, 1e10).Draw(t, "month"))
		m := pricing.Market{
			GPUModel: "H100", Zone: "a", GPUs: rapid.Int64Range(1, 8).Draw(t, "gpus"),
			Tariff:   pricing.Tariff{Currency: money.USD, Compute: money.Rate(rapid.Int64Range(0, 1e10).Draw(t, "compute")), Storage: 350_000_000, Ingress: 1, Granularity: pricing.Minute},
			Clearing: &clearing, PerMonth: &month, Curve: &pricing.Curve{Terms: []pricing.TermDiscount{{3, 1000}}}, Bounds: pricing.Bounds{12, 5000},
		}
		r := pricing.Request{DiskGiB: 10, TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"), RunSeconds: rapid.Int64Range(1, 1e8).Draw(t, "run"), PublicIPs: 1}
		at := time.Unix(rapid.Int64Range(1_300_000_000, 1_900_000_000).Draw(t, "at"), 0)
		a, err := pricing.Compare(m, r, at)
		if err != nil {
			t.Fatal(err)
		}
		b, err := pricing.Compare(m, r, at.In(time.FixedZone("", 3600)))
		if err != nil {
			t.Fatal(err)
		}
		x, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if y, err := json.Marshal(b); err != nil || !bytes.Equal(x, y) {
			t.Fatalf("%s\n%s, %v", x, y, err)
		}
		for _, o := range a.Options {
			if o.Quote == nil || o.Plan == pricing.OnDemand {
				continue
			}
			var sum money.Amount
			for _, l := range o.Quote.Lines {
				sum += l.ForRun
			}
			if sum != o.Quote.Totals.ForRun {
				t.Fatalf("%s: lines of %s, a total of %s", o.Plan, sum, o.Quote.Totals.ForRun)
			}
		}
	})
}

func TestASpotQuoteHoldsAnHourAtTheBid(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "0.4"), PublicIP: rate(t, "0.01")}, pricing.Request{Plan: pricing.Spot, Bid: rate(t, "0.7"), PublicIPs: 2})
	if got, err := q.Hold(); err != nil || got.String() != "0.720000" {
		t.Errorf("hold %s, %v; want 0.72", got, err)
	}
}

func TestWhatIsKeptCostsByTheHourToo(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Storage: rate(t, "0.744"), PublicIP: rate(t, "0.01"), Snapshot: rate(t, "0.0744"), Volume: rate(t, "0.00744")},
		pricing.Request{DiskGiB: 100, PublicIPs: 1, SnapshotGiB: 100, VolumeGiB: 100})
	got, err := q.KeptPerHour(start) // a month of 744 hours
	if err != nil || got.String() != "0.121000" {
		t.Errorf("an hour costs %s, %v; want 0.121", got, err)
	}
	for _, s := range q.States {
		if s.State == "stopped" && s.PerHour != got {
			t.Errorf("the quote says that a stopped hour costs %s", s.PerHour)
		}
	}
}

func TestNonsenseGetsNoQuoteUnderAnyPlan(t *testing.T) {
	t.Parallel()
	good := pricing.Tariff{Currency: money.USD, Compute: 1, Granularity: pricing.Second}
	for name, c := range map[string]func(*pricing.Tariff, *pricing.Request){
		"months without terms":        func(t *pricing.Tariff, r *pricing.Request) { r.Plan = pricing.Monthly },
		"terms without months":        func(t *pricing.Tariff, r *pricing.Request) { r.Prepaid = &pricing.Prepaid{TermMonths: 1} },
		"a negative bid":              func(t *pricing.Tariff, r *pricing.Request) { r.Bid = -1 },
		"spot with a minimum":         func(t *pricing.Tariff, r *pricing.Request) { r.Plan, t.MinimumSeconds = pricing.Spot, 60 },
		"a negative address":          func(t *pricing.Tariff, r *pricing.Request) { r.PublicIPs = -1 },
		"a snapshot of an exabyte":    func(t *pricing.Tariff, r *pricing.Request) { r.SnapshotGiB = 1 << 30 },
		"a volume of an exabyte":      func(t *pricing.Tariff, r *pricing.Request) { r.VolumeGiB = 1 << 30 },
		"a negative price of ingress": func(t *pricing.Tariff, r *pricing.Request) { t.Ingress = -1 },
		"negative ingress":            func(t *pricing.Tariff, r *pricing.Request) { r.IngressBytes = -1 },
		"a term of two months": func(t *pricing.Tariff, r *pricing.Request) {
			r.Plan, r.Prepaid = pricing.Monthly, &pricing.Prepaid{TermMonths: 2, TimeZone: "UTC", Anchor: start}
		},
	} {
		tariff, request := good, pricing.Request{Plan: pricing.Reserved}
		c(&tariff, &request)
		if q, err := pricing.NewQuote(tariff, request, start); err == nil {
			t.Errorf("%s is quoted: %+v", name, q.Totals)
		}
	}
}

func TestAQuoteOfVersion2SaysTheSameAfterAJourneyThroughJSON(t *testing.T) {
	t.Parallel()
	p := prepaid(t, "2026-03-02T08:00:00Z", "3000", 12, 2000)
	q := planned(t, pricing.Tariff{Compute: rate(t, "1"), Snapshot: rate(t, "0.1")}, pricing.Request{Plan: pricing.Monthly, Prepaid: &p, SnapshotGiB: 5})
	q.PriceChanges = []pricing.PriceChange{{From: after(10).UTC(), Compute: 5}}
	b, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var back pricing.Quote
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || !bytes.Equal(b, again) {
		t.Errorf("%v\n%s\n%s", err, b, again)
	}
}

func TestMoneyIsFollowedToTheSecondItEnds(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "3.6")}, pricing.Request{})
	d := func(at time.Time) (money.Amount, error) {
		d, err := pricing.Due(q, pricing.Usage{Compute: []pricing.Interval{{Start: start, End: at}}})
		return d[pricing.Compute], err
	}
	for budget, want := range map[money.Amount]int64{0: 0, 36_999: 36, 37_000: 37, -5: 0} {
		got, ok, err := pricing.RunsOut(d, budget, start, after(86_400))
		if err != nil || !ok || !got.Equal(after(want)) {
			t.Errorf("%s lasts until %s, %t, %v; want %s", budget, got, ok, err, after(want))
		}
	}
	if _, ok, err := pricing.RunsOut(d, 86_400_000, start, after(86_400)); ok || err != nil {
		t.Errorf("money for a day ends within it: %v", err)
	}
	for left, want := range map[time.Duration]time.Duration{25 * time.Hour: 0, 24 * time.Hour: 24 * time.Hour, 59 * time.Minute: time.Hour, 10 * time.Minute: 10 * time.Minute, 0: 10 * time.Minute} {
		if got, _ := pricing.Warning(left); got != want {
			t.Errorf("%s before the end the warning is %s, want %s", left, got, want)
		}
	}
}

func TestABudgetWarnsOnceAtEachMark(t *testing.T) {
	t.Parallel()
	month, err := pricing.MonthOf(start, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	f, err := pricing.Forecast(amount(t, "10"), amount(t, "2"), month, month.End.Add(-10*time.Hour))
	if err != nil || f != amount(t, "30") {
		t.Errorf("forecast %s, %v; want 30", f, err)
	}
	a, err := pricing.BudgetAlerts(amount(t, "30"), pricing.StandardAlerts(), amount(t, "24"), f, []pricing.Alert{{5000, false}})
	if err != nil || !slices.Equal(a, []pricing.Alert{{8000, false}, {10_000, true}}) {
		t.Errorf("alerts %+v, %v", a, err)
	}
	if again, err := pricing.BudgetAlerts(amount(t, "30"), pricing.StandardAlerts(), amount(t, "24"), f, append(a, pricing.Alert{5000, false})); err != nil || len(again) != 0 {
		t.Errorf("again %+v, %v", again, err)
	}
}
