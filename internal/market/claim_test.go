package market_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/market"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// rent is a lease on demand of so many GPUs of a host.
func (w *world) rent(ctx context.Context, p account.Principal, h *host, gpus int) (*lease.Lease, error) {
	q, err := w.leases.Price(w.ctx, p, lease.QuoteRequest{OfferID: fleet.OfferID(h.id, "RTX 4090", gpus), Image: "debian:12", DiskGiB: 10}, "UTC")
	if err != nil {
		return nil, err
	}
	return w.leases.Accept(ctx, p, lease.Create{QuoteID: q.ID})
}

func (w *world) wantLease(id string, s lease.State) *lease.Lease {
	w.t.Helper()
	l, err := w.leases.Get(w.ctx, w.operator, id)
	w.check(err)
	if l.State != s {
		w.t.Fatalf("lease %s is %s (%s: %s), want %s", id, l.State, l.Code, l.Message, s)
	}
	return l
}

func TestALeaseOnDemandGetsTheGPUsOfTheSpotMarketAfterTheirNoticeAndPaysNothingBefore(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, db)
		h := w.join(2, "0.40")
		ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
		old := w.bid(ada, 1, "0.80")
		w.turn()
		w.pass(time.Minute)
		young := w.bid(ada, 1, "0.80")
		w.turn()
		w.want(young, market.Placed, lease.Running)
		offer, err := w.fleet.Offer(w.ctx, fleet.OfferID(h.id, "RTX 4090", 1), 0, "UTC")
		if err != nil || offer.AvailableAfterSeconds != 120 {
			t.Fatalf("GPUs that the spot market has are offered after %d s (%v), want 120", offer.AvailableAfterSeconds, err)
		}
		// In its minimum run, too: for its notice it runs on all the same.
		l, err := w.rent(w.ctx, ben, h, 1)
		w.check(err)
		if wait := l.WaitsUntil.Sub(w.clock()).Round(time.Second); l.State != lease.Accepted || wait != 2*time.Minute {
			t.Fatalf("the lease is %s and waits %s, want accepted and two minutes", l.State, wait)
		}
		w.turn()
		w.want(old, market.Placed, lease.Running)
		w.want(young, market.Noticed, lease.Running)
		if b := w.get(young); b.Code != "on_demand" {
			t.Errorf("the notice's reason is %s, want on_demand", b.Code)
		}
		if s := w.lease(young); s.InterruptReason != "on_demand" || s.InterruptAt.IsZero() {
			t.Errorf("the lease says that it is interrupted at %s for %q", s.InterruptAt, s.InterruptReason)
		}
		history, err := w.leases.History(w.ctx, w.operator, w.get(young).LeaseID)
		w.check(err)
		if last := history[len(history)-1]; last.Event != lease.Notice || last.Code != "on_demand" || !strings.Contains(last.Message, "a higher bid does not help") {
			t.Errorf("the notice is %+v", last)
		}
		// A higher bid changes nothing.
		up := price(t, "5")
		_, err = w.Change(w.ctx, ada, young, market.Change{Price: &up})
		w.check(err)
		w.turn()
		w.want(young, market.Noticed, lease.Running)
		down := price(t, "0.80")
		_, err = w.Change(w.ctx, ada, young, market.Change{Price: &down})
		w.check(err)
		w.pass(110 * time.Second)
		w.want(young, market.Noticed, lease.Running)
		w.wantLease(l.ID, lease.Accepted)
		w.pass(15 * time.Second)
		w.want(young, market.Interrupted, lease.Interrupted)
		w.want(old, market.Placed, lease.Running)
		running := w.wantLease(l.ID, lease.Running)
		if !running.WaitsUntil.IsZero() || len(running.GPUs) != 1 {
			t.Errorf("it runs on %v and waits until %s", running.GPUs, running.WaitsUntil)
		}
		w.pass(time.Minute)
		// A dollar an hour, for a minute and the seconds since the host began.
		if c := w.compute(l.ID); c > amount(t, "0.025") {
			t.Errorf("after a minute of running the lease cost %s: it paid for its wait", c)
		}
		_, err = w.leases.End(w.ctx, ben, l.ID)
		w.check(err)
		w.pass(10 * time.Second)
		w.want(young, market.Placed, lease.Running)
		w.right()
	})
}

func TestAClaimThatIsGivenUpCostsNothingAndTheSpotLeaseKeepsItsPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2, "0.40")
	ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
	bid := w.bid(ada, 2, "0.80")
	w.turn()
	w.pass(time.Minute)
	l, err := w.rent(w.ctx, ben, h, 1)
	w.check(err)
	// The other GPU of the lease that leaves is promised next, to one and no other.
	second, err := w.rent(w.ctx, ben, h, 1)
	w.check(err)
	if _, err := w.rent(w.ctx, ben, h, 1); err == nil {
		t.Fatal("three leases were promised two GPUs")
	}
	w.turn()
	w.want(bid, market.Noticed, lease.Running)
	for _, id := range []string{l.ID, second.ID} {
		_, err := w.leases.End(w.ctx, ben, id)
		w.check(err)
		w.wantLease(id, lease.Ended)
	}
	w.turn()
	w.want(bid, market.Placed, lease.Running)
	w.pass(5 * time.Minute)
	w.want(bid, market.Placed, lease.Running)
	if c := w.compute(l.ID) + w.compute(second.ID); c != 0 {
		t.Errorf("leases that waited only cost %s", c)
	}
	w.right()
}

func TestTheLeasesThatMakeRoomAreTheCheapest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(8, "0.40")
	ada, ben := w.tenant("ada", "1000"), w.tenant("ben", "1000")
	four, two, one := w.bid(ada, 4, "1.00"), w.bid(ada, 2, "1.00"), w.bid(ada, 1, "1.00")
	w.turn()
	w.pass(time.Minute)
	// One is free: of four, two and one, the smallest set with three is two and one.
	l, err := w.rent(w.ctx, ben, h, 4)
	w.check(err)
	w.turn()
	w.want(four, market.Placed, lease.Running)
	w.want(two, market.Noticed, lease.Running)
	w.want(one, market.Noticed, lease.Running)
	w.pass(130 * time.Second)
	w.wantLease(l.ID, lease.Running)
	w.want(four, market.Placed, lease.Running)
	w.right()
}

func TestALeaseWaitsForASilentHostNoLongerThanItsPatience(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1, "0.40")
	ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
	bid := w.bid(ada, 1, "0.80")
	w.turn()
	l, err := w.rent(w.ctx, ben, h, 1)
	w.check(err)
	h.mu.Lock()
	h.dark = true
	h.mu.Unlock()
	w.pass(10 * time.Minute)
	w.wantLease(l.ID, lease.Accepted)
	w.pass(10 * time.Minute)
	if over := w.wantLease(l.ID, lease.Ended); over.Code != "host_unreachable" || w.compute(l.ID) != 0 {
		t.Errorf("it ended with %s and cost %s, want host_unreachable and nothing", over.Code, w.compute(l.ID))
	}
	h.mu.Lock()
	h.dark = false
	h.mu.Unlock()
	w.pass(30 * time.Second)
	w.want(bid, market.Placed, lease.Running)
	w.right()
}

func TestAClaimThatCrashesAtAnyStatementIsWholeOrNotThere(t *testing.T) {
	t.Parallel()
	crashed := 0
	for at := 1; ; at++ {
		w := newWorld(t)
		h := w.join(1, "0.40")
		ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
		bid := w.bid(ada, 1, "0.80")
		w.turn()
		w.want(bid, market.Placed, lease.Running)
		ctx, crash := context.WithCancelCause(w.ctx)
		n := 0
		l, err := w.rent(store.Observe(ctx, func(string) {
			if n++; n == at {
				crash(errors.New("crash"))
			}
		}), ben, h, 1)
		w.open(false)
		w.pass(130 * time.Second)
		if err != nil {
			crashed++
			w.want(bid, market.Placed, lease.Running)
			if _, err := w.rent(w.ctx, ben, h, 1); err != nil {
				t.Fatalf("after a crash at statement %d nobody can have the GPU: %v", at, err)
			}
		} else {
			w.want(bid, market.Interrupted, lease.Interrupted)
			w.wantLease(l.ID, lease.Running)
		}
		w.right()
		crash(nil)
		if n < at {
			break // it ran to its end
		}
	}
	if crashed < 10 {
		t.Errorf("only %d statements crashed", crashed)
	}
}

// oracle is what the database says of who has and who waits for which GPU.
func (w *world) oracle() (have, wait map[string]string) {
	w.t.Helper()
	have, wait = map[string]string{}, map[string]string{}
	w.check(w.db.View(w.ctx, func(ctx context.Context, tx *store.Tx) error {
		for into, query := range map[*map[string]string]string{&have: `SELECT gpu_uuid, lease_id FROM fleet_allocations`, &wait: `SELECT gpu_uuid, lease_id FROM fleet_claims`} {
			rows, err := tx.Query(ctx, query)
			if err != nil {
				return err
			}
			for rows.Next() {
				var gpu, id string
				if err := rows.Scan(&gpu, &id); err != nil {
					return err
				}
				(*into)[gpu] = id
			}
			if err := rows.Close(); err != nil {
				return err
			}
		}
		return nil
	}))
	return have, wait
}

// onGPUs fails if two instances that run on hosts have the same GPU.
func (w *world) onGPUs(leases map[string]*lease.Lease) {
	w.t.Helper()
	on := map[string]string{}
	for _, h := range w.hosts {
		h.mu.Lock()
		for id, i := range h.instances {
			l := leases[id]
			if l == nil || i.Phase == "stopped" || i.Phase == "absent" {
				continue
			}
			for _, g := range l.GPUs {
				if on[g] != "" {
					w.t.Errorf("GPU %s has the instances of %s and %s", g, on[g], id)
				}
				on[g] = id
			}
		}
		h.mu.Unlock()
	}
}

// Whatever renters and bidders do, no GPU has two leases or two that wait for it,
// and nobody on demand is refused while free GPUs and those of spot leases are
// enough on the host.
func TestOnDemandIsNeverRefusedWhileTheSpotMarketHasEnoughAndNoGPUIsGivenTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 11))
			w := newWorld(t)
			for range 1 + r.IntN(3) {
				w.join(1+r.IntN(4), []string{"0.10", "0.40"}[r.IntN(2)])
			}
			ada, ben := w.tenant("ada", "10000"), w.tenant("ben", "10000")
			var bids, rented []string
			granted := 0
			for range 60 {
				switch r.IntN(8) {
				case 0, 1:
					bids = append(bids, w.bid(ada, 1+r.IntN(3), []string{"0.50", "0.80", "1.20"}[r.IntN(3)]))
				case 2, 3:
					h := w.hosts[r.IntN(len(w.hosts))]
					n := 1 + r.IntN(len(h.gpus))
					have, wait := w.oracle()
					open := 0
					for _, g := range h.gpus {
						l, ok := lease.Lease{}, have[g.UUID] == ""
						if !ok {
							found, err := w.leases.Get(w.ctx, w.operator, have[g.UUID])
							w.check(err)
							l, ok = *found, found.BidID != ""
						}
						if ok && wait[g.UUID] == "" && l.State != lease.Unreachable {
							open++
						}
					}
					l, err := w.rent(w.ctx, ben, h, n)
					if err != nil && open >= n {
						t.Fatalf("%d GPUs were refused with %d free or claimable: %v", n, open, err)
					}
					if err == nil {
						if open < n {
							t.Fatalf("%d GPUs were given away with %d free or claimable", n, open)
						}
						rented = append(rented, l.ID)
						granted++
					} else if f, ok := fault.As(err); !ok || f.Code != "offer_gone" && f.Code != "offer_taken" {
						t.Fatal(err)
					}
				case 4:
					if len(rented) > 0 {
						i := r.IntN(len(rented))
						_, err := w.leases.End(w.ctx, ben, rented[i])
						w.check(err)
						rented = append(rented[:i], rented[i+1:]...)
					}
				case 5:
					if len(bids) > 0 {
						i := r.IntN(len(bids))
						_, err := w.Cancel(w.ctx, ada, bids[i])
						w.check(err)
						bids = append(bids[:i], bids[i+1:]...)
					}
				case 6:
					w.open(false)
				case 7:
					w.pass(time.Duration(5+r.IntN(80)) * time.Second)
				}
				w.turn()
				have, wait := w.oracle()
				leases := map[string]*lease.Lease{}
				for _, id := range have {
					l, err := w.leases.Get(w.ctx, w.operator, id)
					w.check(err)
					leases[id] = l
				}
				for gpu, id := range wait {
					if have[gpu] == id {
						t.Errorf("lease %s has GPU %s and waits for it", id, gpu)
					}
					w.wantLease(id, lease.Accepted)
				}
				w.onGPUs(leases)
				w.right()
			}
			w.pass(4 * time.Minute)
			for _, id := range rented {
				w.wantLease(id, lease.Running)
			}
			w.right()
			t.Logf("%d of the rents were granted", granted)
		})
	}
}

func TestASpotLeaseOfBeforeClaimsMakesRoomAfterTheMigration(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, db)
		h := w.join(1, "0.40")
		ada, ben := w.tenant("ada", "100"), w.tenant("ben", "100")
		spot := w.bid(ada, 1, "0.80")
		w.turn()
		w.want(spot, market.Placed, lease.Running)
		w.check(db.Update(w.ctx, func(ctx context.Context, tx *store.Tx) error {
			for _, q := range []string{"UPDATE fleet_reservations SET spot = 0", "DELETE FROM schema_market WHERE version_id = 51"} {
				if _, err := tx.Exec(ctx, q); err != nil {
					return err
				}
			}
			return nil
		}))
		w.check(w.Migrate(w.ctx))
		w.check(w.fleet.Load(w.ctx))
		w.report(w.host(h.id))
		l, err := w.rent(w.ctx, ben, h, 1)
		w.check(err)
		if l.State != lease.Accepted || l.WaitsUntil.IsZero() {
			t.Fatalf("the lease on demand is %s and waits until %s", l.State, l.WaitsUntil)
		}
		w.turn()
		w.want(spot, market.Noticed, lease.Running)
	})
}
