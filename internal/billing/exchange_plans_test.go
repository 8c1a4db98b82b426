package billing_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// exchanged is the rate in force, as a quote freezes it.
func (w *world) exchanged() (pricing.ExchangeRate, pricing.Exchanged) {
	w.t.Helper()
	r, err := w.ExchangeInForce(w.ctx, money.USD, money.CNY)
	if err != nil {
		w.t.Fatal(err)
	}
	return r, pricing.Exchanged{RateID: r.ID, Source: r.Source, From: r.From, To: r.To, Rate: r.Rate, Since: r.Date}
}

// spotAbroad are spot terms for an account in CNY of a bundle that the market clears
// at a price in dollars.
func (w *world) spotAbroad(leaseID, price, bid string) billing.Terms {
	w.t.Helper()
	_, x := w.exchanged()
	limit, err := x.Price(mustRate(w.t, bid))
	if err != nil {
		w.t.Fatal(err)
	}
	rate, _ := w.exchanged()
	return w.spotExchanged(leaseID, price, limit, rate)
}

func (w *world) spotExchanged(leaseID, price string, limit money.Rate, rate pricing.ExchangeRate) billing.Terms {
	w.t.Helper()
	var x pricing.Exchanged
	t := w.terms(leaseID, func(t *pricing.Tariff, r *pricing.Request) {
		t.Currency, t.Compute, t.Storage, t.Egress, t.MinimumSeconds = money.USD, mustRate(w.t, price), 0, 0, 0
		r.Plan, r.Bid = pricing.Spot, limit
		var err error
		if *t, x, err = rate.Tariff(*t); err != nil {
			w.t.Fatal(err)
		}
	})
	t.Quote.Exchange = &x
	return t
}

// monthlyAbroad are terms for an account in CNY of months at a price in dollars.
func (w *world) monthlyAbroad(leaseID string, perMonth string, months int, renews bool) billing.Terms {
	w.t.Helper()
	rate, x := w.exchanged()
	own, err := x.Amount(must(w.t, perMonth))
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := pricing.NewPrepaid(w.clock(), "UTC", own, months, []pricing.TermDiscount{{Months: 3, BasisPoints: 500}, {Months: 12, BasisPoints: 1500}}, renews)
	if err != nil {
		w.t.Fatal(err)
	}
	t := w.terms(leaseID, func(t *pricing.Tariff, r *pricing.Request) {
		t.Currency, t.Compute, t.Storage, t.Egress = money.USD, mustRate(w.t, "1.29"), mustRate(w.t, "0.07"), mustRate(w.t, "0.11")
		r.Plan, r.TimeZone, r.Prepaid = pricing.Monthly, "UTC", &p
		if *t, x, err = rate.Tariff(*t); err != nil {
			w.t.Fatal(err)
		}
	})
	x.PerMonth = must(w.t, perMonth)
	t.Quote.Exchange, t.OnLapse = &x, billing.LapseStop
	return t
}

// reservedAbroad is a reservation of GPUs for an account in CNY at a price in dollars.
func (w *world) reservedAbroad(id, perGPU string, gpus int64, hours int, payment pricing.Upfront) billing.ReservedTerms {
	w.t.Helper()
	rate, x := w.exchanged()
	from := w.clock()
	p, err := pricing.ReserveExchanged(pricing.Purchase{
		ID: id, GPUModel: "H100", Zone: "z-1", GPUs: gpus, Currency: money.USD, ListHourly: mustRate(w.t, perGPU), From: from, TimeZone: "UTC",
		Until: from.Add(time.Duration(hours) * time.Hour), Payment: payment, Commission: 2000,
	}, pricing.Curve{PartialBasisPoints: 700, AllBasisPoints: 1300}, pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 5000}, rate)
	if err != nil {
		w.t.Fatal(err)
	}
	return billing.ReservedTerms{Reservation: p.Reservation, AccountID: "ac-renter", ProviderID: "ac-provider", TimeZone: "UTC", Exchange: &x}
}

// everyChargeIsExplained checks that each charge comes to what its explanation does.
func (w *world) everyChargeIsExplained() string {
	w.t.Helper()
	charges, err := w.Charges(w.ctx, "ac-renter", "", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	var text strings.Builder
	for _, c := range charges {
		e, err := w.Explain(w.ctx, "ac-renter", c.ID)
		if err != nil || !e.OK() {
			w.t.Fatalf("charge %+v: %+v, %v", c, e, err)
		}
		for _, s := range e.Steps {
			text.WriteString(s.Words(false) + "\n")
		}
	}
	if strings.Contains(text.String(), "{") {
		w.t.Fatalf("a value is missing:\n%s", text.String())
	}
	return text.String()
}

func TestABidsLeaseIsChargedTheMarketsPriceAtTheRateOfItsQuote(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.rate("7.123456789")
		w.begin(w.spotAbroad("ls-1", "0.5", "2"))
		w.wantBalance(ledger.Hold("ac-renter"), "14.246914")
		w.startCompute("ls-1", w.clock())
		w.setRate("ls-1", "0.8", w.pass(time.Hour))
		w.setRate("ls-1", "0.8", w.clock()) // again
		w.rate("9")                         // for others
		w.setRate("ls-1", "1.1", w.pass(time.Hour))
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.settle()
		w.right()
		if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.SetBid(ctx, tx, "ls-1", mustRate(t, "3")) }); err != nil {
			t.Fatal(err)
		}
		w.wantBalance(ledger.Hold("ac-renter"), "21.370370")
		w.end("ls-1", w.pass(time.Hour))
		w.right()
		// 3.5617283945, 5.6987654312 and 7.8358024679 are 17.0962962936.
		w.wantBalance(ledger.Wallet("ac-renter"), "82.903704")
		if got := w.dollars(ledger.Payable("ac-provider")); got.String() != "1.920000" {
			t.Errorf("the provider earned %s dollars, want 80 %% of 2.40", got)
		}
		if got := w.dollars(ledger.Exchange); got.String() != "-1.920000" {
			t.Errorf("the exchange account stands at %s dollars", got)
		}
		if text := w.everyChargeIsExplained(); !strings.Contains(text, "cleared at later is in USD") {
			t.Error(text)
		}
	})
}

func TestMonthsAreExchangedByTheRateOfTheirQuoteInAllThatIsPaidAndGivenBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "20000")
		w.rate("7.123456789")
		w.begin(w.monthlyAbroad("ls-1", "300", 1, true))
		w.startCompute("ls-1", w.clock())
		w.wantBalance(ledger.Exchange, "1709.629630") // 80 % of 2137.037037
		if got := w.dollars(ledger.Payable("ac-provider")); got.String() != "240.000000" {
			t.Errorf("the provider earned %s dollars, want 80 %% of 300", got)
		}
		w.right()
		w.rate("8") // no quote of this one's
		w.ConfirmAlive([]string{"ls-1"}, w.pass(40*24*time.Hour))
		w.settle()
		if got := w.dollars(ledger.Payable("ac-provider")); got.String() != "480.000000" {
			t.Errorf("after a renewal the provider earned %s dollars, want 480", got)
		}
		w.right()
		c, err := w.PreviewReprice(w.ctx, "ls-1", must(t, "200"), 0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := w.RepriceMonths(w.ctx, operator, "ls-1", must(t, "200"), 0, 0)
		if err != nil || m.Terms.PerMonth.String() != "1424.691358" || c.Net >= 0 {
			t.Fatalf("%+v, %+v, %v", m, c, err)
		}
		w.right()
		w.ConfirmAlive([]string{"ls-1"}, w.pass(3*24*time.Hour))
		w.end("ls-1", w.clock())
		w.right()
		text := w.everyChargeIsExplained()
		for _, want := range []string{"The provider listed", "300", "7.123456789"} {
			if !strings.Contains(text, want) {
				t.Errorf("it is not said %q:\n%s", want, text)
			}
		}
		// One that never ran costs nobody anything.
		w.rate("7")
		before, earned := w.ledgerBalance(ledger.Exchange), w.dollars(ledger.Payable("ac-provider"))
		w.begin(w.monthlyAbroad("ls-2", "300.000001", 3, false))
		w.end("ls-2", w.clock())
		if w.ledgerBalance(ledger.Exchange) != before || w.dollars(ledger.Payable("ac-provider")) != earned {
			t.Error("months that were never used leave something in the exchange account")
		}
		w.right()
	})
}

func TestAReservationIsExchangedByTheRateOfItsPurchase(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.rate("7.123456789")
		w.buy(w.reservedAbroad("rv-1", "2", 1, 10, pricing.PartialUpfront))
		// 18.60 dollars in all, of which half at once.
		if got := w.dollars(ledger.Payable("ac-provider")); got.String() != "7.440000" {
			t.Errorf("the provider earned %s dollars, want 80 %% of 9.30", got)
		}
		w.begin(w.bundle("ls-1", 1))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(150*time.Minute))
		w.settle()
		w.right()
		lost := w.clock()
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-1", lost) })
		w.pass(time.Hour)
		w.settle()
		w.right()
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Deliver(ctx, tx, "rv-1", w.clock()) })
		w.end("ls-1", w.clock())
		w.pass(time.Hour)
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := w.EndReserved(ctx, tx, "rv-1", false)
			return err
		})
		w.pass(time.Hour)
		w.end("rv-1", w.clock())
		w.right()
		// Held for 2.5 h and 1.5 h of five hours, at 2.00 for each GPU-hour as it ended early.
		if got := w.dollars(ledger.Payable("ac-provider")); got.String() != "6.400000" {
			t.Errorf("the provider earned %s dollars, want 80 %% of 4 h at 2.00", got)
		}
		if text := w.everyChargeIsExplained(); !strings.Contains(text, "The provider listed 2.00 USD") {
			t.Error(text)
		}
		b := w.reservedAbroad("rv-2", "2", 2, 10, pricing.AllUpfront)
		b.Reservation.UpfrontDue++
		if err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return w.BeginReserved(ctx, tx, b) }); err == nil {
			t.Error("a reservation was taken that is not what is listed at its rate")
		}
		w.buy(w.reservedAbroad("rv-3", "2", 2, 10, pricing.AllUpfront))
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.Lose(ctx, tx, "rv-3", w.clock()) })
		w.do(func(ctx context.Context, tx *store.Tx) error {
			_, err := w.EndReserved(ctx, tx, "rv-3", true)
			return err
		})
		w.end("rv-3", w.clock())
		w.right()
	})
}

func TestVerifyNamesAnExchangeOfAPlanThatIsNotByItsRate(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"a market's price":      `UPDATE billing_rates SET listed = listed + 1000000`,
		"what is paid for it":   `UPDATE billing_rates SET rate = rate + 1000000`,
		"a month's price":       `UPDATE billing_monthly SET listed_per_month = listed_per_month + 1`,
		"a payment in advance":  `UPDATE billing_prepayments SET listed = listed + 10`,
		"a reservation's price": `UPDATE billing_reserved SET terms = REPLACE(terms, '"currency":"USD"', '"currency":"CNY"')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
			w.deposit("ac-renter", "10000")
			w.rate("7.123456789")
			w.begin(w.spotAbroad("ls-1", "0.5", "2"))
			w.begin(w.monthlyAbroad("ls-2", "300", 1, true))
			w.buy(w.reservedAbroad("rv-1", "2", 1, 10, pricing.PartialUpfront))
			w.startCompute("ls-1", w.clock())
			w.startCompute("ls-2", w.clock())
			w.setRate("ls-1", "0.8", w.pass(time.Hour))
			w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.pass(time.Hour))
			w.settle()
			w.end("ls-1", w.clock())
			w.forged(spoil, "")
		})
	}
}

// However plans of another currency are used, and whenever they are settled, what is
// charged and earned is by the rule, and the exchange accounts have both sides of it.
func TestExchangedPlansAreRightInAnyHistory(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			if n++; n > 8 {
				return // each verifies everything after each step
			}
			w := newWorld(rt, t.Context(), storetest.Open(t, storetest.Address(t)))
			if n == 4 { // once on the engine of this run
				w = newWorld(rt, t.Context(), db)
			}
			w.deposit("ac-renter", "9000000")
			w.rate(rapid.SampledFrom([]string{"7.123456789", "0.140381", "7", "123.456789"}).Draw(rt, "rate"))
			payment := rapid.SampledFrom([]pricing.Upfront{pricing.NoUpfront, pricing.PartialUpfront, pricing.AllUpfront}).Draw(rt, "payment")
			w.begin(w.spotAbroad("ls-1", "0.37", "5"))
			w.begin(w.monthlyAbroad("ls-2", "333.333333", rapid.SampledFrom([]int{1, 3}).Draw(rt, "months"), rapid.Bool().Draw(rt, "renews")))
			w.buy(w.reservedAbroad("rv-1", "1.234567891", rapid.Int64Range(1, 3).Draw(rt, "gpus"), 300, payment))
			w.startCompute("ls-1", w.clock())
			if rapid.Bool().Draw(rt, "runs") {
				w.startCompute("ls-2", w.clock())
			}
			held := true
			for range rapid.IntRange(2, 7).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 500_000).Draw(rt, "seconds")) * time.Second)
				w.ConfirmAlive([]string{"ls-1", "ls-2"}, now)
				switch rapid.IntRange(0, 4).Draw(rt, "act") {
				case 0:
					w.setRate("ls-1", rapid.SampledFrom([]string{"0.1", "0.333333333", "4.999999999"}).Draw(rt, "price"), now)
				case 1:
					at := now.Add(-time.Duration(rapid.Int64Range(0, 300).Draw(rt, "unheard")) * time.Second)
					w.do(func(ctx context.Context, tx *store.Tx) error {
						if held {
							return w.Lose(ctx, tx, "rv-1", at)
						}
						return w.Deliver(ctx, tx, "rv-1", now)
					})
					held = !held
				case 2:
					if _, err := w.RepriceMonths(w.ctx, operator, "ls-2", must(rt, rapid.SampledFrom([]string{"100", "299.999999", "900"}).Draw(rt, "month")), 500, 1_000_000_000_000); err != nil {
						wantCode(rt, err, "months_over")
					}
				}
				w.settle()
				w.right()
			}
			switch rapid.IntRange(0, 2).Draw(rt, "end") {
			case 0:
				w.endTerm("ls-2", w.clock(), billing.TermHostLost)
			case 1:
				w.do(func(ctx context.Context, tx *store.Tx) error {
					_, err := w.EndReserved(ctx, tx, "rv-1", !held)
					return err
				})
			}
			w.right()
			for _, id := range []string{"ls-1", "ls-2"} {
				w.end(id, w.clock())
			}
			w.pass(time.Hour)
			w.end("rv-1", w.clock())
			w.right()
			w.everyChargeIsExplained()
		})
	})
}
