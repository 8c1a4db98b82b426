package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/account"
)

// mayDo says again, apart from the account package, who may do what: a change
// there must be meant enough to be made here too.
var mayDo = map[account.Action]string{
	account.ReadMarket:   "owner admin member billing viewer",
	account.ReadLeases:   "owner admin member billing viewer",
	account.WriteLeases:  "owner admin member",
	account.EnterLeases:  "owner admin member",
	account.ReadBilling:  "owner admin billing",
	account.WriteBilling: "owner billing",
	account.ReadAccount:  "owner admin member billing viewer",
	account.WriteAccount: "owner admin",
	account.WriteSelf:    "owner admin member billing viewer",
	account.ReadHosts:    "owner admin member viewer",
	account.WriteHosts:   "owner admin",
	account.Operate:      "",
}

// belongings make one thing of p's and return its identifier, by the name of the
// path parameter that it goes into. A subject whose paths name things adds its
// own from its test file's init; without one, an identifier that nothing has is
// used, and the walk shows less.
var belongings = map[string]func(w *world, p person) string{
	"user_id": func(w *world, p person) string {
		return w.newUser(p, fmt.Sprintf("u%d@example.com", w.serial()), account.Viewer).ID
	},
	"key_id": func(w *world, p person) string {
		k, err := w.accounts.CreateAPIKey(w.t.Context(), p.principal(), account.CreateAPIKey{Name: "victim"})
		if err != nil {
			w.t.Fatal(err)
		}
		return k.ID
	},
	"ssh_key_id": func(w *world, p person) string {
		k, err := w.accounts.AddSSHKey(w.t.Context(), p.principal(), "victim", newSSHKey(w.t))
		if err != nil {
			w.t.Fatal(err)
		}
		return k.ID
	},
	"session_id": func(w *world, p person) string {
		token := w.signIn(p.Email).token
		who, err := w.accounts.Authenticate(w.t.Context(), token)
		if err != nil {
			w.t.Fatal(err)
		}
		return who.KeyID
	},
	"account_id": func(_ *world, p person) string { return p.AccountID },
}

var pathParameter = regexp.MustCompile(`\{([a-z_]+)(\.\.\.)?\}`)

// target fills an operation's path with p's belongings. real reports whether
// there was one for each parameter.
func (w *world) target(op operation, p person) (path string, real bool) {
	real = true
	path = pathParameter.ReplaceAllStringFunc(op.Path, func(m string) string {
		if make, ok := belongings[pathParameter.FindStringSubmatch(m)[1]]; ok {
			return make(w, p)
		}
		real = false
		return "xx-00000000000000000000000000"
	})
	return path, real
}

// attempt sends the operation an empty object and reads no more than the
// beginning of the answer, as some answers have no end.
func (w *world) attempt(op operation, path, token string) reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, op.Method, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if op.Method != http.MethodGet && op.Method != http.MethodDelete {
		req.Body = io.NopCloser(bytes.NewReader([]byte("{}")))
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatalf("%s: %v", op.ID, err)
	}
	defer res.Body.Close()
	r := reply{Status: res.StatusCode, Header: res.Header}
	if strings.HasSuffix(res.Header.Get("Content-Type"), "json") {
		content, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			w.t.Fatalf("%s: %v", op.ID, err)
		}
		r.Body = string(content)
	}
	return r
}

func TestEveryOperationIsOpenToThoseTheTableNamesAndToNobodyElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *world, c *Config) { c.KeepAlive = 20 * time.Millisecond })
	people := map[string]person{"owner": w.ada}
	for _, r := range []account.Role{account.Admin, account.Member, account.Billing, account.Viewer} {
		people[string(r)] = w.newUser(w.ada, string(r)+"@example.com", r)
	}
	// API keys, as the walk may end the sessions.
	tokens := map[string]string{"operator": w.newKey(w.operator, account.AllScopes), "scopeless key": w.newKey(w.ada), "anonymous": ""}
	for name, p := range people {
		tokens[name] = w.newKey(p, account.AllScopes)
	}
	scoped := map[account.Action]string{}
	for _, a := range account.Actions {
		scoped[a] = w.newKey(w.operator, string(a))
	}
	if len(mayDo) != len(account.Actions) {
		t.Fatalf("the table here has %d actions, the account package %d", len(mayDo), len(account.Actions))
	}
	for _, op := range w.server.operations {
		t.Run(op.ID, func(t *testing.T) {
			if _, ok := mayDo[op.Action]; op.Action != "" && !ok {
				t.Fatalf("the action %q is not in the table", op.Action)
			}
			check := func(who, token string, allowed bool) {
				path, _ := w.target(op, w.ada)
				r := w.attempt(op, path, token)
				denied := r.code() == "unauthenticated" || r.code() == "forbidden"
				switch {
				case allowed && denied:
					t.Errorf("%s is refused %s %s (needs %q), but should not be: %s", who, op.Method, op.Path, op.Action, r.Body)
				case !allowed && who == "anonymous" && (r.Status != 401 || r.code() != "unauthenticated"):
					t.Errorf("%s gets %d %q from %s %s, want 401", who, r.Status, r.code(), op.Method, op.Path)
				case !allowed && who != "anonymous" && (r.Status != 403 || r.code() != "forbidden"):
					t.Errorf("%s gets %d %q from %s %s (needs %q), want 403", who, r.Status, r.code(), op.Method, op.Path, op.Action)
				}
				if r.Status >= 500 {
					t.Errorf("%s: %s %s answers %d: %s", who, op.Method, op.Path, r.Status, r.Body)
				}
			}
			open := op.Action == ""
			for who, token := range tokens {
				allowed := open || who == "operator" || slices.Contains(strings.Fields(mayDo[op.Action]), who)
				check(who, token, allowed)
			}
			for action, token := range scoped {
				check("a key with the scope "+string(action), token, open || action == op.Action)
			}
		})
	}
}

func TestTheTableIsTheAccountPackages(t *testing.T) {
	t.Parallel()
	for action, roles := range mayDo {
		for _, r := range account.Roles {
			p := account.Principal{UserID: "us", Role: r}
			if got, want := p.May(action), slices.Contains(strings.Fields(roles), string(r)); got != want {
				t.Errorf("%s may %s: %v, want %v", r, action, got, want)
			}
		}
	}
}

func TestNobodyReachesAnotherTenantsThings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *world, c *Config) { c.KeepAlive = 20 * time.Millisecond })
	eve, ada := w.newKey(w.eve, account.AllScopes), w.newKey(w.ada, account.AllScopes)
	for _, op := range w.server.operations {
		// The market is everybody's, and operators reach every tenant.
		if !strings.Contains(op.Path, "{") || op.Action == "" || op.Action == account.ReadMarket || op.Action == account.Operate {
			continue
		}
		t.Run(op.ID, func(t *testing.T) {
			path, real := w.target(op, w.ada)
			theirs := w.attempt(op, path, eve)
			if theirs.Status != http.StatusNotFound {
				t.Errorf("another tenant's owner gets %d from %s %s, want 404: %s", theirs.Status, op.Method, path, theirs.Body)
			}
			if !real {
				t.Logf("%s: nothing makes what %s names, so only an absent one was tried", op.ID, op.Path)
				return
			}
			if own := w.attempt(op, path, ada); own.Status == http.StatusNotFound {
				t.Errorf("its owner gets 404 too from %s %s, so this shows nothing: %s", op.Method, path, own.Body)
			}
			// Absent and not yours must look the same.
			absent := w.attempt(op, pathParameter.ReplaceAllString(op.Path, "xx-00000000000000000000000000"), eve)
			if absent.Status != theirs.Status || absent.code() != theirs.code() {
				t.Errorf("absent answers %d %q, another's %d %q: the difference tells that it exists", absent.Status, absent.code(), theirs.Status, theirs.code())
			}
		})
	}
}

func TestListsShowOnlyTheOwnTenant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ *world, c *Config) { c.KeepAlive = 20 * time.Millisecond })
	for _, make := range belongings {
		make(w, w.ada)
	}
	for _, op := range w.server.operations {
		// The market is everybody's: who offers what is no secret.
		if op.Method != http.MethodGet || strings.Contains(op.Path, "{") || op.Action == "" || op.Action == account.ReadMarket || op.Action == account.Operate {
			continue
		}
		r := w.attempt(op, op.Path, w.eve.token)
		for _, secret := range []string{w.ada.AccountID, w.ada.ID, w.ada.Email} {
			if strings.Contains(r.Body, secret) {
				t.Errorf("%s shows %s to another tenant: %s", op.ID, secret, r.Body)
			}
		}
	}
}
