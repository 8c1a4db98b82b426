package billing_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

// in puts all accounts into a time zone.
func in(zone string) func(*billing.Config) {
	return func(c *billing.Config) {
		c.PartyOf = func(_ context.Context, id string) (billing.Party, error) {
			return billing.Party{Name: id, TimeZone: zone}, nil
		}
	}
}

func taxed(rules ...pricing.TaxRule) func(*billing.Config) {
	return func(c *billing.Config) { c.Taxes, c.Jurisdiction = rules, "X" }
}

// eachWith is each with changes to the configuration.
func eachWith(t *testing.T, test func(t *testing.T, w *world), change ...func(*billing.Config)) {
	t.Helper()
	storetest.Each(t, func(t *testing.T, db *store.DB) { test(t, newWorld(t, t.Context(), db, change...)) })
}

func at(t tb, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func (w *world) goTo(s string) time.Time { return w.pass(at(w.t, s).Sub(w.clock())) }

func (w *world) closeMonths() {
	w.t.Helper()
	if err := w.CloseMonths(w.ctx, w.clock()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) invoices(accountID string) []billing.Invoice {
	w.t.Helper()
	list, err := w.Invoices(w.ctx, accountID, "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

func (w *world) statements(accountID string) []billing.Statement {
	w.t.Helper()
	list, err := w.Statements(w.ctx, accountID, time.Time{}, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

// charged is what an account was charged so far.
func (w *world) charged(accountID string) (sum money.Amount) {
	w.t.Helper()
	list, err := w.Charges(w.ctx, accountID, "", "", 100_000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list {
		sum += c.Amount
	}
	return sum
}

// runs lets a lease run from now until a moment, settled and looked at for months
// to close every hour, as it is in production.
func (w *world) runs(leaseID, until string) {
	w.t.Helper()
	end := at(w.t, until)
	for w.clock().Before(end) {
		next := w.clock().Truncate(time.Hour).Add(time.Hour)
		if next.After(end) {
			next = end
		}
		w.pass(next.Sub(w.clock()))
		// The last sign of life is always from a little before.
		w.ConfirmAlive([]string{leaseID}, next.Add(-2*time.Second))
		w.settle()
		w.closeMonths()
	}
	w.ConfirmAlive([]string{leaseID}, end)
}

// lago-api#879: an account east of Greenwich was invoiced at 20:00 UTC and again
// at 23:00 UTC of the same day.
func TestAnAccountEastOfGreenwichHasOneInvoiceAMonth(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.goTo("2026-04-10T00:00:00Z")
		w.deposit("ac-renter", "10000")
		w.begin(w.terms("ls-1"))
		w.closeMonths()
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Hour))
		for _, s := range []string{"2026-05-30T20:00:00Z", "2026-05-30T23:00:00Z", "2026-05-31T21:30:00Z"} {
			w.goTo(s)
			w.closeMonths()
		}
		list := w.invoices("ac-renter")
		if len(list) != 1 || !list[0].End.Equal(at(t, "2026-05-01T00:00:00+02:00")) || list[0].Total.String() != "3.600000" || list[0].Number != "INV-000001" {
			t.Errorf("%+v", list)
		}
		w.goTo("2026-05-31T23:00:00Z") // an hour after May has ended in Paris
		w.closeMonths()
		if st := w.statements("ac-renter"); len(st) != 2 || st[1].InvoiceID != "" || st[1].Closing.String() != "9996.400000" {
			t.Errorf("%+v", st)
		}
		w.right()
	}, in("Europe/Paris"))
}

// Months of 743 and 721 hours, and each second of them on one invoice.
func TestAnInvoiceHasItsMonthsHoursWhateverTheClocksDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, from, until, want string }{
		{"America/Los_Angeles", "2017-03-01T23:30:00-08:00", "2017-04-01T02:00:00-07:00", "2590.200000 7.200000"}, // 719.5 hours of March's 743
		{"America/New_York", "2026-03-01T00:00:00-05:00", "2026-04-01T02:00:00-04:00", "2674.800000 7.200000"},    // 743
		{"America/New_York", "2026-11-01T00:00:00-04:00", "2026-12-01T02:00:00-05:00", "2595.600000 7.200000"},    // 721
		{"Asia/Kathmandu", "2026-04-01T00:00:00+05:45", "2026-05-01T03:15:00+05:45", "2592.000000 11.700000"},     // 720; not on the hour of UTC
	} {
		t.Run(c.zone+" "+c.from, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t, storetest.Address(t))
			w := newWorld(t, t.Context(), db, in(c.zone))
			w.now = at(t, c.from)
			w.deposit("ac-renter", "100000")
			w.closeMonths()
			w.begin(w.terms("ls-1"))
			w.startCompute("ls-1", w.clock())
			w.runs("ls-1", c.until)
			w.stopCompute("ls-1", w.clock())
			w.pass(40 * 24 * time.Hour)
			w.closeMonths()
			var got []string
			for _, v := range w.invoices("ac-renter") {
				got = append(got, v.Total.String())
				for _, l := range v.Lines {
					if l.Correction {
						t.Errorf("nothing was late, and a line says so: %+v", l)
					}
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("invoices of %v, want %s", got, c.want)
			}
		})
	}
}

// Each month begins where the last one ended, through changes of clocks and of
// the account's own zone, and no month is of hours only.
func TestMonthsTile(t *testing.T) {
	t.Parallel()
	zones := []string{"UTC", "Asia/Shanghai", "America/New_York", "Europe/London", "Pacific/Apia", "Asia/Kathmandu", "America/Los_Angeles"}
	rapid.Check(t, func(rt *rapid.T) {
		zone := rapid.SampledFrom(zones).Draw(rt, "zone")
		w := newWorld(rt, t.Context(), storetest.Open(t, storetest.Address(t)), func(c *billing.Config) {
			c.PartyOf = func(_ context.Context, id string) (billing.Party, error) {
				return billing.Party{Name: id, TimeZone: zone}, nil
			}
		})
		w.now = at(rt, "2011-12-01T00:00:00Z").Add(time.Duration(rapid.IntRange(0, 400*24).Draw(rt, "hours")) * time.Hour)
		began := w.now
		w.deposit("ac-renter", "5")
		w.closeMonths()
		for range 6 {
			zone = rapid.SampledFrom(zones).Draw(rt, "zone")
			w.pass(time.Duration(rapid.IntRange(1, 70*24).Draw(rt, "hours")) * time.Hour)
			w.closeMonths()
			w.closeMonths()
		}
		list := w.statements("ac-renter")
		for i, st := range list {
			if i > 0 && (!st.Period.Start.Equal(list[i-1].Period.End) || st.Opening != list[i-1].Closing) {
				rt.Fatalf("%+v follows %+v", st, list[i-1])
			}
			if d := st.Period.End.Sub(st.Period.Start); d < 14*24*time.Hour || d > 47*24*time.Hour {
				rt.Fatalf("a month of %s", d)
			}
		}
		if len(list) > 0 && (list[0].Period.Start.After(began) || list[len(list)-1].Closing.String() != "5.000000") {
			rt.Fatalf("%+v", list)
		}
	})
}

// What is learned about a month after it was closed is a line of the next invoice,
// and says so; told three times, late and in any order, it is there once.
func TestLateUseIsACorrectionOnTheNextInvoice(t *testing.T) {
	t.Parallel()
	eachWith(t, func(t *testing.T, w *world) {
		w.goTo("2026-03-31T20:00:00Z")
		w.deposit("ac-renter", "1000")
		w.begin(w.terms("ls-1"))
		w.closeMonths()
		w.startCompute("ls-1", w.clock())
		w.ConfirmAlive([]string{"ls-1"}, w.pass(time.Hour)) // and then the host is silent
		w.settle()
		w.goTo("2026-04-03T20:00:00Z")
		w.closeMonths()
		first := w.invoices("ac-renter")
		if len(first) != 1 || first[0].Total.String() != "3.600000" {
			t.Fatalf("%+v", first)
		}
		// Three days late: it ran until 02:00 of 1 April.
		for range 3 {
			w.stopCompute("ls-1", at(t, "2026-04-01T02:00:00Z"))
		}
		w.goTo("2026-05-01T01:00:00Z")
		w.closeMonths()
		list := w.invoices("ac-renter")
		if len(list) != 2 {
			t.Fatalf("%+v", list)
		}
		if again := w.invoices("ac-renter")[0]; fmt.Sprint(again) != fmt.Sprint(first[0]) {
			t.Errorf("the invoice of a closed month changed: %+v", again)
		}
		var got []string
		for _, l := range list[1].Lines {
			got = append(got, fmt.Sprintf("%v %s", l.Correction, l.Amount))
		}
		if want := "true 10.800000, false 7.200000"; strings.Join(got, ", ") != want {
			t.Errorf("lines %v, want %s", got, want)
		}
		if sum := list[0].Exact + list[1].Exact; sum != w.charged("ac-renter") || sum != w.bill("ls-1").Total {
			t.Errorf("invoiced %s, charged %s", sum, w.charged("ac-renter"))
		}
		w.right()
	})
}

// Ten accounts' months are closed by three replicas at once.
func TestNumbersHaveNoGapsAndNoneIsTwice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		for i := range 10 {
			id := fmt.Sprintf("ac-%d", i)
			w.deposit(id, "100")
			terms := w.terms("ls-" + id)
			terms.AccountID = id
			w.begin(terms)
			w.startCompute(terms.LeaseID, w.clock())
		}
		w.pass(time.Hour)
		for i := range 10 {
			w.stopCompute(fmt.Sprintf("ls-ac-%d", i), w.clock())
		}
		w.closeMonths()
		w.pass(40 * 24 * time.Hour)
		var all sync.WaitGroup
		for range 3 {
			replica, err := billing.New(w.config)
			if err != nil {
				t.Fatal(err)
			}
			all.Go(func() {
				if err := replica.CloseMonths(w.ctx, w.clock()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var got []string
		for i := range 10 {
			for _, v := range w.invoices(fmt.Sprintf("ac-%d", i)) {
				got = append(got, v.Number)
			}
		}
		slices.Sort(got)
		if len(got) != 10 || got[0] != "INV-000001" || got[9] != "INV-000010" || len(slices.Compact(got)) != 10 {
			t.Errorf("numbers %v", got)
		}
		w.right()
	})
}

func TestAMonthThatFailsToCloseTakesNoNumberAndPostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, t.Context(), storetest.Open(t, storetest.Address(t)), taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 60_000}))
	w.deposit("ac-renter", "100")
	w.begin(w.terms("ls-1"))
	w.startCompute("ls-1", w.clock())
	w.stopCompute("ls-1", w.pass(time.Hour))
	w.closeMonths()
	w.pass(40 * 24 * time.Hour)
	for _, table := range []string{"billing_series", "billing_invoices", "billing_invoice_lines", "billing_statements", "billing_periods", "ledger_transfers"} {
		for _, act := range []string{"INSERT", "UPDATE"} {
			w.do(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `CREATE TRIGGER power_cut BEFORE `+act+` ON `+table+` BEGIN SELECT RAISE(ABORT, 'cut'); END`)
				return err
			})
			cut := w.CloseMonths(w.ctx, w.clock()) != nil
			w.do(func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Exec(ctx, `DROP TRIGGER power_cut`)
				return err
			})
			if n := len(w.invoices("ac-renter")); cut && n != 0 || w.ledgerBalance(ledger.Tax("X")) != 0 && cut {
				t.Fatalf("cut at %s of %s: %d invoices, taxes %s", act, table, n, w.ledgerBalance(ledger.Tax("X")))
			}
			if !cut { // nothing of the kind is written, so the month is closed now
				t.Logf("nothing does %s of %s", act, table)
				return
			}
		}
	}
	t.Error("the month was never closed")
}

// lago-api#2643, through the books: four leases of 68.33, 68.33, 57.50 and 85.00
// with 20 % on top, and the same with it in the prices.
func TestTaxesArePostedAndAddUp(t *testing.T) {
	t.Parallel()
	for _, inclusive := range []bool{false, true} {
		t.Run(fmt.Sprintf("inclusive %v", inclusive), func(t *testing.T) {
			t.Parallel()
			eachWith(t, func(t *testing.T, w *world) {
				w.deposit("ac-renter", "1000")
				for i, price := range []string{"68.33", "68.33", "57.5", "85"} {
					id := fmt.Sprintf("ls-%d", i)
					w.begin(w.terms(id, func(tariff *pricing.Tariff, _ *pricing.Request) { tariff.Compute = mustRate(t, price) }))
					w.startCompute(id, w.clock())
				}
				w.pass(time.Hour)
				for i := range 4 {
					w.end(fmt.Sprintf("ls-%d", i), w.clock())
				}
				w.closeMonths()
				w.pass(40 * 24 * time.Hour)
				w.closeMonths()
				v := w.invoices("ac-renter")[0]
				tax, total := "55.830000", "334.990000"
				if inclusive {
					tax, total = "46.530000", "279.160000"
				}
				if v.Total.String() != total || v.Taxes[0].Amount.String() != tax {
					t.Errorf("total %s with a tax of %s, want %s and %s", v.Total, v.Taxes[0].Amount, total, tax)
				}
				w.wantBalance(ledger.Tax("X"), tax)
				provider, commission := w.ledgerBalance(ledger.Payable("ac-provider")), w.ledgerBalance(ledger.Commission)
				if sum := provider + commission + v.Taxes[0].Amount; sum != v.Total {
					t.Errorf("provider %s + commission %s + tax is %s, the renter paid %s", provider, commission, sum, v.Total)
				}
				if paid := must(t, "1000") - w.ledgerBalance(ledger.Wallet("ac-renter")); paid != v.Total {
					t.Errorf("the wallet paid %s of %s", paid, v.Total)
				}
				w.right()
			}, taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: 200_000, Inclusive: inclusive}))
		})
	}
}

// Random months: every charge is on one invoice, and the wallet has paid what the
// invoices say.
func TestEveryChargeIsOnExactlyOneInvoice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, t.Context(), storetest.Open(t, storetest.Address(t)), in(rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "Asia/Kathmandu", "America/New_York"}).Draw(rt, "zone")),
			taxed(pricing.TaxRule{Jurisdiction: "X", Name: "VAT", PPM: rapid.Int64Range(0, 300_000).Draw(rt, "tax")}))
		w.deposit("ac-renter", "100000")
		live := map[string]bool{}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			id := fmt.Sprintf("ls-%d", rapid.IntRange(0, 2).Draw(rt, "lease"))
			late := time.Duration(rapid.IntRange(0, 100).Draw(rt, "late hours")) * time.Hour
			switch rapid.IntRange(0, 5).Draw(rt, "act") {
			case 0:
				if !live[id] {
					w.begin(w.terms(id))
					live[id] = true
				}
			case 1:
				if live[id] {
					w.startCompute(id, w.clock().Add(-late))
				}
			case 2:
				if live[id] {
					w.stopCompute(id, w.clock().Add(-late))
				}
			case 3:
				w.pass(time.Duration(rapid.IntRange(0, 20*24*3600).Draw(rt, "seconds")) * time.Second)
				w.ConfirmAlive([]string{id}, w.clock())
			case 4:
				w.settle()
			case 5:
				w.closeMonths()
			}
		}
		w.settle()
		w.closeMonths()
		w.pass(62 * 24 * time.Hour)
		w.closeMonths()
		var exact, total, tax, rounding money.Amount
		for _, v := range w.invoices("ac-renter") {
			exact, total, rounding = exact+v.Exact, total+v.Total, rounding+v.Rounding
			for _, x := range v.Taxes {
				tax += x.Amount
			}
			var shown money.Amount
			for _, l := range v.Lines {
				shown += l.Shown
			}
			if shown != v.Subtotal || v.Exact+v.Rounding != v.Subtotal {
				rt.Fatalf("%+v", v)
			}
		}
		open := w.charged("ac-renter") - exact
		// What is charged after the last month that is closed may be a correction.
		if w.ledgerBalance(ledger.Tax("X")) != tax || w.ledgerBalance(ledger.Rounding) != rounding {
			rt.Fatalf("taxes %s and rounding %s, by the invoices %s and %s", w.ledgerBalance(ledger.Tax("X")), w.ledgerBalance(ledger.Rounding), tax, rounding)
		}
		settled := w.ledgerBalance(ledger.Wallet("ac-renter")) + w.ledgerBalance(ledger.Hold("ac-renter")) + w.ledgerBalance(ledger.Receivable("ac-renter"))
		if st := w.statements("ac-renter"); len(st) > 0 && st[len(st)-1].Closing != settled+open {
			rt.Fatalf("the last statement closes with %s; the account has %s and %s is not invoiced", st[len(st)-1].Closing, settled, open)
		}
		w.right()
	})
}

func TestAnInvoiceIsFoundByItsNumberAndOnlyByItsOwner(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.deposit("ac-renter", "100")
		w.begin(w.terms("ls-1"))
		w.startCompute("ls-1", w.clock())
		w.stopCompute("ls-1", w.pass(time.Hour))
		w.closeMonths()
		w.pass(40 * 24 * time.Hour)
		if _, err := w.SetProfile(w.ctx, operator, "ac-renter", billing.Party{Name: "算力有限公司", TaxNumber: "91310000", Jurisdiction: "CN"}); err != nil {
			t.Fatal(err)
		}
		w.closeMonths()
		v, err := w.Invoice(w.ctx, "ac-renter", "inv-000001")
		if err != nil || v.Customer.Name != "算力有限公司" || v.Customer.Jurisdiction != "CN" {
			t.Fatalf("%+v, %v", v, err)
		}
		if _, err := w.Invoice(w.ctx, "ac-renter", v.ID); err != nil {
			t.Error(err)
		}
		_, err = w.Invoice(w.ctx, "ac-other", v.ID)
		wantCode(t, err, "invoice_not_found")
		_, err = w.SetProfile(w.ctx, account.Principal{UserID: "us", AccountID: "ac-renter", Role: account.Owner}, "ac-renter", billing.Party{})
		wantCode(t, err, "forbidden")
	})
}
