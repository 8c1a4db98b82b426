package billing_test

import (
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

func (w *world) tiers(tiers ...pricing.Tier) billing.VolumeTiers {
	w.t.Helper()
	v, err := w.SetVolumeTiers(w.ctx, operator, money.CNY, tiers)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

// ran runs a lease from now on for some hours.
func (w *world) ran(leaseID, accountID string, hours int) {
	w.t.Helper()
	w.begin(w.of(leaseID, accountID, "RTX"))
	w.startCompute(leaseID, w.clock())
	w.ConfirmAlive([]string{leaseID}, w.pass(time.Duration(hours)*time.Hour))
	w.end(leaseID, w.clock())
}

// 10 % beyond 36.00 and 20 % beyond 72.00, of leases at 3.60 an hour.
func TestAMonthsVolumeIsTakenOffByTiersWhenItIsClosed(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.ran("ls-0", "ac-renter", 20) // in a month that began before the tiers were set
		set := w.tiers(pricing.Tier{From: must(t, "36"), BasisPoints: 1000}, pricing.Tier{From: must(t, "72"), BasisPoints: 2000})
		w.pass(32 * 24 * time.Hour)
		w.closeMonths()
		w.wantBalance(ledger.Promotions, "0.000000")
		w.ran("ls-1", "ac-renter", 25)
		w.ran("ls-2", "ac-renter", 5)
		w.grant(billing.CreateGrant{AccountID: "ac-renter", Amount: must(t, "8"), ValidFor: time.Hour})
		w.ran("ls-3", "ac-renter", 1) // by the grant
		w.wantBalance(ledger.Payable("ac-provider"), "146.880000")
		w.pass(31 * 24 * time.Hour)
		w.settle()
		w.closeMonths()
		// 108 in all: 3.60 of what lies between 36 and 72, 7.20 of the rest.
		invoices := w.invoices("ac-renter")
		v := invoices[len(invoices)-1]
		if v.Subtotal.String() != "97.200000" || v.Discount.String() != "14.400000" || len(v.Lines) != 3 || v.Lines[0].Granted.String() != "9.000000" || v.Lines[1].Granted.String() != "1.800000" {
			t.Fatalf("invoiced %s with a discount of %s: %+v", v.Subtotal, v.Discount, v.Lines)
		}
		w.wantBalance(ledger.Payable("ac-provider"), "146.880000") // as before
		w.wantBalance(ledger.Grant("ac-renter"), "0.000000")
		var all string
		charges, err := w.Charges(w.ctx, "ac-renter", "", "", 20)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range charges {
			all += w.said("ac-renter", c.ID) + "\n"
		}
		for _, want := range []string{
			"the account paid 108.000000 CNY for compute", set.ID, "10 % of what lies beyond 36.000000: of 36.000000 CNY.", "20 % of what lies beyond 72.000000: of 36.000000 CNY.",
			"Together that is 10.800000 CNY, rounded once. This lease has 90.000000 CNY of the month's compute, and so 9.000000 CNY of the discount",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("nothing says %q:\n%s", want, all)
			}
		}
		w.explains("ac-renter")
		w.explainsTransfers("ac-renter")
		w.addsUp("ac-renter", noon)
		w.right()
		w.closeMonths() // again, which gives nothing more
		w.right()
		if _, err := w.CreditInvoice(w.ctx, operator, v.ID, billing.Credit{}, ""); err != nil {
			t.Fatal(err)
		}
		w.right()
	})
}

func TestOnlyOperatorsSetVolumeDiscountsAndOnlySoundOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
	_, err := w.SetVolumeTiers(w.ctx, account.Principal{UserID: "us-eve", AccountID: "ac-eve", Role: account.Owner}, money.CNY, nil)
	wantCode(t, err, "forbidden")
	for name, tiers := range map[string][]pricing.Tier{
		"no order": {{From: 2, BasisPoints: 1}, {From: 1, BasisPoints: 2}}, "the same twice": {{From: 1, BasisPoints: 1}, {From: 1, BasisPoints: 2}},
		"less than nothing": {{From: 1, BasisPoints: -1}}, "more than all": {{From: 1, BasisPoints: 10_001}}, "a negative sum": {{From: -1, BasisPoints: 1}}, "too many": make([]pricing.Tier, 51),
	} {
		if _, err := w.SetVolumeTiers(w.ctx, operator, money.CNY, tiers); err == nil {
			t.Errorf("tiers with %s were set", name)
		} else {
			wantCode(t, err, "invalid_tiers")
		}
	}
	_, err = w.SetVolumeTiers(w.ctx, operator, "EUR", nil)
	wantCode(t, err, "invalid_tiers")
	w.tiers()
	if list, err := w.AllVolumeTiers(w.ctx); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestVerifyNamesVolumeDiscountsThatAreNotByTheTiers(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]string{
		"the tiers":      `UPDATE billing_volume_tiers SET tiers = replace(tiers, '1000', '1001')`,
		"since when":     `UPDATE billing_volume_tiers SET set_at = set_at + 5000000000000`,
		"the base":       `UPDATE billing_volumes SET base = base + 1`,
		"the amount":     `UPDATE billing_volumes SET amount = amount + 1`,
		"the month":      `UPDATE billing_volumes SET start_at = start_at + 1`,
		"the account":    `UPDATE billing_volumes SET account_id = 'ac-x'`,
		"none is there":  `DELETE FROM billing_volumes`,
		"what was given": `UPDATE billing_charges SET granted = granted + 1 WHERE id = (SELECT MAX(id) FROM billing_charges)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)))
			w.deposit("ac-renter", "1000")
			w.tiers(pricing.Tier{From: must(t, "36"), BasisPoints: 1000})
			w.closeMonths()
			w.pass(32 * 24 * time.Hour)
			w.closeMonths()
			w.ran("ls-1", "ac-renter", 25)
			w.pass(32 * 24 * time.Hour)
			w.closeMonths()
			w.forged(spoil, "")
		})
	}
}

// The oracle adds up what each lease cost in fractions and takes the tiers off once;
// how often it was settled makes no difference.
func TestVolumeComesToTheSameHoweverUseIsPosted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := 0
		rapid.Check(t, func(rt *rapid.T) {
			if n++; n > 12 {
				return // each closes months and verifies everything
			}
			w := newWorld(rt, t.Context(), db)
			w.now = noon.AddDate(n, 0, 0)
			year := w.now.Format("2006")
			renter := "ac-v" + year
			w.deposit(renter, "100000")
			bounds := []int64{rapid.Int64Range(0, 50_000_000).Draw(rt, "first"), rapid.Int64Range(50_000_001, 150_000_000).Draw(rt, "second")}
			off := []int64{rapid.Int64Range(0, 10_000).Draw(rt, "off"), rapid.Int64Range(0, 10_000).Draw(rt, "then off")}
			w.tiers(pricing.Tier{From: money.Amount(bounds[0]), BasisPoints: off[0]}, pricing.Tier{From: money.Amount(bounds[1]), BasisPoints: off[1]})
			w.closeMonths()
			w.pass(31 * 24 * time.Hour)
			w.closeMonths()
			total := new(big.Rat)
			for i := range rapid.IntRange(1, 4).Draw(rt, "leases") {
				id := fmt.Sprintf("ls-%d-%s", i, year)
				w.begin(w.of(id, renter, "RTX"))
				start := w.clock()
				w.startCompute(id, start)
				for range rapid.IntRange(1, 3).Draw(rt, "steps") {
					w.ConfirmAlive([]string{id}, w.pass(time.Duration(rapid.Int64Range(60, 40_000).Draw(rt, "seconds"))*time.Second))
					if rapid.Bool().Draw(rt, "settles") {
						w.settle()
					}
				}
				w.end(id, w.clock())
				total.Add(total, big.NewRat(int64(w.clock().Sub(start)/time.Second)*1000, 1)) // 0.001 a second
			}
			w.pass(40 * 24 * time.Hour)
			w.closeMonths()
			w.right()
			want := new(big.Rat)
			for i, from := range bounds {
				until := new(big.Rat).Set(total)
				if i == 0 && until.Cmp(big.NewRat(bounds[1], 1)) > 0 {
					until = big.NewRat(bounds[1], 1)
				}
				if within := until.Sub(until, big.NewRat(from, 1)); within.Sign() > 0 {
					want.Add(want, within.Mul(within, big.NewRat(off[i], 10_000)))
				}
			}
			var paid money.Amount
			for _, v := range w.invoices(renter) {
				for _, l := range v.Lines {
					paid += l.Amount - l.Granted
				}
			}
			if exact := new(big.Rat).Sub(total, new(big.Rat).SetInt64(nearestEven(want))); exact.Cmp(big.NewRat(int64(paid), 1)) != 0 {
				rt.Fatalf("%s is invoiced, the oracle has %s", paid, exact.FloatString(0))
			}
		})
	})
}
