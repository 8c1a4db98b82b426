package pricing_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func whole(t testing.TB, at, zone string) (pricing.Period, []pricing.Interval) {
	t.Helper()
	p, err := pricing.MonthOf(moment(t, at), zone)
	if err != nil {
		t.Fatal(err)
	}
	return p, []pricing.Interval{{Start: p.Start.Add(-time.Hour), End: p.End.Add(time.Hour)}}
}

func down(from time.Time, seconds int64, cause pricing.Cause) pricing.Evidence {
	return pricing.Evidence{Cause: cause, Start: from, End: from.Add(time.Duration(seconds) * time.Second), Source: "agent", Reference: from.String()}
}

// 99.9 % of 28, 29, 30 and 31 days leaves 40.32, 41.76, 43.20 and 44.64 minutes.
func TestTheBudgetOfAMonthIsItsLength(t *testing.T) {
	t.Parallel()
	for month, budget := range map[string]int64{"2026-02-10T00:00:00Z": 2419, "2028-02-10T00:00:00Z": 2505, "2026-04-10T00:00:00Z": 2592, "2026-01-10T00:00:00Z": 2678} {
		_, promised := whole(t, month, "UTC")
		for seconds, want := range map[int64]int64{budget: 0, budget + 1: 1000} {
			a, err := pricing.Measure(pricing.DefaultPromise(), promised, []pricing.Evidence{down(moment(t, month), seconds, pricing.HostDown)}, moment(t, month), "UTC")
			if err != nil || a.BasisPoints != want || a.DownSeconds != seconds {
				t.Errorf("%s, down for %d s: %+v, %v; want a credit of %d", month, seconds, a, err, want)
			}
		}
	}
}

func TestCreditsGrowAsAvailabilityFalls(t *testing.T) {
	t.Parallel()
	_, promised := whole(t, "2026-04-10T00:00:00Z", "UTC") // 2,592,000 s
	for _, c := range []struct {
		down, ppm, bp int64
		credit        string
	}{
		{0, 1_000_000, 0, "0.000000"}, {59, 1_000_000, 0, "0.000000"}, {60, 999_976, 0, "0.000000"}, {2592, 999_000, 0, "0.000000"},
		{2593, 998_999, 1000, "10.000000"}, {25_920, 990_000, 1000, "10.000000"}, {25_921, 989_999, 2500, "25.000000"},
		{129_600, 950_000, 2500, "25.000000"}, {129_601, 949_999, 10_000, "100.000000"}, {2_592_000, 0, 10_000, "100.000000"},
	} {
		var evidence []pricing.Evidence
		if c.down > 0 {
			evidence = []pricing.Evidence{down(moment(t, "2026-04-01T00:00:00Z"), c.down, pricing.PlatformDown)}
		}
		a, err := pricing.Measure(pricing.DefaultPromise(), promised, evidence, moment(t, "2026-04-10T00:00:00Z"), "UTC")
		if err != nil || a.PPM != c.ppm || a.BasisPoints != c.bp {
			t.Errorf("down for %d s: %+v, %v", c.down, a, err)
		}
		if got, err := a.Credit(amount(t, "100")); err != nil || got.String() != c.credit {
			t.Errorf("down for %d s: a credit of %s, %v; want %s", c.down, got, err, c.credit)
		}
	}
}

func TestMaintenanceThatWasAnnouncedIsNotCounted(t *testing.T) {
	t.Parallel()
	at := moment(t, "2026-04-10T00:00:00Z")
	_, promised := whole(t, "2026-04-10T00:00:00Z", "UTC")
	window := down(at, 7200, pricing.Maintenance)
	window.AnnouncedAt = at.Add(-72 * time.Hour)
	late := down(at.Add(24*time.Hour), 7200, pricing.Maintenance)
	late.AnnouncedAt = at
	fault := down(at.Add(3600*time.Second), 7200, pricing.HostDown) // half of it in the window
	a, err := pricing.Measure(pricing.DefaultPromise(), promised, []pricing.Evidence{window, late, fault, fault}, at, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if a.ExcludedSeconds != 7200 || a.DownSeconds != 10_800 || a.HostDownSeconds != 10_800 || a.PromisedSeconds != 2_592_000-7200 {
		t.Errorf("got %+v", a)
	}
	if len(a.Excluded) != 1 || len(a.Outages) != 2 || len(a.Outages[0].Evidence) != 1 {
		t.Errorf("evidence: %+v", a)
	}
	p := pricing.DefaultPromise()
	p.PlannedSeconds = 3600
	if a, err = pricing.Measure(p, promised, []pricing.Evidence{window}, at, "UTC"); err != nil || a.ExcludedSeconds != 3600 || a.DownSeconds != 3600 {
		t.Errorf("an hour beyond what may be planned: %+v, %v", a, err)
	}
}

func TestOnlyWhatWasPromisedCounts(t *testing.T) {
	t.Parallel()
	at := moment(t, "2026-11-10T00:00:00Z")
	from := moment(t, "2026-11-01T00:00:00-04:00")
	promised := []pricing.Interval{{Start: from, End: from.Add(25 * time.Hour)}} // the day with 25 hours
	a, err := pricing.Measure(pricing.DefaultPromise(), promised, []pricing.Evidence{
		down(from.Add(-40*time.Second), 70, pricing.HostDown), // 30 s of it in the month
		down(from.Add(24*time.Hour), 7200, pricing.HostDown),  // an hour of it after the lease
		down(from.Add(time.Hour), 40, pricing.HostDown), down(from.Add(time.Hour+40*time.Second), 40, pricing.PlatformDown),
	}, at, "America/New_York")
	if err != nil || a.PromisedSeconds != 90_000 || a.DownSeconds != 30+3600+80 || a.HostDownSeconds != 30+3600+40 {
		t.Errorf("got %+v, %v", a, err)
	}
}

func TestAvailabilityIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		at := time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(t, "at"), 0)
		var evidence []pricing.Evidence
		for range rapid.IntRange(0, 8).Draw(t, "evidence") {
			from := at.Add(time.Duration(rapid.Int64Range(-40*86_400, 40*86_400).Draw(t, "from")) * time.Second)
			e := down(from, rapid.Int64Range(0, 20*86_400).Draw(t, "length"), rapid.SampledFrom([]pricing.Cause{pricing.HostDown, pricing.PlatformDown, pricing.Maintenance}).Draw(t, "cause"))
			e.AnnouncedAt = from.Add(-time.Duration(rapid.Int64Range(0, 6*86_400).Draw(t, "notice")) * time.Second)
			evidence = append(evidence, e)
		}
		var promised []pricing.Interval
		for range rapid.IntRange(0, 3).Draw(t, "promised") {
			from := at.Add(time.Duration(rapid.Int64Range(-40*86_400, 40*86_400).Draw(t, "from")) * time.Second)
			promised = append(promised, pricing.Interval{Start: from, End: from.Add(time.Duration(rapid.Int64Range(0, 40*86_400).Draw(t, "length")) * time.Second)})
		}
		p := pricing.DefaultPromise()
		p.PlannedSeconds = rapid.SampledFrom([]int64{0, 3600}).Draw(t, "planned")
		a, err := pricing.Measure(p, promised, evidence, at, zone)
		if err != nil {
			t.Fatal(err)
		}
		if a.PPM < 0 || a.PPM > 1_000_000 || a.DownSeconds > a.PromisedSeconds || a.HostDownSeconds > a.DownSeconds || a.DownSeconds < 0 {
			t.Fatalf("%+v", a)
		}
		var outages int64
		for _, o := range a.Outages {
			outages += int64(o.End.Sub(o.Start) / time.Second)
			if len(o.Evidence) == 0 {
				t.Fatalf("an outage without evidence: %+v", o)
			}
		}
		if outages != a.DownSeconds {
			t.Fatalf("outages of %d s, down for %d s", outages, a.DownSeconds)
		}
		b, err := pricing.Measure(p, promised, rapid.Permutation(append(evidence, evidence...)).Draw(t, "order"), at, zone)
		if err != nil || b.PPM != a.PPM || b.DownSeconds != a.DownSeconds {
			t.Fatalf("told twice in another order: %+v, %v", b, err)
		}
	})
}

func TestAHostPaysForItsFaultsByTheRule(t *testing.T) {
	t.Parallel()
	rule := pricing.PenaltyRule{Steps: []pricing.PenaltyStep{{3600, 500}, {7200, 1000}}, ClawBack: true}
	for _, c := range []struct {
		host, down         int64
		fault, claw, total string
	}{
		{0, 0, "0.000000", "0.000000", "0.000000"},
		{3599, 3599, "0.000000", "20.000000", "20.000000"},
		{3600, 7200, "4.000000", "10.000000", "14.000000"},
		{7200, 7200, "8.000000", "20.000000", "28.000000"},
	} {
		p, err := rule.Penalise(pricing.Availability{DownSeconds: c.down, HostDownSeconds: c.host}, amount(t, "80"), amount(t, "25"), 2000)
		if err != nil || p.Fault.String() != c.fault || p.ClawBack.String() != c.claw || p.Total.String() != c.total {
			t.Errorf("%d of %d s: %+v, %v", c.host, c.down, p, err)
		}
	}
	if p, err := rule.Penalise(pricing.Availability{DownSeconds: 9000, HostDownSeconds: 9000}, amount(t, "1"), amount(t, "25"), 2000); err != nil || p.Total != amount(t, "1") {
		t.Errorf("a penalty of %s for a share of 1, %v", p.Total, err)
	}
}

func TestEarningsAreHeldThenPaidOut(t *testing.T) {
	t.Parallel()
	rule := pricing.Payouts{HoldSeconds: 7 * 86_400}
	earnings := []pricing.Earning{{"a", after(0), amount(t, "10")}, {"b", after(86_400), amount(t, "20")}, {"b", after(2 * 86_400), amount(t, "-5")}, {"a", after(9 * 86_400), amount(t, "-4")}}
	for _, c := range []struct {
		day                   int64
		paid                  string
		held, available, owed string
	}{
		{0, "0", "10.000000", "0.000000", "0.000000"},
		{6, "0", "25.000000", "0.000000", "0.000000"},
		{7, "0", "15.000000", "10.000000", "0.000000"},
		{8, "10", "0.000000", "15.000000", "0.000000"},
		{9, "25", "0.000000", "0.000000", "4.000000"},
	} {
		p, err := rule.At(earnings, amount(t, c.paid), after(c.day*86_400))
		if err != nil || p.Held.String() != c.held || p.Available.String() != c.available || p.Owed.String() != c.owed {
			t.Errorf("day %d: %+v, %v", c.day, p, err)
		}
	}
	if got, err := pricing.FloorMinor(amount(t, "1129.506"), money.CNY); err != nil || got.String() != "1129.500000" {
		t.Errorf("1,129.506 can be withdrawn as %s, %v", got, err)
	}
}

func TestNothingThatAHostEarnedIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var earnings []pricing.Earning
		for range rapid.IntRange(0, 10).Draw(t, "earnings") {
			earnings = append(earnings, pricing.Earning{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "charge"), after(rapid.Int64Range(0, 1e6).Draw(t, "at")), money.Amount(rapid.Int64Range(-1e9, 1e9).Draw(t, "amount"))})
		}
		rule := pricing.Payouts{HoldSeconds: rapid.Int64Range(0, 1e6).Draw(t, "hold"), ReserveBasisPoints: rapid.Int64Range(0, 10_000).Draw(t, "reserve")}
		p, err := rule.At(earnings, money.Amount(rapid.Int64Range(0, 1e9).Draw(t, "paid")), after(rapid.Int64Range(0, 2e6).Draw(t, "now")))
		if err != nil || p.Held < 0 || p.Available < 0 || p.Reserved < 0 || p.Owed < 0 || (p.Available > 0 && p.Owed > 0) || p.NextAt.IsZero() != (p.Held == 0) {
			t.Fatalf("%+v, %v", p, err)
		}
		if p.Held+p.Available+p.Reserved+p.Paid-p.Owed != p.Earned {
			t.Fatalf("%+v", p)
		}
	})
}
