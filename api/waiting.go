package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// WaitingRequestCreate asks to rent something as soon as there is room for it.
type WaitingRequestCreate struct {
	Name        string `json:"name,omitempty" maxLength:"63" doc:"Of the request and of its lease"`
	GPUModel    string `json:"gpu_model" minLength:"1" maxLength:"100"`
	GPUs        int    `json:"gpus" minimum:"1" maximum:"64" doc:"On one host"`
	Region      string `json:"region,omitempty" maxLength:"100" doc:"Left out: any"`
	Zone        string `json:"zone,omitempty" maxLength:"100" doc:"Left out: any"`
	Simulated   bool   `json:"simulated,omitempty" doc:"Simulated GPUs, and no others"`
	Template    string `json:"template,omitempty" doc:"Template to run; a template or an image is needed" maxLength:"100"`
	Image       string `json:"image,omitempty" doc:"Image to run, instead of the template's" maxLength:"520"`
	DiskGiB     int64  `json:"disk_gib,omitempty" doc:"Disk, in GiB; the template's if left out"`
	MaxPerHour  Amount `json:"max_per_hour" doc:"The most that an hour of all of it may cost while it runs, without egress, in your account's currency: above that it waits on"`
	WaitSeconds int64  `json:"wait_seconds" minimum:"60" maximum:"2592000" doc:"It waits for so long, and expires then"`
	// EstimateSeconds is how long the lease runs at most.
	EstimateSeconds int64             `json:"estimate_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"How long it runs at most, 60 or more: its lease stops then. With it, it may start ahead of a request that waits for more room; left out, it runs until you end it"`
	Priority        int               `json:"priority,omitempty" minimum:"-10" maximum:"10" default:"0" doc:"Among your account's own requests, the larger first; it gets none of them ahead of another account's"`
	Labels          map[string]string `json:"labels,omitempty"`
	Entrypoint      []string          `json:"entrypoint,omitempty" doc:"Instead of the image's"`
	Command         []string          `json:"command,omitempty" doc:"Instead of the image's"`
	StartScript     string            `json:"start_script,omitempty" doc:"Run by /bin/sh before the command"`
	Environment     map[string]string `json:"environment,omitempty" doc:"Kept encrypted"`
	Ports           []int             `json:"ports,omitempty" doc:"TCP ports served inside"`
	IdleStop        *IdleStop         `json:"idle_stop,omitempty" doc:"Left out: the template's, or else the cloud's"`
	SpendingCap     *Amount           `json:"spending_cap,omitempty" doc:"Stop when this much is due: more than 0; left out, there is no cap"`
}

// WaitingRequest is what somebody wants to rent as soon as there is room. Nothing is
// charged or set aside while it waits.
type WaitingRequest struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	State     string `json:"state" enum:"waiting,started,cancelled,expired,failed"`
	Code      string `json:"code,omitempty" doc:"What it waits for, or how it ended, for programs: no_room, behind_others, price_above_max, no_such_host, quota_gpus, or the code of what refused its lease, such as insufficient_balance"`
	Message   string `json:"message,omitempty" doc:"The same for people"`
	GPUModel  string `json:"gpu_model"`
	GPUs      int    `json:"gpus"`
	Region    string `json:"region,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Simulated bool   `json:"simulated" doc:"For GPUs that are simulated: there is no hardware"`
	Template  string `json:"template,omitempty"`
	Image     string `json:"image"`
	DiskGiB   int64  `json:"disk_gib"`

	MaxPerHour      Amount     `json:"max_per_hour"`
	Currency        string     `json:"currency"`
	EstimateSeconds int64      `json:"estimate_seconds,omitempty"`
	Priority        int        `json:"priority"`
	Failures        int        `json:"failures" doc:"How often accepting its lease was refused, as for want of money"`
	LeaseID         string     `json:"lease_id,omitempty" doc:"What it has become"`
	CreatedAt       time.Time  `json:"created_at"`
	ExpiresAt       time.Time  `json:"expires_at"`
	EndedAt         *time.Time `json:"ended_at,omitempty" doc:"When it no longer waited"`
}

// WaitingRequestDetails is a request with where it stands.
type WaitingRequestDetails struct {
	WaitingRequest
	Position    int                   `json:"position,omitempty" doc:"Its turn among all requests for this model, 1 being the next, if all fit and nobody else comes; absent: it does not wait"`
	Explanation *PlacementExplanation `json:"explanation,omitempty" doc:"Where it would go now, or why no host holds it and what would; absent: it does not wait"`
}

// CreateWaitingRequest asks to rent something as soon as there is room for it.
func (c *Client) CreateWaitingRequest(ctx context.Context, in WaitingRequestCreate) (*WaitingRequest, error) {
	return do[WaitingRequest](ctx, c, http.MethodPost, "/v1/waiting-requests", in)
}

// WaitingRequests returns the caller's requests, newest first; with open, those that
// wait.
func (c *Client) WaitingRequests(ctx context.Context, open bool) ([]WaitingRequest, error) {
	q := url.Values{}
	if open {
		q.Set("open", "true")
	}
	return collect(all[WaitingRequest](ctx, c, "/v1/waiting-requests", q))
}

// WaitingRequest returns one request with where it stands, by identifier or by name.
func (c *Client) WaitingRequest(ctx context.Context, nameOrID string) (*WaitingRequestDetails, error) {
	return do[WaitingRequestDetails](ctx, c, http.MethodGet, waitingPath(nameOrID), nil)
}

// CancelWaitingRequest withdraws a request. One that has become a lease is refused.
func (c *Client) CancelWaitingRequest(ctx context.Context, nameOrID string) (*WaitingRequest, error) {
	return do[WaitingRequest](ctx, c, http.MethodDelete, waitingPath(nameOrID), nil)
}

func waitingPath(nameOrID string) string { return "/v1/waiting-requests/" + url.PathEscape(nameOrID) }
