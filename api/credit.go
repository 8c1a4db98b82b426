package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// CreditLimit is how far below zero an account's compute may run. An account with
// one is postpaid.
type CreditLimit struct {
	AccountID   string     `json:"account_id"`
	Currency    string     `json:"currency"`
	CreditLimit Amount     `json:"credit_limit" doc:"0: prepaid"`
	Used        Amount     `json:"used" doc:"Of the limit, by what is posted and what is used and not posted yet"`
	NetDays     int        `json:"net_days" doc:"Days to pay an invoice, by the account's calendar"`
	SetAt       *time.Time `json:"set_at,omitempty" doc:"Absent: never"`
	Reason      string     `json:"reason,omitempty"`
}

// SetCreditLimit asks for another credit limit.
type SetCreditLimit struct {
	CreditLimit Amount `json:"credit_limit" doc:"0 revokes it: what runs into debt stops as with an empty wallet"`
	NetDays     *int   `json:"net_days,omitempty" minimum:"0" maximum:"366" doc:"Days to pay an invoice; absent: the operator's default"`
	Reason      string `json:"reason,omitempty" maxLength:"400"`
}

// Due is what is owed of an invoice, and by when.
type Due struct {
	InvoiceID  string     `json:"invoice_id"`
	Number     string     `json:"number" example:"INV-000001"`
	AccountID  string     `json:"account_id"`
	Currency   string     `json:"currency"`
	State      string     `json:"state" enum:"open,due,overdue,paid,credited,uncollectible" doc:"Derived from postings: due on its last day, overdue after it"`
	Total      Amount     `json:"total"`
	Credited   Amount     `json:"credited" doc:"By credit notes"`
	WrittenOff Amount     `json:"written_off"`
	Owed       Amount     `json:"owed" doc:"Money pays the oldest invoice first"`
	DueAt      time.Time  `json:"due_at" doc:"The end of its last day, by the account's calendar"`
	StopsAt    *time.Time `json:"stops_at,omitempty" doc:"When compute stops if nothing is paid; absent: it does not, or it has"`
}

// WriteOff gives up what is owed of an invoice.
type WriteOff struct {
	Reason string `json:"reason,omitempty" maxLength:"400"`
}

// CreditLimit returns the credit limit of the caller's account.
func (c *Client) CreditLimit(ctx context.Context) (*CreditLimit, error) {
	return do[CreditLimit](ctx, c, http.MethodGet, "/v1/credit-limit", nil)
}

// CreditLimitOf returns the credit limit of an account. It is for operators.
func (c *Client) CreditLimitOf(ctx context.Context, accountID string) (*CreditLimit, error) {
	return do[CreditLimit](ctx, c, http.MethodGet, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/credit-limit", nil)
}

// SetCreditLimit gives an account another credit limit. It is for operators.
func (c *Client) SetCreditLimit(ctx context.Context, accountID string, in SetCreditLimit) (*CreditLimit, error) {
	return do[CreditLimit](ctx, c, http.MethodPut, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/credit-limit", in)
}

// Dues returns how the invoices of the caller's account stand, newest first.
func (c *Client) Dues(ctx context.Context) ([]Due, error) {
	return collect(all[Due](ctx, c, "/v1/dues", nil))
}

// DuesOf returns how an account's invoices stand, newest first. It is for
// operators.
func (c *Client) DuesOf(ctx context.Context, accountID string) ([]Due, error) {
	return collect(all[Due](ctx, c, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/dues", nil))
}

// Due returns how an invoice stands.
func (c *Client) Due(ctx context.Context, invoiceID string) (*Due, error) {
	return do[Due](ctx, c, http.MethodGet, "/v1/invoices/"+url.PathEscape(invoiceID)+"/due", nil)
}

// WriteOffInvoice gives up what is owed of an overdue invoice of any account. It
// is for operators.
func (c *Client) WriteOffInvoice(ctx context.Context, invoiceID string, in WriteOff) (*Due, error) {
	return do[Due](ctx, c, http.MethodPost, "/v1/operator/invoices/"+url.PathEscape(invoiceID)+"/write-off", in)
}
