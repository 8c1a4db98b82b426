package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func earningsCommand() *cobra.Command {
	q := api.EarningsQuery{By: "host"}
	cmd := showing("earnings", tr("Show what your hosts earned, and how much of the time they were rented"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) (*api.Earnings, error) {
			return c.EarningsBy(cmd.Context(), q)
		}, printEarnings)
	cmd.Example = `  suanli earnings --by gpu --from 2026-03-01 --until 2026-04-01
  suanli host statement --month 2026-03`
	cmd.Flags().StringVar(&q.By, "by", q.By, tr("host, gpu or day"))
	cmd.Flags().StringVar(&q.From, "from", "", tr("first day, such as 2026-03-01, by your account's time zone (default: the first of this month)"))
	cmd.Flags().StringVar(&q.Until, "until", "", tr("the day after the last one (default: tomorrow)"))
	return cmd
}

func printEarnings(cmd *cobra.Command, e *api.Earnings) {
	say(cmd, "From %s until before %s (%s)", e.From.Format("2006-01-02"), e.Until.Format("2006-01-02"), e.TimeZone)
	t := newTable(tr("OF"), tr("RENTED"), tr("ON THE MARKET"), tr("OCCUPANCY"), tr("CHARGED"), tr("COMMISSION"), tr("EARNED"))
	for _, r := range e.Rows {
		of := r.Day
		switch e.By {
		case "host":
			of = r.HostID
		case "gpu":
			of = r.HostID + " " + r.GPU
			if r.GPU == "" {
				of = r.HostID + " " + tr("(no GPU)")
			}
		}
		occupancy := "-"
		if o := r.OccupancyBasisPoints; o != nil {
			occupancy = fmt.Sprintf("%d.%02d %%", *o/100, *o%100)
		}
		// A host without earnings has a row, too: that it earned nothing is what it says.
		sums := r.Sums
		if len(sums) == 0 {
			sums = []api.EarningsSum{{}}
		}
		for _, s := range sums {
			t.add(of+mark(r.Simulated), gpuHours(r.RentedGPUSeconds), gpuHours(r.ListedGPUSeconds), occupancy, s.Charged.Display(), s.Commission.Display(), s.Earned.Display()+" "+s.Currency)
		}
	}
	t.print(cmd.OutOrStdout())
}

// gpuHours shows GPU-seconds as hours, minutes and seconds of one GPU.
func gpuHours(seconds int64) string {
	return fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60)
}

func statementCommand() *cobra.Command {
	var month string
	cmd := showing("statement", tr("Show your balance as a provider over a month, line by line"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) ([]api.ProviderStatement, error) {
			return c.ProviderStatements(cmd.Context(), month)
		},
		func(cmd *cobra.Command, list []api.ProviderStatement) {
			for _, s := range list {
				say(cmd, "%s until before %s (%s), %s", s.From.Format("2006-01-02"), s.Until.Format("2006-01-02"), s.TimeZone, s.Currency)
				t := newTable(tr("KIND"), tr("ABOUT"), tr("HOST"), tr("AMOUNT"))
				t.add(tr("opening balance"), "", "", s.Opening.Display())
				for _, l := range s.Lines {
					t.add(word(l.Code), l.Reference+mark(l.Simulated), l.HostID, l.Amount.Display())
				}
				t.add(tr("closing balance"), "", "", s.Closing.Display())
				t.print(cmd.OutOrStdout())
			}
		})
	cmd.Flags().StringVar(&month, "month", "", tr("such as 2026-03 (default: this month, so far)"))
	return cmd
}
