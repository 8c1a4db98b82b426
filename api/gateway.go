package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// CreateGatewayToken is a token that lets one gateway join.
type CreateGatewayToken struct {
	Name             string `json:"name,omitempty" maxLength:"100" doc:"Of the gateway; absent: its machine's own name"`
	ExpiresInSeconds int64  `json:"expires_in_seconds,omitempty" minimum:"60" maximum:"2592000" default:"3600"`
}

// Gateway is a gateway at another place than the control plane's.
type Gateway struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Build     string    `json:"build" doc:"Version of its program when it joined"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateGatewayToken makes a token that lets one gateway join.
func (c *Client) CreateGatewayToken(ctx context.Context, in CreateGatewayToken) (*JoinToken, error) {
	return do[JoinToken](ctx, c, http.MethodPost, "/v1/operator/gateway-tokens", in)
}

// Gateways lists the gateways that have joined.
func (c *Client) Gateways(ctx context.Context) ([]Gateway, error) {
	return collect(all[Gateway](ctx, c, "/v1/operator/gateways", url.Values{}))
}

// RemoveGateway turns a gateway away for good.
func (c *Client) RemoveGateway(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/operator/gateways/"+url.PathEscape(id), nil, nil, nil)
}
