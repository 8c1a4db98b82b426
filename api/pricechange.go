package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// PriceChange is another price of a running lease on demand that its provider has
// proposed. It counts only if the renter accepts it.
type PriceChange struct {
	ID          string     `json:"id"`
	LeaseID     string     `json:"lease_id"`
	LeaseName   string     `json:"lease_name,omitempty" doc:"For its renter"`
	Currency    string     `json:"currency"`
	PerHour     Rate       `json:"per_hour" doc:"Of the lease's GPUs together, without the change"`
	NewPerHour  Rate       `json:"new_per_hour" doc:"As proposed"`
	Simulated   bool       `json:"simulated"`
	State       string     `json:"state" enum:"proposed,accepted,declined,withdrawn,expired"`
	EffectiveAt time.Time  `json:"effective_at" doc:"From when it counts once it is accepted"`
	AnswerBy    time.Time  `json:"answer_by" doc:"Without an answer by then the price stays as it is"`
	AnsweredAt  *time.Time `json:"answered_at,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
}

// PriceProposal is what a provider proposes to its renters.
type PriceProposal struct {
	LeaseID     string     `json:"lease_id,omitempty" maxLength:"64" doc:"Absent: every lease on demand on the host"`
	PerGPUHour  Rate       `json:"per_gpu_hour,omitempty" doc:"Of each GPU, more than 0"`
	EffectiveAt *time.Time `json:"effective_at,omitempty" doc:"Absent: after the notice that renters have to get, 7 days"`
}

// ProposePrice proposes another price to renters of a host's leases on demand.
func (c *Client) ProposePrice(ctx context.Context, hostID string, in PriceProposal) ([]PriceChange, error) {
	p, err := do[Page[PriceChange]](ctx, c, http.MethodPost, "/v1/hosts/"+url.PathEscape(hostID)+"/price-changes", in)
	if err != nil {
		return nil, err
	}
	return p.Items, nil
}

// HostPriceChanges returns what was proposed for leases on a host, newest first.
func (c *Client) HostPriceChanges(ctx context.Context, hostID string) ([]PriceChange, error) {
	return collect(all[PriceChange](ctx, c, "/v1/hosts/"+url.PathEscape(hostID)+"/price-changes", nil))
}

// PriceChanges returns the prices that were proposed to the account, newest first.
func (c *Client) PriceChanges(ctx context.Context) ([]PriceChange, error) {
	return collect(all[PriceChange](ctx, c, "/v1/price-changes", nil))
}

// AcceptPrice agrees to a proposed price.
func (c *Client) AcceptPrice(ctx context.Context, id string) (*PriceChange, error) {
	return do[PriceChange](ctx, c, http.MethodPost, "/v1/price-changes/"+url.PathEscape(id)+"/accept", nil)
}

// DeclinePrice keeps the price as it is.
func (c *Client) DeclinePrice(ctx context.Context, id string) (*PriceChange, error) {
	return do[PriceChange](ctx, c, http.MethodPost, "/v1/price-changes/"+url.PathEscape(id)+"/decline", nil)
}
