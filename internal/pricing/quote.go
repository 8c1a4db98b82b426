package pricing

import (
	"fmt"
	"time"

	"suanli.dev/internal/money"
)

// Request is what a renter wants a price for.
type Request struct {
	Plan        string `json:"plan"`         // OnDemand
	DiskGiB     int64  `json:"disk_gib"`     // allocated for the whole of the lease
	TimeZone    string `json:"time_zone"`    // IANA name of the account's zone; empty: UTC
	EgressBytes int64  `json:"egress_bytes"` // the renter's estimate for the run
	RunSeconds  int64  `json:"run_seconds"`  // how long the renter means to run; 0: one hour
	Simulated   bool   `json:"simulated"`    // the GPUs are simulated
}

// Quote is a frozen price. Everything that an amount due depends on is in it, so
// that a lease can be rated from its quote alone, whatever tariffs say later.
type Quote struct {
	Version     int            `json:"version"` // of the rules that rate it; 1
	Plan        string         `json:"plan"`
	QuotedAt    time.Time      `json:"quoted_at"`
	Currency    money.Currency `json:"currency"`
	TimeZone    string         `json:"time_zone"`
	Tariff      Tariff         `json:"tariff"`
	DiskGiB     int64          `json:"disk_gib"`
	EgressBytes int64          `json:"egress_bytes"` // estimate
	RunSeconds  int64          `json:"run_seconds"`
	Simulated   bool           `json:"simulated"`

	Lines       []Line       `json:"lines"`
	Totals      Totals       `json:"totals"`
	States      []StatePrice `json:"states"`
	NotIncluded []string     `json:"not_included"` // codes, see NotIncludedEgress and on
}

// What a quote's totals leave out.
const (
	NotIncludedEgress = "egress_beyond_estimate" // charged by the byte at the line's rate
	NotIncludedTax    = "tax"
)

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
	switch {
	case r.Plan != OnDemand:
		return Quote{}, fmt.Errorf("quote: plan %q: want %s", r.Plan, OnDemand)
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
	for _, l := range q.Lines {
		for _, s := range []struct {
			sum  *money.Amount
			part money.Amount
		}{
			{&q.Totals.PerHour, l.PerHour}, {&q.Totals.PerDay, l.PerDay},
			{&q.Totals.PerMonth, l.PerMonth}, {&q.Totals.ForRun, l.ForRun},
		} {
			if *s.sum, err = s.sum.Add(s.part); err != nil {
				return Quote{}, fmt.Errorf("quote: total: %w", err)
			}
		}
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
// minimum charge if that is longer, at the all-in rate.
func (q Quote) Hold() (money.Amount, error) {
	unit := q.Tariff.Granularity.Seconds()
	if unit == 0 {
		return 0, fmt.Errorf("hold: granularity %q: want second, minute or hour", q.Tariff.Granularity)
	}
	seconds := max(secondsPerHour, roundUp(q.Tariff.MinimumSeconds, unit))
	compute, err := q.Tariff.Compute.Times(seconds, secondsPerHour)
	if err != nil {
		return 0, fmt.Errorf("hold: %w", err)
	}
	zone, err := location(q.TimeZone)
	if err != nil {
		return 0, fmt.Errorf("hold: %w", err)
	}
	storage, err := q.Tariff.Storage.Times(q.DiskGiB*seconds, monthOf(q.QuotedAt, zone).seconds())
	if err != nil {
		return 0, fmt.Errorf("hold: %w", err)
	}
	return compute.Add(storage)
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
