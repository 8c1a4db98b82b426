package pricing_test

import (
	"testing"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

// Sums that other systems got wrong.
func TestSumsThatOthersGotWrong(t *testing.T) {
	t.Parallel()
	hour := int64(3600)
	for _, c := range []struct {
		name, price string
		use         []pricing.Interval
		want        string
	}{
		{"two hours in one gap of the biller cost what two bills would", "0.932282", session(0, 2*hour), "1.864564"},
		{"3 h at 0.74", "0.74", session(0, 3*hour), "2.220000"},
		{"nothing used", "0.74", session(0, 0), "0.000000"},
		{"37 s until the money ended", "3.6", session(0, 37), "0.037000"},
		{"an end before its start", "3.33", session(hour, 0), "0.000000"},
		{"two hours, a part of them told again", "1", append(session(0, 2*hour), session(hour/2, hour)...), "2.000000"},
		{"seconds, not whole hours", "3.6", session(0, 2*hour-1), "7.199000"},
	} {
		q := planned(t, pricing.Tariff{Compute: rate(t, c.price)}, pricing.Request{})
		if got := due(t, q, pricing.Usage{Compute: c.use})[pricing.Compute]; got.String() != c.want {
			t.Errorf("%s: %s is due, want %s", c.name, got, c.want)
		}
	}
	for in, want := range map[string]money.Amount{"-79.99": -7999, "1.15": 115, "0.005": 0, "0.015": 2, "-0.015": -2} {
		if got, err := pricing.RoundMinor(amount(t, in), money.USD); err != nil || got != want*10_000 {
			t.Errorf("%s is %s in cents, %v", in, got, err)
		}
	}
}

// One charge a meter and month, whatever the day on which somebody looks: what was
// posted and taken back does not come again.
func TestWhatWasTakenBackIsNotBilledAgain(t *testing.T) {
	t.Parallel()
	v := invoiceOf(t, nil, "239.90")
	note, done, err := v.Credit(nil, []money.Amount{amount(t, "220.18")})
	if err != nil {
		t.Fatal(err)
	}
	rest, done, err := v.Credit(done, []money.Amount{amount(t, "19.72")})
	if err != nil || note.Total+rest.Total != v.Total {
		t.Errorf("notes of %s and %s for %s, %v", note.Total, rest.Total, v.Total, err)
	}
	if again, _, err := v.Credit(done, []money.Amount{0}); err != nil || again.Total != 0 {
		t.Errorf("a third note of %s, %v", again.Total, err)
	}
}

func TestTheLongestMonthsAreAsLongAsTheyAre(t *testing.T) {
	t.Parallel()
	for at, hours := range map[string]int{"2026-11-10T00:00:00Z": 721, "2026-03-10T00:00:00Z": 743, "2028-02-10T00:00:00Z": 29 * 24, "2026-02-10T00:00:00Z": 28 * 24} {
		p, err := pricing.MonthOf(moment(t, at), "America/New_York")
		if err != nil || int(p.End.Sub(p.Start).Hours()) != hours {
			t.Errorf("the month of %s has %s, %v; want %d h", at, p.End.Sub(p.Start), err, hours)
		}
	}
}
