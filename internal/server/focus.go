package server

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
)

type focusQuery struct {
	Period string `query:"period" required:"true" maxLength:"7" pattern:"^[0-9]{4}-[0-9]{2}$" doc:"A month by the account's zone" example:"2026-11"`
	Format string `query:"format" enum:"csv,jsonl" default:"csv" doc:"A table, or a JSON object a line"`
}

func (a *API) registerFocus() {
	registerStream(a, operation{
		ID: "exportFocus", Method: http.MethodGet, Path: "/v1/exports/focus", Summary: "Export a month's costs by the FinOps specification FOCUS", Tag: tagBilling, Action: account.ReadBilling,
		Description: "FOCUS " + billing.FocusVersion + ". BilledCost adds up to the invoice of the month exactly, with its rounding and the taxes that are added, and by InvoiceId to each document. A month that is not closed has what is posted so far, without an InvoiceId. Rows for simulated GPUs have x_Simulated true.",
	}, "text/csv; charset=utf-8", func(w http.ResponseWriter, r *http.Request, p account.Principal, in *focusQuery) error {
		about := func(ctx context.Context, ids []string) (map[string]billing.FocusResource, error) {
			out := map[string]billing.FocusResource{}
			if a.Leases == nil {
				return out, nil
			}
			for _, id := range ids {
				// One that is not there any more has no name, and costs all the same.
				if l, err := a.Leases.Get(ctx, p, id); err == nil {
					out[id] = billing.FocusResource{Name: l.Name, Region: l.Bundle.Region, Zone: l.Bundle.Zone, Model: l.GPUModel, Labels: l.Labels}
				} else if a.Volumes != nil {
					if v, err := a.Volumes.Get(ctx, p, id); err == nil {
						out[id] = billing.FocusResource{Name: v.Name, Region: v.Region, Zone: v.Zone}
					} else if x, err := a.Volumes.Snapshot(ctx, p, id); err == nil {
						out[id] = billing.FocusResource{Name: x.Name, Region: x.Region, Zone: x.Zone}
					}
				}
			}
			return out, nil
		}
		table, lines := csv.NewWriter(w), json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		begun := false
		begin := func() error {
			if begun {
				return nil
			}
			begun = true
			w.Header().Set("Content-Type", "text/csv; charset=utf-8")
			if in.Format == "jsonl" {
				w.Header().Set("Content-Type", "application/jsonl")
			}
			w.Header().Set("Content-Disposition", `attachment; filename="focus-`+in.Period+`.`+in.Format+`"`)
			if in.Format == "jsonl" {
				return nil
			}
			return table.Write(billing.FocusColumns)
		}
		err := a.Billing.Focus(r.Context(), p.AccountID, in.Period, about, func(row billing.FocusRow) error {
			if err := begin(); err != nil {
				return err
			}
			if in.Format == "jsonl" {
				return lines.Encode(row)
			}
			return table.Write(row.Values())
		})
		if err == nil {
			err = begin() // also if there is nothing to say
		}
		table.Flush()
		if err == nil {
			err = table.Error()
		}
		return err
	})
}
