package api

import (
	"context"
	"net/http"
	"net/url"
)

// InvoicesOf returns the invoices of an account, newest first. It is for operators.
func (c *Client) InvoicesOf(ctx context.Context, accountID string) ([]Invoice, error) {
	return collect(all[Invoice](ctx, c, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/invoices", nil))
}

// GrantsOf returns what an account was given for use, newest first. It is for operators.
func (c *Client) GrantsOf(ctx context.Context, accountID string) ([]Grant, error) {
	return collect(all[Grant](ctx, c, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/grants", nil))
}

// BillingProfileOf returns who an account is on paper. It is for operators.
func (c *Client) BillingProfileOf(ctx context.Context, accountID string) (*BillingProfile, error) {
	return do[BillingProfile](ctx, c, http.MethodGet, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/billing-profile", nil)
}
