package server

import (
	"context"
	"testing"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

func init() {
	parts = append(parts, withMarket)
	belongings["bid_id"] = func(w *world, p person) string {
		w.market()
		b, err := w.server.Market.Create(w.t.Context(), p.principal(), market.Create{Model: "RTX 4090", GPUs: 1, Price: auction.Price(1_000_000_000), Wish: lease.SpotWish{Image: "debian:12"}})
		if err != nil {
			w.t.Fatal(err)
		}
		return b.ID
	}
}

// withMarket adds the spot market to a world. It comes after the leases, whose
// file is before this one.
func withMarket(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.Market, err = market.New(market.Config{DB: w.db, Clock: w.clock.Now, Supply: c.Fleet, Leases: c.Leases, Money: c.Billing, Audit: c.Accounts.Audit, Currency: money.USD,
		Allow: func(ctx context.Context, tx *store.Tx, accountID, userID string, labels map[string]string) error {
			return w.budgets.Allow(ctx, tx, accountID, userID, labels)
		},
		Account: func(ctx context.Context, id string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, id)
			return a.Currency, a.TimeZone, err
		}})
	if err == nil {
		err = c.Market.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestARenterBidsRaisesAndWithdrawsOverHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	w.market()
	c, ctx := w.ada.client, t.Context()
	in := api.BidCreate{Name: "cheap", GPUModel: "rtx 4090", GPUs: 2, BidPerGPUHour: 300_000_000, Image: "debian:12", Environment: map[string]string{"SECRET": "hunter2"}}
	b, err := c.CreateBid(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if b.State != "waiting" || b.GPUModel != "RTX 4090" || b.BidPerGPUHour != in.BidPerGPUHour || b.Simulated || b.LeaseID != "" {
		t.Errorf("the bid is %+v", b)
	}
	if err := w.server.Market.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err = c.Bid(ctx, "cheap"); err != nil || b.State != "placed" || b.PricePerGPUHour == 0 || b.PricePerGPUHour > b.BidPerGPUHour {
		t.Fatalf("after a round the bid is %+v (%v), want it placed", b, err)
	}
	l, err := c.Lease(ctx, b.LeaseID)
	if err != nil || l.Plan != "spot" || l.BidID != b.ID || l.GPUCount != 2 || l.Name != "cheap" {
		t.Errorf("its lease is %+v (%v)", l, err)
	}
	markets, err := c.SpotMarkets(ctx, api.MarketQuery{GPUModel: "RTX 4090"})
	if err != nil || len(markets) != 1 || len(markets[0].Goods) == 0 || len(markets[0].Depth) == 0 {
		t.Fatalf("the market is %+v (%v)", markets, err)
	}
	h, err := c.PriceHistory(ctx, api.MarketQuery{GPUModel: "RTX 4090", GPUs: 2})
	if err != nil || h.GPUs != 2 {
		t.Errorf("the history is %+v (%v)", h, err)
	}
	higher := api.Rate(500_000_000)
	if b, err = c.UpdateBid(ctx, b.ID, api.BidUpdate{BidPerGPUHour: &higher, MaxPerGPUHour: &higher}); err != nil || b.BidPerGPUHour != higher || *b.MaxPerGPUHour != higher {
		t.Errorf("the raised bid is %+v (%v)", b, err)
	}
	if b, err = c.CancelBid(ctx, b.ID); err != nil || b.State != "cancelled" || b.EndedAt == nil {
		t.Errorf("the withdrawn bid is %+v (%v)", b, err)
	}
	if l, err = c.Lease(ctx, l.ID); err != nil || (l.State != "ended" && l.State != "ending") {
		t.Errorf("its lease is %s (%v), want it ended", l.State, err)
	}
	open, err := c.Bids(ctx, true)
	all, err2 := c.Bids(ctx, false)
	if err != nil || err2 != nil || len(open) != 0 || len(all) != 1 {
		t.Errorf("%d bids may run and %d there are (%v, %v), want 0 and 1", len(open), len(all), err, err2)
	}
	if _, err = c.BidAdvice(ctx, api.MarketQuery{GPUModel: "RTX 4090", GPUs: 2}, higher, 0); err == nil {
		t.Error("there is advice on what nothing is known of")
	}
	r := w.send("PATCH", "/v1/bids/"+b.ID, w.newKey(w.ada, account.AllScopes), api.BidUpdate{})
	r.want(t, 410, "bid_state")
}

func TestAProviderSetsTheFloorOfAHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.newHost(w.ada, 2)
	rule := &api.SpotFloorRule{OfOnDemandBasisPoints: 2000}
	h, err := w.ada.client.UpdateListing(t.Context(), id, api.UpdateListing{SpotFloorPerGPUHour: map[string]api.Rate{"RTX 4090": 50_000_000}, SpotFloorRule: rule})
	if err != nil || h.Listing.SpotFloorPerGPUHour["RTX 4090"] != 50_000_000 || *h.Listing.SpotFloorRule != *rule {
		t.Fatalf("the listing is %+v (%v)", h, err)
	}
	m, err := w.ada.client.SpotMarkets(t.Context(), api.MarketQuery{})
	// 20 % of 0.39 is more than 0.05.
	if err != nil || len(m) != 1 || len(m[0].Goods) == 0 || m[0].Goods[0].Ask != 78_000_000 {
		t.Errorf("the market is %+v (%v), want an ask of 0.078", m, err)
	}
	_, err = w.ada.client.UpdateListing(t.Context(), id, api.UpdateListing{SpotFloorPerGPUHour: map[string]api.Rate{"RTX 4090": -1}})
	if err == nil {
		t.Error("a floor below 0 is taken")
	}
}
