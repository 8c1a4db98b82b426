package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Payment is money on its way into an account.
type Payment struct {
	ID               string           `json:"id"`
	AccountID        string           `json:"account_id"`
	Provider         string           `json:"provider" doc:"Such as stripe; bank: a transfer that an operator entered"`
	Currency         string           `json:"currency"`
	Amount           Amount           `json:"amount" doc:"What was asked for"`
	State            string           `json:"state" enum:"created,pending,aside,succeeded,credited,failed,expired,refunding,refunded,disputed"`
	CheckoutURL      string           `json:"checkout_url,omitempty" doc:"Where to pay, while it is pending"`
	Reference        string           `json:"reference,omitempty" doc:"The provider's name of it, or the bank's reference"`
	ReceivedMinor    int64            `json:"received_minor,omitempty" doc:"What the provider says that it has, in the minor unit of received_currency"`
	ReceivedCurrency string           `json:"received_currency,omitempty"`
	Credited         Amount           `json:"credited" doc:"What reached the wallet"`
	Refunded         Amount           `json:"refunded" doc:"What of it left the wallet for refunds, those under way included"`
	Reason           string           `json:"reason,omitempty" doc:"Why it failed, was reversed or put aside"`
	Attention        string           `json:"attention,omitempty" doc:"What an operator should look at"`
	CreatedAt        time.Time        `json:"created_at"`
	ChangedAt        time.Time        `json:"changed_at"`
	ExpiresAt        *time.Time       `json:"expires_at,omitempty" doc:"Until when it can be paid"`
	Refunds          []PaymentRefund  `json:"refunds,omitempty"`
	Disputes         []PaymentDispute `json:"disputes,omitempty"`
}

// PaymentRefund is a part of a payment that goes back to where it came from.
type PaymentRefund struct {
	ID        string    `json:"id"`
	Amount    Amount    `json:"amount"`
	State     string    `json:"state" enum:"open,done,failed"`
	Reference string    `json:"reference,omitempty" doc:"The provider's name of it"`
	Reason    string    `json:"reason,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// PaymentDispute is a payment that its payer's bank took back.
type PaymentDispute struct {
	Reference string    `json:"reference" doc:"The provider's name of it"`
	Amount    Amount    `json:"amount"`
	State     string    `json:"state" enum:"open,won,lost,aside" doc:"Won: by the cloud, and in the wallet again"`
	At        time.Time `json:"at"`
}

// CreatePayment asks for a payment.
type CreatePayment struct {
	Amount   Amount `json:"amount" doc:"In the account's currency, in whole cents or fen" example:"25.00"`
	Provider string `json:"provider,omitempty" maxLength:"32" doc:"Absent: the only one that there is" example:"stripe"`
}

// RefundPayment asks for a refund.
type RefundPayment struct {
	Amount Amount `json:"amount,omitempty" doc:"Absent: all that is left of the payment"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// ConfirmTransfer confirms a bank transfer.
type ConfirmTransfer struct {
	Amount Amount `json:"amount" doc:"Once more, as on the bank's statement"`
}

// ReversePayment says why a bank transfer was wrong.
type ReversePayment struct {
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// ResolvePayment decides on a payment that was put aside.
type ResolvePayment struct {
	Accept bool   `json:"accept,omitempty" doc:"Credit what came; else it is over, and given back at the provider"`
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// PaymentQuery narrows a list of payments.
type PaymentQuery struct {
	All       bool   // of all accounts, which is for operators
	State     string // empty: any
	Attention bool   // only what an operator should look at; with All
}

// CreatePayment begins a payment of the caller's account.
func (c *Client) CreatePayment(ctx context.Context, in CreatePayment) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodPost, "/v1/payments", in)
}

// Payments returns payments, newest first.
func (c *Client) Payments(ctx context.Context, q PaymentQuery) ([]Payment, error) {
	v, path := inState(q.State), "/v1/payments"
	if q.All {
		path = "/v1/operator/payments"
		if q.Attention {
			v.Set("attention", "true")
		}
	}
	return collect(all[Payment](ctx, c, path, v))
}

// Payment returns one payment with its refunds and disputes.
func (c *Client) Payment(ctx context.Context, id string) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodGet, "/v1/payments/"+url.PathEscape(id), nil)
}

// RefundPayment gives back a part or all of a payment. It is for operators.
func (c *Client) RefundPayment(ctx context.Context, id string, in RefundPayment) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodPost, "/v1/payments/"+url.PathEscape(id)+"/refund", in)
}

// EnterTransfer writes a bank transfer down, to be confirmed. It is for operators.
func (c *Client) EnterTransfer(ctx context.Context, in Deposit) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodPost, "/v1/operator/bank-transfers", in)
}

// ConfirmTransfer brings a bank transfer into the wallet. It is for operators.
func (c *Client) ConfirmTransfer(ctx context.Context, id string, in ConfirmTransfer) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodPost, "/v1/payments/"+url.PathEscape(id)+"/confirm", in)
}

// ReversePayment takes back a bank transfer that was entered wrongly. It is for
// operators.
func (c *Client) ReversePayment(ctx context.Context, id string, in ReversePayment) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodPost, "/v1/payments/"+url.PathEscape(id)+"/reverse", in)
}

// ResolvePayment decides on a payment that was put aside. It is for operators.
func (c *Client) ResolvePayment(ctx context.Context, id string, in ResolvePayment) (*Payment, error) {
	return do[Payment](ctx, c, http.MethodPost, "/v1/payments/"+url.PathEscape(id)+"/resolve", in)
}
