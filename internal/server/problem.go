package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

var statuses = map[fault.Kind]int{
	fault.Internal: http.StatusInternalServerError, fault.Invalid: http.StatusUnprocessableEntity,
	fault.Unauthorized: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict, fault.Gone: http.StatusGone,
	fault.Payment: http.StatusPaymentRequired, fault.TooMany: http.StatusTooManyRequests,
	fault.Unavailable: http.StatusServiceUnavailable, fault.Precondition: http.StatusPreconditionFailed,
}

// codes name the failures that are found before a service is reached.
var codes = map[int]string{
	http.StatusBadRequest:            "bad_request",
	http.StatusNotFound:              "not_found",
	http.StatusMethodNotAllowed:      "method_not_allowed",
	http.StatusNotAcceptable:         "not_acceptable",
	http.StatusRequestTimeout:        "request_timeout",
	http.StatusRequestEntityTooLarge: "body_too_large",
	http.StatusUnsupportedMediaType:  "unsupported_media_type",
	http.StatusUnprocessableEntity:   "invalid_request",
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
func problem(ctx context.Context, log *slog.Logger, err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	f, ok := fault.As(err)
	if !ok && ctx.Err() != nil {
		// The caller went away; nobody reads this.
		f, ok = fault.New(fault.Unavailable, "canceled", "the request was given up before it was done"), true
	}
	if !ok && store.IsFull(err) {
		log.ErrorContext(ctx, "the database's disk is full", "error", err)
		f, ok = fault.New(fault.Unavailable, "disk_full", "the disk of the cloud's database is full, so that nothing can be changed now; nothing was lost, and it goes on once its operator has made room"), true
	}
	if !ok || f.Kind == fault.Internal {
		log.ErrorContext(ctx, "request failed", "error", err)
		f = fault.New(fault.Internal, "internal", "the server failed to do this; the request id in the X-Request-Id header finds it in the log")
	}
	status := statuses[f.Kind]
	// The fault's own message, without the layers' wrapping, which is for the log.
	return &Problem{
		ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: f.Message},
		Code:       f.Code, Location: f.Location, Position: f.Position,
	}
}

var problemType = reflect.TypeFor[Problem]()

// plainProblem is a problem of the edge itself.
func plainProblem(status int, format string, args ...any) *Problem {
	return &Problem{
		ErrorModel: huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: fmt.Sprintf(format, args...)},
		Code:       codes[status],
	}
}

func writeProblem(w http.ResponseWriter, p *Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Length")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="suanli"`)
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // an error here is a caller who went away
}

// explain gives huma's own errors, which are about the shape of a request, the
// form of all others: a code, the first field at fault, a sentence.
func explain(_ huma.Context, status string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	p := &Problem{ErrorModel: *e, Code: codes[e.Status]}
	if p.Code == "" {
		p.Code = "http_" + status
	}
	p.Errors = nil
	var said []string
	for _, d := range e.Errors {
		if d == nil {
			continue
		}
		safe := *d
		safe.Value = quotable(d.Location, d.Value)
		p.Errors = append(p.Errors, &safe)
		text := d.Message
		if d.Location != "" {
			text = d.Location + ": " + text
		}
		if safe.Value != nil {
			text += fmt.Sprintf(" (found %v)", safe.Value)
		}
		said = append(said, text)
	}
	if len(p.Errors) > 0 {
		p.Location = p.Errors[0].Location
		p.Detail = strings.Join(said, "; ")
	}
	return p, nil
}

// quotable returns a value that may be repeated in a message: short, and not
// one that looks like a secret.
func quotable(location string, v any) any {
	for _, secret := range []string{"password", "secret", "token", "totp", "key", "environment"} {
		if strings.Contains(strings.ToLower(location), secret) {
			return nil
		}
	}
	switch v := v.(type) {
	case string:
		if len(v) <= 64 && location != "body" {
			return strconv.Quote(v)
		}
	case bool, int, int64, float64:
		return v
	}
	return nil
}
