package server

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
)

// wrong is a request with one field that is not right.
type wrong struct {
	name, body     string
	status         int
	code, location string
}

func refuseAll(t *testing.T, w *world, method, path, token string, cases []wrong) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := w.send(method, path, token, c.body)
			r.want(t, c.status, c.code)
			if c.location != "" && !strings.Contains(r.Body, `"location":"`+c.location+`"`) {
				t.Errorf("the problem does not point at %s: %s", c.location, r.Body)
			}
		})
	}
}

const invalid = "invalid_request"

func TestAUserWithAFieldThatIsNotRightIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := func(email, name, role, password string) string {
		return fmt.Sprintf(`{"email":%s,"name":%s,"role":%s,"password":%s}`, email, name, role, password)
	}
	const email, name, role, password = `"g@example.com"`, `"G"`, `"member"`, `"long enough it is"`
	refuseAll(t, w, "POST", "/v1/users", w.ada.token, []wrong{
		{"no e-mail", `{"role":"member","password":"long enough it is"}`, 422, invalid, "body"},
		{"empty e-mail", user(`""`, name, role, password), 422, "email_invalid", "body.email"},
		{"e-mail without a host", user(`"ada"`, name, role, password), 422, "email_invalid", "body.email"},
		{"e-mail with a name", user(`"Ada <ada@example.com>"`, name, role, password), 422, "email_invalid", "body.email"},
		{"e-mail with a line break", user(`"a@b.c\nBcc: x@y.z"`, name, role, password), 422, "email_invalid", "body.email"},
		{"long e-mail", user(`"`+strings.Repeat("a", 300)+`@b.c"`, name, role, password), 422, invalid, "body.email"},
		{"e-mail that is a number", user(`5`, name, role, password), 422, invalid, "body.email"},
		{"null e-mail", user(`null`, name, role, password), 422, invalid, "body.email"},
		{"taken e-mail", user(`"EVE@example.com"`, name, role, password), 409, "email_taken", "body.email"},
		{"name of spaces", user(email, `"   "`, role, password), 422, "name_invalid", "body.name"},
		{"name with an escape sequence", user(email, `"\u001b[31mred"`, role, password), 422, "name_invalid", "body.name"},
		{"long name", user(email, `"`+strings.Repeat("n", 101)+`"`, role, password), 422, invalid, "body.name"},
		{"unknown role", user(email, name, `"root"`, password), 422, invalid, "body.role"},
		{"empty role", user(email, name, `""`, password), 422, invalid, "body.role"},
		{"short password", user(email, name, role, `"short"`), 422, "password_weak", "body.password"},
		{"long password", user(email, name, role, `"`+strings.Repeat("p", 257)+`"`), 422, invalid, "body.password"},
		{"password that is the e-mail", user(`"long.enough@example.com"`, name, role, `"long.enough@example.com"`), 422, "password_weak", "body.password"},
		{"operator made by an owner", `{"email":"g@example.com","role":"member","password":"long enough it is","operator":true}`, 403, "role_beyond_own", "body.role"},
		{"operator that is a word", `{"email":"g@example.com","role":"member","password":"long enough it is","operator":"yes"}`, 422, invalid, "body.operator"},
	})
}

func TestAnAccountWithAFieldThatIsNotRightIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rest = `"email":"g@example.com","password":"long enough it is"`
	refuseAll(t, w, "POST", "/v1/operator/accounts", w.operator.token, []wrong{
		{"no name", `{` + rest + `}`, 422, invalid, "body"},
		{"empty name", `{"name":"",` + rest + `}`, 422, invalid, "body.name"},
		{"unknown currency", `{"name":"G","currency":"EUR",` + rest + `}`, 422, invalid, "body.currency"},
		{"unknown time zone", `{"name":"G","time_zone":"Mars/Olympus",` + rest + `}`, 422, "time_zone_invalid", "body.time_zone"},
		{"the machine's time zone", `{"name":"G","time_zone":"Local",` + rest + `}`, 422, "time_zone_invalid", "body.time_zone"},
		{"a time zone that is a path", `{"name":"G","time_zone":"../../etc/passwd",` + rest + `}`, 422, "time_zone_invalid", "body.time_zone"},
	})
	path := "/v1/operator/accounts/" + w.ada.AccountID
	refuseAll(t, w, "PATCH", path, w.operator.token, []wrong{
		{"negative quota", `{"max_leases":-1}`, 422, invalid, "body.max_leases"},
		{"huge quota", `{"max_gpus":1e30}`, 422, invalid, "body.max_gpus"},
		{"quota beyond the most", `{"max_gpus":1000001}`, 422, invalid, "body.max_gpus"},
		{"quota of a half", `{"max_gpus":0.5}`, 422, invalid, "body.max_gpus"},
		{"quota that is a word", `{"max_gpus":"many"}`, 422, invalid, "body.max_gpus"},
	})
	refuseAll(t, w, "PATCH", "/v1/operator/accounts/ac-none", w.operator.token, []wrong{
		{"absent account", `{"max_gpus":1}`, 404, "account_not_found", ""},
	})
	refuseAll(t, w, "PATCH", "/v1/account", w.ada.token, []wrong{
		{"own quota", `{"max_gpus":1000}`, 422, invalid, "body.max_gpus"},
		{"own suspension", `{"suspended":false}`, 422, invalid, "body.suspended"},
	})
}

func TestAKeyWithAFieldThatIsNotRightIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	member := w.newUser(w.ada, "member@example.com", account.Member)
	refuseAll(t, w, "POST", "/v1/api-keys", member.token, []wrong{
		{"no scopes", `{"name":"k"}`, 422, invalid, "body"},
		{"null scopes", `{"name":"k","scopes":null}`, 422, invalid, "body.scopes"},
		{"unknown scope", `{"name":"k","scopes":["market:read","lease:destroy"]}`, 422, "scope_invalid", "body.scopes[1]"},
		{"all beside another", `{"name":"k","scopes":["*","market:read"]}`, 422, "scope_invalid", "body.scopes[0]"},
		{"scope beyond one's own", `{"name":"k","scopes":["billing:read"]}`, 403, "scope_beyond_own", "body.scopes[0]"},
		{"operator's scope", `{"name":"k","scopes":["operate"]}`, 403, "scope_beyond_own", "body.scopes[0]"},
		{"too many scopes", `{"name":"k","scopes":[` + strings.TrimSuffix(strings.Repeat(`"market:read",`, 51), ",") + `]}`, 422, invalid, "body.scopes"},
		{"past expiry", `{"name":"k","scopes":["market:read"],"expires_at":"2020-01-01T00:00:00Z"}`, 422, "expiry_invalid", "body.expires_at"},
		{"expiry of now", `{"name":"k","scopes":["market:read"],"expires_at":"2026-03-01T12:00:00Z"}`, 422, "expiry_invalid", "body.expires_at"},
		{"expiry that is no time", `{"name":"k","scopes":[],"expires_at":"tomorrow"}`, 422, invalid, "body.expires_at"},
	})
	refuseAll(t, w, "POST", "/v1/ssh-keys", member.token, []wrong{
		{"empty SSH key", `{"public_key":""}`, 422, "ssh_key_invalid", "body.public_key"},
		{"nonsense", `{"public_key":"hello"}`, 422, "ssh_key_invalid", "body.public_key"},
		{"private key", `{"public_key":"-----BEGIN OPENSSH PRIVATE KEY-----"}`, 422, "ssh_key_invalid", "body.public_key"},
		{"key with options", `{"public_key":"command=\"rm -rf /\" ` + newSSHKey(t) + `"}`, 422, "ssh_key_invalid", "body.public_key"},
		{"two keys", `{"public_key":"` + newSSHKey(t) + `\n` + newSSHKey(t) + `"}`, 422, "ssh_key_invalid", "body.public_key"},
	})
}

func TestSigningInIsRefusedTheSameWayWhateverIsWrong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, in := range []api.SignIn{
		{Email: "ada@example.com", Password: "wrong password"},
		{Email: "nobody@example.com", Password: testPassword},
		{Email: "", Password: ""},
		{Email: "ada@example.com", Password: ""},
	} {
		w.send("POST", "/v1/sessions", "", in).want(t, 401, "invalid_credentials")
	}
	w.send("POST", "/v1/sessions", "", api.SignIn{Email: "ADA@example.com", Password: testPassword}).want(t, 201, "")
}

func TestPasswordsAreNeverRepeatedInProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.send("POST", "/v1/users", w.ada.token, `{"email":"g@example.com","role":"nonsense","password":12345678901}`)
	r.want(t, 422, invalid)
	if strings.Contains(r.Body, "12345678901") || !strings.Contains(r.Body, "nonsense") {
		t.Fatalf("want the role repeated and the password not: %s", r.Body)
	}
}

func TestAKeyWithoutScopesIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.ada.client.CreateAPIKey(t.Context(), api.CreateAPIKey{Name: "ci", Scopes: []string{}})
	if !errors.Is(err, &api.Error{Code: "scope_invalid"}) {
		t.Errorf("no scopes: %v", err)
	}
	for _, name := range []string{"ci\u202e", "ci\u2069", "ci\u0007", "ci\u009b"} {
		if _, err := w.ada.client.CreateAPIKey(t.Context(), api.CreateAPIKey{Name: name, Scopes: []string{"*"}}); !errors.Is(err, &api.Error{Code: "name_invalid"}) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestACursorOfNoListIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.newKey(w.ada, account.AllScopes)
	for _, path := range []string{"/v1/leases", "/v1/hosts", "/v1/transfers", "/v1/charges", "/v1/api-keys", "/v1/ssh-keys", "/v1/invoices", "/v1/statements"} {
		w.send("GET", path+"?cursor=garbage", key, nil).want(t, 422, "bad_cursor")
		if r := w.send("GET", path, key, nil); r.Status != 200 {
			t.Errorf("%s without one: %d", path, r.Status)
		}
	}
}

func TestARevokedKeyIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	k, err := w.ada.client.CreateAPIKey(t.Context(), api.CreateAPIKey{Name: "ci", Scopes: []string{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	c := w.client(k.Secret)
	if _, err := c.Me(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.ada.client.DeleteAPIKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Me(t.Context()); !errors.Is(err, &api.Error{Code: "invalid_token"}) {
		t.Fatalf("after it was revoked the key gives %v", err)
	}
}

func TestADemotedUserLosesTheRightsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.newUser(w.ada, "admin@example.com", account.Admin)
	key := w.newKey(admin, "account:write")
	w.send("GET", "/v1/audit", key, nil).want(t, 200, "")
	role := "viewer"
	if _, err := w.ada.client.UpdateUser(t.Context(), admin.ID, api.UpdateUser{Role: &role}); err != nil {
		t.Fatal(err)
	}
	w.send("GET", "/v1/audit", key, nil).want(t, 403, "forbidden")
	w.send("GET", "/v1/audit", admin.token, nil).want(t, 403, "forbidden")
}

func TestASuspendedAccountIsShutOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	yes, no := true, false
	if _, err := w.operator.client.UpdateAnyAccount(t.Context(), w.ada.AccountID, api.UpdateAnyAccount{Suspended: &yes}); err != nil {
		t.Fatal(err)
	}
	w.send("GET", "/v1/me", w.ada.token, nil).want(t, 403, "account_suspended")
	w.send("POST", "/v1/sessions", "", api.SignIn{Email: "ada@example.com", Password: testPassword}).want(t, 403, "account_suspended")
	if _, err := w.operator.client.UpdateAnyAccount(t.Context(), w.ada.AccountID, api.UpdateAnyAccount{Suspended: &no}); err != nil {
		t.Fatal(err)
	}
	w.send("GET", "/v1/me", w.ada.token, nil).want(t, 200, "")
	w.send("PATCH", "/v1/operator/accounts/"+w.operator.AccountID, w.operator.token, `{"suspended":true}`).want(t, 409, "own_account")
}

func TestListsComeInPagesThatLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := map[string]bool{w.ada.ID: true}
	for i := range 7 {
		want[w.newUser(w.ada, fmt.Sprintf("u%d@example.com", i), account.Viewer).ID] = true
	}
	seen, cursor, pages := map[string]bool{}, "", 0
	for {
		var p api.Page[api.User]
		if err := w.ada.client.Do(t.Context(), "GET", "/v1/users?limit=3&cursor="+cursor, nil, nil, &p); err != nil {
			t.Fatal(err)
		}
		pages++
		if len(p.Items) > 3 {
			t.Fatalf("a page of %d, want at most 3", len(p.Items))
		}
		for _, u := range p.Items {
			if seen[u.ID] || !want[u.ID] {
				t.Fatalf("user %s came twice or is another tenant's", u.ID)
			}
			seen[u.ID] = true
		}
		if cursor = p.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 8 || pages != 3 {
		t.Fatalf("%d users on %d pages, want 8 on 3", len(seen), pages)
	}
	users, err := w.ada.client.Users(t.Context())
	if err != nil || len(users) != 8 {
		t.Fatalf("the client lists %d users (%v), want 8", len(users), err)
	}
}

func TestEveryWriteIsInTheAuditLogWithItsRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.send("POST", "/v1/ssh-keys", w.ada.token, api.AddSSHKey{PublicKey: newSSHKey(t)}, requestIDHeader, "req-1")
	r.want(t, 201, "")
	p, err := w.ada.client.AuditLog(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	e := p.Items[0]
	if e.Action != "ssh_key.create" || e.UserID != w.ada.ID || e.RequestID != "req-1" || e.IP != "127.0.0.1" || !strings.HasPrefix(e.KeyID, "se-") {
		t.Fatalf("the newest entry is %+v", e)
	}
	var actions []string
	for _, e := range p.Items {
		actions = append(actions, e.Action)
	}
	if got := strings.Join(actions, " "); got != "ssh_key.create session.create account.create" {
		t.Fatalf("the log has %s", got)
	}
}

func TestTheWholeLifeOfASecondFactorOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.send("POST", "/v1/me/totp", w.ada.token, api.ConfirmPassword{Password: "wrong password"}).want(t, 403, "password_wrong")
	secret, err := w.ada.client.EnrolTOTP(ctx, api.ConfirmPassword{Password: testPassword})
	if err != nil || !strings.HasPrefix(secret.URL, "otpauth://totp/suanli:ada@example.com?") {
		t.Fatal(secret, err)
	}
	w.send("POST", "/v1/me/totp/confirm", w.ada.token, api.ConfirmTOTP{TOTP: "abcdef"}).want(t, 422, "totp_invalid")
	code := func() string { return account.TOTP(secret.Secret, w.clock.Now()) }
	if err := w.ada.client.ConfirmTOTP(ctx, api.ConfirmTOTP{TOTP: code()}); err != nil {
		t.Fatal(err)
	}
	in := api.SignIn{Email: "ada@example.com", Password: testPassword}
	w.send("POST", "/v1/sessions", "", in).want(t, 401, "totp_required")
	in.TOTP = code()
	w.send("POST", "/v1/sessions", "", in).want(t, 401, "totp_invalid") // it confirmed the enrolment, and works once
	w.clock.Advance(30 * time.Second)
	in.TOTP = code()
	w.send("POST", "/v1/sessions", "", in).want(t, 201, "")
	w.send("POST", "/v1/sessions", "", in).want(t, 401, "totp_invalid")
	if err := w.ada.client.RemoveTOTP(ctx, api.ConfirmPassword{Password: testPassword}); err != nil {
		t.Fatal(err)
	}
	in.TOTP = ""
	w.send("POST", "/v1/sessions", "", in).want(t, 201, "")
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	other := w.signIn("ada@example.com")
	list, err := w.ada.client.Sessions(ctx)
	if err != nil || len(list) != 2 || list[0].Token != "" {
		t.Fatal(list, err)
	}
	if err := other.client.SignOut(ctx, "current"); err != nil {
		t.Fatal(err)
	}
	w.send("GET", "/v1/me", other.token, nil).want(t, 401, "invalid_token")
	w.send("DELETE", "/v1/sessions/current", w.newKey(w.ada, account.AllScopes), nil).want(t, 409, "not_a_session")
	third := w.signIn("ada@example.com")
	if err := w.ada.client.ChangePassword(ctx, api.ChangePassword{CurrentPassword: testPassword, Password: "another good password"}); err != nil {
		t.Fatal(err)
	}
	w.send("GET", "/v1/me", third.token, nil).want(t, 401, "invalid_token")
	w.send("GET", "/v1/me", w.ada.token, nil).want(t, 200, "")
	w.clock.Advance(8 * 24 * time.Hour)
	w.send("GET", "/v1/me", w.ada.token, nil).want(t, 401, "invalid_token")
}
