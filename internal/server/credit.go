package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
)

func (a *API) registerCreditLimits() {
	register(a, operation{
		ID: "getCreditLimit", Method: http.MethodGet, Path: "/v1/credit-limit", Summary: "Show the account's credit limit", Tag: tagBilling, Action: account.ReadBilling,
		Description: "An account with a limit is postpaid: compute runs against its money and the limit, and is cut at the second that would exceed both.",
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[api.CreditLimit], error) {
		return a.creditLimit(ctx, p.AccountID)
	})
	register(a, operation{
		ID: "getAccountCreditLimit", Method: http.MethodGet, Path: "/v1/operator/accounts/{account_id}/credit-limit", Summary: "Show an account's credit limit", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *accountPath) (*body[api.CreditLimit], error) {
		return a.creditLimit(ctx, in.AccountID)
	})
	register(a, operation{
		ID: "setCreditLimit", Method: http.MethodPut, Path: "/v1/operator/accounts/{account_id}/credit-limit", Summary: "Give an account credit, change it or revoke it", Tag: tagBilling, Action: account.Operate,
		Description: "What is used up to now is charged under the old limit. If debt is beyond the new one, what runs stops as it does when a wallet is empty.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		AccountID string `path:"account_id" maxLength:"64"`
		Body      api.SetCreditLimit
	}) (*body[api.CreditLimit], error) {
		c, err := a.Billing.SetCreditLimit(ctx, p, in.AccountID, billing.CreditChange{Limit: in.Body.CreditLimit, NetDays: in.Body.NetDays, Reason: in.Body.Reason})
		if err != nil {
			return nil, err
		}
		return &body[api.CreditLimit]{creditLimitJSON(c)}, nil
	})
	register(a, operation{
		ID: "listDues", Method: http.MethodGet, Path: "/v1/dues", Summary: "List how invoices stand: what is owed, and by when; newest first", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Due]], error) {
		return a.dues(ctx, p.AccountID)
	})
	register(a, operation{
		ID: "listAccountDues", Method: http.MethodGet, Path: "/v1/operator/accounts/{account_id}/dues", Summary: "List how an account's invoices stand, newest first", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *accountPath) (*body[page[api.Due]], error) {
		return a.dues(ctx, in.AccountID)
	})
	register(a, operation{
		ID: "getDue", Method: http.MethodGet, Path: "/v1/invoices/{invoice_id}/due", Summary: "Show how an invoice stands", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *invoicePath) (*body[api.Due], error) {
		st, err := a.Billing.Standing(ctx, p.AccountID, in.InvoiceID)
		if err != nil {
			return nil, err
		}
		return &body[api.Due]{dueJSON(st)}, nil
	})
	register(a, operation{
		ID: "writeOffInvoice", Method: http.MethodPost, Path: "/v1/operator/invoices/{invoice_id}/write-off", Summary: "Give up what is owed of an overdue invoice", Tag: tagBilling, Action: account.Operate,
		Description: "It is posted, and the invoice is uncollectible from then on. Asked again it changes nothing.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		InvoiceID string `path:"invoice_id" maxLength:"64" doc:"Identifier or number"`
		Body      api.WriteOff
	}) (*body[api.Due], error) {
		st, err := a.Billing.WriteOff(ctx, p, in.InvoiceID, in.Body.Reason)
		if err != nil {
			return nil, err
		}
		return &body[api.Due]{dueJSON(st)}, nil
	})
}

func (a *API) creditLimit(ctx context.Context, accountID string) (*body[api.CreditLimit], error) {
	c, err := a.Billing.CreditLimit(ctx, accountID)
	if err != nil {
		return nil, err
	}
	return &body[api.CreditLimit]{creditLimitJSON(c)}, nil
}

func (a *API) dues(ctx context.Context, accountID string) (*body[page[api.Due]], error) {
	list, err := a.Billing.Standings(ctx, accountID)
	if err != nil {
		return nil, err
	}
	return paged(list, len(list), func(st billing.InvoiceStanding) string { return st.InvoiceID }, dueJSON), nil
}

func creditLimitJSON(c billing.CreditLimit) api.CreditLimit {
	return api.CreditLimit{
		AccountID: c.AccountID, Currency: string(c.Currency), CreditLimit: c.Limit, Used: c.Used, NetDays: c.NetDays, SetAt: optional(c.SetAt), Reason: c.Reason,
	}
}

func dueJSON(st billing.InvoiceStanding) api.Due {
	return api.Due{
		InvoiceID: st.InvoiceID, Number: st.Number, AccountID: st.AccountID, Currency: string(st.Currency), State: string(st.State), Total: st.Total,
		Credited: st.Credited, WrittenOff: st.WrittenOff, Owed: st.Owed, DueAt: st.DueAt, StopsAt: optional(st.StopAt),
	}
}
