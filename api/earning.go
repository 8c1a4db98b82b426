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

// Payable is what a provider has earned with real hardware in one currency. Held,
// Available, Reserved and Paid less Owed are Earned.
type Payable struct {
	Currency  string     `json:"currency"`
	Earned    Amount     `json:"earned"`
	Held      Amount     `json:"held" doc:"Younger than the holding period"`
	Available Amount     `json:"available" doc:"Can be paid out now"`
	Reserved  Amount     `json:"reserved" doc:"Kept back by the operator's rule"`
	Owed      Amount     `json:"owed" doc:"Taken back after it was paid out; comes out of what is earned next"`
	Paid      Amount     `json:"paid" doc:"Paid out or on its way"`
	NextAt    *time.Time `json:"next_at,omitempty" doc:"When something that is held becomes available"`
}

// Payout is one payment to a provider.
type Payout struct {
	ID        string    `json:"id"`
	AccountID string    `json:"account_id"`
	Currency  string    `json:"currency"`
	Amount    Amount    `json:"amount"`
	Batch     string    `json:"batch"`
	State     string    `json:"state" enum:"requested,approved,paid,failed,declined,returned"`
	Reference string    `json:"reference,omitempty" doc:"The bank's, of the payment"`
	Reason    string    `json:"reason,omitempty" doc:"Why it failed, was declined or came back"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// CreatePayouts asks for a batch of payouts.
type CreatePayouts struct {
	Batch      string   `json:"batch" maxLength:"64" doc:"Name of the batch; a provider is in it once" example:"2026-03"`
	Currency   string   `json:"currency,omitempty" enum:"USD,CNY" doc:"Absent: all"`
	AccountIDs []string `json:"account_ids,omitempty" maxItems:"1000" doc:"Only these providers"`
	Minimum    Amount   `json:"minimum,omitempty" doc:"Less is left for another batch"`
}

// MarkPayout says what happened to a payout.
type MarkPayout struct {
	Event     string `json:"event" enum:"approve,pay,fail,decline,return"`
	Reference string `json:"reference,omitempty" maxLength:"200" doc:"The bank's, of the payment; needed to pay"`
	Reason    string `json:"reason,omitempty" maxLength:"500"`
}

// Payables returns what can be paid out to the caller's account, by currency.
func (c *Client) Payables(ctx context.Context) ([]Payable, error) {
	return collect(all[Payable](ctx, c, "/v1/earnings/payable", nil))
}

// Payouts returns payouts to the caller's account, newest first; state narrows to
// one state if it is not empty.
func (c *Client) Payouts(ctx context.Context, state string) ([]Payout, error) {
	return collect(all[Payout](ctx, c, "/v1/payouts", inState(state)))
}

// AllPayouts returns payouts to all providers. It is for operators.
func (c *Client) AllPayouts(ctx context.Context, state string) ([]Payout, error) {
	return collect(all[Payout](ctx, c, "/v1/operator/payouts", inState(state)))
}

func inState(state string) url.Values {
	v := url.Values{}
	if state != "" {
		v.Set("state", state)
	}
	return v
}

// CreatePayouts requests payouts and returns all of the batch. It is for operators.
func (c *Client) CreatePayouts(ctx context.Context, in CreatePayouts) ([]Payout, error) {
	p, err := do[Page[Payout]](ctx, c, http.MethodPost, "/v1/operator/payouts", in)
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// MarkPayout says what happened to a payout. It is for operators.
func (c *Client) MarkPayout(ctx context.Context, id string, in MarkPayout) (*Payout, error) {
	return do[Payout](ctx, c, http.MethodPost, "/v1/operator/payouts/"+url.PathEscape(id)+"/mark", in)
}
