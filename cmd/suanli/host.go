package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func hostCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: tr("Offer hosts: tokens, listings, prices, maintenance")}
	var token api.CreateJoinToken
	var valid time.Duration
	join := &cobra.Command{
		Use: "token", Short: tr("Make a one-time token for a machine to join"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			token.ExpiresInSeconds = int64(valid / time.Second)
			t, err := c.CreateJoinToken(cmd.Context(), token)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, t)
			}
			fmt.Fprintln(cmd.OutOrStdout(), t.Token)
			return nil
		},
	}
	join.Flags().StringVar(&token.Name, "name", "", tr("name of the host"))
	join.Flags().StringVar(&token.Region, "region", "", tr("region of the host"))
	join.Flags().StringVar(&token.Zone, "zone", "", tr("zone of the host"))
	join.Flags().StringVar(&token.Rack, "rack", "", tr("rack of the host"))
	join.Flags().DurationVar(&valid, "valid-for", time.Hour, tr("how long the token can be used"))
	list := &cobra.Command{
		Use: "list", Short: tr("List hosts"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			hosts, err := c.Hosts(cmd.Context())
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, hosts)
			}
			t := newTable(tr("NAME"), tr("ID"), tr("STATE"), "GPU", tr("ZONE"), tr("RELIABILITY"), tr("REASON"))
			for _, h := range hosts {
				t.add(h.Name+mark(h.Simulated), h.ID, h.State, len(h.GPUs), h.Zone, h.ReliabilityPercent+" %", h.Reason)
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	show := &cobra.Command{
		Use: "show HOST", Short: tr("Show a host, its GPUs and its self-test"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			h, err := c.Host(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, h)
			}
			t := newTable(tr("NAME"), h.Name+mark(h.Simulated))
			t.add(tr("ID"), h.ID)
			t.add(tr("STATE"), h.State+" "+h.Reason)
			t.add(tr("ZONE"), h.Region+", "+h.Zone)
			if h.LastSeenAt != nil {
				t.add(tr("CLOCK"), tr("%d ms ahead of the cloud's", h.ClockSkewMs))
			}
			for _, g := range h.GPUs {
				t.add("GPU", g.UUID+" "+g.Model+mark(h.Simulated))
			}
			if h.SelfTest != nil {
				for _, k := range h.SelfTest.Checks {
					outcome := tr("failed")
					switch {
					case k.Skipped:
						outcome = tr("skipped")
					case k.Passed:
						outcome = tr("passed")
					}
					t.add(tr("TEST"), k.Name+": "+outcome+" "+k.Detail)
				}
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	verb := func(use, short string, do func(*api.Client, context.Context, string) (*api.Host, error)) *cobra.Command {
		return &cobra.Command{
			Use: use + " HOST", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := client(cmd)
				if err != nil {
					return err
				}
				h, err := do(c, cmd.Context(), args[0])
				return hostResult(cmd, h, err)
			},
		}
	}
	var model, price, disk, egress string
	setPrice := &cobra.Command{
		Use: "price HOST", Short: tr("Set a host's prices; running leases keep theirs"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			var in api.UpdateListing
			for _, r := range []struct {
				text string
				into **api.Rate
			}{{disk, &in.StoragePerGiBMonth}, {egress, &in.EgressPerGB}} {
				if r.text == "" {
					continue
				}
				v, err := api.ParseRate(r.text)
				if err != nil {
					return usageError{err}
				}
				*r.into = &v
			}
			if (model == "") != (price == "") {
				return usageError{errors.New(tr("--gpu-model and --per-gpu-hour go together"))}
			}
			if price != "" {
				v, err := api.ParseRate(price)
				if err != nil {
					return usageError{err}
				}
				in.PerGPUHour = map[string]api.Rate{model: v}
			}
			h, err := c.UpdateListing(cmd.Context(), args[0], in)
			return hostResult(cmd, h, err)
		},
	}
	setPrice.Flags().StringVar(&model, "gpu-model", "", tr("GPU model"))
	setPrice.Flags().StringVar(&price, "per-gpu-hour", "", tr("price of one of its GPUs for an hour"))
	setPrice.Flags().StringVar(&disk, "storage", "", tr("price of a GiB of disk for a month"))
	setPrice.Flags().StringVar(&egress, "egress", "", tr("price of a GB sent out"))
	var from, until string
	maintenance := &cobra.Command{
		Use: "maintenance HOST", Short: tr("Announce a maintenance window"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if until == "" {
				h, err := c.CancelMaintenance(cmd.Context(), args[0])
				return hostResult(cmd, h, err)
			}
			now := time.Now()
			begin, end := now.UTC(), time.Time{}
			if from != "" {
				if begin, err = moment(from, now); err != nil {
					return usageError{err}
				}
			}
			if end, err = moment(until, now); err != nil {
				return usageError{err}
			}
			in := api.SetMaintenance{From: &begin, Until: &end}
			h, err := c.SetMaintenance(cmd.Context(), args[0], in)
			return hostResult(cmd, h, err)
		},
	}
	maintenance.Flags().StringVar(&from, "from", "", tr("start: a time or a duration from now (default: now)"))
	maintenance.Flags().StringVar(&until, "until", "", tr("end: a time or a duration from now; left out: cancel the window"))
	remove := &cobra.Command{
		Use: "remove HOST", Short: tr("Remove a host that has no leases"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if err := c.RemoveHost(cmd.Context(), args[0]); err != nil {
				return err
			}
			return done(cmd, map[string]string{"id": args[0]}, "host %s is removed", args[0])
		},
	}
	abandon := &cobra.Command{
		Use: "abandon HOST", Short: tr("Give up a host that will not come back; its leases end (operator)"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if err := c.AbandonHost(cmd.Context(), args[0]); err != nil {
				return err
			}
			return done(cmd, map[string]string{"id": args[0]}, "host %s is given up", args[0])
		},
	}
	cmd.AddCommand(join, list, show, setPrice, maintenance, remove, abandon,
		verb("list-gpu", tr("Put a host on the market"), (*api.Client).ListHost),
		verb("unlist", tr("Take a host off the market; its leases run on"), (*api.Client).UnlistHost),
		verb("drain", tr("Take no new leases on a host"), (*api.Client).DrainHost),
		verb("undrain", tr("Take leases on a host again"), (*api.Client).UndrainHost))
	return cmd
}

func hostResult(cmd *cobra.Command, h *api.Host, err error) error {
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, h)
	}
	say(cmd, "Host %s is %s", h.Name, h.State)
	return nil
}
