package api

import (
	"context"
	"net/http"
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
	Buyable     bool        `json:"buyable" doc:"A quote for it can be had and accepted now"`
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
	OfferID    string       `json:"offer_id"`
	GPUModel   string       `json:"gpu_model"`
	GPUCount   int          `json:"gpu_count"`
	Zone       string       `json:"zone"`
	Image      string       `json:"image"`
	DiskGiB    int64        `json:"disk_gib"`
	RunSeconds int64        `json:"run_seconds" doc:"What for_run is for"`
	TimeZone   string       `json:"time_zone" doc:"By whose calendar months are counted"`
	Currency   string       `json:"currency"`
	Simulated  bool         `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	QuotedAt   time.Time    `json:"quoted_at"`
	Options    []PlanOption `json:"options" nullable:"false"`
}

// ComparePlans prices an offer under all plans. It buys and freezes nothing.
func (c *Client) ComparePlans(ctx context.Context, q PlanQuestion) (*PlanComparison, error) {
	return do[PlanComparison](ctx, c, http.MethodPost, "/v1/quotes/compare", q)
}
