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
	Kind         string     `json:"kind" enum:"promotion,trial,coupon,volume_discount"`
	Currency     string     `json:"currency"`
	Amount       Amount     `json:"amount"`
	Spent        Amount     `json:"spent"`
	Left         Amount     `json:"left" doc:"What can be spent of it now"`
	Meters       []string   `json:"meters,omitempty" doc:"What it pays for; absent: all"`
	GPUModel     string     `json:"gpu_model,omitempty" doc:"It pays for leases of this model only; absent: of all"`
	SharePPM     int64      `json:"share_ppm,omitempty" doc:"Of a coupon of a share: it pays so many millionths of each use, up to amount in all; absent: all of it"`
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
	GPUModel     string     `json:"gpu_model,omitempty" maxLength:"100" doc:"For leases of this model only; left out: of all" example:"H100 SXM"`
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

// Coupon is a code by which accounts give themselves a grant, each once.
type Coupon struct {
	Code         string    `json:"code"`
	Rule         string    `json:"rule" doc:"Code, sum or share, and conditions, as it was written"`
	ValidSeconds int64     `json:"valid_seconds" doc:"Of the grant, from when it is redeemed"`
	Used         int64     `json:"used" doc:"By so many accounts"`
	CreatedAt    time.Time `json:"created_at"`
}

// CreateCoupon makes a coupon.
type CreateCoupon struct {
	Rule         string `json:"rule" maxLength:"300" doc:"Code, a sum or a share up to a sum, and conditions, such as WELCOME 12.5% upto=50.00CNY" example:"THANKS 50.00CNY max=100 until=2027-01-01T00:00:00Z meters=compute"`
	ValidSeconds int64  `json:"valid_seconds" minimum:"1" maximum:"316224000" doc:"How long the grant is valid from when it is redeemed"`
}

// RedeemCoupon redeems a coupon.
type RedeemCoupon struct {
	Code string `json:"code" maxLength:"64"`
}

// Coupons returns all coupons. It is for operators.
func (c *Client) Coupons(ctx context.Context) ([]Coupon, error) {
	return collect(all[Coupon](ctx, c, "/v1/operator/coupons", nil))
}

// CreateCoupon makes a coupon. It is for operators.
func (c *Client) CreateCoupon(ctx context.Context, in CreateCoupon) (*Coupon, error) {
	return do[Coupon](ctx, c, http.MethodPost, "/v1/operator/coupons", in)
}

// RedeemCoupon gives the caller's account the grant of a coupon, once.
func (c *Client) RedeemCoupon(ctx context.Context, code string) (*Grant, error) {
	return do[Grant](ctx, c, http.MethodPost, "/v1/coupons/redeem", RedeemCoupon{Code: code})
}
