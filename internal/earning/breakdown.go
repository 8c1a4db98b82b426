package earning

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// By says what earnings are broken down by.
type By string

// The breakdowns.
const (
	ByHost By = "host"
	ByGPU  By = "gpu"
	ByDay  By = "day"
)

// Row is what one host, GPU or day earned.
type Row struct {
	Day       string // such as "2026-03-01"; of ByDay
	HostID    string // of ByHost and ByGPU
	GPU       string // UUID; of ByGPU. Empty: what no GPU earned, such as the disk of a stopped lease
	Model     string // of GPU, if it was on the market in that time
	Simulated bool
	// Seconds of all GPUs together, in leases and on the market. A GPU in a lease
	// counts as on the market, and announced maintenance does not.
	RentedSeconds, ListedSeconds int64
	Sums                         []Sum // by currency
}

// Occupancy is the part of the time on the market in which GPUs were rented, in
// basis points rounded down; ok is false if there was no such time.
func (r Row) Occupancy() (basisPoints int64, ok bool) {
	if r.ListedSeconds == 0 {
		return 0, false
	}
	return r.RentedSeconds * 10_000 / r.ListedSeconds, true
}

// Sum is money of one currency.
type Sum struct {
	Currency                    money.Currency
	Charged, Commission, Earned money.Amount // Earned is Charged less Commission
}

// Breakdown is what a provider earned in a time.
type Breakdown struct {
	By          By
	From, Until time.Time // midnights of the provider's zone
	TimeZone    string
	Rows        []Row
}

// maxDays is the longest time that is broken down at once.
const maxDays = 366

// Breakdown breaks down what a provider earned from a day on and before another,
// both as "2006-01-02" by the calendar of its account's zone. Without a first day
// it is the calendar month so far, without a last one up to today.
//
// A charge counts on the days in which what it is for was used: compute by the
// seconds that ran, the rest evenly over the stretch of the charge.
func (s *Service) Breakdown(ctx context.Context, providerID string, by By, first, last string) (Breakdown, error) {
	if by != ByHost && by != ByGPU && by != ByDay {
		return Breakdown{}, fault.New(fault.Invalid, "bad_breakdown", "earnings by %q were asked for; there are host, gpu and day", by).At("query.by")
	}
	name, err := s.cfg.ZoneOf(ctx, providerID)
	if err != nil {
		return Breakdown{}, err
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return Breakdown{}, fmt.Errorf("zone of %s: %w", providerID, err)
	}
	now := s.cfg.Clock()
	from, until, err := period(now.In(zone), first, last)
	if err != nil {
		return Breakdown{}, err
	}
	revenue, err := s.cfg.Money.Revenue(ctx, providerID, from, until)
	if err != nil {
		return Breakdown{}, err
	}
	// GPUs are weighed over the whole stretch of a charge, also where it reaches
	// out of the period, or its parts would not be the same for each period.
	begin, end := from, until
	var ids []string
	for _, c := range revenue.Charges {
		begin, end = earlier(begin, dayOf(c.From.In(zone))), later(end, nextDay(dayOf(c.To.In(zone))))
		ids = append(ids, c.LeaseID)
	}
	slices.Sort(ids)
	places, err := s.cfg.Leases.Places(ctx, slices.Compact(ids))
	if err != nil {
		return Breakdown{}, err
	}
	history, err := s.cfg.Hosts.History(ctx, providerID, begin, end)
	if err != nil {
		return Breakdown{}, err
	}
	t := table{by: by, from: from, until: until, now: now, zone: zone, rows: map[key]*Row{}}
	if err := t.earn(revenue, places, history.Rented); err != nil {
		return Breakdown{}, fmt.Errorf("earnings of %s: %w", providerID, err)
	}
	t.occupy(history)
	return Breakdown{By: by, From: from, Until: until, TimeZone: name, Rows: t.sorted()}, nil
}

// period reads the days of a period.
func period(now time.Time, first, last string) (from, until time.Time, err error) {
	today := dayOf(now)
	from, until = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, now.Location()), nextDay(today)
	for _, d := range []struct {
		text, name string
		into       *time.Time
	}{{first, "from", &from}, {last, "until", &until}} {
		if d.text == "" {
			continue
		}
		if *d.into, err = time.ParseInLocation(time.DateOnly, d.text, now.Location()); err != nil {
			return from, until, fault.New(fault.Invalid, "bad_period", "the day %q: want one such as 2026-03-01", d.text).At("query." + d.name)
		}
	}
	if !from.Before(until) || until.After(from.AddDate(0, 0, maxDays)) {
		return from, until, fault.New(fault.Invalid, "bad_period", "earnings from %s until before %s were asked for; want 1 to %d days",
			from.Format(time.DateOnly), until.Format(time.DateOnly), maxDays).At("query.from")
	}
	return from, until, nil
}

// key is what a row is of.
type key struct {
	day, host, gpu string
	simulated      bool
}

// table collects rows.
type table struct {
	by               By
	from, until, now time.Time
	zone             *time.Location
	rows             map[key]*Row
}

func (t *table) row(day time.Time, host, gpu string, simulated bool) *Row {
	k := key{simulated: simulated}
	switch t.by {
	case ByHost:
		k.host = host
	case ByGPU:
		k.host, k.gpu = host, gpu
	case ByDay:
		k.day = day.Format(time.DateOnly)
	}
	r := t.rows[k]
	if r == nil {
		r = &Row{Day: k.day, HostID: k.host, GPU: k.gpu, Simulated: simulated}
		t.rows[k] = r
	}
	return r
}

// earn adds what was charged.
func (t *table) earn(revenue billing.Revenue, places map[string]lease.Place, rented []fleet.Stretch) error {
	byLease := map[string][]fleet.Stretch{}
	for _, r := range rented {
		byLease[r.LeaseID] = append(byLease[r.LeaseID], r)
	}
	for _, c := range revenue.Charges {
		var runs []pricing.Interval
		if c.Meter == pricing.Compute {
			runs = revenue.Runs[c.LeaseID]
		}
		days := t.days(c.From, c.To)
		used := make([][]pricing.Interval, len(days))
		weights := make([]int64, len(days))
		for i, d := range days {
			used[i] = within(runs, later(c.From, d.Start), earlier(c.To, d.End))
			weights[i] = micros(used[i])
		}
		if sum(weights) == 0 { // a minimum, a correction, or not by time: evenly
			for i, d := range days {
				used[i] = within([]pricing.Interval{{Start: c.From, End: c.To}}, d.Start, d.End)
				weights[i] = micros(used[i])
			}
		}
		if sum(weights) == 0 { // a moment
			weights[len(weights)-1] = 1
		}
		if err := t.spread(c, places[c.LeaseID].HostID, days, used, weights, byLease[c.LeaseID]); err != nil {
			return err
		}
	}
	return nil
}

// spread divides a charge by days and then by the GPUs that its lease had.
func (t *table) spread(c billing.Charge, host string, days []pricing.Interval, used [][]pricing.Interval, weights []int64, rented []fleet.Stretch) error {
	charged, err := pricing.Allocate(c.Amount, weights)
	if err != nil {
		return err
	}
	earned, err := pricing.Allocate(c.ProviderShare, weights)
	if err != nil {
		return err
	}
	for i, d := range days {
		if d.Start.Before(t.from) || !d.Start.Before(t.until) || weights[i] == 0 {
			continue
		}
		gpus, shares := []string{""}, []int64{1}
		if t.by == ByGPU {
			gpus, shares = shareOut(used[i], rented, t.now)
		}
		charges, err := pricing.Allocate(charged[i], shares)
		if err != nil {
			return err
		}
		earnings, err := pricing.Allocate(earned[i], shares)
		if err != nil {
			return err
		}
		for j, gpu := range gpus {
			if err := t.row(d.Start, host, gpu, c.Simulated).add(c.Currency, charges[j], earnings[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

// shareOut returns the GPUs that a lease had in a time with their weights; one
// without a name if it had none that is known.
func shareOut(used []pricing.Interval, rented []fleet.Stretch, now time.Time) (gpus []string, weights []int64) {
	had := map[string]int64{}
	for _, r := range rented {
		had[r.GPU] += micros(within(used, r.From, ended(r.Until, now)))
	}
	for gpu, w := range had {
		if w > 0 {
			gpus = append(gpus, gpu)
		}
	}
	if len(gpus) == 0 {
		return []string{""}, []int64{1}
	}
	slices.Sort(gpus)
	for _, gpu := range gpus {
		weights = append(weights, had[gpu])
	}
	return gpus, weights
}

func (r *Row) add(currency money.Currency, charged, earned money.Amount) error {
	i := slices.IndexFunc(r.Sums, func(s Sum) bool { return s.Currency == currency })
	if i < 0 {
		i = len(r.Sums)
		r.Sums = append(r.Sums, Sum{Currency: currency})
	}
	s := &r.Sums[i]
	var err error
	if s.Charged, err = s.Charged.Add(charged); err != nil {
		return err
	}
	if s.Earned, err = s.Earned.Add(earned); err != nil {
		return err
	}
	s.Commission = s.Charged - s.Earned
	return nil
}

// occupy adds how long GPUs were on the market and in leases.
func (t *table) occupy(h fleet.History) {
	away := map[string][]pricing.Interval{}
	for _, m := range h.Maintenance {
		away[m.HostID] = append(away[m.HostID], pricing.Interval{Start: m.From, End: m.Until})
	}
	// What a GPU was on the market for: as listed, less maintenance, and as rented.
	type device struct{ host, gpu string }
	listed, rented := map[device][]pricing.Interval{}, map[device][]pricing.Interval{}
	model, simulated := map[device]string{}, map[device]bool{}
	for _, l := range h.Listed {
		d := device{l.HostID, l.GPU}
		model[d], simulated[d] = l.Model, l.Simulated
		listed[d] = append(listed[d], without(pricing.Interval{Start: l.From, End: ended(l.Until, t.now)}, away[l.HostID])...)
	}
	for _, r := range h.Rented {
		d := device{r.HostID, r.GPU}
		simulated[d] = r.Simulated
		i := pricing.Interval{Start: r.From, End: ended(r.Until, t.now)}
		rented[d] = append(rented[d], i)
		listed[d] = append(listed[d], i)
	}
	if !t.from.Before(t.now) {
		return
	}
	for d := range listed {
		for _, day := range t.days(t.from, earlier(t.until, t.now).Add(-time.Microsecond)) {
			on := micros(within(merged(listed[d]), day.Start, day.End)) / 1_000_000
			if on == 0 {
				continue
			}
			r := t.row(day.Start, d.host, d.gpu, simulated[d])
			r.ListedSeconds += on
			r.RentedSeconds += micros(within(merged(rented[d]), day.Start, day.End)) / 1_000_000
			if t.by == ByGPU {
				r.Model = model[d]
			}
		}
	}
}

// sorted returns the rows in the order of days, hosts and GPUs, real ones first.
func (t *table) sorted() []Row {
	out := make([]Row, 0, len(t.rows))
	for _, r := range t.rows {
		slices.SortFunc(r.Sums, func(a, b Sum) int { return cmp.Compare(a.Currency, b.Currency) })
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Row) int {
		if c := cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.HostID, b.HostID), cmp.Compare(a.GPU, b.GPU)); c != 0 || a.Simulated == b.Simulated {
			return c
		}
		if a.Simulated {
			return 1
		}
		return -1
	})
	return out
}

// days returns the calendar days that a stretch touches, at least one.
func (t *table) days(from, to time.Time) []pricing.Interval {
	var out []pricing.Interval
	for d := dayOf(from.In(t.zone)); ; {
		next := nextDay(d)
		if len(out) == 0 || !d.After(to) {
			out = append(out, pricing.Interval{Start: d, End: next})
		}
		if next.After(to) {
			return out
		}
		d = next
	}
}

// dayOf is the begin of a moment's day by its own zone.
func dayOf(at time.Time) time.Time {
	t := time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, at.Location())
	if t.Day() != at.Day() { // clocks go forward at midnight there: the day begins an hour later
		t = t.Add(time.Hour)
	}
	return t
}

// nextDay is the begin of the day after one that begins at d.
func nextDay(d time.Time) time.Time {
	for n := 1; ; n++ {
		// A calendar may skip a day, as Samoa's did.
		if next := dayOf(time.Date(d.Year(), d.Month(), d.Day()+n, 12, 0, 0, 0, d.Location())); next.After(d) {
			return next
		}
	}
}
