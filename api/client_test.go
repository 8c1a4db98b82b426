package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// script answers requests with its steps in order, and notes what came.
type script struct {
	mu    sync.Mutex
	steps []http.HandlerFunc
	keys  []string
	seen  []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.seen = append(s.seen, r.Method+" "+r.URL.String()+" "+string(body))
	step := s.steps[min(len(s.seen), len(s.steps))-1]
	step(w, r)
}

func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func cut(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

func serve(t *testing.T, steps ...http.HandlerFunc) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return New(server.URL, "token", WithPause(func(int) time.Duration { return time.Millisecond })), s
}

const busy = `{"code":"unavailable","detail":"try later"}`

func TestAWriteIsRepeatedWithOneKeyUntilItIsDone(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(503, busy), cut, answer(429, busy), answer(200, `{"n":1}`))
	var out struct{ N int }
	if err := c.Do(t.Context(), "POST", "/v1/x", nil, map[string]int{"a": 1}, &out); err != nil || out.N != 1 {
		t.Fatal(out, err)
	}
	if len(s.keys) != 4 || s.keys[0] == "" {
		t.Fatalf("keys %q, want four of them", s.keys)
	}
	for i, k := range s.keys {
		if k != s.keys[0] || s.seen[i] != `POST /v1/x {"a":1}` {
			t.Fatalf("attempt %d is %s with the key %q, want the first again with %q", i+1, s.seen[i], k, s.keys[0])
		}
	}
	if err := c.Do(t.Context(), "POST", "/v1/x", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if s.keys[4] == s.keys[0] {
		t.Fatal("another write has the same key")
	}
	if err := c.Do(IdempotencyKey(t.Context(), "mine"), "POST", "/v1/x", nil, nil, nil); err != nil || s.keys[5] != "mine" {
		t.Fatalf("key %q (%v), want the caller's", s.keys[5], err)
	}
	if err := c.Do(t.Context(), "GET", "/v1/x", nil, nil, nil); err != nil || s.keys[6] != "" {
		t.Fatalf("a read has the key %q (%v)", s.keys[6], err)
	}
}

func TestARefusalIsNotRepeated(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(402, `{"status":402,"code":"insufficient_balance","detail":"the balance is 1.00","location":"body.x","position":3}`, "X-Request-Id", "rq-1"))
	err := c.Do(t.Context(), "POST", "/v1/x", nil, nil, nil)
	if !errors.Is(err, &Error{Code: "insufficient_balance"}) || len(s.seen) != 1 {
		t.Fatalf("%v after %d attempts", err, len(s.seen))
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Status != 402 || e.Location != "body.x" || e.Position != 3 || e.RequestID != "rq-1" || e.Error() != "the balance is 1.00" {
		t.Fatalf("%+v", e)
	}
}

func TestTheLastOfTooManyFailuresIsTheError(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(503, busy))
	if err := c.Do(t.Context(), "GET", "/v1/x", nil, nil, nil); !errors.Is(err, &Error{Code: "unavailable"}) || len(s.seen) != 4 {
		t.Fatalf("%v after %d attempts, want 4", err, len(s.seen))
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, answer(429, busy, "Retry-After", "60"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if err := c.Do(ctx, "GET", "/v1/x", nil, nil, nil); err == nil || time.Since(start) > 10*time.Second {
		t.Fatalf("%v after %v", err, time.Since(start))
	}
}

func TestAProxysErrorPageIsAReadableError(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, answer(404, "<html>not here</html>"))
	err := c.Do(t.Context(), "GET", "/v1/x", nil, nil, nil)
	if !errors.Is(err, &Error{Code: "http_404"}) || !strings.Contains(err.Error(), "not here") {
		t.Fatal(err)
	}
	c, _ = serve(t, answer(200, "<html>sign in to the wireless network</html>"))
	var out map[string]any
	if err := c.Do(t.Context(), "GET", "/v1/x", nil, nil, &out); err == nil {
		t.Fatal("a page was taken for an answer")
	}
}

func TestABadAddressIsSaidByTheFirstRequest(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "cloud.example.com", "ftp://cloud.example.com", "http://", "http://[::1"} {
		if err := New(address, "").Do(t.Context(), "GET", "/v1/x", nil, nil, nil); err == nil {
			t.Errorf("%q was taken", address)
		}
	}
}

func TestWatchReadsEventsAsTheStandardWritesThem(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, answer(200, ": alive\n\nid: 1\nevent: state\ndata: {\"a\":\ndata: 1}\n\ndata:2\n\nevent: error\ndata: {\"code\":\"gone\",\"detail\":\"ended\"}\n\ndata: 3\n\n"))
	var got []Event
	var last error
	for e, err := range c.Watch(t.Context(), "/v1/x", nil) {
		if err != nil {
			last = err
			continue
		}
		got = append(got, e)
	}
	var a struct{ A int }
	if len(got) != 2 || got[0].ID != "1" || got[0].Name != "state" || json.Unmarshal(got[0].Data, &a) != nil || a.A != 1 || got[1].Name != "message" || string(got[1].Data) != "2" {
		t.Fatalf("%+v", got)
	}
	if !errors.Is(last, &Error{Code: "gone"}) {
		t.Fatalf("ended with %v", last)
	}
}

func TestListsAreFollowedPageByPage(t *testing.T) {
	t.Parallel()
	c, s := serve(t, answer(200, `{"items":[{"id":"a"},{"id":"b"}],"next_cursor":"b"}`), answer(200, `{"items":[{"id":"c"}]}`))
	users, err := c.Users(t.Context())
	if err != nil || len(users) != 3 || users[2].ID != "c" {
		t.Fatal(users, err)
	}
	if s.seen[1] != "GET /v1/users?cursor=b " {
		t.Fatalf("the second request is %s", s.seen[1])
	}
}
