package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Trial is what the cloud offers to strangers, and what the account has of it.
type Trial struct {
	Offered           bool       `json:"offered" doc:"This cloud has trials"`
	Amount            Amount     `json:"amount" doc:"What a trial is worth"`
	Currency          string     `json:"currency"`
	ValidSeconds      int64      `json:"valid_seconds" doc:"From its first use on, to the second"`
	MaxConcurrentGPUs int        `json:"max_concurrent_gpus" doc:"Of an account that has nothing else; 0: no bound of its own"`
	EgressPorts       []int      `json:"egress_ports" nullable:"false" doc:"Ports that instances of such an account may reach outside; empty: all"`
	MailSent          bool       `json:"mail_sent" doc:"The cloud can send codes; else an operator verifies contacts"`
	ContactVerified   bool       `json:"contact_verified"`
	Grant             *Grant     `json:"grant,omitempty" doc:"Absent: not started"`
	StartedAt         *time.Time `json:"started_at,omitempty"`
}

// TrialDevice is an identifier that a client keeps.
type TrialDevice struct {
	Device string `json:"device" maxLength:"200" doc:"As the cloud gave it"`
}

// TrialCode is a code that was sent to a contact.
type TrialCode struct {
	Code string `json:"code" maxLength:"32" example:"123456"`
}

// Trial returns what the cloud offers and what the caller's account has of it.
func (c *Client) Trial(ctx context.Context) (*Trial, error) {
	return do[Trial](ctx, c, http.MethodGet, "/v1/trial", nil)
}

// NewTrialDevice returns an identifier for this client to keep.
func (c *Client) NewTrialDevice(ctx context.Context) (*TrialDevice, error) {
	return do[TrialDevice](ctx, c, http.MethodPost, "/v1/trial/device", struct{}{})
}

// SendTrialCode sends the caller a code by mail.
func (c *Client) SendTrialCode(ctx context.Context) (*Trial, error) {
	return do[Trial](ctx, c, http.MethodPost, "/v1/trial/code", struct{}{})
}

// VerifyTrialContact proves the caller's address by the code.
func (c *Client) VerifyTrialContact(ctx context.Context, code string) (*Trial, error) {
	return do[Trial](ctx, c, http.MethodPost, "/v1/trial/verify", TrialCode{Code: code})
}

// StartTrial gives the caller's account its trial; again, it is the same one.
func (c *Client) StartTrial(ctx context.Context, device string) (*Trial, error) {
	return do[Trial](ctx, c, http.MethodPost, "/v1/trial", TrialDevice{Device: device})
}

// ConfirmTrialContact is an operator's word for the contact of an account.
func (c *Client) ConfirmTrialContact(ctx context.Context, accountID string) (*Trial, error) {
	return do[Trial](ctx, c, http.MethodPost, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/trial-contact", struct{}{})
}
