package pricing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/money"
)

// Request is what a renter wants a price for.
type Request struct {
	Plan        string `json:"plan"`         // one of Plans
	DiskGiB     int64  `json:"disk_gib"`     // allocated for the whole of the lease
	TimeZone    string `json:"time_zone"`    // IANA name of the account's zone; empty: UTC
	EgressBytes int64  `json:"egress_bytes"` // the renter's estimate for the run
	RunSeconds  int64  `json:"run_seconds"`  // how long the renter means to run; 0: one hour
	Simulated   bool   `json:"simulated"`    // the GPUs are simulated

	IngressBytes int64 `json:"ingress_bytes,omitempty"` // the renter's estimate for the run
	PublicIPs    int64 `json:"public_ips,omitempty"`
	SnapshotGiB  int64 `json:"snapshot_gib,omitempty"` // kept for the whole of the lease
	VolumeGiB    int64 `json:"volume_gib,omitempty"`   // of idle volumes, likewise

	// Bid is the most that spot use may cost, for the bundle and hour. The
	// tariff's compute price is what the market clears at when it is quoted.
	Bid     money.Rate `json:"bid_per_hour,omitempty"`
	Prepaid *Prepaid   `json:"prepaid,omitempty"` // of the monthly plan
}

// Quote is a frozen price. Everything that an amount due depends on is in it, so
// that a lease can be rated from its quote alone, whatever tariffs say later.
type Quote struct {
	Version     int            `json:"version"` // of the rules that rate it; 1 or 2
	Plan        string         `json:"plan"`
	QuotedAt    time.Time      `json:"quoted_at"`
	Currency    money.Currency `json:"currency"`
	TimeZone    string         `json:"time_zone"`
	Tariff      Tariff         `json:"tariff"`
	DiskGiB     int64          `json:"disk_gib"`
	EgressBytes int64          `json:"egress_bytes"` // estimate
	RunSeconds  int64          `json:"run_seconds"`
	Simulated   bool           `json:"simulated"`

	// What version 1 does not have.
	IngressBytes        int64         `json:"ingress_bytes,omitempty"` // estimate
	PublicIPs           int64         `json:"public_ips,omitempty"`
	SnapshotGiB         int64         `json:"snapshot_gib,omitempty"`
	VolumeGiB           int64         `json:"volume_gib,omitempty"`
	Bid                 money.Rate    `json:"bid_per_hour,omitempty"` // of spot: the most that it costs
	EvictionFreeSeconds int64         `json:"eviction_free_seconds,omitempty"`
	Prepaid             *Prepaid      `json:"prepaid,omitempty"`
	PriceChanges        []PriceChange `json:"price_changes,omitempty"` // agreed by the renter since, in order

	// Where the account has other prices than the provider listed.
	Listed    *Tariff      `json:"listed,omitempty"`     // in Currency, before the account's own prices
	PriceList *AppliedList `json:"price_list,omitempty"` // what made Tariff of Listed
	Exchange  *Exchanged   `json:"exchange,omitempty"`   // how the prices came to be in Currency

	Lines       []Line       `json:"lines"`
	Totals      Totals       `json:"totals"`
	States      []StatePrice `json:"states"`
	NotIncluded []string     `json:"not_included"` // codes, see NotIncludedEgress and on
}

// What a quote's totals leave out.
const (
	NotIncludedEgress = "egress_beyond_estimate" // charged by the byte at the line's rate
	NotIncludedTax    = "tax"

	NotIncludedIngress = "ingress_beyond_estimate" // charged by the byte at the line's rate
	NotIncludedMarket  = "market_price_changes"    // up to the bid
	NotIncludedRenewal = "renewal"                 // the term's price again when it renews
	NotIncludedBeyond  = "use_beyond_grant"        // charged as on demand
	NotIncludedIdle    = "unused_hours"            // a reservation is paid for whether it is used or not
)

// EvictionFreeSeconds is how long spot use must last to be charged when the
// platform ends it.
const EvictionFreeSeconds = 60

// Line is one meter of a quote. PerMonth is for the calendar month in which the
// quote was made.
type Line struct {
	Meter        Meter        `json:"meter"`
	Rate         money.Rate   `json:"rate"`
	Unit         string       `json:"unit"`          // what Rate is for: "hour", "GiB-month", "GB"
	QuantityText string       `json:"quantity_text"` // for people: "100 GiB"
	PerHour      money.Amount `json:"per_hour"`
	PerDay       money.Amount `json:"per_day"`
	PerMonth     money.Amount `json:"per_month"`
	ForRun       money.Amount `json:"for_run"` // for RunSeconds, as it would be charged
}

// Totals sums a quote's lines.
type Totals struct {
	PerHour  money.Amount `json:"per_hour"` // all-in while running, without egress
	PerDay   money.Amount `json:"per_day"`
	PerMonth money.Amount `json:"per_month"`
	ForRun   money.Amount `json:"for_run"`
}

// StatePrice says what an hour costs in one state of a lease, since "stopped
// still costs storage" is what renters are most often surprised by.
type StatePrice struct {
	State   string       `json:"state"`
	PerHour money.Amount `json:"per_hour"`
}

// NewQuote prices r under t at a moment. It is deterministic: the same arguments
// give the same quote, byte for byte in JSON.
func NewQuote(t Tariff, r Request, at time.Time) (Quote, error) {
	if err := t.Check(); err != nil {
		return Quote{}, fmt.Errorf("quote: %w", err)
	}
	if r.TimeZone == "" {
		r.TimeZone = "UTC"
	}
	if r.RunSeconds == 0 {
		r.RunSeconds = secondsPerHour
	}
	if !slices.Contains(Plans[:], r.Plan) {
		return Quote{}, fmt.Errorf("quote: plan %q: want one of %s", r.Plan, strings.Join(Plans[:], ", "))
	}
	switch {
	case r.DiskGiB < 0 || r.DiskGiB > maxDiskGiB:
		return Quote{}, fmt.Errorf("quote: disk of %d GiB: want 0 to %d", r.DiskGiB, maxDiskGiB)
	case r.EgressBytes < 0 || r.EgressBytes > maxEgress:
		return Quote{}, fmt.Errorf("quote: egress estimate of %d bytes: want 0 to %d", r.EgressBytes, int64(maxEgress))
	case r.RunSeconds < 0 || r.RunSeconds > maxRunSeconds:
		return Quote{}, fmt.Errorf("quote: run of %d seconds: want 0 to %d", r.RunSeconds, maxRunSeconds)
	}
	zone, err := location(r.TimeZone)
	if err != nil {
		return Quote{}, fmt.Errorf("quote: %w", err)
	}
	if r.Plan != OnDemand || t.beyondVersion1() || r.IngressBytes != 0 || r.PublicIPs != 0 || r.SnapshotGiB != 0 || r.VolumeGiB != 0 {
		return newQuote2(t, r, zone, at)
	}
	at = at.UTC().Truncate(time.Microsecond)
	q := Quote{
		Version: 1, Plan: r.Plan, QuotedAt: at, Currency: t.Currency, TimeZone: r.TimeZone, Tariff: t,
		DiskGiB: r.DiskGiB, EgressBytes: r.EgressBytes, RunSeconds: r.RunSeconds, Simulated: r.Simulated,
		NotIncluded: []string{NotIncludedTax},
	}
	if t.Egress > 0 {
		q.NotIncluded = []string{NotIncludedEgress, NotIncludedTax}
	}
	run := Interval{Start: at, End: at.Add(time.Duration(r.RunSeconds) * time.Second)}
	forRun, err := Due(q, Usage{Compute: []Interval{run}, Storage: []Interval{run}, EgressBytes: r.EgressBytes})
	if err != nil {
		return Quote{}, fmt.Errorf("quote: %w", err)
	}
	monthSeconds := monthOf(at, zone).seconds()
	compute := Line{Meter: Compute, Rate: t.Compute, Unit: "hour", QuantityText: fmt.Sprintf("%d s", r.RunSeconds), ForRun: forRun[Compute]}
	storage := Line{Meter: Storage, Rate: t.Storage, Unit: "GiB-month", QuantityText: fmt.Sprintf("%d GiB", r.DiskGiB), ForRun: forRun[Storage]}
	egress := Line{Meter: Egress, Rate: t.Egress, Unit: "GB", QuantityText: fmt.Sprintf("%d bytes", r.EgressBytes), ForRun: forRun[Egress]}
	for _, p := range []struct {
		seconds          int64
		compute, storage *money.Amount
	}{
		{secondsPerHour, &compute.PerHour, &storage.PerHour},
		{secondsPerDay, &compute.PerDay, &storage.PerDay},
		{monthSeconds, &compute.PerMonth, &storage.PerMonth},
	} {
		if *p.compute, err = t.Compute.Times(p.seconds, secondsPerHour); err != nil {
			return Quote{}, fmt.Errorf("quote: compute: %w", err)
		}
		if *p.storage, err = t.Storage.Times(r.DiskGiB*p.seconds, monthSeconds); err != nil {
			return Quote{}, fmt.Errorf("quote: storage: %w", err)
		}
	}
	q.Lines = []Line{compute, storage, egress}
	if err := q.addUp(); err != nil {
		return Quote{}, err
	}
	q.States = []StatePrice{
		{"provisioning", 0},
		{"running", q.Totals.PerHour},
		{"stopped", storage.PerHour},
		{"unreachable", storage.PerHour},
		{"ended", 0},
	}
	return q, nil
}

// addUp sums the lines into the totals.
func (q *Quote) addUp() (err error) {
	for _, l := range q.Lines {
		for _, s := range []struct {
			sum  *money.Amount
			part money.Amount
		}{
			{&q.Totals.PerHour, l.PerHour}, {&q.Totals.PerDay, l.PerDay},
			{&q.Totals.PerMonth, l.PerMonth}, {&q.Totals.ForRun, l.ForRun},
		} {
			if *s.sum, err = s.sum.Add(s.part); err != nil {
				return fmt.Errorf("quote: total: %w", err)
			}
		}
	}
	return nil
}

// newQuote2 quotes what version 1 cannot: other plans and further meters. It has
// a line for each meter that is priced or asked for.
func newQuote2(t Tariff, r Request, zone *time.Location, at time.Time) (Quote, error) {
	switch {
	case r.IngressBytes < 0 || r.IngressBytes > maxEgress:
		return Quote{}, fmt.Errorf("quote: ingress estimate of %d bytes: want 0 to %d", r.IngressBytes, int64(maxEgress))
	case r.PublicIPs < 0 || r.PublicIPs > maxAddresses:
		return Quote{}, fmt.Errorf("quote: %d public addresses: want 0 to %d", r.PublicIPs, maxAddresses)
	case r.SnapshotGiB < 0 || r.SnapshotGiB > maxDiskGiB:
		return Quote{}, fmt.Errorf("quote: snapshots of %d GiB: want 0 to %d", r.SnapshotGiB, maxDiskGiB)
	case r.VolumeGiB < 0 || r.VolumeGiB > maxDiskGiB:
		return Quote{}, fmt.Errorf("quote: volumes of %d GiB: want 0 to %d", r.VolumeGiB, maxDiskGiB)
	case r.Bid < 0:
		return Quote{}, fmt.Errorf("quote: a bid of %s: want at least 0", r.Bid)
	case r.Plan == Spot && t.MinimumSeconds != 0:
		return Quote{}, fmt.Errorf("quote: spot use has no minimum charge, the tariff has one of %d seconds", t.MinimumSeconds)
	case r.Plan == Monthly && r.Prepaid == nil:
		return Quote{}, fmt.Errorf("quote: plan %s: want the terms of the months", Monthly)
	case r.Plan != Monthly && r.Prepaid != nil:
		return Quote{}, fmt.Errorf("quote: plan %s has no months in advance", r.Plan)
	}
	at = at.UTC().Truncate(time.Microsecond)
	q := Quote{
		Version: 2, Plan: r.Plan, QuotedAt: at, Currency: t.Currency, TimeZone: r.TimeZone, Tariff: t,
		DiskGiB: r.DiskGiB, EgressBytes: r.EgressBytes, RunSeconds: r.RunSeconds, Simulated: r.Simulated,
		IngressBytes: r.IngressBytes, PublicIPs: r.PublicIPs, SnapshotGiB: r.SnapshotGiB, VolumeGiB: r.VolumeGiB,
		Bid: r.Bid,
	}
	if r.Plan == Spot {
		q.EvictionFreeSeconds = EvictionFreeSeconds
	}
	run := Interval{Start: at, End: at.Add(time.Duration(r.RunSeconds) * time.Second)}
	usage := Usage{
		Compute: []Interval{run}, Storage: []Interval{run}, EgressBytes: r.EgressBytes, IngressBytes: r.IngressBytes,
		PublicIPs: []Kept{{"", r.PublicIPs, run}}, Snapshots: []Kept{{"", r.SnapshotGiB, run}}, Volumes: []Kept{{"", r.VolumeGiB, run}},
	}
	if r.Plan == Spot {
		usage.Compute[0].Rate = t.Compute
	}
	forRun, err := Due(q, usage)
	if err != nil {
		return Quote{}, fmt.Errorf("quote: %w", err)
	}
	length := monthOf(at, zone).seconds()
	for _, m := range []struct {
		meter    Meter
		quantity int64
		unit     string
		text     string
		hourly   bool // or by the month; else by the byte, without a price of time
		asked    bool
	}{
		{Compute, 1, "hour", fmt.Sprintf("%d s", r.RunSeconds), true, true},
		{Storage, r.DiskGiB, "GiB-month", fmt.Sprintf("%d GiB", r.DiskGiB), false, true},
		{Egress, 0, "GB", fmt.Sprintf("%d bytes", r.EgressBytes), false, true},
		{Ingress, 0, "GB", fmt.Sprintf("%d bytes", r.IngressBytes), false, r.IngressBytes > 0},
		{PublicIP, r.PublicIPs, "hour", fmt.Sprintf("%d addresses", r.PublicIPs), true, r.PublicIPs > 0},
		{Snapshot, r.SnapshotGiB, "GiB-month", fmt.Sprintf("%d GiB", r.SnapshotGiB), false, r.SnapshotGiB > 0},
		{Volume, r.VolumeGiB, "GiB-month", fmt.Sprintf("%d GiB", r.VolumeGiB), false, r.VolumeGiB > 0},
	} {
		rate := t.Rate(m.meter)
		if !m.asked && rate == 0 {
			continue
		}
		l := Line{Meter: m.meter, Rate: rate, Unit: m.unit, QuantityText: m.text, ForRun: forRun[m.meter]}
		per := length
		if m.hourly {
			per = secondsPerHour
		}
		for _, p := range []struct {
			seconds int64
			amount  *money.Amount
		}{{secondsPerHour, &l.PerHour}, {secondsPerDay, &l.PerDay}, {length, &l.PerMonth}} {
			if *p.amount, err = rate.Times(m.quantity*p.seconds, per); err != nil {
				return Quote{}, fmt.Errorf("quote: %s: %w", m.meter, err)
			}
		}
		q.Lines = append(q.Lines, l)
	}
	if r.Plan == Monthly {
		if err := q.prepay(*r.Prepaid, run, length); err != nil {
			return Quote{}, fmt.Errorf("quote: %w", err)
		}
	}
	if err := q.addUp(); err != nil {
		return Quote{}, err
	}
	q.NotIncluded = notIncluded(q)
	kept := q.Totals.PerHour - q.Lines[0].PerHour
	q.States = []StatePrice{
		{"provisioning", 0},
		{"running", q.Totals.PerHour},
		{"stopped", kept},
		{"unreachable", kept},
		{"interrupted", kept},
		{"ended", 0},
	}
	if r.Plan == Monthly { // what is paid in advance does not depend on the state
		for i := range q.States {
			q.States[i].PerHour = kept
		}
		q.States[0].PerHour, q.States[len(q.States)-1].PerHour = 0, 0
	}
	return q, nil
}

// prepay puts the price of months in advance into the line of compute.
func (q *Quote) prepay(p Prepaid, run Interval, length int64) error {
	q.Prepaid = &p
	renewing := p
	renewing.Renews = true // what the run costs if it is to go on
	terms, err := renewing.Payments(run.End.Add(-time.Microsecond))
	if err != nil {
		return err
	}
	l := &q.Lines[0]
	l.Unit, l.Rate, l.ForRun = "month", 0, 0
	l.QuantityText = fmt.Sprintf("%d months", p.TermMonths*len(terms))
	for _, t := range terms {
		if l.ForRun, err = l.ForRun.Add(t.Amount); err != nil {
			return err
		}
	}
	if l.PerMonth, err = part(p.PerMonth, basisPoints-p.BasisPoints, basisPoints); err != nil {
		return err
	}
	if l.PerDay, err = part(l.PerMonth, secondsPerDay, length); err != nil {
		return err
	}
	l.PerHour, err = part(l.PerMonth, secondsPerHour, length)
	return err
}

// notIncluded lists what a quote's totals leave out, in a fixed order.
func notIncluded(q Quote) []string {
	var out []string
	if q.Tariff.Egress > 0 {
		out = append(out, NotIncludedEgress)
	}
	if q.Tariff.Ingress > 0 {
		out = append(out, NotIncludedIngress)
	}
	switch q.Plan {
	case Spot:
		out = append(out, NotIncludedMarket)
	case Monthly:
		out = append(out, NotIncludedRenewal)
	case Reserved:
		out = append(out, NotIncludedIdle)
	case Trial:
		out = append(out, NotIncludedBeyond)
	}
	return append(out, NotIncludedTax)
}

// SecondsOfMonth returns the length of the month of an IANA time zone that
// contains a moment, by which a quote of that moment turns a month's price into an
// hour's. It fails if there is no such zone.
func SecondsOfMonth(timeZone string, at time.Time) (int64, error) {
	zone, err := location(timeZone)
	if err != nil {
		return 0, err
	}
	return monthOf(at, zone).seconds(), nil
}

// StoragePerHour returns what an hour of q's disk costs in the month of a moment.
func StoragePerHour(q Quote, at time.Time) (money.Amount, error) {
	zone, err := location(q.TimeZone)
	if err != nil {
		return 0, fmt.Errorf("storage per hour: %w", err)
	}
	return q.Tariff.Storage.Times(q.DiskGiB*secondsPerHour, monthOf(at, zone).seconds())
}

// Hold returns what must be set aside before a lease begins: one hour, or the
// minimum charge if that is longer, at the all-in rate. Spot use is held for at
// its bid, since the market may go up to it; months in advance are paid at once
// and need a hold for the rest only.
func (q Quote) Hold() (money.Amount, error) {
	unit := q.Tariff.Granularity.Seconds()
	if unit == 0 {
		return 0, fmt.Errorf("hold: granularity %q: want second, minute or hour", q.Tariff.Granularity)
	}
	seconds := max(secondsPerHour, roundUp(q.Tariff.MinimumSeconds, unit))
	rate := max(q.Tariff.Compute, q.Bid)
	if q.Plan == Monthly {
		rate = 0
	}
	compute, err := rate.Times(seconds, secondsPerHour)
	if err != nil {
		return 0, fmt.Errorf("hold: %w", err)
	}
	kept, err := q.keptFor(seconds, q.QuotedAt)
	if err != nil {
		return 0, fmt.Errorf("hold: %w", err)
	}
	return compute.Add(kept)
}

// KeptPerHour returns what an hour of all that costs without running comes to in
// the month of a moment: the disk, addresses, snapshots and idle volumes.
func (q Quote) KeptPerHour(at time.Time) (money.Amount, error) {
	kept, err := q.keptFor(secondsPerHour, at)
	if err != nil {
		return 0, fmt.Errorf("kept per hour: %w", err)
	}
	return kept, nil
}

// keptFor is what so many seconds of all that costs without running come to.
func (q Quote) keptFor(seconds int64, at time.Time) (money.Amount, error) {
	zone, err := location(q.TimeZone)
	if err != nil {
		return 0, err
	}
	month := monthOf(at, zone).seconds()
	var kept []money.Amount
	for _, m := range []struct {
		rate       money.Rate
		units, per int64
	}{
		{q.Tariff.Storage, q.DiskGiB, month},
		{q.Tariff.PublicIP, q.PublicIPs, secondsPerHour},
		{q.Tariff.Snapshot, q.SnapshotGiB, month},
		{q.Tariff.Volume, q.VolumeGiB, month},
	} {
		a, err := m.rate.Times(m.units*seconds, m.per)
		if err != nil {
			return 0, err
		}
		kept = append(kept, a)
	}
	return sumOf(kept...)
}

func location(name string) (*time.Location, error) {
	// "Local" would make amounts depend on the machine that computes them.
	if name == "Local" {
		return nil, fmt.Errorf("time zone %q: want an IANA name such as Asia/Shanghai", name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q: want an IANA name such as Asia/Shanghai", name)
	}
	return zone, nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }
