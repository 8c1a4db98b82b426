package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func budgetCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "budget", Short: tr("Budgets: be told, refuse or stop when so much is spent in a month")}
	cmd.AddCommand(
		createBudgetCommand(),
		listing("ls", tr("List budgets with how they stand"),
			func(ctx context.Context, c *api.Client) ([]api.Budget, error) { return c.Budgets(ctx) },
			[]string{tr("NAME"), tr("SCOPE"), tr("AMOUNT"), tr("SPENT"), tr("FORECAST"), tr("UNTIL"), tr("ACTION")},
			func(b api.Budget) []any {
				return []any{b.Name, budgetScope(b), b.Amount.Display() + " " + b.Currency, b.Spent.Display(), b.Forecast.Display(), clockTime(b.To), budgetAction(b)}
			}),
		showing("show BUDGET", tr("Show how a budget stands, and what was told"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.Budget, error) {
				return c.Budget(cmd.Context(), args[0])
			}, printBudget),
		setBudgetCommand(),
		deleteBudgetCommand(),
	)
	return cmd
}

func budgetScope(b api.Budget) string {
	var parts []string
	if b.Label != "" {
		parts = append(parts, b.Label)
	}
	if b.UserID != "" {
		parts = append(parts, b.UserID)
	}
	if len(parts) == 0 {
		return tr("the account")
	}
	return strings.Join(parts, " ")
}

func budgetAction(b api.Budget) string {
	action := word("budget_" + b.Action)
	if b.Blocks {
		action += " " + tr("(now)")
	}
	return action
}

func printBudget(cmd *cobra.Command, b *api.Budget) {
	t := newTable(tr("BUDGET"), b.Name)
	t.add("ID", b.ID)
	t.add(tr("SCOPE"), budgetScope(*b))
	t.add(tr("PERIOD"), clockTime(b.From)+" – "+clockTime(b.To))
	t.add(tr("AMOUNT"), b.Amount.Display()+" "+b.Currency)
	t.add(tr("SPENT"), tr("%s, of which %s are not posted yet", b.Spent.Display(), b.Unposted.Display()))
	if b.Simulated != 0 {
		t.add(tr("SIMULATED"), b.Simulated.Display())
	}
	t.add(tr("FORECAST"), tr("%s at %s an hour", b.Forecast.Display(), b.BurnPerHour.Display()))
	t.add(tr("ACTION"), budgetAction(*b))
	t.print(cmd.OutOrStdout())
	told := newTable(tr("THRESHOLD"), tr("TOLD"))
	for _, th := range b.Thresholds {
		name, when := share(th.ShareBasisPoints), "-"
		if th.Forecast {
			name += " " + tr("of the forecast")
		}
		if th.ToldAt != nil {
			when = clockTime(*th.ToldAt)
		}
		told.add(name, when)
	}
	told.print(cmd.OutOrStdout())
}

// budgetThresholds reads thresholds such as "80%" and "forecast:100%".
func budgetThresholds(texts []string) ([]api.BudgetThreshold, error) {
	var out []api.BudgetThreshold
	for _, text := range texts {
		rest, forecast := strings.CutPrefix(text, "forecast:")
		n, ok := basisPoints(rest)
		if !ok {
			return nil, usageError{errors.New(tr("threshold %q: want a share such as 80%%, or forecast:100%%", text))}
		}
		out = append(out, api.BudgetThreshold{ShareBasisPoints: int64(n), Forecast: forecast})
	}
	return out, nil
}

func createBudgetCommand() *cobra.Command {
	var in api.BudgetCreate
	var thresholds []string
	var user, from, to string
	cmd := &cobra.Command{
		Use: "create NAME AMOUNT", Short: tr("Set a budget for the account, a label or a user"), Args: cobra.ExactArgs(2),
		Example: `  suanli budget create all 1000
  suanli budget create vision 200 --label team=vision --at 50% --at 90% --at forecast:100% --action refuse
  suanli budget create ada 50 --user ada@example.com --action stop`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in.Name = args[0]
			if in.Amount, err = api.ParseAmount(args[1]); err != nil {
				return usageError{err}
			}
			if in.Thresholds, err = budgetThresholds(thresholds); err != nil {
				return err
			}
			for _, end := range []struct {
				text string
				into **time.Time
			}{{from, &in.From}, {to, &in.To}} {
				if end.text == "" {
					continue
				}
				at, err := time.Parse(time.RFC3339, end.text)
				if err != nil {
					return usageError{err}
				}
				*end.into = &at
			}
			if in.UserID, err = userNamed(cmd.Context(), c, user); err != nil {
				return err
			}
			b, err := c.CreateBudget(cmd.Context(), in)
			if err != nil {
				return err
			}
			return showBudget(cmd, b)
		},
	}
	f := cmd.Flags()
	f.StringVar(&in.Label, "label", "", tr("only leases with this label count, key=value"))
	f.StringVar(&user, "user", "", tr("only leases that this user made count: identifier or e-mail address"))
	f.StringVar(&from, "from", "", tr("beginning of a fixed period, such as 2026-03-01T00:00:00Z (default: each calendar month)"))
	f.StringVar(&to, "to", "", tr("end of a fixed period"))
	f.StringArrayVar(&thresholds, "at", nil, tr("share in per cent at which you are told, such as 80, or forecast:100 for what the period is expected to come to; may be repeated"))
	f.StringVar(&in.Action, "action", "", tr("once all of it is spent: tell, refuse new leases, or stop those in its scope (default: tell)"))
	return cmd
}

// userNamed returns the identifier of a user that a person named.
func userNamed(ctx context.Context, c *api.Client, name string) (string, error) {
	if !strings.Contains(name, "@") {
		return name, nil
	}
	users, err := c.Users(ctx)
	if err != nil {
		return "", err
	}
	for _, u := range users {
		if strings.EqualFold(u.Email, name) {
			return u.ID, nil
		}
	}
	return "", usageError{errors.New(tr("nobody in this account has the address %s", name))}
}

func showBudget(cmd *cobra.Command, b *api.Budget) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, b)
	}
	printBudget(cmd, b)
	return nil
}

func setBudgetCommand() *cobra.Command {
	var thresholds []string
	var name, amount, action string
	cmd := &cobra.Command{
		Use: "set BUDGET", Short: tr("Change a budget's name, amount, thresholds or action"), Args: cobra.ExactArgs(1),
		Example: "  suanli budget set vision --amount 400",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			var in api.BudgetChange
			if in.Thresholds, err = budgetThresholds(thresholds); err != nil {
				return err
			}
			if name != "" {
				in.Name = &name
			}
			if action != "" {
				in.Action = &action
			}
			if amount != "" {
				a, err := api.ParseAmount(amount)
				if err != nil {
					return usageError{err}
				}
				in.Amount = &a
			}
			b, err := c.ChangeBudget(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return showBudget(cmd, b)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", tr("another name"))
	f.StringVar(&amount, "amount", "", tr("for each period"))
	f.StringArrayVar(&thresholds, "at", nil, tr("share in per cent at which you are told, such as 80, or forecast:100 for what the period is expected to come to; may be repeated"))
	f.StringVar(&action, "action", "", tr("once all of it is spent: tell, refuse new leases, or stop those in its scope (default: tell)"))
	return cmd
}

func deleteBudgetCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete BUDGET", Short: tr("Remove a budget; what it refused is allowed again"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if err := c.DeleteBudget(cmd.Context(), args[0]); err != nil {
				return err
			}
			return done(cmd, map[string]string{"deleted": args[0]}, "Budget %s is removed", args[0])
		},
	}
}
