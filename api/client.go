package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Page is one page of a list. NextCursor is empty on the last.
type Page[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"next_cursor,omitempty" doc:"Pass it as cursor to get the next page; absent on the last"`
}

// Error is a request that the cloud refused: an RFC 9457 problem.
type Error struct {
	Status    int           `json:"status"`
	Title     string        `json:"title,omitempty"`
	Detail    string        `json:"detail,omitempty"`
	Code      string        `json:"code"`               // stable, such as "insufficient_balance"
	Location  string        `json:"location,omitempty"` // the field at fault, such as "body.gpu_count"
	Position  int           `json:"position,omitempty"` // 1-based character in an expression
	Errors    []ErrorDetail `json:"errors,omitempty"`
	RequestID string        `json:"-"` // finds the request in the server's log
}

// ErrorDetail is one of several things wrong with a request.
type ErrorDetail struct {
	Message  string `json:"message,omitempty"`
	Location string `json:"location,omitempty"`
}

// Error returns what was asked, what was found and what to do.
func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
}

// Is makes errors.Is compare by code: errors.Is(err, &api.Error{Code: "offer_taken"}).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// Client talks to one cloud. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	baseErr   error
	token     string
	userAgent string
	http      *http.Client
	attempts  int
	pause     func(attempt int) time.Duration
}

// Option changes a Client.
type Option func(*Client)

// WithHTTPClient makes the client use h, for its transport and time-outs.
func WithHTTPClient(h *http.Client) Option { return func(c *Client) { c.http = h } }

// WithUserAgent names the program in the server's log.
func WithUserAgent(name string) Option { return func(c *Client) { c.userAgent = name } }

// WithAttempts bounds how often a request is tried; 1: once. The default is 4.
func WithAttempts(n int) Option { return func(c *Client) { c.attempts = max(1, n) } }

// WithPause sets how long to wait after the attempt-th failure (from 1), where
// the server does not say. The default doubles from 200 ms.
func WithPause(pause func(attempt int) time.Duration) Option {
	return func(c *Client) { c.pause = pause }
}

// New returns a client of the cloud at baseURL, such as
// "https://cloud.example.com". token is an API key or a session token; "" for
// what needs none. A bad URL is reported by the first request.
func New(baseURL, token string, options ...Option) *Client {
	c := &Client{token: token, userAgent: "suanli-go", http: http.DefaultClient, attempts: 4,
		pause: func(attempt int) time.Duration { return 100 * time.Millisecond << min(attempt, 6) }}
	c.base, c.baseErr = url.Parse(strings.TrimRight(baseURL, "/"))
	if c.baseErr == nil && (c.base.Host == "" || (c.base.Scheme != "http" && c.base.Scheme != "https")) {
		c.baseErr = fmt.Errorf("address %q: want http:// or https:// and a host", baseURL)
	}
	for _, o := range options {
		o(c)
	}
	return c
}

// WithToken returns a copy of c that presents another token.
func (c *Client) WithToken(token string) *Client {
	d := *c
	d.token = token
	return &d
}

// IdempotencyKey in a context makes a write with that context use key rather
// than a fresh one, so that a program that died can repeat it safely.
func IdempotencyKey(ctx context.Context, key string) context.Context {
	return context.WithValue(ctx, keyKey{}, key)
}

type keyKey struct{}

// Do sends a request and decodes the answer into out. query, in and out may be
// nil. Writes carry an Idempotency-Key, the same for every attempt, so all
// requests are tried again after 429, 503 and failures of the network. A
// refusal is an *Error.
func (c *Client) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
	}
	key := ""
	if method != http.MethodGet && method != http.MethodHead {
		key, _ = ctx.Value(keyKey{}).(string)
		if key == "" {
			key = rand.Text()
		}
	}
	for attempt := 1; ; attempt++ {
		res, err := c.send(ctx, method, path, query, body, key, "application/json")
		if err == nil {
			err = decode(res, out)
		}
		if err == nil {
			return nil
		}
		wait, again := c.retry(err, attempt)
		if !again || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// temporary is an error after which a repeat may succeed.
type temporary struct {
	error
	after time.Duration // what the server asked for; 0: nothing
}

func (t *temporary) Unwrap() error { return t.error }

func (c *Client) retry(err error, attempt int) (time.Duration, bool) {
	t, ok := errors.AsType[*temporary](err)
	if !ok || attempt >= c.attempts {
		return 0, false
	}
	return max(t.after, c.pause(attempt)), true
}

// Open sends a request without a body and returns the answer's body as it
// comes, for downloads and logs. The caller closes it.
func (c *Client) Open(ctx context.Context, method, path string, query url.Values, accept string) (io.ReadCloser, error) {
	res, err := c.send(ctx, method, path, query, nil, "", accept)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 400 {
		return nil, decode(res, nil)
	}
	return res.Body, nil
}

func (c *Client) send(ctx context.Context, method, path string, query url.Values, body []byte, key, accept string) (*http.Response, error) {
	if c.baseErr != nil {
		return nil, c.baseErr
	}
	// path is escaped already, identifiers by url.PathEscape.
	u := c.base.String() + path
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, u, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("User-Agent", c.userAgent)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		// The error names the method and the URL already.
		return nil, &temporary{error: err}
	}
	return res, nil
}

const maxAnswer = 64 << 20 // bytes; more is not an answer of this API

func decode(res *http.Response, out any) error {
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return &temporary{error: fmt.Errorf("read the answer: %w", err)}
	}
	if res.StatusCode >= 400 {
		return refusal(res, content)
	}
	if out == nil || len(content) == 0 {
		return nil
	}
	if err := json.Unmarshal(content, out); err != nil {
		return fmt.Errorf("the answer of %s is not what this client knows: %w", res.Request.URL.Redacted(), err)
	}
	return nil
}

func refusal(res *http.Response, content []byte) error {
	e := &Error{}
	if json.Unmarshal(content, e) != nil || e.Code == "" {
		// Not from a suanli server: a proxy's page, say.
		text := strings.TrimSpace(string(content[:min(len(content), 200)]))
		e = &Error{Code: "http_" + strconv.Itoa(res.StatusCode), Detail: fmt.Sprintf("%s answered %s: %s", res.Request.URL.Host, res.Status, text)}
	}
	e.Status, e.RequestID = res.StatusCode, res.Header.Get("X-Request-Id")
	switch {
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusServiceUnavailable, res.StatusCode == http.StatusBadGateway,
		e.Code == "idempotency_in_progress":
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return &temporary{error: e, after: time.Duration(min(max(seconds, 0), 60)) * time.Second}
	}
	return e
}

// all returns every item of a paged list, asking for pages as they are needed.
// The last pair holds the error that ended it, if one did.
func all[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := url.Values{}
		for k, v := range query {
			q[k] = v
		}
		for {
			var page Page[T]
			if err := c.Do(ctx, http.MethodGet, path, q, nil, &page); err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			q.Set("cursor", page.NextCursor)
		}
	}
}

// collect gathers a sequence into a slice, up to its first error.
func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var out []T
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// do is Do for an answer of the type T. in may be nil.
func do[T any](ctx context.Context, c *Client, method, path string, in any) (*T, error) {
	out := new(T)
	if err := c.Do(ctx, method, path, nil, in, out); err != nil {
		return nil, err
	}
	return out, nil
}
