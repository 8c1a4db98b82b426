package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// Passkey is a key of an authenticator by which a user signs in.
type Passkey struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Synced     bool       `json:"synced" doc:"It is kept by its maker, too, and not on one device only"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

// PasskeyCeremony is what a browser asks an authenticator for.
type PasskeyCeremony struct {
	CeremonyID string          `json:"ceremony_id" doc:"To be sent with the answer, within 5 minutes"`
	Options    json.RawMessage `json:"options" doc:"PublicKeyCredentialCreationOptionsJSON, or PublicKeyCredentialRequestOptionsJSON"`
}

// AddPasskey is an authenticator's new passkey.
type AddPasskey struct {
	CeremonyID string          `json:"ceremony_id" maxLength:"64"`
	Name       string          `json:"name" maxLength:"400" doc:"Up to 100 characters, to tell passkeys apart"`
	Credential json.RawMessage `json:"credential" doc:"RegistrationResponseJSON"`
}

// PasskeySignIn is an authenticator's answer.
type PasskeySignIn struct {
	CeremonyID string          `json:"ceremony_id" maxLength:"64"`
	Credential json.RawMessage `json:"credential" doc:"AuthenticationResponseJSON"`
}

// SetPasskeyOnly says whether one signs in by passkeys alone.
type SetPasskeyOnly struct {
	Password    string `json:"password" maxLength:"256"`
	PasskeyOnly bool   `json:"passkey_only" doc:"The password by itself does not sign in"`
}

// Passkeys returns the caller's passkeys, oldest first.
func (c *Client) Passkeys(ctx context.Context) ([]Passkey, error) {
	return collect(all[Passkey](ctx, c, "/v1/me/passkeys", nil))
}

// BeginPasskey asks for a new passkey.
func (c *Client) BeginPasskey(ctx context.Context, in ConfirmPassword) (*PasskeyCeremony, error) {
	return do[PasskeyCeremony](ctx, c, http.MethodPost, "/v1/me/passkeys/begin", in)
}

// AddPasskey keeps the passkey that an authenticator has made.
func (c *Client) AddPasskey(ctx context.Context, in AddPasskey) (*Passkey, error) {
	return do[Passkey](ctx, c, http.MethodPost, "/v1/me/passkeys", in)
}

// DeletePasskey removes a passkey.
func (c *Client) DeletePasskey(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/me/passkeys/"+url.PathEscape(id), nil, nil, nil)
}

// SetPasskeyOnly says whether one signs in by passkeys alone.
func (c *Client) SetPasskeyOnly(ctx context.Context, in SetPasskeyOnly) error {
	return c.Do(ctx, http.MethodPost, "/v1/me/passkey-only", nil, in, nil)
}

// BeginPasskeySignIn asks for anybody's passkey. It needs no credentials.
func (c *Client) BeginPasskeySignIn(ctx context.Context) (*PasskeyCeremony, error) {
	return do[PasskeyCeremony](ctx, c, http.MethodPost, "/v1/sessions/passkey/begin", struct{}{})
}

// SignInByPasskey returns a session for the user whose passkey has answered.
func (c *Client) SignInByPasskey(ctx context.Context, in PasskeySignIn) (*Session, error) {
	return do[Session](ctx, c, http.MethodPost, "/v1/sessions/passkey", in)
}
