package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

// clusterWishes are the flags that say what a cluster shall be.
type clusterWishes struct {
	ask api.ClusterQuestion
}

func (w *clusterWishes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&w.ask.Nodes, "nodes", 2, tr("how many nodes, each on a host of its own"))
	f.IntVar(&w.ask.GPUs, "gpus", 1, tr("how many GPUs each node has"))
	f.StringVar(&w.ask.GPUModel, "gpu-model", "", tr("GPU model of all nodes"))
	f.BoolVar(&w.ask.Fast, "fast-network", false, tr("nodes in one zone, in one rack if there is room, on hosts with 10 Gbit/s or more"))
	f.StringVar(&w.ask.Region, "region", "", tr("only in this region"))
	f.StringVar(&w.ask.Zone, "zone", "", tr("only in this zone"))
	f.BoolVar(&w.ask.Simulated, "simulated", false, tr("simulated GPUs"))
	f.StringVar(&w.ask.Template, "template", "", tr("template to run"))
	f.StringVar(&w.ask.Image, "image", "", tr("image to run, instead of the template's"))
	f.Int64Var(&w.ask.DiskGiB, "disk", 0, tr("disk of each node in GiB (default: the template's)"))
}

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "cluster", Short: tr("Clusters: nodes that start together or not at all, with a network of their own")}
	var all bool
	list := listing("ls", tr("List your clusters"), func(ctx context.Context, c *api.Client) ([]api.Cluster, error) { return c.Clusters(ctx, !all) },
		[]string{tr("NAME"), tr("STATE"), tr("NODES"), tr("PER HOUR"), tr("SINCE")},
		func(k api.Cluster) []any {
			return []any{k.Name, word("cluster_" + k.State), clusterSize(&k), k.PerHour.Display() + " " + k.Currency, k.SinceAt.Local().Format(time.DateTime)}
		})
	list.Flags().BoolVarP(&all, "all", "a", false, tr("also those that are over"))
	cmd.AddCommand(clusterQuoteCommand(), clusterCreateCommand(), list, clusterShowCommand(), clusterEndCommand())
	cmd.AddCommand(clusterRunCommands()...)
	return cmd
}

func clusterSize(k *api.Cluster) string {
	return fmt.Sprintf("%d × %d × %s%s", k.NodeCount, k.GPUs, k.GPUModel, mark(k.Simulated))
}

func clusterQuoteCommand() *cobra.Command {
	var w clusterWishes
	cmd := showing("quote", tr("What a cluster costs, and on which hosts it would be"), cobra.NoArgs,
		func(cmd *cobra.Command, c *api.Client, _ []string) (*api.ClusterPrice, error) {
			return c.QuoteCluster(cmd.Context(), w.ask)
		}, printClusterPrice)
	w.flags(cmd)
	return cmd
}

func printClusterPrice(cmd *cobra.Command, q *api.ClusterPrice) {
	t := newTable(tr("NODE"), tr("HOST"), tr("ZONE"), tr("RACK"), tr("PER HOUR"))
	for _, n := range q.Hosts {
		t.add(strconv.Itoa(n.Rank), n.HostID, n.Zone, n.Rack, n.PerHour.Display())
	}
	t.print(cmd.OutOrStdout())
	say(cmd, "%d × %d × %s%s: %s %s an hour while all nodes run, and nothing before", q.Nodes, q.GPUs, q.GPUModel, mark(q.Simulated), q.PerHour.Display(), q.Currency)
}

func clusterCreateCommand() *cobra.Command {
	var w clusterWishes
	var run wishes
	var in api.ClusterCreate
	var within, patience time.Duration
	var most string
	var wait waiting
	cmd := &cobra.Command{
		Use: "create [-- COMMAND…]", Short: tr("Rent a cluster: quote, accept all nodes at once, wait until all run"),
		Long: tr("Every node runs, or none is paid for: if not all nodes run and reach each other in time, all are given back and nothing is charged."),
		Example: `  suanli cluster create --nodes 4 --gpus 8 --gpu-model H100 --fast-network --template pytorch --name train
  suanli cluster create --nodes 2 --gpu-model 'RTX 4090' --image debian:12 --policy replace --look-for 2h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			l, err := run.makeLease("", args)
			if err != nil {
				return err
			}
			in.Name, in.Labels, in.Command, in.StartScript, in.Environment, in.Ports, in.StopAt, in.SpendingCap, in.IdleStop = l.Name, l.Labels, l.Command, l.StartScript, l.Environment, l.Ports, l.StopAt, l.SpendingCap, l.IdleStop
			in.ClusterQuestion, in.StartWithinSeconds, in.WaitSeconds = w.ask, int64(within/time.Second), int64(patience/time.Second)
			if most != "" {
				if in.AgreedPerHour, err = api.ParseAmount(most); err != nil {
					return usageError{err}
				}
			} else {
				q, err := c.QuoteCluster(cmd.Context(), w.ask)
				if err != nil {
					return err
				}
				if !wantsJSON(cmd) {
					printClusterPrice(cmd, q)
				}
				in.AgreedPerHour = q.PerHour
			}
			k, err := c.CreateCluster(cmd.Context(), in)
			if err != nil {
				return err
			}
			say(cmd, "Cluster %s (%s) is %s", k.Name, k.ID, word("cluster_"+k.State))
			if wait.yes() {
				if k, err = waitForCluster(cmd, c, k.ID, "running"); err != nil {
					return err
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, k)
			}
			if k.State == "running" {
				say(cmd, "Enter a node with: suanli ssh %s-0", k.Name)
			}
			return nil
		},
	}
	w.flags(cmd)
	run.leaseFlags(cmd)
	f := cmd.Flags()
	f.Lookup("name").Usage = tr("name of the cluster")
	_ = f.MarkHidden("notice-signal") // of spot leases, which a cluster has none of
	_ = f.MarkHidden("notice-command")
	f.StringVar(&in.Policy, "policy", "", tr("when a node is lost or a rank fails: fail (default), restart or replace"))
	f.DurationVar(&within, "start-within", 0, tr("give all nodes back if not all run within this time (default: 10m)"))
	f.DurationVar(&patience, "look-for", 0, tr("look for hosts again for this time, if there are none now, or a node does not start"))
	f.StringVar(&most, "max-per-hour", "", tr("the most that an hour of all nodes may cost, instead of the quote's price; it is needed with --look-for if there are no hosts now"))
	wait.flags(cmd, tr("wait until it runs"))
	return cmd
}

// waitForCluster polls a cluster until it is in a state, showing progress.
func waitForCluster(cmd *cobra.Command, c *api.Client, id, state string) (*api.Cluster, error) {
	last := ""
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		d, err := c.Cluster(cmd.Context(), id)
		if err != nil {
			return nil, err
		}
		line := word("cluster_" + d.State)
		running := 0
		for _, n := range d.Nodes {
			for _, l := range d.Leases {
				if l.ID == n.LeaseID && l.State == "running" {
					running++
				}
			}
		}
		if d.State == "forming" {
			line += ", " + tr("%d of %d nodes run", running, d.NodeCount)
		}
		if line != last {
			say(cmd, "  %s", line)
			last = line
		}
		switch d.State {
		case state:
			return &d.Cluster, nil
		case "failed", "ended":
			return &d.Cluster, errors.New(tr("cluster %s is %s: %s (%s)", d.Name, word("cluster_"+d.State), d.Message, d.Code))
		}
		select {
		case <-cmd.Context().Done():
			return nil, cmd.Context().Err()
		case <-tick.C:
		}
	}
}

func clusterShowCommand() *cobra.Command {
	return showing("show CLUSTER", tr("Show a cluster, its nodes and what happened to it"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.ClusterDetails, error) {
			return c.Cluster(cmd.Context(), args[0])
		}, func(cmd *cobra.Command, d *api.ClusterDetails) {
			t := newTable(tr("NAME"), d.Name+" ("+d.ID+")")
			state := word("cluster_" + d.State)
			if d.Code != "" {
				state += ": " + reason(d.Code)
			}
			t.add(tr("STATE"), state)
			if d.Message != "" {
				t.add(tr("WHY"), d.Message)
			}
			t.add(tr("NODES"), clusterSize(&d.Cluster))
			t.add(tr("POLICY"), word("policy_"+d.Policy))
			t.add(tr("PER HOUR"), d.PerHour.Display()+" "+d.Currency)
			t.print(cmd.OutOrStdout())
			n := newTable(tr("NODE"), tr("LEASE"), tr("STATE"), tr("HOST"), tr("ADDRESS"), tr("PEERS"))
			for _, x := range d.Nodes {
				state := "-"
				for _, l := range d.Leases {
					if l.ID == x.LeaseID {
						state = word(l.State)
					}
				}
				peers := fmt.Sprintf("%d/%d", x.Connected, d.NodeCount-1)
				if x.Problem != "" {
					peers = x.Problem
				}
				n.add(x.Name, x.LeaseID, state, x.HostID, x.Address, peers)
			}
			n.print(cmd.OutOrStdout())
			h := newTable(tr("TIME"), tr("EVENT"), tr("STATE"), tr("WHY"))
			for _, x := range d.History {
				h.add(x.At.Local().Format(time.DateTime), word("cluster_event_"+x.Event), word("cluster_"+x.To), x.Message)
			}
			h.print(cmd.OutOrStdout())
		})
}

func clusterEndCommand() *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: "end CLUSTER", Short: tr("End a cluster: all of its nodes, with their disks"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			k, err := c.EndCluster(cmd.Context(), args[0])
			if err == nil && wait.yes() && k.State != "failed" {
				k, err = waitForCluster(cmd, c, k.ID, "ended")
			}
			if err != nil {
				return err
			}
			return done(cmd, k, "Cluster %s is %s", k.Name, word("cluster_"+k.State))
		},
	}
	wait.flags(cmd, tr("wait until nothing is left of it"))
	return cmd
}
