package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// receiver is a webhook's other end, without a network.
type receiver struct {
	mu     sync.Mutex
	calls  []call
	answer func(n int, r *http.Request) (*http.Response, error) // n: from 1 on
}

type call struct {
	at     time.Time
	header http.Header
	body   string
}

func (r *receiver) RoundTrip(req *http.Request) (*http.Response, error) {
	b, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.calls = append(r.calls, call{time.Now(), req.Header, string(b)})
	n := len(r.calls)
	r.mu.Unlock()
	return r.answer(n, req)
}

func (r *receiver) seen() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func status(code int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// inVirtualTime runs a test on each engine with a clock that jumps.
func inVirtualTime(t *testing.T, test func(t *testing.T, db *store.DB)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		address := storetest.Address(t)
		synctest.Test(t, func(t *testing.T) { test(t, storetest.Open(t, address)) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		address := storetest.PostgresAddress(t)
		synctest.Test(t, func(t *testing.T) { test(t, storetest.Open(t, address)) })
	})
}

// running runs a service until the returned function is called.
func running(t *testing.T, s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (w *world) webhook(p account.Principal, kinds ...string) (Webhook, string) {
	w.t.Helper()
	hook, secret, err := w.CreateWebhook(w.t.Context(), p, "https://hooks.example.com/in?token=1", "", kinds)
	if err != nil {
		w.t.Fatal(err)
	}
	return hook, secret
}

func (w *world) deliveries(p account.Principal, hook Webhook) []Delivery {
	w.t.Helper()
	list, err := w.Deliveries(w.t.Context(), p, hook.ID, "", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range list {
		d, err := w.Delivery(w.t.Context(), p, hook.ID, list[i].ID)
		if err != nil {
			w.t.Fatal(err)
		}
		list[i] = d
	}
	return list
}

func TestADeliveryIsTriedForADayWithGrowingPausesThenItsWebhookIsSwitchedOff(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		r := &receiver{answer: func(int, *http.Request) (*http.Response, error) { return status(503, "busy") }}
		w := newWorld(t, db, func(c *Config) { c.Transport, c.Poll = r, time.Minute })
		owner := who("ac-1", account.Owner)
		hook, _ := w.webhook(owner, KindFailed)
		stop := running(t, w.Service)
		defer stop()
		begin := time.Now()
		w.announce("ac-1", KindFailed, "ls-1", begin, LeaseNews{Name: "train"})
		<-time.After(23 * time.Hour)
		w.announce("ac-1", KindFailed, "ls-2", begin, LeaseNews{Name: "late"})
		if h, err := w.Webhook(t.Context(), owner, hook.ID); err != nil || !h.Enabled || h.FailingSince.IsZero() {
			t.Errorf("after 23 h: %+v, %v", h, err)
		}
		<-time.After(2 * time.Hour)
		stop()
		list := w.deliveries(owner, hook)
		late, first := list[0], list[1]
		if first.State != "failed" || late.State != "failed" {
			t.Fatalf("%+v", list)
		}
		last := time.Duration(0)
		for i, a := range first.Log {
			if a.Number != int64(i+1) || a.Status != 503 || a.Error != "refused" || a.Excerpt != "busy" {
				t.Errorf("attempt %+v", a)
			}
			if i == 0 {
				continue
			}
			gap := a.At.Sub(first.Log[i-1].At)
			want := min(5*time.Second*time.Duration(pow3(i-1)), 4*time.Hour)
			if i < len(first.Log)-1 && (gap < want*4/5 || gap > want*6/5+time.Minute) {
				t.Errorf("attempt %d came %s after the one before, want about %s", i+1, gap, want)
			}
			last = a.At.Sub(begin)
		}
		if n := len(first.Log); n < 10 || n > 20 || last < 24*time.Hour || last > 24*time.Hour+2*time.Minute {
			t.Errorf("%d attempts, the last after %s", n, last)
		}
		h, err := w.Webhook(t.Context(), owner, hook.ID)
		if err != nil || h.Enabled || h.DisabledWhy != "gave_up" {
			t.Errorf("%+v, %v", h, err)
		}
		news := w.list(owner, Filter{Kind: KindWebhookDisabled})
		if len(news) != 1 || news[0].Subject != hook.ID || strings.Contains(string(news[0].Data), "token") {
			t.Errorf("%+v", news)
		}
	})
}

func pow3(n int) int {
	out := 1
	for range min(n, 12) {
		out *= 3
	}
	return out
}

func TestOneDeliveryThatIsNeverTakenDoesNotSwitchOffAWebhookThatTakesOthers(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		r := &receiver{answer: func(_ int, req *http.Request) (*http.Response, error) { return status(200, "") }}
		poison := &receiver{answer: func(int, *http.Request) (*http.Response, error) { return status(500, "") }}
		w := newWorld(t, db, func(c *Config) {
			c.Poll = time.Minute
			c.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
				b, err := io.ReadAll(req.Body)
				if err != nil {
					return nil, err
				}
				req.Body = io.NopCloser(bytes.NewReader(b))
				if strings.Contains(string(b), "poison") {
					return poison.RoundTrip(req)
				}
				return r.RoundTrip(req)
			})
		})
		owner := who("ac-1", account.Owner)
		hook, _ := w.webhook(owner)
		stop := running(t, w.Service)
		defer stop()
		w.announce("ac-1", KindFailed, "ls-1", time.Now(), LeaseNews{Name: "poison"})
		<-time.After(12 * time.Hour)
		w.announce("ac-1", KindFailed, "ls-2", time.Now(), LeaseNews{Name: "train"})
		<-time.After(13 * time.Hour)
		stop()
		list := w.deliveries(owner, hook)
		if len(list) != 2 || list[0].State != "delivered" || list[1].State != "failed" {
			t.Errorf("%+v", list)
		}
		if h, err := w.Webhook(t.Context(), owner, hook.ID); err != nil || !h.Enabled {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAReceiverThatComesBackGetsEverythingOnceSignedAndVerifiable(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		r := &receiver{answer: func(n int, _ *http.Request) (*http.Response, error) {
			if n <= 3 {
				return nil, errors.New("dial tcp 10.0.0.5:443: connection refused")
			}
			return status(204, "")
		}}
		w := newWorld(t, db, func(c *Config) { c.Transport, c.Poll = r, 20*time.Second })
		owner := who("ac-1", account.Owner)
		hook, secret := w.webhook(owner, KindInterrupted)
		w.webhook(who("ac-2", account.Owner))
		stop := running(t, w.Service)
		defer stop()
		at := time.Now()
		w.announce("ac-1", KindInterrupted, "ls-1", at, LeaseNews{Name: "train", Code: "outbid"})
		w.announce("ac-1", KindFailed, "ls-1", at, LeaseNews{Name: "unwanted"})
		<-time.After(time.Hour)
		calls := r.seen()
		if len(calls) != 4 {
			t.Fatalf("%d calls, want 3 that failed and 1", len(calls))
		}
		verify, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range calls {
			if c.body != calls[0].body || c.header.Get("webhook-id") != calls[0].header.Get("webhook-id") {
				t.Errorf("call %d differs from the first", i+1)
			}
			if c.header.Get("webhook-timestamp") != fmt.Sprint(c.at.Unix()) {
				t.Errorf("call %d is dated %s, not by its attempt", i+1, c.header.Get("webhook-timestamp"))
			}
			if err := verify.VerifyIgnoringTimestamp([]byte(c.body), c.header); err != nil {
				t.Errorf("call %d: %v", i+1, err)
			}
			if err := verify.VerifyIgnoringTimestamp([]byte(c.body+" "), c.header); err == nil {
				t.Error("a body that was altered verifies")
			}
		}
		d := w.deliveries(owner, hook)[0]
		if d.State != "delivered" || len(d.Log) != 4 || d.Log[0].Error != "connection_failed" || strings.Contains(fmt.Sprint(d.Log), "10.0.0.5") {
			t.Errorf("%+v", d)
		}

		// Both secrets sign for a day after a change; then the new one alone.
		_, fresh, err := w.RotateSecret(t.Context(), owner, hook.ID)
		if err != nil || fresh == secret {
			t.Fatal(fresh, err)
		}
		verifyFresh, err := standardwebhooks.NewWebhook(fresh)
		if err != nil {
			t.Fatal(err)
		}
		w.announce("ac-1", KindInterrupted, "ls-1", at.Add(time.Second), LeaseNews{Name: "train"})
		<-time.After(time.Minute)
		both := r.seen()[4]
		if err := errors.Join(verify.Verify([]byte(both.body), both.header), verifyFresh.VerifyIgnoringTimestamp([]byte(both.body), both.header)); err != nil {
			t.Error(err)
		}
		<-time.After(24 * time.Hour)
		again, err := w.Redeliver(t.Context(), owner, hook.ID, d.ID)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		last := r.seen()[5]
		if last.body != calls[0].body || last.header.Get("webhook-id") != calls[0].header.Get("webhook-id") || again.NotificationID != d.NotificationID {
			t.Error("what is delivered again is not the same")
		}
		if verify.VerifyIgnoringTimestamp([]byte(last.body), last.header) == nil || verifyFresh.VerifyIgnoringTimestamp([]byte(last.body), last.header) != nil {
			t.Error("a day after the change the old secret signs, or the new one does not")
		}
	})
}

func TestAReceiverThatWantsNothingMoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		r := &receiver{answer: func(int, *http.Request) (*http.Response, error) { return status(410, "") }}
		w := newWorld(t, db, func(c *Config) { c.Transport, c.Poll = r, 20*time.Second })
		owner := who("ac-1", account.Owner)
		hook, _ := w.webhook(owner)
		stop := running(t, w.Service)
		defer stop()
		w.announce("ac-1", KindFailed, "ls-1", time.Now(), LeaseNews{})
		<-time.After(time.Hour)
		w.announce("ac-1", KindFailed, "ls-2", time.Now(), LeaseNews{})
		<-time.After(time.Hour)
		if n := len(r.seen()); n != 1 {
			t.Errorf("it was called %d times", n)
		}
		if _, err := w.TestWebhook(t.Context(), owner, hook.ID); !isCode(err, "webhook_disabled") {
			t.Errorf("a test of a webhook that is off: %v", err)
		}
		on := true
		r.mu.Lock()
		r.answer = func(int, *http.Request) (*http.Response, error) { return status(200, "") }
		r.mu.Unlock()
		if h, err := w.ChangeWebhook(t.Context(), owner, hook.ID, WebhookChange{Enabled: &on}); err != nil || !h.Enabled || h.DisabledWhy != "" {
			t.Fatalf("%+v, %v", h, err)
		}
		if _, err := w.TestWebhook(t.Context(), owner, hook.ID); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		list := w.deliveries(owner, hook)
		if list[0].Kind != kindTest || list[0].State != "delivered" {
			t.Errorf("%+v", list)
		}
	})
}

func isCode(err error, code string) bool {
	f, ok := fault.As(err)
	return ok && f.Code == code
}

func TestReplicasDeliverEachOnceAndTakeOverFromOneThatDied(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		got := map[string]int{}
		transport := roundTrip(func(req *http.Request) (*http.Response, error) {
			mu.Lock()
			got[req.Header.Get("webhook-id")]++
			mu.Unlock()
			return status(200, "")
		})
		w := newWorld(t, db, func(c *Config) { c.Transport = transport })
		owner := who("ac-1", account.Owner)
		hook, _ := w.webhook(owner)
		// One that claims and then is never heard of again, as if it had been killed.
		dead := w.replica()
		w.announce("ac-1", KindFailed, "ls-dead", time.Now(), LeaseNews{})
		if _, ok, err := dead.claim(t.Context(), w.deliveries(owner, hook)[0].ID); err != nil || !ok {
			t.Fatal(ok, err)
		}
		var stops []func()
		for range 3 {
			stops = append(stops, running(t, w.replica(func(c *Config) { c.Transport, c.Poll = transport, 20*time.Second })))
		}
		for i := range 60 {
			w.announce("ac-1", KindFailed, fmt.Sprintf("ls-%d", i), time.Now(), LeaseNews{})
		}
		<-time.After(time.Hour)
		for _, stop := range stops {
			stop()
		}
		if len(got) != 61 {
			t.Errorf("%d of 61 pieces of news were delivered", len(got))
		}
		for id, n := range got {
			if n != 1 {
				t.Errorf("%s was delivered %d times", id, n)
			}
		}
		for _, d := range w.deliveries(owner, hook) {
			if d.State != "delivered" {
				t.Errorf("%+v", d)
			}
		}
	})
}

func TestASlowReceiverDelaysNobodyElse(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		var mu sync.Mutex
		var taken []time.Duration
		begin := time.Now()
		w := newWorld(t, db, func(c *Config) {
			c.Transport = roundTrip(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == "slow.example.com" {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				mu.Lock()
				taken = append(taken, time.Since(begin))
				mu.Unlock()
				return status(200, "")
			})
		})
		owner := who("ac-1", account.Owner)
		slow, _, err := w.CreateWebhook(t.Context(), owner, "https://slow.example.com", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.webhook(owner)
		for i := range 200 {
			w.announce("ac-1", KindFailed, fmt.Sprintf("ls-%d", i), begin, LeaseNews{})
		}
		stop := running(t, w.Service)
		defer stop()
		<-time.After(30 * time.Second)
		stop()
		if len(taken) != 200 || slices.Max(taken) > 10*time.Second {
			t.Errorf("%d of 200 were taken, the last after %s", len(taken), slices.Max(append(taken, 0)))
		}
		list, err := w.Deliveries(t.Context(), owner, slow.ID, "", "", 1000)
		if err != nil || len(list) != 200 {
			t.Fatal(len(list), err)
		}
		tried, err := w.Delivery(t.Context(), owner, slow.ID, list[199].ID)
		if err != nil || len(tried.Log) == 0 || tried.Log[0].Error != "timeout" || tried.Log[0].Latency < 15*time.Second || tried.Log[0].Latency > 16*time.Second {
			t.Errorf("%+v, %v", tried, err)
		}
	})
}

func TestHostileReceiversGetNothingInsideAndHoldNothing(t *testing.T) {
	t.Parallel()
	var inside atomic.Int64
	neighbour := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		inside.Add(1)
		_, _ = io.WriteString(w, "the secret of a neighbour")
	}))
	t.Cleanup(neighbour.Close)
	secure := httptest.NewTLSServer(neighbour.Config.Handler)
	t.Cleanup(secure.Close)
	port := secure.URL[strings.LastIndexByte(secure.URL, ':'):]
	release := make(chan struct{})
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, neighbour.URL, http.StatusTemporaryRedirect)
		case "/huge":
			w.WriteHeader(http.StatusOK)
			for range 1 << 12 {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
					return
				}
			}
		case "/headers":
			for i := range 200 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 1<<10))
			}
		case "/binary":
			_, _ = w.Write([]byte("a\x00b\xff\u202ec"))
		case "/slow":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(hostile.Close)
	t.Cleanup(func() { close(release) })
	at, err := url.Parse(hostile.URL)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db, func(c *Config) {
			// The port too, or the neighbour would be trusted with it.
			c.Inside, c.Timeout = []string{at.Host}, 2*time.Second
		})
		owner := who("ac-1", account.Owner)
		stop := running(t, w.Service)
		t.Cleanup(stop)
		for _, c := range []struct {
			url, want string
			excerpt   func(string) bool
		}{
			{hostile.URL + "/redirect", "redirected", nil},
			{hostile.URL + "/huge", "", func(s string) bool { return len(s) == maxExcerpt }},
			{hostile.URL + "/headers", "connection_failed", nil},
			{hostile.URL + "/binary", "", func(s string) bool { return s == "abc" }},
			{hostile.URL + "/slow", "timeout", nil},
			{"https://localhost" + port, "address_inside", nil},
			{"https://127.0.0.1" + port, "address_inside", nil},
			{"https://[::ffff:127.0.0.1]" + port, "address_inside", nil},
			{"https://169.254.169.254/latest", "address_inside", nil},
			{"http://127.0.0.1" + neighbour.URL[strings.LastIndexByte(neighbour.URL, ':'):], "address_inside", nil},
		} {
			hook, _, err := w.CreateWebhook(t.Context(), owner, "https://hooks.example.com", "", []string{KindWebhookDisabled})
			if err != nil {
				t.Fatal(err)
			}
			// Past the check of what is asked for: as if a name led elsewhere by now.
			if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE notify_endpoints SET url = ? WHERE id = ?`, c.url, hook.ID)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.TestWebhook(t.Context(), owner, hook.ID); err != nil {
				t.Fatal(err)
			}
			a := w.firstAttempt(owner, hook)
			if a.Error != c.want || a.Latency > 4*time.Second || strings.Contains(a.Excerpt, "neighbour") || (c.excerpt != nil && !c.excerpt(a.Excerpt)) {
				t.Errorf("%s: %+v, want %q", c.url, a, c.want)
			}
			if err := w.DeleteWebhook(t.Context(), owner, hook.ID); err != nil {
				t.Fatal(err)
			}
		}
		if n := inside.Load(); n != 0 {
			t.Errorf("what is inside was reached %d times", n)
		}
	})
}

// firstAttempt waits for an attempt of a webhook's only delivery.
func (w *world) firstAttempt(p account.Principal, hook Webhook) Attempt {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for {
		if list := w.deliveries(p, hook); len(list) == 1 && len(list[0].Log) > 0 {
			return list[0].Log[0]
		}
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatal("no attempt was made within 20 s")
		}
	}
}

func TestNewsIsFollowedAsItComesAndAfterABreak(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		stop := running(t, w.Service)
		defer stop()
		viewer := who("ac-1", account.Viewer)
		at := time.Now()
		w.announce("ac-1", KindFailed, "before", at, LeaseNews{})
		before := w.list(viewer, Filter{})[0]
		follow := func(after string) (ready chan struct{}, got func() []string, end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			var subjects []string
			ready, done := make(chan struct{}), make(chan error, 1)
			go func() {
				done <- w.Follow(ctx, viewer, after, func() error { close(ready); return nil }, func(n Notification) error {
					mu.Lock()
					defer mu.Unlock()
					subjects = append(subjects, n.Subject)
					return nil
				})
			}()
			return ready, func() []string {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(subjects)
				}, func() {
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
		}
		ready, first, endFirst := follow("")
		<-ready
		w.announce("ac-1", KindFailed, "ls-1", at, LeaseNews{})
		w.announce("ac-2", KindFailed, "theirs", at, LeaseNews{})
		w.announce("ac-1", KindBalanceLow, "money", at, samples()[KindBalanceLow])
		<-time.After(5 * time.Second)
		ready, second, endSecond := follow(before.ID)
		<-ready
		w.announce("ac-1", KindFailed, "ls-2", at, LeaseNews{})
		<-time.After(5 * time.Minute)
		w.announce("ac-1", KindFailed, "ls-3", at, LeaseNews{})
		<-time.After(5 * time.Second)
		endFirst()
		endSecond()
		want := []string{"ls-1", "ls-2", "ls-3"}
		if !slices.Equal(first(), want) || !slices.Equal(second(), want) {
			t.Errorf("the first read %v, the second %v, want %v", first(), second(), want)
		}
	})
}

func TestAReaderThatFallsBehindIsToldSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, storetest.Open(t, "sqlite:"+t.TempDir()+"/x.db"))
		stop := running(t, w.Service)
		defer stop()
		block, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			done <- w.Follow(t.Context(), who("ac-1", account.Owner), "", func() error { close(ready); return nil }, func(Notification) error { <-block; return nil })
		}()
		<-ready
		for i := range 300 {
			w.announce("ac-1", KindFailed, fmt.Sprint(i), time.Now(), LeaseNews{})
		}
		<-time.After(5 * time.Second)
		close(block)
		if err := <-done; !isCode(err, "too_slow") {
			t.Error(err)
		}
	})
}

func TestSecretsAreNotInTheDatabaseAndOldNewsIsForgotten(t *testing.T) {
	t.Parallel()
	inVirtualTime(t, func(t *testing.T, db *store.DB) {
		r := &receiver{answer: func(int, *http.Request) (*http.Response, error) { return status(200, "") }}
		w := newWorld(t, db, func(c *Config) { c.Transport, c.Poll = r, time.Hour })
		owner := who("ac-1", account.Owner)
		hook, secret := w.webhook(owner)
		if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			stored, err := texts(ctx, tx, `SELECT secret FROM notify_endpoints`)
			if len(stored) != 1 || strings.Contains(stored[0], strings.TrimPrefix(secret, "whsec_")) {
				t.Errorf("%q is stored", stored)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		stop := running(t, w.Service)
		defer stop()
		w.announce("ac-1", KindFailed, "ls-1", time.Now(), LeaseNews{})
		<-time.After(29 * 24 * time.Hour)
		if n := len(w.deliveries(owner, hook)); n != 1 {
			t.Errorf("%d deliveries after 29 days", n)
		}
		<-time.After(2 * 24 * time.Hour)
		if n := len(w.deliveries(owner, hook)); n != 0 {
			t.Errorf("%d deliveries after 31 days", n)
		}
		if n := len(w.list(owner, Filter{})); n != 1 {
			t.Errorf("%d pieces of news after 31 days", n)
		}
		<-time.After(60 * 24 * time.Hour)
		if n := len(w.list(owner, Filter{})); n != 0 {
			t.Errorf("%d pieces of news after 91 days", n)
		}
	})
}
