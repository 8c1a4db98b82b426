package market_test

import (
	"context"
	"errors"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// One GPU, floor 0.40. Ada bids 0.80 and runs at the floor. Ben bids 1.00: Ada
// has her notice of two minutes, at the price that she agreed to, is interrupted,
// and Ben runs at a tick above her bid. When he leaves she resumes on the disk
// that she had. Every second of both is charged at the price that it had.
func TestAHigherBidInterruptsALowerOneWhichResumesAndBothPayThePrice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, db)
		h := w.join(1, "0.40")
		ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
		low := w.bid(ada, 1, "0.80")
		w.turn()
		w.want(low, market.Placed, lease.Running)
		first := w.lease(low)
		if first.Price.Bid != rate(t, "0.80") || first.Price.Plan != "spot" || !first.Simulated || first.BidID != low {
			t.Fatalf("the lease's quote is %+v (simulated %v), want a spot quote with the bid of 0.80", first.Price, first.Simulated)
		}
		w.pass(10 * time.Minute)
		// 600 s at 0.40.
		if c := w.compute(first.ID); c.String() != "0.066667" {
			t.Errorf("ten minutes alone cost %s, want 0.40/6", c)
		}
		high := w.bid(ben, 1, "1.00")
		w.turn()
		w.want(low, market.Noticed, lease.Running)
		w.want(high, market.Waiting, "")
		if b := w.get(low); b.Paid != price(t, "0.80") || b.LeaveAt.Sub(w.clock()).Round(time.Second) != 2*time.Minute || b.Code != "outbid" {
			t.Errorf("on notice it pays %s and leaves at %s (%s), want 0.80 and two minutes from now", b.Paid.Display(), b.LeaveAt, b.Code)
		}
		if l := w.lease(low); l.InterruptAt.IsZero() {
			t.Error("the lease does not say when it is interrupted")
		}
		w.pass(115 * time.Second)
		w.want(low, market.Noticed, lease.Running)
		w.pass(10 * time.Second)
		w.want(low, market.Interrupted, lease.Interrupted)
		w.want(high, market.Placed, lease.Running)
		cost := w.compute(first.ID)
		// 600 s at 0.40 and 120 s of notice at 0.80, give or take the second in which the
		// price changed and the beat in which the host
		// confirmed the stop.
		if least, most := amount(t, "0.093200"), amount(t, "0.094445"); cost < least || cost > most {
			t.Errorf("the first run cost %s, want %s to %s", cost, least, most)
		}
		w.pass(5 * time.Minute)
		w.want(low, market.Interrupted, lease.Interrupted)
		if c := w.compute(first.ID); c != cost {
			t.Errorf("while it waits its compute grew from %s to %s", cost, c)
		}
		if b := w.get(high); b.Paid != price(t, "0.8001") {
			t.Errorf("the winner pays %s, want a tick above the best bid that lost", b.Paid.Display())
		}
		second := w.lease(high)
		if _, err := w.Cancel(w.ctx, ben, high); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		w.want(high, market.Cancelled, lease.Ended)
		w.want(low, market.Placed, lease.Running)
		if again := w.lease(low); again.ID != first.ID || again.HostID != h.id {
			t.Errorf("it resumed as %s on %s, want the lease that has its disk", again.ID, again.HostID)
		}
		w.pass(10 * time.Minute)
		if _, err := w.Cancel(w.ctx, ada, low); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		w.want(low, market.Cancelled, lease.Ended)
		for _, id := range []string{first.ID, second.ID} {
			w.billIsHistory(id)
		}
		w.right()
	})
}

// billIsHistory fails unless a lease's compute costs what the public price history
// says of the seconds that it ran.
func (w *world) billIsHistory(leaseID string) {
	w.t.Helper()
	bill, err := w.billing.Due(w.ctx, leaseID, w.clock())
	w.check(err)
	history, err := w.History(w.ctx, market.Span{Model: "RTX 4090", From: w.clock().Add(-24 * time.Hour)})
	w.check(err)
	// Each whole second costs what the history says of the moment in which it began.
	var sum, runs int64
	var start, end time.Time
	count := func() {
		for at := start; !at.Add(time.Second).After(end); at = at.Add(time.Second) {
			n := sort.Search(len(history.Steps), func(i int) bool { return history.Steps[i].At.After(at) })
			sum += int64(history.Steps[n-1].Price)
		}
	}
	for _, l := range bill.Lines {
		if l.Meter != pricing.Compute {
			continue
		}
		if !l.Start.Equal(end) {
			count()
			start = l.Start
			runs++
		}
		end = l.End
	}
	count()
	// In micro-units, half a unit up or down.
	if got := int64(w.compute(leaseID)) * 3600 * 1000; runs == 0 || got-sum > 1800_000 || sum-got > 1800_000 {
		w.t.Errorf("lease %s cost %s in %d runs, the price history says %s", leaseID, w.compute(leaseID), runs, money.Amount(sum/3600_000))
	}
	if bill.Unbilled != 0 {
		w.t.Errorf("lease %s has %s unbilled", leaseID, bill.Unbilled)
	}
}

// A bid of 1.00 for four GPUs is 1.00 for each of them: 4.00 an hour, and not
// four times that.
func TestABidIsPerGPUAndHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(4, "1.00")
	ada := w.tenant("ada", "100")
	id := w.bid(ada, 4, "1.00")
	w.turn()
	w.want(id, market.Placed, lease.Running)
	l := w.lease(id)
	if l.Price.Tariff.Compute != rate(t, "4") || l.Price.Bid != rate(t, "4") || w.get(id).Paid != price(t, "1") {
		t.Errorf("four GPUs cost %s an hour with a bid of %s, and %s for each: want 4.00, 4.00 and 1.00",
			l.Price.Tariff.Compute.Display(), l.Price.Bid.Display(), w.get(id).Paid.Display())
	}
	w.pass(time.Hour)
	if c := w.compute(l.ID); c.String() != "4.000000" {
		t.Errorf("an hour of four GPUs costs %s, want 4.00", c)
	}
}

func TestABidThatIsTooLowWaitsOutbidAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1, "0.40")
	ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
	high := w.bid(ada, 1, "1.00")
	w.turn()
	low := w.bid(ben, 1, "0.50")
	under := w.bid(ben, 1, "0.10")
	w.turn() // one round
	w.want(high, market.Placed, lease.Running)
	w.want(low, market.Waiting, "")
	w.want(under, market.Waiting, "")
	if a, b := w.get(low).Code, w.get(under).Code; a != "outbid" || b != "below_floor" {
		t.Errorf("they wait for %q and %q, want outbid and below_floor", a, b)
	}
	w.pass(10 * time.Minute)
	list, _, err := w.leases.List(w.ctx, ben, lease.Filter{}, "", 10)
	if err != nil || len(list) != 0 || len(h.instances) != 1 {
		t.Errorf("the account has %d leases and the host %d instances (%v), want none and one", len(list), len(h.instances), err)
	}
	b, err := w.billing.Balance(w.ctx, ben.AccountID)
	if err != nil || b.Available.String() != "100.000000" || b.Held != 0 {
		t.Errorf("waiting cost something: %+v, %v", b, err)
	}
}

// A bid that loses its place before its instance ever ran is not its renter's
// failure: it goes elsewhere, and not to the same host for a while.
func TestABidThatLosesItsPlaceInSetUpGoesToAnotherHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1, "0.40")
	h.slow = true
	ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
	low := w.bid(ada, 1, "0.80")
	w.turn()
	w.want(low, market.Placed, lease.Provisioning)
	first := w.lease(low)
	w.pass(time.Minute) // it may not be outbid before
	high := w.bid(ben, 1, "1.00")
	w.pass(150 * time.Second)
	w.want(high, market.Placed, lease.Provisioning)
	w.want(low, market.Waiting, "")
	if l, err := w.leases.Get(w.ctx, ada, first.ID); err != nil || l.State != lease.Ended {
		t.Fatalf("the lease that never ran is %v (%v), want ended", l.State, err)
	}
	if c, err := w.billing.Due(w.ctx, first.ID, w.clock()); err != nil || c.Total != 0 {
		t.Errorf("it cost %s (%v)", c.Total, err)
	}
	// The host is free again, but it is avoided; another one is not.
	if _, err := w.Cancel(w.ctx, ben, high); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Minute)
	w.want(low, market.Waiting, "")
	other := w.join(1, "0.40")
	w.pass(10 * time.Second)
	w.want(low, market.Placed, lease.Running)
	if l := w.lease(low); l.HostID != other.id {
		t.Errorf("it runs on %s, want the other host", l.HostID)
	}
	w.right()
}

// The slot of an interrupted lease counts against its account's quota no more
// from the moment on in which its GPUs are free, and a maximum holds whatever the
// bid and the price become.
func TestAnInterruptedLeaseFreesItsQuotaAndAMaximumHolds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1, "0.40")
	ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
	low := w.bid(ada, 1, "5.00", func(c *market.Create) { c.Max = price(t, "0.60") })
	w.turn()
	w.pass(time.Minute) // it is not outbid before
	high := w.bid(ben, 1, "0.70")
	w.turn()
	w.want(low, market.Noticed, lease.Running)
	if b := w.get(low); b.Paid > price(t, "0.60") {
		t.Errorf("it pays %s with a maximum of 0.60", b.Paid.Display())
	}
	w.pass(130 * time.Second)
	w.want(low, market.Interrupted, lease.Interrupted)
	if l := w.lease(low); len(l.GPUs) != 0 {
		t.Errorf("an interrupted lease has the GPUs %v", l.GPUs)
	}
	limit := 1
	if _, err := w.accounts.UpdateAccount(w.ctx, w.operator, ada.AccountID, account.UpdateAccount{MaxGPUs: &limit}); err != nil {
		t.Fatal(err)
	}
	w.join(1, "0.40")
	again := w.bid(ada, 1, "0.65")
	w.pass(10 * time.Second)
	w.want(again, market.Placed, lease.Running)
	w.want(high, market.Placed, lease.Running)
	w.right()
}

func amount(t *testing.T, s string) money.Amount {
	t.Helper()
	a, err := money.ParseAmount(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var errCrash = errors.New("crash before the commit")

// crashing is money that fails after everything else of a round was written.
type crashing struct {
	market.Money
	at *int
}

func (c crashing) SetRate(ctx context.Context, tx *store.Tx, id string, r money.Rate, at time.Time) error {
	if *c.at--; *c.at == 0 {
		return errCrash
	}
	return c.Money.SetRate(ctx, tx, id, r, at)
}

func TestARoundThatCrashesLeavesTheMarketAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, "0.40")
	ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
	a, b := w.bid(ada, 1, "0.80"), w.bid(ada, 1, "0.70")
	w.turn()
	w.pass(time.Minute) // nobody is outbid before
	crash := 1
	broken := w.replica(func(c *market.Config) { c.Money = crashing{w.billing, &crash} })
	c := w.bid(ben, 1, "0.90")
	if err := broken.Turn(w.ctx); !errors.Is(err, errCrash) {
		t.Fatalf("the round ends with %v, want a crash", err)
	}
	w.want(a, market.Placed, lease.Running)
	w.want(b, market.Placed, lease.Running)
	w.want(c, market.Waiting, "")
	if l := w.lease(b); !l.InterruptAt.IsZero() {
		t.Error("a notice of a round that was undone stands")
	}
	w.pass(150 * time.Second)
	w.want(a, market.Placed, lease.Running)
	w.want(b, market.Interrupted, lease.Interrupted)
	w.want(c, market.Placed, lease.Running)
	w.right()
}

func TestReplicasThatHoldRoundsAtOnceStartEachBidOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, db)
		w.join(4, "0.40")
		ada := w.tenant("ada", "1000")
		var bids []string
		for range 6 {
			bids = append(bids, w.bid(ada, 1, "0.80"))
		}
		var all sync.WaitGroup
		for range 4 {
			s := w.replica()
			all.Go(func() {
				if err := s.Turn(w.ctx); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		w.turn()
		running := 0
		for _, id := range bids {
			if w.get(id).State == market.Placed {
				w.want(id, market.Placed, lease.Running)
				running++
			}
		}
		list, _, err := w.leases.List(w.ctx, ada, lease.Filter{}, "", 100)
		if err != nil || running != 4 || len(list) != 4 {
			t.Errorf("%d bids run in %d leases (%v), want 4 in 4", running, len(list), err)
		}
		w.right()
	})
}

func TestTheRenterStopsAndStartsASpotLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1, "0.40")
	ada := w.tenant("ada", "100")
	id := w.bid(ada, 1, "0.80")
	w.turn()
	l := w.lease(id)
	if _, err := w.leases.Stop(w.ctx, ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(10 * time.Second)
	w.want(id, market.Paused, lease.Stopped)
	w.pass(time.Minute)
	w.want(id, market.Paused, lease.Stopped)
	if _, err := w.leases.Start(w.ctx, ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(10 * time.Second)
	w.want(id, market.Placed, lease.Running)
	if _, err := w.leases.End(w.ctx, ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(10 * time.Second)
	w.want(id, market.Over, lease.Ended)
	_, err := w.Change(w.ctx, ada, id, market.Change{})
	wantCode(t, err, "bid_state")
	w.right()
}

func TestABidWithoutMoneySaysSoAndStartsWhenThereIsSome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1, "0.40")
	ada := w.tenant("ada", "0.50")
	id := w.bid(ada, 1, "0.80") // an hour at the bid is set aside
	w.pass(10 * time.Second)
	w.want(id, market.Waiting, "")
	if b := w.get(id); b.Code != "insufficient_balance" || b.Message == "" {
		t.Errorf("it waits for %q (%s), want insufficient_balance", b.Code, b.Message)
	}
	lower := price(t, "0.45")
	if _, err := w.Change(w.ctx, ada, id, market.Change{Price: &lower}); err != nil {
		t.Fatal(err)
	}
	w.pass(70 * time.Second)
	w.want(id, market.Placed, lease.Running)
	higher := price(t, "2")
	_, err := w.Change(w.ctx, ada, id, market.Change{Price: &higher})
	wantCode(t, err, "insufficient_balance")
	w.right()
}

func TestASilentHostsBidIsLeftAloneUntilTheHostIsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1, "0.40")
	w.join(1, "0.40") // so that most hosts are not silent at once
	w.join(1, "0.40")
	ada := w.tenant("ada", "100")
	id := w.bid(ada, 1, "0.80")
	w.turn()
	if l := w.lease(id); l.HostID != h.id {
		h = w.host(l.HostID)
	}
	h.mu.Lock()
	h.dark = true
	h.mu.Unlock()
	w.pass(2 * time.Minute)
	w.want(id, market.Placed, lease.Unreachable)
	cost := w.compute(w.lease(id).ID)
	w.pass(time.Minute)
	if c := w.compute(w.lease(id).ID); c != cost {
		t.Errorf("in the dark its cost grew from %s to %s", cost, c)
	}
	h.mu.Lock()
	h.dark = false
	h.mu.Unlock()
	w.pass(10 * time.Second)
	w.want(id, market.Placed, lease.Running)
	w.right()
}

func TestTheMarketShowsPricesAndAdviceWithoutNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(2, "0.40")
	ada := w.tenant("ada", "100")
	w.pass(time.Hour)
	w.bid(ada, 1, "0.80")
	w.pass(time.Hour)
	all, err := w.Overviews(w.ctx, "", "rtx 4090")
	if err != nil || len(all) != 1 {
		t.Fatalf("there are %d markets (%v), want one", len(all), err)
	}
	o := all[0]
	if !o.Market.Simulated || len(o.Goods) != 2 || o.Goods[0].Price != price(t, "0.40") || o.Goods[0].Ask != price(t, "0.40") || o.Goods[0].Marginal != "" || o.Goods[1].Price != 0 {
		t.Errorf("the market is %+v", o)
	}
	if len(o.Depth) != 2 || o.Depth[0].Supply != 2 || o.Depth[0].Demand != 1 {
		t.Errorf("its depth is %+v, want two GPUs at 0.40 and one bid for", o.Depth)
	}
	h, err := w.History(w.ctx, market.Span{Model: "RTX 4090", From: w.clock().Add(-2 * time.Hour)})
	if err != nil || h.Spread.P50 != price(t, "0.40") || len(h.Steps) != 2 {
		t.Errorf("its history is %+v (%v), want an ask of 0.40 and then a price", h, err)
	}
	a, err := w.Advise(w.ctx, market.Span{Model: "RTX 4090", From: w.clock().Add(-2 * time.Hour)}, 0, 9000, 0)
	if err != nil || !a.Suggested || a.Bid != price(t, "0.40") {
		t.Errorf("the advice is %+v (%v), want a bid of 0.40", a.Advice, err)
	}
	_, err = w.Advise(w.ctx, market.Span{Model: "RTX 4090"}, 0, 0, 0)
	wantCode(t, err, "bad_share")
	_, err = w.History(w.ctx, market.Span{Model: "B200"})
	wantCode(t, err, "market_not_found")
}

func TestABidThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1, "0.40")
	ada, eve := w.tenant("ada", "100"), w.tenant("eve", "100")
	for code, c := range map[string]market.Create{
		"invalid_bid":      {Model: "RTX 4090", GPUs: 1, Price: 1, Wish: lease.SpotWish{Image: "debian:12"}},
		"market_not_found": {Model: "RTX 4090", Zone: "elsewhere", GPUs: 1, Price: price(t, "1"), Wish: lease.SpotWish{Image: "debian:12"}},
		"missing_image":    {Model: "RTX 4090", GPUs: 1, Price: price(t, "1")},
		"invalid_name":     {Model: "RTX 4090", GPUs: 1, Price: price(t, "1"), Name: "No!", Wish: lease.SpotWish{Image: "debian:12"}},
	} {
		_, err := w.Create(w.ctx, ada, c)
		wantCode(t, err, code)
	}
	_, err := w.Create(w.ctx, ada, market.Create{Model: "RTX 4090", GPUs: 1, Price: price(t, "0.00001"), Wish: lease.SpotWish{Image: "debian:12"}})
	if err == nil || !strings.Contains(err.Error(), "0.00001 USD per GPU and hour is finer than the market counts") {
		t.Error(err)
	}
	id := w.bid(ada, 1, "1")
	_, err = w.Get(w.ctx, eve, id)
	wantCode(t, err, "bid_not_found")
	_, err = w.Cancel(w.ctx, eve, id)
	wantCode(t, err, "bid_not_found")
	_, err = w.Change(w.ctx, eve, id, market.Change{})
	wantCode(t, err, "bid_not_found")
}
