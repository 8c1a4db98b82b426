package pricing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"suanli.dev/internal/money"
)

// Grant is money that an operator gives for use, such as a trial. It pays before
// the wallet, and only use in its time: what expires is a condition of the
// spending, not of something that has to run in time.
type Grant struct {
	ID         string       `json:"id"`
	Kind       string       `json:"kind"` // for people: "trial", "sla", "promotion"
	Cap        money.Amount `json:"cap"`
	Spent      money.Amount `json:"spent"`                // of Cap, before the uses that are asked about
	Meters     []Meter      `json:"meters,omitempty"`     // empty: all
	GPUModels  []string     `json:"gpu_models,omitempty"` // empty: all
	ActiveFrom time.Time    `json:"active_from"`
	ExpiresAt  time.Time    `json:"expires_at"` // not in its time

	// A grant of a coupon of a share pays only that of what it is for. Taken is what it
	// has been for so far.
	SharePPM int64              `json:"share_ppm,omitempty"` // millionths; 0: all
	Taken    map[SpendKey]Taken `json:"-"`
}

// SpendKey is what a share is rounded once for: a meter of a lease.
type SpendKey struct {
	Reference string
	Meter     Meter
}

// Taken is what a share was taken of, and what it has paid.
type Taken struct{ Base, Amount money.Amount }

// More returns what a share pays of base more, with left to pay in all: the share of
// the whole base, rounded once, less what it has paid. However use is cut, it comes to
// the same.
func (t Taken) More(base, left money.Amount, sharePPM int64) (money.Amount, error) {
	all, err := t.Base.Add(base)
	if err != nil {
		return 0, err
	}
	want, err := part(all, sharePPM, ppm)
	return max(0, min(want-t.Amount, base, left)), err
}

// Less returns what of a share comes back when base of what it was taken of turns out
// not to be due.
func (t Taken) Less(base money.Amount, sharePPM int64) (money.Amount, error) {
	if base < 0 || base > t.Base {
		return 0, fmt.Errorf("%s of %s that a share was taken of: want 0 to all of it", base, t.Base)
	}
	want, err := part(t.Base-base, sharePPM, ppm)
	return max(0, t.Amount-want), err
}

// TrialTerms is what an operator's trials are.
type TrialTerms struct {
	Worth         money.Amount `json:"worth"`
	ValidSeconds  int64        `json:"valid_seconds"` // from the first use; 0: TrialSeconds
	MaxGPUs       int64        `json:"max_concurrent_gpus"`
	Meters        []Meter      `json:"meters,omitempty"`
	GPUModels     []string     `json:"gpu_models,omitempty"`
	EgressAllowed bool         `json:"egress_allowed"`
}

// TrialSeconds is how long a trial is valid where nothing else is said: 72 hours.
const TrialSeconds = 72 * secondsPerHour

// NewTrial returns the grant of a trial that is used for the first time at a
// moment. It ends exactly so many seconds later.
func NewTrial(id string, t TrialTerms, firstUse time.Time) (Grant, error) {
	valid := t.ValidSeconds
	if valid == 0 {
		valid = TrialSeconds
	}
	if valid < 1 || valid > maxRunSeconds {
		return Grant{}, fmt.Errorf("trial of %d seconds: want 1 to %d", valid, maxRunSeconds)
	}
	from := firstUse.UTC().Truncate(time.Microsecond)
	g := Grant{ID: id, Kind: Trial, Cap: t.Worth, Meters: t.Meters, GPUModels: t.GPUModels, ActiveFrom: from, ExpiresAt: from.Add(time.Duration(valid) * time.Second)}
	return g, g.Check()
}

// Check reports the first thing that is wrong with g.
func (g Grant) Check() error {
	switch {
	case g.Cap < 0 || g.Spent < 0 || g.Spent > g.Cap:
		return fmt.Errorf("grant %s: %s of %s is spent: want 0 to all of it", g.ID, g.Spent, g.Cap)
	case g.SharePPM < 0 || g.SharePPM > ppm:
		return fmt.Errorf("grant %s pays %d millionths: want 0 to 1000000", g.ID, g.SharePPM)
	case !g.ActiveFrom.Before(g.ExpiresAt):
		return fmt.Errorf("grant %s: it expires at %s and begins at %s", g.ID, g.ExpiresAt, g.ActiveFrom)
	}
	return nil
}

// Available returns what of g can be spent at a moment.
func (g Grant) Available(at time.Time) money.Amount {
	if at.Before(g.ActiveFrom) || !at.Before(g.ExpiresAt) {
		return 0
	}
	return g.Cap - g.Spent
}

// Expired returns what of g is lost by a moment, to be posted back once.
func (g Grant) Expired(at time.Time) money.Amount {
	if at.Before(g.ExpiresAt) {
		return 0
	}
	return g.Cap - g.Spent
}

// pays reports whether g is for a spend.
func (g Grant) pays(s Spend) bool {
	return (len(g.Meters) == 0 || slices.Contains(g.Meters, s.Meter)) &&
		(len(g.GPUModels) == 0 || slices.Contains(g.GPUModels, s.GPUModel)) &&
		!s.From.Before(g.ActiveFrom) && !s.Until.After(g.ExpiresAt) && s.From.Before(g.ExpiresAt)
}

// Spend is an amount for use in a stretch of time.
type Spend struct {
	Reference string // such as the lease's identifier
	Meter     Meter
	GPUModel  string
	From      time.Time
	Until     time.Time
	Amount    money.Amount
}

// Draw is what a grant pays of a spend.
type Draw struct {
	GrantID string
	Spend   int // index of the spend
	Amount  money.Amount
	Base    money.Amount // of a share: what it is of; it may be of something and come to nothing
}

// DrawGrants pays spends from grants: earlier spends first, and for each first those
// that pay a share, of what those before have left, then the grant that expires first. It returns the draws and what is left of each spend for the
// wallet. Spends must not straddle a grant's begin or end; Spends cuts them so.
func DrawGrants(grants []Grant, spends []Spend) (draws []Draw, rest []money.Amount, err error) {
	ordered := slices.Clone(grants)
	slices.SortStableFunc(ordered, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(min(1, b.SharePPM), min(1, a.SharePPM)), a.ExpiresAt.Compare(b.ExpiresAt), cmp.Compare(a.ID, b.ID))
	})
	for n, g := range ordered {
		ordered[n].Taken = maps.Clone(g.Taken)
		if err := g.Check(); err != nil {
			return nil, nil, err
		}
		for _, s := range spends {
			for _, at := range []time.Time{g.ActiveFrom, g.ExpiresAt} {
				if s.From.Before(at) && at.Before(s.Until) {
					return nil, nil, fmt.Errorf("use of %s from %s until %s straddles %s of grant %s: it must be cut there", s.Reference, s.From, s.Until, at, g.ID)
				}
			}
		}
	}
	order := make([]int, len(spends))
	rest = make([]money.Amount, len(spends))
	for i, s := range spends {
		if s.Amount < 0 {
			return nil, nil, fmt.Errorf("use of %s comes to %s: want at least 0", s.Reference, s.Amount)
		}
		order[i], rest[i] = i, s.Amount
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(spends[a].From.Compare(spends[b].From), cmp.Compare(spends[a].Reference, spends[b].Reference),
			cmp.Compare(slices.Index(Meters[:], spends[a].Meter), slices.Index(Meters[:], spends[b].Meter)))
	})
	for _, i := range order {
		for n := range ordered {
			g := &ordered[n]
			if g.SharePPM > 0 && rest[i] > 0 && g.pays(spends[i]) {
				key := SpendKey{spends[i].Reference, spends[i].Meter}
				taken := g.Taken[key]
				amount, err := taken.More(rest[i], g.Cap-g.Spent, g.SharePPM)
				if err != nil {
					return nil, nil, err
				}
				if g.Taken == nil {
					g.Taken = map[SpendKey]Taken{}
				}
				draws = append(draws, Draw{g.ID, i, amount, rest[i]})
				g.Taken[key] = Taken{taken.Base + rest[i], taken.Amount + amount}
				g.Spent += amount
				rest[i] -= amount
				continue
			}
			if g.SharePPM > 0 {
				continue
			}
			if amount := min(rest[i], g.Cap-g.Spent); amount > 0 && g.pays(spends[i]) {
				g.Spent += amount
				rest[i] -= amount
				draws = append(draws, Draw{g.ID, i, amount, 0})
			}
		}
	}
	return draws, rest, nil
}

// Until returns the part of usage that lies before a moment. Bytes have no time
// and are left out; they are reported with one when they are spent.
func (u Usage) Until(at time.Time) Usage {
	at = at.UTC()
	cut := func(in []Interval) []Interval {
		var out []Interval
		for _, i := range in {
			if !i.Start.Before(at) {
				continue
			}
			if at.Before(i.End) {
				i.End, i.Evicted = at, false
			}
			out = append(out, i)
		}
		return out
	}
	kept := func(in []Kept) []Kept {
		var out []Kept
		for _, k := range in {
			if c := cut([]Interval{k.Interval}); len(c) == 1 {
				k.Interval = c[0]
				out = append(out, k)
			}
		}
		return out
	}
	return Usage{
		Compute: cut(u.Compute), Storage: cut(u.Storage), Prepaid: u.Prepaid, Reserved: u.Reserved,
		PublicIPs: kept(u.PublicIPs), Snapshots: kept(u.Snapshots), Volumes: kept(u.Volumes),
	}
}

// Spends returns what a lease's use comes to between the cuts, such as the begins
// and ends of grants: for each meter the difference of what is due at one cut and
// at the next, so the parts add up to what is due exactly. Cuts count to the
// second, rounded down: a second that is not over at a cut is after it.
func Spends(q Quote, u Usage, reference, gpuModel string, cuts []time.Time) ([]Spend, error) {
	moments := make([]time.Time, 0, len(cuts)+1)
	var first, last time.Time
	for _, in := range [][]Interval{u.Compute, u.Storage, intervals(u.PublicIPs), intervals(u.Snapshots), intervals(u.Volumes)} {
		for _, i := range in {
			if first.IsZero() || i.Start.Before(first) {
				first = i.Start
			}
			if i.End.After(last) {
				last = i.End
			}
		}
	}
	for _, c := range cuts {
		if c.After(first) && c.Before(last) {
			moments = append(moments, c.UTC())
		}
	}
	slices.SortFunc(moments, time.Time.Compare)
	moments = append(slices.CompactFunc(moments, time.Time.Equal), last.UTC())
	whole := u
	whole.Compute = unwaived(q, u.Compute)
	whole.EgressBytes, whole.IngressBytes = 0, 0
	var out []Spend
	before := map[Meter]money.Amount{}
	from := first.UTC()
	for i, until := range moments {
		part := whole
		if i < len(moments)-1 {
			part = whole.Until(until)
		}
		due, err := Due(q, part)
		if err != nil {
			return nil, err
		}
		for _, m := range Meters {
			if amount := due[m] - before[m]; amount != 0 {
				out = append(out, Spend{reference, m, gpuModel, from, until, amount})
				before[m] = due[m]
			}
		}
		from = until
	}
	return out, nil
}

// unwaived leaves out the sessions that an eviction waives: cut before it, they
// would look as if they cost something.
func unwaived(q Quote, in []Interval) []Interval {
	if q.Version == 1 || q.EvictionFreeSeconds == 0 {
		return in
	}
	var free []Interval
	for _, session := range sessions(in) {
		if q.waives(session) {
			for _, s := range session {
				free = append(free, s.Interval)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(in), func(i Interval) bool {
		return slices.ContainsFunc(free, func(f Interval) bool {
			return !i.Start.Truncate(time.Microsecond).Before(f.Start) && i.Start.Before(f.End)
		})
	})
}

func intervals(kept []Kept) []Interval {
	out := make([]Interval, len(kept))
	for i, k := range kept {
		out[i] = k.Interval
	}
	return out
}
