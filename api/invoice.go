package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Invoice is a month of an account on paper. It never changes.
type Invoice struct {
	ID        string         `json:"id"`
	Number    string         `json:"number" doc:"In sequence, without gaps" example:"INV-000001"`
	Start     time.Time      `json:"start" doc:"Of the month, in the account's time zone"`
	End       time.Time      `json:"end" doc:"Not in it"`
	IssuedAt  time.Time      `json:"issued_at"`
	Issuer    string         `json:"issuer,omitempty"`
	Customer  BillingProfile `json:"customer"`
	Currency  string         `json:"currency"`
	Lines     []InvoiceLine  `json:"lines" nullable:"false"`
	Discount  Amount         `json:"discount" doc:"What grants paid of all lines, in whole cents or fen; taxes are on the rest"`
	Exact     Amount         `json:"exact" doc:"The sum of the lines' amounts less what grants paid"`
	Rounding  Amount         `json:"rounding" doc:"Subtotal less exact, to the cent or fen; it is posted"`
	Subtotal  Amount         `json:"subtotal"`
	Taxes     []InvoiceTax   `json:"taxes" nullable:"false"`
	Total     Amount         `json:"total" doc:"Subtotal and the taxes that are not in it"`
	DueAt     *time.Time     `json:"due_at,omitempty" doc:"The end of the day by which it is to be paid; absent on invoices from before they had one"`
	Simulated bool           `json:"simulated" doc:"Some line is for simulated GPUs: there is no hardware"`
}

// InvoiceLine is one meter of one lease.
type InvoiceLine struct {
	LeaseID    string    `json:"lease_id"`
	Meter      string    `json:"meter"`
	From       time.Time `json:"from"`
	To         time.Time `json:"to"`
	Correction bool      `json:"correction" doc:"What was learned of use before the month, after its invoice was written"`
	Amount     Amount    `json:"amount" doc:"Exact: what was charged"`
	Granted    Amount    `json:"granted" doc:"What grants paid of the amount"`
	Discount   Amount    `json:"discount" doc:"What grants paid, in whole cents or fen; these add up to the invoice's discount"`
	Shown      Amount    `json:"shown" doc:"The rest in whole cents or fen; these add up to subtotal. A credit note takes back no more"`
	Tax        []Amount  `json:"tax" nullable:"false" doc:"Of each of the invoice's taxes"`
	Simulated  bool      `json:"simulated"`
}

// InvoiceTax is one tax of an invoice.
type InvoiceTax struct {
	Jurisdiction string `json:"jurisdiction"`
	Name         string `json:"name"`
	RatePPM      int64  `json:"rate_ppm" doc:"In millionths: 88750 is 8.875 %"`
	Inclusive    bool   `json:"inclusive" doc:"It is in the prices; else it is added"`
	Amount       Amount `json:"amount"`
}

// BillingProfile is who an account is on paper, and whose taxes apply to it.
type BillingProfile struct {
	Name         string `json:"name" maxLength:"400"`
	Address      string `json:"address,omitempty" maxLength:"1000"`
	TaxNumber    string `json:"tax_number,omitempty" maxLength:"100"`
	Jurisdiction string `json:"jurisdiction,omitempty" maxLength:"32" doc:"As in the operator's table of taxes; empty: the operator's own"`
	TimeZone     string `json:"time_zone,omitempty" maxLength:"64" doc:"The account's; months are months there"`
}

// Statement is an account's closed month: closing is opening less invoiced plus
// credited plus paid less refunded plus given, and the next one opens with it.
type Statement struct {
	Start     time.Time `json:"start"`
	End       time.Time `json:"end" doc:"Not in it"`
	Currency  string    `json:"currency"`
	Opening   Amount    `json:"opening"`
	Invoiced  Amount    `json:"invoiced"`
	Credited  Amount    `json:"credited" doc:"By credit notes"`
	Paid      Amount    `json:"paid"`
	Refunded  Amount    `json:"refunded"`
	Given     Amount    `json:"given" doc:"What else came in, such as credits for bad service, less what else went out"`
	Closing   Amount    `json:"closing" doc:"What the account had at the end, set aside or not; negative: owed"`
	InvoiceID string    `json:"invoice_id,omitempty"`
}

// Invoices returns the invoices of the caller's account, newest first.
func (c *Client) Invoices(ctx context.Context) ([]Invoice, error) {
	return collect(all[Invoice](ctx, c, "/v1/invoices", nil))
}

// Invoice returns an invoice by its identifier or number.
func (c *Client) Invoice(ctx context.Context, id string) (*Invoice, error) {
	return do[Invoice](ctx, c, http.MethodGet, "/v1/invoices/"+url.PathEscape(id), nil)
}

// InvoiceFile returns an invoice as a file, which the caller closes. The format is
// "csv" or "pdf".
func (c *Client) InvoiceFile(ctx context.Context, id, format string) (io.ReadCloser, error) {
	return c.Open(ctx, http.MethodGet, "/v1/invoices/"+url.PathEscape(id)+"/"+url.PathEscape(format), nil, "*/*")
}

// Statements returns the closed months of the caller's account, newest first.
func (c *Client) Statements(ctx context.Context) ([]Statement, error) {
	return collect(all[Statement](ctx, c, "/v1/statements", nil))
}

// BillingProfile returns who the caller's account is on paper.
func (c *Client) BillingProfile(ctx context.Context) (*BillingProfile, error) {
	return do[BillingProfile](ctx, c, http.MethodGet, "/v1/billing-profile", nil)
}

// SetBillingProfile writes down who an account is on paper. It is for operators.
func (c *Client) SetBillingProfile(ctx context.Context, accountID string, in BillingProfile) (*BillingProfile, error) {
	return do[BillingProfile](ctx, c, http.MethodPut, "/v1/operator/accounts/"+url.PathEscape(accountID)+"/billing-profile", in)
}

// CreditNote takes back a part of an invoice, which stays as it is.
type CreditNote struct {
	ID        string       `json:"id"`
	Number    string       `json:"number" doc:"In sequence, without gaps" example:"CN-000001"`
	InvoiceID string       `json:"invoice_id"`
	Invoice   string       `json:"invoice" doc:"The invoice's number"`
	Currency  string       `json:"currency"`
	Lines     []CreditLine `json:"lines" nullable:"false"`
	Total     Amount       `json:"total" doc:"With the taxes that were added"`
	Refunded  bool         `json:"refunded" doc:"It was paid out, and not kept as balance"`
	Reason    string       `json:"reason,omitempty"`
	IssuedAt  time.Time    `json:"issued_at"`
}

// CreditLine is what is taken back of one line of an invoice.
type CreditLine struct {
	Position int      `json:"position" minimum:"0" doc:"Of the invoice's line, from 0"`
	Amount   Amount   `json:"amount" doc:"In whole cents or fen, without added tax"`
	Tax      []Amount `json:"tax,omitempty" readOnly:"true" doc:"Of each of the invoice's taxes; it follows from the amount"`
}

// Credit asks for a credit note.
type Credit struct {
	Lines  []CreditLine `json:"lines,omitempty" maxItems:"10000" doc:"Absent or empty: all that is left of every line"`
	Reason string       `json:"reason,omitempty" maxLength:"400"`
	Refund bool         `json:"refund,omitempty" doc:"Pay it out, and not into the balance; both or neither is done"`
}

// CreditNotes returns the credit notes of an invoice, oldest first.
func (c *Client) CreditNotes(ctx context.Context, invoiceID string) ([]CreditNote, error) {
	return collect(all[CreditNote](ctx, c, "/v1/invoices/"+url.PathEscape(invoiceID)+"/credit-notes", nil))
}

// CreditNotePDF downloads a credit note of an invoice.
func (c *Client) CreditNotePDF(ctx context.Context, invoiceID, note string) (io.ReadCloser, error) {
	return c.Open(ctx, http.MethodGet, "/v1/invoices/"+url.PathEscape(invoiceID)+"/credit-notes/"+url.PathEscape(note)+"/pdf", nil, "*/*")
}

// CreditInvoice takes back a part of an invoice of any account. It is for
// operators.
func (c *Client) CreditInvoice(ctx context.Context, invoiceID string, in Credit) (*CreditNote, error) {
	return do[CreditNote](ctx, c, http.MethodPost, "/v1/operator/invoices/"+url.PathEscape(invoiceID)+"/credit-notes", in)
}

// Refund pays free money of an account out. It is for operators.
func (c *Client) Refund(ctx context.Context, in Deposit) (*Transfer, error) {
	return do[Transfer](ctx, c, http.MethodPost, "/v1/operator/refunds", in)
}
