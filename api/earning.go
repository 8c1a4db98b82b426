package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Earnings is what a provider earned in a time, broken down.
type Earnings struct {
	By       string        `json:"by" enum:"host,gpu,day"`
	From     time.Time     `json:"from" doc:"Midnight of your account's time zone"`
	Until    time.Time     `json:"until" doc:"Not in it"`
	TimeZone string        `json:"time_zone"`
	Rows     []EarningsRow `json:"rows"`
}

// EarningsRow is what one host, GPU or day earned.
type EarningsRow struct {
	Day                  string        `json:"day,omitempty" example:"2026-03-01"`
	HostID               string        `json:"host_id,omitempty"`
	GPU                  string        `json:"gpu,omitempty" doc:"UUID; absent in a breakdown by GPU: what no GPU earned, such as the disk of a stopped lease"`
	GPUModel             string        `json:"gpu_model,omitempty"`
	Simulated            bool          `json:"simulated" doc:"The GPUs are simulated: what they earn is never paid out"`
	RentedGPUSeconds     int64         `json:"rented_gpu_seconds"`
	ListedGPUSeconds     int64         `json:"listed_gpu_seconds" doc:"On the market, whether the host was up or not, without announced maintenance"`
	OccupancyBasisPoints *int64        `json:"occupancy_basis_points,omitempty" doc:"Rented of listed, in hundredths of a per cent; absent if nothing was listed"`
	Sums                 []EarningsSum `json:"sums" doc:"By currency"`
}

// EarningsSum is what was earned in one currency.
type EarningsSum struct {
	Currency   string `json:"currency"`
	Charged    Amount `json:"charged"`
	Commission Amount `json:"commission"`
	Earned     Amount `json:"earned" doc:"Charged less commission"`
}

// ProviderStatement is a provider's balance over a calendar month in one currency.
// Closing is Opening plus the amounts of all lines.
type ProviderStatement struct {
	From     time.Time               `json:"from"`
	Until    time.Time               `json:"until"`
	TimeZone string                  `json:"time_zone"`
	Currency string                  `json:"currency"`
	Opening  Amount                  `json:"opening"`
	Closing  Amount                  `json:"closing"`
	Lines    []ProviderStatementLine `json:"lines"`
}

// ProviderStatementLine is what transfers of one kind about one thing came to.
type ProviderStatementLine struct {
	Code      string `json:"code" doc:"The transfers', such as charge, correction or payout"`
	Reference string `json:"reference" doc:"What it is about: a lease or a payout"`
	HostID    string `json:"host_id,omitempty"`
	Simulated bool   `json:"simulated"`
	Amount    Amount `json:"amount" doc:"Less than 0: taken from the balance"`
	Transfers int64  `json:"transfers"`
}

// EarningsQuery says which earnings are asked for, and how. Days are such as
// "2026-03-01", by the calendar of the account's zone.
type EarningsQuery struct {
	By    string // "host", "gpu" or "day"
	From  string // "": the first of this month
	Until string // not in it; "": the end of today
}

// EarningsBy returns what the caller's account earned as a provider, broken down.
func (c *Client) EarningsBy(ctx context.Context, q EarningsQuery) (*Earnings, error) {
	v := url.Values{}
	for name, value := range map[string]string{"by": q.By, "from": q.From, "until": q.Until} {
		if value != "" {
			v.Set(name, value)
		}
	}
	return do[Earnings](ctx, c, http.MethodGet, "/v1/earnings/breakdown?"+v.Encode(), nil)
}

// ProviderStatements returns the statements of a month, such as "2026-03", of the
// caller's account as a provider, by currency. Without a month it is this one.
func (c *Client) ProviderStatements(ctx context.Context, month string) ([]ProviderStatement, error) {
	v := url.Values{}
	if month != "" {
		v.Set("month", month)
	}
	return collect(all[ProviderStatement](ctx, c, "/v1/earnings/statements", v))
}
