package billing_test

import (
	"context"
	"fmt"
	"math/big"
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

func owner(accountID string) account.Principal {
	return account.Principal{UserID: "us-" + accountID, AccountID: accountID, Role: account.Owner}
}

// coupon makes a coupon for 30 days.
func (w *world) coupon(rule string) {
	w.t.Helper()
	if _, err := w.CreateCoupon(w.ctx, operator, rule, 30*24*time.Hour); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) redeem(accountID, code string) billing.Grant {
	w.t.Helper()
	g, err := w.Redeem(w.ctx, owner(accountID), code)
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *world) of(leaseID, accountID, model string) billing.Terms {
	t := w.terms(leaseID)
	t.AccountID, t.GPUModel, t.GPUs = accountID, model, 1
	return t
}

func TestACouponOfAShareTakesItOffUpToItsSum(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.coupon("WELCOME 12.5% upto=1.00CNY meters=compute")
		w.begin(w.of("ls-1", "ac-renter", "RTX"))
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		g := w.redeem("ac-renter", "welcome") // the hour before it is not discounted
		if g.SharePPM != 125_000 || g.Amount.String() != "1.000000" {
			t.Fatalf("redeemed %+v", g)
		}
		for range 2 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
			w.settle()
		}
		// 3 × 3.60 less 12.5 % of two hours.
		w.wantBalance(ledger.Grant("ac-renter"), "0.100000")
		if b, err := w.Balance(w.ctx, "ac-renter"); err != nil || b.Granted != 0 {
			t.Errorf("a share counts as money: %+v, %v", b, err)
		}
		w.right()
		for range 2 {
			w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
			w.settle()
		}
		w.end("ls-1", w.clock())
		w.wantBalance(ledger.Wallet("ac-renter"), "83.000000") // 100 − 18 + 1
		w.wantBalance(ledger.Payable("ac-provider"), "14.400000")
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		charges, err := w.Charges(w.ctx, "ac-renter", "", "", 10)
		if err != nil {
			t.Fatal(err)
		}
		var all string
		for _, c := range charges {
			all += w.said("ac-renter", c.ID) + "\n"
		}
		for _, want := range []string{
			"The coupon WELCOME (" + g.ID + ") takes 12.5 % off: with this charge off 3.600000 CNY of this meter of the lease, less the 0.000000 that it took off before: 0.450000 CNY of 3.600000.",
			"off 10.800000 CNY of this meter of the lease, less the 0.900000 that it took off before: 0.100000 CNY of 3.600000.", "It takes off 1.00 CNY at most, of which 0.100000 was left.",
			"Grants paid 0.450000 CNY of this charge, and 3.150000 was left to pay.",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("nothing says %q:\n%s", want, all)
			}
		}
		w.right()
		w.pass(31 * 24 * time.Hour)
		w.closeMonths()
		v := w.invoices("ac-renter")[0]
		if v.Total.String() != "17.000000" || v.Discount.String() != "1.000000" {
			t.Errorf("invoiced %s with a discount of %s", v.Total, v.Discount)
		}
		w.right()
	})
}

func TestCouponsOfASharePayWhatIsInTheirTimeAndCorrectionsGiveTheShareBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.coupon("HALF 50% upto=50.00CNY until=" + noon.Add(2*time.Hour).Format(time.RFC3339))
		g := w.redeem("ac-renter", "HALF")
		if !g.ExpiresAt.Equal(noon.Add(2 * time.Hour)) {
			t.Errorf("it goes on until %s", g.ExpiresAt)
		}
		w.begin(w.of("ls-1", "ac-renter", "RTX"))
		start := w.clock()
		w.startCompute("ls-1", start)
		w.pass(time.Hour)
		w.ConfirmAlive([]string{"ls-1"}, w.clock())
		w.settle()
		w.wantBalance(ledger.Grant("ac-renter"), "48.200000")
		w.stopCompute("ls-1", start.Add(30*time.Minute)) // it had stopped long before
		w.wantBalance(ledger.Grant("ac-renter"), "49.100000")
		charges, err := w.Charges(w.ctx, "ac-renter", "", "", 10)
		if err != nil || len(charges) != 2 {
			t.Fatalf("%+v, %v", charges, err)
		}
		if text := w.said("ac-renter", charges[0].ID) + w.said("ac-renter", charges[1].ID); !strings.Contains(text, "50 %: of 1.800000 CNY 0.900000 goes back to it") {
			t.Errorf("it does not say what goes back:\n%s", text)
		}
		w.right()
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(3*time.Hour)) // two hours of it after the coupon
		w.settle()
		w.end("ls-1", w.clock())
		w.wantBalance(ledger.Wallet("ac-renter"), "90.100000") // 0.90 + 1.80 + 7.20
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		w.right()
	})
}

func TestCouponsThatCannotBeUsedSaySo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)), func(c *billing.Config) {
		c.CurrencyOf = func(_ context.Context, id string) (money.Currency, error) {
			if id == "ac-dollars" {
				return money.USD, nil
			}
			return money.CNY, nil
		}
	})
	make := func(rule string) error {
		_, err := w.CreateCoupon(w.ctx, operator, rule, time.Hour)
		return err
	}
	wantCode(t, make("ALL 10%"), "coupon_share")
	wantCode(t, make("MUCH 101% upto=5.00CNY"), "invalid_coupon")
	wantCode(t, make("LESS -1% upto=5.00CNY"), "invalid_coupon")
	wantCode(t, make("OVER 10% upto=5.00CNY until="+noon.Format(time.RFC3339)), "invalid_coupon")
	w.coupon("SOON 10% upto=5.00CNY from=" + noon.Add(time.Hour).Format(time.RFC3339) + " until=" + noon.Add(2*time.Hour).Format(time.RFC3339))
	w.coupon("ONCE 10% upto=5.00CNY max=1")
	_, err := w.Redeem(w.ctx, owner("ac-renter"), "SOON")
	wantCode(t, err, "coupon_unusable")
	first := w.redeem("ac-renter", "ONCE")
	if again := w.redeem("ac-renter", "ONCE"); again.ID != first.ID {
		t.Errorf("redeemed twice: %+v", again)
	}
	_, err = w.Redeem(w.ctx, owner("ac-other"), "ONCE") // it is another account's
	wantCode(t, err, "coupon_unusable")
	_, err = w.Redeem(w.ctx, owner("ac-dollars"), "SOON")
	wantCode(t, err, "coupon_unusable")
	w.pass(time.Hour)
	_, err = w.Redeem(w.ctx, owner("ac-dollars"), "SOON")
	wantCode(t, err, "currency_mismatch")
	w.redeem("ac-renter", "SOON")
	w.pass(time.Hour)
	_, err = w.Redeem(w.ctx, owner("ac-other"), "SOON")
	wantCode(t, err, "coupon_unusable")
}

func TestAGrantForOneModelPaysForLeasesOfItOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		g := w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: 10_000_000, ValidFor: 100 * time.Hour, GPUModel: "H100"})
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
			return w.BeginLease(ctx, tx, w.of("ls-0", "ac-renter", "RTX"))
		})
		wantCode(t, err, "insufficient_balance")
		w.begin(w.of("ls-1", "ac-renter", "H100"))
		w.deposit("ac-renter", "50")
		w.begin(w.of("ls-2", "ac-renter", "RTX"))
		w.startCompute("ls-2", w.clock())
		w.ConfirmAlive([]string{"ls-2"}, w.pass(time.Hour))
		w.settle()
		if list, err := w.Grants(w.ctx, "ac-renter"); err != nil || !list[0].ExpiresAt.IsZero() {
			t.Errorf("use of another model began its time: %+v, %v", list, err)
		}
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.pass(2*time.Hour))
		w.settle()
		w.wantBalance(ledger.Grant("ac-renter"), "2.800000") // 10 − 7.20
		w.ConfirmAlive([]string{"ls-1", "ls-2"}, w.pass(time.Hour))
		w.end("ls-1", w.clock())
		w.end("ls-2", w.clock())
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		w.wantBalance(ledger.Wallet("ac-renter"), "34.800000") // 50 − 4 × 3.60 − 0.80
		w.right()
		w.exec(`UPDATE billing_grants SET gpu_model = 'A100'`)
		r, err := w.VerifyLedger(w.ctx)
		if err != nil || r.OK() || r.Wrong[0].Subject != g.ID {
			t.Errorf("a grant for another model is not named: %+v, %v", r.Wrong, err)
		}
	})
}

func TestVerifyNamesWhatCouponsOfAShareDidNotPay(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ spoil, subject string }{
		"the share":           {`UPDATE billing_grants SET share_ppm = share_ppm + 1`, "ch-"},
		"the amount":          {`UPDATE billing_shares SET amount = amount - 1 WHERE number = 2`, "ch-"},
		"the base":            {`UPDATE billing_shares SET base = base + 1 WHERE number = 1`, "ch-"},
		"the charge":          {`UPDATE billing_shares SET charge_id = (SELECT MIN(id) FROM billing_charges) WHERE number = 2`, "ch-"},
		"the order":           {`UPDATE billing_shares SET number = 9 WHERE number = 2`, "gr-"},
		"one is gone":         {`DELETE FROM billing_shares WHERE number = 3`, "gr-"},
		"none is left":        {`DELETE FROM billing_shares`, "gr-"},
		"the sums":            {`UPDATE billing_draws SET base = base + 1`, "gr-"},
		"what is spent":       {`UPDATE billing_grants SET spent = spent - 1`, "gr-"},
		"the time":            {`UPDATE billing_grants SET active_from = active_from + 3600000000`, "ch-"},
		"its end":             {`UPDATE billing_grants SET expires_at = active_from + 3600000000`, "ch-"},
		"whose it is":         {`UPDATE billing_grants SET account_id = 'ac-x'`, "gr-"},
		"what it is for":      {`UPDATE billing_grants SET meters = '["egress"]'`, "gr-"},
		"that it is a coupon": {`UPDATE billing_grants SET share_ppm = 0`, "billing_shares"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
			w.deposit("ac-renter", "100")
			w.deposit("ac-x", "1")
			w.coupon("A 33.3333% upto=2.50CNY")
			w.redeem("ac-renter", "A")
			w.begin(w.of("ls-1", "ac-renter", "RTX"))
			w.startCompute("ls-1", w.clock())
			for range 3 {
				w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
				w.settle()
			}
			w.forged(c.spoil, c.subject)
		})
	}
}

// The oracle knows what each lease used of each meter in the coupons' time, and takes
// their shares off with fractions: one coupon of everything without a limit that can be
// reached, then one of compute of what that leaves. Settlements, cuts and late news
// make no difference.
func TestSharesComeToTheSameHoweverTheyArePosted(t *testing.T) {
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
			renter := "ac-s" + year
			w.deposit(renter, "100000")
			first := rapid.SampledFrom([]int64{1, 33_333, 125_000, 999_999, 1_000_000}).Draw(rt, "first")
			second := rapid.SampledFrom([]int64{7, 200_000, 500_000}).Draw(rt, "second")
			w.coupon(fmt.Sprintf("A%s %s upto=90000.00CNY", year, share(first)))
			w.coupon(fmt.Sprintf("B%s %s upto=90000.00CNY meters=compute", year, share(second)))
			w.redeem(renter, "A"+year)
			w.pass(time.Microsecond)
			w.redeem(renter, "B"+year)
			start := w.clock()
			ids := []string{"ls-1-" + year, "ls-2-" + year}
			sent := map[string]int64{}
			for _, id := range ids {
				w.begin(w.of(id, renter, "RTX"))
				w.startCompute(id, start)
			}
			for range rapid.IntRange(1, 7).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(60, 40_000).Draw(rt, "seconds")) * time.Second)
				w.ConfirmAlive(ids, now)
				if rapid.Bool().Draw(rt, "settles") {
					w.settle()
				}
				if id := rapid.SampledFrom(ids).Draw(rt, "lease"); rapid.Bool().Draw(rt, "sends") {
					sent[id] += rapid.Int64Range(1, 5_000_000_000).Draw(rt, "bytes")
					if err := w.egress(id, sent[id]); err != nil {
						rt.Fatal(err)
					}
				}
			}
			paid := big.NewInt(0)
			for _, id := range ids {
				ended := w.clock().Add(-time.Duration(rapid.Int64Range(0, 20_000).Draw(rt, "told late")) * time.Second)
				if ended.Before(start.Add(time.Minute)) {
					ended = start.Add(time.Minute)
				}
				w.end(id, ended)
				for m, due := range map[pricing.Meter]int64{
					pricing.Compute: nearestEven(big.NewRat(int64(ended.Sub(start)/time.Second)*3_600_000, 3600)),
					pricing.Egress:  nearestEven(big.NewRat(sent[id]*8, 10_000)),
				} {
					due -= nearestEven(big.NewRat(due*first, 1_000_000))
					if m == pricing.Compute {
						due -= nearestEven(big.NewRat(due*second, 1_000_000))
					}
					paid.Add(paid, big.NewInt(due))
				}
			}
			w.right()
			if got := w.ledgerBalance(ledger.Wallet(renter)); int64(got) != 100_000_000_000-paid.Int64() {
				rt.Fatalf("%s is left, the oracle has paid %s", got, money.Amount(paid.Int64()))
			}
		})
	})
}

// share writes millionths as coupons have them.
func share(ppm int64) string { return fmt.Sprintf("%d.%04d%%", ppm/10_000, ppm%10_000) }
