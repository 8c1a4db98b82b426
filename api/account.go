package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// SignIn is what a user signs in with.
type SignIn struct {
	Email    string `json:"email" maxLength:"254" example:"ada@example.com"`
	Password string `json:"password" maxLength:"256"`
	TOTP     string `json:"totp,omitempty" maxLength:"6" doc:"The current six-digit code, if the user has a second factor"`
}

// Session is a signed-in user.
type Session struct {
	ID        string    `json:"id"`
	Token     string    `json:"token,omitempty" doc:"The bearer token; shown only when the session is made"`
	UserID    string    `json:"user_id"`
	AccountID string    `json:"account_id"`
	IP        string    `json:"ip,omitempty" doc:"Where the sign-in came from"`
	Current   bool      `json:"current,omitempty" doc:"This request came with it"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Me is who a request is from.
type Me struct {
	User    User     `json:"user"`
	Account Account  `json:"account"`
	Actions []string `json:"actions" nullable:"false" doc:"What these credentials may do"`
}

// Account is who pays.
type Account struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Currency  string    `json:"currency" enum:"USD,CNY"`
	TimeZone  string    `json:"time_zone" doc:"IANA name; storage months are months there"`
	MaxLeases int       `json:"max_leases" doc:"Leases at once"`
	MaxGPUs   int       `json:"max_gpus" doc:"GPUs at once"`
	Suspended bool      `json:"suspended"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateAccount is a new account with the user who owns it.
type CreateAccount struct {
	Name     string `json:"name" minLength:"1" maxLength:"100" example:"Ada's lab"`
	Currency string `json:"currency,omitempty" enum:"USD,CNY" default:"USD" doc:"Cannot be changed later"`
	TimeZone string `json:"time_zone,omitempty" maxLength:"64" default:"UTC" doc:"IANA name, such as Asia/Shanghai"`
	Email    string `json:"email" maxLength:"254" example:"ada@example.com" doc:"The owner's"`
	Password string `json:"password" maxLength:"256" doc:"The owner's; at least 10 characters"`
}

// CreatedAccount is a new account and its owner.
type CreatedAccount struct {
	Account Account `json:"account"`
	Owner   User    `json:"owner"`
}

// UpdateAccount changes the fields that are given.
type UpdateAccount struct {
	Name     *string `json:"name,omitempty" minLength:"1" maxLength:"100"`
	TimeZone *string `json:"time_zone,omitempty" maxLength:"64" doc:"IANA name, such as Asia/Shanghai"`
}

// UpdateAnyAccount changes the fields that are given, as an operator may.
type UpdateAnyAccount struct {
	Name      *string `json:"name,omitempty" minLength:"1" maxLength:"100"`
	TimeZone  *string `json:"time_zone,omitempty" maxLength:"64"`
	MaxLeases *int    `json:"max_leases,omitempty" minimum:"0" maximum:"1000000"`
	MaxGPUs   *int    `json:"max_gpus,omitempty" minimum:"0" maximum:"1000000"`
	Suspended *bool   `json:"suspended,omitempty" doc:"A suspended account cannot sign in, and its keys are refused"`
}

// User acts for an account.
type User struct {
	ID          string    `json:"id"`
	AccountID   string    `json:"account_id"`
	Email       string    `json:"email"`
	Name        string    `json:"name"`
	Role        string    `json:"role" enum:"owner,admin,member,billing,viewer"`
	Operator    bool      `json:"operator"`
	Disabled    bool      `json:"disabled"`
	TOTP        bool      `json:"totp" doc:"A second factor is asked for"`
	PasskeyOnly bool      `json:"passkey_only" doc:"The password does not sign in"`
	CreatedAt   time.Time `json:"created_at"`
}

// CreateUser is a new user of the caller's account.
type CreateUser struct {
	Email    string `json:"email" maxLength:"254" example:"grace@example.com"`
	Name     string `json:"name,omitempty" maxLength:"100" doc:"The e-mail address if not given"`
	Role     string `json:"role" enum:"owner,admin,member,billing,viewer"`
	Password string `json:"password" maxLength:"256" doc:"At least 10 characters"`
	Operator bool   `json:"operator,omitempty" doc:"May run the cloud; only an operator can make one"`
}

// UpdateUser changes the fields that are given.
type UpdateUser struct {
	Name      *string `json:"name,omitempty" minLength:"1" maxLength:"100"`
	Role      *string `json:"role,omitempty" enum:"owner,admin,member,billing,viewer"`
	Disabled  *bool   `json:"disabled,omitempty"`
	Operator  *bool   `json:"operator,omitempty"`
	Password  *string `json:"password,omitempty" maxLength:"256" doc:"For a user who forgot it; ends the user's sessions"`
	ResetTOTP bool    `json:"reset_totp,omitempty" doc:"For a user who lost the device; removes the passkeys, too"`
}

// ChangePassword replaces one's own password.
type ChangePassword struct {
	CurrentPassword string `json:"current_password" maxLength:"256"`
	Password        string `json:"password" maxLength:"256" doc:"The new one; at least 10 characters"`
}

// ConfirmPassword proves again who is asking.
type ConfirmPassword struct {
	Password string `json:"password" maxLength:"256"`
}

// TOTPSecret is a second factor to be confirmed.
type TOTPSecret struct {
	Secret string `json:"secret" doc:"Base 32, for typing in"`
	URL    string `json:"url" doc:"otpauth URL, for a QR code"`
}

// ConfirmTOTP is the first code of a second factor.
type ConfirmTOTP struct {
	TOTP string `json:"totp" minLength:"6" maxLength:"6"`
}

// APIKey lets a program act for its user.
type APIKey struct {
	ID         string     `json:"id"`
	UserID     string     `json:"user_id"`
	Name       string     `json:"name"`
	Secret     string     `json:"secret,omitempty" doc:"The key itself; shown only when it is made"`
	Hint       string     `json:"hint" doc:"The last characters of the key"`
	Scopes     []string   `json:"scopes" nullable:"false" doc:"Actions; \"*\" alone: all that its user may do"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty" doc:"Absent: never"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"To about a minute; absent: not used yet"`
}

// CreateAPIKey is a new key of the caller.
type CreateAPIKey struct {
	Name      string     `json:"name" minLength:"1" maxLength:"100" example:"ci"`
	Scopes    []string   `json:"scopes" nullable:"false" maxItems:"50" example:"[\"market:read\",\"lease:write\"]" doc:"What the key may do, none of it beyond what you may; \"*\" alone: all that you may"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" doc:"Absent: never"`
}

// SSHKey is a public key that its user enters instances with.
type SSHKey struct {
	ID          string    `json:"id"`
	UserID      string    `json:"user_id"`
	Name        string    `json:"name"`
	Fingerprint string    `json:"fingerprint" doc:"As ssh-keygen -l prints it"`
	PublicKey   string    `json:"public_key"`
	CreatedAt   time.Time `json:"created_at"`
}

// AddSSHKey is a new SSH key of the caller.
type AddSSHKey struct {
	Name      string `json:"name,omitempty" maxLength:"100" doc:"The key's comment if not given"`
	PublicKey string `json:"public_key" maxLength:"16384" example:"ssh-ed25519 AAAA… ada@laptop" doc:"One line, the content of the file that ends in .pub"`
}

// AuditEntry is one write that somebody made.
type AuditEntry struct {
	ID        string          `json:"id"`
	UserID    string          `json:"user_id"`
	KeyID     string          `json:"key_id,omitempty" doc:"The API key or session used"`
	Action    string          `json:"action"`
	Subject   string          `json:"subject" doc:"The identifier of what was changed"`
	Detail    json.RawMessage `json:"detail,omitempty"`
	IP        string          `json:"ip,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	At        time.Time       `json:"at"`
}

// SignIn starts a session; use Client.WithToken with its token.
func (c *Client) SignIn(ctx context.Context, in SignIn) (*Session, error) {
	return do[Session](ctx, c, http.MethodPost, "/v1/sessions", in)
}

// Sessions lists the caller's sessions.
func (c *Client) Sessions(ctx context.Context) ([]Session, error) {
	return collect(all[Session](ctx, c, "/v1/sessions", nil))
}

// SignOut ends a session of the caller; id "current" is the client's own.
func (c *Client) SignOut(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/sessions/"+url.PathEscape(id), nil, nil, nil)
}

// Me returns who the client's token belongs to.
func (c *Client) Me(ctx context.Context) (*Me, error) {
	return do[Me](ctx, c, http.MethodGet, "/v1/me", nil)
}

// ChangePassword replaces the caller's password.
func (c *Client) ChangePassword(ctx context.Context, in ChangePassword) error {
	return c.Do(ctx, http.MethodPost, "/v1/me/password", nil, in, nil)
}

// EnrolTOTP makes a second factor, which counts once confirmed.
func (c *Client) EnrolTOTP(ctx context.Context, in ConfirmPassword) (*TOTPSecret, error) {
	return do[TOTPSecret](ctx, c, http.MethodPost, "/v1/me/totp", in)
}

// ConfirmTOTP turns the second factor on.
func (c *Client) ConfirmTOTP(ctx context.Context, in ConfirmTOTP) error {
	return c.Do(ctx, http.MethodPost, "/v1/me/totp/confirm", nil, in, nil)
}

// RemoveTOTP turns the second factor off.
func (c *Client) RemoveTOTP(ctx context.Context, in ConfirmPassword) error {
	return c.Do(ctx, http.MethodPost, "/v1/me/totp/remove", nil, in, nil)
}

// Account returns the caller's account.
func (c *Client) Account(ctx context.Context) (*Account, error) {
	return do[Account](ctx, c, http.MethodGet, "/v1/account", nil)
}

// UpdateAccount changes the caller's account.
func (c *Client) UpdateAccount(ctx context.Context, in UpdateAccount) (*Account, error) {
	return do[Account](ctx, c, http.MethodPatch, "/v1/account", in)
}

// Users lists the users of the caller's account.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	return collect(all[User](ctx, c, "/v1/users", nil))
}

// User returns a user of the caller's account.
func (c *Client) User(ctx context.Context, id string) (*User, error) {
	return do[User](ctx, c, http.MethodGet, "/v1/users/"+url.PathEscape(id), nil)
}

// CreateUser adds a user to the caller's account.
func (c *Client) CreateUser(ctx context.Context, in CreateUser) (*User, error) {
	return do[User](ctx, c, http.MethodPost, "/v1/users", in)
}

// UpdateUser changes a user of the caller's account.
func (c *Client) UpdateUser(ctx context.Context, id string, in UpdateUser) (*User, error) {
	return do[User](ctx, c, http.MethodPatch, "/v1/users/"+url.PathEscape(id), in)
}

// DeleteUser removes a user of the caller's account, with all keys.
func (c *Client) DeleteUser(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/users/"+url.PathEscape(id), nil, nil, nil)
}

// APIKeys lists the caller's API keys; those of the account if the caller may
// manage it.
func (c *Client) APIKeys(ctx context.Context) ([]APIKey, error) {
	return collect(all[APIKey](ctx, c, "/v1/api-keys", nil))
}

// CreateAPIKey makes a key; its secret is in the answer and nowhere else.
func (c *Client) CreateAPIKey(ctx context.Context, in CreateAPIKey) (*APIKey, error) {
	return do[APIKey](ctx, c, http.MethodPost, "/v1/api-keys", in)
}

// DeleteAPIKey revokes a key.
func (c *Client) DeleteAPIKey(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/api-keys/"+url.PathEscape(id), nil, nil, nil)
}

// SSHKeys lists the SSH keys of the caller's account.
func (c *Client) SSHKeys(ctx context.Context) ([]SSHKey, error) {
	return collect(all[SSHKey](ctx, c, "/v1/ssh-keys", nil))
}

// AddSSHKey adds an SSH key of the caller.
func (c *Client) AddSSHKey(ctx context.Context, in AddSSHKey) (*SSHKey, error) {
	return do[SSHKey](ctx, c, http.MethodPost, "/v1/ssh-keys", in)
}

// DeleteSSHKey removes an SSH key.
func (c *Client) DeleteSSHKey(ctx context.Context, id string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/ssh-keys/"+url.PathEscape(id), nil, nil, nil)
}

// AuditLog returns one page of the account's audit log, newest first.
func (c *Client) AuditLog(ctx context.Context, cursor string) (*Page[AuditEntry], error) {
	page := &Page[AuditEntry]{}
	q := url.Values{}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	return page, c.Do(ctx, http.MethodGet, "/v1/audit", q, nil, page)
}

// Accounts lists all accounts, for an operator.
func (c *Client) Accounts(ctx context.Context) ([]Account, error) {
	return collect(all[Account](ctx, c, "/v1/operator/accounts", nil))
}

// CreateAccount makes an account with its owner, for an operator.
func (c *Client) CreateAccount(ctx context.Context, in CreateAccount) (*CreatedAccount, error) {
	return do[CreatedAccount](ctx, c, http.MethodPost, "/v1/operator/accounts", in)
}

// AnyAccount returns an account, for an operator.
func (c *Client) AnyAccount(ctx context.Context, id string) (*Account, error) {
	return do[Account](ctx, c, http.MethodGet, "/v1/operator/accounts/"+url.PathEscape(id), nil)
}

// UpdateAnyAccount changes an account, for an operator.
func (c *Client) UpdateAnyAccount(ctx context.Context, id string, in UpdateAnyAccount) (*Account, error) {
	return do[Account](ctx, c, http.MethodPatch, "/v1/operator/accounts/"+url.PathEscape(id), in)
}
