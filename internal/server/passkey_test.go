package server

import (
	"encoding/json"
	"testing"

	"github.com/descope/virtualwebauthn"

	"suanli.dev/api"
	"suanli.dev/internal/account/passkeytest"
)

func init() {
	belongings["passkey_id"] = func(w *world, p person) string { k, _ := w.enrols(p); return k.ID }
}

// enrols adds a passkey to p, and returns what answers for it.
func (w *world) enrols(p person) (api.Passkey, func(options json.RawMessage) json.RawMessage) {
	w.t.Helper()
	site := virtualwebauthn.RelyingParty{ID: "cloud.example.com", Name: "suanli", Origin: "https://cloud.example.com"}
	auth := virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(p.ID)})
	key := passkeytest.NewCredential()
	ceremony, options, err := w.accounts.BeginPasskey(w.t.Context(), p.principal(), testPassword)
	if err != nil {
		w.t.Fatal(err)
	}
	o, err := virtualwebauthn.ParseAttestationOptions(string(options))
	if err != nil {
		w.t.Fatal(err)
	}
	k, err := p.client.AddPasskey(w.t.Context(), api.AddPasskey{
		CeremonyID: ceremony, Name: "laptop", Credential: json.RawMessage(virtualwebauthn.CreateAttestationResponse(site, auth, key, *o)),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return *k, func(options json.RawMessage) json.RawMessage {
		o, err := virtualwebauthn.ParseAssertionOptions(string(options))
		if err != nil {
			w.t.Fatal(err)
		}
		key.Counter++
		return json.RawMessage(virtualwebauthn.CreateAssertionResponse(site, auth, key, *o))
	}
}

func TestAPasskeySignsInByTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	c, err := w.ada.client.BeginPasskey(ctx, api.ConfirmPassword{Password: testPassword})
	if err != nil || c.CeremonyID == "" || len(c.Options) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	k, answer := w.enrols(w.ada)
	if list, err := w.ada.client.Passkeys(ctx); err != nil || len(list) != 1 || list[0].ID != k.ID || list[0].LastUsedAt != nil {
		t.Errorf("%+v, %v", list, err)
	}
	stranger := w.client("")
	asked, err := stranger.BeginPasskeySignIn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s, err := stranger.SignInByPasskey(ctx, api.PasskeySignIn{CeremonyID: asked.CeremonyID, Credential: answer(asked.Options)})
	if err != nil {
		t.Fatal(err)
	}
	if me, err := w.client(s.Token).Me(ctx); err != nil || me.User.ID != w.ada.ID {
		t.Errorf("%+v, %v", me, err)
	}
	w.send("POST", "/v1/sessions/passkey", "", api.PasskeySignIn{CeremonyID: asked.CeremonyID, Credential: json.RawMessage(`{}`)}).want(t, 401, "passkey_invalid")
	if err := w.ada.client.SetPasskeyOnly(ctx, api.SetPasskeyOnly{Password: testPassword, PasskeyOnly: true}); err != nil {
		t.Fatal(err)
	}
	w.send("POST", "/v1/sessions", "", api.SignIn{Email: w.ada.Email, Password: testPassword}).want(t, 401, "passkey_required")
	w.send("DELETE", "/v1/me/passkeys/"+k.ID, w.ada.token, nil).want(t, 409, "last_passkey")
}
