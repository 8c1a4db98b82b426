package auction

import (
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
)

func hours(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }

func steps(pairs ...any) []Step {
	var out []Step
	for i := 0; i < len(pairs); i += 2 {
		p := price(pairs[i+1].(string))
		out = append(out, Step{hours(pairs[i].(int)), p, p})
	}
	return out
}

func TestCostIsByThePriceOfEachMomentAndNotByTheBid(t *testing.T) {
	t.Parallel()
	// 8 h at 0.20 and 2 h at 0.37 on 4 GPUs under a bid of 0.37 are 9.36, where
	// the bid times the time would say 14.80.
	got, err := Cost(steps(0, "0.20", 8, "0.37"), 4, Span{hours(0), hours(10)})
	if err != nil || got.String() != "9.360000" {
		t.Errorf("cost %s, %v: want 9.360000", got, err)
	}
}

func TestCostNeedsAPriceForEveryMoment(t *testing.T) {
	t.Parallel()
	if got, err := Cost(steps(1, "0.20"), 1, Span{hours(0), hours(2)}); err == nil {
		t.Errorf("cost of an hour without a price: %s", got)
	}
	if got, err := Cost(nil, 1, Span{hours(0), hours(0)}); err != nil || got != 0 {
		t.Errorf("cost of nothing: %s, %v", got, err)
	}
}

func TestCostDoesNotDependOnWhereTheHistoryIsCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := func(name string) time.Time {
			return noon.Add(time.Duration(rapid.IntRange(0, 20_000_000).Draw(t, name)) * time.Millisecond)
		}
		history := []Step{{At: noon, Price: 1_234_567_891}}
		for range rapid.IntRange(0, 5).Draw(t, "steps") {
			history = append(history, Step{At: at("at"), Price: Price(rapid.Int64Range(0, int64(MaxPrice)).Draw(t, "price"))})
		}
		from := at("from")
		to := from.Add(time.Duration(rapid.IntRange(0, 20_000).Draw(t, "long")) * time.Second)
		gpus := rapid.IntRange(1, 16).Draw(t, "gpus")
		want, err := Cost(history, gpus, Span{from, to})
		if err != nil {
			t.Fatal(err)
		}
		// The same price said again changes nothing.
		cut := slices.Clone(history)
		when := at("cut")
		if w := Window(history, when, when.Add(time.Hour)); len(w) > 0 {
			cut = append(cut, Step{when, w[0].Price, 0})
		}
		if got, err := Cost(cut, gpus, Span{from, to}); err != nil || got != want {
			t.Fatalf("cost %s, %v: want %s", got, err, want)
		}
		// By rationals, second by second would be too slow: by exact stretches.
		sum := new(big.Rat)
		for s := from; s.Before(to); {
			end := to
			for _, h := range history {
				if h.At.After(s) && h.At.Before(end) {
					end = h.At
				}
			}
			n := min(begun(end.Sub(from)), seconds(to.Sub(from))) - min(begun(s.Sub(from)), seconds(to.Sub(from)))
			p := Window(history, s, end)[0].Price
			sum.Add(sum, new(big.Rat).SetFrac64(int64(p), 1).Mul(new(big.Rat).SetInt64(int64(p)), new(big.Rat).SetInt64(n*int64(gpus))))
			s = end
		}
		off := sum.Quo(sum, big.NewRat(3_600_000, 1)).Sub(sum, new(big.Rat).SetInt64(int64(want)))
		if off.Abs(off).Cmp(big.NewRat(1, 2)) > 0 {
			t.Fatalf("cost %s is %s micro-units off", want, off)
		}
	})
}

func TestCompactKeepsThePriceOfEveryMoment(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []Step
		for range rapid.IntRange(0, 8).Draw(t, "steps") {
			all = append(all, Step{hours(rapid.IntRange(0, 5).Draw(t, "at")), Price(rapid.IntRange(0, 2).Draw(t, "price")), 1})
		}
		slices.SortStableFunc(all, func(a, b Step) int { return a.At.Compare(b.At) })
		at := func(steps []Step, t time.Time) (p Price) {
			p = -1
			for _, s := range steps {
				if !s.At.After(t) {
					p = s.Price
				}
			}
			return p
		}
		c := Compact(all)
		for h := range 7 {
			if a, b := at(all, hours(h)), at(c, hours(h)); a != b {
				t.Fatalf("at %d h: %d, and compact %d", h, a, b)
			}
		}
		for i := 1; i < len(c); i++ {
			if c[i].Price == c[i-1].Price || !c[i].At.After(c[i-1].At) {
				t.Fatalf("not compact: %v", c)
			}
		}
	})
}

func TestTheSpreadOfAPriceIsByTime(t *testing.T) {
	t.Parallel()
	got := Spreads(steps(0, "1", 8, "5", 9, "0", 10, "2"), hours(0), hours(11))
	want := Spread{price("1"), price("1"), price("1"), price("2"), price("5"), 10 * time.Hour}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := Spreads(nil, hours(0), hours(1)); got != (Spread{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestDepthIsDemandFromAboveAndSupplyFromBelow(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("a", 8, "0.50"), {ID: "b", GPUs: 4, OnDemand: 3, Floor: price("1")}, {ID: "c", GPUs: 2, OnDemand: 2}},
		bid("x", 4, "1", 0), bid("y", 1, "2", 0), bid("z", 2, "0.20", 0))
	want := []Level{{price("0.20"), 7, 0}, {price("0.50"), 5, 8}, {price("1"), 5, 9}, {price("2"), 1, 9}}
	if got := Depth(m); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAdviceSaysHowABidWouldHaveFared(t *testing.T) {
	t.Parallel()
	p := Standard()
	// 1.00 for 10 h with an hour of 3.00 in the middle.
	history := steps(0, "1", 5, "3", 6, "1")
	for _, c := range []struct {
		bid           string
		ran           time.Duration
		share         int
		interruptions int
		cost          string
	}{
		{"0.99", 0, 0, 0, "0.000000"},
		// Two minutes of notice at its own bid; the cool-down is over before the
		// price is low again.
		{"1", 9*time.Hour + 2*time.Minute, 9033, 1, "9.033333"},
		{"2", 9*time.Hour + 2*time.Minute, 9033, 1, "9.066667"},
		{"3", 10 * time.Hour, 10_000, 0, "12.000000"},
	} {
		a, err := Advise(history, hours(0), hours(10), price(c.bid), p)
		if err != nil || a.Ran != c.ran || a.Share != c.share || a.Interruptions != c.interruptions || a.Cost.String() != c.cost {
			t.Errorf("bid %s: %+v, %v: want %+v", c.bid, a, err, c)
		}
	}
}

func TestAShortRiseThatANoticeOutlastsInterruptsNobody(t *testing.T) {
	t.Parallel()
	history := []Step{{noon, 10, 10}, {noon.Add(time.Hour), 30, 30}, {noon.Add(time.Hour + 90*time.Second), 10, 10}}
	a, err := Advise(history, hours(0), hours(2), 20, Standard())
	if err != nil || a.Interruptions != 0 || a.Share != 10_000 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestAdviceKeepsTheMinimumRunAndTheCoolDown(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	p := Params{Tick: 1, Notice: 120 * time.Second, MinRun: 60 * time.Second, CoolDown: 300 * time.Second}
	// It starts at 0, is outbid from 10 on, may be told at 60, leaves at 180, and
	// though the price is low again at 200, cools until 480.
	history := []Step{{at(0), 1, 1}, {at(10), 9, 9}, {at(200), 1, 1}}
	got := replay(stretches(history, at(0), at(600)), at(600), 5, p)
	want := []Span{{at(0), at(180)}, {at(480), at(600)}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestASuggestionIsTheLowestBidThatWouldHaveDone(t *testing.T) {
	t.Parallel()
	history := steps(0, "1", 5, "3", 6, "1", 9, "2")
	for _, c := range []struct {
		share int
		want  string
	}{{5000, "1"}, {8500, "2"}, {9500, "3"}} {
		a, ok, err := Suggest(history, hours(0), hours(10), c.share, 0, Standard())
		if err != nil || !ok || a.Bid != price(c.want) {
			t.Errorf("for %d: %+v %v %v, want %s", c.share, a, ok, err, c.want)
		}
	}
	if a, ok, err := Suggest(nil, hours(0), hours(1), 1, 0, Standard()); ok || err != nil {
		t.Errorf("without a history: %+v %v", a, err)
	}
}

func TestHeadroomRaisesTheSuggestedBidAndNotItsCost(t *testing.T) {
	t.Parallel()
	history := steps(0, "1", 5, "3", 6, "1")
	bare, _, err1 := Suggest(history, hours(0), hours(10), 10_000, 0, Standard())
	with, ok, err2 := Suggest(history, hours(0), hours(10), 10_000, 1000, Standard())
	if err1 != nil || err2 != nil || !ok || with.Bid != price("3.30") || with.Cost != bare.Cost {
		t.Errorf("%+v, and without headroom %+v", with, bare)
	}
}

func TestAdviceNeverChargesMoreThanTheBid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []Step
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			p := Price(rapid.IntRange(0, 30).Draw(t, "price")) * 100_000_000
			all = append(all, Step{noon.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "at")) * time.Second), p, p})
		}
		b := Price(rapid.IntRange(1, 30).Draw(t, "bid")) * 100_000_000
		a, err := Advise(all, noon, hours(2), b, Standard())
		if err != nil {
			t.Fatal(err)
		}
		most, _ := money.Rate(b).Times(seconds(a.Ran)+int64(a.Interruptions)+1, 3600)
		if a.Cost > most || a.Ran > a.Window || a.Share < 0 || a.Share > 10_000 || a.Mean > b || a.Longest > a.Ran {
			t.Fatalf("%+v", a)
		}
	})
}
