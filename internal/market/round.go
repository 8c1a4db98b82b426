package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

// How long a bid stays away from what refused it: from a host whose GPUs somebody
// else took in the same moment, from one that it cannot use or lost its place on
// during its set-up, and from the market when its own account is in the way.
const (
	avoidTaken  = 5 * time.Second
	avoidUnfit  = 10 * time.Minute
	coolAccount = time.Minute
)

// maxAttempts bounds how often a round begins anew since a bid that won could not
// be placed, or its place had to be priced first.
const maxAttempts = 100

// place is where and at which price a bid shall start.
type place struct {
	offer     string
	rate, bid money.Rate
}

// round is one attempt at a round.
type round struct {
	s        *Service
	key      fleet.MarketKey
	now      time.Time
	bids     []*Bid
	floors   map[string]auction.Price // of hosts
	before   map[int]auction.Step     // the last recorded prices
	prepared map[string]prepared      // by bid, from earlier attempts
	refused  map[string]refusal       // likewise
	wanted   map[string]place         // places that are to be prepared
	after    []func(context.Context)  // the commit
}

type prepared struct {
	place
	placement *lease.Placement
}

// refusal is why a bid that won could not be placed.
type refusal struct {
	bid, host string
	err       error
}

func (r refusal) Error() string { return fmt.Sprintf("place bid %s: %v", r.bid, r.err) }
func (r refusal) Unwrap() error { return r.err }

var errNotPrepared = errors.New("a place is to be priced first")

// Clear holds a round in one market.
func (s *Service) Clear(ctx context.Context, k fleet.MarketKey) error {
	ready, refused := map[string]prepared{}, map[string]refusal{}
	for range maxAttempts {
		var r *round
		var next time.Time
		err := s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
			r = &round{s: s, key: k, prepared: ready, refused: refused, wanted: map[string]place{}, floors: map[string]auction.Price{}}
			next, err = r.hold(ctx, tx)
			return err
		})
		var no refusal
		switch {
		case errors.Is(err, errNotPrepared):
			// Outside of the transaction, as quoting asks the account and the fleet.
			for _, b := range r.bids {
				if p, ok := r.wanted[b.ID]; ok {
					placement, err := s.prepare(ctx, b, p)
					if _, isFault := fault.As(err); isFault {
						refused[b.ID] = refusal{b.ID, b.HostID, err}
						continue
					}
					if err != nil {
						return err
					}
					ready[b.ID] = prepared{p, placement}
				}
			}
			continue
		case errors.As(err, &no):
			s.Log.InfoContext(ctx, "a bid that won could not be placed", "bid", no.bid, "host", no.host, "error", no.err)
			refused[no.bid] = no
			continue
		case isCode(err, "lease_state", "bid_state"):
			continue // a lease moved at the same moment
		case err != nil:
			return fmt.Errorf("round of %s in %s: %w", k.Model, k.Zone, err)
		}
		for _, f := range r.after {
			f(ctx)
		}
		open := 0
		for _, b := range r.bids {
			if !b.State.Final() {
				open++
			}
		}
		s.mu.Lock()
		s.rounds[k] = looked{at: r.now, next: next, bids: open}
		s.mu.Unlock()
		return nil
	}
	return fmt.Errorf("round of %s in %s: %d attempts were not enough", k.Model, k.Zone, maxAttempts)
}

func (s *Service) prepare(ctx context.Context, b *Bid, p place) (*lease.Placement, error) {
	wish, err := s.Leases.OpenSpot(b.wish)
	if err != nil {
		return nil, fmt.Errorf("open bid %s: %w", b.ID, err)
	}
	return s.Leases.PrepareSpot(ctx, lease.SpotPlace{
		BidID: b.ID, Principal: account.Principal{UserID: b.UserID, AccountID: b.AccountID}, Wish: wish,
		OfferID: p.offer, Rate: p.rate, Bid: p.bid, TimeZone: b.timeZone,
	})
}

// hold is the round, in its transaction. It returns when the next is due at the
// latest.
func (r *round) hold(ctx context.Context, tx *store.Tx) (time.Time, error) {
	s := r.s
	var last time.Time
	if err := lockMarket(ctx, tx, r.key, &last); err != nil {
		return time.Time{}, err
	}
	// Later than the round before, so that no two prices have the same moment.
	if r.now = s.Clock().UTC().Truncate(time.Microsecond); !r.now.After(last) {
		r.now = last.Add(time.Microsecond)
	}
	m, in, err := r.read(ctx, tx)
	if err != nil {
		return time.Time{}, err
	}
	result, err := auction.Clear(m, r.now)
	if err != nil {
		return time.Time{}, err
	}
	for i, d := range result.Decisions {
		good, _ := result.Good(in[i].GPUs)
		if err := r.carryOut(ctx, tx, in[i], d, good.Price); err != nil {
			return time.Time{}, err
		}
	}
	if len(r.wanted) > 0 {
		return time.Time{}, errNotPrepared
	}
	news := false
	for _, b := range r.bids {
		news = news || b.changed
		if err := saveBid(ctx, tx, b); err != nil {
			return time.Time{}, err
		}
	}
	for _, g := range result.Goods {
		was, known := r.before[g.GPUs]
		if known && was.Price == g.Price && was.Ask == g.Ask {
			continue
		}
		news = true
		if _, err := tx.Exec(ctx, `INSERT INTO market_price (zone, gpu_model, simulated, gpus, at, price, ask) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			r.key.Zone, r.key.Model, bit(r.key.Simulated), g.GPUs, store.Micros(r.now), int64(g.Price), int64(g.Ask)); err != nil {
			return time.Time{}, fmt.Errorf("record price: %w", err)
		}
	}
	if !news {
		return result.Next, nil // a price holds until the next one, so nothing is to be written
	}
	_, err = tx.Exec(ctx, `UPDATE market SET cleared_at = ? WHERE zone = ? AND gpu_model = ? AND simulated = ?`,
		store.Micros(r.now), r.key.Zone, r.key.Model, bit(r.key.Simulated))
	return result.Next, err
}

// read brings the bids to what has become of their leases, and returns what is
// auctioned and which of its bids are which.
func (r *round) read(ctx context.Context, tx *store.Tx) (auction.Market, []*Bid, error) {
	s := r.s
	var err error
	if r.bids, err = selectBids(ctx, tx, `zone = ? AND gpu_model = ? AND simulated = ? AND ended_at = 0`, r.key.Zone, r.key.Model, bit(r.key.Simulated)); err != nil {
		return auction.Market{}, nil, err
	}
	inOrder(r.bids)
	var ids []string
	for _, b := range r.bids {
		if b.LeaseID != "" {
			ids = append(ids, b.LeaseID)
		}
	}
	leases, err := s.Leases.SpotLeases(ctx, tx, ids)
	if err != nil {
		return auction.Market{}, nil, err
	}
	for _, b := range r.bids {
		if err := b.follow(leases, r.now); err != nil {
			s.Log.ErrorContext(ctx, "a bid does not follow its lease", "bid", b.ID, "lease", b.LeaseID, "error", err)
		}
		r.refuse(b)
	}
	supply, err := s.Supply.Supply(ctx, tx, r.key)
	if err != nil {
		return auction.Market{}, nil, err
	}
	if r.before, err = lastSteps(ctx, tx, r.key); err != nil {
		return auction.Market{}, nil, err
	}
	m, in := r.market(leases, supply)
	return m, in, nil
}

// hostFaults are the codes of leases that never ran and whose renter could not
// help it.
var hostFaults = []string{"gpu_missing", "host_full", "host_quota", "engine", "disk_full", "host_unreachable", "host_abandoned", "instance_lost"}

// follow brings a bid's state to what has become of its lease.
func (b *Bid) follow(leases map[string]lease.SpotLease, now time.Time) error {
	l, ok := leases[b.LeaseID]
	if b.LeaseID == "" || !ok {
		return nil
	}
	anew := func(code, message string) error {
		host := b.HostID
		if err := b.move(LosePlace, code, message, now); err != nil {
			return err
		}
		b.avoidHost(host, now.Add(avoidUnfit), now)
		b.LeaseID, b.HostID = "", ""
		return nil
	}
	switch l.State {
	case lease.Stopping:
		if !l.Interrupting && b.State != Paused {
			return b.move(Pause, l.Code, l.Message, now)
		}
	case lease.Interrupted:
		switch b.State {
		case Paused:
			return b.move(Resume, l.Code, l.Message, now)
		case Placed, Noticed, Leaving:
			return b.move(Leave, l.Code, l.Message, now)
		}
	case lease.Stopped:
		if b.State != Paused {
			return b.move(Pause, l.Code, l.Message, now)
		}
	case lease.Ending, lease.Ended:
		if b.State == Leaving && l.TakenInSetUp {
			return anew(l.Code, l.Message)
		}
		return b.move(Finish, l.Code, l.Message, now)
	case lease.Failed:
		if slices.Contains(hostFaults, l.Code) {
			return anew(l.Code, l.Message)
		}
		return b.move(Fail, l.Code, l.Message, now)
	}
	return nil
}

// What keeps a bid that won from its place: its own account, and others who were
// faster.
var (
	accountFaults = []string{"insufficient_balance", "budget_reached", "quota_gpus", "quota_leases", "deadline_past", "exchange_rate_missing", "exchange_rate_stale"}
	takenFaults   = []string{"offer_taken", "offer_gone", "no_capacity", "host_offline"}
)

func (b *Bid) avoidHost(host string, until, now time.Time) {
	if host != "" {
		b.avoid, b.changed = auction.Bid{Avoid: b.avoid}.Avoiding(host, until, now).Avoid, true
	}
}

// refuse takes in that an earlier attempt could not place the bid.
func (r *round) refuse(b *Bid) {
	no, ok := r.refused[b.ID]
	if !ok || b.State != Waiting && b.State != Interrupted {
		return
	}
	f, _ := fault.As(no.err)
	b.Code, b.Message, b.changed = f.Code, f.Error(), true
	switch {
	case slices.Contains(accountFaults, f.Code):
		b.CoolUntil = r.now.Add(coolAccount)
	case slices.Contains(takenFaults, f.Code):
		b.avoidHost(no.host, r.now.Add(avoidTaken), r.now)
	default:
		b.avoidHost(no.host, r.now.Add(avoidUnfit), r.now)
	}
}

// market is what is auctioned, and which of its bids are which.
func (r *round) market(leases map[string]lease.SpotLease, supply []fleet.Supply) (auction.Market, []*Bid) {
	m := auction.Market{Zone: r.key.Zone, Model: r.key.Model, Params: r.s.Params}
	var in []*Bid
	running := map[string]bool{}                          // leases
	hosts, yields := map[string]bool{}, map[string]bool{} // yields: leases
	for _, h := range supply {
		hosts[h.HostID] = true
	}
	for _, b := range r.bids {
		// A silent host's lease is neither charged nor told anything; it is left
		// alone until the host is back.
		if b.State.Runs() && hosts[b.HostID] && leases[b.LeaseID].State != lease.Unreachable {
			running[b.LeaseID] = true
		}
	}
	onDemand, last := median(supply), auction.Price(0)
	for _, s := range r.before {
		last = max(last, s.Price)
	}
	var closed []auction.Avoid // to who does not run there
	minimum := map[string]int{}
	most := 0
	for _, h := range supply {
		a := auction.Host{ID: h.HostID, GPUs: h.Free, Floor: h.Floor.Floor(onDemand, last, m.Params.Tick)}
		for id, n := range h.Leases {
			a.GPUs += n
			if running[id] {
				n = h.Claimed[id] // the rest of it is left to bids
				yields[id] = yields[id] || n > 0
			}
			a.OnDemand += n
		}
		if !h.Open {
			closed = append(closed, auction.Avoid{Host: h.HostID, Until: r.now.Add(time.Hour)})
		}
		minimum[h.HostID] = h.MinGPUs
		most = max(most, a.GPUs)
		r.floors[h.HostID] = a.Floor
		m.Hosts = append(m.Hosts, a)
	}
	for n := 1; n <= most; n *= 2 {
		m.Sizes = append(m.Sizes, n)
	}
	for _, b := range r.bids {
		a := auction.Bid{ID: b.ID, Account: b.AccountID, GPUs: b.GPUs, Price: b.Price, Max: b.Max, PlacedAt: b.PlacedAt, CoolUntil: b.CoolUntil}
		a.Avoid = append(slices.Clone(b.avoid), closed...)
		for _, h := range supply {
			if h.MinGPUs > b.GPUs {
				a.Avoid = append(a.Avoid, auction.Avoid{Host: h.HostID, Until: r.now.Add(time.Hour)})
			}
		}
		l := leases[b.LeaseID]
		switch {
		case b.State == Waiting:
		case b.State == Interrupted:
			a.Hosts = []string{b.HostID} // its disk is there
		case running[b.LeaseID]:
			a.Run = &auction.Run{Host: b.HostID, Since: b.Since, Floor: b.floor, Price: b.Paid, LeaveAt: b.LeaveAt, Yields: yields[b.LeaseID]}
			a.Avoid = nil
			if l.EverRan {
				a.Hosts = []string{b.HostID}
			}
			if b.State == Leaving {
				// It cannot come back before it is gone, and must not keep others away.
				a.Price, a.Max = m.Params.Tick, 0
			}
		default:
			continue
		}
		m.Bids = append(m.Bids, a)
		in = append(in, b)
	}
	return m, in
}

// median is the median price on demand per GPU, weighted by nothing.
func median(supply []fleet.Supply) auction.Price {
	var prices []money.Rate
	for _, h := range supply {
		prices = append(prices, h.PerGPUHour)
	}
	if len(prices) == 0 {
		return 0
	}
	slices.Sort(prices)
	return auction.Price(prices[(len(prices)-1)/2])
}

// carryOut does what was decided about a bid. Price is what its good costs now.
func (r *round) carryOut(ctx context.Context, tx *store.Tx, b *Bid, d auction.Decision, price auction.Price) error {
	s := r.s
	do := func(act func(context.Context), err error) error {
		if err == nil {
			r.after = append(r.after, act)
		}
		return err
	}
	switch d.Action {
	case auction.Reprieve:
		if b.State == Noticed {
			if err := do(s.Leases.SpotReprieve(ctx, tx, b.LeaseID)); err != nil {
				return err
			}
			if err := b.move(Reprieve, "", "", r.now); err != nil {
				return err
			}
			b.LeaveAt = time.Time{}
		}
	case auction.Notify:
		if b.State == Placed {
			if err := do(s.Leases.SpotNotice(ctx, tx, b.LeaseID, string(d.Reason), d.At)); err != nil {
				return err
			}
			if err := b.move(Notice, string(d.Reason), "", r.now); err != nil {
				return err
			}
			b.LeaveAt = d.At
		}
	case auction.Interrupt:
		if b.State == Placed || b.State == Noticed {
			if err := do(s.Leases.SpotInterrupt(ctx, tx, b.LeaseID, string(d.Reason))); err != nil {
				return err
			}
			if err := b.move(Interrupt, string(d.Reason), "", r.now); err != nil {
				return err
			}
			b.CoolUntil = d.At
		}
	case auction.Start:
		return r.start(ctx, tx, b, d.Host, price)
	case auction.Await, auction.Wait:
		code := string(d.Reason)
		if d.Action == auction.Await {
			code = "await"
		}
		_, refused := r.refused[b.ID]
		// Why it could not be placed says more, as long as it keeps it away.
		known := refused || d.Reason == auction.Cooling && slices.Contains(accountFaults, b.Code) || d.Reason == auction.NoHost && len(b.avoid) > 0 && b.Message != ""
		if b.Code != code && !known {
			b.Code, b.Message, b.changed = code, "", true
		}
		return nil
	}
	return r.setPrice(ctx, tx, b, price)
}

// setPrice charges a bid that runs the price of now.
func (r *round) setPrice(ctx context.Context, tx *store.Tx, b *Bid, price auction.Price) error {
	if b.Paid == price {
		return nil
	}
	rate, err := price.Bundle(b.GPUs)
	if err != nil {
		return err
	}
	b.Paid, b.changed = price, true
	return r.s.Money.SetRate(ctx, tx, b.LeaseID, rate, r.now)
}

// start gives a bid the place that it won.
func (r *round) start(ctx context.Context, tx *store.Tx, b *Bid, host string, price auction.Price) error {
	refuse := func(err error) error {
		if _, ok := fault.As(err); ok && !isCode(err, "lease_state") {
			return refusal{b.ID, host, err}
		}
		return err
	}
	if b.State == Interrupted {
		act, err := r.s.Leases.SpotResume(ctx, tx, b.LeaseID)
		if err != nil {
			return refuse(err)
		}
		r.after = append(r.after, act)
	} else {
		rate, err := price.Bundle(b.GPUs)
		if err != nil {
			return err
		}
		most, err := b.limit().Bundle(b.GPUs)
		if err != nil {
			return err
		}
		want := place{offer: fleet.OfferID(host, r.key.Model, b.GPUs), rate: rate, bid: most}
		b.HostID = host
		ready, ok := r.prepared[b.ID]
		if !ok || ready.place != want {
			r.wanted[b.ID] = want
			return nil
		}
		l, err := ready.placement.Accept(ctx, tx)
		if err != nil {
			return refuse(err)
		}
		r.after = append(r.after, ready.placement.Announce)
		b.LeaseID = l.ID
	}
	fresh := b.State == Waiting
	if err := b.move(Place, "", "", r.now); err != nil {
		return err
	}
	b.Since, b.floor, b.LeaveAt, b.CoolUntil = r.now, r.floors[host], time.Time{}, time.Time{}
	if fresh {
		b.Paid = price // as in its quote
		return nil
	}
	return r.setPrice(ctx, tx, b, price)
}
