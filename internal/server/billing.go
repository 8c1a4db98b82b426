package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ledger"
)

const tagBilling = "Billing"

type chargeList struct {
	Paging
	LeaseID string `query:"lease_id" maxLength:"64" doc:"Only charges of this lease"`
}

func (a *API) registerBilling() {
	if a.Billing == nil {
		return
	}
	register(a, operation{
		ID: "getBalance", Method: http.MethodGet, Path: "/v1/balance", Summary: "Show the balance and how long it lasts", Tag: tagBilling, Action: account.ReadBilling,
	}, a.getBalance)
	register(a, operation{
		ID: "getBill", Method: http.MethodGet, Path: "/v1/bills/{lease_id}", Summary: "Show what a lease or a volume has cost, and why", Tag: tagBilling, Action: account.ReadBilling,
		Description: "Compute counts from the moment the instance was confirmed running to the moment it was confirmed stopped or was last seen alive. " +
			"Storage counts from the first run until the disk is gone, also while stopped. Egress counts by the byte.",
	}, a.getBill)
	register(a, operation{
		ID: "listCharges", Method: http.MethodGet, Path: "/v1/charges", Summary: "List charges, newest first", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *chargeList) (*body[page[api.Charge]], error) {
		list, err := a.Billing.Charges(ctx, p.AccountID, in.LeaseID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(c billing.Charge) string { return c.ID }, chargeJSON), nil
	})
	register(a, operation{
		ID: "listTransfers", Method: http.MethodGet, Path: "/v1/transfers", Summary: "List the account's ledger transfers, newest first", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.Transfer]], error) {
		list, err := a.Billing.Transfers(ctx, p.AccountID, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(t ledger.Transfer) string { return t.ID }, transferJSON), nil
	})
	register(a, operation{
		ID: "listEarnings", Method: http.MethodGet, Path: "/v1/earnings", Summary: "Show what the account has earned as a provider", Tag: tagBilling, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, _ *none) (*body[page[api.Earning]], error) {
		list, err := a.Billing.Earnings(ctx, p.AccountID)
		if err != nil {
			return nil, err
		}
		return paged(list, len(list), func(e billing.Earning) string { return string(e.Currency) }, earningJSON), nil
	})
	a.registerGrants()
	register(a, operation{
		ID: "verifyLedger", Method: http.MethodGet, Path: "/v1/operator/ledger/verify", Summary: "Prove every balance, charge and invoice from use, quotes and postings", Tag: tagBilling, Action: account.Operate,
	}, a.verifyLedger)
	a.registerInvoices()
	a.registerCreditLimits()
	a.registerExplanations()
	a.registerFocus()
	a.registerUsage()
	a.registerExchange()
	a.registerPriceLists()
	a.registerVolume()
}

func (a *API) getBalance(ctx context.Context, p account.Principal, _ *none) (*body[api.Balance], error) {
	b, err := a.Billing.Balance(ctx, p.AccountID)
	if err != nil {
		return nil, err
	}
	r, err := a.Billing.Runway(ctx, p.AccountID, a.clock())
	if err != nil {
		return nil, err
	}
	return &body[api.Balance]{api.Balance{
		Currency: string(b.Currency), Settled: b.Settled, Held: b.Held, CreditLimit: b.Credit, UnbilledDue: b.UnbilledDue, Available: b.Available, Granted: b.Granted,
		BurnPerHour: r.BurnPerHour, RunsOutAt: optional(r.Until),
	}}, nil
}

func (a *API) getBill(ctx context.Context, p account.Principal, in *LeasePath) (*body[api.Bill], error) {
	id := in.LeaseID
	if a.Leases != nil {
		// By name too; the bill is there before and after the lease.
		if l, err := a.Leases.Resolve(ctx, p, id); err == nil {
			id = l.ID
		} else if a.Volumes != nil {
			if v, err := a.Volumes.Get(ctx, p, id); err == nil {
				id = v.ID
			} else if x, err := a.Volumes.Snapshot(ctx, p, id); err == nil {
				id = x.ID
			}
		}
	}
	b, err := a.Billing.Due(ctx, id, a.clock())
	if err == nil && b.AccountID != p.AccountID && !p.Operator {
		// Another's bill looks like none.
		err = fault.New(fault.NotFound, "lease_not_found", "there is no bill for lease %q", id)
	}
	if err != nil {
		return nil, err
	}
	return &body[api.Bill]{billJSON(b)}, nil
}

func (a *API) verifyLedger(ctx context.Context, _ account.Principal, _ *none) (*body[api.LedgerReport], error) {
	r, err := a.Billing.VerifyLedger(ctx)
	if err != nil {
		return nil, err
	}
	out := api.LedgerReport{OK: r.OK(), Accounts: r.Accounts, Transfers: r.Transfers, Leases: r.Leases, Charges: r.Charges, Invoices: r.Invoices,
		Sums: []api.LedgerSum{}, Mismatches: []api.LedgerMismatch{}, Wrong: []api.LedgerWrong{}}
	for _, s := range r.Sums {
		out.Sums = append(out.Sums, api.LedgerSum{Currency: string(s.Currency), Debits: s.Debits, Credits: s.Credits})
	}
	for _, m := range r.Faults {
		out.Mismatches = append(out.Mismatches, api.LedgerMismatch{Path: m.Path, Currency: string(m.Currency), What: m.What})
	}
	for _, x := range r.Wrong {
		out.Wrong = append(out.Wrong, api.LedgerWrong{Subject: x.Subject, What: x.What})
	}
	return &body[api.LedgerReport]{out}, nil
}

func billJSON(b billing.Bill) api.Bill {
	out := api.Bill{
		LeaseID: b.LeaseID, Currency: string(b.Currency), Simulated: b.Simulated, Plan: b.Quote.Plan, At: b.At, BegunAt: b.Begun, EndedAt: optional(b.Ended),
		Lines: []api.BillLine{}, Total: b.Total, Posted: b.Posted, Unbilled: b.Unbilled, ProviderShare: b.ProviderShare, Commission: b.Commission,
		PricePerHourByState: map[string]api.Amount{},
	}
	for _, l := range b.Lines {
		out.Lines = append(out.Lines, api.BillLine{
			Kind: string(l.Kind), Meter: string(l.Meter), Start: optional(l.Start), End: optional(l.End), Open: l.Open, Used: l.Used, Charged: l.Charged, Unit: l.Unit,
			Rate: l.Rate, RateUnit: l.RateUnit, Amount: l.Amount, Words: l.Words,
		})
	}
	for _, s := range b.Quote.States {
		out.PricePerHourByState[s.State] = s.PerHour
	}
	return out
}

func chargeJSON(c billing.Charge) api.Charge {
	return api.Charge{
		ID: c.ID, LeaseID: c.LeaseID, Meter: string(c.Meter), Currency: string(c.Currency), Amount: c.Amount, Simulated: c.Simulated,
		From: c.From, To: c.To, PostedAt: c.PostedAt,
	}
}

func transferJSON(t ledger.Transfer) api.Transfer {
	return api.Transfer{
		ID: t.ID, Debit: t.Debit, Credit: t.Credit, Amount: t.Amount, Currency: string(t.Currency), Code: t.Code, Reference: t.Reference,
		EffectiveAt: t.EffectiveAt, PostedAt: t.PostedAt,
	}
}

func earningJSON(e billing.Earning) api.Earning {
	return api.Earning{
		Currency: string(e.Currency), Charged: e.Charged, Commission: e.Commission, Earned: e.Earned, EarnedSimulated: e.Simulated, Payable: e.Payable,
	}
}
