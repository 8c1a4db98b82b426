package pricing_test

import (
	"flag"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// go test ./internal/pricing -run Oracle -histories 1000000 -seed 1
var (
	histories = flag.Int("histories", 400, "how many random histories are compared with the oracle")
	seed      = flag.Uint64("seed", 0, "of the first history; 0: one of the clock's")
)

// The oracle computes the same amounts another way: it walks seconds instead of
// multiplying stretches, finds boundaries by looking at clocks, and adds fractions
// (big.Rat), rounded once at the end. It shares no code with the package.

// watch is the zone's clocks, read once.
type watch struct{ zone *time.Location }

// reads returns what a clock shows at t, as if it were UTC.
func (w watch) reads(t time.Time) time.Time {
	l := t.In(w.zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
}

// shows returns the first instant at which a clock shows a reading, or has gone
// over it.
func (w watch) shows(reading time.Time) time.Time {
	var best time.Time
	for _, probe := range []time.Duration{-40, -16, 0, 16, 40} {
		_, offset := reading.Add(probe * time.Hour).In(w.zone).Zone()
		t := reading.Add(-time.Duration(offset) * time.Second)
		if w.reads(t).Equal(reading) && (best.IsZero() || t.Before(best)) {
			best = t
		}
	}
	if !best.IsZero() {
		return best
	}
	low := reading.Add(-30 * time.Hour)
	n := sort.Search(int(60*time.Hour/time.Second), func(s int) bool {
		return !w.reads(low.Add(time.Duration(s) * time.Second)).Before(reading)
	})
	return low.Add(time.Duration(n) * time.Second).Truncate(time.Second)
}

// monthly returns the n-th boundary from an anchor.
func (w watch) monthly(anchor time.Time, n int) time.Time {
	if n == 0 {
		return anchor
	}
	r := w.reads(anchor)
	day := r.Day()
	for ; ; day-- {
		t := time.Date(r.Year(), r.Month()+time.Month(n), day, r.Hour(), r.Minute(), r.Second(), r.Nanosecond(), time.UTC)
		if (int(t.Month())-int(r.Month())-n)%12 == 0 {
			return w.shows(t)
		}
	}
}

// month returns the calendar month that t is in.
func (w watch) month(t time.Time) (from, until time.Time) {
	r := w.reads(t)
	from = w.shows(time.Date(r.Year(), r.Month(), 1, 0, 0, 0, 0, time.UTC))
	until = w.shows(time.Date(r.Year(), r.Month()+1, 1, 0, 0, 0, 0, time.UTC))
	return from, until
}

// day is where a moment is in a period's days: the day's number, the seconds in
// it so far and its length, and how many days there are.
func (w watch) day(from, until, at time.Time) *big.Rat {
	r := w.reads(from)
	starts := []time.Time{from}
	for n := 1; n < 40; n++ {
		s := w.shows(r.AddDate(0, 0, n))
		if !s.Before(until) {
			break
		}
		if s.After(starts[len(starts)-1]) {
			starts = append(starts, s)
		}
	}
	days := int64(len(starts))
	starts = append(starts, until)
	for n := range days {
		if at.Before(starts[n+1]) {
			in := big.NewRat(int64(at.Sub(starts[n])/time.Second), int64(starts[n+1].Sub(starts[n])/time.Second))
			return in.Add(in, big.NewRat(n, 1)).Quo(in, big.NewRat(days, 1))
		}
	}
	return big.NewRat(1, 1)
}

// history is a lease's life as it really was.
type history struct {
	quote    pricing.Quote
	sessions [][]pricing.Interval // stretches of each
	evicted  []bool
	usage    pricing.Usage // as it is reported: cut, repeated, shuffled
	kept     []pricing.Interval
	volume   []pricing.Kept
}

var rare = []string{
	"2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z", "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", // clocks change in New York and London
	"2028-02-29T00:00:00Z", "2028-02-29T16:00:00Z", "2028-03-01T00:00:00Z", "2028-03-01T05:00:00Z", // 29 February, here and there
	"2026-01-31T16:00:00Z", "2026-02-28T23:59:00Z", "2026-12-31T23:30:00Z", "2026-04-30T18:15:00Z", // month ends
	"2016-12-31T23:59:30Z", "2015-06-30T23:59:30Z", // a leap second follows; instants do not count it
	"2011-12-30T10:00:00Z", "2026-04-04T15:00:00Z", // a day that Samoa left out; half an hour at Lord Howe
}

func drawMoment(r *rand.Rand) time.Time {
	if r.IntN(2) == 0 {
		t, err := time.Parse(time.RFC3339, rare[r.IntN(len(rare))])
		if err != nil {
			panic(err)
		}
		return t.Add(-time.Duration(r.Int64N(2_000_000_000)) * time.Microsecond)
	}
	return time.UnixMicro(1_300_000_000_000_000 + r.Int64N(600_000_000_000_000)).UTC()
}

func drawHistory(r *rand.Rand) history {
	zone := zones[r.IntN(len(zones))]
	plan := []string{pricing.Spot, pricing.Reserved, pricing.Monthly, pricing.OnDemand}[r.IntN(4)]
	tariff := pricing.Tariff{
		Currency: money.CNY, Compute: money.Rate(r.Int64N(1_000_000_000_000)), Storage: money.Rate(r.Int64N(10_000_000_000)), Egress: money.Rate(r.Int64N(10_000_000_000)),
		Ingress: 1 + money.Rate(r.Int64N(10_000_000_000)), Volume: money.Rate(r.Int64N(10_000_000_000)), PublicIP: money.Rate(r.Int64N(1_000_000_000)),
		Granularity: []pricing.Granularity{pricing.Second, pricing.Second, pricing.Minute, pricing.Hour}[r.IntN(4)],
	}
	if plan != pricing.Spot {
		tariff.MinimumSeconds = []int64{0, 60, 90}[r.IntN(3)]
	}
	h := history{quote: pricing.Quote{Version: 2, Plan: plan, Currency: money.CNY, TimeZone: zone, Tariff: tariff, DiskGiB: r.Int64N(5000)}}
	if plan == pricing.Spot {
		h.quote.EvictionFreeSeconds = pricing.EvictionFreeSeconds
	}
	at := drawMoment(r)
	first := at
	for range 1 + r.IntN(3) {
		var session []pricing.Interval
		for range 1 + r.IntN(2) {
			end := at.Add(time.Duration(1+r.Int64N(200_000_000*int64(1+9*(r.IntN(8)/7)))) * time.Microsecond)
			session = append(session, pricing.Interval{Start: at, End: end, Resumes: len(session) > 0})
			at = end.Add(time.Duration(1+r.Int64N(100_000_000)) * time.Microsecond)
		}
		h.sessions = append(h.sessions, session)
		h.evicted = append(h.evicted, plan == pricing.Spot && r.IntN(2) == 0)
	}
	if plan != pricing.Spot {
		change := first
		for range r.IntN(3) {
			change = change.Add(time.Duration(1+r.Int64N(200_000_000)) * time.Microsecond)
			h.quote.PriceChanges = append(h.quote.PriceChanges, pricing.PriceChange{From: change, Compute: money.Rate(r.Int64N(1_000_000_000_000))})
		}
	}
	for range r.IntN(3) {
		from := first.Add(time.Duration(r.Int64N(300_000_000)) * time.Microsecond)
		h.usage.Prepaid = append(h.usage.Prepaid, pricing.Interval{Start: from, End: from.Add(time.Duration(r.Int64N(100_000_000)) * time.Microsecond)})
		from = first.Add(time.Duration(r.Int64N(300_000_000)) * time.Microsecond)
		h.usage.Reserved = append(h.usage.Reserved, pricing.Interval{Start: from, End: from.Add(time.Duration(r.Int64N(100_000_000)) * time.Microsecond)})
	}
	for n, s := range h.sessions {
		for m, i := range s {
			for {
				piece := i
				piece.Rate = money.Rate(r.Int64N(1_000_000_000_000))
				last := r.IntN(2) == 0
				if !last {
					piece.End = i.Start.Add(time.Duration(r.Int64N(i.End.Sub(i.Start).Microseconds()+1)) * time.Microsecond)
				}
				piece.Evicted = last && h.evicted[n] && m == len(s)-1
				for range 1 + r.IntN(2) {
					h.usage.Compute = append(h.usage.Compute, piece)
				}
				i.Start, i.Resumes = piece.End, i.Resumes && piece.End.Equal(i.Start)
				if last {
					break
				}
			}
		}
	}
	r.Shuffle(len(h.usage.Compute), func(i, j int) {
		h.usage.Compute[i], h.usage.Compute[j] = h.usage.Compute[j], h.usage.Compute[i]
	})
	until := first.Add(time.Duration(1+r.Int64N(70*86_400_000_000)) * time.Microsecond)
	gap := first.Add(until.Sub(first) / 3).Truncate(time.Microsecond)
	h.kept = []pricing.Interval{{Start: first, End: gap}, {Start: gap.Add(time.Hour), End: until}}
	if !gap.Add(time.Hour).Before(until) {
		h.kept = h.kept[:1]
	}
	h.usage.Storage = append(slices.Clone(h.kept), h.kept[0])
	h.volume = []pricing.Kept{{ID: "v", Units: 1 + r.Int64N(1000), Interval: pricing.Interval{Start: first, End: until}}}
	h.usage.Volumes = append(slices.Clone(h.volume), pricing.Kept{ID: "v", Units: r.Int64N(h.volume[0].Units + 1), Interval: h.kept[0]})
	h.usage.PublicIPs = h.usage.Volumes[:1]
	h.usage.EgressBytes, h.usage.IngressBytes = r.Int64N(1_000_000_000_000_000), r.Int64N(1_000_000_000_000_000)
	return h
}

// rateAt is the price in force at a moment of use.
func (h *history) rateAt(at time.Time) money.Rate {
	if h.quote.Plan == pricing.Spot {
		for _, i := range h.usage.Compute {
			if !at.Before(i.Start) && at.Before(i.End) {
				return i.Rate
			}
		}
		panic("a second that nobody reported")
	}
	rate := h.quote.Tariff.Compute
	for _, c := range h.quote.PriceChanges {
		if !at.Before(c.From) {
			rate = c.Compute
		}
	}
	return rate
}

func in(at time.Time, list []pricing.Interval) bool {
	for n := range list {
		if i := &list[n]; !at.Before(i.Start) && at.Before(i.End) {
			return true
		}
	}
	return false
}

// compute walks the seconds of every session.
func (h *history) compute() *big.Rat {
	unit := map[pricing.Granularity]int64{pricing.Second: 1, pricing.Minute: 60, pricing.Hour: 3600}[h.quote.Tariff.Granularity]
	sum := new(big.Int)
	for n, session := range h.sessions {
		var length time.Duration
		for _, s := range session {
			length += s.End.Sub(s.Start)
		}
		if h.evicted[n] && length < 60*time.Second {
			continue
		}
		// Where a second of the session begins, and whether it is used at all.
		begins := func(k int64) (time.Time, bool) {
			offset := time.Duration(k) * time.Second
			for i, s := range session {
				if l := s.End.Sub(s.Start); offset < l || i == len(session)-1 {
					return s.Start.Add(offset), offset < l
				} else {
					offset -= l
				}
			}
			panic("no stretch")
		}
		used := int64(length / time.Second)
		counts := used
		if unit > 1 && counts == 0 {
			counts = 1
		}
		if counts < h.quote.Tariff.MinimumSeconds {
			counts = h.quote.Tariff.MinimumSeconds
		}
		for counts%unit != 0 {
			counts++
		}
		minimum := h.quote.Tariff.MinimumSeconds
		for minimum%unit != 0 {
			minimum++
		}
		var rate money.Rate
		var alike int64 // seconds of that rate
		add := func() {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(rate)), big.NewInt(alike)))
			alike = 0
		}
		for k := range counts {
			if k == 0 || (k >= minimum && k%unit == 0) {
				at, _ := begins(k)
				if now := h.rateAt(at); now != rate {
					add()
					rate = now
				}
			}
			at, really := begins(k)
			if in(at, h.usage.Prepaid) || (really && in(at, h.usage.Reserved)) {
				continue
			}
			// What a session is rounded up to is paid for with the months that it ended in.
			last := session[len(session)-1]
			if slices.ContainsFunc(h.usage.Prepaid, func(c pricing.Interval) bool {
				return !at.Before(c.Start) && last.Start.Before(c.End) && !last.End.Before(c.Start) && !last.End.After(c.End)
			}) {
				continue
			}
			alike++
		}
		add()
	}
	return new(big.Rat).SetFrac(sum, big.NewInt(3600*1000))
}

// byMonth adds up what is kept in the months it is kept in.
func byMonth(w watch, rate money.Rate, units int64, kept []pricing.Interval) *big.Int {
	type sum struct {
		micros int64
		length int64
	}
	months := map[time.Time]*sum{}
	for _, k := range kept {
		for at := k.Start; at.Before(k.End); {
			from, until := w.month(at)
			end := k.End
			if until.Before(end) {
				end = until
			}
			if months[from] == nil {
				months[from] = &sum{length: int64(until.Sub(from) / time.Second)}
			}
			months[from].micros += end.Sub(at).Microseconds()
			at = end
		}
	}
	total := new(big.Int)
	for _, m := range months {
		part := big.NewRat(m.micros/1_000_000*units, m.length)
		total.Add(total, halfEven(part.Mul(part, big.NewRat(int64(rate), 1000))))
	}
	return total
}

// check compares one history and says what differs.
func (h *history) check(w watch, r *rand.Rand) error {
	got, err := pricing.Due(h.quote, h.usage)
	if err != nil {
		return err
	}
	t := h.quote.Tariff
	bytes := func(rate money.Rate, n int64) *big.Int {
		q := big.NewRat(n, 1_000_000_000)
		return halfEven(q.Mul(q, big.NewRat(int64(rate), 1000)))
	}
	length := h.volume[0].Interval.End.Sub(h.volume[0].Interval.Start)
	seconds := big.NewRat(h.volume[0].Units*length.Microseconds()/1_000_000, 3600)
	for m, want := range map[pricing.Meter]*big.Int{
		pricing.Compute:  halfEven(h.compute()),
		pricing.Storage:  byMonth(w, t.Storage, h.quote.DiskGiB, h.kept),
		pricing.Volume:   volumeMonths(w, t.Volume, h.volume[0]),
		pricing.Egress:   bytes(t.Egress, h.usage.EgressBytes),
		pricing.Ingress:  bytes(t.Ingress, h.usage.IngressBytes),
		pricing.PublicIP: halfEven(seconds.Mul(seconds, big.NewRat(int64(t.PublicIP), 1000))),
	} {
		if want.Cmp(big.NewInt(int64(got[m]))) != 0 {
			return fmt.Errorf("%s: %d micro are due, the oracle has %s", m, got[m], want)
		}
	}
	// Posted as it was reported, in any order and late, it is the same in the end.
	var posted money.Amount
	for n := range h.usage.Compute {
		if h.quote.Plan == pricing.Spot || n%3 != 0 {
			continue
		}
		d, err := pricing.Due(h.quote, pricing.Usage{Compute: h.usage.Compute[:n], Prepaid: h.usage.Prepaid, Reserved: h.usage.Reserved})
		if err != nil {
			return err
		}
		posted += d[pricing.Compute] - posted
	}
	if posted += got[pricing.Compute] - posted; posted != got[pricing.Compute] {
		return fmt.Errorf("posted %s of %s", posted, got[pricing.Compute])
	}
	switch r.IntN(4) {
	case 0:
		return checkMonths(w, r)
	case 1:
		return checkReservation(r)
	case 2:
		return checkInvoice(r)
	}
	return nil
}

// volumeMonths is byMonth with the product floored, not its factors.
func volumeMonths(w watch, rate money.Rate, k pricing.Kept) *big.Int {
	total := new(big.Int)
	for at := k.Interval.Start; at.Before(k.Interval.End); {
		from, until := w.month(at)
		end := k.Interval.End
		if until.Before(end) {
			end = until
		}
		part := big.NewRat(end.Sub(at).Microseconds()*k.Units/1_000_000, int64(until.Sub(from)/time.Second))
		total.Add(total, halfEven(part.Mul(part, big.NewRat(int64(rate), 1000))))
		at = end
	}
	return total
}

func checkMonths(w watch, r *rand.Rand) error {
	p := pricing.Prepaid{
		Anchor: drawMoment(r).Truncate(time.Second), TimeZone: w.zone.String(), PerMonth: money.Amount(r.Int64N(1_000_000_000_000)),
		TermMonths: pricing.Terms[r.IntN(4)], BasisPoints: r.Int64N(10_001), Renews: true,
	}
	if r.IntN(2) == 0 { // the last days of a month
		p.Anchor = time.Date(2023+r.IntN(6), time.Month(1+r.IntN(12)), 29+r.IntN(3), r.IntN(24), 30, 0, 0, w.zone)
	}
	at := p.Anchor.Add(time.Duration(r.Int64N(900*86_400)) * time.Second)
	term := 0
	for !at.Before(w.monthly(p.Anchor, (term+1)*p.TermMonths)) {
		term++
	}
	month := term * p.TermMonths
	for !at.Before(w.monthly(p.Anchor, month+1)) {
		month++
	}
	price := halfEven(big.NewRat(int64(p.PerMonth)*int64(p.TermMonths), 1).Mul(big.NewRat(int64(p.PerMonth)*int64(p.TermMonths), 1), big.NewRat(10_000-p.BasisPoints, 10_000)))
	gone := w.day(w.monthly(p.Anchor, month), w.monthly(p.Anchor, month+1), at)
	gone.Add(gone, big.NewRat(int64(month-term*p.TermMonths), 1))
	used := halfEven(new(big.Rat).Mul(gone, big.NewRat(int64(p.PerMonth), 1)))
	refund := new(big.Int).Sub(price, used)
	if refund.Sign() < 0 {
		refund.SetInt64(0)
	}
	e, err := p.End(at)
	if err != nil {
		return err
	}
	if refund.Cmp(big.NewInt(int64(e.Refund))) != 0 || used.Cmp(big.NewInt(int64(e.Used))) != 0 || e.Term.Number != term {
		return fmt.Errorf("end of %+v at %s: %+v, the oracle has term %d, used %s, refund %s", p, at, e, term, used, refund)
	}
	left := new(big.Rat).Sub(big.NewRat(int64(p.TermMonths), 1), gone)
	left.Quo(left, big.NewRat(int64(p.TermMonths), 1))
	credit := halfEven(left.Mul(left, new(big.Rat).SetInt(price)))
	c, err := p.Change(p.PerMonth/2, 0, at)
	if err != nil {
		return err
	}
	if credit.Cmp(big.NewInt(int64(c.Credit))) != 0 {
		return fmt.Errorf("change of %+v at %s: %+v, the oracle has a credit of %s", p, at, c, credit)
	}
	return nil
}

// checkReservation walks the seconds of one reservation's hours.
func checkReservation(r *rand.Rand) error {
	from := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	res := pricing.Reservation{
		ID: "r", GPUModel: "m", Zone: "z", GPUs: 1, From: from, Until: from.Add(2 * time.Hour), Payment: pricing.PartialUpfront,
		UpfrontDue: money.Amount(r.Int64N(1_000_000_000)), Hourly: money.Rate(r.Int64N(10_000_000_000)),
	}
	var runs []pricing.Run
	for n := range 1 + r.IntN(4) {
		start := from.Add(time.Duration(r.Int64N(7200_000_000)-600_000_000) * time.Microsecond)
		runs = append(runs, pricing.Run{
			LeaseID: fmt.Sprint("l", n), GPUModel: "m", Zone: "z", GPUs: 1 + r.Int64N(3),
			Compute: []pricing.Interval{{Start: start, End: start.Add(time.Duration(1+r.Int64N([]int64{900_000_000, 900_000_000, 5_000_000_000}[r.IntN(3)])) * time.Microsecond)}},
		})
	}
	a, err := pricing.ApplyReservations([]pricing.Reservation{res}, runs, from.Add(time.Hour*9))
	if err != nil {
		return err
	}
	before := big.NewInt(0)
	for n, h := range a.Hours {
		hour := pricing.Interval{Start: from.Add(time.Duration(n) * time.Hour), End: from.Add(time.Duration(n+1) * time.Hour)}
		ran := make([]int64, len(runs))
		var want int64
		for i, run := range runs {
			for at := run.Compute[0].Start; !at.Add(time.Second).After(run.Compute[0].End); at = at.Add(time.Second) {
				if in(at, []pricing.Interval{hour}) {
					ran[i]++
				}
			}
			want += ran[i] * run.GPUs
		}
		gets := slices.Clone(ran)
		if want > 3600 {
			left := int64(3600)
			type part struct {
				i    int
				rest *big.Rat
			}
			var parts []part
			for i := range runs {
				exact := big.NewRat(3600*ran[i], want)
				gets[i] = new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
				left -= gets[i] * runs[i].GPUs
				parts = append(parts, part{i, exact.Sub(exact, big.NewRat(gets[i], 1))})
			}
			sort.SliceStable(parts, func(x, y int) bool { return parts[x].rest.Cmp(parts[y].rest) > 0 })
			for _, p := range parts {
				if p.rest.Sign() > 0 && left >= runs[p.i].GPUs {
					gets[p.i]++
					left -= runs[p.i].GPUs
				}
			}
		}
		used := int64(0)
		for i, run := range runs {
			got := int64(0)
			for _, l := range h.Leases {
				if l.LeaseID == run.LeaseID {
					got = l.Seconds
				}
			}
			if got != gets[i] {
				return fmt.Errorf("hour %d: lease %s of %+v has %d s, the oracle %d", n, run.LeaseID, runs, got, gets[i])
			}
			used += gets[i] * run.GPUs
		}
		cost := big.NewRat(int64(res.UpfrontDue)*int64(n+1), 2)
		hours := big.NewRat(int64(res.Hourly)*int64(n+1), 1000)
		total := new(big.Int).Add(halfEven(cost), halfEven(hours))
		if h.Used != used || big.NewInt(int64(h.Cost)).Cmp(new(big.Int).Sub(total, before)) != 0 {
			return fmt.Errorf("hour %d: %+v, the oracle has %d used and costs of %s in all", n, h, used, total)
		}
		before = total
	}
	return nil
}

// checkInvoice adds an invoice up in fractions, its tiers and its commission too.
func checkInvoice(r *rand.Rand) error {
	var lines []pricing.InvoiceLine
	exact := new(big.Int)
	for range 1 + r.IntN(6) {
		a := money.Amount(r.Int64N(1_000_000_000) - 100_000_000)
		lines = append(lines, pricing.InvoiceLine{Amount: a})
		exact.Add(exact, big.NewInt(int64(a)))
	}
	rules := []pricing.TaxRule{{Jurisdiction: "x", Name: "a", PPM: r.Int64N(300_000), Inclusive: r.IntN(2) == 0}, {Jurisdiction: "x", Name: "b", PPM: r.Int64N(100_000)}}
	rules[1].Inclusive = rules[0].Inclusive
	v, err := pricing.NewInvoice(money.CNY, lines, rules)
	if err != nil {
		return err
	}
	cents := func(x *big.Rat) *big.Int {
		c := halfEven(new(big.Rat).Quo(new(big.Rat).Abs(x), big.NewRat(10_000, 1)))
		return c.Mul(c, big.NewInt(int64(10_000*x.Sign())))
	}
	total := cents(new(big.Rat).SetInt(exact))
	if total.Cmp(big.NewInt(int64(v.Subtotal))) != 0 {
		return fmt.Errorf("subtotal %s of %+v, the oracle has %s", v.Subtotal, lines, total)
	}
	for n, rule := range rules {
		den := int64(1_000_000)
		if rule.Inclusive {
			den += rules[0].PPM + rules[1].PPM
		}
		want := cents(new(big.Rat).Mul(new(big.Rat).SetInt(exact), big.NewRat(rule.PPM, den)))
		sum := money.Amount(0)
		for _, l := range v.Lines {
			sum += l.Tax[n]
			part := new(big.Rat).Mul(big.NewRat(int64(l.Amount), 1), big.NewRat(rule.PPM, den))
			off := part.Sub(part, big.NewRat(int64(l.Tax[n]), 1))
			if off.Abs(off).Cmp(big.NewRat(10_000, 1)) > 0 {
				return fmt.Errorf("line %s has a tax of %s", l.Amount, l.Tax[n])
			}
		}
		if want.Cmp(big.NewInt(int64(v.Taxes[n].Amount))) != 0 || sum != v.Taxes[n].Amount {
			return fmt.Errorf("tax %d is %s, its lines are %s, the oracle has %s", n, v.Taxes[n].Amount, sum, want)
		}
	}
	tiers := []pricing.Tier{{0, 100}, {50_000_000, 300}, {400_000_000, 1234}}
	month := money.Amount(r.Int64N(1_000_000_000))
	off := new(big.Rat)
	for i, t := range tiers {
		until := month
		if i < 2 && tiers[i+1].From < until {
			until = tiers[i+1].From
		}
		if until > t.From {
			off.Add(off, big.NewRat(int64(until-t.From)*t.BasisPoints, 10_000))
		}
	}
	if d, err := pricing.VolumeDiscount(tiers, month); err != nil || halfEven(off).Cmp(big.NewInt(int64(d))) != 0 {
		return fmt.Errorf("volume discount of %s is %s, %v, the oracle has %s", month, d, err, off.FloatString(7))
	}
	bp := r.Int64N(10_001)
	parts, err := pricing.Divide(month, month/7, bp)
	if err != nil || parts.Provider+parts.Commission+parts.Tax != month {
		return fmt.Errorf("%s is %+v, %v", month, parts, err)
	}
	return nil
}

func TestTheOracleAgreesOnRandomHistories(t *testing.T) {
	t.Parallel()
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	watches := map[string]watch{}
	for _, z := range zones {
		zone, err := time.LoadLocation(z)
		if err != nil {
			t.Fatal(err)
		}
		watches[z] = watch{zone}
	}
	const workers = 2
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for n := w; n < *histories && !t.Failed(); n += workers {
				s := first + uint64(n)
				r := rand.New(rand.NewPCG(s, s))
				h := drawHistory(r)
				if err := h.check(watches[h.quote.TimeZone], r); err != nil {
					t.Errorf("history %d: %v\nquote %+v\nsessions %v\nusage %+v\nrun it again with -seed %d -histories 1", s, err, h.quote, h.sessions, h.usage, s)
				}
			}
		})
	}
	wg.Wait()
}
