package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func (a *API) registerPriceLists() {
	const path = "/v1/operator/price-lists"
	register(a, operation{ID: "listOwnPriceLists", Method: http.MethodGet, Path: "/v1/price-lists", Summary: "List the price lists that the account has", Tag: tagBilling, Action: account.ReadBilling,
		Description: "Quotes on demand are made by the one that holds at their moment. Quotes and leases that are there keep their prices."},
		func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.PriceList]], error) {
			list, err := a.Billing.PriceListsOf(ctx, p.AccountID)
			if err != nil {
				return nil, err
			}
			return whole(list, priceListJSON), nil
		})
	register(a, operation{ID: "listPriceLists", Method: http.MethodGet, Path: path, Summary: "List price lists with the accounts that have them, newest first", Tag: tagBilling, Action: account.Operate},
		func(ctx context.Context, _ account.Principal, _ *none) (*body[page[api.PriceList]], error) {
			list, err := a.Billing.PriceLists(ctx)
			if err != nil {
				return nil, err
			}
			return whole(list, priceListJSON), nil
		})
	register(a, operation{ID: "createPriceList", Method: http.MethodPost, Path: path, Summary: "Make a price list", Tag: tagBilling, Action: account.Operate, Status: http.StatusCreated, Idempotent: true,
		Description: "What it takes off is the platform's to bear: providers are paid by what they listed. A list is never changed; to give an account other prices, take it away and give another."},
		func(ctx context.Context, p account.Principal, in *body[api.CreatePriceList]) (*body[api.PriceList], error) {
			n := billing.NewPriceList{Name: in.Body.Name, Currency: money.Currency(in.Body.Currency)}
			if in.Body.ValidFrom != nil {
				n.From = *in.Body.ValidFrom
			}
			if in.Body.ValidUntil != nil {
				n.Until = *in.Body.ValidUntil
			}
			for _, r := range in.Body.Rules {
				model, err := a.knownModel(r.GPUModel)
				if err != nil {
					return nil, err
				}
				n.Rules = append(n.Rules, pricing.PriceRule{GPUModel: model, Meter: pricing.Meter(r.Meter), OffPPM: r.OffPPM, Rate: r.Rate})
			}
			l, err := a.Billing.CreatePriceList(ctx, p, n)
			if err != nil {
				return nil, err
			}
			return &body[api.PriceList]{priceListJSON(l)}, nil
		})
	register(a, operation{ID: "assignPriceList", Method: http.MethodPost, Path: path + "/{price_list_id}/accounts", Summary: "Give an account a price list", Tag: tagBilling, Action: account.Operate, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *struct {
			ListID string `path:"price_list_id"`
			Body   api.AssignPriceList
		}) (*body[api.PriceList], error) {
			l, err := a.Billing.AssignPriceList(ctx, p, in.ListID, in.Body.AccountID)
			if err != nil {
				return nil, err
			}
			return &body[api.PriceList]{priceListJSON(l)}, nil
		})
	register(a, operation{ID: "withdrawPriceList", Method: http.MethodDelete, Path: path + "/{price_list_id}/accounts/{account_id}", Summary: "Take a price list from an account", Tag: tagBilling, Action: account.Operate,
		Description: "Quotes from now on are made by what is listed."},
		func(ctx context.Context, p account.Principal, in *struct {
			ListID    string `path:"price_list_id"`
			AccountID string `path:"account_id"`
		}) (*none, error) {
			return nil, a.Billing.WithdrawPriceList(ctx, p, in.ListID, in.AccountID)
		})
}

// knownModel returns a GPU model's name as the catalogue has it; none of none. It is an
// Invalid fault "gpu_model_not_found" if it has none of that name: what is for another
// would be for nothing.
func (a *API) knownModel(name string) (string, error) {
	if name == "" || a.Catalog == nil {
		return name, nil
	}
	m, ok := a.Catalog.Model(name)
	if !ok {
		return "", fault.New(fault.Invalid, "gpu_model_not_found", "there is no GPU model %q; `suanli models` lists their names", name)
	}
	return m.Name, nil
}

func priceListJSON(l billing.PriceList) api.PriceList {
	out := api.PriceList{
		ID: l.ID, Name: l.Name, Currency: string(l.Currency), Rules: []api.PriceRule{}, ValidFrom: l.From, ValidUntil: optional(l.Until), Accounts: []api.PricedAccount{}, CreatedAt: l.CreatedAt,
	}
	for _, r := range l.Rules {
		out.Rules = append(out.Rules, api.PriceRule{GPUModel: r.GPUModel, Meter: string(r.Meter), OffPPM: r.OffPPM, Rate: r.Rate})
	}
	for _, x := range l.Accounts {
		out.Accounts = append(out.Accounts, api.PricedAccount{AccountID: x.AccountID, AssignedAt: x.AssignedAt, EndedAt: optional(x.EndedAt)})
	}
	return out
}

func appliedJSON(l *pricing.AppliedList) *api.AppliedPriceList {
	if l == nil {
		return nil
	}
	return &api.AppliedPriceList{ID: l.ID, Name: l.Name}
}
