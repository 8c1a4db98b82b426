package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// SignUpTerms is whom the cloud is open to, and what a new account is.
type SignUpTerms struct {
	Mode                  string      `json:"mode" enum:"open,invited,closed" doc:"Who can sign up: everybody, those who were invited by mail, or nobody"`
	Currencies            []string    `json:"currencies" nullable:"false" doc:"That an account can be kept in"`
	Currency              string      `json:"currency" doc:"That the cloud's prices are in"`
	PasswordMinCharacters int         `json:"password_min_characters"`
	Trial                 *TrialOffer `json:"trial,omitempty" doc:"Absent: there are no trials"`
}

// TrialOffer is what an account can try the cloud with.
type TrialOffer struct {
	Amount            Amount `json:"amount"`
	Currency          string `json:"currency" doc:"Of accounts that can have it"`
	ValidSeconds      int64  `json:"valid_seconds" doc:"From its first use on; then what it pays for stops"`
	MaxConcurrentGPUs int    `json:"max_concurrent_gpus" doc:"0: no bound of its own"`
	EgressPorts       []int  `json:"egress_ports" nullable:"false" doc:"Ports that instances may reach outside; empty: all"`
}

// SignUpCode asks for a code.
type SignUpCode struct {
	Email string `json:"email" maxLength:"254" format:"email" example:"ada@example.com"`
}

// SignUp makes an account, whose owner has this address.
type SignUp struct {
	Email    string `json:"email" maxLength:"254"`
	Code     string `json:"code" maxLength:"32" doc:"From the mail" example:"123456"`
	Password string `json:"password" maxLength:"256"`
	Name     string `json:"name" maxLength:"400" doc:"Of the account, up to 100 characters"`
	Currency string `json:"currency,omitempty" enum:"USD,CNY" doc:"Absent: the cloud's"`
	TimeZone string `json:"time_zone,omitempty" maxLength:"64" doc:"Absent: UTC" example:"Asia/Shanghai"`
}

// InvitationCreate invites an address.
type InvitationCreate struct {
	Email string `json:"email" maxLength:"254" example:"ada@example.com"`
}

// Invitation lets an address sign up.
type Invitation struct {
	ID        string     `json:"id"`
	Email     string     `json:"email"`
	InvitedBy string     `json:"invited_by" doc:"The user who did"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	UsedAt    *time.Time `json:"used_at,omitempty" doc:"When its account was made"`
}

// SignUpTerms returns whom the cloud is open to. It needs no credentials.
func (c *Client) SignUpTerms(ctx context.Context) (*SignUpTerms, error) {
	return do[SignUpTerms](ctx, c, http.MethodGet, "/v1/sign-up", nil)
}

// RequestSignUp has the cloud send a mail to an address, with a code if it may sign up.
func (c *Client) RequestSignUp(ctx context.Context, email string) error {
	return c.Do(ctx, http.MethodPost, "/v1/sign-up/code", nil, SignUpCode{Email: email}, nil)
}

// SignUp makes an account with the code that was sent, and signs its owner in.
func (c *Client) SignUp(ctx context.Context, in SignUp) (*Session, error) {
	return do[Session](ctx, c, http.MethodPost, "/v1/sign-up", in)
}

// Invite lets an address sign up; again, it is for as long again.
func (c *Client) Invite(ctx context.Context, email string) (*Invitation, error) {
	return do[Invitation](ctx, c, http.MethodPost, "/v1/operator/invitations", InvitationCreate{Email: email})
}

// Invitations returns all invitations, oldest first.
func (c *Client) Invitations(ctx context.Context) ([]Invitation, error) {
	return collect(all[Invitation](ctx, c, "/v1/operator/invitations", nil))
}

// Uninvite takes an invitation back, by its identifier or address.
func (c *Client) Uninvite(ctx context.Context, idOrEmail string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/operator/invitations/"+url.PathEscape(idOrEmail), nil, nil, nil)
}
