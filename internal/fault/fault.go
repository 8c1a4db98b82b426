// Package fault is the one kind of error that reaches people and programs: a
// stable code, a message that says what was asked, what was found and what to
// do, and, for bad input, where it was. Edges turn it into an RFC 9457 problem
// or a CLI exit code; services return it wrapped or bare.
package fault

import (
	"errors"
	"fmt"
)

// Kind is the class of a fault; it fixes the HTTP status.
type Kind int

// The kinds of faults.
const (
	Internal     Kind = iota // 500: ours
	Invalid                  // 422: the input is wrong
	Unauthorized             // 401: not known who asks
	Forbidden                // 403: known, and not allowed
	NotFound                 // 404: absent, or another tenant's
	Conflict                 // 409: the state does not allow it now
	Gone                     // 410: it was there and has ended
	Payment                  // 402: the balance does not cover it
	TooMany                  // 429: rate limit or quota
	Unavailable              // 503: try again later
	Precondition             // 412: an ETag did not match
)

// Error is a fault. Code is stable and snake_case, such as "insufficient_balance".
type Error struct {
	Kind     Kind
	Code     string
	Message  string
	Location string // the field, as a path into the request: "body.gpu_count"
	Position int    // 1-based character in the field's text, if it is an expression
	cause    error
}

func (e *Error) Error() string { return e.Message }
func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is compare by code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// New returns a fault.
func New(k Kind, code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// At returns a copy of e that names the field at fault.
func (e *Error) At(location string) *Error {
	c := *e
	c.Location = location
	return &c
}

// As returns the fault in err's chain, if there is one.
func As(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}
