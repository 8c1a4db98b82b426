package server

import (
	"testing"
	"time"

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
		_, err := w.ada.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: offer.ID, Image: "debian:12", Plan: o.Plan, TermMonths: o.TermMonths})
		if (err == nil) != o.Buyable {
			t.Errorf("%s %d: buyable is %v, and a quote for it says %v", o.Plan, o.TermMonths, o.Buyable, err)
		}
	}
	w.send("POST", "/v1/quotes/compare", w.ada.token, `{"offer_id":"nothing","image":"debian:12"}`).want(t, 404, "offer_not_found")
	w.send("POST", "/v1/quotes/compare", w.ada.token, `{"offer_id":"`+offer.ID+`"}`).want(t, 422, "missing_image")
}

// monthly rents an offer of a single GPU for p, for three months in advance.
func (w *world) monthly(p person) api.Lease {
	w.t.Helper()
	w.deposit(p, "10000")
	q, err := p.client.CreateQuote(w.t.Context(), api.QuoteRequest{OfferID: w.market().ID, Image: "debian:12", Plan: "monthly", TermMonths: 3, Renews: true, OnLapse: "on_demand"})
	if err != nil {
		w.t.Fatal(err)
	}
	if q.TermMonths != 3 || !q.Renews || q.OnLapse != "on_demand" || q.DueNow == 0 || q.DueNow != q.ForRun-q.Lines[1].ForRun {
		w.t.Errorf("quote %+v", q)
	}
	l, err := p.client.CreateLease(w.t.Context(), api.LeaseCreate{QuoteID: q.ID})
	if err != nil {
		w.t.Fatal(err)
	}
	return *l
}

func TestARenterPaysMonthsInAdvanceLooksAtThemAndChangesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, ada := t.Context(), w.ada.client
	l := w.monthly(w.ada)
	m, err := ada.Months(ctx, l.Name)
	if err != nil {
		t.Fatal(err)
	}
	if l.Plan != "monthly" || m.TermMonths != 3 || m.DiscountPercent != "5.00" || !m.Renews || m.OnLapse != "on_demand" || len(m.Payments) != 1 ||
		m.Payments[0].Kind != "term" || m.Payments[0].Amount != m.NextTermPrice || !m.PaidUntil.Equal(m.PaidFrom.AddDate(0, 3, 0)) {
		t.Errorf("months %+v", m)
	}
	no, stop := false, "stop"
	if m, err = ada.SetMonths(ctx, l.ID, api.MonthsUpdate{Renews: &no, OnLapse: &stop}); err != nil || m.Renews || m.OnLapse != "stop" {
		t.Errorf("months %+v, %v", m, err)
	}
	bill, err := ada.Bill(ctx, l.ID)
	if err != nil || len(bill.Lines) != 1 || bill.Lines[0].Kind != "term" || bill.Lines[0].Unit != "month" || bill.Total != m.NextTermPrice {
		t.Errorf("bill %+v, %v", bill, err)
	}
	// The host's price falls by half, and the renter agrees to it after a month.
	w.clock.Advance(31 * 24 * time.Hour)
	ada = w.signIn(w.ada.Email).client
	half := m.PerMonth / 2
	r, err := ada.PreviewReprice(ctx, l.ID)
	if err != nil || r.PerMonth != m.PerMonth || r.Net != 0 {
		t.Fatalf("with the price as it was: %+v, %v", r, err)
	}
	if _, err := w.signIn(w.operator.Email).client.UpdateListing(ctx, l.HostID, api.UpdateListing{PerGPUHour: map[string]api.Rate{l.GPUModel: rateOf(t, half, 730)}}); err != nil {
		t.Fatal(err)
	}
	if r, err = ada.PreviewReprice(ctx, l.ID); err != nil || r.Net >= 0 || r.PerMonth != half {
		t.Fatalf("with half the price: %+v, %v", r, err)
	}
	m, err = ada.Reprice(ctx, l.ID, 0)
	if err != nil || len(m.Payments) != 2 || m.Payments[1].Amount != r.Net || m.PerMonth != half {
		t.Errorf("months %+v, %v", m, err)
	}
	w.ada, w.eve = w.signIn(w.ada.Email), w.signIn(w.eve.Email)
	w.send("GET", "/v1/leases/"+w.rent(w.ada).ID+"/monthly", w.ada.token, nil).want(t, 409, "not_monthly")
	w.send("GET", "/v1/leases/"+l.ID+"/monthly", w.eve.token, nil).want(t, 404, "lease_not_found")
	w.send("PATCH", "/v1/leases/"+l.ID+"/monthly", w.eve.token, `{"renews":true}`).want(t, 404, "lease_not_found")
}

// rateOf is an hour's rate of which so many hours cost an amount.
func rateOf(t *testing.T, a api.Amount, hours int64) api.Rate {
	t.Helper()
	return api.Rate(int64(a) * 1000 / hours)
}
