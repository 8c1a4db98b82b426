package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
)

const tagGateways = "Gateways"

func (a *API) registerGateways() {
	register(a, operation{
		ID: "createGatewayToken", Method: http.MethodPost, Path: "/v1/operator/gateway-tokens", Summary: "Make a token that lets one gateway join", Tag: tagGateways,
		Action: account.Operate, Status: http.StatusCreated,
		Description: "A gateway brings renters to instances from another place than the control plane's. The token is shown once and works once. On the gateway: suanli gateway join <address> --token …",
	}, func(ctx context.Context, p account.Principal, in *body[api.CreateGatewayToken]) (*body[api.JoinToken], error) {
		token, expires, err := a.Fleet.CreateGatewayToken(ctx, p, in.Body.Name, time.Duration(in.Body.ExpiresInSeconds)*time.Second)
		if err != nil {
			return nil, err
		}
		return &body[api.JoinToken]{api.JoinToken{Token: token, ExpiresAt: expires}}, nil
	})
	register(a, operation{
		ID: "listGateways", Method: http.MethodGet, Path: "/v1/operator/gateways", Summary: "List gateways that have joined", Tag: tagGateways, Action: account.Operate,
	}, func(ctx context.Context, _ account.Principal, _ *none) (*body[page[api.Gateway]], error) {
		list, err := a.Fleet.Gateways(ctx)
		if err != nil {
			return nil, err
		}
		return whole(list, func(g fleet.Gateway) api.Gateway { return api.Gateway(g) }), nil
	})
	register(a, operation{
		ID: "removeGateway", Method: http.MethodDelete, Path: "/v1/operator/gateways/{gateway_id}", Summary: "Turn a gateway away for good", Tag: tagGateways, Action: account.Operate,
		Description: "Its connection ends at once, and with it everything that renters have open through it.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		GatewayID string `path:"gateway_id" maxLength:"64"`
	}) (*none, error) {
		return nil, a.Fleet.RemoveGateway(ctx, p, in.GatewayID)
	})
}
