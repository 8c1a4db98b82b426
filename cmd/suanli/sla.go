package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func slaCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sla", Short: tr("Availability of leases, and what bad months give back")}
	list := listing("list", tr("List closed months of leases that had outages"),
		func(ctx context.Context, c *api.Client) ([]api.SLAMonth, error) { return c.SLAMonths(ctx) },
		[]string{tr("MONTH"), tr("LEASE"), tr("AVAILABILITY"), tr("DOWN"), tr("CREDIT")},
		func(m api.SLAMonth) []any {
			return []any{m.Month, m.LeaseID + mark(m.Simulated), perCent(m.AvailabilityPPM), (time.Duration(m.DownSeconds) * time.Second).String(), m.Credit.Display() + " " + m.Currency}
		})
	var month string
	show := showing("show LEASE", tr("Show a lease's availability in a month, with the evidence"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.LeaseSLA, error) {
			return c.LeaseSLA(cmd.Context(), args[0], month)
		}, printSLA)
	show.Flags().StringVar(&month, "month", "", tr("such as 2026-03 (default: this month, so far)"))
	var note string
	confirm := showing("confirm LEASE TIME", tr("Confirm an outage that only a probe inside of the instance saw (operator)"), cobra.ExactArgs(2),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.LeaseSLA, error) {
			from, err := time.Parse(time.RFC3339, args[1])
			if err != nil {
				return nil, usageError{err}
			}
			return c.ConfirmOutage(cmd.Context(), api.ConfirmOutage{LeaseID: args[0], From: from, Note: note})
		}, printSLA)
	confirm.Flags().StringVar(&note, "note", "", tr("what was seen, for the audit log"))
	cmd.AddCommand(list, show, confirm)
	return cmd
}

func printSLA(cmd *cobra.Command, s *api.LeaseSLA) {
	say(cmd, "Lease %s%s in %s (%s): %s available, down for %s", s.LeaseID, mark(s.Simulated), s.Month, s.TimeZone, perCent(s.AvailabilityPPM), time.Duration(s.DownSeconds)*time.Second)
	t := newTable(tr("FROM"), tr("TO"), tr("WHO SAYS SO"), tr("COUNTS"))
	add := func(list []api.SLAEvidence, counts string) {
		for _, e := range list {
			t.add(e.Start.Format(time.RFC3339), e.End.Format(time.RFC3339), word(e.Source), counts)
		}
	}
	for _, o := range s.Outages {
		add(o.Evidence, tr("yes"))
	}
	add(s.Excluded, tr("no: announced maintenance"))
	add(s.Uncorroborated, tr("no: not corroborated"))
	t.print(cmd.OutOrStdout())
	if s.ClosedAt != nil {
		say(cmd, "Given back: %s of %s %s, at %s", s.Credit.Display(), s.Charge.Display(), s.Currency, s.ClosedAt.Local().Format(time.DateTime))
		return
	}
	say(cmd, "To be given back as it stands: %s of %s %s, at %s", s.Credit.Display(), s.Charge.Display(), s.Currency, s.ClosesAt.Local().Format(time.DateTime))
}

// perCent shows millionths as a percentage.
func perCent(millionths int64) string {
	return fmt.Sprintf("%d.%04d %%", millionths/10_000, millionths%10_000)
}

func statusCommand() *cobra.Command {
	return showing("status", tr("Show how often the cloud itself was away"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) (*api.Status, error) {
			return c.Status(cmd.Context())
		},
		func(cmd *cobra.Command, s *api.Status) {
			if s.Since == nil {
				say(cmd, "Nothing was measured yet.")
				return
			}
			say(cmd, "Measured by the minute since %s. Leases run on while the cloud is away.", s.Since.Local().Format(time.DateTime))
			t := newTable(tr("LAST DAYS"), tr("AVAILABILITY"), tr("MINUTES AWAY"))
			for _, w := range s.Windows {
				t.add(w.Days, perCent(w.AvailabilityPPM), w.MeasuredMinutes-w.UpMinutes)
			}
			t.print(cmd.OutOrStdout())
			if len(s.Gaps) == 0 {
				return
			}
			t = newTable(tr("AWAY FROM"), tr("UNTIL"))
			for _, g := range s.Gaps {
				t.add(g.From.Local().Format(time.DateTime), g.Until.Local().Format(time.DateTime))
			}
			t.print(cmd.OutOrStdout())
			if s.GapsLeft > 0 {
				say(cmd, "… and %d more", s.GapsLeft)
			}
		})
}
