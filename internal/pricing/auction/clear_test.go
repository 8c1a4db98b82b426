package auction

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func price(s string) Price {
	p, err := ParsePrice(s)
	if err != nil {
		panic(err)
	}
	return p
}

func bid(id string, gpus int, p string, age time.Duration) Bid {
	return Bid{ID: id, Account: "ac", GPUs: gpus, Price: price(p), PlacedAt: noon.Add(-age)}
}

func (b Bid) on(host, floor, paid string, since time.Duration) Bid {
	b.Run = &Run{Host: host, Since: noon.Add(-since), Floor: price(floor), Price: price(paid)}
	return b
}

func market(hosts []Host, bids ...Bid) Market {
	return Market{Zone: "z1", Model: "RTX 4090", Hosts: hosts, Bids: bids, Params: Standard()}
}

func host(id string, gpus int, floor string) Host {
	return Host{ID: id, GPUs: gpus, Floor: price(floor)}
}

func mustClear(t interface {
	Fatalf(string, ...any)
	Helper()
}, m Market, now time.Time) Result {
	t.Helper()
	r, err := Clear(m, now)
	if err != nil {
		t.Fatalf("clear: %v", err)
	}
	return r
}

// randomMarket draws a market in a state that rounds can have led to: random bids
// are cleared and applied, and then things change.
func randomMarket(t *rapid.T, hosts, gpus, bids int) (Market, time.Time) {
	cents := func(name string) Price { return Price(rapid.IntRange(1, 40).Draw(t, name)) * 50_000_000 }
	m := Market{Zone: "z", Model: "m", Params: Standard()}
	for i := range rapid.IntRange(1, hosts).Draw(t, "hosts") {
		m.Hosts = append(m.Hosts, Host{ID: fmt.Sprintf("h%d", i), GPUs: rapid.IntRange(1, gpus).Draw(t, "gpus"), Floor: cents("floor") / 4})
	}
	now := noon
	draw := func(id string) Bid {
		b := Bid{ID: id, Account: "ac", GPUs: rapid.IntRange(1, gpus).Draw(t, "size"), Price: cents("price"), PlacedAt: now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Minute)}
		if rapid.IntRange(0, 9).Draw(t, "picky") == 0 {
			b.Hosts = []string{m.Hosts[rapid.IntRange(0, len(m.Hosts)-1).Draw(t, "only")].ID}
		}
		return b
	}
	for round := range rapid.IntRange(1, 4).Draw(t, "rounds") {
		for i := range rapid.IntRange(1, bids).Draw(t, "new") {
			m.Bids = append(m.Bids, draw(fmt.Sprintf("b%d.%d", round, i)))
		}
		for i := range m.Hosts {
			switch rapid.IntRange(0, 9).Draw(t, "host") {
			case 0:
				m.Hosts[i].OnDemand = rapid.IntRange(0, m.Hosts[i].GPUs).Draw(t, "on demand")
			case 1:
				m.Hosts[i].Floor = cents("floor") / 4
			}
		}
		for i := range m.Bids {
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				m.Bids[i].Price = cents("price")
			}
		}
		m.Bids = slices.DeleteFunc(m.Bids, func(Bid) bool { return rapid.IntRange(0, 9).Draw(t, "gone") == 0 })
		if round > 0 {
			m = Apply(m, mustClear(t, m, now), now)
		}
		now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "wait")) * time.Second)
	}
	return m, now
}

// outcome is where bids have a place after a round, running or promised.
func outcome(m Market, r Result) map[string]string {
	at := map[string]string{}
	for i, d := range r.Decisions {
		switch d.Action {
		case Keep, Reprieve, Start, Await:
			at[m.Bids[i].ID] = d.Host
		default:
			if d.To != "" {
				at[m.Bids[i].ID] = d.To
			}
		}
	}
	return at
}

// ways clears exactly where that is possible, and the quick way.
func ways(t *rapid.T, m Market, now time.Time) map[string]Result {
	r := newRound(&m, now)
	r.ranked = true
	out := map[string]Result{"": mustClear(t, m, now), "greedy": r.result(r.greedy())}
	r = newRound(&m, now)
	if place, ok := r.packed(); ok {
		out["packed"] = r.result(place)
	}
	return out
}

func TestARoundKeepsTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, now := randomMarket(t, 4, 4, 8)
		if rapid.Bool().Draw(t, "many hosts") {
			m, now = randomMarket(t, 9, 8, 16)
		}
		for name, r := range ways(t, m, now) {
			checkRules(t, name, m, r, now)
		}
	})
}

func checkRules(t *rapid.T, name string, m Market, r Result, now time.Time) {
	hosts := map[string]Host{}
	for _, h := range m.Hosts {
		hosts[h.ID] = h
	}
	used, physical, before := map[string]int{}, map[string]int{}, map[string]int{}
	settled := map[int]bounds{}
	place := outcome(m, r)
	moved := func(b Bid) bool { return b.Run != nil && place[b.ID] != b.Run.Host }
	for i, d := range r.Decisions {
		b := m.Bids[i]
		good, _ := r.Good(b.GPUs)
		pays := good.Price
		if b.Run != nil {
			physical[b.Run.Host] += b.GPUs
			before[b.Run.Host] += b.GPUs
		}
		if b.Run != nil && pays < b.Run.Floor {
			t.Fatalf("%s: %s runs at %s, under its floor %s", name, b.ID, pays, b.Run.Floor)
		}
		switch d.Action {
		case Keep, Reprieve, Notify, OnNotice, Interrupt:
			if b.Run == nil {
				t.Fatalf("%s: %s: %s a bid that does not run", name, b.ID, d.Action)
			}
			if pays > max(b.Limit(), b.Run.Price) {
				t.Fatalf("%s: %s pays %s, over its limit %s", name, b.ID, pays, b.Limit())
			}
			if d.Action == Keep || d.Action == Reprieve {
				if d.Host != b.Run.Host || pays > b.Limit() && good.Settled > b.Limit() {
					t.Fatalf("%s: %s keeps %v at %s", name, b.ID, d, pays)
				}
				used[d.Host] += b.GPUs
				s := settled[b.GPUs]
				s.take(b.Run.Floor, b.Limit())
				settled[b.GPUs] = s
			}
		case Start, Await:
			h := hosts[d.Host]
			if b.Run != nil || !b.takes(d.Host, now) || b.CoolUntil.After(now) {
				t.Fatalf("%s: %s may not start: %+v", name, b.ID, d)
			}
			if b.Limit() < h.Floor {
				t.Fatalf("%s: %s starts under the floor of %s", name, b.ID, d.Host)
			}
			used[d.Host] += b.GPUs
			s := settled[b.GPUs]
			s.take(h.Floor, b.Limit())
			settled[b.GPUs] = s
			if d.Action == Start {
				physical[d.Host] += b.GPUs
				if pays > b.Limit() || pays < h.Floor {
					t.Fatalf("%s: %s starts at %s: limit %s, floor %s", name, b.ID, pays, b.Limit(), h.Floor)
				}
			}
			if d.Action == Await && !d.At.After(now) && d.At.IsZero() {
				t.Fatalf("%s: %s awaits %s for ever", name, b.ID, d.Host)
			}
		case Wait:
			if b.Run != nil {
				t.Fatalf("%s: %s runs and waits", name, b.ID)
			}
			if d.Reason == "" {
				t.Fatalf("%s: %s waits without a reason", name, b.ID)
			}
		default:
			t.Fatalf("%s: %s: action %q", name, b.ID, d.Action)
		}
		if d.To != "" {
			used[d.To] += b.GPUs
			s := settled[b.GPUs]
			s.take(hosts[d.To].Floor, b.Limit())
			settled[b.GPUs] = s
		}
		// Minimum run.
		if b.Run != nil && moved(b) && b.Run.LeaveAt.IsZero() && now.Before(b.Run.Since.Add(m.Params.MinRun)) &&
			b.Limit() >= b.Run.Floor {
			total := 0
			for _, o := range m.Bids {
				if o.Run != nil && o.Run.Host == b.Run.Host {
					total += o.GPUs
				}
			}
			if total <= hosts[b.Run.Host].spot() {
				t.Fatalf("%s: %s is outbid after %s (%+v)", name, b.ID, now.Sub(b.Run.Since), d)
			}
		}
		if d.Action == Notify && d.At.Sub(now) != m.Params.Notice {
			t.Fatalf("%s: %s has a notice of %s", name, b.ID, d.At.Sub(now))
		}
		if d.Action == Interrupt && b.Run.LeaveAt.After(now) {
			t.Fatalf("%s: %s is interrupted before its time", name, b.ID)
		}
	}
	for id, n := range used {
		if n > hosts[id].spot() {
			t.Fatalf("%s: %d GPUs won of the %d of %s", name, n, hosts[id].spot(), id)
		}
	}
	for id, n := range physical {
		if n > max(hosts[id].spot(), before[id]) {
			t.Fatalf("%s: %d GPUs in use of the %d of %s", name, n, hosts[id].spot(), id)
		}
	}
	for gpus, s := range settled {
		if s.floor > s.limit {
			t.Fatalf("%s: no price does for all bundles of %d: %+v", name, gpus, s)
		}
		if g, _ := r.Good(gpus); g.Settled < s.floor || g.Settled > s.limit {
			t.Fatalf("%s: settled price %s of %d GPUs is not in %+v", name, g.Settled, gpus, s)
		}
	}
	// Nothing is idle that somebody who waits could have.
	for i, d := range r.Decisions {
		b := m.Bids[i]
		if place[b.ID] != "" || b.CoolUntil.After(now) && b.Run == nil {
			continue
		}
		for _, h := range m.Hosts {
			s := settled[b.GPUs]
			free := h.spot() - used[h.ID]
			if free >= b.GPUs && b.takes(h.ID, now) && b.Limit() >= h.Floor && s.admits(h.Floor, b.Limit()) && (b.Run == nil || b.Run.Host != h.ID) {
				t.Fatalf("%s: %s waits (%+v) for %d GPUs at %s while %d of %s are idle at %s; %+v", name, b.ID, d, b.GPUs, b.Limit(), free, h.ID, h.Floor, s)
			}
		}
	}
}

func TestTheOrderOfInputMakesNoDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, now := randomMarket(t, 4, 4, 8)
		want := ways(t, m, now)
		by := func(m Market, r Result) map[string]Decision {
			out := map[string]Decision{}
			for i, d := range r.Decisions {
				out[m.Bids[i].ID] = d
			}
			return out
		}
		o := m
		o.Bids, o.Hosts = rapid.Permutation(m.Bids).Draw(t, "bids"), rapid.Permutation(m.Hosts).Draw(t, "hosts")
		for name, got := range ways(t, o, now) {
			w := want[name]
			a, b := by(m, w), by(o, got)
			for id := range a {
				if a[id] != b[id] {
					t.Fatalf("%s: %s: %+v, and in another order %+v", name, id, a[id], b[id])
				}
			}
			if !slices.Equal(w.Goods, got.Goods) || !w.Next.Equal(got.Next) {
				t.Fatalf("%s: goods %+v, and in another order %+v", name, w.Goods, got.Goods)
			}
		}
	})
}

func TestRaisingABidNeverLosesAPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, now := randomMarket(t, 4, 4, 8)
		if rapid.Bool().Draw(t, "many hosts") {
			m, now = randomMarket(t, 9, 8, 16)
		}
		if len(m.Bids) == 0 {
			return
		}
		was := ways(t, m, now)
		i := rapid.IntRange(0, len(m.Bids)-1).Draw(t, "who")
		o := m
		o.Bids = slices.Clone(m.Bids)
		o.Bids[i].Price += Price(rapid.IntRange(1, 200).Draw(t, "more")) * 10_000_000
		id := m.Bids[i].ID
		for name, r := range ways(t, o, now) {
			w := was[name]
			if outcome(m, w)[id] != "" && outcome(o, r)[id] == "" {
				t.Fatalf("%s: %s had %+v at %s, and has %+v at %s", name, id, w.Decisions[i], m.Bids[i].Price, r.Decisions[i], o.Bids[i].Price)
			}
		}
	})
}

func TestARoundLeavesNothingForTheNext(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, now := randomMarket(t, 4, 4, 8)
		r := mustClear(t, m, now)
		for n := 0; ; n++ {
			m = Apply(m, r, now)
			again := mustClear(t, m, now)
			changes := 0
			for _, d := range again.Decisions {
				if d.Action == Start || d.Action == Notify || d.Action == Interrupt {
					changes++
				}
			}
			if changes == 0 {
				break
			}
			if n > 5 {
				t.Fatalf("%d changes in round %d of one instant: %+v", changes, n, again.Decisions)
			}
			r = again
		}
	})
}

func BenchmarkClear(b *testing.B) {
	m := large(rand.New(rand.NewPCG(1, 1)), 1250, 100_000)
	now := noon
	b.Run("from scratch", func(b *testing.B) {
		for b.Loop() {
			if _, err := Clear(m, now); err != nil {
				b.Fatal(err)
			}
		}
	})
	r, _ := Clear(m, now)
	m = Apply(m, r, now)
	b.Run("running", func(b *testing.B) {
		for b.Loop() {
			if _, err := Clear(m, now.Add(time.Hour)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func large(r *rand.Rand, hosts, bids int) Market {
	m := Market{Zone: "z", Model: "m", Params: Standard()}
	for i := range hosts {
		m.Hosts = append(m.Hosts, Host{ID: fmt.Sprintf("ho-%06d", i), GPUs: 8, Floor: Price(2000+r.IntN(3000)) * 100_000})
	}
	for i := range bids {
		m.Bids = append(m.Bids, Bid{ID: fmt.Sprintf("bi-%06d", i), GPUs: []int{1, 1, 1, 2, 2, 4, 8}[r.IntN(7)], Price: Price(1000+r.IntN(20000)) * 100_000, PlacedAt: noon.Add(-time.Duration(r.IntN(1e6)) * time.Second)})
	}
	slices.SortFunc(m.Bids, func(a, b Bid) int { return cmp.Compare(a.PlacedAt.Unix(), b.PlacedAt.Unix()) })
	return m
}

func TestAMarketThatNothingChangesComesToRest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, now := randomMarket(t, 3, 4, 6)
		if rapid.Bool().Draw(t, "as at first") {
			m.Params.CoolDown, m.Params.MinRun = 0, 0
		}
		interruptions := map[string]int{}
		for range 300 {
			r := mustClear(t, m, now)
			checkRules(t, "", m, r, now)
			quiet := true
			for i, d := range r.Decisions {
				switch d.Action {
				case Interrupt:
					interruptions[m.Bids[i].ID]++
					quiet = false
				case Start:
					quiet = false
				}
			}
			m = Apply(m, r, now)
			if !quiet {
				continue // what was freed may be given at once
			}
			if r.Next.IsZero() {
				for id, n := range interruptions {
					if n > 3 {
						t.Fatalf("%s was interrupted %d times", id, n)
					}
				}
				return
			}
			if !r.Next.After(now) {
				t.Fatalf("next round at %s, it is %s", r.Next, now)
			}
			now = r.Next
		}
		t.Fatalf("no rest: interruptions %v, %+v", interruptions, m)
	})
}

func TestInASmallMarketThatOpensABidOfTheAskGetsAPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, now := randomMarket(t, 4, 4, 8)
		m.Sizes = []int{1, 2, 3, 4}
		for i := range m.Bids {
			m.Bids[i].Run, m.Bids[i].Hosts = nil, nil
		}
		for _, g := range mustClear(t, m, now).Goods {
			if g.Ask == 0 {
				continue
			}
			o := m
			o.Bids = append(slices.Clone(m.Bids), Bid{ID: "new", Account: "ac", GPUs: g.GPUs, Price: g.Ask, PlacedAt: now})
			if got := mustClear(t, o, now); outcome(o, got)["new"] == "" {
				t.Fatalf("a bid of the ask %+v: %+v", g, got.Decisions[len(o.Bids)-1])
			}
		}
	})
}
