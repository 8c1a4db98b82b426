package server

import (
	"context"
	"io"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/payment"
)

// maxCallback is how large a provider's message may be, in bytes.
const maxCallback = 256 << 10

// PaymentList is embedded in the input of operations that list payments.
type PaymentList struct {
	Paging
	State string `query:"state" enum:"created,pending,aside,succeeded,credited,failed,expired,refunding,refunded,disputed" doc:"Only payments in this state"`
}

// PaymentPath is embedded in the input of operations on one payment.
type PaymentPath struct {
	PaymentID string `path:"payment_id" maxLength:"64"`
}

func (a *API) registerPayments() {
	if a.Payments == nil {
		return
	}
	register(a, operation{
		ID: "createPayment", Method: http.MethodPost, Path: "/v1/payments", Summary: "Pay into your account", Tag: tagBilling, Action: account.WriteBilling,
		Status: http.StatusCreated, Idempotent: true,
		Description: "Pay at the answer's `checkout_url` before it expires. The amount is in your balance when the state is `credited`. Send an Idempotency-Key: repeated with it after a failure, it goes on with the same payment.",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreatePayment]) (*body[api.Payment], error) {
		return onePayment(a.Payments.Create(ctx, p, in.Body.Amount, in.Body.Provider, requestKey(ctx)))
	})
	register(a, operation{
		ID: "listPayments", Method: http.MethodGet, Path: "/v1/payments", Summary: "List your account's payments, newest first", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *PaymentList) (*body[page[api.Payment]], error) {
		return a.payments(ctx, payment.Filter{AccountID: p.AccountID, State: payment.State(in.State), Before: in.Cursor, Limit: in.Limit})
	})
	register(a, operation{
		ID: "getPayment", Method: http.MethodGet, Path: "/v1/payments/{payment_id}", Summary: "Show a payment with its refunds and disputes", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *PaymentPath) (*body[api.Payment], error) {
		of := p.AccountID
		if p.May(account.Operate) {
			of = ""
		}
		return onePayment(a.Payments.Payment(ctx, of, in.PaymentID))
	})
	register(a, operation{
		ID: "listAllPayments", Method: http.MethodGet, Path: "/v1/operator/payments", Summary: "List all accounts' payments, newest first", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *struct {
		PaymentList
		Attention bool `query:"attention" doc:"Only what an operator should look at"`
	}) (*body[page[api.Payment]], error) {
		return a.payments(ctx, payment.Filter{State: payment.State(in.State), Attention: in.Attention, Before: in.Cursor, Limit: in.Limit})
	})
	register(a, operation{
		ID: "refundPayment", Method: http.MethodPost, Path: "/v1/payments/{payment_id}/refund", Summary: "Give back a payment, or a part of it", Tag: tagBilling, Action: account.Operate, Idempotent: true,
		Description: "It leaves the wallet at once, which must have it free, and is sent to the provider. Of a bank transfer it says that you have paid it back.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		PaymentPath
		Body api.RefundPayment
	}) (*body[api.Payment], error) {
		return onePayment(a.Payments.Refund(ctx, p, in.PaymentID, in.Body.Amount, in.Body.Reason, requestKey(ctx)))
	})
	register(a, operation{
		ID: "enterTransfer", Method: http.MethodPost, Path: "/v1/operator/bank-transfers", Summary: "Enter a bank transfer, to be confirmed", Tag: tagBilling, Action: account.Operate,
		Status: http.StatusCreated, Idempotent: true, Description: "An account has each of the bank's references once. It reaches the wallet when it is confirmed.",
	}, func(ctx context.Context, p account.Principal, in *body[api.Deposit]) (*body[api.Payment], error) {
		return onePayment(a.Payments.Enter(ctx, p, transferOf(in.Body), requestKey(ctx)))
	})
	register(a, operation{
		ID: "confirmTransfer", Method: http.MethodPost, Path: "/v1/payments/{payment_id}/confirm", Summary: "Confirm a bank transfer that was entered", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, p account.Principal, in *struct {
		PaymentPath
		Body api.ConfirmTransfer
	}) (*body[api.Payment], error) {
		return onePayment(a.Payments.Confirm(ctx, p, in.PaymentID, in.Body.Amount))
	})
	register(a, operation{
		ID: "reversePayment", Method: http.MethodPost, Path: "/v1/payments/{payment_id}/reverse", Summary: "Take back a bank transfer that was entered wrongly", Tag: tagBilling, Action: account.Operate,
		Description: "What was credited of it leaves the wallet, also where that leaves a debt. The bank's reference can be entered again.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		PaymentPath
		Body api.ReversePayment
	}) (*body[api.Payment], error) {
		return onePayment(a.Payments.Reverse(ctx, p, in.PaymentID, in.Body.Reason))
	})
	register(a, operation{
		ID: "resolvePayment", Method: http.MethodPost, Path: "/v1/payments/{payment_id}/resolve", Summary: "Decide on a payment that was put aside", Tag: tagBilling, Action: account.Operate,
		Description: "Of one that only wants attention, it says that you have seen to it.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		PaymentPath
		Body api.ResolvePayment
	}) (*body[api.Payment], error) {
		return onePayment(a.Payments.Resolve(ctx, p, in.PaymentID, in.Body.Accept, in.Body.Reason))
	})
	register(a, operation{
		ID: "createDeposit", Method: http.MethodPost, Path: "/v1/operator/deposits", Summary: "Enter a deposit", Tag: tagBilling, Action: account.Operate,
		Status: http.StatusCreated, Idempotent: true, Description: "A bank transfer that is entered and confirmed in one act: an account has each reference once. Debt is paid from it first. Send an Idempotency-Key, so that a repeat is not a second deposit.",
	}, func(ctx context.Context, p account.Principal, in *body[api.Deposit]) (*body[api.Transfer], error) {
		t, err := a.Payments.Deposit(ctx, p, transferOf(in.Body), requestKey(ctx))
		if err != nil {
			return nil, err
		}
		return &body[api.Transfer]{transferJSON(t)}, nil
	})
	registerStream(a, operation{
		ID: "paymentCallback", Method: http.MethodPost, Path: "/v1/payment-callbacks/{provider}", Summary: "Where payment providers send their messages", Tag: tagBilling,
		Description: "Not for you: a message counts by the provider's signature alone. The answer is what the provider wants to hear.",
	}, "application/json", a.paymentCallback)
}

func (a *API) paymentCallback(w http.ResponseWriter, r *http.Request, _ account.Principal, in *struct {
	Provider string `path:"provider" maxLength:"32"`
}) error {
	content, err := io.ReadAll(io.LimitReader(r.Body, maxCallback+1))
	if err != nil {
		return err
	}
	if len(content) > maxCallback {
		return fault.New(fault.Invalid, "callback_invalid", "the message is larger than %d bytes", maxCallback)
	}
	contentType, answer, err := a.Payments.Callback(r.Context(), in.Provider, r.Header, content)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", contentType)
	_, err = io.WriteString(w, answer)
	return err
}

func transferOf(in api.Deposit) payment.Transfer {
	return payment.Transfer{AccountID: in.AccountID, Amount: in.Amount, Reference: in.Reference}
}

func (a *API) payments(ctx context.Context, f payment.Filter) (*body[page[api.Payment]], error) {
	limit := f.Limit
	f.Limit++
	list, err := a.Payments.Payments(ctx, f)
	if err != nil {
		return nil, err
	}
	return paged(list, limit, func(p payment.Payment) string { return p.ID }, paymentJSON), nil
}

func onePayment(p payment.Payment, err error) (*body[api.Payment], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Payment]{paymentJSON(p)}, nil
}

func paymentJSON(p payment.Payment) api.Payment {
	out := api.Payment{
		ID: p.ID, AccountID: p.AccountID, Provider: p.Provider, Currency: string(p.Currency), Amount: p.Amount, State: string(p.State), Reference: p.Ref,
		ReceivedMinor: p.ReceivedMinor, ReceivedCurrency: p.ReceivedCurrency, Credited: p.Credited, Refunded: p.Refunded, Reason: p.Reason, Attention: p.Attention,
		CreatedAt: p.CreatedAt, ChangedAt: p.ChangedAt, ExpiresAt: optional(p.ExpiresAt),
	}
	if p.State == payment.Pending {
		out.CheckoutURL = p.CheckoutURL
	}
	for _, r := range p.Refunds {
		out.Refunds = append(out.Refunds, api.PaymentRefund{ID: r.ID, Amount: r.Amount, State: r.State, Reference: r.Ref, Reason: r.Reason, CreatedAt: r.CreatedAt, ChangedAt: r.ChangedAt})
	}
	for _, d := range p.Disputes {
		out.Disputes = append(out.Disputes, api.PaymentDispute{Reference: d.Ref, Amount: d.Amount, State: d.State, At: d.At})
	}
	return out
}
