package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// DrillRequest is an outage to try on the operator's own cloud.
type DrillRequest struct {
	Kind    string `json:"kind,omitempty" enum:"host_outage,zone_outage"`
	HostID  string `json:"host_id,omitempty" maxLength:"64" doc:"Of a host's outage"`
	Region  string `json:"region,omitempty" maxLength:"100" doc:"Of a zone's outage"`
	Zone    string `json:"zone,omitempty" maxLength:"100" doc:"Of a zone's outage"`
	Seconds int64  `json:"seconds,omitempty" minimum:"5" maximum:"900" doc:"After which it ends by itself"`
	Consent bool   `json:"consent,omitempty" doc:"Without it the answer says what would be felt, and nothing is done"`
}

// Drill is an outage that was tried, and what was felt of it.
type Drill struct {
	ID        string       `json:"id"`
	Kind      string       `json:"kind"`
	Subject   string       `json:"subject" doc:"The host, or region/zone"`
	BegunAt   time.Time    `json:"begun_at"`
	Until     time.Time    `json:"until"`
	Over      bool         `json:"over"`
	Recovered bool         `json:"recovered" doc:"No lease counts as unreachable any more"`
	Hosts     []string     `json:"hosts"`
	Leases    []DrillLease `json:"leases"`
}

// DrillLease is what one lease felt of a drill.
type DrillLease struct {
	LeaseID            string        `json:"lease_id"`
	HostID             string        `json:"host_id"`
	Before             string        `json:"before" doc:"Its state when the drill began"`
	Now                string        `json:"now"`
	UnreachableSeconds int64         `json:"unreachable_seconds"`
	Ended              bool          `json:"ended" doc:"It ran, and was stopped or ended since the drill began"`
	Changes            []LeaseChange `json:"changes"`
}

// BeginDrill begins a drill.
func (c *Client) BeginDrill(ctx context.Context, in DrillRequest) (*Drill, error) {
	return do[Drill](ctx, c, http.MethodPost, "/v1/operator/drills", in)
}

// Drill returns a drill and what was felt of it so far.
func (c *Client) Drill(ctx context.Context, id string) (*Drill, error) {
	return do[Drill](ctx, c, http.MethodGet, "/v1/operator/drills/"+url.PathEscape(id), nil)
}

// EndDrill ends a drill now.
func (c *Client) EndDrill(ctx context.Context, id string) (*Drill, error) {
	return do[Drill](ctx, c, http.MethodPost, "/v1/operator/drills/"+url.PathEscape(id)+"/end", nil)
}
