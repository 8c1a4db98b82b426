package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func creditLimitCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "credit", Short: tr("Credit limits: what may be used before it is paid")}
	cmd.AddCommand(
		showing("show [ACCOUNT]", tr("Show a credit limit, and how much of it is used"), cobra.MaximumNArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.CreditLimit, error) {
				if len(args) == 1 {
					return c.CreditLimitOf(cmd.Context(), args[0])
				}
				return c.CreditLimit(cmd.Context())
			},
			func(cmd *cobra.Command, l *api.CreditLimit) {
				t := newTable(tr("ACCOUNT"), l.AccountID)
				t.add(tr("CREDIT LIMIT"), l.CreditLimit.Display()+" "+l.Currency)
				t.add(tr("USED"), l.Used.Display()+" "+l.Currency)
				t.add(tr("DAYS TO PAY"), strconv.Itoa(l.NetDays))
				t.print(cmd.OutOrStdout())
			}),
		setCreditLimitCommand(), revokeCreditCommand(),
	)
	return cmd
}

func setCreditLimitCommand() *cobra.Command {
	var in api.SetCreditLimit
	var days int
	cmd := &cobra.Command{
		Use: "set ACCOUNT LIMIT", Short: tr("Let an account use so much before it pays (operator)"), Args: cobra.ExactArgs(2),
		Long:    tr("What is used up to now is charged under the old limit. If debt is beyond the new one, what runs stops as it does with an empty balance."),
		Example: "suanli account credit set ac-… 500 --net-days 30 --reason \"contract 17\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if in.CreditLimit, err = api.ParseAmount(args[1]); err != nil {
				return usageError{err}
			}
			if cmd.Flags().Changed("net-days") {
				in.NetDays = &days
			}
			l, err := c.SetCreditLimit(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, l, "%s may use %s %s before it pays, and has %d days to pay an invoice", l.AccountID, l.CreditLimit.Display(), l.Currency, l.NetDays)
		},
	}
	cmd.Flags().IntVar(&days, "net-days", 0, tr("days to pay an invoice (default: the cloud's setting)"))
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	return cmd
}

func revokeCreditCommand() *cobra.Command {
	var in api.SetCreditLimit
	cmd := &cobra.Command{
		Use: "revoke ACCOUNT", Short: tr("Take an account's credit back: it is prepaid from then on (operator)"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			l, err := c.SetCreditLimit(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, l, "%s has no credit any more", l.AccountID)
		},
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	return cmd
}

func duesCommand() *cobra.Command {
	var of string
	cmd := listing("dues", tr("List what is owed of invoices, and by when"), func(ctx context.Context, c *api.Client) ([]api.Due, error) {
		if of != "" {
			return c.DuesOf(ctx, of)
		}
		return c.Dues(ctx)
	}, []string{tr("NUMBER"), tr("STATE"), tr("TOTAL"), tr("OWED"), tr("CURRENCY"), tr("DUE"), tr("COMPUTE STOPS")},
		func(d api.Due) []any {
			stops := ""
			if d.StopsAt != nil {
				stops = d.StopsAt.Local().Format(time.DateTime)
			}
			return []any{d.Number, word(d.State), d.Total.Display(), d.Owed.Display(), d.Currency, d.DueAt.Local().Format(time.DateTime), stops}
		})
	cmd.Flags().StringVar(&of, "account", "", tr("of this account (operator)"))
	return cmd
}

func writeOffCommand() *cobra.Command {
	var in api.WriteOff
	cmd := &cobra.Command{
		Use: "write-off NUMBER", Short: tr("Give up what is owed of an overdue invoice (operator)"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			d, err := c.WriteOffInvoice(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, d, "%s %s of %s is written off", d.WrittenOff.Display(), d.Currency, d.Number)
		},
	}
	cmd.Flags().StringVar(&in.Reason, "reason", "", tr("why"))
	return cmd
}
