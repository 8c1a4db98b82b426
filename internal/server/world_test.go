package server

import (
	"bytes"
	"crypto/ed25519"

	"encoding/json"

	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/notify"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/ratelimit"
	"suanli.dev/internal/store"
	"suanli.dev/internal/volume"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a cloud with an API and two tenants, in a database of its own.
type world struct {
	t        *testing.T
	clock    *clock
	db       *store.DB
	accounts *account.Service
	billing  *billing.Service
	fleet    *fleet.Service
	leases   *lease.Service
	hostID   string                 // of the offer that was last taken from the market
	logs     atomic.Pointer[string] // what every instance printed
	server   *Server
	url      string
	log      *lockedBuffer
	mails    sync.Map // address → code that was mailed last

	newsService *notify.Service
	budgets     *budget.Service
	volumes     *volume.Service
	onVolume    atomic.Pointer[protocol.CommandResult] // what hosts answer of volumes; nil: that it is done
	bucket      *bucket
	hookURL     string // of a receiver of webhooks

	count atomic.Int64
	extra []func(*API) // registrations of operations that only a test has

	operator person // of an account of its own
	ada      person // owner of the first tenant
	eve      person // owner of the second
}

// person is a user with a session.
type person struct {
	account.User
	token  string
	client *api.Client
}

// principal is who the person is to the services.
func (p person) principal() account.Principal {
	return account.Principal{UserID: p.ID, AccountID: p.AccountID, Role: p.Role, Operator: p.Operator}
}

const testPassword = "correct horse battery"

// parts add a subject's service to every world. A subject adds its own from its
// test file's init.
var parts []func(*world, *Config)

// newWorld returns a cloud that runs until the test ends. change may add
// services, and what they need, to the server's configuration.
func newWorld(t *testing.T, change ...func(*world, *Config)) *world {
	t.Helper()
	return newWorldOn(t, "sqlite:"+filepath.Join(t.TempDir(), "suanli.db"), change...)
}

// newWorldOn is newWorld on an empty database.
func newWorldOn(t *testing.T, address string, change ...func(*world, *Config)) *world {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, db: db, clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, log: &lockedBuffer{}}
	w.accounts, err = account.New(account.Config{
		DB: db, Clock: w.clock.Now, Secret: bytes.Repeat([]byte{7}, 32), PublicURL: "https://cloud.example.com",
		PasswordCost: account.PasswordCost{MemoryKiB: 8, Passes: 1, Lanes: 1}, // tests make many users
		AddUsers:     ratelimit.Rate{Every: time.Millisecond, Burst: 1_000},
		DefaultQuota: account.Quota{MaxLeases: 10_000, MaxGPUs: 10_000}, // and the walks many leases
	})
	if err == nil {
		err = w.accounts.Migrate(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Services: Services{Accounts: w.accounts}, DB: db, Clock: w.clock.Now, Version: "test",
		Log:    slog.New(slog.NewJSONHandler(w.log, nil)),
		Limits: &Limits{}, // none, unless a test is about them
	}
	for _, c := range append(slices.Clone(parts), change...) {
		c(w, &cfg)
	}
	w.server = New(cfg)
	for _, register := range w.extra {
		register(w.server.API)
	}
	if err := w.server.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(w.server.Handler())
	w.url = listener.URL
	t.Cleanup(func() {
		listener.Close()
		db.Close()
	})

	if _, err := w.accounts.Bootstrap(ctx, "operator@example.com", testPassword); err != nil {
		t.Fatal(err)
	}
	w.operator = w.signIn("operator@example.com")
	w.ada = w.newTenant("ada@example.com")
	w.eve = w.newTenant("eve@example.com")
	return w
}

// newTenant makes an account whose owner has this e-mail address.
func (w *world) newTenant(email string) person {
	w.t.Helper()
	if _, _, err := w.accounts.CreateAccount(w.t.Context(), w.operator.principal(), account.CreateAccount{Name: email, Email: email, Password: testPassword}); err != nil {
		w.t.Fatal(err)
	}
	return w.signIn(email)
}

// newUser adds a user with a role to the account of by.
func (w *world) newUser(by person, email string, role account.Role) person {
	w.t.Helper()
	if _, err := w.accounts.CreateUser(w.t.Context(), by.principal(), account.CreateUser{Email: email, Role: role, Password: testPassword}); err != nil {
		w.t.Fatal(err)
	}
	return w.signIn(email)
}

func (w *world) signIn(email string) person {
	w.t.Helper()
	// Each from an address of its own, so that many sign-ins are not throttled.
	ctx := account.WithOrigin(w.t.Context(), account.Origin{IP: fmt.Sprint("test ", w.serial())})
	s, err := w.accounts.SignIn(ctx, email, testPassword, "")
	if err != nil {
		w.t.Fatal(err)
	}
	u, err := w.accounts.User(ctx, s.AccountID, s.UserID)
	if err != nil {
		w.t.Fatal(err)
	}
	return person{User: u, token: s.Token, client: w.client(s.Token)}
}

// client returns a client that tries once.
func (w *world) client(token string) *api.Client {
	return api.New(w.url, token, api.WithAttempts(1))
}

// newKey makes an API key of p's with these scopes and returns its secret.
func (w *world) newKey(p person, scopes ...string) string {
	w.t.Helper()
	k, err := w.accounts.CreateAPIKey(w.t.Context(), p.principal(), account.CreateAPIKey{Name: "test", Scopes: scopes})
	if err != nil {
		w.t.Fatal(err)
	}
	return k.Secret
}

// serial returns another number each time.
func (w *world) serial() int64 { return w.count.Add(1) }

// newSSHKey returns a fresh public key in the format of authorized_keys.
func newSSHKey(t *testing.T) string {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// reply is an answer, read to its end.
type reply struct {
	Status int
	Header http.Header
	Body   string
}

// code is the code of the problem that the reply is.
func (r reply) code() string {
	var p struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal([]byte(r.Body), &p)
	return p.Code
}

// send sends a request with headers given as pairs. in is sent as it is if it
// is a string, and as JSON otherwise; nil: no body.
func (w *world) send(method, path, token string, in any, headers ...string) reply {
	w.t.Helper()
	var body io.Reader
	switch in := in.(type) {
	case nil:
	case string:
		body = strings.NewReader(in)
	default:
		raw, err := json.Marshal(in)
		if err != nil {
			w.t.Fatal(err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(content)}
}

// want fails the test unless the reply has this status and, if given, code.
func (r reply) want(t *testing.T, status int, code string) {
	t.Helper()
	if r.Status != status || r.code() != code {
		t.Fatalf("answer %d %q, want %d %q: %s", r.Status, r.code(), status, code, r.Body)
	}
}

// lockedBuffer collects what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually fails the test unless ok holds within a few seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(5 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after 5 s it is still not so that %s", what)
		case <-tick.C:
		}
	}
}

func withLimits(l Limits) func(*world, *Config) {
	return func(_ *world, c *Config) { c.Limits = &l }
}
