package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// PlanQuestion asks what an offer costs under all plans.
type PlanQuestion struct {
	OfferID     string `json:"offer_id" doc:"From a search" maxLength:"200"`
	Template    string `json:"template,omitempty" doc:"Template to run; a template or an image is needed" maxLength:"100"`
	Image       string `json:"image,omitempty" doc:"Image to run, instead of the template's" maxLength:"520"`
	DiskGiB     int64  `json:"disk_gib,omitempty" doc:"Disk, in GiB; the template's if left out"`
	RunSeconds  int64  `json:"run_seconds,omitempty" doc:"How long you mean to run, in seconds; an hour if left out"`
	EgressBytes int64  `json:"egress_bytes,omitempty" doc:"Bytes that you expect to send in that time"`
}

// PlanOption is what the offer costs under one plan, term and way to pay.
type PlanOption struct {
	Plan        string      `json:"plan" enum:"on_demand,spot,reserved,monthly,trial"`
	TermMonths  int         `json:"term_months,omitempty" doc:"Of plans that have terms"`
	Payment     string      `json:"payment,omitempty" doc:"How much of a reservation is paid at once"`
	Buyable     bool        `json:"buyable" doc:"A quote for it, or of a reservation, can be had and accepted now"`
	Why         string      `json:"why,omitempty" doc:"Why it is not buyable: not_offered, bid_too_low or trial_expired"`
	DueNow      Amount      `json:"due_now" doc:"What is taken from the balance before anything runs"`
	PerHour     Amount      `json:"per_hour" doc:"Everything while running, without egress"`
	PerDay      Amount      `json:"per_day"`
	PerMonth    Amount      `json:"per_month" doc:"Of the month in which it is asked"`
	ForRun      Amount      `json:"for_run" doc:"All that must be paid for the run, whole terms included"`
	NotIncluded []string    `json:"not_included" nullable:"false" doc:"What these figures leave out, as codes"`
	Lines       []QuoteLine `json:"lines" nullable:"false" doc:"The figures by meter; empty for a reservation and for what is not offered"`
}

// PlanComparison is an offer's price under all plans, side by side.
type PlanComparison struct {
	OfferID    string    `json:"offer_id"`
	GPUModel   string    `json:"gpu_model"`
	GPUCount   int       `json:"gpu_count"`
	Zone       string    `json:"zone"`
	Image      string    `json:"image"`
	DiskGiB    int64     `json:"disk_gib"`
	RunSeconds int64     `json:"run_seconds" doc:"What for_run is for"`
	TimeZone   string    `json:"time_zone" doc:"By whose calendar months are counted"`
	Currency   string    `json:"currency"`
	Exchange   *Exchange `json:"exchange,omitempty" doc:"How the listed price came to be in your currency"`

	PriceList *AppliedPriceList `json:"price_list,omitempty" doc:"By which your prices on demand differ from the listed ones"`
	Simulated bool              `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	QuotedAt  time.Time         `json:"quoted_at"`
	Options   []PlanOption      `json:"options" nullable:"false"`
}

// Months is what is paid in advance for a lease of the plan monthly.
type Months struct {
	LeaseID          string       `json:"lease_id"`
	Currency         string       `json:"currency"`
	Anchor           time.Time    `json:"anchor" doc:"When the first month began; all boundaries are counted from it"`
	TimeZone         string       `json:"time_zone" doc:"By whose calendar and clocks months are counted"`
	PerMonth         Amount       `json:"per_month" doc:"Without what the term takes off"`
	TermMonths       int          `json:"term_months"`
	DiscountPercent  string       `json:"discount_percent" doc:"What the term takes off, such as 5.00"`
	Renews           bool         `json:"renews"`
	OnLapse          string       `json:"on_lapse" enum:"stop,on_demand" doc:"What happens when the months end"`
	PaidFrom         time.Time    `json:"paid_from" doc:"Begin of the term that is paid for"`
	PaidUntil        time.Time    `json:"paid_until" doc:"Its end, at which it renews if it does"`
	NextTermPrice    Amount       `json:"next_term_price" doc:"What another term costs"`
	EndedAt          *time.Time   `json:"ended_at,omitempty" doc:"From when on nothing is paid for in advance"`
	EndCode          string       `json:"end_code,omitempty" doc:"lapsed, given_up, host_lost or never_ran"`
	GivenBackIfEnded Amount       `json:"given_back_if_ended" doc:"What comes back if the lease is ended now: what was paid less what was used at the price without the term's discount"`
	Payments         []Prepayment `json:"payments" nullable:"false"`
}

// Prepayment is money that was paid in advance, or given back of it.
type Prepayment struct {
	Kind   string    `json:"kind" enum:"term,renewal,change,refund,upfront,lost,early_end"`
	Amount Amount    `json:"amount" doc:"Negative: given back"`
	From   time.Time `json:"from" doc:"Begin of what it is for"`
	Until  time.Time `json:"until"`
}

// MonthsUpdate changes what happens at the end of a paid term; what is left out stays.
type MonthsUpdate struct {
	Renews  *bool   `json:"renews,omitempty"`
	OnLapse *string `json:"on_lapse,omitempty" enum:"stop,on_demand"`
}

// Repricing is what a change of a lease's months to the price of today comes to now.
type Repricing struct {
	PerMonth        Amount    `json:"per_month" doc:"Of today, without what the term takes off"`
	DiscountPercent string    `json:"discount_percent"`
	At              time.Time `json:"at"`
	Until           time.Time `json:"until" doc:"End of the term"`
	Credit          Amount    `json:"credit" doc:"What was paid for the rest of the term"`
	Charge          Amount    `json:"charge" doc:"What the rest costs at the new price"`
	Net             Amount    `json:"net" doc:"Charge less credit: to be paid, or given back if negative"`
}

// RepriceRequest agrees to a change of price.
type RepriceRequest struct {
	AgreedNet Amount `json:"agreed_net,omitempty" doc:"The most that you agree to pay for it; left out: nothing"`
}

// Months returns what is paid in advance for a lease.
func (c *Client) Months(ctx context.Context, lease string) (*Months, error) {
	return do[Months](ctx, c, http.MethodGet, monthlyPath(lease), nil)
}

// SetMonths changes what happens when the paid term of a lease ends.
func (c *Client) SetMonths(ctx context.Context, lease string, u MonthsUpdate) (*Months, error) {
	return do[Months](ctx, c, http.MethodPatch, monthlyPath(lease), u)
}

// PreviewReprice says what a change of a lease's months to the price of today comes to.
func (c *Client) PreviewReprice(ctx context.Context, lease string) (*Repricing, error) {
	return do[Repricing](ctx, c, http.MethodGet, monthlyPath(lease)+"/reprice", nil)
}

// Reprice changes a lease's months to the price of today, if no more than agreed has
// to be paid for it.
func (c *Client) Reprice(ctx context.Context, lease string, agreed Amount) (*Months, error) {
	return do[Months](ctx, c, http.MethodPost, monthlyPath(lease)+"/reprice", RepriceRequest{AgreedNet: agreed})
}

func monthlyPath(lease string) string { return "/v1/leases/" + url.PathEscape(lease) + "/monthly" }

// ComparePlans prices an offer under all plans. It buys and freezes nothing.
func (c *Client) ComparePlans(ctx context.Context, q PlanQuestion) (*PlanComparison, error) {
	return do[PlanComparison](ctx, c, http.MethodPost, "/v1/quotes/compare", q)
}
