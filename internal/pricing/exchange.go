package pricing

import (
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// ExchangeRate is a stored rate of a day. It converts one way only: the way back
// is another rate, since 1 ÷ 7.1 has no end.
type ExchangeRate struct {
	ID   string         `json:"id"`
	Date time.Time      `json:"date"`
	From money.Currency `json:"from"`
	To   money.Currency `json:"to"`
	Rate money.Rate     `json:"rate"` // units of To for one of From

	Source string    `json:"source,omitempty"` // who says so, such as a central bank
	Until  time.Time `json:"until,omitzero"`   // not in its time, which begins at Date; zero: for ever
}

// Stale reports whether r may no longer be used at a moment.
func (r ExchangeRate) Stale(at time.Time) bool { return !r.Until.IsZero() && !at.Before(r.Until) }

// InForce returns the rate between two currencies that holds at a moment: of those
// whose time has begun the one that began last, and of equal ones the later in the
// list. It may be stale; there is none if ok is false.
func InForce(rates []ExchangeRate, from, to money.Currency, at time.Time) (found ExchangeRate, ok bool) {
	for _, r := range rates {
		if r.From == from && r.To == to && !r.Date.After(at) && (!ok || !r.Date.Before(found.Date)) {
			found, ok = r, true
		}
	}
	return found, ok
}

// Exchanged is the exchange that a quote was made by, frozen in it.
type Exchanged struct {
	RateID string         `json:"rate_id"`
	Source string         `json:"source"`
	From   money.Currency `json:"from"`
	To     money.Currency `json:"to"`
	Rate   money.Rate     `json:"rate"`   // units of To for one of From
	Since  time.Time      `json:"since"`  // when the rate began
	Listed Tariff         `json:"listed"` // in From, as it is on the market: what the provider is paid by
	// PerMonth is the listed price of a month in advance, in From and without discount.
	PerMonth money.Amount `json:"per_month,omitempty"`
}

// Tariff converts each rate of a tariff once, to the nano, half to even. So an hour
// has one price in the account's currency, by which everything that it pays follows,
// and no amount is converted a second time.
func (r ExchangeRate) Tariff(t Tariff) (Tariff, Exchanged, error) {
	if _, err := r.Convert(0, t.Currency, r.To); err != nil {
		return t, Exchanged{}, err
	}
	out := t
	out.Currency = r.To
	for _, m := range Meters {
		rate := t.Rate(m)
		if rate < 0 {
			return t, Exchanged{}, fmt.Errorf("exchange of a price of %s for %s: want at least 0", rate, m)
		}
		converted, err := r.rate(rate)
		if err != nil {
			return t, Exchanged{}, fmt.Errorf("exchange of %s %s for %s: %w", rate, t.Currency, m, err)
		}
		out.setRate(m, converted)
	}
	return out, Exchanged{RateID: r.ID, Source: r.Source, From: r.From, To: r.To, Rate: r.Rate, Since: r.Date, Listed: t}, nil
}

// rate converts a price once, to the nano, half to even.
func (r ExchangeRate) rate(listed money.Rate) (money.Rate, error) {
	if listed < 0 {
		return 0, fmt.Errorf("a price of %s: want at least 0", listed)
	}
	converted, err := product(int64(listed), int64(r.Rate)).over(nanoPerMicro * ppm)
	return money.Rate(converted), err
}

// Price converts a price that came later than the quote, such as what a market
// cleared at, by the rate that is frozen in it and as a Tariff's are.
func (e Exchanged) Price(listed money.Rate) (money.Rate, error) {
	out, err := ExchangeRate{ID: e.RateID, From: e.From, To: e.To, Rate: e.Rate}.rate(listed)
	if err != nil {
		return 0, fmt.Errorf("exchange of %s %s: %w", listed, e.From, err)
	}
	return out, nil
}

// Amount converts an amount that is a price, such as a month's, once, to the micro,
// half to even.
func (e Exchanged) Amount(listed money.Amount) (money.Amount, error) {
	c, err := ExchangeRate{ID: e.RateID, From: e.From, To: e.To, Rate: e.Rate}.Convert(listed, e.From, e.To)
	return c.Bought, err
}

// Check reports whether t is what e's rate makes of the listed prices.
func (e Exchanged) Check(t Tariff) error {
	want, _, err := ExchangeRate{ID: e.RateID, From: e.From, To: e.To, Rate: e.Rate}.Tariff(e.Listed)
	if err != nil {
		return err
	}
	if want != t {
		return fmt.Errorf("the prices are not those listed in %s at %s", e.From, e.Rate)
	}
	return nil
}

// Share is who gets what of the amount due for a meter.
type Share struct {
	Amount     money.Amount // what the account owes
	Provider   money.Amount // its provider's part, in the account's currency
	Commission money.Amount // Amount − Provider; less than 0 where the platform adds to what the account pays

	// In the provider's currency: the amount due by the listed prices, and its part.
	Listed, Earned money.Amount
}

// Apart reports whether the provider is paid by other prices than the account pays,
// and by which.
func (q Quote) Apart() (Tariff, bool) {
	switch {
	case q.Exchange != nil:
		return q.Exchange.Listed, true
	case q.Listed != nil:
		return *q.Listed, true
	}
	return q.Tariff, false
}

// Shares returns who gets what for all usage so far: what Due says of the account's
// prices, and of the listed ones.
func Shares(q Quote, u Usage) (map[Meter]Share, error) { return SharesPaid(q, u, 0, 0) }

// SharesPaid is Shares where compute is paid for in advance, too: paid by the account,
// and listed of it by the listed prices. What is paid in advance and given back of it
// counts with all use, so that the split is of the whole.
func SharesPaid(q Quote, u Usage, paid, listed money.Amount) (map[Meter]Share, error) {
	due, err := Due(q, u)
	if err != nil {
		return nil, err
	}
	under := func(t Tariff) (map[Meter]money.Amount, error) {
		if t == q.Tariff {
			return due, nil
		}
		o, u := q, u
		o.Tariff, o.Currency = t, t.Currency
		if q.Plan == Spot && t.Currency != q.Currency {
			u.Compute = slices.Clone(u.Compute)
			for i := range u.Compute {
				u.Compute[i].Rate = u.Compute[i].Listed
			}
		}
		return Due(o, u)
	}
	prices, _ := q.Apart()
	theirs, err := under(prices)
	if err != nil {
		return nil, err
	}
	whole := q.Tariff // before the account's own prices
	if q.Listed != nil {
		whole = *q.Listed
	}
	here, err := under(whole)
	if err != nil {
		return nil, err
	}
	out := map[Meter]Share{}
	for m, amount := range due {
		s, own := Share{Amount: amount, Listed: theirs[m]}, here[m]
		if m == Compute {
			s.Amount, own, s.Listed = s.Amount+paid, own+paid, s.Listed+listed
		}
		if s.Provider, _, err = Split(own, q.Tariff.CommissionBasisPoints); err != nil {
			return nil, err
		}
		if s.Earned, _, err = Split(s.Listed, q.Tariff.CommissionBasisPoints); err != nil {
			return nil, err
		}
		s.Commission = s.Amount - s.Provider
		out[m] = s
	}
	return out, nil
}

// Exchange is a conversion: what leaves in one currency and what arrives in the
// other. Each leg is posted against the exchange account of its currency, by the
// amounts here, so those accounts hold exactly what was bought and sold.
type Exchange struct {
	RateID string         `json:"rate_id"`
	From   money.Currency `json:"from"`
	To     money.Currency `json:"to"`
	Sold   money.Amount   `json:"sold"`   // of From: from the payer to the exchange account
	Bought money.Amount   `json:"bought"` // of To: from the exchange account to the receiver
}

// Convert exchanges an amount, rounded once to the micro, half to even. A rate the
// other way round is an error, not turned over.
func (r ExchangeRate) Convert(a money.Amount, from, to money.Currency) (Exchange, error) {
	switch {
	case !r.From.Valid() || !r.To.Valid() || r.From == r.To || r.Rate <= 0:
		return Exchange{}, fmt.Errorf("exchange rate %s, %s for one %s of %s: want more than 0 between two currencies", r.ID, r.Rate, r.From, r.To)
	case from != r.From || to != r.To:
		return Exchange{}, fmt.Errorf("exchange rate %s is from %s to %s: it says nothing of %s to %s", r.ID, r.From, r.To, from, to)
	}
	bought, err := part(a, int64(r.Rate), nanoPerMicro*ppm)
	if err != nil {
		return Exchange{}, fmt.Errorf("exchange of %s %s: %w", a, from, err)
	}
	return Exchange{r.ID, from, to, a, bought}, nil
}

// Reverse undoes an exchange by its own amounts, so that a refund leaves the
// exchange accounts as they were, whatever the rate is by then.
func (e Exchange) Reverse() Exchange {
	e.Sold, e.Bought = -e.Sold, -e.Bought
	return e
}

// Position is what exchange accounts hold by currency after some exchanges.
func Position(exchanges []Exchange) (map[money.Currency]money.Amount, error) {
	out := map[money.Currency]money.Amount{}
	for _, e := range exchanges {
		var err error
		if out[e.From], err = out[e.From].Add(e.Sold); err != nil {
			return nil, err
		}
		if out[e.To], err = out[e.To].Add(-e.Bought); err != nil {
			return nil, err
		}
	}
	return out, nil
}
