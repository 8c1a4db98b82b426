package server

import (
	"testing"

	"suanli.dev/api"
)

func TestAnOfferIsPricedUnderAllPlansSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ask := api.PlanQuestion{OfferID: w.market().ID, Image: "debian:12", RunSeconds: 7200}
	c, err := w.ada.client.ComparePlans(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, o := range c.Options {
		seen[o.Plan] = true
		switch {
		case o.Buyable && (o.PerHour == 0 || o.PerDay <= o.PerHour || o.PerMonth <= o.PerDay || o.ForRun == 0 || len(o.NotIncluded) == 0 || len(o.Lines) == 0 || o.Why != ""):
			t.Errorf("a buyable option lacks figures: %+v", o)
		case !o.Buyable && o.Why == "":
			t.Errorf("nothing says why %s %d cannot be bought", o.Plan, o.TermMonths)
		}
	}
	for _, plan := range []string{"on_demand", "spot", "reserved", "monthly", "trial"} {
		if !seen[plan] {
			t.Errorf("the plan %s is missing", plan)
		}
	}
	if again, err := w.ada.client.ComparePlans(t.Context(), ask); err != nil || len(again.Options) != len(c.Options) || again.Options[0].ForRun != c.Options[0].ForRun {
		t.Errorf("the same question has another answer: %v", err)
	}
	q, err := w.ada.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: ask.OfferID, Image: ask.Image, RunSeconds: ask.RunSeconds})
	if err != nil || q.ForRun != c.Options[0].ForRun || q.PerHour != c.Options[0].PerHour || c.Options[0].Plan != "on_demand" {
		t.Errorf("a quote says %+v, the comparison %+v: %v", q, c.Options[0], err)
	}
}

func TestEveryBuyablePlanCanBeQuoted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	offer := w.market()
	c, err := w.ada.client.ComparePlans(t.Context(), api.PlanQuestion{OfferID: offer.ID, Image: "debian:12"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range c.Options {
		_, err := w.ada.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: offer.ID, Image: "debian:12", Plan: o.Plan})
		if (err == nil) != o.Buyable {
			t.Errorf("%s %d: buyable is %v, and a quote for it says %v", o.Plan, o.TermMonths, o.Buyable, err)
		}
	}
	w.send("POST", "/v1/quotes/compare", w.ada.token, `{"offer_id":"nothing","image":"debian:12"}`).want(t, 404, "offer_not_found")
	w.send("POST", "/v1/quotes/compare", w.ada.token, `{"offer_id":"`+offer.ID+`"}`).want(t, 422, "missing_image")
}
