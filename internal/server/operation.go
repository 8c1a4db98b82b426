package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/intake"
)

// operation describes one endpoint. The authorization test walks all of them.
type operation struct {
	ID      string // camelCase verb and noun, unique
	Method  string
	Path    string
	Summary string
	// Description says what the summary has no room for, in Markdown; optional.
	Description string
	Tag         string
	// Action is what the caller must be allowed to do. Empty: anyone, without
	// credentials.
	Action account.Action
	// Status is the code of success; 0: 200, or 204 without a body.
	Status int
	// Idempotent operations take an Idempotency-Key: a write that is repeated
	// with the same key and body returns the first answer.
	Idempotent bool
	// Once is of idempotent operations that are not to be done again after a crash in the
	// middle, although they create nothing: see [operation.once]. Again is of those that
	// create something and may, since what they are given can be used once only.
	Once, Again bool
	// Upload is of operations that take a body of any type, bound its size and read
	// it as it comes. Of others it is read whole before, and small.
	Upload bool
	// OwnCursor is of lists in another order than their items' identifiers; they
	// check cursors themselves.
	OwnCursor bool
}

// once reports whether doing the operation twice would make or charge something twice.
// Where the control plane died after it was done and before its answer was kept, a repeat
// is refused.
func (op operation) once() bool {
	return op.Idempotent && (op.Once || op.Status == http.StatusCreated && !op.Again)
}

// page is one page of a list, in the order of its cursor.
type page[T any] = api.Page[T]

// body is an input or output whose JSON is T.
type body[T any] struct {
	Body T
}

// Paging is embedded in the input of operations that return a page.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50" doc:"How many items at most"`
	Cursor string `query:"cursor" maxLength:"200" doc:"The next_cursor of the page before; empty for the first page"`
}

// place is where the page begins.
func (p *Paging) place() string { return p.Cursor }

// checkCursor refuses a cursor that no list of identifiers has given: a garbled one
// would otherwise begin at any place, or at none, without a word.
func checkCursor(in any) error {
	list, ok := in.(interface{ place() string })
	if !ok || list.place() == "" {
		return nil
	}
	kind, _, _ := strings.Cut(list.place(), "-")
	if ident.Check(ident.Kind(kind), list.place()) != nil {
		return fault.New(fault.Invalid, "bad_cursor", "the cursor %q is not one of this list; begin at the first page", list.place()).At("query.cursor")
	}
	return nil
}

// paged turns up to limit+1 items, which is what the services are asked for,
// into a page of limit. cursor returns an item's place in the order.
func paged[S, T any](items []S, limit int, cursor func(S) string, convert func(S) T) *body[page[T]] {
	out := &body[page[T]]{Body: page[T]{Items: make([]T, 0, min(limit, len(items)))}}
	for i, item := range items {
		if i == limit {
			out.Body.NextCursor = cursor(items[i-1])
			break
		}
		out.Body.Items = append(out.Body.Items, convert(item))
	}
	return out
}

// none is an input or output of nothing.
type none struct{}

// register adds an endpoint. The handler runs only for a principal who may do
// op.Action; it must look only in that principal's account.
func register[I, O any](a *API, op operation, handler func(context.Context, account.Principal, *I) (*O, error)) {
	h := a.describe(op, reflect.TypeFor[I]())
	huma.Register(a.huma, h, func(ctx context.Context, in *I) (*O, error) {
		var out *O
		err := error(nil)
		if !op.OwnCursor {
			err = checkCursor(in)
		}
		if err == nil {
			out, err = handler(ctx, principalFrom(ctx), in)
		}
		if err != nil {
			return nil, problem(ctx, a.log, err)
		}
		return out, nil
	})
}

// registerStream adds an endpoint whose answer is not one JSON value: a
// download, a log that is followed, a WebSocket. The handler is guarded like
// any other; an error that it returns before it wrote anything becomes a
// problem, and one after that ends the response.
func registerStream[I any](a *API, op operation, contentType string, handler func(http.ResponseWriter, *http.Request, account.Principal, *I) error) {
	h := a.describe(op, reflect.TypeFor[I]())
	h.Responses["200"] = &huma.Response{Description: http.StatusText(http.StatusOK), Content: map[string]*huma.MediaType{contentType: {}}}
	huma.Register(a.huma, h, func(_ context.Context, in *I) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			x := exchangeFrom(r.Context())
			valid, stop := a.whileValid(r.Context(), op.Action)
			defer stop()
			r = r.WithContext(valid)
			if err := handler(w, r, principalFrom(r.Context()), in); err != nil {
				if x != nil && x.wrote {
					a.log.WarnContext(r.Context(), "stream ended", "error", err)
					return
				}
				writeProblem(w, problem(r.Context(), a.log, err))
			}
		}}, nil
	})
}

// describe notes the operation and returns it in huma's terms, guarded.
func (a *API) describe(op operation, input reflect.Type) huma.Operation {
	for f := range input.Fields() {
		if !f.IsExported() {
			// huma passes over it in silence, and the parameters in it stay empty.
			panic(fmt.Sprintf("operation %s: the field %s of its input is not exported, so it would never be filled", op.ID, f.Name))
		}
	}
	a.operations = append(a.operations, op)
	h := huma.Operation{
		OperationID: op.ID, Method: op.Method, Path: op.Path, Summary: op.Summary, Description: op.Description,
		Tags: []string{op.Tag}, DefaultStatus: op.Status, MaxBodyBytes: maxBody,
		BodyReadTimeout: -1, // guard has read it; a deadline now would end the work that follows
		Responses:       map[string]*huma.Response{"default": a.problemResponse()},
		Middlewares:     huma.Middlewares{a.guard(op)},
	}
	if op.Upload {
		h.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {}}}
	}
	if op.Action != "" {
		h.Security = []map[string][]string{{"bearer": {string(op.Action)}}}
	}
	if op.Idempotent {
		h.Parameters = append(h.Parameters, &huma.Param{
			Name: idempotencyHeader, In: "header",
			Description: "Up to 128 characters of your choice. The same key with the same body returns the first answer; with another body it is refused.",
			Schema:      &huma.Schema{Type: huma.TypeString, MaxLength: ptr(maxKey)},
		})
	}
	return h
}

// guard runs before huma reads or validates anything, so that who may not do a
// thing learns nothing about what it takes.
func (a *API) guard(op operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(ctx)
		p := principalFrom(r.Context())
		if x := exchangeFrom(r.Context()); x != nil {
			x.operation = op.ID
		}
		span := trace.SpanFromContext(r.Context())
		span.SetName(op.ID)
		span.SetAttributes(attribute.String("suanli.account_id", p.AccountID))
		if err := authorize(p, op.Action); err != nil {
			writeProblem(w, problem(r.Context(), a.log, err))
			return
		}
		if op.Upload {
			next(humago.NewContext(ctx.Operation(), uploading(w, r), w))
			return
		}
		content, ok := readBody(w, r)
		if !ok {
			return
		}
		if op.Idempotent && r.Header.Get(idempotencyHeader) != "" {
			a.idempotent(w, r, p, op, content, func(w http.ResponseWriter, r *http.Request) {
				next(humago.NewContext(ctx.Operation(), r, w))
			})
			return
		}
		if content == nil {
			next(ctx)
			return
		}
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(content))
		next(humago.NewContext(ctx.Operation(), r, w))
	}
}

// uploading returns the request with its body as it comes, as long as it moves.
func uploading(w http.ResponseWriter, r *http.Request) *http.Request {
	x := exchangeFrom(r.Context())
	if x == nil || x.content == nil || x.content == http.NoBody {
		return r
	}
	r = r.WithContext(r.Context())
	r.Body = x.content
	return intake.Body(w, r, intake.Moving)
}

// readBody reads a request's body to its end, or answers that it cannot: a body
// that is cut off or too slow is its sender's doing, and no failure here.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, true
	}
	content, err := io.ReadAll(r.Body)
	if err == nil {
		return content, true
	}
	var timeout net.Error
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		writeProblem(w, plainProblem(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes, the most that is taken", tooLarge.Limit))
		return nil, false
	}
	if x := exchangeFrom(r.Context()); x != nil {
		x.aborted = true
	}
	w.Header().Set("Connection", "close")
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		writeProblem(w, plainProblem(http.StatusRequestTimeout, "the body came too slowly; %d bytes of it arrived in time. Send it at once, at %d KiB a second or more", len(content), intake.Small.Rate>>10))
		return nil, false
	}
	writeProblem(w, plainProblem(http.StatusBadRequest, "the body could not be read to its end"))
	return nil, false
}

func authorize(p account.Principal, action account.Action) error {
	if action == "" {
		return nil
	}
	if p.UserID == "" {
		return fault.New(fault.Unauthorized, "unauthenticated",
			"this needs credentials: send Authorization: Bearer with an API key or a session token")
	}
	if !p.May(action) {
		return fault.New(fault.Forbidden, "forbidden",
			"this needs the permission %q, which your role or API key does not have", action)
	}
	return nil
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
