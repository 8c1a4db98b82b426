package billing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// rate enters what a dollar is worth for 30 days from now.
func (w *world) rate(rate string) billing.ExchangeRate {
	w.t.Helper()
	r, err := w.SetExchangeRate(w.ctx, operator, billing.NewExchangeRate{From: money.USD, To: money.CNY, Rate: mustRate(w.t, rate), Source: "a bank", Until: w.clock().Add(30 * 24 * time.Hour)}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// abroad are terms for an account in CNY of a bundle that costs 1.29 dollars an hour.
func (w *world) abroad(leaseID string, change ...func(*pricing.Tariff, *pricing.Request)) billing.Terms {
	w.t.Helper()
	r, err := w.ExchangeInForce(w.ctx, money.USD, money.CNY)
	if err != nil {
		w.t.Fatal(err)
	}
	var x pricing.Exchanged
	t := w.terms(leaseID, append([]func(*pricing.Tariff, *pricing.Request){func(t *pricing.Tariff, _ *pricing.Request) {
		t.Currency, t.Compute, t.Storage, t.Egress = money.USD, mustRate(w.t, "1.29"), mustRate(w.t, "0.07"), mustRate(w.t, "0.11")
		if *t, x, err = r.Tariff(*t); err != nil {
			w.t.Fatal(err)
		}
	}}, change...)...)
	t.Quote.Exchange = &x
	return t
}

func (w *world) dollars(path string) (b money.Amount) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = w.books.Balance(ctx, tx, path, money.USD)
		return err
	})
	return b
}

func TestAnAccountPaysInItsCurrencyAndTheProviderIsPaidInItsOwn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		rate := w.rate("7.123456789")
		w.begin(w.abroad("ls-1"))
		start := w.clock()
		w.startCompute("ls-1", start)
		w.pass(time.Hour)
		w.stopCompute("ls-1", start.Add(time.Hour))
		w.end("ls-1", start.Add(time.Hour))
		// 1.29 × 7.123456789 is 9.18925925781, a price of 9.189259258 an hour.
		w.wantBalance(ledger.Wallet("ac-renter"), "90.810741")
		w.wantBalance(ledger.Exchange, "7.351407")
		w.wantBalance(ledger.Commission, "1.837852")
		w.wantBalance(ledger.Payable("ac-provider"), "0.000000")
		if got := w.dollars(ledger.Payable("ac-provider")); got.String() != "1.032000" {
			t.Errorf("the provider earned %s dollars, want 80 %% of 1.29", got)
		}
		if got := w.dollars(ledger.Exchange); got.String() != "-1.032000" {
			t.Errorf("the exchange account stands at %s dollars", got)
		}
		earned, err := w.Earnings(w.ctx, "ac-provider")
		if err != nil || len(earned) != 1 || earned[0].Currency != money.USD || earned[0].Charged.String() != "1.290000" || earned[0].Commission.String() != "0.258000" || earned[0].Payable.String() != "1.032000" {
			t.Errorf("the provider reads %+v, %v", earned, err)
		}
		w.right()
		charges, err := w.Charges(w.ctx, "ac-renter", "", "", 10)
		if err != nil || len(charges) != 1 || charges[0].Amount.String() != "9.189259" {
			t.Fatalf("charges %+v, %v", charges, err)
		}
		e, err := w.Explain(w.ctx, "ac-renter", charges[0].ID)
		if err != nil || !e.OK() {
			t.Fatalf("%+v, %v", e, err)
		}
		var words []string
		for _, s := range e.Steps {
			words = append(words, s.Words(false))
		}
		text := strings.Join(words, "\n")
		for _, want := range []string{"The provider listed 1.29 USD", rate.ID, "a bank", "7.123456789 CNY", "9.189259258 CNY", "1.032000 USD from there to the provider"} {
			if !strings.Contains(text, want) {
				t.Errorf("the explanation does not say %q:\n%s", want, text)
			}
		}
		if strings.Contains(text, "{") {
			t.Errorf("a value is missing:\n%s", text)
		}
	})
}

func TestARateHoldsInItsTimeOnlyAndQuotesKeepTheirs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		_, err := w.ExchangeInForce(w.ctx, money.USD, money.CNY)
		wantCode(t, err, "exchange_rate_missing")
		first := w.rate("7.1")
		_, err = w.ExchangeInForce(w.ctx, money.CNY, money.USD)
		wantCode(t, err, "exchange_rate_missing") // it converts one way
		w.begin(w.abroad("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.rate("8") // for quotes from now on
		w.settle()
		w.begin(w.abroad("ls-2"))
		w.wantBalance(ledger.Exchange, "7.327200")
		list, err := w.ExchangeRates(w.ctx)
		if err != nil || len(list) != 2 || list[1] != first {
			t.Errorf("rates %+v, %v", list, err)
		}
		w.pass(30*24*time.Hour - time.Microsecond)
		if _, err := w.ExchangeInForce(w.ctx, money.USD, money.CNY); err != nil {
			t.Errorf("the last moment of a rate: %v", err)
		}
		w.pass(time.Microsecond)
		_, err = w.ExchangeInForce(w.ctx, money.USD, money.CNY)
		wantCode(t, err, "exchange_rate_stale")
		w.end("ls-1", w.clock())
		w.end("ls-2", w.clock())
		w.right()
	})
}

func TestOnlyOperatorsEnterRatesAndOnlySoundOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	good := billing.NewExchangeRate{From: money.USD, To: money.CNY, Rate: mustRate(t, "7"), Source: "a bank", Until: w.clock().Add(24 * time.Hour)}
	_, err := w.SetExchangeRate(w.ctx, account.Principal{UserID: "us-eve", AccountID: "ac-eve", Role: account.Owner}, good, "")
	wantCode(t, err, "forbidden")
	for name, change := range map[string]func(*billing.NewExchangeRate){
		"one currency": func(n *billing.NewExchangeRate) { n.To = money.USD }, "no currency": func(n *billing.NewExchangeRate) { n.From = "EUR" },
		"nothing": func(n *billing.NewExchangeRate) { n.Rate = 0 }, "less than nothing": func(n *billing.NewExchangeRate) { n.Rate = -1 },
		"too much": func(n *billing.NewExchangeRate) { n.Rate = mustRate(t, "1000.000000001") }, "no source": func(n *billing.NewExchangeRate) { n.Source = " " },
		"no end": func(n *billing.NewExchangeRate) { n.Until = time.Time{} }, "over": func(n *billing.NewExchangeRate) { n.Until = w.clock() },
		"backwards": func(n *billing.NewExchangeRate) { n.Since = n.Until }, "for years": func(n *billing.NewExchangeRate) { n.Until = w.clock().Add(401 * 24 * time.Hour) },
		"a hidden source": func(n *billing.NewExchangeRate) { n.Source = "a\u202ebank" },
	} {
		n := good
		change(&n)
		if _, err := w.SetExchangeRate(w.ctx, operator, n, ""); err == nil {
			t.Errorf("a rate with %s was entered", name)
		} else {
			wantCode(t, err, "invalid_exchange_rate")
		}
	}
	first, err := w.SetExchangeRate(w.ctx, operator, good, "k")
	if err != nil {
		t.Fatal(err)
	}
	w.pass(time.Second)
	again, err := w.SetExchangeRate(w.ctx, operator, good, "k")
	if err != nil || again != first {
		t.Errorf("again: %+v, %v, want %+v", again, err, first)
	}
	good.Rate++
	_, err = w.SetExchangeRate(w.ctx, operator, good, "k")
	wantCode(t, err, "idempotency_conflict")
}

func TestVerifyNamesAnExchangeThatIsNotByItsRate(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"earned":        `UPDATE billing_charges SET earned = earned + 1`,
		"listed":        `UPDATE billing_charges SET listed = listed - 1`,
		"the rate":      `UPDATE billing_exchange_rates SET rate = rate + 1`,
		"not exchanged": `UPDATE billing_leases SET exchange_rate_id = ''`,
		"split":         `UPDATE billing_charges SET provider = provider + 1, commission = commission - 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
			w.deposit("ac-renter", "100")
			w.rate("7.123456789")
			w.begin(w.abroad("ls-1"))
			w.startCompute("ls-1", w.clock())
			w.end("ls-1", w.pass(time.Hour))
			w.forged(spoil, "")
		})
	}
}

// TestExchangedUseCostsTheSameHoweverItIsPosted settles in different moments, has use
// reported late, and takes everything back by credit notes.
func TestExchangedUseCostsTheSameHoweverItIsPosted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			if n++; n > 8 {
				return // each closes months and verifies everything
			}
			w := newWorld(rt, t.Context(), db, func(c *billing.Config) {
				c.Taxes = []pricing.TaxRule{{Jurisdiction: "X", Name: "VAT", PPM: 60_000, Inclusive: rapid.Bool().Draw(rt, "inclusive")}}
				c.Jurisdiction = "X"
			})
			w.now = noon.AddDate(n, 0, 0) // identifiers are by the year
			renter, provider := "ac-r"+w.now.Format("2006"), "ac-p"+w.now.Format("2006")
			w.deposit(renter, "100000")
			w.rate(rapid.SampledFrom([]string{"7.123456789", "0.140381", "7", "0.000000001", "123.456789"}).Draw(rt, "rate"))
			id := "ls-" + w.now.Format("2006")
			terms := w.abroad(id)
			terms.AccountID, terms.ProviderID = renter, provider
			w.begin(terms)
			start := w.clock()
			w.do(func(ctx context.Context, tx *store.Tx) error {
				if err := w.StartCompute(ctx, tx, id, start); err != nil {
					return err
				}
				return w.StartStorage(ctx, tx, id, start)
			})
			var bytes int64
			steps := rapid.IntRange(1, 6).Draw(rt, "steps")
			for range steps {
				now := w.pass(time.Duration(rapid.Int64Range(1, 40_000).Draw(rt, "seconds")) * time.Second)
				w.ConfirmAlive([]string{id}, now)
				if rapid.Bool().Draw(rt, "settles") {
					w.settle()
				}
				if rapid.Bool().Draw(rt, "sends") {
					bytes += rapid.Int64Range(1, 5_000_000_000).Draw(rt, "bytes")
					if err := w.egress(id, bytes); err != nil {
						rt.Fatal(err)
					}
				}
			}
			ended := w.clock().Add(-time.Duration(rapid.Int64Range(0, 20_000).Draw(rt, "told late")) * time.Second)
			if ended.Before(start) {
				ended = start
			}
			w.end(id, ended)
			w.right()
			// By the rule alone.
			use := pricing.Usage{Compute: []pricing.Interval{{Start: start, End: ended}}, Storage: []pricing.Interval{{Start: start, End: ended}}, EgressBytes: bytes}
			shares, err := pricing.Shares(terms.Quote, use)
			if err != nil {
				rt.Fatal(err)
			}
			var want pricing.Share
			for _, s := range shares {
				want.Amount += s.Amount
				want.Earned += s.Earned
				want.Provider += s.Provider
			}
			if got := w.charged(renter); got != want.Amount {
				rt.Fatalf("charged %s, want %s", got, want.Amount)
			}
			if got := w.dollars(ledger.Payable(provider)); got != want.Earned {
				rt.Fatalf("the provider earned %s, want %s", got, want.Earned)
			}
			w.pass(62 * 24 * time.Hour)
			w.closeMonths()
			for _, v := range w.invoices(renter) {
				for i, l := range v.Lines {
					if part := l.Shown / 3 / 10_000 * 10_000; part != 0 {
						if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: i, Amount: part}}}, ""); err != nil {
							rt.Fatal(err)
						}
					}
				}
				if v.Total != 0 {
					if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
						wantCode(rt, err, "nothing_to_credit")
					}
				}
			}
			w.right()
		})
	})
}
