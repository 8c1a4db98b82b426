package auction

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// Step is what a good cost from a moment on, until the next step.
type Step struct {
	At time.Time `json:"at"`
	// Price is what everybody paid per GPU-hour, 0 while nobody ran. Ask is what
	// it took to get in, 0 while there was no host that is large enough.
	Price Price `json:"price_per_gpu_hour"`
	Ask   Price `json:"ask_per_gpu_hour"`
}

// Step is the good as a step of its history.
func (g Good) Step(at time.Time) Step { return Step{at, g.Price, g.Ask} }

// Compact puts steps in order and leaves out those that change nothing. Of
// several at the same moment the last given counts.
func Compact(steps []Step) []Step {
	out := slices.Clone(steps)
	slices.SortStableFunc(out, func(a, b Step) int { return a.At.Compare(b.At) })
	kept := out[:0]
	for _, s := range out {
		if n := len(kept); n > 0 && kept[n-1].At.Equal(s.At) {
			kept = kept[:n-1]
		}
		if n := len(kept); n == 0 || kept[n-1].Price != s.Price || kept[n-1].Ask != s.Ask {
			kept = append(kept, s)
		}
	}
	return slices.Clip(kept)
}

// Window is the stretch of a history from from to to: compact, and beginning at
// from where something is known of that moment.
func Window(steps []Step, from, to time.Time) []Step {
	var out []Step
	for _, s := range Compact(steps) {
		switch {
		case !s.At.Before(to):
			return out
		case !s.At.After(from):
			s.At = from
			out = []Step{s}
		default:
			out = append(out, s)
		}
	}
	return out
}

// stretch is a step with its end.
type stretch struct {
	Step
	end time.Time
}

func stretches(steps []Step, from, to time.Time) []stretch {
	steps = Window(steps, from, to)
	out := make([]stretch, len(steps))
	for i, s := range steps {
		out[i] = stretch{s, to}
		if i+1 < len(steps) {
			out[i].end = steps[i+1].At
		}
	}
	return out
}

// Spread says between what a price was, by time: P10 is the price that was not
// exceeded for a tenth of the time in which somebody paid one.
type Spread struct {
	Min Price `json:"min_per_gpu_hour"`
	P10 Price `json:"p10_per_gpu_hour"`
	P50 Price `json:"p50_per_gpu_hour"`
	P90 Price `json:"p90_per_gpu_hour"`
	Max Price `json:"max_per_gpu_hour"`
	// Priced is how long there was a price.
	Priced time.Duration `json:"priced_ns"`
}

// Spreads is the spread of the price between two moments.
func Spreads(steps []Step, from, to time.Time) Spread {
	all := stretches(steps, from, to)
	all = slices.DeleteFunc(all, func(s stretch) bool { return s.Price == 0 })
	if len(all) == 0 {
		return Spread{}
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.Price, b.Price) })
	out := Spread{Min: all[0].Price, Max: all[len(all)-1].Price}
	for _, s := range all {
		out.Priced += s.end.Sub(s.At)
	}
	at := func(tenths time.Duration) Price {
		// In tenths of the time, without dividing it.
		sum := time.Duration(0)
		for _, s := range all {
			if sum += s.end.Sub(s.At); sum >= out.Priced/10*tenths {
				return s.Price
			}
		}
		return out.Max
	}
	out.P10, out.P50, out.P90 = at(1), at(5), at(9)
	return out
}

// Span is a stretch of time, half open.
type Span struct{ Start, End time.Time }

// Cost is what gpus that ran in the spans, which do not overlap, cost by a price
// history, by the rule of bills: each whole second of a span, counted from its
// start, costs what was in force when that second began; a second that has only
// begun costs nothing. The sum is rounded once, half to even. It is an error if the history says nothing of a moment in them.
func Cost(steps []Step, gpus int, spans ...Span) (money.Amount, error) {
	sum := new(big.Int) // nano-units × seconds
	for _, sp := range spans {
		parts := stretches(steps, sp.Start, sp.End)
		if sp.End.After(sp.Start) && (len(parts) == 0 || parts[0].At.After(sp.Start)) {
			return 0, fmt.Errorf("cost from %s: the price history begins later", sp.Start.Format(time.RFC3339))
		}
		for _, p := range parts {
			whole := seconds(sp.End.Sub(sp.Start))
			n := min(whole, begun(p.end.Sub(sp.Start))) - min(whole, begun(p.At.Sub(sp.Start)))
			sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(p.Price)), big.NewInt(n)))
		}
	}
	sum.Mul(sum, big.NewInt(int64(gpus)))
	per := big.NewInt(3600 * 1000) // hours from seconds, micro- from nano-units
	q, rest := new(big.Int).QuoRem(sum, per, new(big.Int))
	if c := rest.Lsh(rest, 1).Cmp(per); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	if !q.IsInt64() {
		return 0, money.ErrOverflow
	}
	return money.Amount(q.Int64()), nil
}

// Level is one price of a market's depth.
type Level struct {
	Price Price `json:"price_per_gpu_hour"`
	// Demand is how many GPUs are bid for at this price or more, Supply how many
	// hosts give bids at this price or less.
	Demand int `json:"demand_gpus"`
	Supply int `json:"supply_gpus"`
}

// Depth is demand and supply of a market by price, the lowest first. It names
// neither bids nor hosts, so it can be public. Bids that cool are part of it.
func Depth(m Market) []Level {
	var out []Level
	for _, h := range m.Hosts {
		if h.spot() > 0 {
			out = append(out, Level{h.Floor, 0, h.spot()})
		}
	}
	for _, b := range m.Bids {
		out = append(out, Level{b.Limit(), b.GPUs, 0})
	}
	slices.SortFunc(out, func(a, b Level) int { return cmp.Compare(a.Price, b.Price) })
	merged := out[:0]
	for _, l := range out {
		if n := len(merged); n > 0 && merged[n-1].Price == l.Price {
			merged[n-1].Demand += l.Demand
			merged[n-1].Supply += l.Supply
			continue
		}
		merged = append(merged, l)
	}
	for i := 1; i < len(merged); i++ {
		merged[i].Supply += merged[i-1].Supply
	}
	for i := len(merged) - 2; i >= 0; i-- {
		merged[i].Demand += merged[i+1].Demand
	}
	return slices.Clip(merged)
}

// Advice is how a bid would have fared in the past. It is a statement about the
// past only, and about one more bid beside those that there were.
type Advice struct {
	Bid Price `json:"bid_per_gpu_hour"`
	// Window is what is known of the time asked for, Ran how much of it the bid
	// would have run, and Share the same in basis points, rounded down.
	Window time.Duration `json:"window_ns"`
	Ran    time.Duration `json:"ran_ns"`
	Share  int           `json:"share_basis_points"`
	// Interruptions are how often it would have had to stop. Longest is its
	// longest run.
	Interruptions int           `json:"interruptions"`
	Longest       time.Duration `json:"longest_run_ns"`
	// Cost is what one GPU would have cost, Mean the same per hour that it ran.
	Cost money.Amount `json:"cost_per_gpu"`
	Mean Price        `json:"mean_price_per_gpu_hour"`
}

// Advise says how a bid would have fared between two moments: it gets in
// whenever the ask is not above it, and when the ask rises above it, it runs its
// minimum and its notice, is interrupted, and cools, as in a round. It pays the
// price, never more than its bid.
func Advise(steps []Step, from, to time.Time, bid Price, p Params) (Advice, error) {
	out := Advice{Bid: bid}
	all := stretches(steps, from, to)
	for _, s := range all {
		out.Window += s.end.Sub(s.At)
	}
	runs := replay(all, to, bid, p)
	var paid []Step
	for _, s := range all {
		// Who is alone in a market that nobody runs in pays what it takes to get in.
		paid = append(paid, Step{At: s.At, Price: min(bid, cmp.Or(s.Price, s.Ask))})
	}
	for i, r := range runs {
		out.Ran += r.End.Sub(r.Start)
		out.Longest = max(out.Longest, r.End.Sub(r.Start))
		if i+1 < len(runs) || r.End.Before(to) {
			out.Interruptions++
		}
	}
	if out.Window > 0 {
		// Both in seconds, so that a hundred years times 10,000 fit.
		out.Share = int(seconds(out.Ran) * 10_000 / max(seconds(out.Window), 1))
	}
	cost, err := Cost(paid, 1, runs...)
	if err != nil {
		return Advice{}, err
	}
	out.Cost = cost
	if s := seconds(out.Ran); s > 0 {
		mean := new(big.Int).Mul(big.NewInt(int64(cost)), big.NewInt(3600*1000))
		out.Mean = min(Price(mean.Quo(mean, big.NewInt(s)).Int64()), bid)
	}
	return out, nil
}

// replay is when a bid would have run.
func replay(all []stretch, to time.Time, bid Price, p Params) []Span {
	var runs []Span
	var start, leave, cool time.Time // start is zero while it does not run, leave while it has no notice
	for _, s := range all {
		// A notice that ends within a stretch makes a second turn of it, and the end
		// of a cool-down a third.
		for at := s.At; at.Before(s.end); {
			good := s.Ask > 0 && s.Ask <= bid
			switch {
			case start.IsZero() && !good:
				at = s.end
			case start.IsZero() && at.Before(cool):
				at = earlier(cool, s.end)
			case start.IsZero():
				start = at
			case good:
				leave, at = time.Time{}, s.end
			case leave.IsZero():
				// Outbid as soon as that may be, and told so.
				leave = later(at, start.Add(p.MinRun)).Add(p.Notice)
			case leave.After(s.end):
				at = s.end
			default:
				runs = append(runs, Span{start, leave})
				at, cool, start, leave = later(at, leave), leave.Add(p.CoolDown), time.Time{}, time.Time{}
			}
		}
	}
	if !start.IsZero() {
		runs = append(runs, Span{start, to})
	}
	return runs
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// suggestions bounds how many bids Suggest tries.
const suggestions = 200

// Suggest finds the lowest bid that would have run at least share, in basis
// points, of the time between two moments, and advises on a bid that is higher
// by headroom, in basis points: what a bid pays is the price, so headroom costs
// nothing until it is needed. It says false where no bid would have done. Of
// more than 200 different asks it tries as many, evenly spread.
func Suggest(steps []Step, from, to time.Time, share, headroom int, p Params) (Advice, bool, error) {
	var asks []Price
	for _, s := range Window(steps, from, to) {
		if s.Ask > 0 {
			asks = append(asks, s.Ask.ceil(p.Tick))
		}
	}
	slices.Sort(asks)
	asks = slices.Compact(asks)
	for i := range min(len(asks), suggestions) {
		if len(asks) > suggestions {
			i = i * (len(asks) - 1) / (suggestions - 1)
		}
		a, err := Advise(steps, from, to, asks[i], p)
		if err == nil && a.Share >= share && headroom > 0 {
			a, err = Advise(steps, from, to, (asks[i] + asks[i].share(headroom)).ceil(p.Tick), p)
		}
		if err != nil || a.Share >= share {
			return a, err == nil, err
		}
	}
	return Advice{}, false, nil
}
