package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"suanli.dev/api"
)

// comparePlans shows what an offer costs under all plans, side by side.
func (w *wishes) comparePlans(cmd *cobra.Command, c *api.Client, args []string) error {
	offer, err := w.offer(cmd.Context(), c, args)
	if err != nil {
		return err
	}
	p, err := c.ComparePlans(cmd.Context(), api.PlanQuestion{
		OfferID: offer, Template: w.quote.Template, Image: w.quote.Image, DiskGiB: w.quote.DiskGiB,
		RunSeconds: int64(w.runFor / time.Second), EgressBytes: w.egress * 1_000_000_000,
	})
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, p)
	}
	say(cmd, "%d × %s%s, %d GiB disk, image %s", p.GPUCount, p.GPUModel, mark(p.Simulated), p.DiskGiB, p.Image)
	say(cmd, "Prices in %s. For the run: %s, whole terms included. Due now is taken before anything runs.", p.Currency, time.Duration(p.RunSeconds)*time.Second)
	t := newTable(tr("PLAN"), tr("BUYABLE"), tr("DUE NOW"), tr("PER HOUR"), tr("PER DAY"), tr("PER MONTH"), tr("FOR THE RUN"), tr("NOT INCLUDED"))
	for _, o := range p.Options {
		if o.Why == "not_offered" {
			t.add(planName(o), word(o.Why), "", "", "", "", "", "")
			continue
		}
		buyable := tr("yes")
		if !o.Buyable {
			buyable = word(o.Why)
		}
		left := make([]string, len(o.NotIncluded))
		for i, n := range o.NotIncluded {
			left[i] = word(n)
		}
		t.add(planName(o), buyable, o.DueNow.Display(), o.PerHour.Display(), o.PerDay.Display(), o.PerMonth.Display(), o.ForRun.Display(), strings.Join(left, "; "))
	}
	t.print(cmd.OutOrStdout())
	return nil
}

func planName(o api.PlanOption) string {
	name := word(o.Plan)
	if o.TermMonths > 0 {
		name += " " + tr("%d months", o.TermMonths)
	}
	if o.Payment != "" {
		name += fmt.Sprintf(" (%s)", word(o.Payment))
	}
	return name
}

// explainMonths says a line of months in advance in Chinese.
func explainMonths(l api.BillLine, b *api.Bill) string {
	what := map[string]string{"term": "预付", "renewal": "续费", "change": "剩余周期改价", "refund": "退还预付款", "upfront": "预留一次预付", "lost": "退还未提供的时间", "early_end": "提前结束预留"}[l.Kind]
	if l.Used > 0 {
		what += fmt.Sprintf(" %d 个月", l.Used)
	}
	if l.Start != nil && l.End != nil {
		what += fmt.Sprintf("，%s 至 %s", l.Start.Local().Format(time.DateTime), l.End.Local().Format(time.DateTime))
	}
	if l.Rate > 0 {
		what += fmt.Sprintf("，月价 %s %s", l.Rate.Display(), b.Currency)
	}
	what += fmt.Sprintf("：合计 %s %s", l.Amount.Display(), b.Currency)
	if b.Simulated {
		what += "（模拟）"
	}
	return what
}

func monthlyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "monthly", Short: tr("Months that are paid in advance for a lease")}
	print := func(cmd *cobra.Command, m *api.Months) {
		t := newTable(tr("PAID FROM"), m.PaidFrom.Local().Format(time.DateTime))
		t.add(tr("PAID UNTIL"), m.PaidUntil.Local().Format(time.DateTime))
		t.add(tr("TERM"), tr("%d months", m.TermMonths))
		t.add(tr("NEXT TERM"), m.NextTermPrice.Display()+" "+m.Currency)
		renews := tr("no")
		if m.Renews {
			renews = tr("yes")
		}
		t.add(tr("RENEWS"), renews)
		t.add(tr("AT THE END"), word("lapse_"+m.OnLapse))
		if m.EndedAt != nil {
			t.add(tr("ENDED"), m.EndedAt.Local().Format(time.DateTime)+" "+word(m.EndCode))
		} else {
			t.add(tr("BACK IF ENDED NOW"), m.GivenBackIfEnded.Display())
		}
		t.print(cmd.OutOrStdout())
		p := newTable(tr("PAYMENT"), tr("FROM"), tr("TO"), tr("AMOUNT"))
		for _, x := range m.Payments {
			p.add(word("months_"+x.Kind), x.From.Local().Format(time.DateTime), x.Until.Local().Format(time.DateTime), x.Amount.Display())
		}
		p.print(cmd.OutOrStdout())
	}
	cmd.AddCommand(showing("show LEASE", tr("Show what is paid in advance, and what would come back"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Months, error) {
			return c.Months(cmd.Context(), args[0])
		}, print))
	var renew, not bool
	var lapse string
	set := showing("set LEASE", tr("Change what happens when the paid months end"), cobra.ExactArgs(1),
		func(cmd *cobra.Command, c *api.Client, args []string) (*api.Months, error) {
			var u api.MonthsUpdate
			switch {
			case renew && not:
				return nil, usageError{errors.New(tr("--renew or --no-renew, not both"))}
			case renew || not:
				u.Renews = &renew
			}
			if lapse != "" {
				u.OnLapse = &lapse
			}
			return c.SetMonths(cmd.Context(), args[0], u)
		}, print)
	set.Flags().BoolVar(&renew, "renew", false, tr("pay for another term whenever one ends"))
	set.Flags().BoolVar(&not, "no-renew", false, tr("let the months end"))
	set.Flags().StringVar(&lapse, "on-lapse", "", tr("when the months end: stop, or on_demand to run on and pay by use"))
	cmd.AddCommand(set, repriceCommand())
	return cmd
}

func repriceCommand() *cobra.Command {
	var agree bool
	cmd := &cobra.Command{
		Use: "reprice LEASE", Short: tr("Change the rest of the paid months to the price of today"), Args: cobra.ExactArgs(1),
		Long: tr("Shows what it comes to. With --agree it is done: what was paid for the rest is credited, and the rest is charged at the new price."),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client(cmd)
			if err != nil {
				return err
			}
			r, err := c.PreviewReprice(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !agree {
				if wantsJSON(cmd) {
					return printJSON(cmd, r)
				}
				say(cmd, "A month costs %s today, less %s %%. Until %s the rest is credited with %s and charged with %s.", r.PerMonth.Display(), r.DiscountPercent, r.Until.Local().Format(time.DateTime), r.Credit.Display(), r.Charge.Display())
				say(cmd, "To be paid, or given back if negative: %s. With --agree it is done.", r.Net.Display())
				return nil
			}
			m, err := c.Reprice(cmd.Context(), args[0], max(r.Net, 0))
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, m)
			}
			say(cmd, "Changed. The next term costs %s %s.", m.NextTermPrice.Display(), m.Currency)
			return nil
		},
	}
	cmd.Flags().BoolVar(&agree, "agree", false, tr("do it, for what the preview says"))
	return cmd
}
