package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

// queueWishes are the flags by which rent waits for room instead of being refused.
type queueWishes struct {
	patience  time.Duration
	most      string
	region    string
	simulated bool
	priority  int
}

func (q *queueWishes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&q.patience, "queue", 0, tr("if nothing is free, wait for this long in the queue, such as 6h, with --gpu-model and --max-per-hour"))
	f.StringVar(&q.most, "max-per-hour", "", tr("with --queue: the most that an hour of all of it may cost when there is room"))
	f.IntVar(&q.priority, "priority", 0, tr("with --queue: -10 to 10, the larger first among your own requests"))
	f.StringVar(&q.region, "region", "", tr("with --queue: only in this region"))
	f.BoolVar(&q.simulated, "simulated", false, tr("with --queue: simulated GPUs"))
}

// startPatience is how long rent looks whether what it asked for starts at once.
const startPatience = 3 * time.Second

// rentQueued asks for a lease as soon as there is room. If that is now, it is as if it
// had been rented; else the request is left waiting, or followed.
func rentQueued(cmd *cobra.Command, c *api.Client, w *wishes, s *spotWishes, q *queueWishes, command []string, wait waiting, follow bool) error {
	switch {
	case s.spot:
		return usageError{errors.New(tr("a bid waits by itself until it wins; leave out --queue"))}
	case s.offerOrWhereUsed || s.model == "" || q.most == "":
		return usageError{errors.New(tr("--queue wants --gpu-model and --max-per-hour, and neither an offer nor --where: suanli search shows what there is"))}
	case w.quote.Plan != "" && w.quote.Plan != "on_demand":
		return usageError{errors.New(tr("what waits in the queue is rented on demand; leave out --plan"))}
	case len(w.volumes) > 0:
		return usageError{errors.New(tr("a volume is on one host, and what waits goes to any; attach it to the lease afterwards"))}
	case w.stop.at != "":
		return usageError{errors.New(tr("with --queue say how long it runs, with --stop-in, and not when it stops"))}
	}
	most, err := api.ParseAmount(q.most)
	if err != nil {
		return usageError{err}
	}
	r, err := w.makeLease("", command)
	if err != nil {
		return err
	}
	asked, err := c.CreateWaitingRequest(cmd.Context(), api.WaitingRequestCreate{
		Name: r.Name, GPUModel: s.model, GPUs: s.gpus, Region: q.region, Zone: s.zone, Simulated: q.simulated, Template: w.quote.Template, Image: w.quote.Image, DiskGiB: w.quote.DiskGiB,
		MaxPerHour: most, WaitSeconds: int64(q.patience / time.Second), EstimateSeconds: int64(w.stop.in / time.Second), Priority: q.priority,
		Labels: r.Labels, Entrypoint: r.Entrypoint, Command: r.Command, StartScript: r.StartScript, Environment: r.Environment, Ports: r.Ports, IdleStop: r.IdleStop, SpendingCap: r.SpendingCap,
	})
	if err != nil {
		return err
	}
	say(cmd, "Request %s (%s): %d × %s%s for at most %s %s an hour", asked.Name, asked.ID, asked.GPUs, asked.GPUModel, mark(asked.Simulated), asked.MaxPerHour.Display(), asked.Currency)
	d, err := waitForRoom(cmd, c, asked.ID, follow)
	if err != nil {
		return err
	}
	if d.State == "started" && wait.yes() {
		if _, err := waitFor(cmd, c, d.LeaseID, "running", "stopped"); err != nil {
			return err
		}
	}
	switch {
	case wantsJSON(cmd):
		return printJSON(cmd, d)
	case d.State == "started":
		say(cmd, "Lease %s (%s) is accepted", d.Name, d.LeaseID)
		say(cmd, "Enter it with: suanli ssh %s", d.Name)
	default:
		say(cmd, "It waits until %s, and costs nothing meanwhile. See: suanli queue show %s", d.ExpiresAt.Local().Format(time.DateTime), d.Name)
	}
	return nil
}

// waitForRoom polls a request until it no longer waits, saying what it waits for; without
// follow only for as long as it takes to start what fits at once.
func waitForRoom(cmd *cobra.Command, c *api.Client, id string, follow bool) (*api.WaitingRequestDetails, error) {
	ctx := cmd.Context()
	last := ""
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	end := time.Now().Add(startPatience)
	for {
		d, err := c.WaitingRequest(ctx, id)
		if ctx.Err() != nil {
			return nil, errors.New(tr("no longer watching: the request waits on; see: suanli queue show %s", id))
		}
		if err != nil {
			return nil, err
		}
		if line := waitingLine(&d.WaitingRequest); line != last && d.Code != "" {
			say(cmd, "  %s", line)
			last = line
		}
		switch {
		case d.State == "started", d.State == "waiting" && !follow && (d.Code != "" || time.Now().After(end)):
			return d, nil
		case d.State != "waiting":
			return d, errors.New(tr("request %s is %s: %s (%s)", d.Name, word("request_"+d.State), d.Message, d.Code))
		}
		select {
		case <-ctx.Done():
			return nil, errors.New(tr("no longer watching: the request waits on; see: suanli queue show %s", id))
		case <-tick.C:
		}
	}
}

func waitingLine(r *api.WaitingRequest) string {
	line := word("request_" + r.State)
	if r.Code != "" {
		line += ": " + reason(r.Code)
	}
	return line
}

func queueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "queue", Short: tr("Requests that wait until there is room"),
		Long: tr("What is rented with --queue waits here while nothing is free, and costs nothing. It becomes a lease as soon as a host has room, at the price of that moment, if that is not above what you said."),
	}
	var every bool
	list := listing("ls", tr("List requests that wait"), func(ctx context.Context, c *api.Client) ([]api.WaitingRequest, error) {
		return c.WaitingRequests(ctx, !every)
	},
		[]string{tr("NAME"), tr("ID"), tr("STATE"), tr("GPU"), tr("AT MOST PER HOUR"), tr("PRIORITY"), tr("EXPIRES"), tr("LEASE")},
		func(r api.WaitingRequest) []any {
			return []any{r.Name, r.ID, waitingLine(&r), fmt.Sprintf("%d × %s%s", r.GPUs, r.GPUModel, mark(r.Simulated)), r.MaxPerHour.Display() + " " + r.Currency, r.Priority,
				r.ExpiresAt.Local().Format(time.DateTime), r.LeaseID}
		})
	list.Aliases = []string{"list"}
	list.Flags().BoolVarP(&every, "all", "a", false, tr("those that no longer wait, too"))
	show := showing("show REQUEST", tr("Show a request, its turn and what is in its way"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.WaitingRequestDetails, error) {
			return c.WaitingRequest(cmd.Context(), args[0])
		},
		func(cmd *cobra.Command, d *api.WaitingRequestDetails) {
			t := newTable(tr("NAME"), d.Name)
			t.add(tr("ID"), d.ID)
			t.add(tr("STATE"), waitingLine(&d.WaitingRequest))
			if d.Message != "" {
				t.add(tr("WHY"), d.Message)
			}
			if d.Position > 0 {
				t.add(tr("TURN"), strconv.Itoa(d.Position))
			}
			t.add(tr("GPU"), fmt.Sprintf("%d × %s%s", d.GPUs, d.GPUModel, mark(d.Simulated)))
			if where := strings.Trim(d.Region+", "+d.Zone, ", "); where != "" {
				t.add(tr("ZONE"), where)
			}
			t.add(tr("IMAGE"), d.Image)
			t.add(tr("AT MOST PER HOUR"), d.MaxPerHour.Display()+" "+d.Currency)
			if d.EstimateSeconds > 0 {
				t.add(tr("RUNS AT MOST"), short(d.EstimateSeconds))
			}
			t.add(tr("PRIORITY"), strconv.Itoa(d.Priority))
			t.add(tr("EXPIRES"), d.ExpiresAt.Local().Format(time.DateTime))
			if d.LeaseID != "" {
				t.add(tr("LEASE"), d.LeaseID)
			}
			t.print(cmd.OutOrStdout())
			if d.Explanation != nil {
				printExplanation(cmd, d.Explanation)
			}
		})
	cancel := &cobra.Command{
		Use: "cancel REQUEST", Short: tr("Withdraw a request that waits"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			r, err := c.CancelWaitingRequest(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return done(cmd, r, "Request %s is %s", r.Name, word("request_"+r.State))
		},
	}
	cmd.AddCommand(list, show, cancel)
	return cmd
}

func completeWaiting(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return asking(cmd, func(ctx context.Context, c *api.Client) ([]cobra.Completion, error) {
		list, err := c.WaitingRequests(ctx, true)
		var names []cobra.Completion
		for _, r := range list {
			if strings.HasPrefix(r.Name, typed) {
				names = append(names, cobra.CompletionWithDesc(r.Name, waitingLine(&r)))
			}
		}
		return names, err
	})
}
