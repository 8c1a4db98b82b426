package main

import (
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func priceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "price", Short: tr("Other prices that providers propose for running leases")}
	var host string
	list := showing("ls", tr("List proposed prices, newest first"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) ([]api.PriceChange, error) {
			if host != "" {
				return c.HostPriceChanges(cmd.Context(), host)
			}
			return c.PriceChanges(cmd.Context())
		}, printPriceChanges)
	list.Flags().StringVar(&host, "host", "", tr("what you proposed for leases on this host"))
	cmd.AddCommand(list,
		showing("accept PROPOSAL", tr("Agree to a proposed price"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.PriceChange, error) {
				return c.AcceptPrice(cmd.Context(), args[0])
			},
			func(cmd *cobra.Command, p *api.PriceChange) {
				say(cmd, "Lease %s costs %s %s an hour from %s on", p.LeaseName, p.NewPerHour.Display(), p.Currency, clockTime(p.EffectiveAt))
			}),
		showing("decline PROPOSAL", tr("Decline a proposed price: it stays as it is"), cobra.ExactArgs(1),
			func(cmd *cobra.Command, c *api.Client, args []string) (*api.PriceChange, error) {
				return c.DeclinePrice(cmd.Context(), args[0])
			},
			func(cmd *cobra.Command, p *api.PriceChange) {
				say(cmd, "Lease %s goes on to cost %s %s an hour", p.LeaseName, p.PerHour.Display(), p.Currency)
			}),
		proposePriceCommand())
	return cmd
}

func proposePriceCommand() *cobra.Command {
	var in api.PriceProposal
	var from string
	cmd := showing("propose HOST PRICE", tr("Propose another price per GPU-hour to renters of leases on demand on a host"), cobra.ExactArgs(2),
		func(cmd *cobra.Command, c *api.Client, args []string) ([]api.PriceChange, error) {
			var err error
			if in.PerGPUHour, err = api.ParseRate(args[1]); err != nil {
				return nil, usageError{err}
			}
			if from != "" {
				at, err := time.Parse(time.RFC3339, from)
				if err != nil {
					return nil, usageError{err}
				}
				in.EffectiveAt = &at
			}
			return c.ProposePrice(cmd.Context(), args[0], in)
		}, printPriceChanges)
	cmd.Flags().StringVar(&in.LeaseID, "lease", "", tr("only this lease (default: all on demand on the host)"))
	cmd.Flags().StringVar(&from, "from", "", tr("from when, such as 2026-03-01T00:00:00Z (default: after the notice of 7 days)"))
	return cmd
}

func printPriceChanges(cmd *cobra.Command, list []api.PriceChange) {
	t := newTable("ID", tr("LEASE"), tr("PER HOUR"), tr("NEW"), tr("FROM"), tr("ANSWER BY"), tr("STATE"))
	for _, p := range list {
		name := p.LeaseName
		if name == "" {
			name = p.LeaseID
		}
		t.add(p.ID, name+mark(p.Simulated), p.PerHour.Display()+" "+p.Currency, p.NewPerHour.Display(), clockTime(p.EffectiveAt), clockTime(p.AnswerBy), word("price_"+p.State))
	}
	t.print(cmd.OutOrStdout())
}
