package api

import (
	"context"
	"net/http"
	"time"
)

// Exchange is how a price came to be in the account's currency.
type Exchange struct {
	RateID string    `json:"rate_id"`
	From   string    `json:"from" enum:"CNY,USD" doc:"The currency that the provider lists its prices and is paid in"`
	To     string    `json:"to" enum:"CNY,USD" doc:"The account's currency"`
	Rate   Rate      `json:"rate" doc:"Units of to for one of from"`
	Source string    `json:"source" doc:"Whose rate it is, as the operator says"`
	Since  time.Time `json:"since" doc:"When the rate began"`
}

// ExchangeRate is what one unit of a currency is worth in another.
type ExchangeRate struct {
	ID         string    `json:"id"`
	From       string    `json:"from" enum:"CNY,USD"`
	To         string    `json:"to" enum:"CNY,USD"`
	Rate       Rate      `json:"rate" doc:"Units of to for one of from"`
	Source     string    `json:"source"`
	ValidFrom  time.Time `json:"valid_from"`
	ValidUntil time.Time `json:"valid_until" doc:"Nothing is quoted by it from then on"`
	EnteredBy  string    `json:"entered_by" doc:"A user"`
	EnteredAt  time.Time `json:"entered_at"`
}

// SetExchangeRate enters a rate.
type SetExchangeRate struct {
	From       string     `json:"from" enum:"CNY,USD"`
	To         string     `json:"to" enum:"CNY,USD"`
	Rate       Rate       `json:"rate" doc:"Units of to for one of from, up to nine decimals; it converts this way only" example:"7.1234"`
	Source     string     `json:"source" maxLength:"200" doc:"Whose rate it is" example:"PBOC central parity"`
	ValidFrom  *time.Time `json:"valid_from,omitempty" doc:"Absent: now"`
	ValidUntil time.Time  `json:"valid_until" doc:"At most 400 days after it begins; a rate that is over is refused and not used"`
}

// ExchangeRates returns all rates that were entered, newest first. It is for operators.
func (c *Client) ExchangeRates(ctx context.Context) ([]ExchangeRate, error) {
	return collect(all[ExchangeRate](ctx, c, "/v1/operator/exchange-rates", nil))
}

// SetExchangeRate enters a rate. It is for operators.
func (c *Client) SetExchangeRate(ctx context.Context, in SetExchangeRate) (*ExchangeRate, error) {
	return do[ExchangeRate](ctx, c, http.MethodPost, "/v1/operator/exchange-rates", in)
}
