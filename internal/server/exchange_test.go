package server

import (
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
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
