package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
	"suanli.dev/internal/money"
)

// wishes are the flags that say what to rent.
type wishes struct {
	quote  api.QuoteRequest
	create api.LeaseCreate
	where  string
	runFor time.Duration
	stop   deadline
	idle   time.Duration
	// idleGiven says whether idle was: without, the template or the cloud decides.
	idleGiven func() bool
	env       []string
	labels    []string
	volumes   []string
	script    string
	cap       string
	egress    int64
}

func (w *wishes) quoteFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.where, "where", "", tr("expression that picks the cheapest matching offer, instead of an offer's id"))
	f.StringVar(&w.quote.Template, "template", "", tr("template to run"))
	f.StringVar(&w.quote.Image, "image", "", tr("image to run, instead of the template's"))
	f.Int64Var(&w.quote.DiskGiB, "disk", 0, tr("disk in GiB (default: the template's)"))
	f.DurationVar(&w.runFor, "run-for", 0, tr("also price this run time, such as 8h"))
	f.Int64Var(&w.egress, "egress-gb", 0, tr("GB that you expect to send in that time"))
	f.StringVar(&w.quote.Plan, "plan", "", tr("how it is paid: on_demand (default) or monthly, in advance"))
	f.IntVar(&w.quote.TermMonths, "months", 0, tr("months to pay in advance at once: 1, 3, 6 or 12"))
	f.BoolVar(&w.quote.Renews, "renew", false, tr("pay for another term whenever one ends"))
	f.StringVar(&w.quote.OnLapse, "on-lapse", "", tr("when the months end: stop (default), or on_demand to run on and pay by use"))
}

func (w *wishes) leaseFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.create.Name, "name", "", tr("name of the lease"))
	f.StringArrayVarP(&w.env, "env", "e", nil, tr("environment variable NAME=VALUE; may be repeated"))
	f.StringArrayVar(&w.labels, "label", nil, tr("label KEY=VALUE; may be repeated"))
	f.StringVar(&w.script, "start-script", "", tr("file whose content is run when the instance starts"))
	f.StringVar(&w.create.NoticeSignal, "notice-signal", "", tr("signal to the command when a spot lease is told of its interruption, such as SIGUSR1"))
	f.StringVar(&w.create.NoticeCommand, "notice-command", "", tr("line of shell to run inside then"))
	f.IntSliceVarP(&w.create.Ports, "port", "p", nil, tr("TCP port served inside; may be repeated"))
	w.stop.flags(cmd)
	f.DurationVar(&w.idle, "idle-stop", 0, tr("stop when nobody has used it for this time; 0: never"))
	w.idleGiven = func() bool { return f.Changed("idle-stop") }
	f.StringVar(&w.cap, "spending-cap", "", tr("stop when this much is due"))
}

// offer returns the offer that the arguments name.
func (w *wishes) offer(ctx context.Context, c *api.Client, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	with, err := whereVolumes(ctx, c, w.volumes)
	if err != nil {
		return "", err
	}
	if with != "" && strings.TrimSpace(w.where) != "" {
		with = "(" + w.where + ") and " + with
	}
	if with != "" {
		w.where = with
	}
	// What one has to wait for only where there is nothing else.
	atOnce := "available_after_seconds = 0"
	if strings.TrimSpace(w.where) != "" {
		atOnce = "(" + w.where + ") and " + atOnce
	}
	found, err := c.Offers(ctx, api.OfferQuery{Where: atOnce, DiskGiB: w.quote.DiskGiB, Limit: 1})
	if err != nil || len(found.Items) == 0 {
		// Also where the expression is wrong, so that what is said is about the renter's own.
		found, err = c.Offers(ctx, api.OfferQuery{Where: w.where, DiskGiB: w.quote.DiskGiB, Limit: 1})
	}
	if err != nil {
		return "", err
	}
	if len(found.Items) == 0 {
		return "", errors.New(tr("nothing on the market matches; loosen --where, or look with suanli search"))
	}
	return found.Items[0].ID, nil
}

func (w *wishes) makeQuote(ctx context.Context, c *api.Client, args []string) (*api.Quote, error) {
	offer, err := w.offer(ctx, c, args)
	if err != nil {
		return nil, err
	}
	w.quote.OfferID = offer
	w.quote.RunSeconds = int64(w.runFor / time.Second)
	w.quote.EgressBytes = w.egress * 1_000_000_000
	return c.CreateQuote(ctx, w.quote)
}

func (w *wishes) makeLease(quoteID string, command []string) (api.LeaseCreate, error) {
	r := w.create
	r.QuoteID, r.Command = quoteID, command
	var err error
	if r.Environment, err = pairs("--env", w.env); err != nil {
		return r, err
	}
	if r.Volumes, err = mounts(w.volumes); err != nil {
		return r, err
	}
	if r.Labels, err = pairs("--label", w.labels); err != nil {
		return r, err
	}
	if w.script != "" {
		b, err := os.ReadFile(w.script)
		if err != nil {
			return r, err
		}
		r.StartScript = string(b)
	}
	if r.StopAt, err = w.stop.moment(time.Now()); err != nil {
		return r, err
	}
	if r.StopAt != nil && r.StopAt.IsZero() { // never, which is what a new lease has
		r.StopAt = nil
	}
	if w.idleGiven() { // also 0: it stands against the template's
		r.IdleStop = &api.IdleStop{AfterSeconds: int64(w.idle / time.Second), GPUPercent: 5, CPUPercent: 5}
	}
	if w.cap != "" {
		ceiling, err := money.ParseAmount(w.cap)
		r.SpendingCap = &ceiling
		if err != nil {
			return r, usageError{err}
		}
	}
	return r, nil
}

// pairs reads NAME=VALUE arguments.
func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, p := range list {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, usageError{errors.New(tr("%s %q: want NAME=VALUE", flag, p))}
		}
		m[k] = v
	}
	return m, nil
}

func quoteCommand() *cobra.Command {
	w := &wishes{}
	var allPlans bool
	cmd := &cobra.Command{
		Use: "quote [OFFER]", Short: tr("Freeze and show the whole price of an offer"), Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if allPlans {
				return w.comparePlans(cmd, c, args)
			}
			q, err := w.makeQuote(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, q)
			}
			printQuote(cmd, q)
			return nil
		},
	}
	w.quoteFlags(cmd)
	cmd.Flags().BoolVar(&allPlans, "all-plans", false, tr("price it under all plans, side by side; nothing is frozen"))
	return cmd
}

func printQuote(cmd *cobra.Command, q *api.Quote) {
	say(cmd, "Quote %s, valid until %s", q.ID, q.ValidUntil.Local().Format(time.DateTime))
	say(cmd, "%d × %s%s, %d GiB disk, image %s", q.GPUCount, q.GPUModel, mark(q.Simulated), q.DiskGiB, q.Image)
	if q.AvailableAfterSeconds > 0 {
		say(cmd, "Its GPUs are let on the spot market: it starts when they have been left, after %s, and costs nothing before", short(q.AvailableAfterSeconds))
	}
	t := newTable(tr("METER"), tr("RATE"), tr("QUANTITY"), tr("PER HOUR"), tr("PER DAY"), tr("PER MONTH"), tr("FOR THE RUN"))
	for _, l := range q.Lines {
		t.add(word(l.Meter), l.Rate.Display()+" / "+word(l.Unit), l.Quantity, l.PerHour.Display(), l.PerDay.Display(), l.PerMonth.Display(), l.ForRun.Display())
	}
	t.add(tr("total"), q.Currency, "", q.PerHour.Display(), q.PerDay.Display(), q.PerMonth.Display(), q.ForRun.Display())
	t.print(cmd.OutOrStdout())
	printExchange(cmd, q.Exchange)
	printPriceList(cmd, q)
	if q.TermMonths > 0 {
		say(cmd, "%d months cost %s %s, taken from the balance at acceptance.", q.TermMonths, q.DueNow.Display(), q.Currency)
		if q.Renews {
			say(cmd, "Whenever they end, another term is paid for. Without the money for it: %s.", word("lapse_"+q.OnLapse))
		} else {
			say(cmd, "When they end: %s.", word("lapse_"+q.OnLapse))
		}
	}
	stopped := q.PricePerHourByState["stopped"].Display()
	if q.Granularity == "second" { // a second that has only begun is not counted
		say(cmd, "Running time counts in whole seconds, at least %d s at each start. A stopped lease costs %s an hour for its disk.", q.MinimumSeconds, stopped)
	} else {
		say(cmd, "Running time is rounded up to the %s, at least %d s at each start. A stopped lease costs %s an hour for its disk.", q.Granularity, q.MinimumSeconds, stopped)
	}
	if len(q.NotIncluded) > 0 {
		left := make([]string, len(q.NotIncluded))
		for i, n := range q.NotIncluded {
			left[i] = word(n)
		}
		say(cmd, "Not included: %s", strings.Join(left, "; "))
	}
}

// mark labels what is simulated, wherever it is shown.
func mark(simulated bool) string {
	if simulated {
		return tr(" [simulated]")
	}
	return ""
}

func rentCommand() *cobra.Command {
	w := &wishes{}
	var spot spotWishes
	var queue queueWishes
	var wait waiting
	cmd := &cobra.Command{
		Use: "rent [OFFER] [-- COMMAND…]", Short: tr("Rent a GPU: quote, accept, wait until it runs"),
		Example: `  suanli rent --where 'gpu_count = 1' --template jupyterlab --name lab --stop-in 8h
  suanli rent --where 'gpu_model = "RTX 4090"' --image debian:12 --disk 50 --no-wait -- sleep 3600
  suanli rent --spot --bid 0.40 --gpu-model "RTX 4090" --template jupyterlab --name cheap
  suanli rent --queue 6h --max-per-hour 2.50 --gpu-model H100 --gpus 8 --stop-in 12h --template pytorch --name train`,
		RunE: func(cmd *cobra.Command, args []string) error {
			offer, command := args, []string(nil)
			if n := cmd.ArgsLenAtDash(); n >= 0 {
				offer, command = args[:n], args[n:]
			}
			if len(offer) > 1 {
				return usageError{errors.New(tr("one offer at a time; a command to run goes after --"))}
			}
			c, err := client(cmd)
			if err != nil {
				return err
			}
			spot.offerOrWhereUsed = len(offer) > 0 || w.where != ""
			if cmd.Flags().Changed("queue") {
				return rentQueued(cmd, c, w, &spot, &queue, command, wait, cmd.Flags().Changed("wait") && wait.yes())
			}
			if spot.spot {
				if len(w.volumes) > 0 {
					return usageError{errors.New(tr("volumes cannot be named for the spot market yet: rent, stop the lease, and then suanli volume attach"))}
				}
				return rentSpot(cmd, c, w, &spot, command, wait.yes())
			}
			q, err := w.makeQuote(cmd.Context(), c, offer)
			if err != nil {
				return err
			}
			if !wantsJSON(cmd) {
				printQuote(cmd, q)
			}
			r, err := w.makeLease(q.ID, command)
			if err != nil {
				return err
			}
			l, err := c.CreateLease(cmd.Context(), r)
			if err != nil {
				return err
			}
			say(cmd, "Lease %s (%s) is accepted", l.Name, l.ID)
			if wait.yes() {
				if l, err = waitFor(cmd, c, l.ID, "running", "stopped"); err != nil {
					return err
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, l)
			}
			say(cmd, "Enter it with: suanli ssh %s", l.Name)
			return nil
		},
	}
	w.quoteFlags(cmd)
	w.leaseFlags(cmd)
	spot.flags(cmd)
	queue.flags(cmd)
	cmd.Flags().StringArrayVar(&w.volumes, "volume", nil, tr("a volume and where it is mounted, NAME:/path[:ro] (repeatable)"))
	wait.flags(cmd, tr("wait until it runs"))
	return cmd
}

// waiting is whether a command returns only when what it began is done.
type waiting struct{ wait, not bool }

func (w *waiting) flags(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVar(&w.wait, "wait", true, usage)
	cmd.Flags().BoolVar(&w.not, "no-wait", false, tr("return at once"))
}

func (w *waiting) yes() bool { return w.wait && !w.not }

// waitFor polls a lease until it is in one of the states, showing progress. A
// lease that fails or ends meanwhile is an error with its reason.
func waitFor(cmd *cobra.Command, c *api.Client, id string, states ...string) (*api.Lease, error) {
	ctx := cmd.Context()
	last := ""
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		l, err := c.Lease(ctx, id)
		if ctx.Err() != nil {
			return nil, cutOff(id)
		}
		if err != nil {
			return nil, err
		}
		line := word(l.State)
		if l.WaitsUntil != nil {
			line += ", " + tr("waits for its GPUs until %s", l.WaitsUntil.Local().Format(time.TimeOnly))
		}
		if p := l.Progress; p != nil && l.State != "running" {
			line += ", " + word(p.Phase)
			if p.TotalBytes > 0 {
				line += fmt.Sprintf(" %d/%d MB", p.PulledBytes/1e6, p.TotalBytes/1e6)
			}
		}
		if line != last {
			say(cmd, "  %s", line)
			last = line
		}
		for _, s := range states {
			if l.State == s {
				return l, nil
			}
		}
		switch l.State {
		case "failed", "ended":
			return l, errors.New(tr("lease %s is %s: %s (%s)", l.ID, word(l.State), l.Message, l.Code))
		case "stopped":
			if l.Code != "" && l.Code != "commanded" {
				return l, errors.New(tr("lease %s is %s: %s (%s)", l.ID, word(l.State), l.Message, l.Code))
			}
		}
		select {
		case <-ctx.Done():
			return nil, cutOff(id)
		case <-tick.C:
		}
	}
}

// cutOff is what somebody should know who stops a command that waits.
func cutOff(id string) error {
	return errors.New(tr("no longer waiting: the cloud has the request and goes on with it; see: suanli show %s", id))
}

func psCommand() *cobra.Command {
	var all bool
	var state string
	cmd := &cobra.Command{
		Use: "ps", Aliases: []string{"ls", "list"}, Short: tr("List leases"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			var list []api.Lease
			for cursor := ""; ; {
				p, err := c.Leases(cmd.Context(), state, !all && state == "", cursor, 100)
				if err != nil {
					return err
				}
				list = append(list, p.Items...)
				if cursor = p.NextCursor; cursor == "" {
					break
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, list)
			}
			t := newTable(tr("NAME"), tr("ID"), tr("STATE"), tr("GPU"), tr("IMAGE"), tr("PER HOUR"), tr("AGE"))
			for _, l := range list {
				t.add(l.Name, l.ID, word(l.State), fmt.Sprintf("%d × %s%s", l.GPUCount, l.GPUModel, mark(l.Simulated)), l.Image,
					l.PerHour.Display()+" "+l.Currency, time.Since(l.CreatedAt).Round(time.Second))
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, tr("those that are over, too"))
	cmd.Flags().StringVar(&state, "state", "", tr("only those in this state"))
	return cmd
}

func showCommand() *cobra.Command {
	return showing("show LEASE", tr("Show one lease"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Lease, error) {
			return c.Lease(cmd.Context(), args[0])
		},
		func(cmd *cobra.Command, l *api.Lease) {
			t := newTable(tr("NAME"), l.Name)
			t.add(tr("ID"), l.ID)
			t.add(tr("STATE"), strings.TrimSpace(word(l.State)+" "+l.Message))
			t.add(tr("GPU"), fmt.Sprintf("%d × %s%s", l.GPUCount, l.GPUModel, mark(l.Simulated)))
			t.add(tr("CPU, MEMORY, DISK"), fmt.Sprintf("%s, %d MiB, %d GiB", cpus(l.CPUMillis), l.MemoryMiB, l.DiskGiB))
			t.add(tr("HOST"), l.HostID+" ("+l.Region+", "+l.Zone+")")
			t.add(tr("IMAGE"), l.Image)
			t.add(tr("PER HOUR"), l.PerHour.Display()+" "+l.Currency)
			if l.ExitCode != nil {
				t.add(tr("EXIT CODE"), strconv.Itoa(*l.ExitCode))
			}
			if l.StopAt != nil {
				t.add(tr("STOPS AT"), l.StopAt.Local().Format(time.DateTime))
			}
			t.print(cmd.OutOrStdout())
		})
}

func cpus(millis int64) string { return strconv.FormatFloat(float64(millis)/1000, 'f', -1, 64) }

// act is a command that moves one lease and waits for where it leads.
func act(use, short string, do func(*api.Client, context.Context, string) (*api.Lease, error), states ...string) *cobra.Command {
	var wait waiting
	cmd := &cobra.Command{
		Use: use + " LEASE", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			l, err := do(c, cmd.Context(), args[0])
			if err != nil && cmd.Context().Err() != nil {
				return errors.New(tr("cut off before the cloud answered: it may have the request; see: suanli show %s", args[0]))
			}
			if err != nil {
				return err
			}
			if wait.yes() {
				if l, err = waitFor(cmd, c, l.ID, states...); err != nil {
					return err
				}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, l)
			}
			say(cmd, "Lease %s is %s", l.Name, word(l.State))
			return nil
		},
	}
	wait.flags(cmd, tr("wait until it is done"))
	return cmd
}

func stopCommand() *cobra.Command {
	return act("stop", tr("Stop a lease and keep its disk"), (*api.Client).StopLease, "stopped")
}

func startCommand() *cobra.Command {
	return act("start", tr("Start a stopped lease on its disk"), (*api.Client).StartLease, "running")
}

func restartCommand() *cobra.Command {
	return act("restart", tr("Give a lease a new container on the same disk"), (*api.Client).RestartLease, "running")
}

func endCommand() *cobra.Command {
	return act("end", tr("End a lease for good, disk included"), (*api.Client).EndLease, "ended", "failed")
}

func setCommand() *cobra.Command {
	var name string
	var stop deadline
	var labels []string
	var idle time.Duration
	cmd := &cobra.Command{
		Use: "set LEASE", Short: tr("Change name, labels, deadline or idle stop of a lease"), Args: cobra.ExactArgs(1),
		Example: `  suanli set lab --stop-in 2h
  suanli set lab --stop-at never --idle-stop 30m`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			var u api.LeaseUpdate
			if cmd.Flags().Changed("name") {
				u.Name = &name
			}
			if u.Labels, err = pairs("--label", labels); err != nil {
				return err
			}
			if u.StopAt, err = stop.moment(time.Now()); err != nil {
				return err
			}
			if cmd.Flags().Changed("idle-stop") {
				u.IdleStop = &api.IdleStop{AfterSeconds: int64(idle / time.Second), GPUPercent: 5, CPUPercent: 5}
			}
			l, err := c.UpdateLease(cmd.Context(), args[0], u)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, l)
			}
			say(cmd, "Lease %s is changed", l.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", tr("new name"))
	cmd.Flags().StringArrayVar(&labels, "label", nil, tr("all its labels, KEY=VALUE; may be repeated"))
	stop.flags(cmd)
	cmd.Flags().DurationVar(&idle, "idle-stop", 0, tr("stop when nobody has used it for this time; 0: never"))
	return cmd
}

// deadline is when a lease stops by itself, as two flags that every command with
// a deadline has alike.
type deadline struct {
	at string
	in time.Duration
}

func (d *deadline) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.at, "stop-at", "", tr("stop at this time, such as 2026-05-01T12:00:00Z; never: no deadline"))
	cmd.Flags().DurationVar(&d.in, "stop-in", 0, tr("stop this long from now, such as 8h"))
}

// moment is when to stop: nil if nothing was said, the zero time for never.
func (d *deadline) moment(now time.Time) (*time.Time, error) {
	switch {
	case d.at != "" && d.in != 0:
		return nil, usageError{errors.New(tr("--stop-at and --stop-in say the same thing; give one of them"))}
	case d.in < 0:
		return nil, usageError{errors.New(tr("--stop-in %s is in the past", d.in))}
	case d.in != 0:
		t := now.Add(d.in).UTC().Truncate(time.Second)
		return &t, nil
	case d.at == "":
		return nil, nil
	case d.at == "never":
		return &time.Time{}, nil
	}
	t, err := moment(d.at, now)
	if err != nil {
		return nil, usageError{err}
	}
	return &t, nil
}

// moment reads a time or a duration from now.
func moment(s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(d).UTC().Truncate(time.Second), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, errors.New(tr("%q is neither a time like 2026-05-01T12:00:00Z nor a duration like 8h", s))
	}
	return t, nil
}

func historyCommand() *cobra.Command {
	return showing("history LEASE", tr("Show what happened to a lease"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) ([]api.LeaseChange, error) {
			return c.LeaseHistory(cmd.Context(), args[0])
		},
		func(cmd *cobra.Command, list []api.LeaseChange) {
			t := newTable(tr("TIME"), tr("EVENT"), tr("STATE"), tr("REASON"))
			for _, e := range list {
				t.add(e.At.Local().Format(time.DateTime), word(e.Event), word(e.To), strings.TrimSpace(word(e.Code)+" "+e.Message))
			}
			t.print(cmd.OutOrStdout())
		})
}
