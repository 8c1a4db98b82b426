package account

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/store"
)

const password = "correct horse battery"

// cloud is an account service on a fresh database, with an operator, and a
// tenant whose owner is ada.
type cloud struct {
	*Service
	t     *testing.T
	mu    sync.Mutex
	now   time.Time
	oper  Principal
	ada   Principal
	email int
}

func (c *cloud) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *cloud) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// onEachStore runs a test on SQLite, and on PostgreSQL where one is given.
func onEachStore(t *testing.T, test func(*testing.T, *cloud)) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db")))
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := os.Getenv("SUANLI_TEST_POSTGRES")
		if address == "" {
			t.Skip("SUANLI_TEST_POSTGRES names no PostgreSQL to test on")
		}
		test(t, newCloud(t, ownSchema(t, address)))
	})
}

// ownSchema returns the address of a fresh schema, dropped when the test ends.
func ownSchema(t *testing.T, address string) string {
	t.Helper()
	db, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	name := "account_test_" + randomText(10)
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

func newCloud(t *testing.T, address string) *cloud {
	t.Helper()
	ctx := t.Context()
	db, err := store.Open(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c := &cloud{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	c.Service, err = New(Config{DB: db, Clock: c.clock, Secret: bytes.Repeat([]byte{1}, 32), PublicURL: testURL, PasswordCost: PasswordCost{8, 1, 1}})
	if err == nil {
		err = c.Migrate(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if made, err := c.Bootstrap(ctx, "op@example.com", password); err != nil || !made {
		t.Fatal(made, err)
	}
	c.oper = c.signIn("op@example.com")
	_, _, err = c.CreateAccount(ctx, c.oper, CreateAccount{Name: "Ada", Email: "ada@example.com", Password: password})
	if err != nil {
		t.Fatal(err)
	}
	c.ada = c.signIn("ada@example.com")
	return c
}

func (c *cloud) signIn(email string) Principal {
	c.t.Helper()
	s, err := c.SignIn(c.t.Context(), email, password, "")
	if err != nil {
		c.t.Fatal(err)
	}
	p, err := c.Authenticate(c.t.Context(), s.Token)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *cloud) user(by Principal, r Role) Principal {
	c.t.Helper()
	c.email++
	email := fmt.Sprintf("u%d@example.com", c.email)
	if _, err := c.CreateUser(c.t.Context(), by, CreateUser{Email: email, Role: r, Password: password}); err != nil {
		c.t.Fatal(err)
	}
	return c.signIn(email)
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("error %v, want the code %s", err, code)
	}
}

func to[T any](v T) *T { return &v }

func TestBootstrapMakesOneOperatorAndNoSecond(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		if made, err := c.Bootstrap(t.Context(), "op2@example.com", password); err != nil || made {
			t.Fatalf("a second bootstrap made an operator: %v %v", made, err)
		}
		if !c.oper.Operator || !c.oper.May(Operate) || c.ada.May(Operate) {
			t.Fatalf("operator %+v, owner %+v", c.oper, c.ada)
		}
	})
}

func TestTheLastOwnerStays(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		wantCode(t, c.DeleteUser(ctx, c.ada, c.ada.UserID), "last_owner")
		_, err := c.UpdateUser(ctx, c.ada, c.ada.UserID, UpdateUser{Role: to(Admin)})
		wantCode(t, err, "last_owner")
		_, err = c.UpdateUser(ctx, c.ada, c.ada.UserID, UpdateUser{Disabled: to(true)})
		wantCode(t, err, "last_owner")
		_, err = c.UpdateUser(ctx, c.oper, c.oper.UserID, UpdateUser{Operator: to(false)})
		wantCode(t, err, "last_operator")

		second := c.user(c.ada, Owner)
		if err := c.DeleteUser(ctx, second, c.ada.UserID); err != nil {
			t.Fatal(err)
		}
		wantCode(t, c.DeleteUser(ctx, second, second.UserID), "last_owner")
	})
}

func TestTwoOwnersWhoRemoveEachOtherAtOnceLeaveOne(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		for range 10 {
			second := c.user(c.ada, Owner)
			errs := make([]error, 2)
			var wg sync.WaitGroup
			wg.Go(func() { errs[0] = c.DeleteUser(t.Context(), c.ada, second.UserID) })
			wg.Go(func() { errs[1] = c.DeleteUser(t.Context(), second, c.ada.UserID) })
			wg.Wait()
			if (errs[0] == nil) == (errs[1] == nil) {
				t.Fatalf("the removals gave %v and %v; want one to succeed", errs[0], errs[1])
			}
			if errs[1] == nil {
				c.ada = second
			}
		}
	})
}

func TestNobodyGivesWhatTheyDoNotHave(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	ctx := t.Context()
	admin, owner := c.user(c.ada, Admin), c.ada
	viewer := c.user(owner, Viewer)
	create := func(p Principal, r Role, operator bool) error {
		c.email++
		_, err := c.CreateUser(ctx, p, CreateUser{Email: fmt.Sprintf("x%d@example.com", c.email), Role: r, Password: password, Operator: operator})
		return err
	}
	for _, x := range []struct {
		name string
		err  error
		ok   bool
	}{
		{"an owner makes an owner", create(owner, Owner, false), true},
		{"an owner makes an operator", create(owner, Viewer, true), false},
		{"an operator makes an operator", create(c.oper, Viewer, true), true},
		{"an admin makes an admin", create(admin, Admin, false), true},
		{"an admin makes an owner", create(admin, Owner, false), false},
		{"an admin makes a billing user", create(admin, Billing, false), false},
		{"an admin removes an owner", c.DeleteUser(ctx, admin, owner.UserID), false},
		{"a key for users makes an admin", create(scoped(owner, WriteAccount), Admin, false), false},
		{"an operator's key without operate makes an operator", create(scoped(c.oper, allowed[Owner]...), Viewer, true), false},
	} {
		if (x.err == nil) != x.ok {
			t.Errorf("%s: %v", x.name, x.err)
		}
		if x.err != nil {
			wantCode(t, x.err, "role_beyond_own")
		}
	}
	_, err := c.UpdateUser(ctx, admin, admin.UserID, UpdateUser{Role: to(Owner)})
	wantCode(t, err, "role_beyond_own")
	_, err = c.UpdateUser(ctx, admin, owner.UserID, UpdateUser{Password: to("taken over by me")})
	wantCode(t, err, "role_beyond_own")
	_, err = c.UpdateUser(ctx, owner, viewer.UserID, UpdateUser{Operator: to(true)})
	wantCode(t, err, "role_beyond_own")
	wantCode(t, c.DeleteUser(ctx, c.oper, owner.UserID), "user_not_found") // an operator, too, looks in its own account
}

func scoped(p Principal, scopes ...Action) Principal {
	p.Scopes = scopes
	return p
}

func TestAKeyCanDoNoMoreThanItsMaker(t *testing.T) {
	t.Parallel()
	for _, r := range Roles {
		for _, a := range Actions {
			p := Principal{UserID: "us", Role: r}
			got, err := p.grant([]string{string(a)})
			if may := slices.Contains(allowed[r], a); (err == nil) != may {
				t.Errorf("a %s asks for %s and gets %v, %v", r, a, got, err)
			}
		}
	}
	narrow := scoped(Principal{UserID: "us", Role: Owner}, ReadMarket)
	got, err := narrow.grant([]string{AllScopes})
	if err != nil || !slices.Equal(got, []Action{ReadMarket}) {
		t.Errorf("all scopes of a key with one are %v, %v", got, err)
	}
	none, err := scoped(Principal{UserID: "us", Role: Owner}).grant([]string{AllScopes})
	if err != nil || len(none) != 0 {
		t.Errorf("all scopes of a key with none are %v, %v", none, err)
	}
	key := Principal{UserID: "us", Role: Owner, Scopes: []Action{}}
	for _, a := range Actions {
		if key.May(a) {
			t.Errorf("a key without scopes may %s", a)
		}
	}
}

func TestARevokedKeyMakesNoNewOne(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		k, err := c.CreateAPIKey(ctx, c.ada, CreateAPIKey{Name: "a", Scopes: []string{AllScopes}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Authenticate(ctx, k.Secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.DeleteAPIKey(ctx, c.ada, k.ID); err != nil {
			t.Fatal(err)
		}
		_, err = c.CreateAPIKey(ctx, p, CreateAPIKey{Name: "b"}) // authenticated just before
		wantCode(t, err, "invalid_token")
	})
}

func TestSecretsAreNotInTheDatabase(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	c := newCloud(t, "sqlite:"+path)
	ctx := t.Context()
	k, err := c.CreateAPIKey(ctx, c.ada, CreateAPIKey{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.SignIn(ctx, "ada@example.com", password, "")
	if err != nil {
		t.Fatal(err)
	}
	secret, _, err := c.EnrolTOTP(ctx, c.ada, password)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := totpEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, path + "-wal"} {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"API key": k.Secret, "session": s.Token, "password": password, "second factor": secret, "raw second factor": string(raw)} {
			if bytes.Contains(content, []byte(text)) {
				t.Errorf("%s holds the %s", file, name)
			}
		}
	}
}

func TestAKeyExpiresToTheSecondEvenWhenCached(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	ctx := t.Context()
	k, err := c.CreateAPIKey(ctx, c.ada, CreateAPIKey{Name: "a", ExpiresAt: c.clock().Add(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	c.advance(time.Second - time.Microsecond)
	if _, err := c.Authenticate(ctx, k.Secret); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Microsecond)
	_, err = c.Authenticate(ctx, k.Secret)
	wantCode(t, err, "invalid_token")
}

func TestRevocationWinsOverALookupInFlight(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	ctx := t.Context()
	for range 50 {
		k, err := c.CreateAPIKey(ctx, c.ada, CreateAPIKey{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { _, _ = c.Authenticate(ctx, k.Secret) }) // either answer is right while it races
		}
		if err := c.DeleteAPIKey(ctx, c.ada, k.ID); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		_, err = c.Authenticate(ctx, k.Secret)
		wantCode(t, err, "invalid_token")
	}
}

func TestTheUseOfAKeyIsWrittenDownBySweeps(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		k, err := c.CreateAPIKey(ctx, c.ada, CreateAPIKey{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		c.advance(time.Hour)
		if _, err := c.Authenticate(ctx, k.Secret); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := c.Run(ended); err != nil { // a stop writes down what is left
			t.Fatal(err)
		}
		list, err := c.APIKeys(ctx, c.ada, "", 10)
		if err != nil || len(list) != 1 || !list[0].LastUsedAt.Equal(c.clock()) {
			t.Fatalf("%+v %v", list, err)
		}
	})
}

func TestExpiredSessionsAreSwept(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	c.advance(8 * 24 * time.Hour)
	if err := c.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var n int64
	err := c.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM sessions`).Scan(&n)
	})
	if err != nil || n != 0 {
		t.Fatalf("%d sessions are left (%v)", n, err)
	}
}

func TestGuessingAPasswordIsThrottled(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	from := func(ip string) context.Context { return WithOrigin(t.Context(), Origin{IP: ip}) }
	tries := func(ip string, pw string) (n int) {
		for n = range 1000 {
			if _, err := c.SignIn(from(ip), "ada@example.com", pw, ""); errors.Is(err, &fault.Error{Code: "sign_in_throttled"}) {
				return n
			}
		}
		return 1000
	}
	if n := tries("192.0.2.1", "wrong"); n != 6 {
		t.Errorf("one address had %d tries, want 6", n)
	}
	// The right password is no oracle either while throttled.
	_, err := c.SignIn(from("192.0.2.1"), "ada@example.com", password, "")
	wantCode(t, err, "sign_in_throttled")
	total := 0
	for i := range 50 {
		total += tries(fmt.Sprint("198.51.100.", i), "wrong")
	}
	if total > 100 {
		t.Errorf("fifty addresses had %d tries, want at most 100", total)
	}
	c.advance(11 * time.Minute)
	if _, err := c.SignIn(from("203.0.113.1"), "ada@example.com", password, ""); err != nil {
		t.Errorf("after eleven minutes: %v", err)
	}
}

func TestStrangersCannotKeepAUserOut(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	from := func(ip string) context.Context { return WithOrigin(t.Context(), Origin{IP: ip}) }
	const home = "2001:db8:1:2::"
	if _, err := c.SignIn(from(home+"1"), "ada@example.com", password, ""); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		_, _ = c.SignIn(from(fmt.Sprintf("2001:db8:99:%x::1", i)), "ada@example.com", "wrong", "")
	}
	_, err := c.SignIn(from("203.0.113.7"), "ada@example.com", password, "")
	wantCode(t, err, "sign_in_throttled")
	// Another address of the same customer's.
	if _, err := c.SignIn(from(home+"2"), "ada@example.com", password, ""); err != nil {
		t.Errorf("from where she always comes: %v", err)
	}
	// One network is one, whatever it calls itself.
	c.advance(time.Hour)
	refused := 0
	for i := range 20 {
		if _, err := c.SignIn(from(fmt.Sprintf("2001:db8:7:7::%x", i)), "ada@example.com", "wrong", ""); errors.Is(err, &fault.Error{Code: "sign_in_throttled"}) {
			refused++
		}
	}
	if refused != 14 {
		t.Errorf("of 20 tries from one /64 %d were refused, want 14", refused)
	}
}

func TestPasswordsAreHashedAnewWhenTheCostChanges(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	stored := func() (phc string) {
		t.Helper()
		if err := c.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return tx.QueryRow(ctx, `SELECT password_hash FROM users WHERE id = ?`, c.ada.UserID).Scan(&phc)
		}); err != nil {
			t.Fatal(err)
		}
		return phc
	}
	if !strings.HasPrefix(stored(), "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Fatalf("stored as %s", stored())
	}
	c.cost = PasswordCost{16, 2, 1}
	c.signIn("ada@example.com")
	if !strings.HasPrefix(stored(), "$argon2id$v=19$m=16,t=2,p=1$") {
		t.Fatalf("after the cost was raised stored as %s", stored())
	}
	c.signIn("ada@example.com")
}

func TestTOTPGivesTheCodesOfRFC6238(t *testing.T) {
	t.Parallel()
	// Appendix B has eight digits; an app of six shows the last six of them.
	secret := []byte("12345678901234567890")
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := totpCode(secret, at/totpPeriod); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
		now := time.Unix(at, 0)
		if _, ok := totpMatch(secret, want, now.Add(30*time.Second), 0); !ok {
			t.Errorf("at %d: refused half a minute later", at)
		}
		if _, ok := totpMatch(secret, want, now.Add(90*time.Second), 0); ok {
			t.Errorf("at %d: taken a minute and a half later", at)
		}
		if _, ok := totpMatch(secret, want, now, at/totpPeriod); ok {
			t.Errorf("at %d: taken twice", at)
		}
	}
}

func TestACodeOpensOneSessionHoweverManyAskAtOnce(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		secret, _, err := c.EnrolTOTP(ctx, c.ada, password)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ConfirmTOTP(ctx, c.ada, TOTP(secret, c.clock())); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			c.advance(10 * time.Minute)
			code := TOTP(secret, c.clock())
			errs := make([]error, 4)
			var wg sync.WaitGroup
			for i := range errs {
				wg.Go(func() { _, errs[i] = c.SignIn(ctx, "ada@example.com", password, code) })
			}
			wg.Wait()
			n := 0
			for _, err := range errs {
				if err == nil {
					n++
					continue
				}
				wantCode(t, err, "totp_invalid")
			}
			if n != 1 {
				t.Fatalf("one code opened %d sessions", n)
			}
		}
	})
}

func TestTheVaultOpensOnlyWhatItSealed(t *testing.T) {
	t.Parallel()
	v, err := NewVault(bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewVault(bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := v.Seal([]byte("secret"))
	b, _ := v.Seal([]byte("secret"))
	if bytes.Equal(a, b) || bytes.Contains(a, []byte("secret")) {
		t.Error("two seals of one text are the same, or show it")
	}
	if got, err := v.Open(a); err != nil || string(got) != "secret" {
		t.Errorf("opened to %q, %v", got, err)
	}
	if _, err := other.Open(a); !errors.Is(err, ErrSealed) {
		t.Errorf("another key: %v", err)
	}
	for i := range a {
		bad := bytes.Clone(a)
		bad[i] ^= 1
		if _, err := v.Open(bad); !errors.Is(err, ErrSealed) {
			t.Errorf("byte %d altered: %v", i, err)
		}
	}
	if _, err := v.Open(nil); !errors.Is(err, ErrSealed) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := NewVault([]byte("short")); err == nil {
		t.Error("a short master key was taken")
	}
}

func sshKey(t *testing.T, key any) string {
	t.Helper()
	pub, err := ssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(pub)))
}

func ecdsaKey(t *testing.T) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return sshKey(t, &k.PublicKey)
}

func TestSSHKeysOpenTheLeasesOfTheirAccounts(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		_, _, err := c.CreateAccount(ctx, c.oper, CreateAccount{Name: "Eve", Email: "eve@example.com", Password: password})
		if err != nil {
			t.Fatal(err)
		}
		eve, viewer, member := c.signIn("eve@example.com"), c.user(c.ada, Viewer), c.user(c.ada, Member)
		shared := ecdsaKey(t)
		k, err := c.AddSSHKey(ctx, c.ada, "laptop", shared+" ada@laptop")
		if err != nil {
			t.Fatal(err)
		}
		if k.PublicKey != shared || !strings.HasPrefix(k.Fingerprint, "SHA256:") {
			t.Fatalf("%+v", k)
		}
		_, err = c.AddSSHKey(ctx, member, "", shared)
		wantCode(t, err, "ssh_key_exists")
		// Someone who claims another's public key gains nothing but a second place
		// to look: the key still has to be proven.
		if _, err := c.AddSSHKey(ctx, eve, "", shared); err != nil {
			t.Fatal(err)
		}
		viewers := ecdsaKey(t)
		if _, err := c.AddSSHKey(ctx, viewer, "", viewers); err != nil {
			t.Fatal(err)
		}
		members := ecdsaKey(t)
		if _, err := c.AddSSHKey(ctx, member, "", members); err != nil {
			t.Fatal(err)
		}
		lines, err := c.AuthorizedKeys(ctx, c.ada.AccountID)
		if err != nil || !slices.Equal(lines, []string{shared, members}) {
			t.Fatalf("authorized keys %v %v; want the owner's and the member's, not the viewer's", lines, err)
		}
		who, err := c.AccountsBySSHKey(ctx, k.Fingerprint)
		if err != nil || len(who) != 2 || who[0].AccountID != c.ada.AccountID || who[1].AccountID != eve.AccountID {
			t.Fatalf("%+v %v", who, err)
		}
		if !who[0].May(EnterLeases) || who[0].May(WriteLeases) {
			t.Fatalf("an SSH key may do more than enter, or not even that: %+v", who[0])
		}
		if _, err := c.UpdateUser(ctx, c.ada, member.UserID, UpdateUser{Disabled: to(true)}); err != nil {
			t.Fatal(err)
		}
		if lines, _ := c.AuthorizedKeys(ctx, c.ada.AccountID); len(lines) != 1 {
			t.Fatalf("a disabled user's key still opens: %v", lines)
		}
		if _, err := c.UpdateAccount(ctx, c.oper, c.ada.AccountID, UpdateAccount{Suspended: to(true)}); err != nil {
			t.Fatal(err)
		}
		if who, _ := c.AccountsBySSHKey(ctx, k.Fingerprint); len(who) != 1 {
			t.Fatalf("a suspended account's key still opens: %v", who)
		}
	})
}

func TestAnAPIKeyThatMayNotEnterCannotLetItselfInBySSH(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+filepath.Join(t.TempDir(), "db"))
	_, err := c.AddSSHKey(t.Context(), scoped(c.ada, WriteSelf), "", ecdsaKey(t))
	wantCode(t, err, "scope_beyond_own")
	if _, err := c.AddSSHKey(t.Context(), scoped(c.ada, WriteSelf, EnterLeases), "", ecdsaKey(t)); err != nil {
		t.Fatal(err)
	}
}

func TestWeakSSHKeysAreRefused(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{1024, 2048} {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			if bits < minRSABits {
				continue // the toolchain itself refuses to make so short a key
			}
			t.Fatal(err)
		}
		_, _, err = parseSSHKey(sshKey(t, &k.PublicKey))
		if ok := err == nil; ok != (bits >= minRSABits) {
			t.Errorf("RSA of %d bits: %v", bits, err)
		}
	}
	short := `ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAQQC7kGw0dkSaxMrJ2Pqg9sXxg4ZD2z3dpZ1n3w0uVYyq1m1sO0H0r7p4M5f0yW3u8r5b5V3i5q2l3m1k2j3h4g5f`
	_, _, err := parseSSHKey(short)
	wantCode(t, err, "ssh_key_invalid")
}

func FuzzParseSSHKeyTakesOnlyOneCleanLine(f *testing.F) {
	f.Add("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2a0o0Zb0p1dX4yZc1kQ2l8m3n4o5p6q7r8s9t0u1v2 ada@laptop")
	f.Add("command=\"x\" ssh-ed25519 AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		key, _, err := parseSSHKey(text)
		if err != nil {
			return
		}
		again, _, err := parseSSHKey(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
		if err != nil || !bytes.Equal(again.Marshal(), key.Marshal()) {
			t.Fatalf("what was taken is not taken again: %v", err)
		}
	})
}

func TestAuditIsPartOfTheCallersTransaction(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := WithOrigin(t.Context(), Origin{IP: "192.0.2.1", RequestID: "rq-1"})
		failed := errors.New("changed my mind")
		for _, result := range []error{failed, nil} {
			err := c.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
				if err := c.Audit(ctx, tx, c.ada, "lease.create", "ls-1", map[string]int{"gpus": 8}); err != nil {
					return err
				}
				return result
			})
			if !errors.Is(err, result) {
				t.Fatal(err)
			}
		}
		log, err := c.AuditLog(ctx, c.ada.AccountID, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		var leases []AuditEntry
		for _, e := range log {
			if e.Action == "lease.create" {
				leases = append(leases, e)
			}
		}
		if len(leases) != 1 || leases[0].IP != "192.0.2.1" || leases[0].RequestID != "rq-1" || string(leases[0].Detail) != `{"gpus":8}` {
			t.Fatalf("the log has %+v", leases)
		}
	})
}
