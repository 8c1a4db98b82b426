package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func payoutCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "payout", Short: tr("What you are paid as a provider")}
	balance := listing("balance", tr("Show what is held and what can be paid out"),
		func(ctx context.Context, c *api.Client) ([]api.Payable, error) { return c.Payables(ctx) },
		[]string{tr("CURRENCY"), tr("EARNED"), tr("HELD"), tr("AVAILABLE"), tr("RESERVED"), tr("OWED"), tr("PAID OUT"), tr("NEXT")},
		func(p api.Payable) []any {
			next := "-"
			if p.NextAt != nil {
				next = p.NextAt.Local().Format(time.DateTime)
			}
			return []any{p.Currency, p.Earned.Display(), p.Held.Display(), p.Available.Display(), p.Reserved.Display(), p.Owed.Display(), p.Paid.Display(), next}
		})
	var every bool
	var state string
	list := listing("list", tr("List payouts, newest first"),
		func(ctx context.Context, c *api.Client) ([]api.Payout, error) {
			if every {
				return c.AllPayouts(ctx, state)
			}
			return c.Payouts(ctx, state)
		}, payoutHeader(), payoutRow)
	list.Aliases = []string{"ls"}
	list.Flags().BoolVar(&every, "all", false, tr("to all providers (operator)"))
	list.Flags().StringVar(&state, "in-state", "", tr("requested, approved, paid, failed, declined or returned"))
	cmd.AddCommand(balance, list, payoutCreateCommand(), payoutMarkCommand())
	return cmd
}

func payoutHeader() []string {
	return []string{"ID", tr("PROVIDER"), tr("BATCH"), tr("STATE"), tr("AMOUNT"), tr("REFERENCE")}
}

func payoutRow(p api.Payout) []any {
	reference := p.Reference
	if p.Reason != "" {
		reference += " (" + p.Reason + ")"
	}
	return []any{p.ID, p.AccountID, p.Batch, word(p.State), p.Amount.Display() + " " + p.Currency, reference}
}

func payoutCreateCommand() *cobra.Command {
	var in api.CreatePayouts
	var minimum string
	cmd := showing("create BATCH", tr("Request a payout of all that is available to each provider (operator)"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) ([]api.Payout, error) {
			in.Batch = args[0]
			if minimum != "" {
				var err error
				if in.Minimum, err = api.ParseAmount(minimum); err != nil {
					return nil, usageError{err}
				}
			}
			return c.CreatePayouts(cmd.Context(), in)
		},
		func(cmd *cobra.Command, list []api.Payout) {
			t := newTable(payoutHeader()...)
			for _, p := range list {
				t.add(payoutRow(p)...)
			}
			t.print(cmd.OutOrStdout())
		})
	cmd.Long = tr("A provider is in a batch once: the same batch can be made again and pays nothing twice.")
	cmd.Flags().StringVar(&in.Currency, "currency", "", tr("only in this currency"))
	cmd.Flags().StringArrayVar(&in.AccountIDs, "account", nil, tr("only to this provider; may be repeated"))
	cmd.Flags().StringVar(&minimum, "minimum", "", tr("leave less for another batch"))
	return cmd
}

func payoutMarkCommand() *cobra.Command {
	var in api.MarkPayout
	cmd := showing("mark PAYOUT EVENT", tr("Say what happened to a payout: approve, pay, fail, decline or return (operator)"), cobra.ExactArgs(2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Payout, error) {
			in.Event = args[1]
			return c.MarkPayout(cmd.Context(), args[0], in)
		},
		func(cmd *cobra.Command, p *api.Payout) {
			say(cmd, "Payout %s of %s %s is %s", p.ID, p.Amount.Display(), p.Currency, word(p.State))
		})
	cmd.Flags().StringVar(&in.Reference, "reference", "", tr("the bank's number of the payment"))
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	return cmd
}
