package server

import (
	"fmt"
	"testing"

	"suanli.dev/api"
)

func init() {
	// One of a time to come, so that leases of other tests cost what is listed.
	belongings["price_list_id"] = func(w *world, p person) string {
		return w.pricedBy(p, "compute", 125_000, func(in *api.CreatePriceList) {
			from := w.clock.Now().AddDate(1, 0, 0)
			in.ValidFrom = &from
		}).ID
	}
}

// pricedBy gives p's account a price list of its own in the stead of the one it has.
func (w *world) pricedBy(p person, meter string, off int64, change ...func(*api.CreatePriceList)) *api.PriceList {
	w.t.Helper()
	ctx := w.t.Context()
	had, err := p.client.OwnPriceLists(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range had {
		if err := w.operator.client.WithdrawPriceList(ctx, l.ID, p.AccountID); err != nil {
			w.t.Fatal(err)
		}
	}
	in := api.CreatePriceList{Name: fmt.Sprintf("list %d", w.serial()), Rules: []api.PriceRule{{Meter: meter, OffPPM: off}}}
	for _, f := range change {
		f(&in)
	}
	l, err := w.operator.client.CreatePriceList(ctx, in)
	if err != nil {
		w.t.Fatal(err)
	}
	if l, err = w.operator.client.AssignPriceList(ctx, l.ID, p.AccountID); err != nil {
		w.t.Fatal(err)
	}
	return l
}

func TestAnAccountIsShownQuotedAndComparedItsOwnPrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.deposit(w.ada, "100")
	offer := w.market()
	before, err := w.ada.client.CreateQuote(ctx, api.QuoteRequest{OfferID: offer.ID, Image: "debian:12", DiskGiB: 20})
	if err != nil || before.PriceList != nil || before.Lines[0].ListedRate != nil {
		t.Fatalf("without a list: %+v, %v", before, err)
	}
	list := w.pricedBy(w.ada, "compute", 500_000)
	shown, err := w.ada.client.Offer(ctx, offer.ID, 20)
	if err != nil || shown.Price.Own == nil || shown.Price.Own.PriceList == nil || shown.Price.Own.PriceList.ID != list.ID || shown.Price.Own.Exchange != nil || shown.Price.Own.Compute*2 != offer.Price.Compute {
		t.Fatalf("shown %+v, %v", shown.Price.Own, err)
	}
	q, err := w.ada.client.CreateQuote(ctx, api.QuoteRequest{OfferID: offer.ID, Image: "debian:12", DiskGiB: 20})
	if err != nil || q.PriceList == nil || q.PriceList.ID != list.ID || q.Lines[0].ListedRate == nil || *q.Lines[0].ListedRate != offer.Price.Compute || q.Lines[0].Rate*2 != offer.Price.Compute || q.Lines[1].ListedRate != nil || q.PerHour != shown.Price.Own.PerHour {
		t.Fatalf("quoted %+v, %v", q, err)
	}
	c, err := w.ada.client.ComparePlans(ctx, api.PlanQuestion{OfferID: offer.ID, Image: "debian:12", DiskGiB: 20})
	if err != nil || c.PriceList == nil || c.PriceList.ID != list.ID {
		t.Fatalf("compared %+v, %v", c, err)
	}
	for _, o := range c.Options {
		if o.Plan == "on_demand" && o.PerHour != q.PerHour {
			t.Errorf("on demand is compared at %s an hour, and quoted at %s", o.PerHour, q.PerHour)
		}
	}
	theirs, err := w.eve.client.Offer(ctx, offer.ID, 20)
	if err != nil || theirs.Price.Own != nil {
		t.Errorf("an account without a list is shown %+v, %v", theirs.Price.Own, err)
	}
	l, err := w.ada.client.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.operator.client.WithdrawPriceList(ctx, list.ID, w.ada.AccountID); err != nil {
		t.Fatal(err)
	}
	after, err := w.ada.client.CreateQuote(ctx, api.QuoteRequest{OfferID: w.market().ID, Image: "debian:12", DiskGiB: 20})
	if err != nil || after.PriceList != nil {
		t.Errorf("after it was taken away: %+v, %v", after, err)
	}
	if kept, err := w.ada.client.Lease(ctx, l.ID); err != nil || kept.PerHour != q.PerHour {
		t.Errorf("the lease costs %+v, %v; want what was quoted", kept, err)
	}
}

func TestPriceListsAreTheOperatorsAndEachAccountSeesItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	list := w.pricedBy(w.ada, "storage", 100_000)
	if _, err := w.operator.client.AssignPriceList(ctx, list.ID, w.eve.AccountID); err != nil {
		t.Fatal(err)
	}
	own, err := w.ada.client.OwnPriceLists(ctx)
	if err != nil || len(own) != 1 || own[0].ID != list.ID || len(own[0].Accounts) != 1 || own[0].Accounts[0].AccountID != w.ada.AccountID {
		t.Errorf("ada sees %+v, %v", own, err)
	}
	all, err := w.operator.client.PriceLists(ctx)
	if err != nil || len(all) != 1 || len(all[0].Accounts) != 2 {
		t.Errorf("the operator sees %+v, %v", all, err)
	}
	w.send("POST", "/v1/operator/price-lists", w.ada.token, `{"name":"mine","rules":[{"meter":"compute","off_ppm":1000000}]}`).want(t, 403, "forbidden")
	w.send("POST", "/v1/operator/price-lists/"+list.ID+"/accounts", w.ada.token, `{"account_id":"`+w.ada.AccountID+`"}`).want(t, 403, "forbidden")
	w.send("DELETE", "/v1/operator/price-lists/"+list.ID+"/accounts/"+w.eve.AccountID, w.ada.token, nil).want(t, 403, "forbidden")
	w.send("POST", "/v1/operator/price-lists", w.operator.token, `{"name":"x","rules":[{"meter":"compute","gpu_model":"RTX 40900","off_ppm":1}]}`).want(t, 422, "gpu_model_not_found")
	w.send("POST", "/v1/operator/price-lists", w.operator.token, `{"name":"x","rules":[{"meter":"compute","rate":"1"}]}`).want(t, 422, "invalid_price_list")
}
