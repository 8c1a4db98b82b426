package pricing_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func reservation(from, until string, t testing.TB) pricing.Reservation {
	return pricing.Reservation{ID: "r", GPUModel: "H100", Zone: "a", GPUs: 1, From: moment(t, from), Until: moment(t, until), Payment: pricing.NoUpfront, Hourly: rate(t, "1")}
}

func runOf(lease string, gpus, from, to int64) pricing.Run {
	return pricing.Run{LeaseID: lease, GPUModel: "H100", Zone: "a", GPUs: gpus, Compute: session(from, to)}
}

func TestAReservationIsWorthItsSecondsOfEachClockHour(t *testing.T) {
	t.Parallel()
	r := reservation("2026-03-02T08:00:00Z", "2026-03-02T10:00:00Z", t)
	two := r
	two.GPUs = 2
	q := planned(t, pricing.Tariff{Compute: rate(t, "3.6")}, pricing.Request{})
	for _, c := range []struct {
		name         string
		reservations []pricing.Reservation
		runs         []pricing.Run
		used, unused int64 // GPU-seconds of the first hour
		beyond       int64 // seconds that leases pay on demand, of all hours
	}{
		{"3 × 20 min one after the other", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 1200), runOf("b", 1, 1200, 2400), runOf("c", 1, 2400, 3600)}, 3600, 0, 0},
		{"3 × 20 min at the same time", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 1200), runOf("b", 1, 0, 1200), runOf("c", 1, 0, 1200)}, 3600, 0, 0},
		{"3 × 60 min", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 3600), runOf("b", 1, 0, 3600), runOf("c", 1, 0, 3600)}, 3600, 0, 7200},
		{"4 × 15 min", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 900), runOf("b", 1, 0, 900), runOf("c", 1, 0, 900), runOf("d", 1, 0, 900)}, 3600, 0, 0},
		{"4 × 60 min", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 3600), runOf("b", 1, 0, 3600), runOf("c", 1, 0, 3600), runOf("d", 1, 0, 3600)}, 3600, 0, 10_800},
		{"10 min, the rest is unused", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 600)}, 600, 3000, 0},
		{"what one hour leaves is gone in the next", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 600), runOf("a", 1, 3600, 7200), runOf("b", 1, 3600, 7200)}, 600, 3000, 3600},
		{"a bundle of two takes two of two", []pricing.Reservation{two}, []pricing.Run{runOf("a", 2, 0, 3600)}, 7200, 0, 0},
		{"a bundle of two takes half an hour of one", []pricing.Reservation{r}, []pricing.Run{runOf("a", 2, 0, 3600)}, 3600, 0, 1800},
		{"another zone", []pricing.Reservation{r}, []pricing.Run{{LeaseID: "a", GPUModel: "H100", Zone: "b", GPUs: 1, Compute: session(0, 100)}}, 0, 3600, 100},
		{"another model", []pricing.Reservation{r}, []pricing.Run{{LeaseID: "a", GPUModel: "A100", Zone: "a", GPUs: 1, Compute: session(0, 100)}}, 0, 3600, 100},
		{"use told twice", []pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 3000), runOf("a", 1, 1000, 3600)}, 3600, 0, 0},
		{"two reservations", []pricing.Reservation{r, {ID: "s", GPUModel: "H100", Zone: "a", GPUs: 1, From: r.From, Until: r.Until, Payment: pricing.NoUpfront}}, []pricing.Run{runOf("a", 1, 0, 3600), runOf("b", 1, 0, 3600)}, 3600, 0, 0},
	} {
		a, err := pricing.ApplyReservations(c.reservations, c.runs, after(7200))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if h := a.Hours[0]; h.Used != c.used || h.Unused != c.unused {
			t.Errorf("%s: %d used and %d unused, want %d and %d", c.name, h.Used, h.Unused, c.used, c.unused)
		}
		var beyond money.Amount
		use := map[string][]pricing.Interval{}
		for _, r := range c.runs {
			use[r.LeaseID] = append(use[r.LeaseID], r.Compute...)
		}
		for id, compute := range use {
			beyond += due(t, q, pricing.Usage{Compute: compute, Reserved: a.Covered[id]})[pricing.Compute]
		}
		if want := money.Amount(c.beyond * 1000); beyond != want {
			t.Errorf("%s: %s is due on demand, want %s", c.name, beyond, want)
		}
	}
}

// Bought at 11:15:24 it holds from 11:00:00 to the end of the hour that 11:15:24
// of a year later is in.
func TestAReservationHoldsWholeClockHours(t *testing.T) {
	t.Parallel()
	p, err := pricing.Reserve(pricing.Purchase{
		ID: "r", GPUModel: "H100", Zone: "a", GPUs: 2, ListHourly: rate(t, "2.50"), From: moment(t, "2026-03-02T11:15:24Z"), TimeZone: "Asia/Shanghai", Months: 12, Payment: pricing.NoUpfront,
	}, pricing.Curve{Terms: []pricing.TermDiscount{{12, 4000}}}, pricing.Bounds{12, 6000})
	if err != nil {
		t.Fatal(err)
	}
	if p.Hours != 365*24+1 {
		t.Errorf("%d hours, want 8,761", p.Hours)
	}
	if p.Reservation.Hourly != rate(t, "1.50") || p.Total.String() != "26283.000000" || p.List.String() != "43805.000000" || p.BreakEven != 6000 {
		t.Errorf("got %+v", p)
	}
	d, err := p.Reservation.Due(moment(t, "2026-03-02T13:00:00Z"))
	if err != nil || d.String() != "6.000000" {
		t.Errorf("after two clock hours %s is due, %v; want 6.000000", d, err)
	}
}

func TestTheCurveStaysWithinTheOperatorsBounds(t *testing.T) {
	t.Parallel()
	curve := pricing.Curve{Terms: []pricing.TermDiscount{{1, 500}, {3, 1000}, {12, 3000}}, PartialBasisPoints: 200, AllBasisPoints: 500}
	if err := curve.Check(pricing.Bounds{12, 3500}); err != nil {
		t.Error(err)
	}
	for name, b := range map[string]pricing.Bounds{"too long": {6, 3500}, "too cheap": {12, 3499}} {
		if curve.Check(b) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, c := range map[string]pricing.Curve{
		"longer and dearer":  {Terms: []pricing.TermDiscount{{1, 500}, {3, 400}}},
		"out of order":       {Terms: []pricing.TermDiscount{{3, 500}, {1, 500}}},
		"more for a part":    {PartialBasisPoints: 2, AllBasisPoints: 1},
		"more than all":      {Terms: []pricing.TermDiscount{{1, 10_001}}},
		"a negative upfront": {PartialBasisPoints: -1},
	} {
		if c.Check(pricing.Bounds{60, 20_000}) == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for months, want := range map[int]int64{0: 0, 1: 500, 2: 500, 4: 1000, 6: 1000, 12: 3000} {
		if got := curve.Discount(months, pricing.NoUpfront); got != want {
			t.Errorf("%d months: %d, want %d", months, got, want)
		}
	}
	if got := curve.Discount(12, pricing.AllUpfront); got != 3500 {
		t.Errorf("all upfront: %d, want 3500", got)
	}
}

func TestHowAReservationIsPaidChangesWhenNotHowMuch(t *testing.T) {
	t.Parallel()
	ask := pricing.Purchase{ID: "r", GPUModel: "H100", Zone: "a", GPUs: 3, ListHourly: rate(t, "1.999999999"), From: moment(t, "2026-01-31T00:00:00Z"), TimeZone: "UTC", Until: moment(t, "2026-03-10T07:00:00Z")}
	for _, payment := range []pricing.Upfront{pricing.NoUpfront, pricing.PartialUpfront, pricing.AllUpfront} {
		ask.Payment = payment
		p, err := pricing.Reserve(ask, pricing.Curve{Terms: []pricing.TermDiscount{{1, 1000}}}, pricing.Bounds{12, 5000})
		if err != nil {
			t.Fatal(err)
		}
		all, err := p.Reservation.Due(ask.Until)
		if err != nil || all != p.Total || p.Hours != 38*24+7 {
			t.Errorf("%s: %s for %d hours is due in the end, %v; the total is %s", payment, all, p.Hours, err, p.Total)
		}
		first, err := p.Reservation.Due(ask.From)
		if err != nil || first != p.Reservation.UpfrontDue {
			t.Errorf("%s: %s is due at once, %v; upfront is %s", payment, first, err, p.Reservation.UpfrontDue)
		}
		a, err := pricing.ApplyReservations([]pricing.Reservation{p.Reservation}, nil, ask.Until)
		if err != nil {
			t.Fatal(err)
		}
		var amortised money.Amount
		for _, h := range a.Hours {
			amortised += h.Cost
			if h.UnusedCost != h.Cost {
				t.Fatalf("an unused hour: %+v", h)
			}
		}
		if amortised != p.Total {
			t.Errorf("%s: amortised costs add up to %s, the total is %s", payment, amortised, p.Total)
		}
	}
	ask.Months = 13
	if _, err := pricing.Reserve(ask, pricing.Curve{}, pricing.Bounds{12, 5000}); err == nil {
		t.Error("13 months are sold where the bound is 12")
	}
}

func TestReservationsCoverNothingTwiceAndWhatTheyCanInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rs []pricing.Reservation
		for i := range rapid.IntRange(1, 3).Draw(t, "reservations") {
			from := after(rapid.Int64Range(-7200, 7200).Draw(t, "from"))
			rs = append(rs, pricing.Reservation{
				ID: fmt.Sprint(i), GPUModel: rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "model"), Zone: "a", GPUs: rapid.Int64Range(1, 4).Draw(t, "held"),
				From: from, Until: from.Add(time.Duration(rapid.Int64Range(1, 20_000).Draw(t, "length")) * time.Second), Payment: pricing.PartialUpfront,
				UpfrontDue: money.Amount(rapid.Int64Range(0, 1e9).Draw(t, "upfront")), Hourly: money.Rate(rapid.Int64Range(0, 1e10).Draw(t, "hourly")),
			})
		}
		var runs []pricing.Run
		gpus := map[string]int64{}
		for i := range rapid.IntRange(0, 4).Draw(t, "leases") {
			id := fmt.Sprint("l", i)
			r := pricing.Run{LeaseID: id, GPUModel: rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "model"), Zone: "a", GPUs: rapid.Int64Range(1, 4).Draw(t, "gpus")}
			gpus[id] = r.GPUs
			from := start
			for range rapid.IntRange(1, 3).Draw(t, "sessions") {
				from = from.Add(time.Duration(rapid.Int64Range(1, 5_000_000).Draw(t, "gap ms")) * time.Millisecond)
				to := from.Add(time.Duration(rapid.Int64Range(1, 9_000_000).Draw(t, "length ms")) * time.Millisecond)
				r.Compute = append(r.Compute, pricing.Interval{Start: from, End: to, Resumes: rapid.Bool().Draw(t, "resumes")})
				from = to
			}
			runs = append(runs, r)
		}
		until := after(40_000)
		a, err := pricing.ApplyReservations(rs, runs, until)
		if err != nil {
			t.Fatal(err)
		}
		var shuffled []pricing.Run
		for _, r := range runs {
			shuffled = append(shuffled, pricing.Run{r.LeaseID, r.GPUModel, r.Zone, r.GPUs, shred(t, r.Compute)})
		}
		// Cutting gives pieces that resume nothing their flag; a cut session is one
		// stretch, so the flag is only read at its begin.
		b, err := pricing.ApplyReservations(rapid.Permutation(rs).Draw(t, "reservations' order"), rapid.Permutation(unflagged(shuffled, runs)).Draw(t, "leases' order"), until)
		if err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("in another order: %v\n%+v\n%+v", err, a, b)
		}
		seconds := map[string]int64{}
		costs := map[string]money.Amount{}
		for _, h := range a.Hours {
			sum, used := h.UnusedCost, h.Unused
			for _, l := range h.Leases {
				sum += l.Cost
				used += l.Seconds * gpus[l.LeaseID]
				seconds[l.LeaseID] += l.Seconds
			}
			if sum != h.Cost || used != h.Capacity || h.Unused < 0 {
				t.Fatalf("hour %+v", h)
			}
			costs[h.ReservationID] += h.Cost
		}
		for _, r := range rs {
			total, err := r.Due(until)
			if err != nil || total != costs[r.ID] {
				t.Fatalf("%s is due and %s amortised, %v", total, costs[r.ID], err)
			}
		}
		q, err := pricing.NewQuote(pricing.Tariff{Currency: money.USD, Compute: 3_600_000_000_000, Granularity: pricing.Second}, pricing.Request{Plan: pricing.Reserved}, start)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range runs {
			whole, err := pricing.Due(q, pricing.Usage{Compute: r.Compute})
			if err != nil {
				t.Fatal(err)
			}
			rest, err := pricing.Due(q, pricing.Usage{Compute: r.Compute, Reserved: a.Covered[r.LeaseID]})
			if err != nil {
				t.Fatal(err)
			}
			if got := int64(whole[pricing.Compute]-rest[pricing.Compute]) / 1_000_000; got != seconds[r.LeaseID] {
				t.Fatalf("lease %s: %d s are covered, the bill has %d s less", r.LeaseID, seconds[r.LeaseID], got)
			}
		}
	})
}

// unflagged gives the second piece of a cut interval no flag of its own.
func unflagged(cut, whole []pricing.Run) []pricing.Run {
	for n := range cut {
		for i, piece := range cut[n].Compute {
			for _, w := range whole[n].Compute {
				if piece.Start.Equal(w.Start) {
					cut[n].Compute[i].Resumes = w.Resumes
				}
			}
		}
	}
	return cut
}

func TestTimeThatIsLostIsWorthNothingAndCostsNothing(t *testing.T) {
	t.Parallel()
	r := reservation("2026-03-02T08:00:00Z", "2026-03-02T12:00:00Z", t)
	r.Payment, r.UpfrontDue = pricing.PartialUpfront, amount(t, "8")
	r.Lost = []pricing.Interval{{Start: r.From.Add(30 * time.Minute), End: r.From.Add(2 * time.Hour)}}
	d, err := r.Due(r.Until)
	if err != nil || d.String() != "7.500000" { // 5/8 of 4 + 8
		t.Errorf("%s is due in the end, %v; want 7.500000", d, err)
	}
	back, err := r.LostBy(r.Until)
	if err != nil || back.String() != "3.000000" {
		t.Errorf("%s comes back, %v; want 3.000000", back, err)
	}
	a, err := pricing.ApplyReservations([]pricing.Reservation{r}, []pricing.Run{runOf("a", 1, 0, 4*3600)}, r.Until)
	if err != nil {
		t.Fatal(err)
	}
	var cost money.Amount
	for i, want := range []int64{1800, 0, 3600, 3600} {
		cost += a.Hours[i].Cost
		if a.Hours[i].Capacity != want || a.Hours[i].Used != want {
			t.Errorf("hour %d: %+v, want %d", i, a.Hours[i], want)
		}
	}
	if cost != d {
		t.Errorf("the hours cost %s, and %s is due", cost, d)
	}
}

func TestWhoEndsAReservationEarlyPaysTheListPriceForWhatWasHeld(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		payment        pricing.Upfront
		after          time.Duration
		due, owed, net string
	}{
		// 10 hours at 10 on demand and 25 % off: 75 in all.
		{pricing.NoUpfront, 90 * time.Minute, "15.000000", "20.000000", "5.000000"},
		{pricing.PartialUpfront, 90 * time.Minute, "45.000000", "20.000000", "-25.000000"},
		{pricing.AllUpfront, 2 * time.Hour, "75.000000", "20.000000", "-55.000000"},
		{pricing.AllUpfront, 9 * time.Hour, "75.000000", "75.000000", "0.000000"},
		{pricing.NoUpfront, 9 * time.Hour, "67.500000", "75.000000", "7.500000"},
		{pricing.NoUpfront, 30 * time.Hour, "75.000000", "75.000000", "0.000000"},
		{pricing.AllUpfront, -time.Hour, "75.000000", "0.000000", "-75.000000"},
	} {
		from := moment(t, "2026-03-02T08:00:00Z")
		p, err := pricing.Reserve(pricing.Purchase{ID: "r", GPUModel: "H100", Zone: "a", GPUs: 1, ListHourly: rate(t, "10"), From: from, TimeZone: "UTC", Until: from.Add(10 * time.Hour), Payment: c.payment},
			pricing.Curve{Terms: []pricing.TermDiscount{{Months: 1, BasisPoints: 2500}}}, pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 6000})
		if err != nil {
			t.Fatal(err)
		}
		r := p.Reservation
		if r.Discount != 0 { // custom terms shorter than the first have none
			t.Fatalf("a discount of %d", r.Discount)
		}
		// 25 % off, put in by hand.
		r.Hourly, r.UpfrontDue = rate(t, "7.5"), 0
		switch c.payment {
		case pricing.PartialUpfront:
			r.Hourly, r.UpfrontDue = rate(t, "3.75"), amount(t, "37.5")
		case pricing.AllUpfront:
			r.Hourly, r.UpfrontDue = 0, amount(t, "75")
		}
		e, err := r.EndEarly(from.Add(c.after))
		if err != nil || e.Due.String() != c.due || e.Owed.String() != c.owed || e.Net.String() != c.net {
			t.Errorf("%s after %s: %+v, %v; want %s due, %s owed, %s net", c.payment, c.after, e, err, c.due, c.owed, c.net)
		}
	}
}

// 31 October is a Sunday on which London's clocks go back.
func TestTheScheduleOfAReservationAddsUpToWhatItCosts(t *testing.T) {
	t.Parallel()
	for _, payment := range []pricing.Upfront{pricing.NoUpfront, pricing.PartialUpfront, pricing.AllUpfront} {
		p, err := pricing.Reserve(pricing.Purchase{ID: "r", GPUModel: "H100", Zone: "a", GPUs: 3, ListHourly: rate(t, "1.999999999"), From: moment(t, "2027-08-31T10:20:00Z"), TimeZone: "Europe/London", Months: 3, Payment: payment},
			pricing.Curve{Terms: []pricing.TermDiscount{{Months: 3, BasisPoints: 1000}}}, pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 6000})
		if err != nil {
			t.Fatal(err)
		}
		list, err := p.Reservation.Schedule("Europe/London")
		if err != nil {
			t.Fatal(err)
		}
		var sum money.Amount
		for _, i := range list {
			sum += i.Amount
		}
		if sum != p.Total {
			t.Errorf("%s: the schedule adds up to %s, and the total is %s: %+v", payment, sum, p.Total, list)
		}
		if payment == pricing.NoUpfront && (len(list) != 4 || !list[2].Until.Equal(moment(t, "2027-11-01T00:00:00Z")) || !list[1].Until.Equal(moment(t, "2027-09-30T23:00:00Z"))) {
			t.Errorf("%+v", list)
		}
	}
}
