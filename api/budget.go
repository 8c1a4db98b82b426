package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Budget is what may be spent in a period, and how it stands.
type Budget struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Label      string            `json:"label,omitempty" doc:"Only leases with it count; key=value" example:"team=vision"`
	UserID     string            `json:"user_id,omitempty" doc:"Only leases that this user made count"`
	Currency   string            `json:"currency"`
	Amount     Amount            `json:"amount" doc:"For each period"`
	Fixed      bool              `json:"fixed" doc:"The period has fixed ends; else it is each calendar month of the account's time zone"`
	From       time.Time         `json:"from" doc:"The beginning of the period that this is about"`
	To         time.Time         `json:"to" doc:"Its end"`
	Thresholds []BudgetThreshold `json:"thresholds"`
	Action     string            `json:"action" enum:"tell,refuse,stop" doc:"What happens once all of it is spent: nothing but a notification; leases in scope are neither made nor started; those that run are stopped, too"`

	Spent       Amount `json:"spent" doc:"Charges of the period, and what is used and not posted"`
	Unposted    Amount `json:"unposted" doc:"Of it, not posted yet"`
	Simulated   Amount `json:"simulated" doc:"Of it, for simulated GPUs"`
	BurnPerHour Amount `json:"burn_per_hour" doc:"What an hour costs in scope as it is"`
	Forecast    Amount `json:"forecast" doc:"What the period comes to if that goes on"`
	Blocks      bool   `json:"blocks" doc:"Leases in scope are refused or stopped now"`

	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"`
}

// BudgetThreshold is a share of a budget at which the account is told, once for each
// period.
type BudgetThreshold struct {
	ShareBasisPoints int64      `json:"share_basis_points" minimum:"1" maximum:"100000" doc:"Of the amount: 5000 is half of it" example:"8000"`
	Forecast         bool       `json:"forecast,omitempty" doc:"By what the period is expected to come to, not by what is spent"`
	ToldAt           *time.Time `json:"told_at,omitempty" readOnly:"true" doc:"When it was told in this period; absent: it was not"`
}

// BudgetCreate is what a budget is made of.
type BudgetCreate struct {
	Name       string            `json:"name" maxLength:"252" doc:"Of at most 63 characters, unique in the account"`
	Amount     Amount            `json:"amount" doc:"For each period"`
	Label      string            `json:"label,omitempty" maxLength:"200" doc:"Only leases with it count: key=value"`
	UserID     string            `json:"user_id,omitempty" maxLength:"64" doc:"Only leases that this user made count"`
	From       *time.Time        `json:"from,omitempty" doc:"Of a fixed period; absent: each calendar month"`
	To         *time.Time        `json:"to,omitempty"`
	Thresholds []BudgetThreshold `json:"thresholds,omitempty" maxItems:"10" doc:"Absent: 50 %, 80 % and all of it spent, and all of it expected"`
	Action     string            `json:"action,omitempty" enum:"tell,refuse,stop" doc:"Absent: tell"`
}

// BudgetChange changes a budget; what is absent stays.
type BudgetChange struct {
	Name       *string           `json:"name,omitempty" maxLength:"252"`
	Amount     *Amount           `json:"amount,omitempty" doc:"Thresholds that a raise puts out of reach are told again once they are reached"`
	Thresholds []BudgetThreshold `json:"thresholds,omitempty" maxItems:"10"`
	Action     *string           `json:"action,omitempty" enum:"tell,refuse,stop"`
}

// CreateBudget makes a budget of the caller's account.
func (c *Client) CreateBudget(ctx context.Context, in BudgetCreate) (*Budget, error) {
	return do[Budget](ctx, c, http.MethodPost, "/v1/budgets", in)
}

// Budgets returns the account's budgets with how they stand, in the order in which
// they were made.
func (c *Client) Budgets(ctx context.Context) ([]Budget, error) {
	return collect(all[Budget](ctx, c, "/v1/budgets", nil))
}

// Budget returns a budget, by its identifier or name.
func (c *Client) Budget(ctx context.Context, nameOrID string) (*Budget, error) {
	return do[Budget](ctx, c, http.MethodGet, "/v1/budgets/"+url.PathEscape(nameOrID), nil)
}

// ChangeBudget changes a budget, by its identifier or name.
func (c *Client) ChangeBudget(ctx context.Context, nameOrID string, in BudgetChange) (*Budget, error) {
	return do[Budget](ctx, c, http.MethodPatch, "/v1/budgets/"+url.PathEscape(nameOrID), in)
}

// DeleteBudget removes a budget, by its identifier or name.
func (c *Client) DeleteBudget(ctx context.Context, nameOrID string) error {
	return c.Do(ctx, http.MethodDelete, "/v1/budgets/"+url.PathEscape(nameOrID), nil, nil, nil)
}
