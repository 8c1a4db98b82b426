package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

func newKeyBody(name string) api.CreateAPIKey {
	return api.CreateAPIKey{Name: name, Scopes: []string{"market:read"}}
}

func TestARepeatedRequestGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("ci"), "Idempotency-Key", "k1")
	first.want(t, 201, "")
	again := w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("ci"), "Idempotency-Key", "k1")
	again.want(t, 201, "")
	if again.Body != first.Body {
		t.Errorf("the repeat answers\n%s, the first answered\n%s", again.Body, first.Body)
	}
	if again.Header.Get(replayedHeader) != "true" || first.Header.Get(replayedHeader) != "" {
		t.Errorf("%s is %q at first and %q at the repeat", replayedHeader, first.Header.Get(replayedHeader), again.Header.Get(replayedHeader))
	}
	if again.Header.Get(requestIDHeader) == first.Header.Get(requestIDHeader) {
		t.Error("the repeat has the request id of the first")
	}
	keys, err := w.ada.client.APIKeys(t.Context())
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys were made (%v), want 1", len(keys), err)
	}
}

func TestAKeyUsedForAnotherRequestIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("one"), "Idempotency-Key", "k1").want(t, 201, "")
	w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("two"), "Idempotency-Key", "k1").want(t, 409, "idempotency_conflict")
	// Another operation, and another user, have keys of their own.
	w.send("POST", "/v1/ssh-keys", w.ada.token, api.AddSSHKey{PublicKey: newSSHKey(t)}, "Idempotency-Key", "k1").want(t, 201, "")
	w.send("POST", "/v1/api-keys", w.eve.token, newKeyBody("two"), "Idempotency-Key", "k1").want(t, 201, "")
}

func TestAColleagueCannotReadAKeptAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.newUser(w.ada, "viewer@example.com", account.Viewer)
	mine := w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("ci"), "Idempotency-Key", "k1")
	theirs := w.send("POST", "/v1/api-keys", viewer.token, newKeyBody("ci"), "Idempotency-Key", "k1")
	theirs.want(t, 201, "")
	if mine.Body == theirs.Body {
		t.Fatal("a viewer who guessed the key and the body was given the owner's API key")
	}
}

func TestARefusalIsNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := api.CreateUser{Email: "grace@example.com", Role: "member", Password: testPassword}
	w.newUser(w.eve, in.Email, account.Viewer)
	w.send("POST", "/v1/users", w.ada.token, in, "Idempotency-Key", "k1").want(t, 409, "email_taken")
	list, err := w.accounts.Users(t.Context(), w.eve.AccountID, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.accounts.DeleteUser(t.Context(), w.eve.principal(), list[len(list)-1].ID); err != nil {
		t.Fatal(err)
	}
	w.send("POST", "/v1/users", w.ada.token, in, "Idempotency-Key", "k1").want(t, 201, "")
}

func TestKeptAnswersHoldNoSecretInTheClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("ci"), "Idempotency-Key", "k1")
	secret := r.Body[strings.Index(r.Body, "sk-suanli-"):][:50]
	var kept string
	if err := w.view(`SELECT response FROM idempotency`, &kept); err != nil {
		t.Fatal(err)
	}
	if kept == "" || strings.Contains(kept, secret) || strings.Contains(kept, "sk-suanli") {
		t.Fatalf("the kept answer is %q", kept)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Fatal("the log holds the API key")
	}
}

func TestKeysThatAreNotKeysAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, key := range []string{strings.Repeat("k", 129), "two words", "ключ"} {
		w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("ci"), "Idempotency-Key", key).want(t, 422, "idempotency_key_invalid")
	}
	w.send("POST", "/v1/api-keys", w.ada.token, newKeyBody("ci"), "Idempotency-Key", strings.Repeat("k", 128)).want(t, 201, "")
}

// slow is a write that the tests hold in its middle.
type slow struct {
	mu      sync.Mutex
	runs    int
	keys    map[string]bool
	entered chan struct{}
	release chan struct{}
	then    func() error
}

func (s *slow) operation() func(*world, *Config) {
	s.entered, s.release, s.keys = make(chan struct{}, 100), make(chan struct{}), map[string]bool{}
	return func(w *world, c *Config) { w.extra = append(w.extra, s.register) }
}

func (s *slow) register(a *API) {
	register(a, operation{ID: "slow", Method: "POST", Path: "/v1/slow", Summary: "Slow", Tag: "Test", Action: account.WriteSelf, Idempotent: true},
		func(ctx context.Context, _ account.Principal, in *body[map[string]int]) (*body[string], error) {
			s.mu.Lock()
			s.runs++
			n := s.runs
			s.keys[requestKey(ctx)] = true
			s.mu.Unlock()
			s.entered <- struct{}{}
			<-s.release
			if s.then != nil {
				if err := s.then(); err != nil {
					return nil, err
				}
			}
			return &body[string]{fmt.Sprint("run ", n)}, nil
		})
}

func TestADuplicateInFlightIsToldToWait(t *testing.T) {
	t.Parallel()
	s := &slow{}
	w := newWorld(t, s.operation())
	done := make(chan reply)
	go func() { done <- w.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", "k") }()
	<-s.entered
	w.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", "k").want(t, 409, "idempotency_in_progress")
	w.send("POST", "/v1/slow", w.ada.token, `{"a":1}`, "Idempotency-Key", "k").want(t, 409, "idempotency_conflict")
	close(s.release)
	first := <-done
	first.want(t, 200, "")
	if again := w.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", "k"); again.Body != first.Body || s.runs != 1 {
		t.Fatalf("ran %d times; answers %s and %s", s.runs, first.Body, again.Body)
	}
}

func TestManyAtOnceWithOneKeyRunOnce(t *testing.T) {
	t.Parallel()
	s := &slow{}
	w := newWorld(t, s.operation())
	close(s.release)
	var wg sync.WaitGroup
	answers := make([]reply, 40)
	for i := range answers {
		wg.Go(func() { answers[i] = w.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", "k") })
	}
	wg.Wait()
	if s.runs != 1 {
		t.Fatalf("40 requests with one key ran %d times", s.runs)
	}
	for _, r := range answers {
		if r.Status != 200 && r.code() != "idempotency_in_progress" {
			t.Errorf("answer %d %s", r.Status, r.Body)
		}
	}
}

func TestOneKeyRunsOnceAcrossReplicas(t *testing.T) {
	t.Parallel()
	address := os.Getenv("SUANLI_TEST_POSTGRES")
	if address == "" {
		t.Skip("SUANLI_TEST_POSTGRES names no PostgreSQL for two replicas to share")
	}
	s := &slow{}
	w := newWorldOn(t, ownSchema(t, address), s.operation())
	close(s.release)
	cfg := w.server.cfg
	cfg.Metrics = nil
	second := New(cfg)
	s.register(second.API)
	replica := httptest.NewServer(second.Handler())
	defer replica.Close()
	other := &world{t: t, url: replica.URL}
	var wg sync.WaitGroup
	for i := range 30 {
		for _, at := range []*world{w, other} {
			wg.Go(func() {
				r := at.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", fmt.Sprint(i%3))
				if r.Status != 200 && r.code() != "idempotency_in_progress" {
					t.Errorf("answer %d %s", r.Status, r.Body)
				}
			})
		}
	}
	wg.Wait()
	if s.runs != 3 {
		t.Fatalf("60 requests with 3 keys on two replicas ran %d times", s.runs)
	}
}

// ownSchema returns the address of a fresh PostgreSQL schema, dropped when the
// test ends.
func ownSchema(t *testing.T, address string) string {
	t.Helper()
	db, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	name := "server_test_" + strings.ReplaceAll(ident.New(ident.Request), "-", "")
	exec := func(ctx context.Context, query string) {
		if err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, query)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	exec(t.Context(), `CREATE SCHEMA `+name)
	t.Cleanup(func() {
		exec(context.Background(), `DROP SCHEMA `+name+` CASCADE`)
		db.Close()
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestAPanicFreesTheKey(t *testing.T) {
	t.Parallel()
	s := &slow{}
	s.then = func() error { panic("poison") }
	w := newWorld(t, s.operation())
	close(s.release)
	w.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", "k").want(t, 500, "internal")
	s.then = nil
	w.send("POST", "/v1/slow", w.ada.token, "{}", "Idempotency-Key", "k").want(t, 200, "")
}

func TestTheKeyOfADeadProcessIsTakenOverAndNamedTheSame(t *testing.T) {
	t.Parallel()
	s := &slow{}
	w := newWorld(t, s.operation())
	// What a process leaves that is killed while it works.
	body := "{}"
	req, err := http.NewRequest("POST", w.url+"/v1/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &claim{scope: w.ada.AccountID + "/" + w.ada.ID, operation: "slow", key: "k", hash: hashRequest(req, []byte(body)),
		owner: "dead", db: w.db, clock: w.clock.Now, vault: w.accounts.Vault()}
	if kept, err := c.take(t.Context()); err != nil || kept != nil {
		t.Fatal(kept, err)
	}
	close(s.release)
	w.send("POST", "/v1/slow", w.ada.token, body, "Idempotency-Key", "k").want(t, 409, "idempotency_in_progress")
	w.clock.Advance(claimFor + time.Second)
	w.send("POST", "/v1/slow", w.ada.token, body, "Idempotency-Key", "k").want(t, 200, "")
	if want := w.ada.AccountID + "/" + w.ada.ID + "/slow/k"; !s.keys[want] || len(s.keys) != 1 {
		t.Fatalf("the handler saw the request keys %v, want %q", s.keys, want)
	}
	// Should the dead one live after all, its answer must not replace the kept one.
	if err := c.keep(t.Context(), &answer{Status: 200, Body: []byte("zombie")}); err != nil {
		t.Fatal(err)
	}
	if r := w.send("POST", "/v1/slow", w.ada.token, body, "Idempotency-Key", "k"); strings.Contains(r.Body, "zombie") {
		t.Fatal("the answer of a process that lost the key was kept")
	}
}

// A control plane that dies after a purchase and before its answer is kept must not make
// it a second time for who repeats it.
func TestWorkThatWasDoneBeforeACrashIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, _ *Config) {
		w.extra = append(w.extra, func(a *API) {
			for _, op := range []operation{
				{ID: "buy", Status: http.StatusCreated}, {ID: "change", Once: true}, {ID: "accept", Status: http.StatusCreated, Again: true}, {ID: "pay", Status: http.StatusCreated}, {ID: "refuse", Status: http.StatusCreated},
			} {
				op.Method, op.Path, op.Summary, op.Tag, op.Action, op.Idempotent = "POST", "/v1/"+op.ID, op.ID, "Test", account.WriteSelf, true
				register(a, op, func(ctx context.Context, _ account.Principal, in *body[map[string]int]) (*body[string], error) {
					if op.ID == "pay" && requestKey(ctx) == "" {
						t.Error("a payment has no name")
					}
					if err := w.db.Update(ctx, func(context.Context, *store.Tx) error { return nil }); err != nil {
						return nil, err
					}
					if op.ID == "refuse" {
						return nil, fault.New(fault.Conflict, "taken", "it is taken")
					}
					if len(in.Body) == 0 {
						panic("killed") // as far as the key is concerned
					}
					return &body[string]{"done"}, nil
				})
			}
		})
	})
	for _, tt := range []struct {
		operation string
		again     int
		code      string
	}{
		{"buy", 409, "idempotency_answer_lost"}, {"change", 409, "idempotency_answer_lost"},
		{"accept", 500, "internal"}, {"pay", 500, "internal"}, // they are tried again
		{"refuse", 409, "taken"},
	} {
		first := w.send("POST", "/v1/"+tt.operation, w.ada.token, "{}", "Idempotency-Key", "k")
		if first.Status < 400 {
			t.Fatalf("%s: %d %s", tt.operation, first.Status, first.Body)
		}
		w.clock.Advance(claimFor + time.Second)
		w.send("POST", "/v1/"+tt.operation, w.ada.token, "{}", "Idempotency-Key", "k").want(t, tt.again, tt.code)
	}
	// What succeeds is answered as ever, and so is its repeat.
	for range 2 {
		w.send("POST", "/v1/buy", w.ada.token, `{"a":1}`, "Idempotency-Key", "k2").want(t, 201, "")
	}
}

func TestAnswersAreForgottenAfterADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey(w.ada, account.AllScopes)
	w.send("POST", "/v1/api-keys", key, newKeyBody("ci"), "Idempotency-Key", "k1").want(t, 201, "")
	w.clock.Advance(rememberFor + time.Second)
	if err := w.server.forgetRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int64
	if err := w.view(`SELECT COUNT(*) FROM idempotency`, &n); err != nil || n != 0 {
		t.Fatalf("%d answers are left (%v)", n, err)
	}
	w.send("POST", "/v1/api-keys", key, newKeyBody("another"), "Idempotency-Key", "k1").want(t, 201, "")
}

// FuzzIdempotencyRunsEachKeyOnce sends a made-up order of repeats, new bodies,
// passing hours and failures, and holds the answers against a model.
func FuzzIdempotencyRunsEachKeyOnce(f *testing.F) {
	f.Add([]byte{0, 0, 1, 4, 0, 9, 200, 0})
	f.Add([]byte{12, 12, 13, 12, 255, 12, 77, 12})
	f.Fuzz(func(t *testing.T, script []byte) {
		s := &slow{}
		w := newWorld(t, s.operation())
		close(s.release)
		fail := false
		s.then = func() error {
			<-s.entered
			if fail {
				return fmt.Errorf("out of order")
			}
			return nil
		}
		token := w.newKey(w.ada, account.AllScopes)
		type kept struct {
			body, answer string
			at           time.Time
		}
		model := map[string]kept{}
		runs := 0
		for i, b := range script[:min(len(script), 40)] {
			key, content := fmt.Sprint(b&3), fmt.Sprintf(`{"n":%d}`, b>>2&1)
			fail = b>>3&7 == 7
			if b >= 192 {
				w.clock.Advance(7 * time.Hour)
			}
			k, known := model[key]
			if known && w.clock.Now().Sub(k.at) > rememberFor {
				known = false
			}
			r := w.send("POST", "/v1/slow", token, content, "Idempotency-Key", key)
			switch {
			case known && k.body != content:
				r.want(t, 409, "idempotency_conflict")
			case known:
				if r.Body != k.answer {
					t.Fatalf("step %d: key %s answers %s, first answered %s", i, key, r.Body, k.answer)
				}
			case fail:
				runs++
				r.want(t, 500, "internal")
				delete(model, key)
			default:
				runs++
				r.want(t, 200, "")
				model[key] = kept{content, r.Body, w.clock.Now()}
			}
			if s.runs != runs {
				t.Fatalf("step %d: ran %d times, want %d", i, s.runs, runs)
			}
		}
	})
}

// view reads one value.
func (w *world) view(query string, into any) error {
	return w.db.View(w.t.Context(), func(ctx context.Context, tx *store.Tx) error { return tx.QueryRow(ctx, query).Scan(into) })
}
