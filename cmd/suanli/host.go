package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

func hostCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "host", Short: tr("Offer hosts: tokens, listings, prices, maintenance")}
	var token api.CreateJoinToken
	join := joinToken(tr("Make a one-time token for a machine to join"), func(ctx context.Context, c *api.Client, valid int64) (*api.JoinToken, error) {
		token.ExpiresInSeconds = valid
		return c.CreateJoinToken(ctx, token)
	})
	join.Flags().StringVar(&token.Name, "name", "", tr("name of the host"))
	join.Flags().StringVar(&token.Region, "region", "", tr("region of the host"))
	join.Flags().StringVar(&token.Zone, "zone", "", tr("zone of the host"))
	join.Flags().StringVar(&token.Rack, "rack", "", tr("rack of the host"))
	list := listing("list", tr("List hosts"),
		func(ctx context.Context, c *api.Client) ([]api.Host, error) { return c.Hosts(ctx) },
		[]string{tr("NAME"), tr("ID"), tr("STATE"), "GPU", tr("ZONE"), tr("RELIABILITY"), tr("REASON")},
		func(h api.Host) []any {
			return []any{h.Name + mark(h.Simulated), h.ID, word(h.State), len(h.GPUs), h.Zone, h.ReliabilityPercent + " %", h.Reason}
		})
	show := &cobra.Command{
		Use: "show HOST", Short: tr("Show a host, its GPUs and its self-test"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := hostNamed(cmd, args[0])
			if err != nil {
				return err
			}
			h, err := c.Host(cmd.Context(), id)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, h)
			}
			t := newTable(tr("NAME"), h.Name+mark(h.Simulated))
			t.add(tr("ID"), h.ID)
			t.add(tr("STATE"), word(h.State)+" "+h.Reason)
			t.add(tr("ZONE"), h.Region+", "+h.Zone)
			if m := h.Maintenance; m != nil {
				t.add(tr("MAINTENANCE"), window(m))
			}
			if h.LastSeenAt != nil {
				t.add(tr("CLOCK"), tr("%d ms ahead of the cloud's", h.ClockSkewMs))
			}
			for _, text := range floors(h.Listing) {
				t.add(tr("SPOT FLOOR"), text)
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
				c, id, err := hostNamed(cmd, args[0])
				if err != nil {
					return err
				}
				h, err := do(c, cmd.Context(), id)
				return hostResult(cmd, h, err)
			},
		}
	}
	var model, price, disk, egress string
	var floor floorWishes
	setPrice := &cobra.Command{
		Use: "price HOST", Short: tr("Set a host's prices; running leases keep theirs"), Args: cobra.ExactArgs(1),
		Example: `  suanli host price gpu-01 --gpu-model "RTX 4090" --per-gpu-hour 0.39 --spot-floor 0.12
  suanli host price gpu-01 --spot-floor-of-on-demand 40% --spot-floor-min 0.10`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := hostNamed(cmd, args[0])
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
			if (model == "") != (price == "" && floor.fixed == "") {
				return usageError{errors.New(tr("--gpu-model goes with --per-gpu-hour, --spot-floor, or both, and they with it"))}
			}
			if err := floor.into(&in, model); err != nil {
				return err
			}
			if price != "" {
				v, err := api.ParseRate(price)
				if err != nil {
					return usageError{err}
				}
				in.PerGPUHour = map[string]api.Rate{model: v}
			}
			h, err := c.UpdateListing(cmd.Context(), id, in)
			return hostResult(cmd, h, err)
		},
	}
	setPrice.Flags().StringVar(&model, "gpu-model", "", tr("GPU model"))
	setPrice.Flags().StringVar(&price, "per-gpu-hour", "", tr("price of one of its GPUs for an hour"))
	setPrice.Flags().StringVar(&disk, "storage", "", tr("price of a GiB of disk for a month"))
	setPrice.Flags().StringVar(&egress, "egress", "", tr("price of a GB sent out"))
	floor.flags(setPrice.Flags())
	var from, until string
	maintenance := &cobra.Command{
		Use: "maintenance HOST", Short: tr("Announce a maintenance window"), Args: cobra.ExactArgs(1),
		Example: `  suanli host maintenance gpu-01 --from 48h --until 50h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, id, err := hostNamed(cmd, args[0])
			if err != nil {
				return err
			}
			if until == "" {
				if from != "" {
					return usageError{errors.New(tr("--from has no end: give --until, too; without both the window is canceled"))}
				}
				h, err := c.CancelMaintenance(cmd.Context(), id)
				return maintenanceResult(cmd, h, err)
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
			h, err := c.SetMaintenance(cmd.Context(), id, in)
			return maintenanceResult(cmd, h, err)
		},
	}
	maintenance.Flags().StringVar(&from, "from", "", tr("start: a time or a duration from now (default: now)"))
	maintenance.Flags().StringVar(&until, "until", "", tr("end: a time or a duration from now; left out: cancel the window"))
	remove := removal("remove HOST", tr("Remove a host that has no leases"), findHost, (*api.Client).RemoveHost,
		func(id string) string { return tr("host %s is removed", id) })
	abandon := removal("abandon HOST", tr("Give up a host that will not come back; its leases end (operator)"), findHost, (*api.Client).AbandonHost,
		func(id string) string { return tr("host %s is given up", id) })
	cmd.AddCommand(join, list, show, setPrice, maintenance, statementCommand(), remove, abandon,
		verb("list-gpu", tr("Put a host on the market"), (*api.Client).ListHost),
		verb("unlist", tr("Take a host off the market; its leases run on"), (*api.Client).UnlistHost),
		verb("drain", tr("Take no new leases on a host"), (*api.Client).DrainHost),
		verb("undrain", tr("Take leases on a host again"), (*api.Client).UndrainHost))
	return cmd
}

// hostNamed is a client of the cloud and the identifier of the host that an
// argument names.
func hostNamed(cmd *cobra.Command, arg string) (*api.Client, string, error) {
	c, err := client(cmd)
	if err != nil {
		return nil, "", err
	}
	id, err := findHost(cmd.Context(), c, arg)
	return c, id, err
}

// findHost returns the identifier of the host that an argument names, by that
// identifier or by a name that no other host has.
func findHost(ctx context.Context, c *api.Client, arg string) (string, error) {
	if strings.HasPrefix(arg, "ho-") {
		return arg, nil
	}
	hosts, err := c.Hosts(ctx)
	if err != nil {
		return "", err
	}
	var found, names []string
	for _, h := range hosts {
		names = append(names, h.Name)
		if h.Name == arg {
			found = append(found, fmt.Sprintf("%s (%s, %s)", h.ID, word(h.State), h.Zone))
		}
	}
	switch len(found) {
	case 0:
		return "", missing{tr("there is no host %q among yours; you have: %s", arg, strings.Join(names, ", "))}
	case 1:
		id, _, _ := strings.Cut(found[0], " ")
		return id, nil
	}
	return "", usageError{errors.New(tr("%d hosts are called %q; give the identifier of one: %s", len(found), arg, strings.Join(found, ", ")))}
}

// maintenanceResult says what was announced and what it does.
func maintenanceResult(cmd *cobra.Command, h *api.Host, err error) error {
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, h)
	}
	if h.Maintenance == nil {
		say(cmd, "Host %s has no maintenance window now. It is %s.", h.Name, word(h.State))
		return nil
	}
	say(cmd, "Maintenance of host %s: %s.", h.Name, window(h.Maintenance))
	say(cmd, "In that time nothing new starts on it, and its absence does not count against its reliability. Leases that run are not stopped by it; drain the host early enough to let it run empty. It is %s now.", word(h.State))
	return nil
}

// window is a maintenance window in local time, with its length.
func window(m *api.Maintenance) string {
	return tr("%s to %s (%s)", m.From.Local().Format(time.DateTime), m.Until.Local().Format(time.DateTime), m.Until.Sub(m.From).Round(time.Second))
}

func hostResult(cmd *cobra.Command, h *api.Host, err error) error {
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, h)
	}
	say(cmd, "Host %s is %s", h.Name, word(h.State))
	return nil
}
