package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// PriceRule is what a price list does to the listed price of a meter.
type PriceRule struct {
	GPUModel string `json:"gpu_model,omitempty" maxLength:"100" doc:"Bundles of this model only, and before a rule without one; absent: of every model"`
	Meter    string `json:"meter" enum:"compute,storage,egress,ingress,public_ip,snapshot,volume"`
	OffPPM   int64  `json:"off_ppm,omitempty" minimum:"0" maximum:"1000000" doc:"Millionths off the listed price; or" example:"125000"`
	Rate     *Rate  `json:"rate,omitempty" doc:"A price instead of the listed one; of compute: for each GPU and hour"`
}

// PriceList is what an operator gives accounts: prices of their own on demand.
type PriceList struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Currency   string          `json:"currency,omitempty" doc:"Of its prices; absent: it has only shares off"`
	Rules      []PriceRule     `json:"rules" nullable:"false"`
	ValidFrom  time.Time       `json:"valid_from"`
	ValidUntil *time.Time      `json:"valid_until,omitempty" doc:"Nothing is quoted by it from then on; absent: for ever"`
	Accounts   []PricedAccount `json:"accounts" nullable:"false" doc:"That have or had it; for others than operators only their own"`
	CreatedAt  time.Time       `json:"created_at"`
}

// PricedAccount is an account that has or had a price list.
type PricedAccount struct {
	AccountID  string     `json:"account_id"`
	AssignedAt time.Time  `json:"assigned_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty" doc:"When it was taken away; absent: it was not"`
}

// CreatePriceList makes a price list.
type CreatePriceList struct {
	Name       string      `json:"name" maxLength:"100" example:"research"`
	Currency   string      `json:"currency,omitempty" enum:"CNY,USD" doc:"Of its prices; it can be given to accounts in this currency only"`
	Rules      []PriceRule `json:"rules" doc:"At most one for a meter of a model"`
	ValidFrom  *time.Time  `json:"valid_from,omitempty" doc:"Absent: now"`
	ValidUntil *time.Time  `json:"valid_until,omitempty" doc:"Absent: for ever"`
}

// AssignPriceList gives an account a price list.
type AssignPriceList struct {
	AccountID string `json:"account_id" maxLength:"64"`
}

// AppliedPriceList is the price list that a quote was made by.
type AppliedPriceList struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// PriceLists returns all price lists, newest first. It is for operators.
func (c *Client) PriceLists(ctx context.Context) ([]PriceList, error) {
	return collect(all[PriceList](ctx, c, "/v1/operator/price-lists", nil))
}

// OwnPriceLists returns the price lists that the caller's account has.
func (c *Client) OwnPriceLists(ctx context.Context) ([]PriceList, error) {
	return collect(all[PriceList](ctx, c, "/v1/price-lists", nil))
}

// CreatePriceList makes a price list. It is for operators.
func (c *Client) CreatePriceList(ctx context.Context, in CreatePriceList) (*PriceList, error) {
	return do[PriceList](ctx, c, http.MethodPost, "/v1/operator/price-lists", in)
}

// AssignPriceList gives an account a price list. It is for operators.
func (c *Client) AssignPriceList(ctx context.Context, listID, accountID string) (*PriceList, error) {
	return do[PriceList](ctx, c, http.MethodPost, "/v1/operator/price-lists/"+url.PathEscape(listID)+"/accounts", AssignPriceList{AccountID: accountID})
}

// WithdrawPriceList takes a price list from an account. It is for operators.
func (c *Client) WithdrawPriceList(ctx context.Context, listID, accountID string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/operator/price-lists/"+url.PathEscape(listID)+"/accounts/"+url.PathEscape(accountID), nil, nil, nil)
}
