package pricing

import (
	"fmt"
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
