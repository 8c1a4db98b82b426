package pricing

import (
	"fmt"
	"time"
	_ "time/tzdata" // months are cut in the account's zone; the binary must not depend on the machine's zone files

	"suanli.dev/internal/money"
)

// The plans: how a lease is paid.
const (
	OnDemand = "on_demand" // by use; ends whenever the renter says so
	Spot     = "spot"      // by use, at the market's price, while the bid holds
	Reserved = "reserved"  // a reservation's seconds first, then by use
	Monthly  = "monthly"   // months in advance
	Trial    = "trial"     // by use, from an operator's grant
)

// Plans lists all plans in the order in which they are shown.
var Plans = [...]string{OnDemand, Spot, Reserved, Monthly, Trial}

// Meter is a kind of usage that has a price.
type Meter string

// The meters.
const (
	Compute Meter = "compute" // seconds of a running instance
	Storage Meter = "storage" // GiB-seconds of allocated disk, running or stopped
	Egress  Meter = "egress"  // bytes sent by the instance

	// Those that quotes of version 2 have too.
	Ingress  Meter = "ingress"   // bytes received by the instance
	PublicIP Meter = "public_ip" // seconds of an address of one's own
	Snapshot Meter = "snapshot"  // GiB-seconds of kept snapshots
	Volume   Meter = "volume"    // GiB-seconds of volumes that no instance has
)

// Meters lists all meters in the order in which they are shown.
var Meters = [...]Meter{Compute, Storage, Egress, Ingress, PublicIP, Snapshot, Volume}

// Granularity is the unit that a session's compute time is counted in.
type Granularity string

// The granularities. Second drops a started second, the others charge it.
const (
	Second Granularity = "second"
	Minute Granularity = "minute"
	Hour   Granularity = "hour"
)

// Seconds returns the length of the unit, or 0 if g is not a granularity.
func (g Granularity) Seconds() int64 {
	switch g {
	case Second:
		return 1
	case Minute:
		return 60
	case Hour:
		return secondsPerHour
	}
	return 0
}

const (
	secondsPerHour = 3600
	secondsPerDay  = 86_400
	bytesPerGB     = 1_000_000_000
)

// Bounds of what can be priced; within them no product overflows unnoticed and
// every one that does not fit is refused.
const (
	maxDiskGiB    = 1 << 20 // 1 PiB
	maxRunSeconds = 10 * 366 * secondsPerDay
	maxEgress     = 1_000_000_000_000_000_000
	maxMinimum    = 31 * secondsPerDay
	maxAddresses  = 1 << 16
)

// Tariff is the price of one bundle. Rates are for the bundle as a whole, never
// per GPU, so that no reader has to know whether to multiply. A rate of zero is
// free. The rates that version 1 did not know are left out of JSON when they are
// zero, so a quote of version 1 keeps its bytes.
type Tariff struct {
	Currency              money.Currency `json:"currency"`
	Compute               money.Rate     `json:"compute_per_hour"`      // the whole bundle, per hour
	Storage               money.Rate     `json:"storage_per_gib_month"` // per GiB and calendar month
	Egress                money.Rate     `json:"egress_per_gb"`         // per 10⁹ bytes
	Granularity           Granularity    `json:"granularity"`
	MinimumSeconds        int64          `json:"minimum_seconds"`         // charged at each start
	CommissionBasisPoints int64          `json:"commission_basis_points"` // the platform's part of the charge, in 1/100 %

	Ingress  money.Rate `json:"ingress_per_gb,omitempty"`         // per 10⁹ bytes
	PublicIP money.Rate `json:"public_ip_per_hour,omitempty"`     // per address and hour
	Snapshot money.Rate `json:"snapshot_per_gib_month,omitempty"` // per GiB and calendar month
	Volume   money.Rate `json:"volume_per_gib_month,omitempty"`   // per GiB and calendar month, while no instance has it
}

// Rate returns the rate of a meter, and zero of what is not a meter.
func (t Tariff) Rate(m Meter) money.Rate {
	switch m {
	case Compute:
		return t.Compute
	case Storage:
		return t.Storage
	case Egress:
		return t.Egress
	case Ingress:
		return t.Ingress
	case PublicIP:
		return t.PublicIP
	case Snapshot:
		return t.Snapshot
	case Volume:
		return t.Volume
	}
	return 0
}

// setRate changes the rate of a meter.
func (t *Tariff) setRate(m Meter, r money.Rate) {
	switch m {
	case Compute:
		t.Compute = r
	case Storage:
		t.Storage = r
	case Egress:
		t.Egress = r
	case Ingress:
		t.Ingress = r
	case PublicIP:
		t.PublicIP = r
	case Snapshot:
		t.Snapshot = r
	case Volume:
		t.Volume = r
	}
}

// beyondVersion1 reports whether t prices what version 1 did not know.
func (t Tariff) beyondVersion1() bool {
	return t.Ingress != 0 || t.PublicIP != 0 || t.Snapshot != 0 || t.Volume != 0
}

// Check reports the first thing that is wrong with t.
func (t Tariff) Check() error {
	switch {
	case !t.Currency.Valid():
		return fmt.Errorf("currency %q: want USD or CNY", t.Currency)
	case t.Compute < 0:
		return fmt.Errorf("compute price %s: want at least 0", t.Compute)
	case t.Storage < 0:
		return fmt.Errorf("storage price %s: want at least 0", t.Storage)
	case t.Egress < 0:
		return fmt.Errorf("egress price %s: want at least 0", t.Egress)
	case t.Ingress < 0:
		return fmt.Errorf("ingress price %s: want at least 0", t.Ingress)
	case t.PublicIP < 0:
		return fmt.Errorf("public address price %s: want at least 0", t.PublicIP)
	case t.Snapshot < 0:
		return fmt.Errorf("snapshot price %s: want at least 0", t.Snapshot)
	case t.Volume < 0:
		return fmt.Errorf("volume price %s: want at least 0", t.Volume)
	case t.Granularity.Seconds() == 0:
		return fmt.Errorf("granularity %q: want second, minute or hour", t.Granularity)
	case t.MinimumSeconds < 0 || t.MinimumSeconds > maxMinimum:
		return fmt.Errorf("minimum of %d seconds: want 0 to %d", t.MinimumSeconds, maxMinimum)
	case t.CommissionBasisPoints < 0 || t.CommissionBasisPoints > 10_000:
		return fmt.Errorf("commission of %d basis points: want 0 to 10000", t.CommissionBasisPoints)
	}
	return nil
}

// month is one calendar month in a time zone, as instants.
type month struct {
	start, end time.Time // half open
}

// seconds is the month's real length: 2,674,800 in a March of New York.
func (m month) seconds() int64 { return int64(m.end.Sub(m.start) / time.Second) }

// monthOf returns the month of zone that contains t.
func monthOf(t time.Time, zone *time.Location) month {
	local := t.In(zone)
	m := month{monthStart(local.Year(), local.Month(), zone), monthStart(local.Year(), local.Month()+1, zone)}
	// Where clocks go back over midnight of the first, local dates are not in
	// order; the boundary is one instant all the same.
	if t.Before(m.start) {
		m = month{monthStart(local.Year(), local.Month()-1, zone), m.start}
	} else if !t.Before(m.end) {
		m = month{m.end, monthStart(local.Year(), local.Month()+2, zone)}
	}
	return m
}

// monthStart returns the first instant of a month. Where clocks skip midnight of
// the first it is the instant of the change; where midnight comes twice, the
// first of the two.
func monthStart(year int, m time.Month, zone *time.Location) time.Time {
	t := time.Date(year, m, 1, 0, 0, 0, 0, zone)
	changed, changes := t.ZoneBounds()
	if t.Day() != 1 {
		return changes
	}
	if !changed.IsZero() {
		_, before := changed.Add(-time.Second).Zone()
		_, after := t.Zone()
		first := t.Add(-time.Duration(before-after) * time.Second)
		if first.Before(changed) && first.Day() == 1 && first.Hour() == 0 && first.Minute() == 0 {
			return first
		}
	}
	return t
}
