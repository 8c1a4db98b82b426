package earning

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// facts are what the other services would say.
type facts struct {
	revenue billing.Revenue
	history fleet.History
	places  map[string]lease.Place
}

func (f facts) Revenue(_ context.Context, _ string, from, until time.Time) (billing.Revenue, error) {
	out := billing.Revenue{Runs: f.revenue.Runs}
	for _, c := range f.revenue.Charges {
		if !c.To.Before(from) && c.From.Before(until) {
			out.Charges = append(out.Charges, c)
		}
	}
	return out, nil
}

func (f facts) History(context.Context, string, time.Time, time.Time) (fleet.History, error) {
	return f.history, nil
}

func (f facts) Places(context.Context, []string) (map[string]lease.Place, error) {
	return f.places, nil
}

// now is on 10 March at 12:00 in Shanghai.
var now = time.Date(2026, 3, 10, 4, 0, 0, 0, time.UTC)

func newService(t interface{ Fatal(...any) }, f facts, zone string) *Service {
	s := &Service{cfg: Config{
		Clock: func() time.Time { return now }, Money: f, Hosts: f, Leases: f,
		ZoneOf: func(context.Context, string) (string, error) { return zone, nil },
	}}
	return s
}

func shanghai(day, hour, minute int) time.Time {
	return time.Date(2026, 3, day, hour, minute, 0, 0, time.FixedZone("CST", 8*3600))
}

// twoDays is a lease of two GPUs that ran from 22:00 on 4 March to 02:00 on the
// next day in Shanghai and was charged 4.00 for it in one.
func twoDays() facts {
	run := pricing.Interval{Start: shanghai(4, 22, 0), End: shanghai(5, 2, 0)}
	return facts{
		revenue: billing.Revenue{
			Charges: []billing.Charge{
				{LeaseID: "ls-1", Meter: pricing.Compute, Currency: money.CNY, Amount: 4_000_000, ProviderShare: 3_600_000, Commission: 400_000, From: shanghai(4, 20, 0), To: shanghai(5, 2, 0)},
				{LeaseID: "ls-1", Meter: pricing.Storage, Currency: money.CNY, Amount: 10, ProviderShare: 9, Commission: 1, From: shanghai(5, 2, 0), To: shanghai(5, 4, 0)},
			},
			Runs: map[string][]pricing.Interval{"ls-1": {run}},
		},
		history: fleet.History{
			Rented: []fleet.Stretch{
				{HostID: "ho-1", GPU: "a", LeaseID: "ls-1", From: run.Start, Until: run.End},
				{HostID: "ho-1", GPU: "b", LeaseID: "ls-1", From: run.Start, Until: run.End},
			},
			Listed: []fleet.Stretch{
				{HostID: "ho-1", GPU: "a", Model: "T4", From: shanghai(4, 0, 0), Until: shanghai(6, 0, 0)},
				{HostID: "ho-1", GPU: "b", Model: "T4", From: shanghai(4, 0, 0), Until: shanghai(6, 0, 0)},
			},
		},
		places: map[string]lease.Place{"ls-1": {HostID: "ho-1"}},
	}
}

func TestAChargeOverMidnightCountsOnTheDaysOnWhichItRan(t *testing.T) {
	t.Parallel()
	b, err := newService(t, twoDays(), "Asia/Shanghai").Breakdown(t.Context(), "ac", ByDay, "2026-03-04", "2026-03-06")
	if err != nil || len(b.Rows) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
	// Two of four hours on each day; the disk on the second only.
	if r := b.Rows[0]; r.Day != "2026-03-04" || r.Sums[0].Charged != 2_000_000 || r.Sums[0].Earned != 1_800_000 || r.Sums[0].Commission != 200_000 || r.RentedSeconds != 2*2*3600 || r.ListedSeconds != 2*24*3600 {
		t.Errorf("first day %+v", r)
	}
	if r := b.Rows[1]; r.Day != "2026-03-05" || r.Sums[0].Charged != 2_000_010 || r.Sums[0].Earned != 1_800_009 {
		t.Errorf("second day %+v", r)
	}
	if o, ok := b.Rows[0].Occupancy(); !ok || o != 833 { // 2 of 24 hours
		t.Errorf("occupancy %d", o)
	}
}

func TestTheDayIsTheProvidersOwn(t *testing.T) {
	t.Parallel()
	b, err := newService(t, twoDays(), "UTC").Breakdown(t.Context(), "ac", ByDay, "2026-03-04", "2026-03-06")
	if err != nil || len(b.Rows) != 2 || b.Rows[0].Sums[0].Charged != 4_000_010 {
		t.Fatalf("in UTC all of it was on one day: %+v, %v", b.Rows, err)
	}
}

func TestGPUsOfALeaseShareItsEarningsAndADiskWithoutGPUsIsNobodys(t *testing.T) {
	t.Parallel()
	b, err := newService(t, twoDays(), "Asia/Shanghai").Breakdown(t.Context(), "ac", ByGPU, "2026-03-01", "")
	if err != nil || len(b.Rows) != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	if none := b.Rows[0]; none.GPU != "" || none.Sums[0].Earned != 9 || none.ListedSeconds != 0 {
		t.Errorf("disk %+v", none)
	}
	for _, r := range b.Rows[1:] {
		if r.Sums[0].Earned != 1_800_000 || r.RentedSeconds != 4*3600 || r.Model != "T4" {
			t.Errorf("GPU %+v", r)
		}
	}
}

func TestMaintenanceIsNotOnTheMarketAndARentedGPUAlwaysIs(t *testing.T) {
	t.Parallel()
	f := twoDays()
	f.history.Maintenance = []fleet.Announcement{{HostID: "ho-1", Window: fleet.Window{From: shanghai(4, 0, 0), Until: shanghai(5, 0, 0)}}}
	b, err := newService(t, f, "Asia/Shanghai").Breakdown(t.Context(), "ac", ByDay, "2026-03-04", "2026-03-05")
	if err != nil || len(b.Rows) != 1 || b.Rows[0].ListedSeconds != b.Rows[0].RentedSeconds || b.Rows[0].RentedSeconds != 2*2*3600 {
		t.Fatalf("%+v, %v", b.Rows, err)
	}
}

func TestAPeriodThatIsNoneIsRefused(t *testing.T) {
	t.Parallel()
	s := newService(t, twoDays(), "UTC")
	for _, c := range [][3]string{{"host", "2026-03-05", "2026-03-05"}, {"host", "2026-02-30", ""}, {"host", "2020-01-01", "2026-01-01"}, {"week", "", ""}} {
		_, err := s.Breakdown(t.Context(), "ac", By(c[0]), c[1], c[2])
		if f, ok := fault.As(err); !ok || f.Kind != fault.Invalid {
			t.Errorf("%v: %v", c, err)
		}
	}
}

// However a time is cut and whatever it is broken down by, the parts add up to
// what was charged, to the micro.
func TestPartsOfAnyBreakdownAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "America/New_York", "America/Santiago", "Pacific/Apia"}).Draw(r, "zone")
		begin := time.Date(2026, 2, 26, 0, 0, 0, 0, time.UTC)
		f := facts{revenue: billing.Revenue{Runs: map[string][]pricing.Interval{}}, places: map[string]lease.Place{}}
		var charged, earned money.Amount
		at := begin
		for range rapid.IntRange(1, 12).Draw(r, "charges") {
			id := rapid.SampledFrom([]string{"ls-1", "ls-2"}).Draw(r, "lease")
			c := billing.Charge{
				LeaseID: id, Meter: rapid.SampledFrom([]pricing.Meter{pricing.Compute, pricing.Storage, pricing.Egress}).Draw(r, "meter"), Currency: money.USD,
				Amount: money.Amount(rapid.Int64Range(-5_000_000, 50_000_000).Draw(r, "amount")), From: at,
				To: at.Add(time.Duration(rapid.Int64Range(0, int64(40*time.Hour/time.Microsecond)).Draw(r, "long")) * time.Microsecond),
			}
			c.ProviderShare = c.Amount * 9 / 10
			c.Commission = c.Amount - c.ProviderShare
			charged, earned = charged+c.Amount, earned+c.ProviderShare
			f.revenue.Charges = append(f.revenue.Charges, c)
			if rapid.Bool().Draw(r, "ran") && c.From.Before(c.To) {
				i := pricing.Interval{Start: c.From.Add(c.To.Sub(c.From) / 3), End: c.To}
				f.revenue.Runs[id] = append(f.revenue.Runs[id], i)
				for g := range rapid.IntRange(0, 3).Draw(r, "gpus") {
					f.history.Rented = append(f.history.Rented, fleet.Stretch{HostID: "ho-" + id, GPU: id + string(rune('a'+g)), LeaseID: id, From: i.Start, Until: i.End})
				}
			}
			f.places[id] = lease.Place{HostID: "ho-" + id}
			at = c.To
		}
		s := newService(r, f, zone)
		days := []string{"2026-02-20", time.Date(2026, 3, rapid.IntRange(1, 9).Draw(r, "cut"), 0, 0, 0, 0, time.UTC).Format(time.DateOnly), "2026-05-01"}
		for _, by := range []By{ByHost, ByGPU, ByDay} {
			var gotCharged, gotEarned money.Amount
			for i := range days[1:] {
				b, err := s.Breakdown(context.Background(), "ac", by, days[i], days[i+1])
				if err != nil {
					r.Fatal(err)
				}
				for _, row := range b.Rows {
					if row.RentedSeconds > row.ListedSeconds {
						r.Fatalf("rented %d s of %d", row.RentedSeconds, row.ListedSeconds)
					}
					for _, sum := range row.Sums {
						gotCharged, gotEarned = gotCharged+sum.Charged, gotEarned+sum.Earned
					}
				}
			}
			if gotCharged != charged || gotEarned != earned {
				r.Fatalf("by %s: charged %s, earned %s; want %s and %s", by, gotCharged, gotEarned, charged, earned)
			}
		}
	})
}

func TestAStatementAddsUpAndAMonthThatIsOverStays(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t, storetest.Address(t))
	at := time.Date(2026, 2, 28, 15, 30, 0, 0, time.UTC) // 23:30 in Shanghai
	books, err := ledger.New(db, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	if err := books.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	post := func(key, debit, credit, code, reference string, amount money.Amount) {
		t.Helper()
		if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			return books.Post(ctx, tx, ledger.Transfer{Key: key, Debit: debit, Credit: credit, Code: code, Reference: reference, Amount: amount, Currency: money.CNY, EffectiveAt: at.Add(-time.Hour)})
		}); err != nil {
			t.Fatal(err)
		}
	}
	f := facts{places: map[string]lease.Place{"ls-1": {HostID: "ho-1", Simulated: true}}}
	s := newService(t, f, "Asia/Shanghai")
	s.cfg.DB, s.cfg.Ledger = db, books
	payable := ledger.Payable("ac")
	post("1", ledger.Deposits, payable, "charge", "ls-1", 100)
	at = at.Add(time.Hour) // March in Shanghai, February in UTC
	post("2", ledger.Deposits, payable, "charge", "ls-1", 30)
	post("3", ledger.Deposits, payable, "charge", "ls-1", 5)
	post("4", payable, ledger.Deposits, "correction", "ls-1", 7)
	march, err := s.Statements(t.Context(), "ac", "2026-03")
	if err != nil || len(march) != 1 {
		t.Fatalf("%+v, %v", march, err)
	}
	st := march[0]
	if st.Opening != 100 || st.Closing != 128 || len(st.Lines) != 2 || st.Lines[0].Amount != 35 || st.Lines[0].Transfers != 2 || st.Lines[1].Amount != -7 || st.Lines[0].HostID != "ho-1" || !st.Lines[0].Simulated {
		t.Errorf("statement %+v", st)
	}
	february, err := s.Statements(t.Context(), "ac", "2026-02")
	if err != nil || len(february) != 1 || february[0].Closing != st.Opening || february[0].Closing != 100 {
		t.Errorf("%+v, %v", february, err)
	}
	if _, err := s.Statements(t.Context(), "ac", "March"); err == nil {
		t.Error("a month without a number is taken")
	}
}

func (f facts) RealEarnings(context.Context, *store.Tx, string, money.Currency, time.Time, time.Time) ([]pricing.Earning, error) {
	return nil, nil
}

func (f facts) Payees(context.Context) ([]billing.Payee, error) { return nil, nil }
