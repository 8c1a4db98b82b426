package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
)

// registerOperatorMoney is what an operator reads of other accounts' money, as those
// accounts read it of their own.
func (a *API) registerOperatorMoney() {
	if a.Billing == nil || a.Accounts == nil {
		return
	}
	const path = "/v1/operator/accounts/{account_id}"
	register(a, operation{
		ID: "listInvoicesOf", Method: http.MethodGet, Path: path + "/invoices", Summary: "List an account's invoices, newest first", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *struct {
		Paging
		AccountID string `path:"account_id" maxLength:"64"`
	}) (*body[page[api.Invoice]], error) {
		if _, err := a.Accounts.Account(ctx, in.AccountID); err != nil {
			return nil, err
		}
		list, err := a.Billing.Invoices(ctx, in.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(v billing.Invoice) string { return v.ID }, invoiceJSON), nil
	})
	register(a, operation{
		ID: "listGrantsOf", Method: http.MethodGet, Path: path + "/grants", Summary: "List what an account was given for use, newest first", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *accountPath) (*body[page[api.Grant]], error) {
		if _, err := a.Accounts.Account(ctx, in.AccountID); err != nil {
			return nil, err
		}
		list, err := a.Billing.Grants(ctx, in.AccountID)
		if err != nil {
			return nil, err
		}
		return whole(list, a.grantJSON), nil
	})
	register(a, operation{
		ID: "getBillingProfileOf", Method: http.MethodGet, Path: path + "/billing-profile", Summary: "Show who an account is on invoices, and whose taxes apply", Tag: tagBilling, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, in *accountPath) (*body[api.BillingProfile], error) {
		if _, err := a.Accounts.Account(ctx, in.AccountID); err != nil {
			return nil, err
		}
		party, err := a.Billing.Profile(ctx, in.AccountID)
		if err != nil {
			return nil, err
		}
		return &body[api.BillingProfile]{profileJSON(party)}, nil
	})
}
