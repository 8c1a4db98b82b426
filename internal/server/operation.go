package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
)

// operation describes one endpoint. The authorization test walks all of them.
type operation struct {
	ID      string // camelCase verb and noun, unique
	Method  string
	Path    string
	Summary string
	Tag     string
	// Action is what the caller must be allowed to do. Empty: anyone, without
	// credentials.
	Action account.Action
	// Status is the code of success; 0: 200, or 204 without a body.
	Status int
	// Idempotent operations take an Idempotency-Key: a write that is repeated
	// with the same key and body returns the first answer.
	Idempotent bool
}

// register adds an endpoint. The handler runs only for a principal who may do
// op.Action; it must look only in that principal's account.
func register[I, O any](a *API, op operation, handler func(context.Context, account.Principal, *I) (*O, error)) {
	a.operations = append(a.operations, op)
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary,
		Tags: []string{op.Tag}, DefaultStatus: op.Status,
	}
	if op.Action != "" {
		h.Security = []map[string][]string{{"bearer": {string(op.Action)}}}
	}
	if op.Idempotent {
		h.Parameters = append(h.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header",
			Description: "Up to 128 characters of your choice. The same key with the same body returns the first answer; with another body it is refused.",
			Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: ptr(128)},
		})
	}
	h.Metadata = map[string]any{"operation": op}
	huma.Register(a.huma, h, func(ctx context.Context, in *I) (*O, error) {
		p := principalFrom(ctx)
		if op.Action != "" {
			if p.UserID == "" {
				return nil, problem(ctx, a.log, fault.New(fault.Unauthorized, "unauthenticated",
					"this needs credentials: send Authorization: Bearer with an API key or a session token"))
			}
			if !p.May(op.Action) {
				return nil, problem(ctx, a.log, fault.New(fault.Forbidden, "forbidden",
					"this needs the permission %q, which your role or API key does not have", op.Action))
			}
		}
		out, err := handler(ctx, p, in)
		if err != nil {
			return nil, problem(ctx, a.log, err)
		}
		return out, nil
	})
}

func ptr[T any](v T) *T { return &v }

type principalKey struct{}

// withPrincipal returns ctx carrying who makes the request.
func withPrincipal(ctx context.Context, p account.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

func principalFrom(ctx context.Context) account.Principal {
	p, _ := ctx.Value(principalKey{}).(account.Principal)
	return p
}

var statuses = map[fault.Kind]int{
	fault.Internal: http.StatusInternalServerError, fault.Invalid: http.StatusUnprocessableEntity,
	fault.Unauthorized: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict, fault.Gone: http.StatusGone,
	fault.Payment: http.StatusPaymentRequired, fault.TooMany: http.StatusTooManyRequests,
	fault.Unavailable: http.StatusServiceUnavailable, fault.Precondition: http.StatusPreconditionFailed,
}

// Problem is an RFC 9457 problem document with a stable code.
type Problem struct {
	huma.ErrorModel
	Code     string `json:"code" doc:"Stable, for programs"`
	Location string `json:"location,omitempty" doc:"The field at fault"`
	Position int    `json:"position,omitempty" doc:"1-based character in an expression"`
}

// problem turns a service's error into a response. An error without a fault in
// its chain is ours: it is logged, and the caller is told no more than that.
func problem(ctx context.Context, log *slog.Logger, err error) error {
	detail := err.Error()
	f, ok := fault.As(err)
	if !ok || f.Kind == fault.Internal {
		log.ErrorContext(ctx, "request failed", "error", err)
		f = fault.New(fault.Internal, "internal", "the server failed to do this; the request id in the X-Request-Id header finds it in the log")
		detail = f.Message
	}
	status := statuses[f.Kind]
	return &Problem{
		ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail},
		Code:       f.Code, Location: f.Location, Position: f.Position,
	}
}
