package sla

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Report is a lease's availability in one calendar month, and what it gives back.
type Report struct {
	LeaseID, AccountID, ProviderID, HostID string
	Month                                  string // such as "2026-03"
	TimeZone                               string
	Currency                               money.Currency
	Simulated                              bool
	Availability                           pricing.Availability
	// Uncorroborated are outages that only a probe inside of the instance saw;
	// they do not count.
	Uncorroborated []pricing.Evidence
	Charge         money.Amount // of the lease in the month
	Share          money.Amount // its provider's part of it
	// What the provider was paid for Share in another currency; empty: nothing.
	Exchanged         money.Amount
	ExchangedCurrency money.Currency
	Granted           money.Amount // what grants paid of the charge; it gives nothing back
	Credit            money.Amount // by the promise; what is posted at closing
	Penalty           pricing.Penalty
	CloseAt           time.Time // when it is, or was to be, posted
	ClosedAt          time.Time // zero: not yet
}

// Month is what was posted for a lease's month.
type Month struct {
	LeaseID, Month string
	Currency       money.Currency
	Simulated      bool
	AvailabilityPM int64 // millionths
	DownSeconds    int64
	Credit         money.Amount
	ClosedAt       time.Time
}

// Report measures a lease of the caller's account in a month, such as "2026-03",
// by the lease's zone; without one, in the present month so far. An operator may ask
// for any lease.
func (s *Service) Report(ctx context.Context, p account.Principal, nameOrID, month string) (Report, error) {
	l, err := s.cfg.Leases.Resolve(ctx, p, nameOrID)
	if err != nil {
		return Report{}, err
	}
	at, err := moment(l, month, s.cfg.Clock())
	if err != nil {
		return Report{}, err
	}
	f, err := s.gather(ctx, l.ID, at)
	if err != nil {
		return Report{}, err
	}
	var r Report
	err = s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if r, err = s.measure(ctx, tx, f); err != nil {
			return err
		}
		posted, err := readMonth(ctx, tx, l.ID, r.Month, "")
		if posted != nil {
			r.ClosedAt = posted.closedAt
		}
		return err
	})
	return r, err
}

// moment is within the month that is asked for, by the lease's own zone.
func moment(l *lease.Lease, month string, now time.Time) (time.Time, error) {
	if month == "" {
		return now, nil
	}
	zone, err := time.LoadLocation(l.Price.TimeZone)
	if err != nil {
		return now, fmt.Errorf("zone of lease %s: %w", l.ID, err)
	}
	at, err := time.ParseInLocation("2006-01", month, zone)
	if err != nil {
		return now, fault.New(fault.Invalid, "bad_month", "the month %q: want one such as 2026-03", month).At("query.month")
	}
	return at.Add(12 * time.Hour), nil
}

// facts are what other services know of a lease and month. They are read before a
// transaction is begun, as they take connections of their own.
type facts struct {
	lease     *lease.Lease
	history   []lease.Change
	announced []fleet.Announcement
	at        time.Time // in the month
	month     pricing.Period
}

func (s *Service) gather(ctx context.Context, leaseID string, at time.Time) (f facts, err error) {
	f.at = at
	if f.lease, f.history, err = s.cfg.Leases.Record(ctx, leaseID); err != nil {
		return f, err
	}
	if f.month, err = pricing.MonthOf(at, f.lease.Price.TimeZone); err != nil {
		return f, err
	}
	f.announced, err = s.cfg.Hosts.Announced(ctx, f.lease.HostID, f.month.Start, f.month.End)
	return f, err
}

// measure computes what is to be given for a month, as far as is known now.
func (s *Service) measure(ctx context.Context, tx *store.Tx, f facts) (Report, error) {
	l, month, now := f.lease, f.month, s.cfg.Clock()
	confirmed, err := confirmations(ctx, tx, l.ID)
	if err != nil {
		return Report{}, err
	}
	promised, evidence, doubtful := s.evidence(f, confirmed, now)
	zone := l.Price.TimeZone
	r := Report{
		LeaseID: l.ID, AccountID: l.AccountID, ProviderID: l.ProviderID, HostID: l.HostID, TimeZone: zone,
		Currency: l.Price.Currency, Simulated: l.Simulated, CloseAt: month.End.Add(closeAfter),
	}
	if r.Availability, err = pricing.Measure(s.cfg.Promise, promised, evidence, f.at, zone); err != nil {
		return Report{}, fmt.Errorf("availability of lease %s: %w", l.ID, err)
	}
	for _, e := range doubtful {
		if e.Start.Before(month.End) && month.Start.Before(e.End) {
			r.Uncorroborated = append(r.Uncorroborated, e)
		}
	}
	r.Month = monthName(month, zone)
	if r.Charge, r.Share, r.Granted, err = s.cfg.Money.Charged(ctx, tx, l.ID, month.Start, month.End); err != nil {
		return Report{}, err
	}
	if r.Exchanged, r.ExchangedCurrency, err = s.cfg.Money.ChargedApart(ctx, tx, l.ID, month.Start, month.End); err != nil {
		return Report{}, err
	}
	// A month of corrections only has nothing to give back of.
	charge, share := max(0, r.Charge), max(0, r.Share)
	if r.Credit, err = r.Availability.Credit(charge); err != nil {
		return Report{}, fmt.Errorf("credit of lease %s: %w", l.ID, err)
	}
	// A credit is money: it is never more than the renter's own that was paid.
	r.Credit = max(0, min(r.Credit, r.Charge-max(0, r.Granted)))
	if r.Penalty, err = s.cfg.Penalty.Penalise(r.Availability, share, r.Credit, l.Price.Tariff.CommissionBasisPoints); err != nil {
		return Report{}, fmt.Errorf("penalty for lease %s: %w", l.ID, err)
	}
	return r, nil
}

func monthName(month pricing.Period, zone string) string {
	z, err := time.LoadLocation(zone)
	if err != nil {
		z = time.UTC
	}
	// Its middle, as its first moment may be the day before where clocks change then.
	return month.Start.Add(month.End.Sub(month.Start) / 2).In(z).Format("2006-01")
}

// evidence turns what happened to a lease into what pricing measures by. What of
// an outage lies in maintenance that was announced in time is given as such; doubtful
// is what nobody but a probe inside of the instance has seen.
func (s *Service) evidence(f facts, confirmed map[int64]bool, now time.Time) (promised []pricing.Interval, evidence, doubtful []pricing.Evidence) {
	for _, w := range lease.Wanted(f.history) {
		promised = append(promised, pricing.Interval{Start: w.From, End: until(w.Until, now)})
	}
	for _, o := range lease.Outages(f.history) {
		source := map[string]string{"host_silent": "control_plane", lease.CodeGPUFault: "host", lease.CodeGPUsRefused: "instance_probe"}[o.Code]
		e := pricing.Evidence{Cause: pricing.HostDown, Start: o.From, End: until(o.Until, now), Source: source, Reference: f.lease.ID + "/" + o.Code}
		if o.Code == lease.CodeGPUsRefused {
			if !confirmed[store.Micros(o.From)] {
				doubtful = append(doubtful, e)
				continue
			}
			e.Source = "operator"
		}
		evidence = append(evidence, e)
		for _, m := range f.announced {
			begin, end := e.Start, e.End
			if m.From.After(begin) {
				begin = m.From
			}
			if m.Until.Before(end) {
				end = m.Until
			}
			// Late announcements change nothing: the outage counts by itself.
			late := m.AnnouncedAt.Add(time.Duration(s.cfg.Promise.NoticeSeconds) * time.Second).After(m.From)
			if begin.Before(end) && !late {
				// pricing compares the notice with the begin of the stretch, so what it
				// is given is how early the window itself was announced.
				evidence = append(evidence, pricing.Evidence{Cause: pricing.Maintenance, Start: begin, End: end, Source: "provider", Reference: m.ID, AnnouncedAt: m.AnnouncedAt})
			}
		}
	}
	return promised, evidence, doubtful
}

func until(end, now time.Time) time.Time {
	if end.IsZero() {
		return now
	}
	return end
}
