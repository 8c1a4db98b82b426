package api

import (
	"context"
	"net/http"
	"time"
)

// Grant is money that the operator gives an account for use.
type Grant struct {
	ID           string     `json:"id"`
	AccountID    string     `json:"account_id"`
	Kind         string     `json:"kind" enum:"promotion,trial"`
	Currency     string     `json:"currency"`
	Amount       Amount     `json:"amount"`
	Spent        Amount     `json:"spent"`
	Left         Amount     `json:"left" doc:"What can be spent of it now"`
	Meters       []string   `json:"meters,omitempty" doc:"What it pays for; absent: all"`
	ValidSeconds int64      `json:"valid_seconds,omitempty" doc:"From its first use on"`
	ActiveFrom   *time.Time `json:"active_from,omitempty" doc:"Absent: it has not been used yet"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty" doc:"Use from then on is not paid by it; absent: it has not been used yet"`
	Reference    string     `json:"reference,omitempty"`
	CreatedAt    time.Time  `json:"created_at"`
}

// CreateGrant gives an account money for use.
type CreateGrant struct {
	AccountID    string     `json:"account_id" maxLength:"64"`
	Kind         string     `json:"kind,omitempty" enum:"promotion,trial" default:"promotion" doc:"An account has one trial in its life"`
	Amount       Amount     `json:"amount" doc:"In the account's currency; more than 0" example:"20.00"`
	Meters       []string   `json:"meters,omitempty" doc:"What it pays for, such as compute; left out: all"`
	ValidSeconds int64      `json:"valid_seconds,omitempty" doc:"How long it is valid from its first use, in seconds; or"`
	ExpiresAt    *time.Time `json:"expires_at,omitempty" doc:"When it expires. A trial with neither is valid for 72 hours from its first use"`
	Reference    string     `json:"reference,omitempty" maxLength:"200" doc:"Why it is given"`
}

// Grants returns what the caller's account was given, newest first.
func (c *Client) Grants(ctx context.Context) ([]Grant, error) {
	return collect(all[Grant](ctx, c, "/v1/grants", nil))
}

// CreateGrant gives an account money for use. It is for operators.
func (c *Client) CreateGrant(ctx context.Context, in CreateGrant) (*Grant, error) {
	return do[Grant](ctx, c, http.MethodPost, "/v1/operator/grants", in)
}
