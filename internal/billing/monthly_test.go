package billing_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
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

// monthly are terms of 300 a month, at 3.60 an hour on demand, with 20 % commission.
func (w *world) monthly(leaseID, zone string, months int, renews bool, change ...func(*billing.Terms)) billing.Terms {
	w.t.Helper()
	t := w.terms(leaseID, func(_ *pricing.Tariff, r *pricing.Request) {
		p, err := pricing.NewPrepaid(w.clock(), zone, must(w.t, "300"), months, []pricing.TermDiscount{{Months: 3, BasisPoints: 500}, {Months: 12, BasisPoints: 1500}}, renews)
		if err != nil {
			w.t.Fatal(err)
		}
		r.Plan, r.TimeZone, r.Prepaid = pricing.Monthly, zone, &p
	})
	for _, c := range change {
		c(&t)
	}
	return t
}

func onDemandAfter(t *billing.Terms) { t.OnLapse = billing.LapseOnDemand }

func (w *world) endTerm(leaseID string, at time.Time, code string) {
	w.t.Helper()
	w.do(func(ctx context.Context, tx *store.Tx) error { return w.EndTerm(ctx, tx, leaseID, at, code) })
}

func (w *world) months(leaseID string) billing.Months {
	w.t.Helper()
	m, err := w.Months(w.ctx, leaseID)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

func TestMonthsArePaidAtAcceptanceAndComputeInThemIsFree(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.begin(w.monthly("ls-1", "Asia/Shanghai", 3, false))
		w.wantBalance(ledger.Wallet("ac-renter"), "145.000000")
		w.wantBalance(ledger.Payable("ac-provider"), "684.000000")
		w.wantBalance(ledger.Commission, "171.000000")
		w.startCompute("ls-1", w.pass(time.Minute))
		w.ConfirmAlive([]string{"ls-1"}, w.pass(1000*time.Hour))
		w.settle()
		b := w.bill("ls-1")
		if b.Total.String() != "855.000000" || b.Posted != b.Total || len(b.Lines) != 2 {
			t.Fatalf("bill %+v", b)
		}
		if b.Lines[0].Kind != "term" || b.Lines[1].Kind != billing.LineCovered || b.Lines[1].Amount != 0 || b.Lines[1].Used != 3_600_000 {
			t.Errorf("lines %+v", b.Lines)
		}
		if want := "paid 3 months in advance, 2026-03-02T12:00:00Z to 2026-06-02T12:00:00Z, at 300.00 CNY a month less 5.00 %: 855.00 CNY"; b.Lines[0].Words != want {
			t.Errorf("the line says %q, want %q", b.Lines[0].Words, want)
		}
		if r, err := w.Runway(w.ctx, "ac-renter", w.clock()); err != nil || r.BurnPerHour != 0 || !r.Until.IsZero() {
			t.Errorf("runway %+v, %v: what is paid for burns nothing", r, err)
		}
		w.right()
	})
}

func TestWithoutTheMoneyForItsMonthsNoLeaseBegins(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "299.999999")
		err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
			return w.BeginLease(ctx, tx, w.monthly("ls-1", "UTC", 1, false))
		})
		wantCode(t, err, "insufficient_balance")
		w.wantBalance(ledger.Wallet("ac-renter"), "299.999999")
		w.deposit("ac-renter", "0.000001")
		w.begin(w.monthly("ls-1", "UTC", 1, false))
		w.begin(w.monthly("ls-1", "UTC", 1, false)) // a repeat pays nothing again
		w.wantBalance(ledger.Wallet("ac-renter"), "0.000000")
	})
}

func TestALeaseThatNeverRanGetsItsMonthsBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "300")
		w.begin(w.monthly("ls-1", "UTC", 1, true))
		w.end("ls-1", w.pass(time.Hour))
		w.end("ls-1", w.pass(time.Hour))
		w.wantBalance(ledger.Wallet("ac-renter"), "300.000000")
		w.wantBalance(ledger.Payable("ac-provider"), "0.000000")
		w.right()
	})
}

func TestATermRenewsOnItsBoundaryOnceWhoeverLooksAndHoweverLate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.now = time.Date(2026, 1, 31, 1, 30, 0, 0, time.UTC) // 09:30 in Shanghai
		w.deposit("ac-renter", "1200")
		w.begin(w.monthly("ls-1", "Asia/Shanghai", 1, true))
		w.startCompute("ls-1", w.clock())
		for _, c := range []struct{ at, until, wallet string }{
			{"2026-02-28T01:29:59Z", "2026-02-28T01:30:00Z", "900.000000"},
			{"2026-02-28T01:30:00Z", "2026-03-31T01:30:00Z", "600.000000"},
			{"2026-04-30T12:00:00Z", "2026-05-31T01:30:00Z", "0.000000"}, // two boundaries at once
		} {
			at, _ := time.Parse(time.RFC3339, c.at)
			w.pass(at.Sub(w.clock()))
			w.ConfirmAlive([]string{"ls-1"}, at)
			w.watch()
			w.restart()
			w.watch()
			w.settle()
			if m := w.months("ls-1"); m.Until.Format(time.RFC3339) != c.until {
				t.Errorf("at %s it is paid until %s, want %s", c.at, m.Until, c.until)
			}
			w.wantBalance(ledger.Wallet("ac-renter"), c.wallet)
		}
		if b := w.bill("ls-1"); b.Total.String() != "1200.000000" {
			t.Errorf("four months cost %s", b.Total)
		}
		w.right()
	})
}

func TestARenewalWithoutMoneyStopsOrFallsToOnDemandAsTheRenterChose(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "700") // 100 are left, and 3.60 held for on demand at most
		w.begin(w.monthly("ls-stop", "UTC", 1, true))
		w.begin(w.monthly("ls-go", "UTC", 1, true, onDemandAfter))
		ids := []string{"ls-stop", "ls-go"}
		for _, id := range ids {
			w.startCompute(id, w.clock())
		}
		end := w.months("ls-go").Until
		for _, left := range []time.Duration{8 * 24 * time.Hour, 7 * 24 * time.Hour, 24 * time.Hour, time.Hour} {
			w.pass(end.Add(-left).Sub(w.clock()))
			w.ConfirmAlive(ids, w.clock())
			w.watch()
			w.watch()
		}
		if got := strings.Join(w.warnings, ", "); got != "renewal 168h0m0s, renewal 168h0m0s, renewal 24h0m0s, renewal 24h0m0s, renewal 1h0m0s, renewal 1h0m0s" {
			t.Errorf("warnings %s", got)
		}
		w.pass(2 * time.Hour)
		w.ConfirmAlive(ids, w.clock())
		w.watch()
		w.settle()
		if !slices.Contains(w.orders, "ls-stop term_over") || slices.Contains(w.orders, "ls-go term_over") {
			t.Errorf("orders %v", w.orders)
		}
		if b := w.bill("ls-stop"); b.Total.String() != "300.000000" {
			t.Errorf("the one that stops costs %s: nothing behind its months", b.Total)
		}
		if b := w.bill("ls-go"); b.Total.String() != "303.600000" {
			t.Errorf("the one that runs on costs %s, want its month and one hour", b.Total)
		}
		w.right()
	})
}

func TestAHostThatComesBackAfterTheMonthsAreOverChargesNothing(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "400")
		w.begin(w.monthly("ls-1", "UTC", 1, false))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Hour)) // the host is silent
		w.pass(60 * 24 * time.Hour)
		w.watch()
		w.do(func(ctx context.Context, tx *store.Tx) error { return w.ResumeCompute(ctx, tx, "ls-1", w.clock()) })
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		w.watch()
		if len(w.orders) == 0 || w.orders[0] != "ls-1 term_over" {
			t.Errorf("orders %v", w.orders)
		}
		w.stopCompute("ls-1", w.clock())
		if b := w.bill("ls-1"); b.Total.String() != "300.000000" {
			t.Errorf("it costs %s, want its month", b.Total)
		}
		// Started again by its renter it is on demand.
		w.do(func(ctx context.Context, tx *store.Tx) error {
			if err := w.CheckFunds(ctx, tx, "ls-1"); err != nil {
				return err
			}
			return w.StartCompute(ctx, tx, "ls-1", w.clock())
		})
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour))
		if b := w.bill("ls-1"); b.Total.String() != "303.600000" {
			t.Errorf("it costs %s, want one hour more", b.Total)
		}
		w.right()
	})
}

func TestGivingATermUpPaysBackByTheUndiscountedPriceAndALostHostByThePaidOne(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.now = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
		w.deposit("ac-renter", "10000")
		for _, c := range []struct{ code, back string }{
			// 3 months for 855; a third of them is used: 300 undiscounted, 285 as paid.
			{billing.TermGivenUp, "555.000000"}, {billing.TermHostLost, "570.000000"},
		} {
			id := "ls-" + c.code
			w.now = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
			w.begin(w.monthly(id, "UTC", 3, false))
			w.startCompute(id, w.clock())
			before := w.ledgerBalance(ledger.Wallet("ac-renter"))
			w.pass(30 * 24 * time.Hour)
			w.ConfirmAlive([]string{id}, w.clock())
			w.endTerm(id, w.clock(), c.code)
			w.endTerm(id, w.pass(time.Minute), billing.TermGivenUp)
			w.end(id, w.pass(time.Minute))
			if back := w.ledgerBalance(ledger.Wallet("ac-renter")) - before; back.String() != c.back {
				t.Errorf("%s: %s comes back, want %s", c.code, back, c.back)
			}
			b := w.bill(id)
			if b.Unbilled != 0 || b.Lines[1].Kind != "refund" {
				t.Errorf("%s: bill %+v", c.code, b)
			}
		}
		w.right()
	})
}

// Each start has a minimum on demand. Of runs in months that are paid for nothing is due
// beside them, however soon the months are given up.
func TestMonthsThatAreGivenUpRightAfterAStartCostNoMinimum(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"while it runs": false, "when it is stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, w *world) {
				w.deposit("ac-renter", "1000")
				w.begin(w.monthly("ls-1", "UTC", 1, false, func(t *billing.Terms) { t.Quote.Tariff.MinimumSeconds = 60 }))
				for i := range 3 {
					w.startCompute("ls-1", w.pass(2*time.Second))
					w.ConfirmAlive([]string{"ls-1"}, w.pass(3*time.Second))
					if i < 2 || stopped {
						w.stopCompute("ls-1", w.clock())
					}
				}
				w.pass(time.Second)
				w.endTerm("ls-1", w.clock(), billing.TermGivenUp)
				w.end("ls-1", w.clock())
				w.settle()
				w.right()
				for _, l := range w.bill("ls-1").Lines {
					if l.Kind == billing.LineUse && l.Amount != 0 {
						t.Errorf("a run costs %s: %+v", l.Amount, l)
					}
				}
			})
		})
	}
}

func TestAChangeOfPriceCreditsTheRestAndChargesItAnew(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.now = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		w.deposit("ac-renter", "10000")
		w.begin(w.monthly("ls-1", "UTC", 1, true, func(t *billing.Terms) { t.Quote.Prepaid.PerMonth = 3_000_000_000 }))
		w.startCompute("ls-1", w.clock())
		w.pass(12 * 24 * time.Hour)
		// The example of docs/pricing.md: 1,225.806452 more.
		c, err := w.PreviewReprice(w.ctx, "ls-1", 5_000_000_000, 0)
		if err != nil || c.Net.String() != "1225.806452" {
			t.Fatalf("preview %+v, %v", c, err)
		}
		_, err = w.RepriceMonths(w.ctx, operator, "ls-1", 5_000_000_000, 0, c.Net-1)
		wantCode(t, err, "price_moved")
		m, err := w.RepriceMonths(w.ctx, operator, "ls-1", 5_000_000_000, 0, c.Net)
		if err != nil || m.NextPrice.String() != "5000.000000" {
			t.Fatalf("%+v, %v", m, err)
		}
		if b := w.bill("ls-1"); b.Total.String() != "4225.806452" {
			t.Errorf("the bill is %s", b.Total)
		}
		// Given up at the end of the same day: a day at the new price is used of it.
		w.pass(24 * time.Hour)
		w.end("ls-1", w.clock())
		if b := w.bill("ls-1"); b.Total.String() != "1322.580646" { // 12 ÷ 31 of 3,000 and 1 ÷ 31 of 5,000, each rounded
			t.Errorf("the bill is %s", b.Total)
		}
		w.right()
	})
}

func TestALeaseOnDemandHasNoMonthsAndMonthsThatAreOverDoNotChange(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "1000")
		w.begin(w.terms("ls-1"))
		_, err := w.Months(w.ctx, "ls-1")
		wantCode(t, err, "not_monthly")
		w.begin(w.monthly("ls-2", "UTC", 1, false))
		w.pass(40 * 24 * time.Hour)
		yes := true
		_, err = w.SetMonths(w.ctx, operator, "ls-2", billing.MonthsChange{Renews: &yes})
		wantCode(t, err, "months_over")
		never := billing.Lapse("never")
		_, err = w.SetMonths(w.ctx, operator, "ls-2", billing.MonthsChange{OnLapse: &never})
		wantCode(t, err, "invalid_on_lapse")
	})
}

// monthStory is a lease with months, told without money: what was paid for, in
// exact fractions, and what ran outside of it.
type monthStory struct {
	terms  billing.Terms
	months int
	zone   string
	anchor time.Time
	paid   *big.Rat // in micro
	number int      // of terms that were paid for
	renews bool
	over   time.Time // zero: in force
	runs   []stretch
	ended  bool
}

func (s *monthStory) until(t tb) time.Time {
	b, err := pricing.Boundary(s.anchor, s.zone, s.number*s.months)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// price is a term's, rounded as it is posted.
func (s *monthStory) price() *big.Rat {
	p := s.terms.Quote.Prepaid
	exact := big.NewRat(int64(p.PerMonth)*int64(p.TermMonths)*(10_000-p.BasisPoints), 10_000)
	return new(big.Rat).SetInt(halfEven(exact))
}

// reach passes all boundaries up to now.
func (s *monthStory) reach(t tb, now time.Time) {
	for !s.ended && s.over.IsZero() && !s.until(t).After(now) {
		if !s.renews {
			s.over = s.until(t)
			return
		}
		s.number++
		s.paid.Add(s.paid, s.price())
	}
}

// Random lives of leases with months, of renters with enough money: crashes before
// commits, restarts, looks at any time, ends. Each bill is its terms and what ran on
// demand behind them, to the micro, and nobody's money is lost.
func TestWhateverHappensMonthsArePaidOnceAndExactly(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, t.Context(), db)
		serial := 0
		total := new(big.Int)
		rapid.Check(t, func(rt *rapid.T) {
			w.t = rt
			serial++
			renter, provider := fmt.Sprintf("ac-renter-%d", serial), fmt.Sprintf("ac-provider-%d", serial)
			w.deposit(renter, "100000000")
			zone := rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"}).Draw(rt, "zone")
			w.pass(time.Duration(rapid.Int64Range(0, 40*24*3600).Draw(rt, "begin s")) * time.Second)
			s := &monthStory{months: rapid.SampledFrom(pricing.Terms[:]).Draw(rt, "months"), zone: zone, anchor: w.clock(), number: 1, renews: rapid.Bool().Draw(rt, "renews")}
			s.terms = w.monthly(fmt.Sprintf("ls-m-%d", serial), zone, s.months, s.renews, func(t *billing.Terms) {
				t.AccountID, t.ProviderID = renter, provider
				t.Quote.Prepaid.PerMonth = money.Amount(rapid.Int64Range(0, 9_000_000_000).Draw(rt, "per month"))
				t.Quote.Prepaid.BasisPoints = rapid.Int64Range(0, 10_000).Draw(rt, "discount")
				t.Quote.Tariff.CommissionBasisPoints = rapid.Int64Range(0, 10_000).Draw(rt, "commission")
				t.Quote.Tariff.MinimumSeconds = 0
				if rapid.Bool().Draw(rt, "on demand") {
					t.OnLapse = billing.LapseOnDemand
				}
			})
			s.paid = s.price()
			id := s.terms.LeaseID
			report := func(op func(ctx context.Context, tx *store.Tx) error) {
				for rapid.IntRange(0, 3).Draw(rt, "crash") == 0 {
					err := w.db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error { return errors.Join(op(ctx, tx), errCrash) })
					if !errors.Is(err, errCrash) || err.Error() != errCrash.Error() {
						rt.Fatal(err)
					}
					w.restart()
				}
				w.do(op)
			}
			report(func(ctx context.Context, tx *store.Tx) error { return w.BeginLease(ctx, tx, s.terms) })
			for range rapid.IntRange(3, 15).Draw(rt, "steps") {
				now := w.pass(time.Duration(rapid.Int64Range(1, 25*24*3600).Draw(rt, "pass s")) * time.Second)
				w.ConfirmAlive([]string{id}, now)
				step := rapid.SampledFrom([]string{"start", "stop", "watch", "settle", "restart", "renew", "end"}).Draw(rt, "step")
				if step != "end" || s.ended {
					s.reach(rt, now)
				}
				switch step {
				case "start":
					if s.ended || open(s.runs) != nil || (!s.over.IsZero() && s.terms.OnLapse != billing.LapseOnDemand) {
						w.watch()
						break
					}
					w.watch()
					report(func(ctx context.Context, tx *store.Tx) error { return w.StartCompute(ctx, tx, id, now) })
					s.runs = append(s.runs, stretch{start: now})
				case "stop":
					report(func(ctx context.Context, tx *store.Tx) error { return w.StopCompute(ctx, tx, id, now) })
					if r := open(s.runs); r != nil {
						r.end = now
					}
					w.watch()
				case "watch":
					w.watch()
				case "settle":
					w.settle()
				case "restart":
					w.restart()
					w.ConfirmAlive([]string{id}, now)
					w.watch()
				case "renew":
					w.watch()
					if s.ended || !s.over.IsZero() {
						break
					}
					s.renews = !s.renews
					if _, err := w.SetMonths(w.ctx, operator, id, billing.MonthsChange{Renews: &s.renews}); err != nil {
						rt.Fatal(err)
					}
				case "end":
					s.reach(rt, now)
					report(func(ctx context.Context, tx *store.Tx) error { return w.EndLease(ctx, tx, id, now) })
					s.end(rt, now)
				}
				s.check(w)
			}
			now := w.pass(time.Second)
			s.reach(rt, now)
			w.end(id, now)
			s.end(rt, now)
			s.check(w)
			if b := w.bill(id); b.Unbilled != 0 {
				rt.Fatalf("%s is unbilled at the end", b.Unbilled)
			}
			for _, path := range []string{ledger.Wallet(renter), ledger.Hold(renter), ledger.Receivable(renter), ledger.Payable(provider)} {
				total.Add(total, big.NewInt(int64(w.ledgerBalance(path))))
			}
		})
		w.t = t
		w.right()
		for _, path := range []string{ledger.Deposits, ledger.Commission} {
			total.Add(total, big.NewInt(int64(w.ledgerBalance(path))))
		}
		if total.Sign() != 0 {
			t.Errorf("all balances come to %s, want 0", total)
		}
	})
}

func (s *monthStory) end(t tb, now time.Time) {
	if s.ended {
		return
	}
	s.ended = true
	if r := open(s.runs); r != nil {
		r.end = now
	}
	if !s.over.IsZero() {
		return
	}
	s.over = now
	if len(s.runs) == 0 {
		s.paid.SetInt64(0)
		return
	}
	p := *s.terms.Quote.Prepaid
	p.Anchor, p.Renews = s.anchor, true
	r, err := p.End(now)
	if err != nil {
		t.Fatal(err)
	}
	s.paid.Sub(s.paid, new(big.Rat).SetInt64(int64(r.Refund)))
}

// check compares the bill with the story, and the books with the bill.
func (s *monthStory) check(w *world) {
	w.t.Helper()
	b := w.bill(s.terms.LeaseID)
	seconds := int64(0)
	for _, r := range s.runs {
		if r.end.IsZero() {
			r.end = w.clock()
		}
		if s.over.IsZero() || s.terms.OnLapse != billing.LapseOnDemand {
			continue
		}
		if r.start.Before(s.over) {
			r.start = s.over
		}
		seconds += max(0, int64(r.end.Sub(r.start)/time.Second))
	}
	hours := big.NewRat(seconds*int64(s.terms.Quote.Tariff.Compute), 3600*1000)
	want := new(big.Int).Add(halfEven(hours), halfEven(s.paid))
	if want.Cmp(big.NewInt(int64(b.Total))) != 0 {
		w.t.Fatalf("the bill is %d micro, the story costs %s: %+v", b.Total, want, b.Lines)
	}
	if b.ProviderShare+b.Commission != b.Total {
		w.t.Fatalf("%s + %s is not %s", b.ProviderShare, b.Commission, b.Total)
	}
	var lines, charged, earned money.Amount
	for _, l := range b.Lines {
		lines += l.Amount
	}
	cs, err := w.Charges(w.ctx, s.terms.AccountID, b.LeaseID, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range cs {
		charged, earned = charged+c.Amount, earned+c.ProviderShare
	}
	if lines != b.Total || charged != b.Posted || earned != w.ledgerBalance(ledger.Payable(s.terms.ProviderID)) {
		w.t.Fatalf("lines of %s, charges of %s, earned %s: bill %s, posted %s, payable %s", lines, charged, earned, b.Total, b.Posted, w.ledgerBalance(ledger.Payable(s.terms.ProviderID)))
	}
	rest := w.ledgerBalance(ledger.Wallet(s.terms.AccountID)) + w.ledgerBalance(ledger.Hold(s.terms.AccountID)) + w.ledgerBalance(ledger.Receivable(s.terms.AccountID))
	if paid := 100_000_000_000_000 - rest; paid != charged {
		w.t.Fatalf("the renter paid %s and was charged %s", paid, charged)
	}
}
