package api

import (
	"context"
	"net/http"
	"time"
)

// VolumeTier is what a month's compute beyond a sum takes off.
type VolumeTier struct {
	From        Amount `json:"from" doc:"Of the month; what lies below is not discounted by it" example:"100.00"`
	BasisPoints int64  `json:"basis_points" minimum:"0" maximum:"10000" doc:"Off what lies between this and the next tier, in 1/100 of a per cent" example:"500"`
}

// VolumeTiers are what a calendar month's compute takes off for accounts in a currency.
type VolumeTiers struct {
	ID       string       `json:"id"`
	Currency string       `json:"currency" enum:"CNY,USD"`
	Tiers    []VolumeTier `json:"tiers" nullable:"false" doc:"Empty: nothing is taken off"`
	SetAt    time.Time    `json:"set_at" doc:"They are for months that begin later, until others are set"`
}

// SetVolumeTiers sets what months take off.
type SetVolumeTiers struct {
	Currency string       `json:"currency" enum:"CNY,USD"`
	Tiers    []VolumeTier `json:"tiers" doc:"In order; empty: nothing is taken off"`
}

// VolumeTiers returns what was set of volume discounts, newest first.
func (c *Client) VolumeTiers(ctx context.Context) ([]VolumeTiers, error) {
	return collect(all[VolumeTiers](ctx, c, "/v1/volume-discounts", nil))
}

// SetVolumeTiers sets what months that begin later take off. It is for operators.
func (c *Client) SetVolumeTiers(ctx context.Context, in SetVolumeTiers) (*VolumeTiers, error) {
	return do[VolumeTiers](ctx, c, http.MethodPost, "/v1/operator/volume-discounts", in)
}
