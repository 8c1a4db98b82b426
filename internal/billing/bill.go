package billing

import (
	"context"
	"fmt"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Bill is what a lease has cost, and why.
type Bill struct {
	LeaseID, AccountID, ProviderID string
	Currency                       money.Currency
	Simulated                      bool
	Quote                          pricing.Quote
	At                             time.Time // the moment the bill is for
	Begun, Ended                   time.Time // Ended is zero for an open lease
	Lines                          []BillLine
	Total                          money.Amount
	Posted                         money.Amount // part of Total that has been taken from the balance
	Unbilled                       money.Amount // Total − Posted; negative: a correction is to come
	ProviderShare                  money.Amount
	Commission                     money.Amount // Total − ProviderShare
	// EgressRefused is how many bytes the host has claimed beyond what there was
	// money for. They are never charged.
	EgressRefused int64
}

// BillLine is one compute session, one month of storage, or all egress.
type BillLine struct {
	Meter      pricing.Meter
	Kind       LineKind
	Start, End time.Time // zero for egress
	Open       bool      // it goes on; End is the last sign of life
	Used       int64     // in Unit
	Charged    int64     // in Unit, with minimum and granularity
	Unit       string    // "s", "GiB·s", "byte", "month"
	Rate       money.Rate
	RateUnit   string // "hour", "GiB-month", "GB", "month"
	Amount     money.Amount
	Words      string // the line in a sentence

	per     int64 // how many of Charged the rate is for
	resumes bool  // it goes on from the line before it, after a break of the host's
	waived  bool  // the platform ended it too soon for it to cost anything
}

// LineKind is what a line of a bill is about. Those of months in advance have the
// kinds of prepayments, too.
type LineKind string

// The kinds of lines.
const (
	LineUse     LineKind = "use"
	LineCovered LineKind = "covered" // use that is paid for otherwise, and costs nothing here
)

// Due returns a lease's bill as of a moment: itemised, and adding up to the micro.
func (s *Service) Due(ctx context.Context, leaseID string, at time.Time) (Bill, error) {
	var b Bill
	err := s.cfg.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		l, err := s.lease(ctx, tx, leaseID)
		if err != nil {
			return err
		}
		b, err = s.bill(l, at)
		return err
	})
	return b, err
}

func (s *Service) due(l *leaseRow, at time.Time) (money.Amount, error) {
	d, err := l.rated(s.usage(l, at))
	if err != nil {
		return 0, fmt.Errorf("due for lease %s: %w", l.id, err)
	}
	return sum(d)
}

func (s *Service) bill(l *leaseRow, at time.Time) (Bill, error) {
	items, err := pricing.Itemise(l.quote, s.usage(l, at))
	if err != nil {
		return Bill{}, fmt.Errorf("bill of lease %s: %w", l.id, err)
	}
	b := Bill{
		LeaseID: l.id, AccountID: l.accountID, ProviderID: l.providerID, Currency: l.quote.Currency, Simulated: l.simulated,
		EgressRefused: l.egressClaimed - l.egressBytes,
		Quote:         l.quote, At: at, Begun: l.begun, Ended: l.ended, Lines: []BillLine{},
	}
	due := map[pricing.Meter]money.Amount{}
	if paid := l.prepayments(); paid != nil {
		for _, p := range *paid {
			line, err := prepaidLine(p, l.quote)
			if err != nil {
				return Bill{}, fmt.Errorf("bill of lease %s: %w", l.id, err)
			}
			b.Lines = append(b.Lines, line)
			due[pricing.Compute] += p.Amount
		}
	}
	for _, it := range items {
		kind := LineUse
		if it.Covered {
			kind = LineCovered
		}
		line := BillLine{
			Kind: kind, Meter: it.Meter, Start: it.Interval.Start, End: it.Interval.End, Used: it.Used, Charged: it.Charged,
			Rate: it.Rate, Amount: it.Amount, per: it.Per, resumes: it.Interval.Resumes, waived: it.Waived,
		}
		for _, i := range l.intervals {
			if i.meter == it.Meter && i.open() && !i.start.After(line.End) && l.ended.IsZero() && i.limit.IsZero() && !line.End.After(at) {
				line.Open = line.Open || !line.End.Before(i.start)
			}
		}
		describe(&line, l.quote)
		b.Lines = append(b.Lines, line)
		due[it.Meter] += it.Amount
	}
	b.openLast()
	_, apart := l.quote.Apart()
	var shares map[pricing.Meter]pricing.Share
	if apart {
		if shares, err = l.shares(s.usage(l, at)); err != nil {
			return Bill{}, fmt.Errorf("bill of lease %s: %w", l.id, err)
		}
	}
	for _, m := range pricing.Meters {
		p, c, err := pricing.Split(due[m], l.quote.Tariff.CommissionBasisPoints)
		if err != nil {
			return Bill{}, fmt.Errorf("bill of lease %s: %w", l.id, err)
		}
		if apart {
			p, c = shares[m].Provider, shares[m].Commission
		}
		b.Total += due[m]
		b.ProviderShare += p
		b.Commission += c
	}
	b.Posted = l.posted.total()
	b.Unbilled = b.Total - b.Posted
	return b, nil
}

// openLast leaves at most one line of compute open: where the price changed, a run
// has several, and only the last goes on.
func (b *Bill) openLast() {
	last := true
	for i := len(b.Lines) - 1; i >= 0; i-- {
		if l := &b.Lines[i]; l.Meter == pricing.Compute {
			l.Open, last = l.Open && last, false
		}
	}
}

// describe puts units and a sentence to a line.
func describe(line *BillLine, q pricing.Quote) {
	switch line.Meter {
	case pricing.Compute:
		line.Unit, line.RateUnit = "s", "hour"
		line.Words = fmt.Sprintf("ran %d s", line.Used)
		switch {
		case line.waived:
			line.Words += fmt.Sprintf(", which costs nothing (it was interrupted in its first %d s)", q.EvictionFreeSeconds)
		case line.Charged != line.Used:
			why := fmt.Sprintf("every started %s counts", q.Tariff.Granularity)
			if line.Used < q.Tariff.MinimumSeconds {
				why = fmt.Sprintf("the minimum at each start is %d s", q.Tariff.MinimumSeconds)
			}
			if line.resumes {
				why = "it goes on from the run before, and the two are counted as one"
			}
			line.Words += fmt.Sprintf(", charged as %d s (%s)", line.Charged, why)
		}
	case pricing.Storage:
		line.Unit, line.RateUnit = "GiB·s", "GiB-month"
		line.Words = fmt.Sprintf("kept %d GiB for %d s of the month's %d s", q.DiskGiB, line.Used/max(1, q.DiskGiB), line.per)
	case pricing.Egress:
		line.Unit, line.RateUnit = "byte", "GB"
		line.Words = fmt.Sprintf("sent %d bytes (a GB is 1,000,000,000)", line.Used)
	}
	if line.Kind == LineCovered {
		line.Words += ", paid for in advance"
		if q.Simulated {
			line.Words += " (simulated)"
		}
		return
	}
	at := "at"
	if line.Meter == pricing.Compute && q.Plan == pricing.Spot {
		at = "at the market's price of"
	}
	line.Words += fmt.Sprintf(", %s %s %s per %s: %s %s", at, line.Rate.Display(), q.Currency, line.RateUnit, line.Amount.Display(), q.Currency)
	if q.Simulated {
		line.Words += " (simulated)"
	}
}

// prepaidLine is the line of a payment of months in advance.
func prepaidLine(p Prepayment, q pricing.Quote) (BillLine, error) {
	rate, err := money.ParseRate(p.PerMonth.String())
	if err != nil {
		return BillLine{}, err
	}
	line := BillLine{
		Meter: pricing.Compute, Kind: LineKind(p.Kind), Start: p.From, End: p.Until, Unit: "month", RateUnit: "month", Rate: rate, Amount: p.Amount, per: 1,
	}
	span := fmt.Sprintf("%s to %s", p.From.Format(time.RFC3339), p.Until.Format(time.RFC3339))
	price := fmt.Sprintf("%s %s a month", p.PerMonth.Display(), q.Currency)
	if p.BasisPoints > 0 {
		price += fmt.Sprintf(" less %d.%02d %%", p.BasisPoints/100, p.BasisPoints%100)
	}
	switch p.Kind {
	case PaidTerm, PaidRenewal:
		line.Used, line.Charged = int64(q.Prepaid.TermMonths), int64(q.Prepaid.TermMonths)
		verb := "paid"
		if p.Kind == PaidRenewal {
			verb = "renewed"
		}
		line.Words = fmt.Sprintf("%s %d months in advance, %s, at %s", verb, q.Prepaid.TermMonths, span, price)
	case PaidChange:
		line.Words = fmt.Sprintf("changed the price of the rest, %s, to %s", span, price)
	case PaidUpfront:
		line.Words = fmt.Sprintf("paid at once of a reservation, %s", span)
	case PaidLost:
		line.Words = fmt.Sprintf("gave back what was paid at once for time that was not delivered by %s", p.Until.Format(time.RFC3339))
	case PaidEarly:
		line.Words = "ended the reservation early, by the price on demand"
	case PaidBack:
		line.Words = fmt.Sprintf("gave back of what was paid for %s", span)
	}
	line.Words += fmt.Sprintf(": %s %s", p.Amount.Display(), q.Currency)
	if q.Simulated {
		line.Words += " (simulated)"
	}
	return line, nil
}
