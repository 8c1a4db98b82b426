package payment

import (
	"context"
	"errors"
	"net/http"
	"time"

	"suanli.dev/internal/money"
)

// Provider is a company that takes payments, such as Stripe. Amounts are in the
// currency's minor unit: cents, fen. Each method may be called again with the same
// input, by any replica, and must then mean the same act: Create and Refund hand the
// identifier on as the provider's idempotency key.
type Provider interface {
	// Name is what payments, the address of callbacks and people call it.
	Name() string
	// Create makes a place where exactly this amount can be paid. A Refusal says
	// that there will be none; any other error, that nobody knows.
	Create(ctx context.Context, o Order) (Checkout, error)
	// Look asks how a payment stands.
	Look(ctx context.Context, o Order, ref string) (Observation, error)
	// Refund gives back a part of a payment, or says how that stands. A Refusal says
	// that nothing is and will be given back by it.
	Refund(ctx context.Context, r RefundOrder) (Observation, error)
	// Callback checks who a message is from, and only then reads it. What is of no
	// interest is no observation and no error. An error that is ErrSignature says
	// that it is not the provider's.
	Callback(header http.Header, body []byte) ([]Observation, error)
	// Accepted is the answer by which the provider knows that it need not send a
	// message again.
	Accepted() (contentType, body string)
	// Since lists what has happened at the provider from a moment on, oldest first:
	// what callbacks would have said.
	Since(ctx context.Context, from time.Time) ([]Observation, error)
}

// ErrSignature says that a callback is not from whom it says.
var ErrSignature = errors.New("the signature is missing or wrong")

// Refusal is a provider's final no.
type Refusal struct{ Message string }

// Error is what the provider said.
func (r *Refusal) Error() string { return r.Message }

// Order is what is to be paid.
type Order struct {
	PaymentID string
	AccountID string
	Minor     int64
	Currency  money.Currency
	ExpiresAt time.Time
}

// Checkout is where an order can be paid.
type Checkout struct {
	Ref string // the provider's name of it, unique there
	URL string // where the payer goes; empty: nowhere
}

// RefundOrder is what is to be given back of a payment.
type RefundOrder struct {
	RefundID  string
	PaymentID string
	ChargeRef string
	Minor     int64
	Currency  money.Currency
}

// Kind is what an observation is about.
type Kind string

// The kinds of observations.
const (
	SawWaiting Kind = "waiting" // nothing has happened yet
	SawPaid    Kind = "paid"
	SawFailed  Kind = "failed"
	SawExpired Kind = "expired"
	SawRefund  Kind = "refund"
	SawDispute Kind = "dispute"
)

// How far a refund or a dispute is, as a provider says.
const (
	StillOpen = "open"
	Done      = "done" // of a refund
	NotDone   = "failed"
	Won       = "won" // of a dispute, by the cloud
	Lost      = "lost"
)

// Observation is what a provider says of a payment at some moment.
type Observation struct {
	Kind      Kind
	PaymentID string `json:",omitempty"` // ours; empty: not said, see ChargeRef
	Ref       string `json:",omitempty"` // as in Checkout
	ChargeRef string `json:",omitempty"` // the provider's name of the money itself
	Minor     int64  `json:",omitempty"` // paid, given back or disputed
	Currency  string `json:",omitempty"` // ISO 4217, in capitals
	Reason    string `json:",omitempty"`

	RefundID string `json:",omitempty"` // ours; empty: made at the provider itself
	ItemRef  string `json:",omitempty"` // the provider's name of the refund or dispute
	Progress string `json:",omitempty"` // of a refund or dispute: open, done, failed, won, lost
}
