package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// reserveWishes are the flags that say what to reserve.
type reserveWishes struct {
	ask           api.ReservationQuestion
	until, begins string
}

func (w *reserveWishes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&w.ask.GPUModel, "gpu-model", "", tr("GPU model to reserve, instead of an offer's id"))
	f.IntVar(&w.ask.GPUs, "gpus", 1, tr("how many GPUs on one host to reserve"))
	f.StringVar(&w.ask.Region, "region", "", tr("only in this region"))
	f.StringVar(&w.ask.Zone, "zone", "", tr("only in this zone"))
	f.BoolVar(&w.ask.Simulated, "simulated", false, tr("simulated GPUs"))
	f.IntVar(&w.ask.TermMonths, "months", 0, tr("months to reserve for"))
	f.StringVar(&w.until, "until", "", tr("a custom end, such as 2027-01-31T00:00:00Z, instead of months"))
	f.StringVar(&w.begins, "begins", "", tr("when it begins, such as 2027-01-01T00:00:00Z (default: now)"))
	f.StringVar(&w.ask.Payment, "payment", "", tr("how much is paid at once: none (default), partial or all"))
}

func (w *reserveWishes) question(args []string) (api.ReservationQuestion, error) {
	q := w.ask
	if len(args) > 0 {
		q.OfferID, q.GPUModel, q.GPUs = args[0], "", 0
	}
	for _, m := range []struct {
		flag, text string
		into       **time.Time
	}{{"--until", w.until, &q.Until}, {"--begins", w.begins, &q.BeginsAt}} {
		if m.text == "" {
			continue
		}
		t, err := time.Parse(time.RFC3339, m.text)
		if err != nil {
			return q, usageError{errors.New(tr("%s %q: want a moment such as 2027-01-31T00:00:00Z", m.flag, m.text))}
		}
		*m.into = &t
	}
	if q.TermMonths == 0 && q.Until == nil {
		q.TermMonths = 1
	}
	return q, nil
}

func reserveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "reserve", Short: tr("Reserve GPUs for a term, at a price of their own")}
	cmd.AddCommand(reserveQuoteCommand(), reserveCreateCommand(),
		listing("ls", tr("List your reservations"), func(ctx context.Context, c *api.Client) ([]api.Reservation, error) { return c.Reservations(ctx, false) },
			[]string{tr("NAME"), tr("STATE"), tr("GPUS"), tr("ZONE"), tr("UNTIL"), tr("PER GPU AND HOUR"), tr("RENEWS")},
			func(r api.Reservation) []any {
				return []any{r.Name, word("reserve_" + r.State), strconv.Itoa(r.GPUs) + " × " + r.GPUModel + mark(r.Simulated), r.Zone, r.Until.Local().Format(time.DateTime), r.PerHour.Display(), yesNo(r.Renews)}
			}),
		reserveShowCommand(), reserveSetCommand(), reserveCancelCommand())
	return cmd
}

func yesNo(b bool) string {
	if b {
		return tr("yes")
	}
	return tr("no")
}

func reserveQuoteCommand() *cobra.Command {
	var w reserveWishes
	cmd := showing("quote [OFFER]", tr("What a reservation costs, with all payments"), cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.ReservationPrice, error) {
			q, err := w.question(args)
			if err != nil {
				return nil, err
			}
			return c.QuoteReservation(cmd.Context(), q)
		}, printReservationPrice)
	w.flags(cmd)
	return cmd
}

func printReservationPrice(cmd *cobra.Command, q *api.ReservationPrice) {
	say(cmd, "%d × %s%s in %s, on host %s", q.GPUs, q.GPUModel, mark(q.Simulated), q.Zone, q.HostID)
	t := newTable(tr("FROM"), q.From.Local().Format(time.DateTime))
	t.add(tr("UNTIL"), q.Until.Local().Format(time.DateTime))
	t.add(tr("HOURS"), strconv.FormatInt(q.Hours, 10))
	t.add(tr("DUE NOW"), q.DueNow.Display()+" "+q.Currency)
	t.add(tr("PER GPU AND HOUR"), q.PerHour.Display())
	t.add(tr("ON DEMAND"), q.OnDemandPerHour.Display())
	t.add(tr("TOTAL"), q.Total.Display())
	t.add(tr("SAVING"), q.Saving.Display()+" ("+q.DiscountPercent+" %)")
	t.add(tr("CHEAPER FROM"), tr("%d hours of use", q.BreakEvenHours))
	t.print(cmd.OutOrStdout())
	p := newTable(tr("PAYMENT"), tr("FROM"), tr("TO"), tr("AMOUNT"))
	for _, i := range q.Schedule {
		p.add(i.At.Local().Format(time.DateTime), i.From.Local().Format(time.DateTime), i.Until.Local().Format(time.DateTime), i.Amount.Display())
	}
	p.print(cmd.OutOrStdout())
}

func reserveCreateCommand() *cobra.Command {
	var w reserveWishes
	var in api.ReservationCreate
	var agree string
	cmd := &cobra.Command{
		Use: "create [OFFER]", Short: tr("Reserve GPUs"), Args: cobra.MaximumNArgs(1),
		Long: tr("Shows what it comes to. With --agree TOTAL it is bought, if it costs no more than that."),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := w.question(args)
			if err != nil {
				return err
			}
			c, err := client(cmd)
			if err != nil {
				return err
			}
			if agree == "" {
				price, err := c.QuoteReservation(cmd.Context(), q)
				if err != nil {
					return err
				}
				if wantsJSON(cmd) {
					return printJSON(cmd, price)
				}
				printReservationPrice(cmd, price)
				say(cmd, "With --agree %s it is bought.", price.Total)
				return nil
			}
			if in.AgreedTotal, err = money.ParseAmount(agree); err != nil {
				return usageError{err}
			}
			in.ReservationQuestion = q
			r, err := c.CreateReservation(cmd.Context(), in)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, r)
			}
			say(cmd, "Reserved %d × %s%s until %s: %s (%s)", r.GPUs, r.GPUModel, mark(r.Simulated), r.Until.Local().Format(time.DateTime), r.Name, r.ID)
			return nil
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&in.Name, "name", "", tr("name of the reservation"))
	cmd.Flags().BoolVar(&in.Renews, "renew", false, tr("carry it on whenever it ends, if an hour costs no more then"))
	cmd.Flags().StringVar(&agree, "agree", "", tr("buy it, for this total at most"))
	return cmd
}

func printReservation(cmd *cobra.Command, r *api.Reservation) {
	t := newTable(tr("NAME"), r.Name+" ("+r.ID+")")
	state := word("reserve_" + r.State)
	if r.Code != "" {
		state += ": " + word(r.Code)
	}
	t.add(tr("STATE"), state)
	t.add(tr("GPUS"), strconv.Itoa(r.GPUs)+" × "+r.GPUModel+mark(r.Simulated))
	t.add(tr("ZONE"), r.Zone)
	t.add(tr("HOST"), r.HostID)
	t.add(tr("FROM"), r.From.Local().Format(time.DateTime))
	t.add(tr("UNTIL"), r.Until.Local().Format(time.DateTime))
	t.add(tr("PER GPU AND HOUR"), r.PerHour.Display()+" "+r.Currency)
	t.add(tr("AT ONCE"), r.Upfront.Display())
	t.add(tr("RENEWS"), yesNo(r.Renews))
	t.print(cmd.OutOrStdout())
}

func reserveShowCommand() *cobra.Command {
	var days int
	cmd := &cobra.Command{
		Use: "show RESERVATION", Short: tr("Show a reservation, what it has cost and how it was used"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			d, err := c.Reservation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var from time.Time
			if days > 0 {
				from = time.Now().AddDate(0, 0, -days)
			}
			hours, err := c.ReservationHours(cmd.Context(), args[0], from, time.Time{})
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, struct {
					*api.ReservationDetails
					Hours []api.ReservationHour `json:"hours"`
				}{d, hours})
			}
			printReservation(cmd, &d.Reservation)
			say(cmd, "So far it has cost %s %s.", d.Due.Display(), d.Currency)
			if e := d.IfEnded; e != nil {
				say(cmd, "Ended now it holds until %s; to be paid, or given back if negative: %s.", e.Until.Local().Format(time.DateTime), e.Net.Display())
			}
			for _, l := range d.Lost {
				say(cmd, "Not held, and not charged: %s to %s", l.From.Local().Format(time.DateTime), l.Until.Local().Format(time.DateTime))
			}
			t := newTable(tr("TIME"), tr("USED"), tr("COST"), tr("OF IT UNUSED"), tr("LEASES"))
			for _, row := range byDay(hours, days > 1) {
				t.add(row.label, strconv.FormatInt(row.used*100/max(1, row.capacity), 10)+" %", row.cost.Display(), row.unused.Display(), strings.Join(row.leases, " "))
			}
			t.print(cmd.OutOrStdout())
			return nil
		},
	}
	cmd.Flags().IntVar(&days, "days", 1, tr("how far back use is shown, at most 31; beyond 1 by the day"))
	return cmd
}

// usedRow is how a reservation was used in an hour or a day.
type usedRow struct {
	label          string
	capacity, used int64
	cost, unused   api.Amount
	leases         []string
}

func byDay(hours []api.ReservationHour, days bool) []usedRow {
	var out []usedRow
	for _, h := range hours {
		label := h.Hour.Local().Format("2006-01-02 15:04")
		if days {
			label = h.Hour.Local().Format(time.DateOnly)
		}
		if n := len(out); n == 0 || out[n-1].label != label {
			out = append(out, usedRow{label: label})
		}
		r := &out[len(out)-1]
		r.capacity, r.used, r.cost, r.unused = r.capacity+h.CapacitySeconds, r.used+h.UsedSeconds, r.cost+h.Cost, r.unused+h.UnusedCost
		for _, l := range h.Leases {
			if !strings.Contains(strings.Join(r.leases, " "), l.LeaseID) {
				r.leases = append(r.leases, l.LeaseID)
			}
		}
	}
	return out
}

func reserveSetCommand() *cobra.Command {
	var renew, not bool
	var name string
	cmd := showing("set RESERVATION", tr("Rename a reservation, or change whether it renews"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Reservation, error) {
			var u api.ReservationUpdate
			switch {
			case renew && not:
				return nil, usageError{errors.New(tr("--renew or --no-renew, not both"))}
			case renew || not:
				u.Renews = &renew
			}
			if name != "" {
				u.Name = &name
			}
			return c.UpdateReservation(cmd.Context(), args[0], u)
		}, printReservation)
	cmd.Flags().BoolVar(&renew, "renew", false, tr("carry it on whenever it ends, if an hour costs no more then"))
	cmd.Flags().BoolVar(&not, "no-renew", false, tr("let it end"))
	cmd.Flags().StringVar(&name, "name", "", tr("name of the reservation"))
	return cmd
}

func reserveCancelCommand() *cobra.Command {
	var agree bool
	cmd := &cobra.Command{
		Use: "cancel RESERVATION", Short: tr("End a reservation early"), Args: cobra.ExactArgs(1),
		Long: tr("Shows what it comes to. With --agree it is done: the hours so far then cost the price on demand, at most what the whole term costs."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			d, err := c.Reservation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !agree {
				if wantsJSON(cmd) {
					return printJSON(cmd, d)
				}
				if e := d.IfEnded; e != nil {
					say(cmd, "Ended now it holds until %s; to be paid, or given back if negative: %s.", e.Until.Local().Format(time.DateTime), e.Net.Display())
					say(cmd, "With --agree it is done.")
				} else {
					printReservation(cmd, &d.Reservation)
				}
				return nil
			}
			var net api.Amount
			if d.IfEnded != nil {
				net = max(0, d.IfEnded.Net)
			}
			r, err := c.CancelReservation(cmd.Context(), args[0], net)
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, r)
			}
			printReservation(cmd, r)
			return nil
		},
	}
	cmd.Flags().BoolVar(&agree, "agree", false, tr("do it, for what the preview says"))
	return cmd
}

// hostReserveCommand sets what a host takes off for reservations.
func hostReserveCommand() *cobra.Command {
	var terms string
	var partial, all int64
	cmd := &cobra.Command{
		Use: "reserve HOST", Short: tr("Set what a host takes off for reservations"), Args: cobra.ExactArgs(1),
		Example: `  suanli host reserve gpu-01 --terms "1=5% 3=10% 12=25%" --all-upfront 300`,
		RunE: func(cmd *cobra.Command, args []string) error {
			table, err := pricing.ParseTerms(terms)
			if err != nil {
				return usageError{err}
			}
			curve := &api.ReserveCurve{Terms: []api.TermDiscount{}, PartialBasisPoints: partial, AllBasisPoints: all}
			for _, t := range table {
				curve.Terms = append(curve.Terms, api.TermDiscount(t))
			}
			c, id, err := hostNamed(cmd, args[0])
			if err != nil {
				return err
			}
			h, err := c.UpdateListing(cmd.Context(), id, api.UpdateListing{Reserved: curve})
			return hostResult(cmd, h, err)
		},
	}
	cmd.Flags().StringVar(&terms, "terms", "", tr("terms in months (1, 3, 6, 12) and what each takes off; empty: no reservations"))
	cmd.Flags().Int64Var(&partial, "partial-upfront", 0, tr("more that is taken off for half at once, in 1/100 of a per cent"))
	cmd.Flags().Int64Var(&all, "all-upfront", 0, tr("more that is taken off for all at once, in 1/100 of a per cent"))
	return cmd
}
