package auction

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// after applies rounds to a market, each as long after noon as given, and
// returns the market and the last round.
func after(t *testing.T, m Market, at ...time.Duration) (Market, Result) {
	t.Helper()
	var r Result
	for _, d := range at {
		now := noon.Add(d)
		r = mustClear(t, m, now)
		m = Apply(m, r, now)
	}
	return m, r
}

func is(t *testing.T, d Decision, action Action, host string, reason Reason) {
	t.Helper()
	if d.Action != action || d.Host != host || d.Reason != reason {
		t.Errorf("got %+v, want %s %s %s", d, action, host, reason)
	}
}

func isPrice(t *testing.T, r Result, gpus int, want string) {
	t.Helper()
	if g, _ := r.Good(gpus); g.Price != price(want) {
		t.Errorf("bundles of %d cost %s, want %s", gpus, g.Price.Display(), want)
	}
}

func TestFourGPUsForFourAnHourAreABidOfOne(t *testing.T) {
	t.Parallel()
	each, err := PerGPU(4_000_000_000, 4)
	if err != nil || each != price("1") {
		t.Fatalf("4 GPUs for 4.00: %s, %v", each, err)
	}
	b := bid("a", 4, "1", 0)
	b.Price = each
	_, r := after(t, market([]Host{host("h", 4, "1")}, b), 0)
	is(t, r.Decisions[0], Start, "h", "")
	isPrice(t, r, 4, "1")
	if total, err := each.Bundle(4); err != nil || total != 4_000_000_000 {
		t.Errorf("the bundle is %s, %v", total, err)
	}
}

func TestABidUnderThePriceIsOutbidInOneRoundAndLeavesNothing(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 1, "0.50")}, bid("a", 1, "2", time.Hour), bid("b", 1, "1", 0), bid("c", 1, "0.40", 0))
	m, r := after(t, m, 0)
	is(t, r.Decisions[1], Wait, "", Outbid)
	is(t, r.Decisions[2], Wait, "", BelowFloor)
	isPrice(t, r, 1, "1.0001")
	if m.Bids[1].Run != nil || m.Bids[2].Run != nil || !m.Bids[1].CoolUntil.IsZero() {
		t.Errorf("something is left of those that lost: %+v", m.Bids[1:])
	}
	if g, _ := r.Good(1); g.Ask != price("2.0001") || g.Marginal != "a" || g.Bids != 2 || g.Won != 1 {
		t.Errorf("good %+v", g)
	}
}

func TestABidAloneInAMarketPaysTheFloor(t *testing.T) {
	t.Parallel()
	_, r := after(t, market([]Host{host("h", 2, "0.50")}, bid("a", 1, "2", 0)), 0)
	isPrice(t, r, 1, "0.50")
	if !r.Next.Equal(noon.Add(0)) && !r.Next.IsZero() {
		t.Errorf("next %s", r.Next)
	}
}

func TestOfEqualBidsTheOlderRuns(t *testing.T) {
	t.Parallel()
	_, r := after(t, market([]Host{host("h", 1, "0")}, bid("young", 1, "1", 0), bid("old", 1, "1", time.Hour)), 0)
	is(t, r.Decisions[0], Wait, "", Outbid)
	is(t, r.Decisions[1], Start, "h", "")
	isPrice(t, r, 1, "1")
}

func TestWhoRunsIsReplacedOnlyByABidThatIsATickBetter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		challenger string
		want       Action
	}{{"1", Keep}, {"1.0001", Notify}} {
		m := market([]Host{host("h", 1, "0")}, bid("in", 1, "1", 0).on("h", "0", "1", time.Hour), bid("new", 1, c.challenger, 2*time.Hour))
		if d := mustClear(t, m, noon).Decisions[0]; d.Action != c.want {
			t.Errorf("against %s: %+v", c.challenger, d)
		}
	}
}

func TestAnOutbidLeaseGetsANoticeIsInterruptedCoolsAndResumes(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 1, "0.10")}, bid("a", 1, "1", time.Hour))
	m, _ = after(t, m, 0)
	m.Bids = append(m.Bids, bid("b", 1, "2", 0))

	// Not within its first minute.
	m, r := after(t, m, 30*time.Second)
	is(t, r.Decisions[0], Keep, "h", "")
	is(t, r.Decisions[1], Wait, "", NoRoom)
	if !r.Next.Equal(noon.Add(time.Minute)) {
		t.Fatalf("next round at %s", r.Next)
	}
	m, r = after(t, m, time.Minute)
	is(t, r.Decisions[0], Notify, "h", Outbid)
	is(t, r.Decisions[1], Await, "h", "")
	leave := noon.Add(3 * time.Minute)
	if !r.Next.Equal(leave) || !r.Decisions[0].At.Equal(leave) || !r.Decisions[1].At.Equal(leave) {
		t.Fatalf("next %s, notice until %s, the other from %s", r.Next, r.Decisions[0].At, r.Decisions[1].At)
	}
	// While it runs, it pays no more than it bid.
	isPrice(t, r, 1, "1")
	m, r = after(t, m, 3*time.Minute)
	is(t, r.Decisions[0], Interrupt, "h", Outbid)
	m, r = after(t, m, 3*time.Minute)
	is(t, r.Decisions[0], Wait, "", Cooling)
	is(t, r.Decisions[1], Start, "h", "")
	m.Bids = m.Bids[:1]
	m, r = after(t, m, 3*time.Minute+30*time.Second)
	is(t, r.Decisions[0], Wait, "", Cooling)
	if !r.Next.Equal(noon.Add(4 * time.Minute)) {
		t.Fatalf("next %s", r.Next)
	}
	_, r = after(t, m, 4*time.Minute)
	is(t, r.Decisions[0], Start, "h", "")
}

func TestABidThatIsRaisedDuringItsNoticeStays(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 1, "0.10")}, bid("a", 1, "1", time.Hour).on("h", "0.10", "0.10", time.Hour), bid("b", 1, "2", 0))
	m, _ = after(t, m, 0)
	m.Bids[0].Price = price("3")
	m, r := after(t, m, time.Minute)
	is(t, r.Decisions[0], Reprieve, "h", "")
	isPrice(t, r, 1, "2.0001")
	if !m.Bids[0].Run.LeaveAt.IsZero() {
		t.Error("the notice is still there")
	}
}

func TestAMaximumPriceHoldsWhenThePriceMoves(t *testing.T) {
	t.Parallel()
	a := bid("a", 1, "5", time.Hour).on("h", "0.10", "0.10", time.Hour)
	a.Max = price("1")
	m := market([]Host{host("h", 1, "0.10")}, a, bid("b", 1, "2", 0))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Notify, "h", Outbid)
	if g, _ := r.Good(1); g.Price > price("1") {
		t.Errorf("it pays %s, with a maximum of 1", g.Price)
	}
}

func TestLoweringABidDoesNotLowerWhatOthersPay(t *testing.T) {
	t.Parallel()
	a := bid("a", 1, "0.20", time.Hour).on("h", "0.10", "1", time.Hour) // was 3
	m := market([]Host{host("h", 2, "0.10")}, a, bid("b", 1, "2", time.Hour).on("h", "0.10", "1", time.Hour), bid("c", 1, "1", 0))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Notify, "h", Outbid)
	isPrice(t, r, 1, "1")
}

func TestLeasesOnDemandComeFirst(t *testing.T) {
	t.Parallel()
	h := host("h", 2, "0.10")
	h.OnDemand = 1
	m := market([]Host{h}, bid("low", 1, "1", time.Hour).on("h", "0.10", "0.10", time.Second), bid("high", 1, "9", 0).on("h", "0.10", "0.10", time.Second))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Notify, "h", OnDemand)
	is(t, r.Decisions[1], Keep, "h", "")
}

func TestABidDoesNotGoBackToTheHostThatItLostWhileItIsTold(t *testing.T) {
	t.Parallel()
	b := bid("a", 1, "9", 0).Avoiding("cheap", noon.Add(10*time.Minute), noon)
	m := market([]Host{host("cheap", 1, "0.10"), host("dear", 1, "1")}, b)
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Start, "dear", "")
	m.Hosts = m.Hosts[:1]
	_, r = after(t, m, 0)
	is(t, r.Decisions[0], Wait, "", NoHost)
	if !r.Next.Equal(noon.Add(10 * time.Minute)) {
		t.Errorf("next %s", r.Next)
	}
	_, r = after(t, m, 10*time.Minute)
	is(t, r.Decisions[0], Start, "cheap", "")
}

func TestABundleBeatsBetterBidsThatAreTogetherWorthLess(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 8, "0.10")}, bid("one", 1, "1.10", 0), bid("eight", 8, "1", 0))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Wait, "", NoRoom)
	is(t, r.Decisions[1], Start, "h", "")
	// It pays what the other would have paid for the same GPUs, and a tick.
	isPrice(t, r, 8, "0.1376")
}

func TestADearHostDoesNotRaiseThePriceForAll(t *testing.T) {
	t.Parallel()
	hosts := []Host{host("cheap", 2, "0.10"), host("dear", 1, "100")}
	m := market(hosts, bid("a", 1, "1", time.Hour).on("cheap", "0.10", "0.10", time.Hour), bid("b", 1, "1", time.Hour).on("cheap", "0.10", "0.10", time.Hour), bid("rich", 1, "101", 0))
	_, r := after(t, m, 0)
	is(t, r.Decisions[2], Await, "cheap", "")
	if g, _ := r.Good(1); g.Settled > price("1.0001") {
		t.Errorf("the price becomes %s", g.Settled)
	}
}

func TestAFloorThatRisesHoldsForNewcomersOnly(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 2, "2")}, bid("in", 1, "1", time.Hour).on("h", "0.10", "0.10", time.Hour), bid("new", 1, "1.50", 0))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Keep, "h", "")
	is(t, r.Decisions[1], Wait, "", BelowFloor)
	isPrice(t, r, 1, "0.10")
}

func TestWhoRunsUnderARisenFloorIsOutbidByWhoPaysIt(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 4, "0.35")}, bid("in", 3, "0.15", time.Hour).on("h", "0.08", "0.08", time.Hour), bid("new", 4, "0.35", 0))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Notify, "h", Outbid)
	is(t, r.Decisions[1], Await, "h", "")
}

func TestABidWhoseHostIsGoneLeaves(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("other", 1, "0")}, bid("a", 1, "1", time.Hour).on("h", "0", "0.50", time.Hour))
	_, r := after(t, m, 0)
	is(t, r.Decisions[0], Notify, "h", NoHost)
	if r.Decisions[0].To != "other" {
		t.Errorf("goes to %q", r.Decisions[0].To)
	}
	if _, r := after(t, market(nil, bid("a", 1, "1", 0)), 0); r.Decisions[0].Reason != NoHost {
		t.Errorf("without hosts: %+v", r.Decisions[0])
	}
}

func TestASizeThatNobodyBidsForHasAnAsk(t *testing.T) {
	t.Parallel()
	m := market([]Host{host("h", 4, "0.10")}, bid("a", 1, "1", 0), bid("b", 2, "2", 0))
	m.Sizes = []int{1, 4, 8}
	_, r := after(t, m, 0)
	for gpus, want := range map[int]string{1: "0.10", 2: "0.5501", 4: "1.2751", 8: "0"} {
		if g, ok := r.Good(gpus); !ok || g.Ask != price(want) {
			t.Errorf("bundles of %d: %+v, want an ask of %s", gpus, g, want)
		}
	}
}

func TestBadInputIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	good := bid("a", 1, "1", 0)
	with := func(f func(*Bid)) Market {
		b := good
		f(&b)
		return market([]Host{host("h", 1, "0")}, b)
	}
	for want, m := range map[string]Market{
		"twice":                 market(nil, good, good),
		"has no id":             with(func(b *Bid) { b.ID = "" }),
		"for 0 GPUs":            with(func(b *Bid) { b.GPUs = 0 }),
		"want more than 0":      with(func(b *Bid) { b.Price = 0 }),
		"limited to -":          with(func(b *Bid) { b.Max = -1 }),
		"multiples of 0.0001":   with(func(b *Bid) { b.Price++ }),
		"host \"h\"":            market([]Host{host("h", 1, "0"), host("h", 1, "0")}),
		"host h has -1":         market([]Host{host("h", -1, "0")}),
		"floor of -":            market([]Host{{ID: "h", GPUs: 1, Floor: -1}}),
		"bundles of 0":          {Params: Standard(), Sizes: []int{0}},
		"has a tick":            {},
		"notice -1s, minimum r": {Params: Params{Tick: 1, Notice: -time.Second}},
	} {
		if _, err := Clear(m, noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestAFloorFollowsTheMarketWithinBounds(t *testing.T) {
	t.Parallel()
	r := FloorRule{Fixed: price("0.10"), OfOnDemand: 3000, OfLast: 8000, Min: price("0.20"), Max: price("1")}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ onDemand, last, want string }{
		{"0", "0", "0.20"}, {"2", "0", "0.60"}, {"2", "1", "0.80"}, {"2", "50", "1"}, {"0.7001", "0", "0.2101"},
	} {
		if got := r.Floor(price(c.onDemand), price(c.last), Standard().Tick); got != price(c.want) {
			t.Errorf("on demand %s, last %s: %s, want %s", c.onDemand, c.last, got, c.want)
		}
	}
	for _, bad := range []FloorRule{{OfLast: 10_001}, {OfOnDemand: -1}, {Fixed: -1}, {Min: 2, Max: 1}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestAFloorOfTheLastPriceNeverPushesItUp(t *testing.T) {
	t.Parallel()
	rule := FloorRule{OfLast: 10_000}
	m := market([]Host{host("h", 1, "0.50")}, bid("a", 1, "2", 0))
	last := Price(0)
	for i := range 5 {
		var r Result
		m, r = after(t, m, time.Duration(i)*time.Hour)
		g, _ := r.Good(1)
		if last > 0 && g.Price > last {
			t.Fatalf("round %d: %s after %s", i, g.Price, last)
		}
		last = g.Price
		m.Hosts = slices.Clone(m.Hosts)
		m.Hosts[0].Floor = rule.Floor(0, last, m.Params.Tick)
		m.Bids[0].Run = nil // starts anew, by the new floor
	}
}
