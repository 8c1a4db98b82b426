package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// LeaseSLA is a lease's availability in a calendar month of its zone, with the
// evidence, and what it gives back.
type LeaseSLA struct {
	LeaseID                string        `json:"lease_id"`
	Month                  string        `json:"month" example:"2026-03"`
	From                   time.Time     `json:"from"`
	Until                  time.Time     `json:"until"`
	TimeZone               string        `json:"time_zone"`
	Simulated              bool          `json:"simulated"`
	AvailabilityPPM        int64         `json:"availability_ppm" doc:"In millionths, rounded down: 999000 is 99.9 %"`
	PromisedSeconds        int64         `json:"promised_seconds" doc:"In which it was to run, without downtime in maintenance that was announced in time"`
	DownSeconds            int64         `json:"down_seconds"`
	ExcludedSeconds        int64         `json:"excluded_seconds" doc:"Downtime in maintenance that was announced in time"`
	Outages                []SLAOutage   `json:"outages" doc:"What counts"`
	Excluded               []SLAEvidence `json:"excluded"`
	Uncorroborated         []SLAEvidence `json:"uncorroborated" doc:"What only a probe inside of the instance saw: it counts once an operator confirms it"`
	Currency               string        `json:"currency"`
	Charge                 Amount        `json:"charge" doc:"Of the lease in the month"`
	Granted                Amount        `json:"granted" doc:"What grants paid of the charge; no more is given back than the rest of it"`
	CreditShareBasisPoints int64         `json:"credit_share_basis_points" doc:"Of the charge"`
	Credit                 Amount        `json:"credit" doc:"Posted to the balance when the month is closed"`
	ClosesAt               time.Time     `json:"closes_at"`
	ClosedAt               *time.Time    `json:"closed_at,omitempty" doc:"Absent: not closed, or there was no outage"`
}

// SLAOutage is a stretch that counts as down.
type SLAOutage struct {
	Start     time.Time     `json:"start"`
	End       time.Time     `json:"end"`
	HostFault bool          `json:"host_fault"`
	Evidence  []SLAEvidence `json:"evidence"`
}

// SLAEvidence is who says that a lease could not be used, and when.
type SLAEvidence struct {
	Cause     string    `json:"cause" doc:"host, platform or maintenance"`
	Source    string    `json:"source" doc:"control_plane, host, instance_probe, operator or provider"`
	Reference string    `json:"reference"`
	Start     time.Time `json:"start"`
	End       time.Time `json:"end"`
}

// SLAMonth is what was posted for a lease's month.
type SLAMonth struct {
	LeaseID         string    `json:"lease_id"`
	Month           string    `json:"month"`
	Simulated       bool      `json:"simulated"`
	AvailabilityPPM int64     `json:"availability_ppm"`
	DownSeconds     int64     `json:"down_seconds"`
	Currency        string    `json:"currency"`
	Credit          Amount    `json:"credit"`
	ClosedAt        time.Time `json:"closed_at"`
}

// ConfirmOutage is an operator's word for an outage.
type ConfirmOutage struct {
	LeaseID string    `json:"lease_id" maxLength:"64"`
	From    time.Time `json:"from" doc:"When the outage began, to the second"`
	Note    string    `json:"note,omitempty" maxLength:"500" doc:"What was seen"`
}

// LeaseSLA returns a lease's availability in a month, such as "2026-03"; empty:
// this month, so far.
func (c *Client) LeaseSLA(ctx context.Context, id, month string) (*LeaseSLA, error) {
	v := url.Values{}
	if month != "" {
		v.Set("month", month)
	}
	return do[LeaseSLA](ctx, c, http.MethodGet, "/v1/leases/"+url.PathEscape(id)+"/sla?"+v.Encode(), nil)
}

// SLAMonths returns what was posted for the account's leases that had outages,
// newest month first.
func (c *Client) SLAMonths(ctx context.Context) ([]SLAMonth, error) {
	return collect(all[SLAMonth](ctx, c, "/v1/sla", nil))
}

// ConfirmOutage makes an outage count that only a probe inside of the instance saw.
// It is for operators.
func (c *Client) ConfirmOutage(ctx context.Context, in ConfirmOutage) (*LeaseSLA, error) {
	return do[LeaseSLA](ctx, c, http.MethodPost, "/v1/operator/sla/confirmations", in)
}

// Status is the control plane's own availability. Leases run on while it is away.
type Status struct {
	At       time.Time      `json:"at" doc:"The whole minutes before this one were measured"`
	Since    *time.Time     `json:"since,omitempty" doc:"The first minute that was measured"`
	Windows  []StatusWindow `json:"windows"`
	Gaps     []StatusGap    `json:"gaps" doc:"Of the last 90 days, newest first, 100 at most"`
	GapsLeft int            `json:"gaps_left" doc:"How many more there are"`
}

// StatusWindow is the availability in the last days.
type StatusWindow struct {
	Days            int   `json:"days"`
	MeasuredMinutes int64 `json:"measured_minutes"`
	UpMinutes       int64 `json:"up_minutes"`
	AvailabilityPPM int64 `json:"availability_ppm" doc:"In millionths, rounded down"`
}

// StatusGap is a time in which the control plane was away.
type StatusGap struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// Status returns the control plane's availability. It needs no credentials.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	return do[Status](ctx, c, http.MethodGet, "/v1/status", nil)
}
