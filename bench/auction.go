package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/pricing/auction/welfare"
)

const (
	auctionHosts = 1250 // of 8 GPUs
	auctionBids  = 100_000
	auctionRuns  = 25

	welfareMarkets = 100
)

// auctionStart is when the markets of the benchmarks are.
var auctionStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// benchAuction clears one market of 100,000 bids for 10,000 GPUs from scratch,
// and then again with its winners running, on one core (GOMAXPROCS=1). Ours is
// the median of the slower of the two in processor time, garbage collection
// included; the time by the wall is printed beside it. The peer is the least
// that any auction by rank does: sorting the same bids by price and age, with
// nothing placed and nothing priced.
func benchAuction(_ context.Context, _ *world) (result, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := largeMarket(rand.New(rand.NewPCG(1, 1)))
	var scratch, running, sorting timing
	var first auction.Result
	err := errors.Join(
		repeat(&scratch, func() (err error) { first, err = auction.Clear(m, auctionStart); return err }),
		repeat(&sorting, func() error { sortBids(m.Bids); return nil }),
	)
	if err != nil {
		return result{}, err
	}
	won := 0
	for _, g := range first.Goods {
		fmt.Printf("  bundles of %d: %d of %d bids won, at %s per GPU-hour\n", g.GPUs, g.Won, g.Bids, g.Price.Display())
		won += g.Won * g.GPUs
	}
	later := auction.Apply(m, first, auctionStart)
	if err := repeat(&running, func() error { _, err := auction.Clear(later, auctionStart.Add(time.Hour)); return err }); err != nil {
		return result{}, err
	}
	ours, peer := max(quantile(scratch.cpu, .5), quantile(running.cpu, .5)), quantile(sorting.cpu, .5)
	fmt.Printf("%d of %d GPUs let; from scratch %s; with winners running %s; sorting %s\n", won, auctionHosts*8, &scratch, &running, &sorting)
	return result{ms(ours), ms(peer), float64(ours) / float64(peer), ours < 100*time.Millisecond}, nil
}

func repeat(t *timing, call func() error) error {
	for range auctionRuns {
		if err := t.add(call); err != nil {
			return err
		}
	}
	return nil
}

func sortBids(bids []auction.Bid) {
	order := make([]*auction.Bid, len(bids))
	for i := range bids {
		order[i] = &bids[i]
	}
	slices.SortFunc(order, func(a, b *auction.Bid) int {
		return cmp.Or(cmp.Compare(b.Price, a.Price), a.PlacedAt.Compare(b.PlacedAt), cmp.Compare(a.ID, b.ID))
	})
}

func largeMarket(r *rand.Rand) auction.Market {
	m := auction.Market{Zone: "z1", Model: "RTX 4090", Params: auction.Standard()}
	for i := range auctionHosts {
		m.Hosts = append(m.Hosts, auction.Host{ID: hostName(i), GPUs: 8, Floor: auction.Price(2000+r.IntN(3000)) * m.Params.Tick})
	}
	for i := range auctionBids {
		b := auction.Bid{ID: fmt.Sprintf("bi-%08d", i), Account: fmt.Sprintf("ac-%d", r.IntN(5000)), GPUs: []int{1, 1, 1, 2, 2, 4, 8}[r.IntN(7)],
			Price: auction.Price(1000+r.IntN(20_000)) * m.Params.Tick, PlacedAt: auctionStart.Add(-time.Duration(r.IntN(1e6)) * time.Second)}
		if r.IntN(100) == 0 {
			b = b.Avoiding(hostName(r.IntN(auctionHosts)), auctionStart.Add(24*time.Hour), auctionStart)
		}
		m.Bids = append(m.Bids, b)
	}
	return m
}

// benchWelfare clears 100 random small markets: 1 to 8 hosts of 1 to 8 GPUs with
// floors from nothing to as much as half of the bids, and one to five bids for each
// host, for bundles of 1 to 8 GPUs, every other market with sizes of 1, 2, 4 and 8
// only. Welfare is what the winners bid less the floors of the GPUs that they get.
// Ours is the worst market's welfare as a part of the optimum, which a search finds
// that shares no code with the product. The peer is the plain way on the same
// markets: the best bid first, each on the first host with room. A market whose
// winners of one bundle size would pay two prices, or one that is above a bid or
// below a floor, fails the benchmark. That the product solves markets of this size
// exactly makes the figure 1; larger ones are cleared by rank, and what they lose
// against a bound that takes all bundles apart is printed.
func benchWelfare(_ context.Context, _ *world) (result, error) {
	r := rand.New(rand.NewPCG(7, 9))
	ours, peer, total, plainTotal, wrong := 1.0, 1.0, 0.0, 0.0, 0
	for i := range welfareMarkets {
		hosts := 1 + r.IntN(8)
		m := smallMarket(r, hosts, hosts*(1+r.IntN(5)), i%2 == 0)
		cleared, err := auction.Clear(m, auctionStart)
		if err != nil {
			return result{}, err
		}
		got, bad := welfare.Of(m, cleared)
		best := welfare.Most(m, max(got, plainWelfare(m)))
		wrong += bad
		q, p := part(got, best), part(plainWelfare(m), best)
		ours, peer, total, plainTotal = min(ours, q), min(peer, p), total+q, plainTotal+p
	}
	fmt.Printf("%d markets: mean %.4f of the optimum, the plain way %.4f; goods with two prices or a wrong one: %d\n", welfareMarkets, total/welfareMarkets, plainTotal/welfareMarkets, wrong)
	for _, hosts := range []int{8, 12, 16, 32, 64} {
		worst, mean, longest := 1.0, 0.0, time.Duration(0)
		for i := range 30 {
			m := smallMarket(r, hosts, hosts*5, i%2 == 0)
			begin := time.Now()
			cleared, err := auction.Clear(m, auctionStart)
			longest = max(longest, time.Since(begin))
			if err != nil {
				return result{}, err
			}
			got, bad := welfare.Of(m, cleared)
			wrong += bad
			q := part(got, welfare.Divided(m))
			worst, mean = min(worst, q), mean+q/30
		}
		fmt.Printf("  markets of %d hosts: at least %.3f of the optimum in the mean, %.3f in the worst; cleared in at most %s\n", hosts, mean, worst, longest.Round(time.Millisecond/10))
	}
	return result{fmt.Sprintf("%.2f%%", ours*100), fmt.Sprintf("%.2f%%", peer*100), ours / peer, ours >= 0.95 && wrong == 0}, nil
}

func part(of, whole int64) float64 {
	if whole == 0 {
		return 1
	}
	return float64(of) / float64(whole)
}

func smallMarket(r *rand.Rand, hosts, bids int, even bool) auction.Market {
	m := auction.Market{Zone: "z1", Model: "RTX 4090", Params: auction.Standard()}
	for i := range hosts {
		m.Hosts = append(m.Hosts, auction.Host{ID: hostName(i), GPUs: 1 + r.IntN(8), Floor: auction.Price(r.IntN(10_000)) * m.Params.Tick})
	}
	for i := range bids {
		gpus := 1 + r.IntN(8)
		if even {
			gpus = 1 << r.IntN(4)
		}
		m.Bids = append(m.Bids, auction.Bid{ID: fmt.Sprintf("bi-%d", i), GPUs: gpus, Price: auction.Price(1+r.IntN(20_000)) * m.Params.Tick, PlacedAt: auctionStart.Add(-time.Duration(r.IntN(1000)) * time.Second)})
	}
	return m
}

// plainWelfare gives the best bid the first host with room, and so on.
func plainWelfare(m auction.Market) (sum int64) {
	bids, hosts := welfare.Sorted(m)
	for _, b := range bids {
		for h := range hosts {
			if hosts[h].GPUs >= b.GPUs && hosts[h].Floor <= b.Limit() {
				hosts[h].GPUs -= b.GPUs
				sum += int64(b.GPUs) * int64(b.Limit()-hosts[h].Floor)
				break
			}
		}
	}
	return sum
}

// spotTrace is one answer of AWS's DescribeSpotPriceHistory.
type spotTrace struct {
	SpotPriceHistory []struct {
		AvailabilityZone, InstanceType, SpotPrice string
		Timestamp                                 time.Time
	}
}

// benchSpotPrice replays real spot prices against advice. SUANLI_BENCH_SPOT_PRICES
// is a folder of answers of AWS's DescribeSpotPriceHistory, such as logs/aws/cost
// of stanford-futuredata/training_on_a_dime (MIT). For each series of zone and
// type, the first half of its time is the past, from which a bid is suggested
// that would have run 97 % of it, with a tenth of headroom; the second half is
// what then happens. Ours is the mean share of the second half that the bids
// run, the peer the same without headroom. What headroom costs, a higher price
// in the mean, is printed.
func benchSpotPrice(_ context.Context, _ *world) (result, error) {
	series, err := spotTraces()
	if err != nil {
		return result{}, err
	}
	rules := auction.Standard()
	var ours, peer, saved float64
	n, interruptions := 0, 0
	for _, name := range slices.Sorted(maps.Keys(series)) {
		steps := auction.Compact(series[name])
		from, to := steps[0].At, steps[len(steps)-1].At
		middle := from.Add(to.Sub(from) / 2)
		if len(steps) < 4 {
			continue
		}
		advice, ok, err := auction.Suggest(steps, from, middle, 9700, 1000, rules)
		if err != nil || !ok {
			return result{}, errors.Join(err, fmt.Errorf("%s: no bid would have run 97 %%", name))
		}
		came, err1 := auction.Advise(steps, middle, to, advice.Bid, rules)
		tight, _, err2 := auction.Suggest(steps, from, middle, 9700, 0, rules)
		bare, err3 := auction.Advise(steps, middle, to, tight.Bid, rules)
		if err := errors.Join(err1, err2, err3); err != nil {
			return result{}, err
		}
		n++
		ours, peer = ours+float64(came.Share)/10_000, peer+float64(bare.Share)/10_000
		interruptions += came.Interruptions
		saved += 1 - float64(came.Mean)/float64(advice.Bid)
		fmt.Printf("  %-24s bid %s: past %.1f %%, then %.1f %% with %d interruptions at %s in the mean; without headroom %.1f %% at %s\n", name, advice.Bid.Display(),
			float64(advice.Share)/100, float64(came.Share)/100, came.Interruptions, came.Mean.Display(), float64(bare.Share)/100, bare.Mean.Display())
	}
	if n == 0 {
		return result{}, errors.New("no series has four prices")
	}
	fmt.Printf("%d series, %d interruptions; the price was %.1f %% under the bid\n", n, interruptions, saved/float64(n)*100)
	a, b := ours/float64(n), peer/float64(n)
	return result{fmt.Sprintf("%.1f%%", a*100), fmt.Sprintf("%.1f%%", b*100), a / max(b, 1e-9), a >= 0.9}, nil
}

func readSpotTrace(path string, series map[string][]auction.Step) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var t spotTrace
	if err := json.Unmarshal(b, &t); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range t.SpotPriceHistory {
		price, err := auction.ParsePrice(p.SpotPrice)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		name := p.InstanceType + " " + p.AvailabilityZone
		series[name] = append(series[name], auction.Step{At: p.Timestamp, Price: price, Ask: price})
	}
	return nil
}

// spotTraces reads all series of SUANLI_BENCH_SPOT_PRICES.
func spotTraces() (map[string][]auction.Step, error) {
	dir := os.Getenv("SUANLI_BENCH_SPOT_PRICES")
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if dir == "" || err != nil || len(files) == 0 {
		return nil, errors.Join(err, errors.New("SUANLI_BENCH_SPOT_PRICES has to name a folder with answers of DescribeSpotPriceHistory"))
	}
	series := map[string][]auction.Step{}
	for _, f := range files {
		if err := readSpotTrace(f, series); err != nil {
			return nil, err
		}
	}
	return series, nil
}

// benchSpotAdvice puts advice to the test on the real prices of spot-price, at
// every sixth hour: a bid that would have run 97 % of the two days before, with a
// tenth of headroom, and then two days of which the advice knew nothing, since the
// traces have no two weeks. Ours is in how many cases it ran at least 94 % of
// these, the peer the same without headroom. Series whose price hardly ever
// changed are left out: anything holds in them.
func benchSpotAdvice(_ context.Context, _ *world) (result, error) {
	series, err := spotTraces()
	if err != nil {
		return result{}, err
	}
	trial := auction.Trial{Past: 48 * time.Hour, Next: 48 * time.Hour, Every: 6 * time.Hour, Share: 9700, Slack: 300}
	var held [4]float64
	for i, headroom := range []int{0, 200, 500, 1000} {
		var all auction.Calibration
		trial.Headroom = headroom
		n := 0
		for _, name := range slices.Sorted(maps.Keys(series)) {
			steps := auction.Compact(series[name])
			if len(steps) < 4 {
				continue
			}
			c, err := auction.Calibrate(steps, steps[0].At, steps[len(steps)-1].At, trial, auction.Standard())
			if err != nil {
				return result{}, err
			}
			n++
			all = all.And(c)
		}
		if all.Cases == 0 {
			return result{}, errors.New("no series has four days of prices")
		}
		held[i] = float64(all.Held) / float64(all.Cases)
		fmt.Printf("  headroom %4.1f %%: held in %d of %d cases of %d series, ran %.1f %% in the mean, %.1f %% in the worst\n",
			float64(headroom)/100, all.Held, all.Cases, n, float64(all.Mean)/100, float64(all.Worst)/100)
	}
	ours, peer := held[len(held)-1], held[0]
	return result{fmt.Sprintf("%.1f%%", ours*100), fmt.Sprintf("%.1f%%", peer*100), ours / max(peer, 1e-9), ours >= 0.95}, nil
}
