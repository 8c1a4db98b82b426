package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/console"
	"suanli.dev/internal/ratelimit"
)

func TestEveryAnswerHasARequestIDThatTheLogHasToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.send("GET", "/v1/me", w.ada.token, nil).Header.Get(requestIDHeader)
	given := w.send("GET", "/v1/me", w.ada.token, nil, requestIDHeader, "trace-7").Header.Get(requestIDHeader)
	forged := w.send("GET", "/v1/me", w.ada.token, nil, requestIDHeader, "a b\"c").Header.Get(requestIDHeader)
	if !strings.HasPrefix(made, "rq-") || given != "trace-7" || !strings.HasPrefix(forged, "rq-") {
		t.Fatalf("request ids: made %q, given %q, for one that is no id %q", made, given, forged)
	}
	eventually(t, "the log has the request ids", func() bool {
		log := w.log.String()
		return strings.Contains(log, made) && strings.Contains(log, "trace-7")
	})
	for line := range strings.Lines(w.log.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if record["request_id"] == "trace-7" && (record["operation"] != "getMe" || record["user_id"] != w.ada.ID || record["status"] != 200.0) {
			t.Errorf("log record %v", record)
		}
	}
	if strings.Contains(w.log.String(), w.ada.token) {
		t.Error("the log holds a session token")
	}
}

func TestAPanicStopsOnlyItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *Config) {
		w.extra = append(w.extra, func(a *API) {
			register(a, operation{ID: "panic", Method: "GET", Path: "/v1/panic", Summary: "Panic", Tag: "Test"},
				func(context.Context, account.Principal, *none) (*none, error) { panic("secret detail") })
		})
	})
	r := w.send("GET", "/v1/panic", "", nil)
	r.want(t, 500, "internal")
	if strings.Contains(r.Body, "secret detail") {
		t.Errorf("the answer tells of the inside: %s", r.Body)
	}
	if r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("Content-Type %q", r.Header.Get("Content-Type"))
	}
	if !strings.Contains(w.log.String(), "secret detail") {
		t.Error("the log does not tell of the panic")
	}
	w.send("GET", "/healthz", "", nil).want(t, 200, "")
}

func TestAnErrorOfOursTellsTheCallerNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *Config) {
		w.extra = append(w.extra, func(a *API) {
			register(a, operation{ID: "broken", Method: "GET", Path: "/v1/broken", Summary: "Broken", Tag: "Test"},
				func(context.Context, account.Principal, *none) (*none, error) {
					return nil, errors.New("table users has no column x")
				})
		})
	})
	r := w.send("GET", "/v1/broken", "", nil)
	r.want(t, 500, "internal")
	if strings.Contains(r.Body, "column") {
		t.Errorf("the answer tells of the inside: %s", r.Body)
	}
}

func TestRequestsThatFitNoEndpointGetProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	huge := `{"name":"` + strings.Repeat("a", maxBody) + `","scopes":[]}`
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		code                     string
	}{
		{"a path that is nowhere", "GET", "/v1/nowhere", "", nil, 404, "not_found"},
		{"another method", "PUT", "/v1/users", "{}", nil, 405, "method_not_allowed"},
		{"broken JSON", "POST", "/v1/api-keys", "{", nil, 400, "bad_request"},
		{"no body", "POST", "/v1/api-keys", "", nil, 400, "bad_request"},
		{"a list for an object", "POST", "/v1/api-keys", "[]", nil, 422, "invalid_request"},
		{"U+0000 in a text", "POST", "/v1/api-keys", `{"name":"a\u0000","scopes":[]}`, nil, 400, "bad_request"},
		{"a backslash before u0000", "POST", "/v1/api-keys", `{"name":"a\\u0000","scopes":7}`, nil, 422, "invalid_request"},
		{"null", "POST", "/v1/api-keys", "null", nil, 422, "invalid_request"},
		{"an unknown field", "POST", "/v1/api-keys", `{"name":"a","scopes":[],"scope":"x"}`, nil, 422, "invalid_request"},
		{"another type of content", "POST", "/v1/api-keys", "name=a", []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"a huge body", "POST", "/v1/api-keys", huge, nil, 413, "body_too_large"},
		{"a huge body with a key", "POST", "/v1/api-keys", huge, []string{"Idempotency-Key", "k"}, 413, "body_too_large"},
		{"an unknown query", "GET", "/v1/users?limt=5", "", nil, 422, "invalid_request"},
		{"a limit of 0", "GET", "/v1/users?limit=0", "", nil, 422, "invalid_request"},
		{"a negative limit", "GET", "/v1/users?limit=-1", "", nil, 422, "invalid_request"},
		{"a huge limit", "GET", "/v1/users?limit=99999999999999999999", "", nil, 422, "invalid_request"},
		{"a limit that is no number", "GET", "/v1/users?limit=ten", "", nil, 422, "invalid_request"},
		{"a long cursor", "GET", "/v1/users?cursor=" + strings.Repeat("x", 300), "", nil, 422, "invalid_request"},
		{"a long identifier", "GET", "/v1/users/" + strings.Repeat("x", 300), "", nil, 422, "invalid_request"},
		{"another scheme", "GET", "/v1/users", "", []string{"Authorization", "Basic YTpi"}, 401, "invalid_token"},
		{"a token without scheme", "GET", "/v1/users", "", []string{"Authorization", "sk-suanli-x"}, 401, "invalid_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body any
			if c.body != "" {
				body = c.body
			}
			r := w.send(c.method, c.path, w.ada.token, body, c.headers...)
			r.want(t, c.status, c.code)
			var p Problem
			if err := json.Unmarshal([]byte(r.Body), &p); err != nil || p.Status != c.status || p.Title == "" || p.Detail == "" {
				t.Errorf("not a whole problem (%v): %s", err, r.Body)
			}
			if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
				t.Errorf("Content-Type %q", ct)
			}
		})
	}
}

func TestRequestsBeyondTheRateAreToldWhenToComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withLimits(Limits{
		PerKey:  ratelimit.Rate{Every: time.Second, Burst: 3},
		PerIP:   ratelimit.Rate{Every: time.Second, Burst: 2},
		Refused: ratelimit.Rate{Every: time.Minute, Burst: 2},
	}))
	for range 3 {
		w.send("GET", "/v1/me", w.ada.token, nil).want(t, 200, "")
	}
	r := w.send("GET", "/v1/me", w.ada.token, nil)
	r.want(t, 429, "rate_limited")
	if r.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After %q, want 1", r.Header.Get("Retry-After"))
	}
	w.send("GET", "/v1/me", w.eve.token, nil).want(t, 200, "") // another key
	w.clock.Advance(time.Second)
	w.send("GET", "/v1/me", w.ada.token, nil).want(t, 200, "")

	w.send("GET", "/v1/me", "", nil).want(t, 401, "unauthenticated")
	w.send("GET", "/v1/me", "", nil).want(t, 401, "unauthenticated")
	w.send("GET", "/v1/me", "", nil).want(t, 429, "rate_limited")

	for range 2 {
		w.send("GET", "/v1/me", "sk-suanli-wrong", nil).want(t, 401, "invalid_token")
	}
	w.send("GET", "/v1/me", "sk-suanli-wrong", nil).want(t, 429, "rate_limited")
	for range 10 {
		w.send("GET", "/healthz", "", nil).want(t, 200, "") // probes always pass
	}
}

func TestTheConsolesFilesAreNotCountedAgainstAnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withLimits(Limits{PerIP: ratelimit.Rate{Every: time.Minute, Burst: 2}}))
	for n := range 300 {
		// A program built without the console says that it has none.
		if r := w.send("GET", fmt.Sprintf("%sassets/part-%d.js", console.Prefix, n), "", nil); r.Status == http.StatusTooManyRequests {
			t.Fatalf("file %d of one page was refused: %s", n, r.Body)
		}
	}
	for range 2 {
		w.send("GET", "/v1/me", "", nil).want(t, 401, "unauthenticated")
	}
	w.send("GET", "/v1/me", "", nil).want(t, 429, "rate_limited")
}

func TestTheClientsAddressIsBelievedOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *world, c *Config) {
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	})
	for _, c := range []struct{ remote, forwarded, want string }{
		{"203.0.113.9:1", "", "203.0.113.9"},
		{"203.0.113.9:1", "198.51.100.1", "203.0.113.9"},
		{"10.1.1.1:1", "198.51.100.1", "198.51.100.1"},
		{"10.1.1.1:1", "192.0.2.66, 198.51.100.1, 10.2.2.2", "198.51.100.1"},
		{"10.1.1.1:1", "nonsense", "10.1.1.1"},
		{"[2001:db8::1]:1", "", "2001:db8::1"},
		{"[::ffff:203.0.113.9]:1", "", "203.0.113.9"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := w.server.clientIP(r); got != c.want {
			t.Errorf("from %s, forwarded for %q: %s, want %s", c.remote, c.forwarded, got, c.want)
		}
	}
	if a, b := network("2001:db8::1"), network("2001:db8::2"); a != b {
		t.Errorf("two addresses of one /64 are limited apart: %s, %s", a, b)
	}
}

func TestMetricsAreForOperatorsAndForTheMachineItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := func(remote, token string, headers ...string) int {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.RemoteAddr, r.Host = remote, "127.0.0.1:7080"
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		for i := 0; i+1 < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
		}
		rec := httptest.NewRecorder()
		w.server.Handler().ServeHTTP(rec, r)
		return rec.Code
	}
	for _, c := range []struct {
		name string
		got  int
		want int
	}{
		{"loopback", ask("127.0.0.1:1", ""), 200},
		{"loopback by IPv6", ask("[::1]:1", ""), 200},
		{"a stranger", ask("203.0.113.9:1", ""), 401},
		{"an owner", ask("203.0.113.9:1", w.ada.token), 403},
		{"an operator", ask("203.0.113.9:1", w.operator.token), 200},
		{"loopback by name", ask("127.0.0.1:1", "", "Host", "LocalHost:7080"), 200},
		{"loopback by IPv6 address", ask("[::1]:1", "", "Host", "[::1]:7080"), 200},
		{"a page whose name leads to loopback", ask("127.0.0.1:1", "", "Host", "rebound.example.com:7080"), 401},
		{"a page with a name that looks like loopback", ask("127.0.0.1:1", "", "Host", "127.0.0.1.example.com"), 401},
		{"a request without a name", ask("127.0.0.1:1", "", "Host", "."), 401},
		{"an operator by another name", ask("127.0.0.1:1", w.operator.token, "Host", "cloud.example.com"), 200},
		{"a stranger through a proxy on this machine", ask("127.0.0.1:1", "", "X-Forwarded-For", "203.0.113.9"), 401},
	} {
		if c.got != c.want {
			t.Errorf("%s gets %d, want %d", c.name, c.got, c.want)
		}
	}
	w.send("GET", "/v1/me", w.ada.token, nil)
	eventually(t, "the request is counted by its operation", func() bool {
		return strings.Contains(w.send("GET", "/metrics", "", nil).Body, `suanli_http_requests_total{method="GET",operation="getMe",status="200"} 1`)
	})
}

func TestReadinessNamesTheCheckThatFails(t *testing.T) {
	t.Parallel()
	var broken error
	w := newWorld(t, func(_ *world, c *Config) {
		c.Ready = map[string]func(context.Context) error{"bus": func(context.Context) error { return broken }}
	})
	if r := w.send("GET", "/readyz", "", nil); r.Status != 200 {
		t.Fatalf("ready: %d %s", r.Status, r.Body)
	}
	broken = errors.New("password in the address")
	r := w.send("GET", "/readyz", "", nil)
	if r.Status != 503 || !strings.Contains(r.Body, `"bus":"failed"`) || strings.Contains(r.Body, "password") {
		t.Fatalf("not ready: %d %s", r.Status, r.Body)
	}
	w.send("GET", "/healthz", "", nil).want(t, 200, "")
}

// ticker is an event stream that counts as long as it is let.
func ticker(next <-chan int, fail error) func(*world, *Config) {
	return func(w *world, c *Config) {
		c.KeepAlive = 10 * time.Millisecond
		w.extra = append(w.extra, func(a *API) {
			registerEvents(a, operation{ID: "tick", Method: "GET", Path: "/v1/tick/{name}", Summary: "Tick", Tag: "Test", Action: account.ReadLeases},
				func(ctx context.Context, _ account.Principal, in *struct {
					Name string `path:"name"`
				}, emit func(event) error) error {
					for {
						select {
						case <-ctx.Done():
							return ctx.Err()
						case n, ok := <-next:
							if !ok {
								return fail
							}
							if err := emit(event{ID: fmt.Sprint(n), Name: in.Name, Data: map[string]int{"n": n}}); err != nil {
								return err
							}
						}
					}
				})
		})
	}
}

func TestEventsArriveOneByOneAndEnd(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	w := newWorld(t, ticker(next, nil))
	n := 0
	go func() { next <- 1 }()
	for e, err := range w.ada.client.Watch(t.Context(), "/v1/tick/count", nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if e.ID != fmt.Sprint(n) || e.Name != "count" || string(e.Data) != fmt.Sprintf(`{"n":%d}`, n) {
			t.Fatalf("event %d is %+v %s", n, e, e.Data)
		}
		if n == 3 {
			close(next)
			continue
		}
		go func() { next <- n + 1 }()
	}
	if n != 3 {
		t.Fatalf("%d events, want 3", n)
	}
}

func TestAStreamOfEventsHasItsHeadersBeforeItsFirstEventAndStaysAlive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *world, c *Config) { c.KeepAlive = 10 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/v1/lease-events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.ada.token)
	res, err := http.DefaultClient.Do(req) // nothing happens to any lease
	if err != nil {
		t.Fatalf("no headers came: %v", err)
	}
	defer res.Body.Close()
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("answer %s %v", res.Status, res.Header)
	}
	lines := bufio.NewScanner(res.Body)
	for _, want := range []string{": listening", "", ": alive", "", ": alive"} {
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("line %q, want %q (%v)", lines.Text(), want, lines.Err())
		}
	}
}

func TestAStreamThatCannotStartIsAProblem(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	close(next)
	w := newWorld(t, ticker(next, errors.New("broken")))
	w.send("GET", "/v1/tick/x", "", nil).want(t, 401, "unauthenticated")
	w.send("GET", "/v1/tick/x", w.ada.token, nil).want(t, 500, "internal")
}

func TestAStreamEndsWhenItsKeyIsRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, ticker(make(chan int), nil))
	key, err := w.ada.client.CreateAPIKey(t.Context(), api.CreateAPIKey{Name: "watcher", Scopes: []string{"lease:read"}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+"/v1/tick/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key.Secret)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != ": alive" {
		t.Fatalf("a silent stream says %q, want a sign of life", lines.Text())
	}
	if err := w.ada.client.DeleteAPIKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		if lines.Text() != "" {
			last = lines.Text()
		}
	}
	if !strings.Contains(last, "invalid_token") {
		t.Fatalf("the stream ended with %q, want the reason", last)
	}
}

func TestAWebSocketMayCarryItsTokenAsASubprotocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send("GET", "/v1/me", "", nil, "Sec-WebSocket-Protocol", "suanli.v1, suanli.bearer."+w.ada.token).want(t, 200, "")
	w.send("GET", "/v1/me", "", nil, "Sec-WebSocket-Protocol", "suanli.v1, suanli.bearer.wrong").want(t, 401, "invalid_token")
}
