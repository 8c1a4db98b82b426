package server

import (
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
)

// abroad is the owner of an account in yuan; the market of tests is in dollars.
func (w *world) abroad() person {
	w.t.Helper()
	const email = "bob@example.com"
	if _, _, err := w.accounts.CreateAccount(w.t.Context(), w.operator.principal(), account.CreateAccount{Name: "bob", Email: email, Password: testPassword, Currency: money.CNY}); err != nil {
		w.t.Fatal(err)
	}
	return w.signIn(email)
}

func TestAnOfferInAnotherCurrencyIsShownQuotedAndRentedInTheAccounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob := w.abroad()
	offer := w.market()
	_, err := bob.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: offer.ID, Image: "debian:12"})
	wantProblem(t, err, "exchange_rate_missing")
	shown, err := bob.client.Offer(t.Context(), offer.ID, 20)
	if err != nil || shown.Price.Own != nil {
		t.Fatalf("without a rate: %+v, %v", shown, err)
	}
	rate, err := w.operator.client.SetExchangeRate(t.Context(), api.SetExchangeRate{From: "USD", To: "CNY", Rate: 7_123_400_000, Source: "a bank", ValidUntil: w.clock.Now().Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	shown, err = bob.client.Offer(t.Context(), offer.ID, 20)
	if err != nil || shown.Price.Own == nil || shown.Price.Own.Currency != "CNY" || shown.Price.Own.Exchange.RateID != rate.ID {
		t.Fatalf("shown %+v, %v", shown, err)
	}
	q, err := bob.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: offer.ID, Image: "debian:12", DiskGiB: 20})
	if err != nil {
		t.Fatal(err)
	}
	if q.Currency != "CNY" || q.Exchange == nil || q.Exchange.RateID != rate.ID || q.Exchange.Source != "a bank" || q.PerHour != shown.Price.Own.PerHour {
		t.Errorf("quoted %+v, shown at %s", q, shown.Price.Own.PerHour)
	}
	ours, err := w.ada.client.Offer(t.Context(), offer.ID, 20)
	if err != nil || ours.Price.Own != nil {
		t.Errorf("an account in the offer's currency is shown %+v, %v", ours, err)
	}
	rates, err := w.operator.client.ExchangeRates(t.Context())
	if err != nil || len(rates) != 1 || rates[0].ID != rate.ID {
		t.Errorf("rates %+v, %v", rates, err)
	}
	w.clock.Advance(24 * time.Hour)
	_, err = bob.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: w.market().ID, Image: "debian:12"})
	wantProblem(t, err, "exchange_rate_stale")
}

// Months, reservations and bids are exchanged as on demand is: what bob pays in yuan is
// in his books, and what the host earns is in dollars.
func TestEveryPlanOfAnotherCurrencyCanBeHad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, ctx := w.abroad(), t.Context()
	c := bob.client
	offer := w.reservable()
	_, err := c.CreateBid(ctx, api.BidCreate{GPUModel: "RTX 4090", GPUs: 1, BidPerGPUHour: 300_000_000, Image: "debian:12"})
	wantProblem(t, err, "exchange_rate_missing")
	ask := api.ReservationQuestion{OfferID: offer.ID, TermMonths: 1, Payment: "all"}
	_, err = c.QuoteReservation(ctx, ask)
	wantProblem(t, err, "exchange_rate_missing")
	rate, err := w.operator.client.SetExchangeRate(ctx, api.SetExchangeRate{From: "USD", To: "CNY", Rate: 7_123_400_000, Source: "a bank", ValidUntil: w.clock.Now().Add(24 * time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.billing.Deposit(ctx, w.operator.principal(), bob.AccountID, 50_000_000_000, "wire", ""); err != nil {
		t.Fatal(err)
	}
	months, err := c.CreateQuote(ctx, api.QuoteRequest{OfferID: offer.ID, Image: "debian:12", Plan: "monthly", TermMonths: 1})
	if err != nil || months.Currency != "CNY" || months.Exchange == nil || months.Exchange.RateID != rate.ID {
		t.Fatalf("months %+v, %v", months, err)
	}
	l, err := c.CreateLease(ctx, api.LeaseCreate{QuoteID: months.ID})
	if err != nil || l.Plan != "monthly" || l.Currency != "CNY" {
		t.Fatalf("the lease is %+v, %v", l, err)
	}
	q, err := c.QuoteReservation(ctx, api.ReservationQuestion{GPUModel: offer.GPUModel, GPUs: 1, TermMonths: 1, Payment: "all"})
	if err != nil || q.Currency != "CNY" || q.Exchange == nil || q.Exchange.RateID != rate.ID {
		t.Fatalf("the reservation's quote is %+v, %v", q, err)
	}
	r, err := c.CreateReservation(ctx, api.ReservationCreate{ReservationQuestion: api.ReservationQuestion{GPUModel: offer.GPUModel, GPUs: 1, TermMonths: 1, Payment: "all"}, AgreedTotal: q.Total})
	if err != nil || r.State != "active" || r.Currency != "CNY" || r.Upfront != q.Total {
		t.Fatalf("the reservation is %+v, %v", r, err)
	}
	b, err := c.CreateBid(ctx, api.BidCreate{Name: "cheap", GPUModel: "RTX 4090", GPUs: 1, BidPerGPUHour: 900_000_000, Image: "debian:12"})
	if err != nil || b.Currency != "USD" {
		t.Fatalf("the bid is %+v, %v", b, err)
	}
	if err := w.server.Market.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	if b, err = c.Bid(ctx, "cheap"); err != nil || b.State != "placed" {
		t.Fatalf("after a round the bid is %+v, %v", b, err)
	}
	if l, err = c.Lease(ctx, b.LeaseID); err != nil || l.Currency != "CNY" {
		t.Errorf("its lease is %+v, %v", l, err)
	}
	report, err := w.billing.VerifyLedger(ctx)
	if err != nil || !report.OK() {
		t.Errorf("the books: %+v, %v", report, err)
	}
	l, err = rentOf(w, bob)
	if err != nil {
		t.Fatal(err)
	}
	// A price that a provider proposes is in its own currency, so it is none for this lease.
	for _, provider := range []person{w.operator, w.ada, w.eve} {
		_, err := w.leases.ProposePrice(ctx, provider.principal(), lease.PriceProposal{HostID: l.HostID, LeaseID: l.ID, PerGPUHour: 1_000_000_000})
		if f, ok := fault.As(err); !ok || f.Code != "currency_mismatch" && f.Kind != fault.NotFound {
			t.Errorf("a price for it was proposed: %v", err)
		}
	}
}

// rentOf rents on demand what p finds.
func rentOf(w *world, p person) (*api.Lease, error) {
	q, err := p.client.CreateQuote(w.t.Context(), api.QuoteRequest{OfferID: w.market().ID, Image: "debian:12"})
	if err != nil {
		return nil, err
	}
	return p.client.CreateLease(w.t.Context(), api.LeaseCreate{QuoteID: q.ID})
}
