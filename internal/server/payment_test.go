package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/money"
	"suanli.dev/internal/payment"
)

func init() {
	parts = append(parts, withPayments)
	belongings["payment_id"] = func(w *world, p person) string {
		made, err := w.server.Payments.Create(w.t.Context(), p.principal(), 5_000_000, "", "")
		if err != nil {
			w.t.Fatal(err)
		}
		return made.ID
	}
}

// withPayments adds payments, with a provider in memory, to a world.
func withPayments(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.Payments, err = payment.New(payment.Config{DB: w.db, Clock: w.clock.Now, Money: c.Billing, Audit: c.Accounts.Audit, Providers: []payment.Provider{cashier{}},
		CurrencyOf: func(ctx context.Context, id string) (money.Currency, error) {
			a, err := c.Accounts.Account(ctx, id)
			return a.Currency, err
		}})
	if err == nil {
		err = c.Payments.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// cashier is a provider that agrees to everything and believes who says "right".
type cashier struct{}

func (cashier) Name() string { return "cashier" }

func (cashier) Create(_ context.Context, o payment.Order) (payment.Checkout, error) {
	return payment.Checkout{Ref: "cs_" + o.PaymentID, URL: "https://pay.example.com/" + o.PaymentID}, nil
}

func (cashier) Look(context.Context, payment.Order, string) (payment.Observation, error) {
	return payment.Observation{Kind: payment.SawWaiting}, nil
}

func (cashier) Refund(_ context.Context, r payment.RefundOrder) (payment.Observation, error) {
	return payment.Observation{Kind: payment.SawRefund, ItemRef: "re_" + r.RefundID, Minor: r.Minor, Currency: string(r.Currency), Progress: payment.Done}, nil
}

func (cashier) Callback(h http.Header, body []byte) ([]payment.Observation, error) {
	if h.Get("Signature") != "right" {
		return nil, payment.ErrSignature
	}
	var o payment.Observation
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, errors.New("not JSON")
	}
	return []payment.Observation{o}, nil
}

func (cashier) Accepted() (string, string) { return "text/plain", "success" }

func (cashier) Since(context.Context, time.Time) ([]payment.Observation, error) { return nil, nil }

func TestARenterPaysOverHTTPAndAnOperatorGivesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := api.IdempotencyKey(t.Context(), "k1")
	p, err := w.ada.client.CreatePayment(ctx, api.CreatePayment{Amount: 25_000_000})
	if err != nil || p.State != "pending" || p.CheckoutURL == "" || p.Provider != "cashier" {
		t.Fatalf("%+v, %v", p, err)
	}
	again, err := w.ada.client.CreatePayment(ctx, api.CreatePayment{Amount: 25_000_000})
	if err != nil || again.ID != p.ID {
		t.Errorf("%+v, %v", again, err)
	}
	said := payment.Observation{Kind: payment.SawPaid, PaymentID: p.ID, Ref: "cs_" + p.ID, ChargeRef: "pi", Minor: 2500, Currency: "USD"}
	w.send("POST", "/v1/payment-callbacks/cashier", "", said).want(t, 422, "callback_signature")
	w.send("POST", "/v1/payment-callbacks/paypal", "", said, "Signature", "right").want(t, 404, "payment_provider_unknown")
	w.send("POST", "/v1/payment-callbacks/cashier", "", "nonsense", "Signature", "right").want(t, 422, "callback_invalid")
	w.send("POST", "/v1/payment-callbacks/cashier", "", `"`+strings.Repeat("x", maxCallback)+`"`, "Signature", "right").want(t, 422, "callback_invalid")
	for range 2 {
		if r := w.send("POST", "/v1/payment-callbacks/cashier", "", said, "Signature", "right"); r.Status != 200 || r.Body != "success" || r.Header.Get("Content-Type") != "text/plain" {
			t.Fatalf("the provider is answered %d %q", r.Status, r.Body)
		}
	}
	if b, err := w.ada.client.Balance(t.Context()); err != nil || b.Settled != 25_000_000 {
		t.Errorf("%+v, %v", b, err)
	}
	if p, err = w.operator.client.RefundPayment(t.Context(), p.ID, api.RefundPayment{Amount: 10_000_000, Reason: "asked"}); err != nil || p.State != "credited" || p.Refunded != 10_000_000 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err = w.ada.client.Payment(t.Context(), p.ID); err != nil || len(p.Refunds) != 1 || p.CheckoutURL != "" {
		t.Errorf("%+v, %v", p, err)
	}
	if list, err := w.eve.client.Payments(t.Context(), api.PaymentQuery{}); err != nil || len(list) != 0 {
		t.Errorf("another account sees %+v, %v", list, err)
	}
	if list, err := w.operator.client.Payments(t.Context(), api.PaymentQuery{All: true, State: "credited"}); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAnOperatorEntersConfirmsAndReversesABankTransferOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := api.Deposit{AccountID: w.ada.AccountID, Amount: 7_000_000, Reference: "FT-9"}
	c, ctx := w.operator.client, t.Context()
	p, err := c.EnterTransfer(ctx, in)
	if err != nil || p.State != "pending" {
		t.Fatalf("%+v, %v", p, err)
	}
	w.send("POST", "/v1/operator/deposits", w.operator.token, in).want(t, 409, "bank_reference_used")
	if p, err = c.ConfirmTransfer(ctx, p.ID, api.ConfirmTransfer{Amount: 7_000_000}); err != nil || p.State != "credited" {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err = c.ReversePayment(ctx, p.ID, api.ReversePayment{Reason: "another customer's"}); err != nil || p.State != "refunded" {
		t.Fatalf("%+v, %v", p, err)
	}
	w.send("POST", "/v1/payments/"+p.ID+"/resolve", w.operator.token, api.ResolvePayment{}).want(t, 409, "payment_state")
	if b, err := w.ada.client.Balance(ctx); err != nil || b.Settled != 0 {
		t.Errorf("%+v, %v", b, err)
	}
}
