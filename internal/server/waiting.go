package server

import (
	"context"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/waiting"
)

// WaitingRequestPath is embedded in the input of operations on one request that waits.
type WaitingRequestPath struct {
	RequestID string `path:"waiting_request_id" maxLength:"64" doc:"Identifier, or the name"`
}

func (a *API) registerWaiting() {
	if a.Waiting == nil {
		return
	}
	register(a, operation{
		ID: "createWaitingRequest", Method: http.MethodPost, Path: "/v1/waiting-requests", Summary: "Rent something as soon as there is room", Tag: tagLease, Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "It becomes a lease on demand when a host has room, at the price of that moment, if that is not above max_per_hour. Nothing is charged or set aside while it waits.",
	}, func(ctx context.Context, p account.Principal, in *body[api.WaitingRequestCreate]) (*body[api.WaitingRequest], error) {
		c, err := waitingCreate(in.Body)
		if err != nil {
			return nil, err
		}
		return waitingBody(a.Waiting.Create(ctx, p, c))
	})
	register(a, operation{ID: "listWaitingRequests", Method: http.MethodGet, Path: "/v1/waiting-requests", Summary: "List requests that wait or have waited, newest first", Tag: tagLease, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			Paging
			Open bool `query:"open" doc:"Only those that wait"`
		}) (*body[page[api.WaitingRequest]], error) {
			list, next, err := a.Waiting.List(ctx, p, in.Open, in.Cursor, in.Limit)
			if err != nil {
				return nil, err
			}
			out := whole(list, waitingJSON)
			out.Body.NextCursor = next
			return out, nil
		})
	const path = "/v1/waiting-requests/{waiting_request_id}"
	register(a, operation{ID: "getWaitingRequest", Method: http.MethodGet, Path: path, Summary: "Show a request that waits, its turn and what is in its way", Tag: tagLease, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *WaitingRequestPath) (*body[api.WaitingRequestDetails], error) {
			d, err := a.Waiting.Details(ctx, p, in.RequestID)
			if err != nil {
				return nil, err
			}
			out := api.WaitingRequestDetails{WaitingRequest: waitingJSON(d.Request), Position: d.Position}
			if d.Explanation != nil {
				e := placementJSON(*d.Explanation, p.Operator)
				out.Explanation = &e
			}
			return &body[api.WaitingRequestDetails]{out}, nil
		})
	register(a, operation{ID: "cancelWaitingRequest", Method: http.MethodDelete, Path: path, Summary: "Withdraw a request that waits", Tag: tagLease, Action: account.WriteLeases, Idempotent: true,
		Description: "One that has become a lease is refused: end that lease. One that is over otherwise stays as it is."},
		func(ctx context.Context, p account.Principal, in *WaitingRequestPath) (*body[api.WaitingRequest], error) {
			return waitingBody(a.Waiting.Cancel(ctx, p, in.RequestID))
		})
}

func waitingCreate(in api.WaitingRequestCreate) (waiting.Create, error) {
	idle, err := idleStop(in.IdleStop)
	return waiting.Create{
		GPUModel: in.GPUModel, GPUs: in.GPUs, Region: in.Region, Zone: in.Zone, Simulated: in.Simulated, MaxPerHour: in.MaxPerHour, Priority: in.Priority,
		Estimate: time.Duration(in.EstimateSeconds) * time.Second, WaitFor: time.Duration(in.WaitSeconds) * time.Second,
		Run: lease.Awaited{
			Request: lease.QuoteRequest{Template: in.Template, Image: in.Image, DiskGiB: in.DiskGiB},
			Create: lease.Create{Name: in.Name, Labels: in.Labels, Entrypoint: in.Entrypoint, Command: in.Command, StartScript: in.StartScript, Environment: in.Environment,
				Ports: in.Ports, SpendingCap: in.SpendingCap, Idle: idle},
		},
	}, err
}

func waitingBody(r *waiting.Request, err error) (*body[api.WaitingRequest], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.WaitingRequest]{waitingJSON(r)}, nil
}

func waitingJSON(r *waiting.Request) api.WaitingRequest {
	return api.WaitingRequest{
		ID: r.ID, Name: r.Name, State: string(r.State), Code: r.Code, Message: r.Message, GPUModel: r.GPUModel, GPUs: r.GPUs, Region: r.Region, Zone: r.Zone, Simulated: r.Simulated,
		Template: r.Template, Image: r.Image, DiskGiB: r.DiskGiB, MaxPerHour: r.MaxPerHour, Currency: string(r.Currency), EstimateSeconds: int64(r.Estimate / time.Second), Priority: r.Priority,
		Failures: r.Failures, LeaseID: r.LeaseID, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, EndedAt: moment(r.EndedAt),
	}
}

// openWaiting makes requests that wait, once leases are there.
func (c *Cloud) openWaiting(facts *catalog.Catalog) (*waiting.Service, error) {
	return waiting.New(waiting.Config{
		DB: c.DB, Clock: c.clock, Capacity: c.Fleet, Leases: c.Leases, News: c.News, Audit: c.Accounts.Audit, Log: c.log,
		Account: func(ctx context.Context, accountID string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			return a.Currency, a.TimeZone, err
		},
		Quota: func(ctx context.Context, accountID string) (int, error) {
			q, err := c.Accounts.Quota(ctx, accountID)
			return q.MaxGPUs, err
		},
		Acting: actingUsers{c.Accounts}.act,
		KnownModel: func(name string) (string, bool) {
			m, ok := facts.Model(name)
			return m.Name, ok
		},
	})
}

// actingUsers says as whom leases are accepted that somebody has asked for earlier.
type actingUsers struct{ accounts *account.Service }

// act returns a user who may still rent. While the account is suspended its requests
// wait on; those of a user who is gone, or may no longer rent, end.
func (u actingUsers) act(ctx context.Context, accountID, userID string) (account.Principal, error) {
	var p account.Principal
	a, err := u.accounts.Account(ctx, accountID)
	if err != nil {
		return p, err
	}
	if a.Suspended {
		return p, fault.New(fault.Conflict, "account_suspended", "the account is suspended, and starts nothing; ask the operator")
	}
	user, err := u.accounts.User(ctx, accountID, userID)
	if err != nil {
		return p, err
	}
	if user.Disabled {
		return p, fault.New(fault.Forbidden, "user_disabled", "the user who has asked for it is disabled; ask again as another one")
	}
	p = account.Principal{UserID: user.ID, AccountID: accountID, Role: user.Role}
	if !p.May(account.WriteLeases) {
		return p, fault.New(fault.Forbidden, "forbidden", "the user who has asked for it may no longer rent; ask again as another one")
	}
	return p, nil
}
