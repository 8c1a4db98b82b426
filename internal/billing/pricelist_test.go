package billing_test

import (
	"context"
	"math/big"
	"slices"
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

func (w *world) priceList(n billing.NewPriceList) billing.PriceList {
	w.t.Helper()
	l, err := w.CreatePriceList(w.ctx, operator, n)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) assign(listID, accountID string) {
	w.t.Helper()
	if _, err := w.AssignPriceList(w.ctx, operator, listID, accountID); err != nil {
		w.t.Fatal(err)
	}
}

// listed are the terms of two GPUs of a model by the price list that holds, as whoever
// quotes makes them.
func (w *world) listed(leaseID, accountID, model string, change ...func(*pricing.Tariff, *pricing.Request)) billing.Terms {
	w.t.Helper()
	t := w.terms(leaseID, change...)
	t.AccountID, t.GPUModel, t.GPUs = accountID, model, 2
	list, err := w.PriceListInForce(w.ctx, accountID, w.clock())
	if err != nil || list == nil {
		if err != nil {
			w.t.Fatal(err)
		}
		return t
	}
	listed := t.Quote.Tariff
	own, applied, err := list.Tariff(listed, model, 2, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	if applied == nil {
		return t
	}
	q, err := pricing.NewQuote(own, pricing.Request{Plan: pricing.OnDemand, DiskGiB: t.Quote.DiskGiB}, w.clock())
	if err != nil {
		w.t.Fatal(err)
	}
	q.Listed, q.PriceList = &listed, applied
	t.Quote = q
	return t
}

func (w *world) said(accountID, id string) string {
	w.t.Helper()
	e, err := w.Explain(w.ctx, accountID, id)
	if err != nil || !e.OK() {
		w.t.Fatalf("%+v, %v", e, err)
	}
	var words []string
	for _, s := range e.Steps {
		words = append(words, s.Words(false))
		if strings.Contains(s.Words(true), "{") || s.Words(true) == s.Code {
			w.t.Errorf("%s has no words in Chinese: %s", s.Code, s.Words(true))
		}
	}
	text := strings.Join(words, "\n")
	if strings.Contains(text, "{") {
		w.t.Errorf("a value is missing:\n%s", text)
	}
	return text
}

// 3.60 an hour, of which the provider gets 80 %: 2.88 whatever the account pays.
func TestAnAccountPaysItsOwnPriceAndTheProviderIsPaidTheListedOne(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		half := mustRate(t, "0.9")
		free := money.Rate(0)
		l := w.priceList(billing.NewPriceList{Name: "partner", Currency: money.CNY, Rules: []pricing.PriceRule{
			{Meter: pricing.Compute, OffPPM: 125_000}, {GPUModel: "H100", Meter: pricing.Compute, Rate: &half}, {GPUModel: "A100", Meter: pricing.Compute, Rate: &free},
		}})
		w.begin(w.listed("ls-0", "ac-renter", "RTX")) // before it has the list
		w.assign(l.ID, "ac-renter")
		w.pass(time.Second)
		for id, model := range map[string]string{"ls-1": "RTX", "ls-2": "H100", "ls-3": "A100"} {
			w.begin(w.listed(id, "ac-renter", model))
		}
		if err := w.WithdrawPriceList(w.ctx, operator, l.ID, "ac-renter"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		w.begin(w.listed("ls-4", "ac-renter", "RTX")) // after it has it no more
		start := w.clock()
		for _, id := range []string{"ls-0", "ls-1", "ls-2", "ls-3", "ls-4"} {
			w.startCompute(id, start)
		}
		w.pass(time.Hour)
		for _, id := range []string{"ls-0", "ls-1", "ls-2", "ls-3", "ls-4"} {
			w.end(id, start.Add(time.Hour))
		}
		charges, err := w.Charges(w.ctx, "ac-renter", "", "", 10)
		if err != nil || len(charges) != 4+1 {
			t.Fatalf("charges %+v, %v", charges, err)
		}
		for _, c := range charges {
			want := map[string][3]string{ // amount, provider, commission
				"ls-0": {"3.600000", "2.880000", "0.720000"}, "ls-1": {"3.150000", "2.880000", "0.270000"}, "ls-2": {"1.800000", "2.880000", "-1.080000"},
				"ls-3": {"0.000000", "2.880000", "-2.880000"}, "ls-4": {"3.600000", "2.880000", "0.720000"},
			}[c.LeaseID]
			if got := [3]string{c.Amount.String(), c.ProviderShare.String(), c.Commission.String()}; got != want {
				t.Errorf("%s: %v, want %v", c.LeaseID, got, want)
			}
			text := w.said("ac-renter", c.ID)
			for _, want := range map[string][]string{
				"ls-1": {"The listed price is 3.60 CNY", "partner (" + l.ID + ") it is 12.5 % less: 3.15 CNY", "By the prices that the provider listed it is 3.600000 CNY"},
				"ls-2": {"each of the 2 GPUs costs 0.90 CNY, together 1.80 CNY"}, "ls-3": {"each of the 2 GPUs costs 0.00 CNY"},
			}[c.LeaseID] {
				if !strings.Contains(text, want) {
					t.Errorf("%s does not say %q:\n%s", c.LeaseID, want, text)
				}
			}
		}
		w.wantBalance(ledger.Payable("ac-provider"), "14.400000")
		w.wantBalance(ledger.Commission, "-2.250000")
		w.wantBalance(ledger.Wallet("ac-renter"), "87.850000")
		earned, err := w.Earnings(w.ctx, "ac-provider")
		if err != nil || len(earned) != 1 || earned[0].Charged.String() != "18.000000" || earned[0].Payable.String() != "14.400000" {
			t.Errorf("the provider reads %+v, %v", earned, err)
		}
		w.right()
		for _, r := range w.exported("ac-renter", "2026-03") {
			if r["ResourceId"] == "ls-1" && (r["ListUnitPrice"] != "3.6" || r["ContractedUnitPrice"] != "3.15" || r["ListCost"] != "3.6" || r["ContractedCost"] != "3.15" || r["BilledCost"] != "3.15") {
				t.Errorf("exported as %v", r)
			}
		}
	})
}

func TestOnlyOperatorsMakePriceListsAndOnlySoundOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	good := billing.NewPriceList{Name: "good", Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 100_000}}}
	eve := account.Principal{UserID: "us-eve", AccountID: "ac-eve", Role: account.Owner}
	_, err := w.CreatePriceList(w.ctx, eve, good)
	wantCode(t, err, "forbidden")
	much, less := mustRate(t, "1000.000000001"), money.Rate(-1)
	for name, change := range map[string]func(*billing.NewPriceList){
		"no name": func(n *billing.NewPriceList) { n.Name = " " }, "a hidden name": func(n *billing.NewPriceList) { n.Name = "a\u202eb" },
		"no prices": func(n *billing.NewPriceList) { n.Rules = nil }, "more than 100 %": func(n *billing.NewPriceList) { n.Rules[0].OffPPM = 1_000_001 },
		"less than nothing off": func(n *billing.NewPriceList) { n.Rules[0].OffPPM = -1 },
		"a negative price": func(n *billing.NewPriceList) {
			n.Currency, n.Rules[0] = money.CNY, pricing.PriceRule{Meter: pricing.Compute, Rate: &less}
		},
		"too high a price": func(n *billing.NewPriceList) {
			n.Currency, n.Rules[0] = money.CNY, pricing.PriceRule{Meter: pricing.Compute, Rate: &much}
		},
		"no currency": func(n *billing.NewPriceList) {
			r := money.Rate(1)
			n.Rules[0] = pricing.PriceRule{Meter: pricing.Compute, Rate: &r}
		},
		"a currency that is none": func(n *billing.NewPriceList) { n.Currency = "EUR" },
		"twice the same":          func(n *billing.NewPriceList) { n.Rules = append(n.Rules, n.Rules[0]) },
		"no such meter":           func(n *billing.NewPriceList) { n.Rules[0].Meter = "air" },
		"a time that is over":     func(n *billing.NewPriceList) { n.Until = w.clock() },
		"an end before its begin": func(n *billing.NewPriceList) { n.From, n.Until = w.clock().Add(time.Hour), w.clock().Add(time.Minute) },
	} {
		n := good
		n.Rules = slices.Clone(good.Rules)
		change(&n)
		if _, err := w.CreatePriceList(w.ctx, operator, n); err == nil {
			t.Errorf("a list with %s was made", name)
		} else {
			wantCode(t, err, "invalid_price_list")
		}
	}
	l := w.priceList(good)
	_, err = w.CreatePriceList(w.ctx, operator, good)
	wantCode(t, err, "price_list_exists")
	_, err = w.AssignPriceList(w.ctx, eve, l.ID, "ac-eve")
	wantCode(t, err, "forbidden")
	wantCode(t, w.WithdrawPriceList(w.ctx, eve, l.ID, "ac-eve"), "forbidden")
	_, err = w.AssignPriceList(w.ctx, operator, "pl-none", "ac-renter")
	wantCode(t, err, "price_list_not_found")
	wantCode(t, w.WithdrawPriceList(w.ctx, operator, l.ID, "ac-renter"), "price_list_not_found")
	w.assign(l.ID, "ac-renter")
	w.assign(l.ID, "ac-renter") // which changes nothing
	if list, err := w.PriceLists(w.ctx); err != nil || len(list) != 1 || len(list[0].Accounts) != 1 {
		t.Errorf("lists %+v, %v", list, err)
	}
	if list, err := w.PriceListsOf(w.ctx, "ac-eve"); err != nil || len(list) != 0 {
		t.Errorf("another account has %+v, %v", list, err)
	}
	rate := mustRate(t, "1")
	dollars := w.priceList(billing.NewPriceList{Name: "dollars", Currency: money.USD, Rules: []pricing.PriceRule{{Meter: pricing.Compute, Rate: &rate}}})
	_, err = w.AssignPriceList(w.ctx, operator, dollars.ID, "ac-other")
	wantCode(t, err, "currency_mismatch")
}

func TestAnAccountHasOnePriceListAtAnyMoment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	rules := []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 100_000}}
	change := w.clock().Add(24 * time.Hour)
	now := w.priceList(billing.NewPriceList{Name: "now", Rules: rules, Until: change})
	then := w.priceList(billing.NewPriceList{Name: "then", Rules: rules, From: change})
	ever := w.priceList(billing.NewPriceList{Name: "ever", Rules: rules})
	w.assign(now.ID, "ac-renter")
	w.assign(then.ID, "ac-renter")
	_, err := w.AssignPriceList(w.ctx, operator, ever.ID, "ac-renter")
	wantCode(t, err, "price_list_overlap")
	for _, want := range []string{"now", "then"} {
		if l, err := w.PriceListInForce(w.ctx, "ac-renter", w.clock()); err != nil || l == nil || l.Name != want {
			t.Errorf("at %s the list is %+v, %v; want %s", w.clock(), l, err, want)
		}
		w.pass(24 * time.Hour)
	}
	_, err = w.AssignPriceList(w.ctx, operator, now.ID, "ac-other")
	wantCode(t, err, "price_list_over")
	if err := w.WithdrawPriceList(w.ctx, operator, then.ID, "ac-renter"); err != nil {
		t.Fatal(err)
	}
	w.assign(ever.ID, "ac-renter")
}

func TestVerifyNamesPricesThatNoListGave(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"the list's prices":   `UPDATE billing_price_lists SET rules = replace(rules, '125000', '125001')`,
		"the list's time":     `UPDATE billing_price_lists SET valid_from = valid_from + 3600000000000`,
		"whose it is":         `UPDATE billing_priced_accounts SET account_id = 'ac-x'`,
		"since when":          `UPDATE billing_priced_accounts SET assigned_at = assigned_at + 3600000000`,
		"until when":          `UPDATE billing_priced_accounts SET ended_at = assigned_at - 3600000000`,
		"nobody's":            `DELETE FROM billing_priced_accounts`,
		"the price":           `UPDATE billing_leases SET quote = replace(quote, '"compute_per_hour":"3.15', '"compute_per_hour":"3.14')`,
		"the listed price":    `UPDATE billing_leases SET quote = replace(quote, '"compute_per_hour":"3.6', '"compute_per_hour":"3.7')`,
		"the GPUs":            `UPDATE billing_leases SET gpu_count = 3`,
		"the provider's part": `UPDATE billing_charges SET provider = provider + 1, commission = commission - 1`,
		"the listed sum":      `UPDATE billing_charges SET listed = listed - 1`,
		"what the list did":   `UPDATE billing_leases SET quote = replace(quote, '"price_list"', '"price_liszt"')`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
			w.deposit("ac-renter", "100")
			w.deposit("ac-x", "100")
			l := w.priceList(billing.NewPriceList{Name: "a", Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 125_000}}})
			w.assign(l.ID, "ac-renter")
			w.pass(time.Second)
			w.begin(w.listed("ls-1", "ac-renter", "RTX"))
			w.startCompute("ls-1", w.clock())
			w.end("ls-1", w.pass(time.Hour))
			w.right()
			w.exec(spoil)
			w.restart()
			r, err := w.VerifyLedger(w.ctx)
			if err != nil || r.OK() || r.Wrong[0].Subject != "ls-1" {
				t.Errorf("it is not noticed, or not named: %+v, %v", r.Wrong, err)
			}
		})
	}
}

func TestAnOwnPriceDoesNotChangeByAgreement(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	w.deposit("ac-renter", "100")
	l := w.priceList(billing.NewPriceList{Name: "a", Rules: []pricing.PriceRule{{Meter: pricing.Compute, OffPPM: 125_000}}})
	w.assign(l.ID, "ac-renter")
	w.begin(w.listed("ls-1", "ac-renter", "RTX"))
	err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		return w.AgreePrice(ctx, tx, billing.Agreement{LeaseID: "ls-1", PerHour: 1, From: w.clock().Add(time.Hour), ProposalID: "pc-1", UserID: "us-1"})
	})
	wantCode(t, err, "price_frozen")
}

// The oracle rates seconds and GiB·seconds with fractions, by a price of its own and
// by the listed one, and never looks at postings.
func TestOwnPricesComeToTheSameHoweverTheyArePosted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			if n++; n > 25 {
				return // each verifies everything
			}
			w := newWorld(rt, t.Context(), db)
			w.now = noon.AddDate(n, 0, 0)
			year := w.now.Format("2006")
			renter, provider, id := "ac-r"+year, "ac-p"+year, "ls-"+year
			w.deposit(renter, "100000")
			off := map[pricing.Meter]int64{}
			var rules []pricing.PriceRule
			for _, m := range []pricing.Meter{pricing.Compute, pricing.Storage, pricing.Egress} {
				off[m] = rapid.SampledFrom([]int64{0, 1, 125_000, 333_333, 999_999, 1_000_000}).Draw(rt, "off "+string(m))
				rules = append(rules, pricing.PriceRule{Meter: m, OffPPM: off[m]})
			}
			l := w.priceList(billing.NewPriceList{Name: year, Rules: rules})
			w.assign(l.ID, renter)
			terms := w.listed(id, renter, "H100", func(t *pricing.Tariff, r *pricing.Request) { r.DiskGiB = 7 })
			terms.ProviderID = provider
			w.begin(terms)
			start := w.clock()
			w.startStorage(id, start)
			w.startCompute(id, start)
			var sent int64
			for range rapid.IntRange(1, 6).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 40_000).Draw(rt, "seconds")) * time.Second)
				w.ConfirmAlive([]string{id}, now)
				if rapid.Bool().Draw(rt, "settles") {
					w.settle()
				}
				if rapid.Bool().Draw(rt, "sends") {
					sent += rapid.Int64Range(1, 5_000_000_000).Draw(rt, "bytes")
					if err := w.egress(id, sent); err != nil {
						rt.Fatal(err)
					}
				}
			}
			ended := w.clock().Add(-time.Duration(rapid.Int64Range(0, 20_000).Draw(rt, "told late")) * time.Second)
			if ended.Before(start.Add(time.Minute)) {
				ended = start.Add(time.Minute)
			}
			if ended.After(w.clock()) {
				ended = w.clock()
			}
			w.end(id, ended)
			w.right()
			seconds := max(60, int64(ended.Sub(start)/time.Second)) // the minimum at a start
			kept := int64(ended.Sub(start) / time.Second)
			month := int64(31 * 24 * 3600) // March; the runs are shorter than what is left of it
			quantity := map[pricing.Meter]*big.Rat{
				pricing.Compute: big.NewRat(seconds, 3600), pricing.Storage: big.NewRat(7*kept, month), pricing.Egress: big.NewRat(sent, 1_000_000_000),
			}
			listed := map[pricing.Meter]string{pricing.Compute: "3.6", pricing.Storage: "0.35", pricing.Egress: "0.8"}
			micros := func(rate, q *big.Rat) int64 {
				x := new(big.Rat).Mul(rate, q)
				return nearestEven(x.Mul(x, big.NewRat(1_000_000, 1)))
			}
			var paid, earned int64
			for m, q := range quantity {
				rate, _ := new(big.Rat).SetString(listed[m])
				nanos := new(big.Rat).Mul(rate, big.NewRat(1_000_000_000, 1))
				own := big.NewRat(nearestEven(nanos.Mul(nanos, big.NewRat(1_000_000-off[m], 1_000_000))), 1_000_000_000)
				paid += micros(own, q)
				all := micros(rate, q)
				earned += all - nearestTwentieth(all)
			}
			if got := w.charged(renter); int64(got) != paid {
				rt.Fatalf("charged %s, the oracle has %s", got, money.Amount(paid))
			}
			if got := w.ledgerBalance(ledger.Payable(provider)); int64(got) != earned {
				rt.Fatalf("the provider earned %s, the oracle has %s", got, money.Amount(earned))
			}
		})
	})
}

// nearestEven rounds a fraction half to even.
func nearestEven(x *big.Rat) int64 {
	twice := new(big.Int).Mul(x.Num(), big.NewInt(2))
	q, r := new(big.Int).DivMod(twice.Add(twice, x.Denom()), new(big.Int).Mul(x.Denom(), big.NewInt(2)), new(big.Int))
	if r.Sign() == 0 && q.Bit(0) == 1 {
		q.Sub(q, big.NewInt(1))
	}
	return q.Int64()
}

// nearestTwentieth is the platform's 20 %, half up.
func nearestTwentieth(a int64) int64 { return (a*2 + 5) / 10 }

// Whatever the platform adds to a price, documents, taxes and what is taken back of them
// come to what was posted.
func TestInvoicesAndCreditNotesOfOwnPricesAddUp(t *testing.T) {
	t.Parallel()
	for _, inclusive := range []bool{false, true} {
		eachWith(t, func(t *testing.T, w *world) {
			w.config.Taxes, w.config.Jurisdiction = []pricing.TaxRule{{Jurisdiction: "X", Name: "VAT", PPM: 60_000, Inclusive: inclusive}}, "X"
			w.restart()
			w.deposit("ac-renter", "100")
			free, half := money.Rate(0), mustRate(t, "0.9")
			l := w.priceList(billing.NewPriceList{Name: "partner", Currency: money.CNY, Rules: []pricing.PriceRule{
				{Meter: pricing.Compute, OffPPM: 125_000}, {GPUModel: "H100", Meter: pricing.Compute, Rate: &half}, {GPUModel: "A100", Meter: pricing.Compute, Rate: &free},
			}})
			w.assign(l.ID, "ac-renter")
			w.coupon("TENTH 10% upto=5.00CNY")
			w.redeem("ac-renter", "TENTH")
			w.pass(time.Second)
			start := w.clock()
			for id, model := range map[string]string{"ls-1": "RTX", "ls-2": "H100", "ls-3": "A100"} {
				w.begin(w.listed(id, "ac-renter", model))
				w.startCompute(id, start)
			}
			for range 3 {
				w.ConfirmAlive([]string{"ls-1", "ls-2", "ls-3"}, w.pass(1234*time.Second))
				w.settle()
			}
			for _, id := range []string{"ls-1", "ls-2", "ls-3"} {
				w.end(id, start.Add(3000*time.Second)) // a correction
			}
			w.right()
			w.pass(31 * 24 * time.Hour)
			w.closeMonths()
			w.right()
			v := w.invoices("ac-renter")[0]
			if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{Lines: []billing.CreditLine{{Position: 0, Amount: 10_000}}}, ""); err != nil {
				t.Fatal(err)
			}
			w.right()
			if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
				t.Fatal(err)
			}
			w.right()
			w.explains("ac-renter")
			w.explainsTransfers("ac-renter")
			w.addsUp("ac-renter", noon)
		})
	}
}
