package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func (a *API) registerVolume() {
	register(a, operation{ID: "listVolumeTiers", Method: http.MethodGet, Path: "/v1/volume-discounts", Summary: "List what months' compute takes off, newest first", Tag: tagBilling, Action: account.ReadBilling,
		Description: "Of those of the account's currency, the last that were set before a calendar month of its time zone began are in force for it. They take their part off what lies in each tier of what the account itself paid for compute on demand and on the spot market, when the month is closed."},
		func(ctx context.Context, _ account.Principal, _ *none) (*body[page[api.VolumeTiers]], error) {
			list, err := a.Billing.AllVolumeTiers(ctx)
			if err != nil {
				return nil, err
			}
			return whole(list, volumeTiersJSON), nil
		})
	register(a, operation{ID: "setVolumeTiers", Method: http.MethodPost, Path: "/v1/operator/volume-discounts", Summary: "Set what months' compute takes off", Tag: tagBilling, Action: account.Operate, Status: http.StatusCreated, Idempotent: true,
		Description: "For all accounts in the currency, and for months that begin later. Nothing is edited: set others, or none."},
		func(ctx context.Context, p account.Principal, in *body[api.SetVolumeTiers]) (*body[api.VolumeTiers], error) {
			var tiers []pricing.Tier
			for _, t := range in.Body.Tiers {
				tiers = append(tiers, pricing.Tier{From: t.From, BasisPoints: t.BasisPoints})
			}
			v, err := a.Billing.SetVolumeTiers(ctx, p, money.Currency(in.Body.Currency), tiers)
			if err != nil {
				return nil, err
			}
			return &body[api.VolumeTiers]{volumeTiersJSON(v)}, nil
		})
}

func volumeTiersJSON(v billing.VolumeTiers) api.VolumeTiers {
	out := api.VolumeTiers{ID: v.ID, Currency: string(v.Currency), Tiers: []api.VolumeTier{}, SetAt: v.SetAt}
	for _, t := range v.Tiers {
		out.Tiers = append(out.Tiers, api.VolumeTier{From: t.From, BasisPoints: t.BasisPoints})
	}
	return out
}
