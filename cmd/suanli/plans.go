package main

import (
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
