package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func drillCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "drill", Short: tr("Try an outage on one's own cloud, and see what leases feel (operator)")}
	host := outage("host-outage", tr("Cut a host off for a while, as if its machine had gone"))
	host.Flags().String("host", "", tr("host to cut off"))
	zone := outage("zone-outage", tr("Cut all hosts of a zone off for a while"))
	zone.Flags().String("zone", "", tr("zone to cut off, as REGION/ZONE"))
	show := &cobra.Command{
		Use: "show DRILL", Short: tr("Show what leases felt of a drill"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return drillOf(cmd, args[0], (*api.Client).Drill)
		},
	}
	stop := &cobra.Command{
		Use: "stop DRILL", Short: tr("End a drill now"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return drillOf(cmd, args[0], (*api.Client).EndDrill)
		},
	}
	cmd.AddCommand(host, zone, show, stop)
	return cmd
}

func drillOf(cmd *cobra.Command, id string, ask func(*api.Client, context.Context, string) (*api.Drill, error)) error {
	c, err := client(cmd)
	if err != nil {
		return err
	}
	d, err := ask(c, cmd.Context(), id)
	if err != nil {
		return err
	}
	return printDrill(cmd, d)
}

// recovery is how long after a drill its leases are waited for: agents dial again
// with pauses of up to half a minute.
const recovery = 90 * time.Second

func outage(name, short string) *cobra.Command {
	var length time.Duration
	var yes, nowait bool
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		Long: tr("The control plane refuses the hosts for that time, and takes them back at its end by itself, whatever becomes of this command. Instances run on; renters cannot enter them meanwhile. What is not charged and what counts against availability is as in a real outage."),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			in := api.DrillRequest{Kind: strings.ReplaceAll(name, "-", "_"), Seconds: int64(length / time.Second), Consent: yes}
			if f := cmd.Flags().Lookup("host"); f != nil {
				if in.HostID = f.Value.String(); in.HostID == "" {
					return usageError{errors.New(tr("give --host; suanli host list shows them"))}
				}
			} else {
				var ok bool
				if in.Region, in.Zone, ok = strings.Cut(cmd.Flags().Lookup("zone").Value.String(), "/"); !ok {
					return usageError{errors.New(tr("give --zone as REGION/ZONE"))}
				}
			}
			ctx := cmd.Context()
			d, err := c.BeginDrill(ctx, in)
			var asked *api.Error
			if errors.As(err, &asked) && asked.Code == "drill_consent" && terminalWidth(cmd.OutOrStdout()) > 0 {
				if err := confirm(cmd, explained(err)+"\n"+tr("Type yes to begin: ")); err != nil {
					return err
				}
				in.Consent = true
				d, err = c.BeginDrill(ctx, in)
			}
			if err != nil {
				return err
			}
			for wait := time.Until(d.Until) + recovery; !nowait && wait > 0 && (!d.Over || !d.Recovered); wait -= time.Second {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Second):
				}
				// One answer that does not come is no reason to give up.
				if now, err := c.Drill(ctx, d.ID); err == nil {
					d = now
				}
			}
			return printDrill(cmd, d)
		},
	}
	cmd.Flags().DurationVar(&length, "for", 30*time.Second, tr("how long, from 5s to 15m"))
	cmd.Flags().BoolVar(&yes, "yes", false, tr("begin without asking"))
	cmd.Flags().BoolVar(&nowait, "no-wait", false, tr("do not wait for its end"))
	return cmd
}

func printDrill(cmd *cobra.Command, d *api.Drill) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, d)
	}
	t := newTable(tr("LEASE"), tr("HOST"), tr("BEFORE"), tr("NOW"), tr("UNREACHABLE"), tr("ENDED"))
	lost := 0
	for _, l := range d.Leases {
		ended := ""
		if l.Ended {
			ended = tr("yes")
			lost++
		}
		t.add(l.LeaseID, l.HostID, word(l.Before), word(l.Now), time.Duration(l.UnreachableSeconds)*time.Second, ended)
	}
	t.print(cmd.OutOrStdout())
	switch {
	case !d.Over:
		say(cmd, "Drill %s runs until %s; end it with: suanli drill stop %s", d.ID, d.Until.Local().Format(time.DateTime), d.ID)
	case !d.Recovered:
		say(cmd, "Drill %s is over, and some leases are not back yet: suanli drill show %s", d.ID, d.ID)
	default:
		say(cmd, "Drill %s is over: of %d leases %d ended, and all others are back.", d.ID, len(d.Leases), lost)
	}
	return nil
}
