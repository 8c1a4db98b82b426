package account

import (
	"context"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"suanli.dev/internal/account/passkeytest"
)

const testURL = "https://cloud.example.com"

// device is a person's authenticator, at a site.
type device struct {
	site virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	key  virtualwebauthn.Credential
}

func newDevice(p Principal) *device {
	return &device{
		site: virtualwebauthn.RelyingParty{ID: "cloud.example.com", Name: "suanli", Origin: testURL},
		auth: virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(p.UserID)}),
		key:  passkeytest.NewCredential(),
	}
}

func (d *device) makes(t *testing.T, options []byte) []byte {
	t.Helper()
	o, err := virtualwebauthn.ParseAttestationOptions(string(options))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(virtualwebauthn.CreateAttestationResponse(d.site, d.auth, d.key, *o))
}

func (d *device) answers(t *testing.T, options []byte) []byte {
	t.Helper()
	o, err := virtualwebauthn.ParseAssertionOptions(string(options))
	if err != nil {
		t.Fatal(err)
	}
	d.key.Counter++
	return []byte(virtualwebauthn.CreateAssertionResponse(d.site, d.auth, d.key, *o))
}

// enrols adds the device's passkey to p.
func (c *cloud) enrols(p Principal, d *device) Passkey {
	c.t.Helper()
	id, options, err := c.BeginPasskey(c.t.Context(), p, password)
	if err != nil {
		c.t.Fatal(err)
	}
	k, err := c.AddPasskey(c.t.Context(), p, id, "laptop", d.makes(c.t, options))
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

func (c *cloud) byPasskey(d *device) (Session, error) {
	c.t.Helper()
	id, options, err := c.BeginPasskeySignIn(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return c.SignInByPasskey(c.t.Context(), id, d.answers(c.t, options))
}

func TestAPasskeySignsInAlone(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		_, _, err := c.BeginPasskey(ctx, c.ada, "another password")
		wantCode(t, err, "password_wrong")
		d := newDevice(c.ada)
		k := c.enrols(c.ada, d)
		s, err := c.byPasskey(d)
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Authenticate(ctx, s.Token)
		if err != nil || p.UserID != c.ada.UserID || p.AccountID != c.ada.AccountID {
			t.Fatalf("%+v, %v", p, err)
		}
		list, err := c.Passkeys(ctx, c.ada)
		if err != nil || len(list) != 1 || list[0].ID != k.ID || list[0].Name != "laptop" || list[0].LastUsedAt.IsZero() {
			t.Errorf("%+v, %v", list, err)
		}
		// It is its owner's only.
		if list, err := c.Passkeys(ctx, c.oper); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		wantCode(t, c.DeletePasskey(ctx, c.oper, k.ID), "passkey_not_found")
		if err := c.DeletePasskey(ctx, c.ada, k.ID); err != nil {
			t.Fatal(err)
		}
		_, err = c.byPasskey(d)
		wantCode(t, err, "passkey_invalid")
	})
}

func TestAPasskeyAnswersOnceInTimeAndAtItsOwnSite(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		d := newDevice(c.ada)
		c.enrols(c.ada, d)
		id, options, err := c.BeginPasskeySignIn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		answer := d.answers(t, options)
		if _, err := c.SignInByPasskey(ctx, id, answer); err != nil {
			t.Fatal(err)
		}
		_, err = c.SignInByPasskey(ctx, id, answer)
		wantCode(t, err, "passkey_invalid")

		id, options, err = c.BeginPasskeySignIn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		answer = d.answers(t, options)
		c.advance(ceremonyFor)
		_, err = c.SignInByPasskey(ctx, id, answer)
		wantCode(t, err, "passkey_invalid")

		for name, change := range map[string]func(d *device){
			"at another site":           func(d *device) { d.site.Origin = "https://cloud.example.com.evil.example" },
			"for another host":          func(d *device) { d.site.ID = "evil.example" },
			"without a PIN or a finger": func(d *device) { d.auth.Options.UserNotVerified = true },
			"as another user":           func(d *device) { d.auth.Options.UserHandle = []byte(c.oper.UserID) },
			"by another key":            func(d *device) { d.key.Key = passkeytest.NewCredential().Key },
			"by a copy":                 func(d *device) { d.key.Counter = 0 },
		} {
			wrong := *d
			change(&wrong)
			if _, err := c.byPasskey(&wrong); err == nil {
				t.Errorf("signed in %s", name)
			} else {
				wantCode(t, err, "passkey_invalid")
			}
		}
		for _, text := range []string{"", "{}", "null", "[1]", "\x00"} {
			id, _, err := c.BeginPasskeySignIn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.SignInByPasskey(ctx, id, []byte(text))
			wantCode(t, err, "passkey_invalid")
		}
		// What was asked of one user, another cannot answer.
		id, options, err = c.BeginPasskey(ctx, c.ada, password)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.AddPasskey(ctx, c.oper, id, "stolen", newDevice(c.oper).makes(t, options))
		wantCode(t, err, "passkey_invalid")
	})
}

func TestWhoSignsInByPasskeyAloneIsNotLockedOut(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		wantCode(t, c.SetPasskeyOnly(ctx, c.ada, password, true), "passkey_needed")
		d := newDevice(c.ada)
		k := c.enrols(c.ada, d)
		if err := c.SetPasskeyOnly(ctx, c.ada, password, true); err != nil {
			t.Fatal(err)
		}
		_, err := c.SignIn(ctx, "ada@example.com", password, "")
		wantCode(t, err, "passkey_required")
		// Said only to one who knows the password.
		_, err = c.SignIn(ctx, "ada@example.com", "a wrong password", "")
		wantCode(t, err, "invalid_credentials")
		wantCode(t, c.DeletePasskey(ctx, c.ada, k.ID), "last_passkey")
		if _, err := c.byPasskey(d); err != nil {
			t.Fatal(err)
		}
		// Who lost the device is helped by somebody who manages the account.
		if _, err := c.UpdateUser(ctx, Principal{UserID: c.oper.UserID, AccountID: c.ada.AccountID, Role: Owner, Operator: true}, c.ada.UserID, UpdateUser{ResetTOTP: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.SignIn(ctx, "ada@example.com", password, ""); err != nil {
			t.Error(err)
		}
		_, err = c.byPasskey(d)
		wantCode(t, err, "passkey_invalid")
	})
}

func TestWhoIsDisabledSignsInByNoPasskey(t *testing.T) {
	onEachStore(t, func(t *testing.T, c *cloud) {
		ctx := t.Context()
		p := c.user(c.ada, Member)
		d := newDevice(p)
		c.enrols(p, d)
		if _, err := c.UpdateUser(ctx, c.ada, p.UserID, UpdateUser{Disabled: to(true)}); err != nil {
			t.Fatal(err)
		}
		_, err := c.byPasskey(d)
		wantCode(t, err, "user_disabled")
	})
}

func TestPasskeysNeedAHostName(t *testing.T) {
	t.Parallel()
	for address, host := range map[string]string{
		"": "", "http://192.0.2.7:7080": "", "http://[2001:db8::1]": "",
		"http://127.0.0.1:7080": "localhost", "https://cloud.example.com": "cloud.example.com", "https://gpu.example.org:8443/": "gpu.example.org",
	} {
		w, err := relyingParty(address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		got := ""
		if w != nil {
			got = w.Config.RPID
		}
		if got != host {
			t.Errorf("at %q they are bound to %q, want %q", address, got, host)
		}
	}
	var off Service
	_, _, err := off.BeginPasskeySignIn(context.Background())
	wantCode(t, err, "passkeys_off")
}

func TestNobodyFillsTheTableOfCeremonies(t *testing.T) {
	t.Parallel()
	c := newCloud(t, "sqlite:"+t.TempDir()+"/db")
	ctx := WithOrigin(t.Context(), Origin{IP: "198.51.100.7"})
	var err error
	n := 0
	for ; err == nil && n < 1000; n++ {
		_, _, err = c.BeginPasskeySignIn(ctx)
	}
	wantCode(t, err, "sign_in_throttled")
	c.advance(time.Hour)
	if err := c.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.BeginPasskeySignIn(ctx); err != nil {
		t.Error(err)
	}
}
