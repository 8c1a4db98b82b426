package server

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/sla"
)

func (a *API) registerExplanations() {
	register(a, operation{
		ID: "explainCharge", Method: http.MethodGet, Path: "/v1/charges/{charge_id}/explanation", Summary: "Say how a charge came about, in words", Tag: tagBilling, Action: account.ReadBilling,
		Description: "The derivation from what is stored alone: the quote, the use and who reported it, exact fractions, rounding, what paid, taxes, and what corrects it. It ends with whether computing it again gives exactly what was posted. Transfers, such as refunds and credits for missed availability, and credit notes are explained too.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		ChargeID string `path:"charge_id" maxLength:"64" doc:"Identifier of a charge or a transfer, or a credit note's number"`
	}) (*body[api.Explanation], error) {
		owner := p.AccountID
		if p.Operator {
			owner = "" // anybody's
		}
		e, err := a.Billing.Explain(ctx, owner, in.ChargeID)
		if err != nil {
			return nil, err
		}
		if e.Code == sla.CodeCredit && a.Levels != nil {
			if err := a.explainSLA(ctx, p, &e); err != nil {
				return nil, err
			}
		}
		return &body[api.Explanation]{explanationJSON(e)}, nil
	})
}

// explainSLA adds the evidence of a credit for missed availability.
func (a *API) explainSLA(ctx context.Context, p account.Principal, e *billing.Explanation) error {
	// Its key is for the month's end in the lease's zone: a moment before that is
	// within the month by every zone's calendar.
	month := e.KeyedAt.Add(-13 * time.Hour).Format("2006-01")
	r, err := a.Levels.Report(ctx, p, e.LeaseID, month)
	if err != nil {
		return err
	}
	v := r.Availability
	e.Say("sla_promise", "month", r.Month, "availability", fmt.Sprintf("%d.%04d", v.PPM/10_000, v.PPM%10_000), "counted", strconv.FormatInt(v.PromisedSeconds, 10),
		"down", strconv.FormatInt(v.DownSeconds, 10), "share", fmt.Sprintf("%d.%02d", v.BasisPoints/100, v.BasisPoints%100), "charge", r.Charge.String(), "credit", r.Credit.String())
	if e.Before != 0 {
		e.Say("sla_posted", "before", e.Before.String())
	}
	e.Recomputed = e.Amount + r.Credit - e.All
	e.Conclude()
	return nil
}

func explanationJSON(e billing.Explanation) api.Explanation {
	out := api.Explanation{
		Subject: e.Subject, Kind: string(e.Kind), LeaseID: e.LeaseID, Meter: string(e.Meter), Code: e.Code, Currency: string(e.Currency), Simulated: e.Simulated,
		Amount: e.Amount, Recomputed: e.Recomputed, OK: e.OK(), PostedAt: e.At, Steps: []api.ExplanationStep{},
	}
	for _, s := range e.Steps {
		out.Steps = append(out.Steps, api.ExplanationStep{Code: s.Code, Values: s.Values, Words: s.Words(false), WordsZH: s.Words(true)})
	}
	return out
}
