package server

import (
	"context"
	"net/http"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/budget"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

const tagBudgets = "Budgets"

// BudgetPath is embedded in the input of operations on one budget.
type BudgetPath struct {
	BudgetID string `path:"budget_id" maxLength:"252" doc:"Identifier or name"`
}

func (a *API) registerBudgets() {
	if a.Budgets == nil {
		return
	}
	register(a, operation{
		ID: "createBudget", Method: http.MethodPost, Path: "/v1/budgets", Summary: "Set a budget for the account, a label or a user", Tag: tagBudgets, Action: account.WriteBilling, Status: http.StatusCreated, Idempotent: true,
		Description: "Thresholds that are reached already are told at once, and its action holds from then on.",
	}, func(ctx context.Context, p account.Principal, in *body[api.BudgetCreate]) (*body[api.Budget], error) {
		b := budget.Budget{
			Name: in.Body.Name, Amount: in.Body.Amount, Label: in.Body.Label, UserID: in.Body.UserID,
			Thresholds: alerts(in.Body.Thresholds), Action: budget.Action(in.Body.Action),
		}
		if in.Body.From != nil {
			b.From = *in.Body.From
		}
		if in.Body.To != nil {
			b.Until = *in.Body.To
		}
		return budgetBody(a.Budgets.Create(ctx, p, b))
	})
	register(a, operation{
		ID: "listBudgets", Method: http.MethodGet, Path: "/v1/budgets", Summary: "List budgets with how they stand, oldest first", Tag: tagBudgets, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *Paging) (*body[page[api.Budget]], error) {
		list, err := a.Budgets.List(ctx, p, in.Cursor, in.Limit+1)
		if err != nil {
			return nil, err
		}
		return paged(list, in.Limit, func(v budget.Status) string { return v.ID }, budgetJSON), nil
	})
	register(a, operation{
		ID: "getBudget", Method: http.MethodGet, Path: "/v1/budgets/{budget_id}", Summary: "Show a budget with how it stands", Tag: tagBudgets, Action: account.ReadBilling,
	}, func(ctx context.Context, p account.Principal, in *BudgetPath) (*body[api.Budget], error) {
		return budgetBody(a.Budgets.Show(ctx, p, in.BudgetID))
	})
	register(a, operation{
		ID: "updateBudget", Method: http.MethodPatch, Path: "/v1/budgets/{budget_id}", Summary: "Change a budget's name, amount, thresholds or action", Tag: tagBudgets, Action: account.WriteBilling,
		Description: "Raised beyond what is spent, it refuses and stops nothing any more, and thresholds that it is now below are told again once they are reached.",
	}, func(ctx context.Context, p account.Principal, in *struct {
		BudgetPath
		Body api.BudgetChange
	}) (*body[api.Budget], error) {
		c := budget.Change{Name: in.Body.Name, Amount: in.Body.Amount, Thresholds: alerts(in.Body.Thresholds)}
		if in.Body.Action != nil {
			action := budget.Action(*in.Body.Action)
			c.Action = &action
		}
		return budgetBody(a.Budgets.Set(ctx, p, in.BudgetID, c))
	})
	register(a, operation{
		ID: "deleteBudget", Method: http.MethodDelete, Path: "/v1/budgets/{budget_id}", Summary: "Remove a budget", Tag: tagBudgets, Action: account.WriteBilling,
	}, func(ctx context.Context, p account.Principal, in *BudgetPath) (*none, error) {
		return nil, a.Budgets.Delete(ctx, p, in.BudgetID)
	})
}

func alerts(list []api.BudgetThreshold) []pricing.Alert {
	var out []pricing.Alert
	for _, t := range list {
		out = append(out, pricing.Alert{BasisPoints: t.ShareBasisPoints, Forecast: t.Forecast})
	}
	return out
}

func budgetBody(v budget.Status, err error) (*body[api.Budget], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Budget]{budgetJSON(v)}, nil
}

func budgetJSON(v budget.Status) api.Budget {
	out := api.Budget{
		ID: v.ID, Name: v.Name, Label: v.Label, UserID: v.UserID, Currency: string(v.Currency), Amount: v.Amount, Fixed: !v.From.IsZero(),
		From: v.Period.Start, To: v.Period.End, Thresholds: []api.BudgetThreshold{}, Action: string(v.Action),
		Spent: v.Spent, Unposted: v.Unposted, Simulated: v.Simulated, BurnPerHour: v.BurnPerHour, Forecast: v.Forecast, Blocks: v.Blocks,
		CreatedAt: v.CreatedAt, ChangedAt: v.ChangedAt,
	}
	for _, t := range v.Thresholds {
		shown := api.BudgetThreshold{ShareBasisPoints: t.BasisPoints, Forecast: t.Forecast}
		for _, told := range v.Told {
			if told.Alert == t {
				shown.ToldAt = optional(told.At)
			}
		}
		out.Thresholds = append(out.Thresholds, shown)
	}
	return out
}

// budgetTags are leases' tags in the terms of budgets.
func budgetTags(tags func(ctx context.Context, accountID string, ids []string) (map[string]lease.Tags, error)) func(context.Context, string, []string) (map[string]budget.Tag, error) {
	return func(ctx context.Context, accountID string, ids []string) (map[string]budget.Tag, error) {
		list, err := tags(ctx, accountID, ids)
		out := make(map[string]budget.Tag, len(list))
		for id, t := range list {
			out[id] = budget.Tag(t)
		}
		return out, err
	}
}

// stopForBudget stops a lease as a budget is used up.
func stopForBudget(ctx context.Context, leases *lease.Service, id string) error {
	return leases.Exhaust(ctx, id, lease.CodeBudget, false)
}

// currencyOf and zoneOf look up what budgets need of an account.
func currencyOf(accounts *account.Service) func(context.Context, string) (money.Currency, error) {
	return func(ctx context.Context, accountID string) (money.Currency, error) {
		a, err := accounts.Account(ctx, accountID)
		return a.Currency, err
	}
}

func zoneOf(accounts *account.Service) func(context.Context, string) (string, error) {
	return func(ctx context.Context, accountID string) (string, error) {
		a, err := accounts.Account(ctx, accountID)
		return a.TimeZone, err
	}
}

// openBudgets opens the budgets of a cloud whose other services are there.
func (c *Cloud) openBudgets() (*budget.Service, error) {
	return budget.New(budget.Config{
		DB: c.DB, Clock: c.clock, Money: c.Billing, News: c.News, Tags: budgetTags(c.Leases.Tags), Audit: c.Accounts.Audit, Log: c.log,
		StopLease: func(ctx context.Context, id string) error { return stopForBudget(ctx, c.Leases, id) },
		HasUser: func(ctx context.Context, accountID, id string) error {
			_, err := c.Accounts.User(ctx, accountID, id)
			return err
		},
		CurrencyOf: currencyOf(c.Accounts), ZoneOf: zoneOf(c.Accounts),
	})
}

// laterBudgets is budgets for leases, which are opened before them.
type laterBudgets struct{ of func() *budget.Service }

func (l laterBudgets) Allow(ctx context.Context, tx *store.Tx, accountID, userID string, labels map[string]string) error {
	if b := l.of(); b != nil {
		return b.Allow(ctx, tx, accountID, userID, labels)
	}
	return nil
}
