package pricing

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// Upfront says how much of a reservation is paid when it is bought.
type Upfront string

// The ways to pay for a reservation.
const (
	NoUpfront      Upfront = "none"
	PartialUpfront Upfront = "partial" // half
	AllUpfront     Upfront = "all"
)

// partialUpfront is the part that PartialUpfront pays at once: half, in basis points.
const partialUpfront = basisPoints / 2

// Reservation is GPUs of a model in a zone, held and paid for by the clock hour
// whether they are used or not.
type Reservation struct {
	ID         string         `json:"id"`
	GPUModel   string         `json:"gpu_model"`
	Zone       string         `json:"zone"` // where, not a time zone
	GPUs       int64          `json:"gpu_count"`
	From       time.Time      `json:"from"`
	Until      time.Time      `json:"until"`
	Currency   money.Currency `json:"currency"`
	Payment    Upfront        `json:"payment"`
	UpfrontDue money.Amount   `json:"upfront"`                 // at From
	Hourly     money.Rate     `json:"hourly_per_gpu"`          // for each GPU and hour, used or not
	Months     int            `json:"term_months"`             // 0: custom
	ListHourly money.Rate     `json:"list_hourly_per_gpu"`     // on demand, when it was bought
	Discount   int64          `json:"discount_basis_points"`   // off ListHourly
	Commission int64          `json:"commission_basis_points"` // the platform's part
	// Lost is when its GPUs were not there for it, in whole seconds: they are worth
	// nothing then and cost nothing, of what was paid upfront too.
	Lost []Interval `json:"lost,omitempty"`
	// Listed is the same reservation as it is on the market, in the currency of its
	// provider, where that is another than the account's.
	Listed *Reservation `json:"listed,omitempty"`
}

// window returns the clock hours of a reservation: from the start of the hour in
// which it begins to the end of the hour in which it ends, as at Tencent.
func (r Reservation) window() (from, until time.Time) {
	from = r.From.UTC().Truncate(time.Hour)
	until = r.Until.UTC().Truncate(time.Hour)
	if until.Before(r.Until) {
		until = until.Add(time.Hour)
	}
	return from, until
}

// Hours returns how many clock hours a reservation has.
func (r Reservation) Hours() int64 {
	from, until := r.window()
	return max(0, int64(until.Sub(from)/time.Hour))
}

// Check reports the first thing that is wrong with r.
func (r Reservation) Check() error {
	switch {
	case r.GPUs < 1 || r.GPUs > maxGPUs:
		return fmt.Errorf("reservation of %d GPUs: want 1 to %d", r.GPUs, maxGPUs)
	case !r.From.Before(r.Until):
		return fmt.Errorf("reservation from %s until %s: it has no time in it", r.From, r.Until)
	case r.Until.Sub(r.From) > maxRunSeconds*time.Second:
		return fmt.Errorf("reservation from %s until %s: want ten years at most", r.From, r.Until)
	case r.UpfrontDue < 0:
		return fmt.Errorf("reservation with %s upfront: want at least 0", r.UpfrontDue)
	case r.Hourly < 0:
		return fmt.Errorf("reservation at %s an hour: want at least 0", r.Hourly)
	case !slices.Contains([]Upfront{NoUpfront, PartialUpfront, AllUpfront}, r.Payment):
		return fmt.Errorf("payment %q of a reservation: want none, partial or all", r.Payment)
	}
	return nil
}

const maxGPUs = 1 << 20

// Due returns all that a reservation itself has cost by a moment: what is paid
// upfront, from its begin on, and its hours so far to the second.
func (r Reservation) Due(at time.Time) (money.Amount, error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	from, until := r.window()
	if at.Before(r.From) {
		return 0, nil
	}
	if at.After(until) {
		at = until
	}
	lost := r.lostSeconds(from, at)
	hours, err := r.hourly(int64(at.Sub(from)/time.Second) - lost)
	if err != nil {
		return 0, err
	}
	// What stays paid of the upfront part, by the rule of effective.
	total := r.Hours() * secondsPerHour
	upfront, err := part(r.UpfrontDue, total-lost, total)
	if err != nil {
		return 0, err
	}
	return upfront.Add(hours)
}

// LostBy returns what comes back of what was paid upfront, for the time that was
// lost by a moment.
func (r Reservation) LostBy(at time.Time) (money.Amount, error) {
	from, until := r.window()
	total := r.Hours() * secondsPerHour
	if total == 0 {
		return 0, nil
	}
	kept, err := part(r.UpfrontDue, total-r.lostSeconds(from, earlierOf(at, until)), total)
	return r.UpfrontDue - kept, err
}

func earlierOf(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lostSeconds is how much of a stretch is in Lost.
func (r Reservation) lostSeconds(from, until time.Time) int64 {
	var sum time.Duration
	for _, l := range union(r.Lost) {
		start, end := l.Start, earlierOf(l.End, until)
		if start.Before(from) {
			start = from
		}
		sum += max(0, end.Sub(start))
	}
	return int64(sum / time.Second)
}

// EarlyEnd is what it comes to that a reservation ends before its time.
type EarlyEnd struct {
	Until time.Time    `json:"until"` // end of the clock hour, which is the last one held
	Hours int64        `json:"hours"`
	Due   money.Amount `json:"due"`  // by then, as it was agreed, all that is paid upfront in it
	Owed  money.Amount `json:"owed"` // by the rule for an early end
	Net   money.Amount `json:"net"`  // Owed − Due: to be paid, or given back if negative
}

// EndEarly ends a reservation before its time. The clock hours so far then cost the
// price on demand of the day on which it was bought, since the discount was for the
// term; but never more than the whole term would have cost. One that has not begun
// costs nothing.
func (r Reservation) EndEarly(at time.Time) (EarlyEnd, error) {
	if err := r.Check(); err != nil {
		return EarlyEnd{}, err
	}
	from, until := r.window()
	if at.Before(from) {
		return EarlyEnd{Until: from, Due: r.UpfrontDue, Net: -r.UpfrontDue}, nil
	}
	end := at.UTC().Truncate(time.Hour)
	if end.Before(at) || end.Equal(from) {
		end = end.Add(time.Hour)
	}
	end = earlierOf(end, until)
	out := EarlyEnd{Until: end, Hours: int64(end.Sub(from) / time.Hour)}
	lost := r.lostSeconds(from, end)
	hours, err := r.hourly(out.Hours*secondsPerHour - lost)
	if err != nil {
		return out, err
	}
	back, err := r.LostBy(end)
	if err != nil {
		return out, err
	}
	if out.Due, err = (r.UpfrontDue - back).Add(hours); err != nil {
		return out, err
	}
	list := r
	list.Hourly = r.ListHourly
	if out.Owed, err = list.hourly(out.Hours*secondsPerHour - lost); err != nil {
		return out, err
	}
	rest, err := r.hourly(int64(until.Sub(end) / time.Second))
	if err != nil {
		return out, err
	}
	whole, err := out.Due.Add(rest)
	if err != nil {
		return out, err
	}
	out.Owed = min(out.Owed, whole)
	if end.Equal(until) {
		out.Owed = out.Due
	}
	out.Net = out.Owed - out.Due
	return out, nil
}

// Instalment is one payment of a reservation.
type Instalment struct {
	At     time.Time    `json:"at"`
	From   time.Time    `json:"from"`
	Until  time.Time    `json:"until"`
	Amount money.Amount `json:"amount"`
}

// Schedule returns all payments of a reservation: what is paid upfront, and then
// what its hours come to in each calendar month of a time zone, each at its end.
func (r Reservation) Schedule(timeZone string) ([]Instalment, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	var out []Instalment
	from, until := r.window()
	if r.UpfrontDue > 0 {
		out = append(out, Instalment{At: r.From, From: from, Until: until, Amount: r.UpfrontDue})
	}
	var before money.Amount
	for at := from; at.Before(until) && r.Hourly > 0; {
		m, err := MonthOf(at, timeZone)
		if err != nil {
			return nil, err
		}
		end := earlierOf(m.End, until).UTC()
		total, err := r.hourly(int64(end.Sub(from) / time.Second))
		if err != nil {
			return nil, err
		}
		out = append(out, Instalment{At: end, From: at, Until: end, Amount: total - before})
		before, at = total, end
	}
	return out, nil
}

// hourly is what so many seconds cost, without what is paid upfront.
func (r Reservation) hourly(seconds int64) (money.Amount, error) {
	quantity, err := times(seconds, r.GPUs)
	if err != nil {
		return 0, err
	}
	return r.Hourly.Times(quantity, secondsPerHour)
}

// effective is what a reservation's seconds cost with what is paid upfront spread
// evenly over all of them.
func (r Reservation) effective(seconds int64) (money.Amount, error) {
	upfront, err := part(r.UpfrontDue, seconds, r.Hours()*secondsPerHour)
	if err != nil {
		return 0, err
	}
	hours, err := r.hourly(seconds)
	if err != nil {
		return 0, err
	}
	return upfront.Add(hours)
}

// Run is what one lease ran, for reservations to be applied to.
type Run struct {
	LeaseID  string
	GPUModel string
	Zone     string
	GPUs     int64
	Compute  []Interval
}

// HourUse is what a reservation was worth in one clock hour.
type HourUse struct {
	ReservationID string
	Hour          time.Time
	Capacity      int64 // GPU-seconds held and paid for
	Used          int64 // GPU-seconds that leases had of them
	Unused        int64
	Cost          money.Amount // of the hour, with its part of what was paid upfront
	UnusedCost    money.Amount // the part of Cost that nobody had
	Leases        []LeaseUse   // ordered by lease
}

// LeaseUse is what a lease had of a reservation in an hour.
type LeaseUse struct {
	LeaseID string
	Seconds int64        // of the bundle
	Cost    money.Amount // its part of the hour's Cost: FOCUS's effective cost
}

// Application is what reservations come to for leases.
type Application struct {
	// Covered is the time of each lease that is paid for; see Usage.Reserved.
	Covered map[string][]Interval
	Hours   []HourUse // by reservation, then by hour; hours without use are among them
}

// ApplyReservations applies reservations to the leases of one account, for all
// clock hours (UTC) that have begun by a moment. In each hour a reservation is worth
// 3,600 s for each of its GPUs, spread over the matching leases in proportion to
// the GPU-seconds that they ran, in whole seconds of a bundle by largest remainder;
// in a lease, the hour's first seconds are covered first. Seconds that are not
// used in their hour are gone. Of several reservations the one that began first
// applies first. The result depends on nothing but its arguments, so use that is
// reported late is applied by calling it again.
func ApplyReservations(reservations []Reservation, runs []Run, until time.Time) (Application, error) {
	return ApplySince(reservations, runs, time.Time{}, until)
}

// ApplySince is ApplyReservations for the clock hours from a moment on, which is
// the begin of one: what an hour comes to depends on no other.
func ApplySince(reservations []Reservation, runs []Run, since, until time.Time) (Application, error) {
	out := Application{Covered: map[string][]Interval{}}
	ordered := slices.Clone(reservations)
	slices.SortFunc(ordered, func(a, b Reservation) int {
		return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.ID, b.ID))
	})
	uses, err := useByHour(runs, since)
	if err != nil {
		return out, err
	}
	for _, r := range ordered {
		if err := r.Check(); err != nil {
			return out, fmt.Errorf("reservation %s: %w", r.ID, err)
		}
		from, end := r.window()
		var before money.Amount
		var gone int64 // seconds that were lost so far
		first := int64(1)
		if from.Before(since) {
			first += int64(since.Sub(from) / time.Hour)
			gone = r.lostSeconds(from, since)
			if before, err = r.effective((first-1)*secondsPerHour - gone); err != nil && first <= r.Hours() {
				return out, fmt.Errorf("reservation %s: %w", r.ID, err)
			}
			from = since
		}
		for hour, n := from, first; hour.Before(end) && hour.Before(until); hour, n = hour.Add(time.Hour), n+1 {
			lost := r.lostSeconds(hour, hour.Add(time.Hour))
			gone += lost
			capacity := r.GPUs * (secondsPerHour - lost)
			total, err := r.effective(n*secondsPerHour - gone)
			if err != nil {
				return out, fmt.Errorf("reservation %s: %w", r.ID, err)
			}
			h := HourUse{ReservationID: r.ID, Hour: hour, Capacity: capacity, Cost: total - before}
			before = total
			if capacity == 0 {
				out.Hours = append(out.Hours, h)
				continue
			}
			var matching []*hourUse
			for _, u := range uses[hour.Unix()] {
				if u.run.GPUModel == r.GPUModel && u.run.Zone == r.Zone && len(u.free) > 0 {
					matching = append(matching, u)
				}
			}
			taken := spread(capacity, matching)
			weights := []int64{0} // of what is unused, then of the leases
			for i, u := range matching {
				if taken[i] == 0 {
					continue
				}
				out.Covered[u.run.LeaseID] = append(out.Covered[u.run.LeaseID], u.take(taken[i])...)
				h.Leases = append(h.Leases, LeaseUse{LeaseID: u.run.LeaseID, Seconds: taken[i]})
				h.Used += taken[i] * u.run.GPUs
				weights = append(weights, taken[i]*u.run.GPUs)
			}
			h.Unused = h.Capacity - h.Used
			weights[0] = h.Unused
			costs, err := Allocate(h.Cost, weights)
			if err != nil {
				return out, fmt.Errorf("reservation %s: %w", r.ID, err)
			}
			h.UnusedCost = costs[0]
			for i := range h.Leases {
				h.Leases[i].Cost = costs[i+1]
			}
			out.Hours = append(out.Hours, h)
		}
	}
	for id, c := range out.Covered {
		out.Covered[id] = union(c)
	}
	return out, nil
}

// hourUse is what a lease ran in one clock hour.
type hourUse struct {
	run  *Run
	free []secondsFrom // that no reservation covers yet
}

// secondsFrom is a run of whole seconds from a moment on.
type secondsFrom struct {
	start time.Time
	count int64
}

func (u *hourUse) seconds() (n int64) {
	for _, f := range u.free {
		n += f.count
	}
	return n
}

// take removes the first n free seconds and returns when they were.
func (u *hourUse) take(n int64) []Interval {
	var out []Interval
	for n > 0 {
		f := &u.free[0]
		count := min(n, f.count)
		end := f.start.Add(time.Duration(count) * time.Second)
		out = append(out, Interval{Start: f.start, End: end})
		if n -= count; count == f.count {
			u.free = u.free[1:]
		} else {
			f.start, f.count = end, f.count-count
		}
	}
	return out
}

// useByHour cuts runs into clock hours. A second belongs to the hour in which it
// begins, and one that was not completed is not used.
func useByHour(runs []Run, since time.Time) (map[int64][]*hourUse, error) {
	byLease := map[string]*Run{}
	var ids []string
	for _, r := range runs {
		if r.GPUs < 1 || r.GPUs > maxGPUs {
			return nil, fmt.Errorf("lease %s has %d GPUs: want 1 to %d", r.LeaseID, r.GPUs, maxGPUs)
		}
		known := byLease[r.LeaseID]
		if known == nil {
			r.Compute = slices.Clone(r.Compute)
			byLease[r.LeaseID] = &r
			ids = append(ids, r.LeaseID)
			continue
		}
		if known.GPUModel != r.GPUModel || known.Zone != r.Zone || known.GPUs != r.GPUs {
			return nil, fmt.Errorf("lease %s is reported as two different bundles", r.LeaseID)
		}
		known.Compute = append(known.Compute, r.Compute...)
	}
	slices.Sort(ids)
	out := map[int64][]*hourUse{}
	for _, id := range ids {
		r := byLease[id]
		for _, session := range sessions(r.Compute) {
			completed := int64(session[len(session)-1].used() / time.Second)
			for _, s := range session {
				// From the first second that begins in s to the first that begins after it.
				second, end := ceilSeconds(s.before), min(completed, ceilSeconds(s.used()))
				for second < end {
					at := s.moment(second)
					hour := at.Truncate(time.Hour)
					count := min(end-second, ceilSeconds(hour.Add(time.Hour).Sub(at)))
					if hour.Before(since) {
						second += count
						continue
					}
					uses := out[hour.Unix()]
					if len(uses) == 0 || uses[len(uses)-1].run != r {
						uses = append(uses, &hourUse{run: r})
						out[hour.Unix()] = uses
					}
					u := uses[len(uses)-1]
					u.free = append(u.free, secondsFrom{at, count})
					second += count
				}
			}
		}
	}
	return out, nil
}

// spread divides GPU-seconds among uses in proportion to what they ran, in whole
// seconds of each bundle and never more than it ran.
func spread(capacity int64, uses []*hourUse) []int64 {
	out := make([]int64, len(uses))
	var want int64
	for _, u := range uses {
		want += u.seconds() * u.run.GPUs
	}
	if want <= capacity {
		for i, u := range uses {
			out[i] = u.seconds()
		}
		return out
	}
	left := capacity
	type remainder struct {
		use  int
		part uint64 // of a second, in parts of want
	}
	var rest []remainder
	for i, u := range uses {
		// capacity × seconds ÷ want: GPUs are on both sides of the proportion.
		q, rem, err := product(capacity, u.seconds()).quoRem(uint64(want))
		if err != nil {
			return out // cannot be: it is less than the seconds
		}
		out[i] = q
		left -= q * u.run.GPUs
		rest = append(rest, remainder{i, rem})
	}
	slices.SortStableFunc(rest, func(a, b remainder) int { return cmp.Compare(b.part, a.part) })
	for _, r := range rest {
		if u := uses[r.use]; r.part > 0 && left >= u.run.GPUs {
			out[r.use]++
			left -= u.run.GPUs
		}
	}
	return out
}

// Curve is what a host takes off for reservations: by term, and more for what is
// paid at once.
type Curve struct {
	Terms              []TermDiscount `json:"terms"`
	PartialBasisPoints int64          `json:"partial_upfront_basis_points"` // beside the term's
	AllBasisPoints     int64          `json:"all_upfront_basis_points"`     // likewise
}

// Bounds is what an operator lets hosts offer.
type Bounds struct {
	MaxMonths      int   `json:"max_months"`
	MaxBasisPoints int64 `json:"max_basis_points"` // of all discounts together
}

// Check reports the first thing that is wrong with c within b.
func (c Curve) Check(b Bounds) error {
	if err := checkTerms(c.Terms); err != nil {
		return err
	}
	if c.PartialBasisPoints < 0 || c.AllBasisPoints < c.PartialBasisPoints {
		return fmt.Errorf("upfront discounts of %d and %d basis points: want at least 0, and no less for all than for a part", c.PartialBasisPoints, c.AllBasisPoints)
	}
	var longest TermDiscount
	if n := len(c.Terms); n > 0 {
		longest = c.Terms[n-1]
	}
	if longest.Months > b.MaxMonths {
		return fmt.Errorf("a term of %d months: the operator's bound is %d", longest.Months, b.MaxMonths)
	}
	if most := longest.BasisPoints + c.AllBasisPoints; most > b.MaxBasisPoints || most > basisPoints {
		return fmt.Errorf("discounts add up to %d basis points: the operator's bound is %d", most, min(b.MaxBasisPoints, basisPoints))
	}
	return nil
}

// Discount returns what a term paid for in some way takes off, in basis points. A
// custom term has the discount of the longest listed one that is not longer.
func (c Curve) Discount(months int, payment Upfront) int64 {
	bp := discountFor(c.Terms, months)
	switch payment {
	case PartialUpfront:
		bp += c.PartialBasisPoints
	case AllUpfront:
		bp += c.AllBasisPoints
	}
	return bp
}

// Purchase is what a reservation is asked for.
type Purchase struct {
	ID         string
	GPUModel   string
	Zone       string
	GPUs       int64
	Currency   money.Currency
	ListHourly money.Rate // on demand, for each GPU
	From       time.Time
	TimeZone   string    // the account's, whose calendar the months are counted by
	Months     int       // or
	Until      time.Time // a custom end
	Payment    Upfront
	Commission int64 // basis points
}

// Priced is a reservation with what it comes to.
type Priced struct {
	Reservation Reservation  `json:"reservation"`
	Hours       int64        `json:"hours"`
	List        money.Amount `json:"list"`                    // all hours on demand
	Total       money.Amount `json:"total"`                   // upfront and all hours
	Saving      money.Amount `json:"saving"`                  // list − total
	BreakEven   int64        `json:"break_even_basis_points"` // the use from which it is cheaper than on demand
}

// Reserve prices a reservation by a host's curve within the operator's bounds.
func Reserve(p Purchase, c Curve, b Bounds) (Priced, error) {
	var out Priced
	if err := c.Check(b); err != nil {
		return out, fmt.Errorf("reserve: %w", err)
	}
	months := p.Months
	until := p.Until
	if months > 0 {
		end, err := Boundary(p.From, p.TimeZone, months)
		if err != nil {
			return out, fmt.Errorf("reserve: %w", err)
		}
		until = end
	} else if p.From.Before(until) {
		in, err := PeriodAt(p.From, p.TimeZone, 1, until)
		if err != nil {
			return out, fmt.Errorf("reserve: %w", err)
		}
		months = in.Number // whole ones
	}
	if months < 0 || months > b.MaxMonths {
		return out, fmt.Errorf("reserve: %d months: the operator's bound is %d", months, b.MaxMonths)
	}
	if p.ListHourly < 0 {
		return out, fmt.Errorf("reserve: a price of %s an hour: want at least 0", p.ListHourly)
	}
	r := Reservation{
		ID: p.ID, GPUModel: p.GPUModel, Zone: p.Zone, GPUs: p.GPUs, From: p.From.UTC().Truncate(time.Microsecond), Until: until.UTC(),
		Currency: p.Currency, Payment: p.Payment, Months: p.Months, ListHourly: p.ListHourly,
		Discount: c.Discount(months, p.Payment), Commission: p.Commission,
	}
	if err := r.Check(); err != nil {
		return out, fmt.Errorf("reserve: %w", err)
	}
	out.Hours = r.Hours()
	seconds := out.Hours * secondsPerHour
	whole, err := r.price()
	if err != nil {
		return out, fmt.Errorf("reserve: %w", err)
	}
	out.Reservation, out.Total = r, whole
	list := r
	list.Hourly = p.ListHourly
	if out.List, err = list.hourly(seconds); err != nil {
		return out, fmt.Errorf("reserve: %w", err)
	}
	out.Saving = out.List - out.Total
	out.BreakEven = basisPoints - r.Discount
	return out, nil
}

// price sets what is paid upfront and by the hour by the price on demand, what is
// taken off it, and the way of paying; whole is both together.
func (r *Reservation) price() (whole money.Amount, err error) {
	hourly, err := product(int64(r.ListHourly), basisPoints-r.Discount).over(basisPoints)
	if err != nil {
		return 0, err
	}
	seconds := r.Hours() * secondsPerHour
	r.Hourly, r.UpfrontDue = money.Rate(hourly), 0
	if whole, err = r.hourly(seconds); err != nil {
		return 0, err
	}
	switch r.Payment {
	case AllUpfront:
		r.Hourly, r.UpfrontDue = 0, whole
	case PartialUpfront:
		// The upfront part is what the rounded hourly price leaves of the whole, so
		// the two are the whole exactly.
		r.Hourly /= basisPoints / partialUpfront
		later, err := r.hourly(seconds)
		if err != nil {
			return 0, err
		}
		r.UpfrontDue = whole - later
	}
	return whole, nil
}

// ReserveExchanged is Reserve for an account that pays in another currency than the
// host: the price on demand is converted once, by a rate, and all that the account
// pays follows from that by the same rules. What the provider is paid by is in Listed.
func ReserveExchanged(p Purchase, c Curve, b Bounds, rate ExchangeRate) (Priced, error) {
	listed, err := Reserve(p, c, b)
	if err != nil {
		return listed, err
	}
	if _, err := rate.Convert(0, p.Currency, rate.To); err != nil {
		return listed, fmt.Errorf("reserve: %w", err)
	}
	p.Currency = rate.To
	if p.ListHourly, err = rate.rate(p.ListHourly); err != nil {
		return listed, fmt.Errorf("reserve: %w", err)
	}
	out, err := Reserve(p, c, b)
	out.Reservation.Listed = &listed.Reservation
	return out, err
}

// CheckListed reports whether r and what is listed of it are the same reservation, r
// priced by what e's rate makes of the listed price.
func (r Reservation) CheckListed(e Exchanged) error {
	if r.Listed == nil {
		return fmt.Errorf("the reservation is in %s and has no terms in %s", r.Currency, e.From)
	}
	l := *r.Listed
	if r.Currency != e.To || l.Currency != e.From {
		return fmt.Errorf("the reservation is in %s and listed in %s, and exchanged from %s to %s", r.Currency, l.Currency, e.From, e.To)
	}
	price, err := e.Price(l.ListHourly)
	if err != nil {
		return err
	}
	for _, x := range []Reservation{r, l} {
		want := x
		if _, err := want.price(); err != nil {
			return err
		}
		if want.Hourly != x.Hourly || want.UpfrontDue != x.UpfrontDue {
			return fmt.Errorf("the reservation costs %s upfront and %s an hour in %s, and by its list price %s and %s", x.UpfrontDue, x.Hourly, x.Currency, want.UpfrontDue, want.Hourly)
		}
	}
	if r.ListHourly != price || r.GPUModel != l.GPUModel || r.GPUs != l.GPUs || !r.From.Equal(l.From) || !r.Until.Equal(l.Until) || r.Payment != l.Payment || r.Discount != l.Discount || r.Commission != l.Commission {
		return fmt.Errorf("the reservation is not what is listed at the rate of %s", e.Rate)
	}
	return nil
}
