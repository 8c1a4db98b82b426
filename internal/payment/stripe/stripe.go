package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	stripego "github.com/stripe/stripe-go/v85"
	"github.com/stripe/stripe-go/v85/webhook"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/payment"
)

// Name is the provider's.
const Name = "stripe"

// Config is what a Provider needs.
type Config struct {
	Key           string // secret or restricted API key
	WebhookSecret string // of the webhook endpoint, to check signatures by
	URL           string // of Stripe's API; empty: the real one
	ReturnURL     string // where payers go from the checkout, paid or not
	Timeout       time.Duration
}

// Provider is payment.Provider by Stripe. It is safe for concurrent use.
type Provider struct {
	cfg    Config
	client *stripego.Client
}

// New returns a Provider. It asks nothing of Stripe.
func New(cfg Config) (*Provider, error) {
	if cfg.Key == "" || cfg.WebhookSecret == "" || cfg.ReturnURL == "" {
		return nil, errors.New("stripe: want an API key, a webhook secret and a URL to return to")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 20 * time.Second
	}
	backend := &stripego.BackendConfig{
		HTTPClient: &http.Client{Timeout: cfg.Timeout}, EnableTelemetry: stripego.Bool(false), MaxNetworkRetries: stripego.Int64(1),
		// What it logs may be of a payer; errors come back to us anyway.
		LeveledLogger: &stripego.LeveledLogger{Level: stripego.LevelNull},
	}
	if cfg.URL != "" {
		backend.URL = stripego.String(cfg.URL)
	}
	return &Provider{cfg: cfg, client: stripego.NewClient(cfg.Key, stripego.WithBackends(stripego.NewBackendsWithConfig(backend)))}, nil
}

// Name implements payment.Provider.
func (p *Provider) Name() string { return Name }

// Create implements payment.Provider.
func (p *Provider) Create(ctx context.Context, o payment.Order) (payment.Checkout, error) {
	in := &stripego.CheckoutSessionCreateParams{
		Mode:              stripego.String(stripego.CheckoutSessionModePayment),
		ClientReferenceID: stripego.String(o.PaymentID),
		SuccessURL:        stripego.String(p.cfg.ReturnURL),
		CancelURL:         stripego.String(p.cfg.ReturnURL),
		ExpiresAt:         stripego.Int64(o.ExpiresAt.Unix()),
		// The amount that is paid must be the one that was asked for.
		AdaptivePricing: &stripego.CheckoutSessionCreateAdaptivePricingParams{Enabled: stripego.Bool(false)},
		LineItems: []*stripego.CheckoutSessionCreateLineItemParams{{
			Quantity: stripego.Int64(1),
			PriceData: &stripego.CheckoutSessionCreateLineItemPriceDataParams{
				Currency: stripego.String(strings.ToLower(string(o.Currency))), UnitAmount: stripego.Int64(o.Minor),
				ProductData: &stripego.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: stripego.String("Account " + o.AccountID)},
			},
		}},
		PaymentIntentData: &stripego.CheckoutSessionCreatePaymentIntentDataParams{Metadata: map[string]string{paymentKey: o.PaymentID}},
	}
	in.SetIdempotencyKey(o.PaymentID)
	s, err := p.client.V1CheckoutSessions.Create(ctx, in)
	if err != nil {
		return payment.Checkout{}, final(err)
	}
	return payment.Checkout{Ref: s.ID, URL: s.URL}, nil
}

// The names of our identifiers in Stripe's metadata.
const (
	paymentKey = "suanli_payment"
	refundKey  = "suanli_refund"
)

// Look implements payment.Provider.
func (p *Provider) Look(ctx context.Context, o payment.Order, ref string) (payment.Observation, error) {
	s, err := p.client.V1CheckoutSessions.Retrieve(ctx, ref, &stripego.CheckoutSessionRetrieveParams{Expand: []*string{stripego.String("payment_intent")}})
	if err != nil {
		return payment.Observation{}, err // whatever it is, it is not that nobody paid
	}
	return ofSession(s, false), nil
}

// Refund implements payment.Provider. Stripe forgets idempotency keys after a day,
// so that a refund that may have been made is looked for first.
func (p *Provider) Refund(ctx context.Context, r payment.RefundOrder) (payment.Observation, error) {
	list := &stripego.RefundListParams{PaymentIntent: stripego.String(r.ChargeRef)}
	list.Limit = stripego.Int64(100)
	for made, err := range p.client.V1Refunds.List(ctx, list).All(ctx) {
		if err != nil {
			return payment.Observation{}, err
		}
		if made.Metadata[refundKey] == r.RefundID {
			return ofRefund(made), nil
		}
	}
	in := &stripego.RefundCreateParams{PaymentIntent: stripego.String(r.ChargeRef), Amount: stripego.Int64(r.Minor), Metadata: map[string]string{refundKey: r.RefundID}}
	in.SetIdempotencyKey(r.RefundID)
	made, err := p.client.V1Refunds.Create(ctx, in)
	if err != nil {
		return payment.Observation{}, final(err)
	}
	return ofRefund(made), nil
}

// final makes a Refusal of what would be the same at every further attempt. A key
// that is wrong is not: it may be put right.
func final(err error) error {
	var e *stripego.Error
	if !errors.As(err, &e) || e.Type == stripego.ErrorTypeIdempotency {
		return err
	}
	switch e.HTTPStatusCode {
	case http.StatusBadRequest, http.StatusPaymentRequired, http.StatusNotFound:
		return &payment.Refusal{Message: e.Msg}
	}
	return err
}

// Accepted implements payment.Provider: any 2xx is enough.
func (p *Provider) Accepted() (contentType, body string) {
	return "application/json", `{"received":true}`
}

// eventTypes are what is of interest, for the webhook endpoint and for Since.
var eventTypes = []string{
	"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed", "checkout.session.expired",
	"refund.created", "refund.updated", "refund.failed",
	"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed", "charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated",
}

// Callback implements payment.Provider.
func (p *Provider) Callback(header http.Header, body []byte) ([]payment.Observation, error) {
	e, err := webhook.ConstructEventWithOptions(body, header.Get("Stripe-Signature"), p.cfg.WebhookSecret,
		// What is read of an event is the same in all versions, and amounts are
		// compared with what was asked for.
		webhook.ConstructEventOptions{IgnoreAPIVersionMismatch: true})
	for _, wrong := range []error{webhook.ErrInvalidHeader, webhook.ErrNoValidSignature, webhook.ErrNotSigned, webhook.ErrTooOld} {
		if errors.Is(err, wrong) {
			return nil, payment.ErrSignature
		}
	}
	if err != nil {
		return nil, err
	}
	return ofEvent(&e)
}

// Since implements payment.Provider.
func (p *Provider) Since(ctx context.Context, from time.Time) ([]payment.Observation, error) {
	in := &stripego.EventListParams{CreatedRange: &stripego.RangeQueryParams{GreaterThanOrEqual: from.Unix()}}
	in.Limit = stripego.Int64(100)
	for _, t := range eventTypes {
		in.Types = append(in.Types, stripego.String(t))
	}
	var out []payment.Observation
	for e, err := range p.client.V1Events.List(ctx, in).All(ctx) {
		if err != nil {
			return nil, err
		}
		seen, err := ofEvent(e)
		if err != nil {
			return nil, err
		}
		out = append(out, seen...)
	}
	slices.Reverse(out) // Stripe lists the newest first
	return out, nil
}

// ofEvent reads an event. What is of no interest is nothing.
func ofEvent(e *stripego.Event) ([]payment.Observation, error) {
	if !slices.Contains(eventTypes, string(e.Type)) {
		return nil, nil
	}
	if e.Data == nil {
		return nil, fmt.Errorf("event %s has no data", e.ID)
	}
	var o payment.Observation
	switch {
	case strings.HasPrefix(string(e.Type), "checkout."):
		var s stripego.CheckoutSession
		if err := json.Unmarshal(e.Data.Raw, &s); err != nil {
			return nil, fmt.Errorf("event %s: %w", e.ID, err)
		}
		o = ofSession(&s, e.Type == "checkout.session.async_payment_failed")
		if ident.Check(ident.Payment, o.PaymentID) != nil {
			return nil, nil
		}
	case strings.HasPrefix(string(e.Type), "refund."):
		var r stripego.Refund
		if err := json.Unmarshal(e.Data.Raw, &r); err != nil {
			return nil, fmt.Errorf("event %s: %w", e.ID, err)
		}
		if o = ofRefund(&r); o.ChargeRef == "" {
			return nil, nil
		}
	default:
		var d stripego.Dispute
		if err := json.Unmarshal(e.Data.Raw, &d); err != nil {
			return nil, fmt.Errorf("event %s: %w", e.ID, err)
		}
		var moved bool
		if o, moved = ofDispute(&d); !moved || o.ChargeRef == "" {
			return nil, nil
		}
	}
	return []payment.Observation{o}, nil
}

func ofSession(s *stripego.CheckoutSession, failed bool) payment.Observation {
	o := payment.Observation{Kind: payment.SawWaiting, PaymentID: s.ClientReferenceID, Ref: s.ID, Minor: s.AmountTotal, Currency: strings.ToUpper(string(s.Currency))}
	var intent stripego.PaymentIntent
	if s.PaymentIntent != nil {
		intent = *s.PaymentIntent
	}
	o.ChargeRef = intent.ID
	switch {
	case s.Status == stripego.CheckoutSessionStatusExpired:
		o.Kind = payment.SawExpired
	case s.Status != stripego.CheckoutSessionStatusComplete:
	case s.PaymentStatus == stripego.CheckoutSessionPaymentStatusPaid && o.Ref != "":
		o.Kind = payment.SawPaid
	case failed, intent.Status == stripego.PaymentIntentStatusRequiresPaymentMethod, intent.Status == stripego.PaymentIntentStatusCanceled:
		// A debit or transfer that was begun at the checkout did not go through.
		o.Kind, o.Reason = payment.SawFailed, "the payer's bank did not pay"
	}
	return o
}

func ofRefund(r *stripego.Refund) payment.Observation {
	o := payment.Observation{Kind: payment.SawRefund, RefundID: r.Metadata[refundKey], ItemRef: r.ID, Minor: r.Amount, Currency: strings.ToUpper(string(r.Currency)),
		Progress: payment.StillOpen, Reason: string(r.FailureReason)}
	if r.PaymentIntent != nil {
		o.ChargeRef = r.PaymentIntent.ID
	}
	switch r.Status {
	case stripego.RefundStatusSucceeded:
		o.Progress = payment.Done
	case stripego.RefundStatusFailed, stripego.RefundStatusCanceled:
		o.Progress = payment.NotDone
	}
	return o
}

// ofDispute says whether a dispute has moved money: inquiries and those that were
// prevented have not.
func ofDispute(d *stripego.Dispute) (o payment.Observation, moved bool) {
	o = payment.Observation{Kind: payment.SawDispute, ItemRef: d.ID, Minor: d.Amount, Currency: strings.ToUpper(string(d.Currency)), Reason: string(d.Reason), Progress: payment.StillOpen}
	if d.PaymentIntent != nil {
		o.ChargeRef = d.PaymentIntent.ID
	}
	switch d.Status {
	case stripego.DisputeStatusNeedsResponse, stripego.DisputeStatusUnderReview:
	case stripego.DisputeStatusLost:
		o.Progress = payment.Lost
	case stripego.DisputeStatusWon:
		o.Progress = payment.Won
	default:
		return o, false
	}
	return o, d.ID != ""
}
