package pricing_test

import (
	"encoding/json"
	"math/big"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func rate(t testing.TB, s string) money.Rate {
	t.Helper()
	r, err := money.ParseRate(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func amount(t testing.TB, s string) money.Amount {
	t.Helper()
	a, err := money.ParseAmount(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var start = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func after(seconds int64) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

func quote(t testing.TB, tariff pricing.Tariff, r pricing.Request) pricing.Quote {
	t.Helper()
	tariff.Currency = money.CNY
	r.Plan = pricing.OnDemand
	q, err := pricing.NewQuote(tariff, r, start)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func due(t testing.TB, q pricing.Quote, u pricing.Usage) map[pricing.Meter]money.Amount {
	t.Helper()
	d, err := pricing.Due(q, u)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func session(from, to int64) []pricing.Interval {
	return []pricing.Interval{{Start: after(from), End: after(to)}}
}

func TestASessionIsChargedByItsGranularityAndMinimum(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		granularity pricing.Granularity
		minimum     int64
		length      time.Duration
		want        string
	}{
		{"59 s, by the second, 60 s minimum", pricing.Second, 60, 59 * time.Second, "0.021500"},
		{"3599 s, by the second", pricing.Second, 60, 3599 * time.Second, "1.289642"},
		{"3600 s, by the second", pricing.Second, 60, 3600 * time.Second, "1.290000"},
		{"61 s, by the minute", pricing.Minute, 0, 61 * time.Second, "0.043000"},
		{"60.9 s, by the minute: seconds are floored first", pricing.Minute, 0, 60_900 * time.Millisecond, "0.021500"},
		{"61 s, by the hour", pricing.Hour, 0, 61 * time.Second, "1.290000"},
		{"3601 s, by the hour", pricing.Hour, 0, 3601 * time.Second, "2.580000"},
		{"half a second, by the second, no minimum", pricing.Second, 0, 500 * time.Millisecond, "0.000000"},
		{"half a second, by the second, 60 s minimum", pricing.Second, 60, 500 * time.Millisecond, "0.021500"},
		{"half a second, by the hour", pricing.Hour, 0, 500 * time.Millisecond, "1.290000"},
		{"30 min that straddle the hour by 123 ms", pricing.Second, 0, 30 * time.Minute, "0.645000"},
		{"90 s minimum, by the minute", pricing.Minute, 90, time.Second, "0.043000"},
		{"nothing", pricing.Hour, 60, 0, "0.000000"},
		{"an end before the start", pricing.Hour, 60, -time.Second, "0.000000"},
	} {
		q := quote(t, pricing.Tariff{Compute: rate(t, "1.29"), Granularity: c.granularity, MinimumSeconds: c.minimum}, pricing.Request{})
		s := start.Add(123 * time.Millisecond)
		got := due(t, q, pricing.Usage{Compute: []pricing.Interval{{Start: s, End: s.Add(c.length)}}})[pricing.Compute]
		if got.String() != c.want {
			t.Errorf("%s: due %s, want %s", c.name, got, c.want)
		}
	}
}

func TestEachStartHasItsOwnMinimum(t *testing.T) {
	t.Parallel()
	q := quote(t, pricing.Tariff{Compute: rate(t, "3.6"), Granularity: pricing.Second, MinimumSeconds: 60}, pricing.Request{})
	got := due(t, q, pricing.Usage{Compute: append(session(0, 5), session(10, 100)...)})[pricing.Compute]
	if want := amount(t, "0.15"); got != want { // 60 s and 90 s at 0.001 a second
		t.Errorf("due %s, want %s", got, want)
	}
}

// 3,600 postings of a second each, rounded one by one, would come to 1.288800;
// in cents they would come to nothing at all.
func TestARunThatIsResumedIsOneRun(t *testing.T) {
	t.Parallel()
	resumed := func(from, to int64) pricing.Interval {
		return pricing.Interval{Start: after(from), End: after(to), Resumes: true}
	}
	first := session(0, 30)[0]
	for name, c := range map[string]struct {
		tariff pricing.Tariff
		runs   []pricing.Interval
		want   string
	}{
		"one minimum for both":       {pricing.Tariff{Granularity: pricing.Second, MinimumSeconds: 60}, []pricing.Interval{first, resumed(100, 120)}, "0.060000"},
		"beyond it what was used":    {pricing.Tariff{Granularity: pricing.Second, MinimumSeconds: 60}, []pricing.Interval{first, resumed(100, 150)}, "0.080000"},
		"rounded up once":            {pricing.Tariff{Granularity: pricing.Hour}, []pricing.Interval{first, resumed(100, 120), resumed(200, 201)}, "3.600000"},
		"a start of its own":         {pricing.Tariff{Granularity: pricing.Second, MinimumSeconds: 60}, []pricing.Interval{first, resumed(100, 110), session(200, 210)[0]}, "0.120000"},
		"in any order":               {pricing.Tariff{Granularity: pricing.Second, MinimumSeconds: 60}, []pricing.Interval{resumed(100, 120), first, resumed(100, 120)}, "0.060000"},
		"nothing to go on from":      {pricing.Tariff{Granularity: pricing.Second, MinimumSeconds: 60}, []pricing.Interval{resumed(100, 120)}, "0.060000"},
		"the start wins over a tie":  {pricing.Tariff{Granularity: pricing.Second, MinimumSeconds: 60}, []pricing.Interval{first, resumed(100, 120), session(100, 110)[0]}, "0.120000"},
		"half seconds come together": {pricing.Tariff{Granularity: pricing.Second}, []pricing.Interval{{Start: after(0), End: after(1).Add(500 * time.Millisecond)}, {Start: after(10), End: after(10).Add(500 * time.Millisecond), Resumes: true}}, "0.002000"},
	} {
		c.tariff.Compute = rate(t, "3.6")
		if got := due(t, quote(t, c.tariff, pricing.Request{}), pricing.Usage{Compute: c.runs})[pricing.Compute]; got.String() != c.want {
			t.Errorf("%s: %s is due, want %s", name, got, c.want)
		}
	}
}

func TestPostingEverySecondLosesNothing(t *testing.T) {
	t.Parallel()
	q := quote(t, pricing.Tariff{Compute: rate(t, "1.29"), Granularity: pricing.Second}, pricing.Request{})
	var posted money.Amount
	for s := int64(1); s <= 3600; s++ {
		posted += due(t, q, pricing.Usage{Compute: session(0, s)})[pricing.Compute] - posted
	}
	if posted != amount(t, "1.29") {
		t.Errorf("posted %s, want 1.290000", posted)
	}
}

func TestStorageIsChargedByTheMonthItIsKeptIn(t *testing.T) {
	t.Parallel()
	day := func(y int, m time.Month, d int, zone string) time.Time {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		return time.Date(y, m, d, 0, 0, 0, 0, loc)
	}
	for _, c := range []struct {
		name, zone string
		gib        int64
		from, to   time.Time
		want       string
	}{
		{"10 of 28 days", "Asia/Shanghai", 500, day(2026, 2, 3, "Asia/Shanghai"), day(2026, 2, 13, "Asia/Shanghai"), "62.500000"},
		{"a whole February", "Asia/Shanghai", 500, day(2026, 2, 1, "Asia/Shanghai"), day(2026, 3, 1, "Asia/Shanghai"), "175.000000"},
		{"a leap February", "Asia/Kathmandu", 500, day(2028, 2, 1, "Asia/Kathmandu"), day(2028, 3, 1, "Asia/Kathmandu"), "175.000000"},
		{"a month of 743 hours", "America/New_York", 500, day(2026, 3, 1, "America/New_York"), day(2026, 4, 1, "America/New_York"), "175.000000"},
		{"a month of 721 hours", "America/New_York", 500, day(2026, 11, 1, "America/New_York"), day(2026, 12, 1, "America/New_York"), "175.000000"},
		{"a month that lost a day to the date line", "Pacific/Apia", 500, day(2011, 12, 1, "Pacific/Apia"), day(2012, 1, 1, "Pacific/Apia"), "175.000000"},
		{"clocks that skip midnight of the first", "America/Asuncion", 500, day(2017, 9, 1, "America/Asuncion"), time.Date(2017, 10, 1, 4, 0, 0, 0, time.UTC), "175.000000"},
		{"a whole year", "Europe/London", 1, day(2026, 1, 1, "Europe/London"), day(2027, 1, 1, "Europe/London"), "4.200000"},
		{"the last and the first half day of two months", "UTC", 1000, time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC), "11.895161"},
	} {
		q := quote(t, pricing.Tariff{Storage: rate(t, "0.35"), Granularity: pricing.Second}, pricing.Request{DiskGiB: c.gib, TimeZone: c.zone})
		got := due(t, q, pricing.Usage{Storage: []pricing.Interval{{Start: c.from, End: c.to}}})[pricing.Storage]
		if got.String() != c.want {
			t.Errorf("%s: due %s, want %s", c.name, got, c.want)
		}
	}
}

func TestEgressIsChargedByTheByte(t *testing.T) {
	t.Parallel()
	q := quote(t, pricing.Tariff{Egress: rate(t, "0.80"), Granularity: pricing.Second}, pricing.Request{})
	got := due(t, q, pricing.Usage{EgressBytes: 1_234_567_890_123})[pricing.Egress]
	if got.String() != "987.654312" {
		t.Errorf("due %s, want 987.654312", got)
	}
}

func TestASplitChargeIsWholeToTheLastMicro(t *testing.T) {
	t.Parallel()
	if p, c, err := pricing.Split(97_222, 2000); err != nil || p != 77_778 || c != 19_444 {
		t.Errorf("97,222 at 80:20 is %d + %d, %v; want 77,778 + 19,444", p, c, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		bp := rapid.Int64Range(0, 10_000).Draw(t, "basis points")
		a := money.Amount(rapid.Int64Range(0, 1<<61).Draw(t, "charge"))
		b := a + money.Amount(rapid.Int64Range(0, 20_000).Draw(t, "growth"))
		p1, c1, err := pricing.Split(a, bp)
		if err != nil || p1+c1 != a || p1 < 0 || c1 < 0 {
			t.Fatalf("%d at %d bp is %d + %d, %v", a, bp, p1, c1, err)
		}
		// Within one micro of exact.
		exact := new(big.Int).Mul(big.NewInt(int64(a)), big.NewInt(bp))
		off := exact.Sub(exact, new(big.Int).Mul(big.NewInt(int64(c1)), big.NewInt(10_000)))
		if off.CmpAbs(big.NewInt(5_000)) > 0 {
			t.Fatalf("%d at %d bp: commission %d is more than half a micro off", a, bp, c1)
		}
		if p2, c2, _ := pricing.Split(b, bp); p2 < p1 || c2 < c1 {
			t.Fatalf("a share falls while the charge grows from %d to %d at %d bp", a, b, bp)
		}
	})
}

// drawQuote draws a priced bundle with ordinary and extreme values.
func drawQuote(t *rapid.T) pricing.Quote {
	q, err := pricing.NewQuote(pricing.Tariff{
		Currency:       rapid.SampledFrom([]money.Currency{money.USD, money.CNY}).Draw(t, "currency"),
		Compute:        money.Rate(rapid.Int64Range(0, 1_000_000_000_000).Draw(t, "compute")),
		Storage:        money.Rate(rapid.Int64Range(0, 10_000_000_000).Draw(t, "storage")),
		Egress:         money.Rate(rapid.Int64Range(0, 10_000_000_000).Draw(t, "egress")),
		Granularity:    rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(t, "granularity"),
		MinimumSeconds: rapid.SampledFrom([]int64{0, 1, 60, 90, 7200}).Draw(t, "minimum"),
	}, pricing.Request{
		Plan: pricing.OnDemand, DiskGiB: rapid.Int64Range(0, 100_000).Draw(t, "disk"),
		TimeZone: rapid.SampledFrom([]string{"", "UTC", "Asia/Shanghai", "America/New_York", "Europe/London", "Pacific/Apia", "Asia/Kathmandu", "America/Havana", "America/St_Johns"}).Draw(t, "zone"),
	}, start)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// drawStretches draws intervals that neither overlap nor touch, in order.
func drawStretches(t *rapid.T, name string) []pricing.Interval {
	at := time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC)
	var out []pricing.Interval
	for range rapid.IntRange(0, 5).Draw(t, name) {
		at = at.Add(time.Duration(rapid.Int64Range(1, 40*86_400*1_000_000).Draw(t, "gap µs")) * time.Microsecond)
		end := at.Add(time.Duration(rapid.Int64Range(1, 40*86_400*1_000_000).Draw(t, "length µs")) * time.Microsecond)
		out = append(out, pricing.Interval{Start: at, End: end})
		at = end
	}
	return out
}

// shred cuts, repeats and shuffles intervals without changing what they cover.
func shred(t *rapid.T, in []pricing.Interval) []pricing.Interval {
	var out []pricing.Interval
	for _, i := range in {
		cut := i.Start.Add(time.Duration(rapid.Int64Range(0, i.End.Sub(i.Start).Microseconds()).Draw(t, "cut")) * time.Microsecond)
		out = append(out, pricing.Interval{Start: i.Start, End: cut}, pricing.Interval{Start: cut, End: i.End})
		for range rapid.IntRange(0, 2).Draw(t, "repeats") {
			out = append(out, i)
		}
	}
	return rapid.Permutation(out).Draw(t, "order")
}

func TestDueDoesNotDependOnHowUsageIsCutRepeatedOrOrdered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuote(t)
		u := pricing.Usage{Compute: drawStretches(t, "sessions"), Storage: drawStretches(t, "kept"), EgressBytes: rapid.Int64Range(0, 1e15).Draw(t, "bytes")}
		whole, err := pricing.Due(q, u)
		if err != nil {
			t.Fatal(err)
		}
		pieces := pricing.Usage{Compute: shred(t, u.Compute), Storage: shred(t, u.Storage), EgressBytes: u.EgressBytes}
		before := slices.Clone(pieces.Compute)
		cut, err := pricing.Due(q, pieces)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(whole, cut) {
			t.Fatalf("whole: %v; cut: %v", whole, cut)
		}
		if !slices.Equal(before, pieces.Compute) {
			t.Fatal("the caller's intervals were changed")
		}
	})
}

func TestDueNeverFallsWhileUsageGrows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuote(t)
		all := drawStretches(t, "stretches")
		until := func(at time.Time) pricing.Usage {
			var u pricing.Usage
			for _, i := range all {
				if at.Before(i.End) {
					i.End = at
				}
				u.Compute = append(u.Compute, i)
			}
			u.Storage = u.Compute
			return u
		}
		at := time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC)
		var last map[pricing.Meter]money.Amount
		for range 10 {
			at = at.Add(time.Duration(rapid.Int64Range(0, 20*86_400).Draw(t, "step")) * time.Second)
			d, err := pricing.Due(q, until(at))
			if err != nil {
				t.Fatal(err)
			}
			for m, a := range d {
				if a < last[m] {
					t.Fatalf("%s falls from %s to %s at %s", m, last[m], a, at)
				}
			}
			last = d
		}
	})
}

// oracle computes an amount due in exact fractions, by walking time instead of
// arithmetic where that is possible, and rounds once at the end.
func oracle(q pricing.Quote, u pricing.Usage) map[pricing.Meter]*big.Rat {
	out := map[pricing.Meter]*big.Rat{pricing.Compute: new(big.Rat), pricing.Storage: new(big.Rat), pricing.Egress: new(big.Rat)}
	unit := map[pricing.Granularity]int64{pricing.Second: 1, pricing.Minute: 60, pricing.Hour: 3600}[q.Tariff.Granularity]
	for _, s := range u.Compute {
		seconds := int64(s.End.Sub(s.Start) / time.Second)
		if seconds < q.Tariff.MinimumSeconds {
			seconds = q.Tariff.MinimumSeconds
		}
		units := seconds / unit
		if seconds%unit != 0 || (unit > 1 && units == 0) {
			units++
		}
		out[pricing.Compute].Add(out[pricing.Compute], big.NewRat(units*unit, 3600))
	}
	out[pricing.Compute].Mul(out[pricing.Compute], big.NewRat(int64(q.Tariff.Compute), 1000))

	zone, _ := time.LoadLocation(q.TimeZone)
	months := map[[2]int]int64{} // year and month → microseconds kept
	for _, s := range u.Storage {
		for at := s.Start; at.Before(s.End); {
			l := at.In(zone)
			next := time.Date(l.Year(), l.Month()+1, 1, 0, 0, 0, 0, zone)
			if s.End.Before(next) {
				next = s.End
			}
			months[[2]int{l.Year(), int(l.Month())}] += next.Sub(at).Microseconds()
			at = next
		}
	}
	for m, micros := range months {
		first := time.Date(m[0], time.Month(m[1]), 1, 0, 0, 0, 0, zone)
		next := time.Date(m[0], time.Month(m[1])+1, 1, 0, 0, 0, 0, zone)
		part := big.NewRat(micros/1_000_000, int64(next.Sub(first)/time.Second))
		part.Mul(part, big.NewRat(q.DiskGiB, 1)).Mul(part, big.NewRat(int64(q.Tariff.Storage), 1000))
		out[pricing.Storage].Add(out[pricing.Storage], new(big.Rat).SetInt(halfEven(part)))
	}
	out[pricing.Egress].Mul(big.NewRat(u.EgressBytes, 1_000_000_000), big.NewRat(int64(q.Tariff.Egress), 1000))
	return out
}

func halfEven(r *big.Rat) *big.Int {
	q, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	if c := rem.Lsh(rem, 1).Cmp(r.Denom()); c > 0 || (c == 0 && q.Bit(0) == 1) {
		q.Add(q, big.NewInt(1))
	}
	return q
}

func TestDueIsTheExactAmountRoundedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuote(t)
		if q.TimeZone == "America/Havana" || q.TimeZone == "America/St_Johns" {
			q.TimeZone = "UTC" // the oracle knows no midnights that come twice
		}
		u := pricing.Usage{Compute: drawStretches(t, "sessions"), Storage: drawStretches(t, "kept"), EgressBytes: rapid.Int64Range(0, 1e15).Draw(t, "bytes")}
		got, err := pricing.Due(q, u)
		if err != nil {
			t.Fatal(err)
		}
		for m, exact := range oracle(q, u) {
			if want := halfEven(exact); want.Cmp(big.NewInt(int64(got[m]))) != 0 {
				t.Fatalf("%s: due %d micro, want %s (%s)", m, got[m], want, exact.FloatString(9))
			}
		}
	})
}

func TestItemsAddUpToWhatIsDue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuote(t)
		u := pricing.Usage{Compute: drawStretches(t, "sessions"), Storage: drawStretches(t, "kept"), EgressBytes: 7}
		d, err := pricing.Due(q, u)
		if err != nil {
			t.Fatal(err)
		}
		items, err := pricing.Itemise(q, u)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range items {
			if i.Amount < 0 {
				t.Fatalf("an item of %s", i.Amount)
			}
			d[i.Meter] -= i.Amount
		}
		for m, rest := range d {
			if rest != 0 {
				t.Fatalf("%s: items differ from the total by %s", m, rest)
			}
		}
	})
}

// Every instant belongs to exactly one month, in every zone, also where clocks
// change on the first of a month: the months that storage is cut into tile time.
func TestMonthsTileTimeInEveryZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Asia/Shanghai", "America/New_York", "Europe/London", "Pacific/Apia", "Asia/Kathmandu", "America/Havana", "America/St_Johns", "America/Asuncion", "America/Sao_Paulo", "Asia/Amman"} {
		from, to := time.Date(2005, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 12, 0, 0, 0, time.UTC)
		q := quote(t, pricing.Tariff{Storage: rate(t, "1"), Granularity: pricing.Second}, pricing.Request{DiskGiB: 1, TimeZone: zone})
		items, err := pricing.Itemise(q, pricing.Usage{Storage: []pricing.Interval{{Start: from, End: to}}})
		if err != nil {
			t.Fatal(err)
		}
		at := from
		for n, i := range items {
			if !i.Interval.Start.Equal(at) {
				t.Fatalf("%s: month %d starts at %s, the one before ended at %s", zone, n, i.Interval.Start, at)
			}
			at = i.Interval.End
			if inner := n > 0 && n < len(items)-1; inner && i.Amount != 1_000_000 {
				t.Errorf("%s: the whole month from %s costs %s, want 1.000000", zone, i.Interval.Start, i.Amount)
			}
		}
		if !at.Equal(to) || len(items) != 23*12+1 {
			t.Errorf("%s: %d months up to %s", zone, len(items), at)
		}
	}
}

func TestAQuoteSaysTheSameAfterAJourneyThroughJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q := drawQuote(t)
		b, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		var back pricing.Quote
		if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(q, back) {
			t.Fatalf("%v\n%+v\n%+v", err, q, back)
		}
	})
}

func TestAQuotesRunIsWhatTheSameRunIsChargedAfterwards(t *testing.T) {
	t.Parallel()
	q := quote(t, pricing.Tariff{Compute: rate(t, "1.29"), Storage: rate(t, "0.35"), Egress: rate(t, "0.8"), Granularity: pricing.Minute, MinimumSeconds: 60},
		pricing.Request{DiskGiB: 100, TimeZone: "Asia/Shanghai", EgressBytes: 5_000_000_000, RunSeconds: 5_001})
	d := due(t, q, pricing.Usage{Compute: session(0, 5_001), Storage: session(0, 5_001), EgressBytes: 5_000_000_000})
	var total money.Amount
	for _, l := range q.Lines {
		if l.ForRun != d[l.Meter] {
			t.Errorf("%s is quoted at %s and charged %s", l.Meter, l.ForRun, d[l.Meter])
		}
		total += d[l.Meter]
	}
	if q.Totals.ForRun != total {
		t.Errorf("the run is quoted at %s and charged %s", q.Totals.ForRun, total)
	}
	// 1.29 + 100 × 0.35 ÷ 744 hours of March.
	if q.Totals.PerHour.String() != "1.337043" {
		t.Errorf("per hour all-in %s, want 1.337043", q.Totals.PerHour)
	}
	if q.Totals.PerMonth.String() != "994.760000" {
		t.Errorf("per month %s, want 994.760000", q.Totals.PerMonth)
	}
}

func TestAHoldIsAnHourOrTheMinimum(t *testing.T) {
	t.Parallel()
	for minimum, want := range map[int64]string{60: "1.290000", 7200: "2.580000"} {
		q := quote(t, pricing.Tariff{Compute: rate(t, "1.29"), Granularity: pricing.Second, MinimumSeconds: minimum}, pricing.Request{})
		if got, err := q.Hold(); err != nil || got.String() != want {
			t.Errorf("minimum %d s: hold %s, %v; want %s", minimum, got, err, want)
		}
	}
}

func TestASimulatedQuoteSaysSo(t *testing.T) {
	t.Parallel()
	q := quote(t, pricing.Tariff{Granularity: pricing.Second}, pricing.Request{Simulated: true})
	b, _ := json.Marshal(q)
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil || m["simulated"] != true {
		t.Errorf("JSON says simulated: %v", m["simulated"])
	}
}

func TestNonsenseGetsNoQuote(t *testing.T) {
	t.Parallel()
	good := pricing.Tariff{Currency: money.USD, Compute: 1, Granularity: pricing.Second}
	ask := pricing.Request{Plan: pricing.OnDemand}
	for name, c := range map[string]func(*pricing.Tariff, *pricing.Request){
		"no currency":          func(t *pricing.Tariff, r *pricing.Request) { t.Currency = "" },
		"a negative price":     func(t *pricing.Tariff, r *pricing.Request) { t.Compute = -1 },
		"a negative disk":      func(t *pricing.Tariff, r *pricing.Request) { r.DiskGiB = -1 },
		"a disk of an exabyte": func(t *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 1 << 30 },
		"another plan":         func(t *pricing.Tariff, r *pricing.Request) { r.Plan = "lifetime" },
		"no granularity":       func(t *pricing.Tariff, r *pricing.Request) { t.Granularity = "" },
		"the machine's zone":   func(t *pricing.Tariff, r *pricing.Request) { r.TimeZone = "Local" },
		"an unknown zone":      func(t *pricing.Tariff, r *pricing.Request) { r.TimeZone = "Mars/Olympus" },
		"all for the platform": func(t *pricing.Tariff, r *pricing.Request) { t.CommissionBasisPoints = 10_001 },
		"a price past 64 bits": func(t *pricing.Tariff, r *pricing.Request) { t.Compute = 1<<63 - 1; r.RunSeconds = 300_000_000 },
		"a negative run":       func(t *pricing.Tariff, r *pricing.Request) { r.RunSeconds = -1 },
		"a negative estimate":  func(t *pricing.Tariff, r *pricing.Request) { r.EgressBytes = -1 },
	} {
		tariff, request := good, ask
		c(&tariff, &request)
		if q, err := pricing.NewQuote(tariff, request, start); err == nil {
			t.Errorf("%s is quoted: %+v", name, q.Totals)
		}
	}
}
