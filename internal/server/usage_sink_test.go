package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// inbox is a receiver of events that behaves as a test says.
type inbox struct {
	*httptest.Server
	mu     sync.Mutex
	do     func(w http.ResponseWriter, r *http.Request) bool // whether what came is taken
	calls  int
	header http.Header
	taken  []api.UsageEvent
	seen   []string // ids, of what was not taken too
}

func newInbox(t *testing.T) *inbox {
	c := &inbox{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var batch []api.UsageEvent
		if err := json.Unmarshal(body, &batch); err != nil {
			t.Errorf("it got %q: %v", body, err)
		}
		c.mu.Lock()
		do := c.do
		c.calls++
		c.header = r.Header
		for _, e := range batch {
			c.seen = append(c.seen, e.ID)
		}
		c.mu.Unlock()
		if do != nil && !do(w, r) {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.taken = append(c.taken, batch...)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *inbox) behave(do func(w http.ResponseWriter, r *http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.do = do
}

func (c *inbox) ids() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.taken {
		out = append(out, e.ID)
	}
	return out
}

// sink is a new process's sink to an inbox.
func (w *world) sink(c *inbox, change ...func(*usageSink)) *usageSink {
	s := usageSink{db: w.db, usage: w.server.Billing.Usage, clock: w.clock.Now, log: slog.New(slog.DiscardHandler), address: c.URL + "/in?key=hidden", token: "a token", source: "https://cloud.example", version: "test"}
	for _, f := range change {
		f(&s)
	}
	return newUsageSink(s)
}

func (w *world) allUsage() (ids []string) {
	w.t.Helper()
	list, err := w.server.Billing.Usage(w.t.Context(), billing.UsedQuery{Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, u := range list {
		ids = append(ids, u.ID)
	}
	return ids
}

func onEachStore(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, address := range map[string]func(testing.TB) string{"sqlite": storetest.Address, "postgres": storetest.PostgresAddress} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorldOn(t, address(t)))
		})
	}
}

func TestEventsOfUseAreSentOnceEachInOrderWhileTheReceiverAnswers(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		w.invoiced(w.ada)
		w.invoiced(w.eve)
		c := newInbox(t)
		s := w.sink(c)
		if more, err := s.turn(t.Context()); err != nil || more {
			t.Fatalf("%t, %v", more, err)
		}
		want := w.allUsage()
		if got := c.ids(); len(want) != 2 || !slices.Equal(got, want) {
			t.Fatalf("it got %v, want %v", got, want)
		}
		if h := c.header; h.Get("Authorization") != "Bearer a token" || !strings.HasPrefix(h.Get("Content-Type"), "application/cloudevents-batch+json") || c.taken[0].Source != "https://cloud.example" {
			t.Errorf("it got %v, %+v", h, c.taken[0])
		}
		var own []api.UsageEvent
		own, err := w.ada.client.Usage(t.Context(), api.UsageQuery{})
		if err != nil || len(own) != 1 || own[0].Data != c.taken[0].Data || own[0].ID != c.taken[0].ID {
			t.Errorf("it got %+v, and who asks gets %+v, %v", c.taken[0], own, err)
		}
		for range 3 { // by this process and another one, after a restart
			if _, err := w.sink(c).turn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if c.calls != 1 {
			t.Errorf("it was called %d times", c.calls)
		}
	})
}

func TestAReceiverThatFailsAndHangsAndComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		w.invoiced(w.ada)
		c := newInbox(t)
		turn := func(want string) {
			t.Helper()
			_, err := w.sink(c, func(s *usageSink) { s.timeout = 100 * time.Millisecond }).turn(t.Context())
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Fatalf("got %v, want %q", err, want)
			}
			if err != nil && (strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), c.URL)) {
				t.Errorf("the error tells the address: %v", err)
			}
		}
		c.behave(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return false
		})
		turn("503")
		turn("") // not yet: it waits
		if c.calls != 1 {
			t.Errorf("it was called %d times at once", c.calls)
		}
		w.clock.Advance(7 * time.Second)
		c.behave(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return false })
		turn("no answer within")
		w.clock.Advance(7 * time.Second)
		turn("") // the pause is twice as long by now
		w.clock.Advance(6 * time.Second)
		c.behave(func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return false
		})
		turn("307")
		if c.calls != 3 {
			t.Errorf("it was called %d times: a redirect was followed, or a pause was not kept", c.calls)
		}
		// It takes a batch, and its answer is lost.
		w.clock.Advance(25 * time.Second)
		c.behave(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
		turn("no answer")
		w.invoiced(w.eve)
		w.clock.Advance(time.Hour)
		c.behave(nil)
		turn("")
		want := w.allUsage()
		if got := c.ids(); !slices.Equal(got, want) {
			t.Errorf("it got %v, want %v", got, want)
		}
		for _, id := range c.seen {
			if !slices.Contains(want, id) {
				t.Errorf("the event %s was sent, and is none of %v", id, want)
			}
		}
	})
}

// A process that dies after a batch was sent has another one send it again, with the
// same ids, and two that live do not both send one.
func TestAProcessThatDiesWithABatchOnItsWayLeavesItToAnother(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		w.invoiced(w.ada)
		c := newInbox(t)
		s := w.sink(c)
		if _, ok, err := s.claim(t.Context(), "of who dies"); err != nil || !ok {
			t.Fatal(ok, err)
		}
		list, err := s.usage(t.Context(), billing.UsedQuery{Limit: sinkBatch})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.send(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		other := w.sink(c)
		if _, err := other.turn(t.Context()); err != nil || c.calls != 1 {
			t.Fatalf("%d calls, %v: two processes send", c.calls, err)
		}
		w.clock.Advance(sinkTimeout + sinkClaim)
		if _, err := other.turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := c.ids(); len(got) != 2 || got[0] != got[1] {
			t.Errorf("it got %v, want one event twice", got)
		}
		// Who was believed dead says what became of its batch too late.
		if err := s.note(t.Context(), "of who dies", `, number = 0`); err != nil {
			t.Fatal(err)
		}
		if _, err := other.turn(t.Context()); err != nil || c.calls != 2 {
			t.Errorf("%d calls, %v", c.calls, err)
		}
	})
}

func TestASinkRunsUntilItsProcessEndsAndGoesOnAfterwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.invoiced(w.ada)
	c := newInbox(t)
	// The process ends while the receiver hangs.
	ctx, cancel := context.WithCancel(t.Context())
	c.behave(func(_ http.ResponseWriter, r *http.Request) bool { cancel(); <-r.Context().Done(); return false })
	if err := w.sink(c).Run(ctx); err != nil {
		t.Fatal(err)
	}
	var failures, claimed int64
	if err := w.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT failures, claimed_at FROM server_usage_sink`).Scan(&failures, &claimed)
	}); err != nil || failures != 0 || claimed != 0 {
		t.Errorf("%d failures, claimed until %d, %v: the end of the process counts against the receiver", failures, claimed, err)
	}
	c.behave(nil)
	ctx, cancel = context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.sink(c).Run(ctx) }()
	eventually(t, "the event arrives", func() bool { return len(c.ids()) == 1 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// Another address begins at the first event.
	other := newInbox(t)
	if _, err := w.sink(other).turn(t.Context()); err != nil || !slices.Equal(other.ids(), c.ids()) {
		t.Errorf("another address got %v, %v", other.ids(), err)
	}
}

// A process that dies while its clock is ahead must not silence the sink until then.
func TestAClockThatWasAheadDoesNotHoldEventsUp(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		c := newInbox(t)
		ahead := func(s *usageSink) { s.clock = func() time.Time { return w.clock.Now().Add(365 * 24 * time.Hour) } }
		if _, ok, err := w.sink(c, ahead).claim(t.Context(), "died"); err != nil || !ok {
			t.Fatalf("%v, %v", ok, err)
		}
		if _, ok, err := w.sink(c).claim(t.Context(), "next"); err != nil || !ok {
			t.Errorf("after the clock was repaired nobody sends: %v, %v", ok, err)
		}
		if err := w.sink(c, ahead).failed(t.Context(), "next"); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := w.sink(c).claim(t.Context(), "again"); err != nil || !ok {
			t.Errorf("after a failure with a wrong clock nobody sends: %v, %v", ok, err)
		}
		if _, ok, err := w.sink(c).claim(t.Context(), "other"); err != nil || ok {
			t.Errorf("two send at once: %v, %v", ok, err)
		}
	})
}
