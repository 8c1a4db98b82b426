package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func chargesCommand() *cobra.Command {
	return showing("charges", tr("List charges, newest first"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) ([]api.Charge, error) {
			return c.Charges(cmd.Context(), "")
		},
		func(cmd *cobra.Command, list []api.Charge) {
			t := newTable(tr("CHARGE"), tr("LEASE"), tr("METER"), tr("TO"), tr("AMOUNT"), tr("CURRENCY"))
			for _, c := range list {
				t.add(c.ID, c.LeaseID+mark(c.Simulated), word(c.Meter), c.To.Local().Format(time.DateTime), c.Amount.Display(), c.Currency)
			}
			t.print(cmd.OutOrStdout())
		})
}

func explainCommand() *cobra.Command {
	cmd := showing("explain CHARGE", tr("Say how a charge came about, from the quote and the use alone"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Explanation, error) {
			return c.Explain(cmd.Context(), args[0])
		},
		func(cmd *cobra.Command, e *api.Explanation) {
			for _, s := range e.Steps {
				text := s.Words
				if chinese {
					text = s.WordsZH
				}
				fmt.Fprintln(cmd.OutOrStdout(), text)
			}
		})
	cmd.Long = tr("Say how a charge came about, from the quote and the use alone.\n\nCHARGE is the identifier of a charge (suanli bill charges) or of a transfer, or the number of a credit note. The last line says whether computing the figure again gives exactly what was posted.")
	cmd.Example = "suanli bill charges\nsuanli bill explain ch-01jv9z3k8h6e2m4q7r5t8w0xyz"
	return cmd
}
