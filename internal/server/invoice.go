package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
)

// invoicePath is the input of operations on one invoice.
type invoicePath struct {
	InvoiceID string `path:"invoice_id" maxLength:"64" doc:"Identifier or number"`
}

func (a *API) registerInvoices() {
	register(a, operation{
		ID: "listInvoices", Method: http.MethodGet, Path: "/v1/invoices", Summary: "List invoices, newest first", Tag: tagBilling, Action: account.ReadBilling,
		Description: "A month is written down some time after it has ended in the account's time zone, once, and never changed. What is learned of it later is a correction on the next invoice.",
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.Invoice]], error) {
		list, err := a.Billing.Invoices(ctx, p.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(v billing.Invoice) string { return v.ID }, invoiceJSON), nil
	})
	register(a, operation{
		ID: "getInvoice", Method: http.MethodGet, Path: "/v1/invoices/{invoice_id}", Summary: "Show an invoice", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *invoicePath) (*body[api.Invoice], error) {
		v, err := a.Billing.Invoice(ctx, p.AccountID, in.InvoiceID)
		if err != nil {
			return nil, err
		}
		return &body[api.Invoice]{invoiceJSON(v)}, nil
	})
	for _, f := range []struct {
		name, format, kind string
		write              func(billing.Invoice) ([]byte, error)
	}{{"CSV", "csv", "text/csv; charset=utf-8", invoiceCSV}, {"PDF", "pdf", "application/pdf", invoicePDF}} {
		registerStream(a, operation{
			ID: "getInvoice" + f.name, Method: http.MethodGet, Path: "/v1/invoices/{invoice_id}/" + f.format, Summary: "Download an invoice as " + f.name, Tag: tagBilling, Action: account.ReadBilling,
		}, f.kind, func(w http.ResponseWriter, r *http.Request, p account.Principal, in *invoicePath) error {
			v, err := a.Billing.Invoice(r.Context(), p.AccountID, in.InvoiceID)
			if err != nil {
				return err
			}
			content, err := f.write(v)
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", f.kind)
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			w.Header().Set("Content-Disposition", `attachment; filename="`+v.Number+"."+f.format+`"`)
			_, err = w.Write(content)
			return err
		})
	}
	register(a, operation{
		ID: "listStatements", Method: http.MethodGet, Path: "/v1/statements", Summary: "List closed months, newest first", Tag: tagBilling, Action: account.ReadBilling, OwnCursor: true,
		Description: "Each opens with what the one before closed with: less what was invoiced, plus what was paid and given. Closing is what the account had, set aside or not, less what it owed.",
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.Statement]], error) {
		var before time.Time
		if in.Cursor != "" {
			var err error
			if before, err = time.Parse(time.RFC3339Nano, in.Cursor); err != nil {
				return nil, fault.New(fault.Invalid, "bad_cursor", "the cursor %q is not one of this list; begin at the first page", in.Cursor).At("query.cursor")
			}
		}
		list, err := a.Billing.Statements(ctx, p.AccountID, before, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(s billing.Statement) string { return s.Period.Start.Format(time.RFC3339Nano) }, statementJSON), nil
	})
	register(a, operation{
		ID: "getBillingProfile", Method: http.MethodGet, Path: "/v1/billing-profile", Summary: "Show who the account is on invoices, and whose taxes apply", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[api.BillingProfile], error) {
		party, err := a.Billing.Profile(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		return &body[api.BillingProfile]{profileJSON(party)}, nil
	})
	register(a, operation{
		ID: "setBillingProfile", Method: http.MethodPut, Path: "/v1/operator/accounts/{account_id}/billing-profile", Summary: "Write down who an account is on invoices, and whose taxes apply", Tag: tagBilling, Action: account.Operate,
		Description: "Invoices that are written already stay as they are. The time zone is the account's own setting and is not taken from here.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		AccountID string `path:"account_id" maxLength:"64"`
		Body      api.BillingProfile
	}) (*body[api.BillingProfile], error) {
		b := in.Body
		party, err := a.Billing.SetProfile(ctx, p, in.AccountID, billing.Party{Name: b.Name, Address: b.Address, TaxNumber: b.TaxNumber, Jurisdiction: b.Jurisdiction})
		if err != nil {
			return nil, err
		}
		return &body[api.BillingProfile]{profileJSON(party)}, nil
	})
	a.registerCredits()
}

// creditPath is the input of operations on one credit note.
type creditPath struct {
	InvoiceID string `path:"invoice_id" maxLength:"64" doc:"Identifier or number"`
	Note      string `path:"note" maxLength:"64" doc:"Identifier or number of the credit note"`
}

func (a *API) registerCredits() {
	registerStream(a, operation{
		ID: "getCreditNotePDF", Method: http.MethodGet, Path: "/v1/invoices/{invoice_id}/credit-notes/{note}/pdf", Summary: "Download a credit note as PDF", Tag: tagBilling, Action: account.ReadBilling,
	}, "application/pdf", func(w http.ResponseWriter, r *http.Request, p account.Principal, in *creditPath) error {
		v, err := a.Billing.Invoice(r.Context(), p.AccountID, in.InvoiceID)
		if err != nil {
			return err
		}
		notes, err := a.Billing.CreditNotes(r.Context(), p.AccountID, v.ID)
		if err != nil {
			return err
		}
		for _, n := range notes {
			if n.ID != in.Note && n.Number != strings.ToUpper(in.Note) {
				continue
			}
			content, err := creditPDF(n, v)
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", "application/pdf")
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			w.Header().Set("Content-Disposition", `attachment; filename="`+n.Number+`.pdf"`)
			_, err = w.Write(content)
			return err
		}
		return fault.New(fault.NotFound, "credit_note_not_found", "invoice %s has no credit note %q", v.Number, in.Note)
	})
	register(a, operation{
		ID: "listCreditNotes", Method: http.MethodGet, Path: "/v1/invoices/{invoice_id}/credit-notes", Summary: "List an invoice's credit notes, oldest first", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *invoicePath) (*body[page[api.CreditNote]], error) {
		list, err := a.Billing.CreditNotes(ctx, p.AccountID, in.InvoiceID)
		if err != nil {
			return nil, err
		}
		return paged(list, len(list), func(n billing.CreditNote) string { return n.ID }, creditJSON), nil
	})
	register(a, operation{
		ID: "creditInvoice", Method: http.MethodPost, Path: "/v1/operator/invoices/{invoice_id}/credit-notes", Summary: "Take back a part of an invoice", Tag: tagBilling, Action: account.Operate,
		Status: http.StatusCreated, Idempotent: true,
		Description: "The invoice stays as it is: new postings give the provider's part, the commission and the taxes back in proportion. Notes for everything come to the invoice exactly. What is taken back pays debt first.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		InvoiceID string `path:"invoice_id" maxLength:"64" doc:"Identifier or number"`
		Body      api.Credit
	}) (*body[api.CreditNote], error) {
		c := billing.Credit{Reason: in.Body.Reason, Refund: in.Body.Refund}
		for _, l := range in.Body.Lines {
			c.Lines = append(c.Lines, billing.CreditLine{Position: l.Position, Amount: l.Amount})
		}
		n, err := a.Billing.CreditInvoice(ctx, p, in.InvoiceID, c, requestKey(ctx))
		if err != nil {
			return nil, err
		}
		return &body[api.CreditNote]{creditJSON(n)}, nil
	})
	register(a, operation{
		ID: "createRefund", Method: http.MethodPost, Path: "/v1/operator/refunds", Summary: "Enter a refund of free money", Tag: tagBilling, Action: account.Operate,
		Status: http.StatusCreated, Idempotent: true, Description: "What is set aside for leases, or used and not posted yet, stays. Send an Idempotency-Key, so that a repeat is not a second refund.",
	}, func(ctx context.Context, p account.Principal, in *body[api.Deposit]) (*body[api.Transfer], error) {
		t, err := a.Billing.Refund(ctx, p, in.Body.AccountID, in.Body.Amount, in.Body.Reference, requestKey(ctx))
		if err != nil {
			return nil, err
		}
		return &body[api.Transfer]{transferJSON(t)}, nil
	})
}

func creditJSON(n billing.CreditNote) api.CreditNote {
	out := api.CreditNote{
		ID: n.ID, Number: n.Number, InvoiceID: n.InvoiceID, Invoice: n.Invoice, Currency: string(n.Currency), Lines: []api.CreditLine{}, Total: n.Total,
		Refunded: n.Refunded, Reason: n.Reason, IssuedAt: n.IssuedAt,
	}
	for _, l := range n.Lines {
		out.Lines = append(out.Lines, api.CreditLine{Position: l.Position, Amount: l.Amount, Tax: l.Tax})
	}
	return out
}

func invoiceJSON(v billing.Invoice) api.Invoice {
	out := api.Invoice{
		ID: v.ID, Number: v.Number, Start: v.Start, End: v.End, IssuedAt: v.IssuedAt, Issuer: v.Issuer, Customer: profileJSON(v.Customer), Currency: string(v.Currency),
		Lines: []api.InvoiceLine{}, Discount: v.Discount, Exact: v.Exact, Rounding: v.Rounding, Subtotal: v.Subtotal, Taxes: []api.InvoiceTax{}, Total: v.Total, Simulated: v.Simulated, DueAt: optional(v.DueAt),
	}
	for _, l := range v.Lines {
		line := api.InvoiceLine{
			LeaseID: l.LeaseID, Meter: string(l.Meter), From: l.From, To: l.To, Correction: l.Correction, Amount: l.Amount, Granted: l.Granted, Discount: l.Discount, Shown: l.Shown, Tax: []api.Amount{}, Simulated: l.Simulated,
		}
		line.Tax = append(line.Tax, l.Tax...)
		out.Lines = append(out.Lines, line)
	}
	for _, t := range v.Taxes {
		out.Taxes = append(out.Taxes, api.InvoiceTax{Jurisdiction: t.Jurisdiction, Name: t.Name, RatePPM: t.PPM, Inclusive: t.Inclusive, Amount: t.Amount})
	}
	return out
}

func profileJSON(p billing.Party) api.BillingProfile {
	return api.BillingProfile{Name: p.Name, Address: p.Address, TaxNumber: p.TaxNumber, Jurisdiction: p.Jurisdiction, TimeZone: p.TimeZone}
}

func statementJSON(s billing.Statement) api.Statement {
	return api.Statement{
		Start: s.Period.Start, End: s.Period.End, Currency: string(s.Currency), Opening: s.Opening, Invoiced: s.Invoiced, Credited: s.Credited,
		Paid: s.Paid, Refunded: s.Refunded, Given: s.Given, Closing: s.Closing, InvoiceID: s.InvoiceID,
	}
}
