package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
	"suanli.dev/internal/money"
)

// spotWishes are the flags by which rent bids instead of taking an offer.
type spotWishes struct {
	spot             bool
	bid, most        string
	model, zone      string
	gpus             int
	offerOrWhereUsed bool
}

func (s *spotWishes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&s.spot, "spot", false, tr("bid on the spot market, with --bid and --gpu-model"))
	f.StringVar(&s.bid, "bid", "", tr("the most that you pay for each GPU and hour; what you pay is the market's price"))
	f.StringVar(&s.most, "max-price", "", tr("a limit per GPU and hour that holds whatever the bid becomes"))
	f.StringVar(&s.model, "gpu-model", "", tr("GPU model to bid or wait for"))
	f.IntVar(&s.gpus, "gpus", 1, tr("how many GPUs on one host to bid or wait for"))
	f.StringVar(&s.zone, "zone", "", tr("zone to bid or wait in; a bid needs one if several have the model"))
}

// rentSpot places a bid, and waits until its lease runs.
func rentSpot(cmd *cobra.Command, c *api.Client, w *wishes, s *spotWishes, command []string, wait bool) error {
	if s.bid == "" || s.model == "" || s.offerOrWhereUsed {
		return usageError{errors.New(tr("--spot wants --bid and --gpu-model, and neither an offer nor --where: suanli market shows what there is"))}
	}
	r, err := w.makeLease("", command)
	if err != nil {
		return err
	}
	in := api.BidCreate{
		Name: r.Name, Zone: s.zone, GPUModel: s.model, GPUs: s.gpus, Template: w.quote.Template, Image: w.quote.Image, DiskGiB: w.quote.DiskGiB,
		Labels: r.Labels, Entrypoint: r.Entrypoint, Command: r.Command, StartScript: r.StartScript, NoticeSignal: r.NoticeSignal, NoticeCommand: r.NoticeCommand, Environment: r.Environment, Ports: r.Ports,
		StopAt: r.StopAt, IdleStop: r.IdleStop, SpendingCap: r.SpendingCap,
	}
	bid, most, err := prices(s.bid, s.most)
	if err != nil {
		return err
	}
	in.BidPerGPUHour, in.MaxPerGPUHour = *bid, most
	b, err := c.CreateBid(cmd.Context(), in)
	if err != nil {
		return err
	}
	say(cmd, "Bid %s (%s): %d × %s%s in %s, at most %s %s per GPU and hour", b.Name, b.ID, b.GPUs, b.GPUModel, mark(b.Simulated), b.Zone, b.BidPerGPUHour.Display(), b.Currency)
	if wait {
		if b, err = waitForPlace(cmd, c, b.ID); err != nil {
			return err
		}
		if _, err := waitFor(cmd, c, b.LeaseID, "running", "stopped"); err != nil {
			return err
		}
		say(cmd, "It costs %s %s per GPU and hour now. Enter it with: suanli ssh %s", b.PricePerGPUHour.Display(), b.Currency, b.Name)
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, b)
	}
	return nil
}

// prices reads a bid and a limit; either may be empty, and is nil then.
func prices(bid, most string) (b, m *api.Rate, err error) {
	for _, p := range []struct {
		text string
		into **api.Rate
	}{{bid, &b}, {most, &m}} {
		if p.text == "" {
			continue
		}
		v, err := api.ParseRate(p.text)
		if err != nil {
			return nil, nil, usageError{err}
		}
		*p.into = &v
	}
	return b, m, nil
}

// waitForPlace polls a bid until it has a lease, saying why it waits.
func waitForPlace(cmd *cobra.Command, c *api.Client, id string) (*api.Bid, error) {
	last := ""
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := c.Bid(cmd.Context(), id)
		if err != nil {
			return nil, err
		}
		if line := bidLine(b); line != last {
			say(cmd, "  %s", line)
			last = line
		}
		switch {
		case b.State == "failed" || b.State == "cancelled" || b.State == "over":
			return b, errors.New(tr("bid %s is %s: %s (%s)", b.ID, word(b.State), b.Message, b.Code))
		case b.LeaseID != "" && b.State != "waiting":
			return b, nil
		}
		select {
		case <-cmd.Context().Done():
			return nil, cmd.Context().Err()
		case <-tick.C:
		}
	}
}

// orNone writes a price, or that there is none: nobody runs at it.
func orNone(price money.Rate) string {
	if price == 0 {
		return "-"
	}
	return price.Display()
}

func bidLine(b *api.Bid) string {
	line := word(b.State)
	if b.Code != "" {
		line += ": " + reason(b.Code)
	}
	return line
}

func bidCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "bid", Short: tr("Bids on the spot market")}
	var every bool
	list := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: tr("List bids and what they pay"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			bids, err := c.Bids(cmd.Context(), !every)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, bids)
			}
			t := newTable(tr("NAME"), tr("ID"), tr("STATE"), tr("GPU"), tr("ZONE"), tr("BID"), tr("PRICE"), tr("LEAVES"))
			for _, b := range bids {
				leaves := ""
				if b.LeaveAt != nil {
					leaves = b.LeaveAt.Local().Format(time.TimeOnly)
				}
				t.add(b.Name, b.ID, bidLine(&b), fmt.Sprintf("%d × %s%s", b.GPUs, b.GPUModel, mark(b.Simulated)), b.Zone,
					b.BidPerGPUHour.Display()+" "+b.Currency, orNone(b.PricePerGPUHour), leaves)
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	list.Flags().BoolVar(&every, "all", false, tr("also those that are out of the market"))
	var bid, most string
	change := &cobra.Command{
		Use: "change BID", Short: tr("Raise or lower a bid"), Args: cobra.ExactArgs(1),
		Example: `  suanli bid change train --bid 0.55`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			var in api.BidUpdate
			if in.BidPerGPUHour, in.MaxPerGPUHour, err = prices(bid, most); err != nil {
				return err
			}
			if in == (api.BidUpdate{}) {
				return usageError{errors.New(tr("nothing to change: give --bid or --max-price"))}
			}
			b, err := c.UpdateBid(cmd.Context(), args[0], in)
			if err != nil {
				return err
			}
			return done(cmd, b, "Bid %s is at most %s %s per GPU and hour", b.Name, b.BidPerGPUHour.Display(), b.Currency)
		},
	}
	change.Flags().StringVar(&bid, "bid", "", tr("the most that you pay for each GPU and hour; what you pay is the market's price"))
	change.Flags().StringVar(&most, "max-price", "", tr("a limit per GPU and hour that holds whatever the bid becomes; 0: none"))
	cancel := &cobra.Command{
		Use: "cancel BID", Short: tr("Withdraw a bid and end its lease, disk included"), Args: cobra.ExactArgs(1),
		Long: tr("To stop bidding and keep the disk, stop the lease instead."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			b, err := c.CancelBid(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return done(cmd, b, "Bid %s is withdrawn", b.Name)
		},
	}
	cmd.AddCommand(list, change, cancel)
	return cmd
}

func completeBids(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return asking(cmd, func(ctx context.Context, c *api.Client) ([]cobra.Completion, error) {
		bids, err := c.Bids(ctx, true)
		var names []cobra.Completion
		for _, b := range bids {
			if strings.HasPrefix(b.Name, typed) {
				names = append(names, cobra.CompletionWithDesc(b.Name, bidLine(&b)))
			}
		}
		return names, err
	})
}

func spotMarketCommand() *cobra.Command {
	var q api.MarketQuery
	var history bool
	var since time.Duration
	var bid string
	var share int
	cmd := &cobra.Command{
		Use: "market", Short: tr("Prices of the spot market, now and in the past"), Args: cobra.NoArgs,
		Long: tr("Each GPU model in each zone is a market, and each bundle size in it has its own price per GPU and hour, which all pay who run it. The ask is the lowest bid that would get a place now."),
		Example: `  suanli market
  suanli market --history --gpu-model "RTX 4090" --gpus 2 --since 48h`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if history {
				return priceHistory(cmd, c, q, since, bid, share)
			}
			list, err := c.SpotMarkets(cmd.Context(), api.MarketQuery{Zone: q.Zone, GPUModel: q.GPUModel})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, list)
			}
			t := newTable(tr("GPU"), tr("ZONE"), tr("PRICE"), tr("ASK"), tr("BIDS"), tr("RUNNING"))
			for _, m := range list {
				for _, g := range m.Goods {
					price, ask := "-", "-"
					if g.Won > 0 {
						price = g.Price.Display() + " " + m.Currency
					}
					if g.Ask > 0 {
						ask = g.Ask.Display() + " " + m.Currency
					}
					t.add(fmt.Sprintf("%d × %s%s", g.GPUs, m.GPUModel, mark(m.Simulated)), m.Zone, price, ask, g.Bids, g.Won)
				}
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.GPUModel, "gpu-model", "", tr("only this GPU model"))
	f.StringVar(&q.Zone, "zone", "", tr("only this zone"))
	f.BoolVar(&history, "history", false, tr("past prices of one bundle size of a model, and advice on a bid"))
	f.IntVar(&q.GPUs, "gpus", 1, tr("the bundle size, with --history"))
	f.DurationVar(&since, "since", 7*24*time.Hour, tr("how far back, with --history"))
	f.StringVar(&bid, "bid", "", tr("with --history: how this bid would have fared, instead of a suggestion"))
	f.IntVar(&share, "share", 90, tr("with --history: suggest a bid that would have run so many per cent of the time"))
	return cmd
}

func priceHistory(cmd *cobra.Command, c *api.Client, q api.MarketQuery, since time.Duration, bid string, share int) error {
	if q.GPUModel == "" {
		return usageError{errors.New(tr("--history is of one model: give --gpu-model"))}
	}
	q.From = time.Now().Add(-since)
	h, err := c.PriceHistory(cmd.Context(), q)
	if err != nil {
		return err
	}
	offered, _, err := prices(bid, "")
	if err != nil {
		return err
	}
	var ask api.Rate
	if offered != nil {
		ask = *offered
	}
	advice, adviceErr := c.BidAdvice(cmd.Context(), q, ask, share*100)
	if wantsJSON(cmd) {
		return printJSON(cmd, struct {
			*api.PriceHistory
			Advice *api.BidAdvice `json:"advice"`
		}{h, advice})
	}
	t := newTable(tr("SINCE"), tr("PRICE"), tr("ASK"))
	for _, s := range h.Steps {
		t.add(s.At.Local().Format(time.DateTime), orNone(s.Price), orNone(s.Ask))
	}
	t.print(cmd.OutOrStdout())
	say(cmd, "%d × %s%s in %s, in %s per GPU and hour: %s to %s, for half of the time at most %s, for 90 %% of it at most %s",
		h.GPUs, h.GPUModel, mark(h.Simulated), h.Zone, h.Currency, h.Min.Display(), h.Max.Display(), h.P50.Display(), h.P90.Display())
	if adviceErr != nil {
		say(cmd, "No advice: %s", explained(adviceErr))
		return nil
	}
	say(cmd, "In that time a bid of %s would have run %d.%02d %% of the time, with %d interruptions, for %s per GPU and hour. That is no promise.",
		advice.BidPerGPUHour.Display(), advice.ShareBasisPoints/100, advice.ShareBasisPoints%100, advice.Interruptions, advice.MeanPerGPUHour.Display())
	return nil
}
