package pricing_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// planned is a quote of version 2.
func planned(t testing.TB, tariff pricing.Tariff, r pricing.Request) pricing.Quote {
	t.Helper()
	tariff.Currency = money.CNY
	if tariff.Granularity == "" {
		tariff.Granularity = pricing.Second
	}
	if r.Plan == "" {
		r.Plan = pricing.Reserved
	}
	q, err := pricing.NewQuote(tariff, r, start)
	if err != nil {
		t.Fatal(err)
	}
	if q.Version != 2 {
		t.Fatalf("version %d", q.Version)
	}
	return q
}

func at(from, to int64, r money.Rate) pricing.Interval {
	return pricing.Interval{Start: after(from), End: after(to), Rate: r}
}

// The file was written by the build before there was a version 2.
func TestAQuoteOfVersion1KeepsItsBytesAndItsAmounts(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/quote_version1.json")
	if err != nil {
		t.Fatal(err)
	}
	var old pricing.Quote
	if err := json.Unmarshal(want, &old); err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(old, "", "  ")
	if err != nil || !bytes.Equal(append(got, '\n'), want) {
		t.Errorf("read and written again it is\n%s", got)
	}
	q, err := pricing.NewQuote(old.Tariff, pricing.Request{
		Plan: old.Plan, DiskGiB: old.DiskGiB, TimeZone: old.TimeZone, EgressBytes: old.EgressBytes, RunSeconds: old.RunSeconds,
	}, old.QuotedAt)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.MarshalIndent(q, "", "  "); !bytes.Equal(append(got, '\n'), want) {
		t.Errorf("asked for today it is\n%s", got)
	}
	d := due(t, old, pricing.Usage{Compute: session(0, 61), Storage: session(0, 86_400), EgressBytes: 1_234_567_890_123})
	for m, want := range map[pricing.Meter]string{pricing.Compute: "0.043000", pricing.Storage: "1.129032", pricing.Egress: "987.654312"} {
		if d[m].String() != want {
			t.Errorf("%s: %s is due, want %s", m, d[m], want)
		}
	}
	if len(d) != 3 {
		t.Errorf("due has %d meters, version 1 has three", len(d))
	}
}

// 8 h at 0.20 and 2 h at 0.37 on four machines cost the market's prices, 9.36,
// and not the bid of 0.37 throughout, 14.80.
func TestSpotUseCostsTheMarketPriceNotTheBid(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "0.80")}, pricing.Request{Plan: pricing.Spot, Bid: rate(t, "1.48")})
	got := due(t, q, pricing.Usage{Compute: []pricing.Interval{at(0, 8*3600, rate(t, "0.80")), at(8*3600, 10*3600, rate(t, "1.48"))}})
	if got[pricing.Compute].String() != "9.360000" {
		t.Errorf("%s is due, want 9.360000", got[pricing.Compute])
	}
	var four money.Amount
	for range 4 {
		four += due(t, q, pricing.Usage{Compute: []pricing.Interval{at(0, 8*3600, rate(t, "0.20")), at(8*3600, 10*3600, rate(t, "0.37"))}})[pricing.Compute]
	}
	if four.String() != "9.360000" {
		t.Errorf("four machines cost %s, want 9.360000", four)
	}
}

func TestSpotUseThatThePlatformEndsInItsFirstMinuteIsFree(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "3.6")}, pricing.Request{Plan: pricing.Spot})
	r := rate(t, "3.6")
	evicted := func(i pricing.Interval) pricing.Interval { i.Evicted = true; return i }
	resumed := func(i pricing.Interval) pricing.Interval { i.Resumes = true; return i }
	for name, c := range map[string]struct {
		use  []pricing.Interval
		want string
	}{
		"59 s, evicted":                          {[]pricing.Interval{evicted(at(0, 59, r))}, "0.000000"},
		"60 s, evicted":                          {[]pricing.Interval{evicted(at(0, 60, r))}, "0.060000"},
		"59 s, stopped by the renter":            {[]pricing.Interval{at(0, 59, r)}, "0.059000"},
		"evicted in the second of two prices":    {[]pricing.Interval{at(0, 20, 2*r), evicted(at(20, 59, r))}, "0.000000"},
		"over the two prices for a minute":       {[]pricing.Interval{at(0, 20, 2*r), evicted(at(20, 61, r))}, "0.081000"},
		"a break that was not the renter's":      {[]pricing.Interval{at(0, 40, r), resumed(evicted(at(100, 130, r)))}, "0.070000"},
		"the next run is a run of its own":       {[]pricing.Interval{evicted(at(0, 59, r)), at(600, 610, r)}, "0.010000"},
		"the price changed as it was evicted":    {[]pricing.Interval{at(0, 59, r), evicted(at(59, 59, 2*r))}, "0.000000"},
		"went on at once at another host's word": {[]pricing.Interval{evicted(at(0, 59, r)), at(59, 61, r)}, "0.061000"},
	} {
		if got := due(t, q, pricing.Usage{Compute: c.use})[pricing.Compute]; got.String() != c.want {
			t.Errorf("%s: %s is due, want %s", name, got, c.want)
		}
	}
}

func TestUseWithTwoPricesAtOnceIsRefused(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{}, pricing.Request{Plan: pricing.Spot})
	if _, err := pricing.Due(q, pricing.Usage{Compute: []pricing.Interval{at(0, 10, 5), at(9, 20, 6)}}); err == nil || !strings.Contains(err.Error(), "two prices") {
		t.Errorf("got %v", err)
	}
}

// A second's price does not depend on when somebody asks, only on when it was.
func TestAnAgreedPriceIsThePriceOfTheSecondsAfterIt(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "3.6"), Granularity: pricing.Second}, pricing.Request{})
	q.PriceChanges = []pricing.PriceChange{{From: after(100), Compute: rate(t, "7.2")}, {From: after(150), Compute: rate(t, "1.8")}}
	for _, c := range []struct {
		name        string
		granularity pricing.Granularity
		minimum     int64
		until       int64
		want        string
	}{
		{"before it", pricing.Second, 0, 100, "0.100000"},
		{"over both", pricing.Second, 0, 200, "0.225000"},
		{"the minimum is bought at the start", pricing.Second, 120, 200, "0.205000"}, // 120 × 1 + 30 × 2 + 50 × 0.5
		{"a minute costs what it cost when it began", pricing.Minute, 0, 170, "0.240000"},
		{"and so does the next", pricing.Minute, 0, 190, "0.270000"}, // 120 × 1, 60 × 2, 60 × 0.5
		{"an hour too", pricing.Hour, 0, 3601, "5.400000"},
	} {
		p := q
		p.Tariff.Granularity, p.Tariff.MinimumSeconds = c.granularity, c.minimum
		if got := due(t, p, pricing.Usage{Compute: session(0, c.until)})[pricing.Compute]; got.String() != c.want {
			t.Errorf("%s: %s is due, want %s", c.name, got, c.want)
		}
	}
	q.PriceChanges[1].From = after(100)
	if _, err := pricing.Due(q, pricing.Usage{}); err == nil {
		t.Error("two prices from one moment on are accepted")
	}
}

func TestWhatIsPaidForOtherwiseCostsNothing(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "3.6")}, pricing.Request{})
	for name, c := range map[string]struct {
		granularity       pricing.Granularity
		prepaid, reserved []pricing.Interval
		want              string
	}{
		"nothing":                        {pricing.Second, nil, nil, "0.100000"},
		"a month around it":              {pricing.Second, session(-10, 500), nil, "0.000000"},
		"a part, told twice":             {pricing.Second, append(session(20, 50), session(30, 60)...), nil, "0.060000"},
		"in a month, up to the minute":   {pricing.Minute, session(-10, 500), nil, "0.000000"},
		"a reservation, used seconds":    {pricing.Minute, nil, session(-10, 500), "0.020000"},
		"both, a moment is covered once": {pricing.Second, session(0, 40), session(20, 60), "0.040000"},
	} {
		p := q
		p.Tariff.Granularity = c.granularity
		u := pricing.Usage{Compute: session(0, 100), Prepaid: c.prepaid, Reserved: c.reserved}
		if got := due(t, p, u)[pricing.Compute]; got.String() != c.want {
			t.Errorf("%s: %s is due, want %s", name, got, c.want)
		}
	}
}

func TestWhatIsKeptCostsByTheMonthAndAddressesByTheHour(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Ingress: rate(t, "0.10"), PublicIP: rate(t, "0.02"), Snapshot: rate(t, "0.35"), Volume: rate(t, "0.20")},
		pricing.Request{Plan: pricing.OnDemand, TimeZone: "Asia/Shanghai"})
	zone, _ := time.LoadLocation("Asia/Shanghai")
	feb := pricing.Interval{Start: time.Date(2026, 2, 3, 0, 0, 0, 0, zone), End: time.Date(2026, 2, 13, 0, 0, 0, 0, zone)}
	hour := session(0, 3600)[0]
	d := due(t, q, pricing.Usage{
		IngressBytes: 12_345_678_901,
		PublicIPs:    []pricing.Kept{{"a", 1, hour}, {"a", 1, hour}, {"b", 2, hour}},
		Snapshots:    []pricing.Kept{{"s", 500, feb}, {"s", 100, feb}},
		Volumes:      []pricing.Kept{{"v", 1, pricing.Interval{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, zone), End: time.Date(2027, 1, 1, 0, 0, 0, 0, zone)}}},
	})
	for m, want := range map[pricing.Meter]string{pricing.Ingress: "1.234568", pricing.PublicIP: "0.060000", pricing.Snapshot: "62.500000", pricing.Volume: "2.400000"} {
		if d[m].String() != want {
			t.Errorf("%s: %s is due, want %s", m, d[m], want)
		}
	}
}

func TestAVolumeThatGrowsCostsItsSizeOfEachMoment(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Volume: rate(t, "2.678400")}, pricing.Request{}) // 0.000001 a GiB and second of March
	d := due(t, q, pricing.Usage{Volumes: []pricing.Kept{{"v", 10, session(0, 100)[0]}, {"v", 30, session(50, 100)[0]}, {"w", 1, session(90, 110)[0]}}})
	if d[pricing.Volume] != 10*50+30*50+20 {
		t.Errorf("%s is due, want 0.002020", d[pricing.Volume])
	}
}

// drawSpot draws use at changing prices.
func drawSpot(t *rapid.T) []pricing.Interval {
	var out []pricing.Interval
	for _, s := range drawStretches(t, "sessions") {
		s.Resumes = rapid.Bool().Draw(t, "resumes")
		for cuts := rapid.IntRange(0, 3).Draw(t, "prices"); ; cuts-- {
			s.Rate = money.Rate(rapid.Int64Range(0, 1_000_000_000_000).Draw(t, "price"))
			if cuts == 0 {
				break
			}
			cut := s.Start.Add(time.Duration(rapid.Int64Range(0, s.End.Sub(s.Start).Microseconds()).Draw(t, "cut")) * time.Microsecond)
			first := s
			first.End, s.Start, s.Resumes = cut, cut, false
			out = append(out, first)
		}
		s.Evicted = rapid.Bool().Draw(t, "evicted")
		out = append(out, s)
	}
	return out
}

func TestAnySplitOfPricedUseGivesTheSameTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, err := pricing.NewQuote(pricing.Tariff{
			Currency: money.USD, Granularity: rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(t, "granularity"),
		}, pricing.Request{Plan: pricing.Spot}, start)
		if err != nil {
			t.Fatal(err)
		}
		u := pricing.Usage{Compute: drawSpot(t), Prepaid: drawStretches(t, "prepaid"), Reserved: drawStretches(t, "reserved")}
		var pieces []pricing.Interval
		for _, i := range u.Compute {
			cut := i.Start.Add(time.Duration(rapid.Int64Range(0, i.End.Sub(i.Start).Microseconds()).Draw(t, "at")) * time.Microsecond)
			a, b := i, i
			a.End, a.Evicted, b.Start, b.Resumes = cut, false, cut, i.Resumes && cut.Equal(i.Start)
			if cut.Equal(i.End) {
				a.Evicted = i.Evicted
			}
			pieces = append(pieces, a, b, i)
		}
		pieces = rapid.Permutation(pieces).Draw(t, "order")
		whole, err := pricing.Due(q, u)
		if err != nil {
			t.Fatal(err)
		}
		cut, err := pricing.Due(q, pricing.Usage{Compute: pieces, Prepaid: shred(t, u.Prepaid), Reserved: shred(t, u.Reserved)})
		if err != nil {
			t.Fatal(err)
		}
		if whole[pricing.Compute] != cut[pricing.Compute] {
			t.Fatalf("whole: %s; cut: %s", whole[pricing.Compute], cut[pricing.Compute])
		}
		items, err := pricing.Itemise(q, u)
		if err != nil {
			t.Fatal(err)
		}
		var sum money.Amount
		var charged, used int64
		for _, i := range items {
			sum += i.Amount
			used += i.Used
			charged += i.Charged
			if i.Amount < 0 || i.Used < 0 || i.Charged < 0 || i.Interval.End.Before(i.Interval.Start) {
				t.Fatalf("item %+v", i)
			}
		}
		if sum != whole[pricing.Compute] {
			t.Fatalf("items add up to %s, %s is due", sum, whole[pricing.Compute])
		}
	})
}

// Postings are differences, and a difference that is negative would look like a
// mistake: what is due may only grow, whatever prices do.
func TestDueNeverFallsWhenThePriceDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tariff := pricing.Tariff{
			Currency: money.USD, Granularity: rapid.SampledFrom([]pricing.Granularity{pricing.Second, pricing.Minute, pricing.Hour}).Draw(t, "granularity"),
			MinimumSeconds: rapid.SampledFrom([]int64{0, 60, 90, 7200}).Draw(t, "minimum"), Compute: 1_000_000_000,
		}
		q, err := pricing.NewQuote(tariff, pricing.Request{Plan: pricing.Reserved}, start)
		if err != nil {
			t.Fatal(err)
		}
		change := start
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			change = change.Add(time.Duration(rapid.Int64Range(1, 8_000_000).Draw(t, "ms")) * time.Millisecond)
			q.PriceChanges = append(q.PriceChanges, pricing.PriceChange{From: change, Compute: money.Rate(rapid.Int64Range(0, 3_000_000_000).Draw(t, "price"))})
		}
		var last money.Amount
		end := start
		for range 20 {
			end = end.Add(time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "step ms")) * time.Millisecond)
			d, err := pricing.Due(q, pricing.Usage{Compute: []pricing.Interval{{Start: start, End: end}}})
			if err != nil {
				t.Fatal(err)
			}
			if d[pricing.Compute] < last {
				t.Fatalf("due falls from %s to %s", last, d[pricing.Compute])
			}
			last = d[pricing.Compute]
		}
	})
}
