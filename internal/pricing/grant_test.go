package pricing_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
)

func grant(id, cap string, from, until int64, t testing.TB) pricing.Grant {
	return pricing.Grant{ID: id, Cap: amount(t, cap), ActiveFrom: after(from), ExpiresAt: after(until)}
}

// 1,000 given for 30 days: on day 31 nothing of it can be spent, whether or not
// anything ran on day 30.
func TestWhatHasExpiredCannotBeSpent(t *testing.T) {
	t.Parallel()
	const day = 86_400
	g := grant("g", "1000", 0, 30*day, t)
	if got := g.Available(after(30*day - 1)); got.String() != "1000.000000" {
		t.Errorf("a second before: %s", got)
	}
	if got := g.Available(after(30 * day)); got != 0 {
		t.Errorf("at the instant of expiry %s is available", got)
	}
	draws, rest, err := pricing.DrawGrants([]pricing.Grant{g}, []pricing.Spend{{Meter: pricing.Compute, From: after(31 * day), Until: after(31*day + 3600), Amount: amount(t, "500")}})
	if err != nil || len(draws) != 0 || rest[0] != amount(t, "500") {
		t.Errorf("on day 31: %v, %v, %v", draws, rest, err)
	}
	if g.Expired(after(30*day-1)) != 0 || g.Expired(after(30*day)) != g.Cap {
		t.Error("what is lost is not all of it at the instant, and nothing before")
	}
}

func TestATrialEnds72HoursAfterItsFirstUse(t *testing.T) {
	t.Parallel()
	first := moment(t, "2026-03-07T12:34:56Z") // clocks change in between, somewhere
	g, err := pricing.NewTrial("t", pricing.TrialTerms{Worth: amount(t, "20")}, first)
	if err != nil || !g.ExpiresAt.Equal(moment(t, "2026-03-10T12:34:56Z")) {
		t.Errorf("got %+v, %v", g, err)
	}
}

func TestUseThatStraddlesAnExpiryIsCutAtTheSecond(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{Compute: rate(t, "3.6")}, pricing.Request{Plan: pricing.Trial})
	g := grant("g", "1", 0, 100, t)
	spends, err := pricing.Spends(q, pricing.Usage{Compute: session(0, 150)}, "l", "H100", []time.Time{g.ActiveFrom, g.ExpiresAt})
	if err != nil {
		t.Fatal(err)
	}
	draws, rest, err := pricing.DrawGrants([]pricing.Grant{g}, spends)
	if err != nil || len(draws) != 1 || draws[0].Amount.String() != "0.100000" || rest[0] != 0 || rest[1].String() != "0.050000" {
		t.Errorf("spends %+v: draws %+v, rest %v, %v", spends, draws, rest, err)
	}
	if _, _, err := pricing.DrawGrants([]pricing.Grant{g}, []pricing.Spend{{From: after(90), Until: after(110), Amount: 1}}); err == nil {
		t.Error("use that straddles the expiry is drawn as a whole")
	}
}

// Cut before its end, a session that is free since it was evicted looked as if it
// cost something, which was then taken back in the next part.
func TestAnEvictedSessionIsFreeInEveryPartOfIt(t *testing.T) {
	t.Parallel()
	q := planned(t, pricing.Tariff{}, pricing.Request{Plan: pricing.Spot})
	evicted := at(0, 50, rate(t, "3.6"))
	evicted.Evicted = true
	spends, err := pricing.Spends(q, pricing.Usage{Compute: []pricing.Interval{evicted, at(100, 200, rate(t, "3.6"))}}, "l", "H100", []time.Time{after(20), after(30), after(150)})
	if err != nil || len(spends) != 2 || spends[0].Amount.String() != "0.050000" || spends[1].Amount.String() != "0.050000" {
		t.Errorf("got %+v, %v", spends, err)
	}
}

func TestTheGrantThatExpiresFirstPaysFirstAndOnlyForWhatItIs(t *testing.T) {
	t.Parallel()
	late, soon := grant("late", "1", 0, 2000, t), grant("soon", "0.3", 0, 1000, t)
	soon.Meters, late.GPUModels = []pricing.Meter{pricing.Compute}, []string{"H100"}
	spends := []pricing.Spend{
		{Reference: "a", Meter: pricing.Compute, GPUModel: "H100", From: after(0), Until: after(10), Amount: amount(t, "0.5")},
		{Reference: "a", Meter: pricing.Storage, GPUModel: "H100", From: after(0), Until: after(10), Amount: amount(t, "0.1")},
		{Reference: "b", Meter: pricing.Compute, GPUModel: "A100", From: after(10), Until: after(20), Amount: amount(t, "0.2")},
		{Reference: "a", Meter: pricing.Compute, GPUModel: "H100", From: after(1000), Until: after(1010), Amount: amount(t, "0.9")},
	}
	draws, rest, err := pricing.DrawGrants([]pricing.Grant{late, soon}, spends)
	if err != nil {
		t.Fatal(err)
	}
	want := []pricing.Draw{{"soon", 0, 300_000, 0}, {"late", 0, 200_000, 0}, {"late", 1, 100_000, 0}, {"late", 3, 700_000, 0}}
	if len(draws) != len(want) {
		t.Fatalf("got %+v", draws)
	}
	for i := range want {
		if draws[i] != want[i] {
			t.Errorf("draw %d is %+v, want %+v", i, draws[i], want[i])
		}
	}
	if rest[2] != 200_000 || rest[3] != 200_000 {
		t.Errorf("left to the wallet: %v", rest)
	}
}

func TestGrantsAreNeverOverspentAndPartsAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, err := pricing.NewQuote(pricing.Tariff{Currency: money.USD, Compute: money.Rate(rapid.Int64Range(0, 1e12).Draw(t, "price")), Storage: 350_000_000, Granularity: pricing.Second},
			pricing.Request{Plan: []string{pricing.Trial, pricing.Spot}[rapid.IntRange(0, 1).Draw(t, "plan")], DiskGiB: 100}, start)
		if err != nil {
			t.Fatal(err)
		}
		u := pricing.Usage{Compute: drawSpot(t), Storage: drawStretches(t, "kept")}
		var grants []pricing.Grant
		var cuts []time.Time
		for i := range rapid.IntRange(0, 3).Draw(t, "grants") {
			from := time.Date(2026, 10, 20, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.Int64Range(0, 100*86_400_000).Draw(t, "from ms")) * time.Millisecond)
			g := pricing.Grant{ID: string(rune('a' + i)), Cap: money.Amount(rapid.Int64Range(0, 1e11).Draw(t, "cap")), ActiveFrom: from, ExpiresAt: from.Add(time.Duration(rapid.Int64Range(1, 40*86_400_000).Draw(t, "valid ms")) * time.Millisecond)}
			grants = append(grants, g)
			cuts = append(cuts, g.ActiveFrom, g.ExpiresAt)
		}
		spends, err := pricing.Spends(q, u, "l", "m", cuts)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := pricing.Due(q, u)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spends {
			whole[s.Meter] -= s.Amount
		}
		for m, rest := range whole {
			if rest != 0 {
				t.Fatalf("the parts of %s differ from what is due by %s", m, rest)
			}
		}
		draws, rest, err := pricing.DrawGrants(grants, spends)
		if err != nil {
			t.Fatal(err)
		}
		spent := map[string]money.Amount{}
		for _, d := range draws {
			spent[d.GrantID] += d.Amount
			rest[d.Spend] += d.Amount
			if d.Amount <= 0 {
				t.Fatalf("draw %+v", d)
			}
		}
		for i, s := range spends {
			if rest[i] != s.Amount {
				t.Fatalf("draws and the rest of %+v are %s", s, rest[i])
			}
		}
		for _, g := range grants {
			if spent[g.ID] > g.Cap {
				t.Fatalf("%s of %s is spent", spent[g.ID], g.Cap)
			}
		}
	})
}
