package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
)

const tagPrices = "Price changes"

// PriceChangePath is embedded in the input of operations on one proposed price.
type PriceChangePath struct {
	PriceChangeID string `path:"price_change_id" maxLength:"64"`
}

func (a *API) registerPriceChanges() {
	if a.Leases == nil || a.Fleet == nil {
		return
	}
	register(a, operation{
		ID: "proposePrice", Method: http.MethodPost, Path: "/v1/hosts/{host_id}/price-changes", Summary: "Propose another price to renters of leases on demand on a host", Tag: tagPrices, Action: account.WriteHosts,
		Description: "Their leases cost what they do unless they accept. A proposal that waits for an answer is withdrawn by the next one for its lease.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		HostPath
		Body api.PriceProposal
	}) (*body[page[api.PriceChange]], error) {
		if _, err := a.Fleet.Host(ctx, p, in.HostID); err != nil {
			return nil, err
		}
		ask := lease.PriceProposal{HostID: in.HostID, LeaseID: in.Body.LeaseID, PerGPUHour: in.Body.PerGPUHour}
		if in.Body.EffectiveAt != nil {
			ask.EffectiveAt = *in.Body.EffectiveAt
		}
		list, err := a.Leases.ProposePrice(ctx, p, ask)
		if err != nil {
			return nil, err
		}
		return whole(list, proposedJSON), nil
	})
	register(a, operation{
		ID: "listHostPriceChanges", Method: http.MethodGet, Path: "/v1/hosts/{host_id}/price-changes", Summary: "List prices that were proposed for leases on a host, newest first", Tag: tagPrices, Action: account.ReadHosts,
	}, func(ctx context.Context, p account.Principal, in *struct {
		HostPath
		Paging
	}) (*body[page[api.PriceChange]], error) {
		if _, err := a.Fleet.Host(ctx, p, in.HostID); err != nil {
			return nil, err
		}
		list, err := a.Leases.HostPriceChanges(ctx, in.HostID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(c lease.PriceChange) string { return c.ID }, proposedJSON), nil
	})
	register(a, operation{
		ID: "listPriceChanges", Method: http.MethodGet, Path: "/v1/price-changes", Summary: "List prices that were proposed for your leases, newest first", Tag: tagPrices, Action: account.ReadLeases,
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.PriceChange]], error) {
		list, err := a.Leases.PriceChanges(ctx, p, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(c lease.PriceChange) string { return c.ID }, priceChangeJSON), nil
	})
	for verb, summary := range map[string]string{"accept": "Agree to a proposed price", "decline": "Decline a proposed price: it stays as it is"} {
		register(a, operation{
			ID: verb + "PriceChange", Method: http.MethodPost, Path: "/v1/price-changes/{price_change_id}/" + verb, Summary: summary, Tag: tagPrices, Action: account.WriteLeases,
		}, func(ctx context.Context, p account.Principal, in *PriceChangePath) (*body[api.PriceChange], error) {
			c, err := a.Leases.AnswerPrice(ctx, p, in.PriceChangeID, verb == "accept")
			if err != nil {
				return nil, err
			}
			return &body[api.PriceChange]{priceChangeJSON(c)}, nil
		})
	}
}

func priceChangeJSON(c lease.PriceChange) api.PriceChange {
	return api.PriceChange{
		ID: c.ID, LeaseID: c.LeaseID, LeaseName: c.LeaseName, Currency: string(c.Currency), PerHour: c.PerHour, NewPerHour: c.NewPerHour, Simulated: c.Simulated,
		State: string(c.State), EffectiveAt: c.EffectiveAt, AnswerBy: c.AnswerBy, AnsweredAt: optional(c.AnsweredAt), CreatedAt: c.CreatedAt,
	}
}

// proposedJSON is what of it the provider sees: not how the renter calls things.
func proposedJSON(c lease.PriceChange) api.PriceChange {
	c.LeaseName = ""
	return priceChangeJSON(c)
}
