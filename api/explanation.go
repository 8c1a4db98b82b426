package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Explanation says how a posted figure came about, from what is stored alone.
type Explanation struct {
	Subject    string            `json:"subject" doc:"The charge, the transfer or the credit note"`
	Kind       string            `json:"kind" enum:"use,correction,prepayment,prepayment_back,credit_note,transfer"`
	LeaseID    string            `json:"lease_id,omitempty"`
	Meter      string            `json:"meter,omitempty"`
	Code       string            `json:"code,omitempty" doc:"Of a transfer"`
	Currency   string            `json:"currency"`
	Simulated  bool              `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	Amount     Amount            `json:"amount" doc:"As posted; less than 0: given back"`
	Recomputed Amount            `json:"recomputed" doc:"By the steps"`
	OK         bool              `json:"ok" doc:"Computing it again gave exactly what was posted"`
	PostedAt   time.Time         `json:"posted_at"`
	Steps      []ExplanationStep `json:"steps" nullable:"false"`
}

// ExplanationStep is one sentence of an explanation.
type ExplanationStep struct {
	Code    string            `json:"code" doc:"What the sentence says; it does not change"`
	Values  map[string]string `json:"values" doc:"The values in it; one that begins with @ is a word"`
	Words   string            `json:"words" doc:"The sentence in English"`
	WordsZH string            `json:"words_zh" doc:"The sentence in Simplified Chinese"`
}

// Explain returns how a charge, a transfer or a credit note came about.
func (c *Client) Explain(ctx context.Context, id string) (*Explanation, error) {
	return do[Explanation](ctx, c, http.MethodGet, "/v1/charges/"+url.PathEscape(id)+"/explanation", nil)
}
