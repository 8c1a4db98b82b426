package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/pricing"
)

func (a *API) registerGrants() {
	register(a, operation{
		ID: "listGrants", Method: http.MethodGet, Path: "/v1/grants", Summary: "List what the account was given, newest first", Tag: tagBilling, Action: account.ReadBilling,
		Description: "Grants pay before the balance, for use in their time only; of several, the one that expires first pays first.",
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Grant]], error) {
		list, err := a.Billing.Grants(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		return paged(list, len(list), func(g billing.Grant) string { return g.ID }, a.grantJSON), nil
	})
	register(a, operation{
		ID: "createGrant", Method: http.MethodPost, Path: "/v1/operator/grants", Summary: "Give an account money for use", Tag: tagBilling, Action: account.Operate,
		Status: http.StatusCreated, Idempotent: true, Description: "Send an Idempotency-Key, so that a repeat is not a second grant. What is not used when it expires is lost, and posted back.",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreateGrant]) (*body[api.Grant], error) {
		r := in.Body
		c := billing.CreateGrant{AccountID: r.AccountID, Kind: r.Kind, Amount: r.Amount, ValidFor: time.Duration(r.ValidSeconds) * time.Second, Reference: r.Reference}
		// More seconds than a duration has would look like few.
		if c.ValidFor/time.Second != time.Duration(r.ValidSeconds) {
			return nil, fault.New(fault.Invalid, "invalid_grant", "valid for %d seconds: that is longer than ten years", r.ValidSeconds).At("body.valid_seconds")
		}
		if r.ExpiresAt != nil {
			c.ExpiresAt = *r.ExpiresAt
		}
		for _, m := range r.Meters {
			c.Meters = append(c.Meters, pricing.Meter(m))
		}
		model, err := a.knownModel(r.GPUModel)
		if err != nil {
			return nil, err
		}
		c.GPUModel = model
		g, err := a.Billing.Grant(ctx, p, c, requestKey(ctx))
		if err != nil {
			return nil, err
		}
		return &body[api.Grant]{a.grantJSON(g)}, nil
	})
	register(a, operation{ID: "listCoupons", Method: http.MethodGet, Path: "/v1/operator/coupons", Summary: "List coupons by their codes", Tag: tagBilling, Action: account.Operate},
		func(ctx context.Context, _ account.Principal, _ *none) (*body[page[api.Coupon]], error) {
			list, err := a.Billing.Coupons(ctx)
			if err != nil {
				return nil, err
			}
			return paged(list, len(list), func(c billing.Coupon) string { return c.Rule.Code }, couponJSON), nil
		})
	register(a, operation{ID: "createCoupon", Method: http.MethodPost, Path: "/v1/operator/coupons", Summary: "Make a coupon", Tag: tagBilling, Action: account.Operate, Status: http.StatusCreated, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *body[api.CreateCoupon]) (*body[api.Coupon], error) {
			c, err := a.Billing.CreateCoupon(ctx, p, in.Body.Rule, time.Duration(in.Body.ValidSeconds)*time.Second)
			if err != nil {
				return nil, err
			}
			return &body[api.Coupon]{couponJSON(c)}, nil
		})
	register(a, operation{ID: "redeemCoupon", Method: http.MethodPost, Path: "/v1/coupons/redeem", Summary: "Redeem a coupon", Tag: tagBilling, Action: account.WriteBilling, Idempotent: true,
		Description: "Gives the account the coupon's grant, once: redeemed again, it is the same grant. A coupon of a share pays that of what is used from then on, before other grants, up to its sum."},
		func(ctx context.Context, p account.Principal, in *body[api.RedeemCoupon]) (*body[api.Grant], error) {
			g, err := a.Billing.Redeem(ctx, p, in.Body.Code)
			if err != nil {
				return nil, err
			}
			return &body[api.Grant]{a.grantJSON(g)}, nil
		})
}

func couponJSON(c billing.Coupon) api.Coupon {
	return api.Coupon{Code: c.Rule.Code, Rule: c.Rule.String(), ValidSeconds: int64(c.ValidFor / time.Second), Used: c.Used, CreatedAt: c.CreatedAt}
}

func (a *API) grantJSON(g billing.Grant) api.Grant {
	out := api.Grant{
		ID: g.ID, AccountID: g.AccountID, Kind: g.Kind, Currency: string(g.Currency), Amount: g.Amount, Spent: g.Spent, Left: g.Left(a.clock()),
		ValidSeconds: int64(g.ValidFor / time.Second), ActiveFrom: optional(g.ActiveFrom), ExpiresAt: optional(g.ExpiresAt), Reference: g.Reference, CreatedAt: g.CreatedAt,
		GPUModel: g.GPUModel, SharePPM: g.SharePPM,
	}
	for _, m := range g.Meters {
		out.Meters = append(out.Meters, string(m))
	}
	return out
}
