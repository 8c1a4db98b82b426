package waiting

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

func TestARequestThatWaitsStartsWhenALeaseEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(1)
		l := w.rent(w.ada, 1, time.Time{})
		r := w.ask(w.eve, func(c *Create) { c.Run.Create.Name, c.Estimate = "train", 2*time.Hour })
		w.pass(time.Minute)
		r = w.want(r, Waiting, "no_room")
		if r.GPUModel != "RTX 4090" || r.Image != "debian:12" {
			t.Errorf("it is %+v", r)
		}
		d, err := w.Details(t.Context(), w.eve, "train")
		if err != nil || d.Position != 1 || d.Explanation == nil || d.Explanation.Fits {
			t.Errorf("it stands so: %+v (%v)", d, err)
		}
		// Nothing is charged or set aside while it waits.
		w.check(w.db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			held, err := w.books.Balance(ctx, tx, ledger.Hold(w.eve.AccountID), money.USD)
			if err == nil && held != 0 {
				err = fmt.Errorf("%s is held", held)
			}
			return err
		}))
		w.end(w.ada, l.ID)
		w.until("it has started", func() bool { return w.get(r).State == Started })
		r = w.want(r, Started, "")
		w.until("its lease runs", func() bool {
			l, err := w.leases.Get(t.Context(), w.eve, r.LeaseID)
			return err == nil && l.State == lease.Running
		})
		got, err := w.leases.Get(t.Context(), w.eve, r.LeaseID)
		if err != nil || got.Name != "train" || got.Price.Totals.PerHour > r.MaxPerHour || !got.Deadline.Equal(r.EndedAt.Add(2*time.Hour)) {
			t.Errorf("its lease is %+v (%v)", got, err)
		}
		if said := w.heard(r); !slices.Equal(said, []string{"started"}) {
			t.Errorf("its account heard %v", said)
		}
		if _, err := w.Cancel(t.Context(), w.eve, r.ID); err == nil {
			t.Error("it was cancelled although it has become a lease")
		}
		w.right()
	})
}

func TestReplicasThatLookAtOnceStartARequestOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(4)
		other := w.replica()
		var all []*Request
		for range 4 {
			all = append(all, w.ask(w.eve))
		}
		var both sync.WaitGroup
		for _, s := range []*Service{w.Service, other, w.Service, other} {
			both.Go(func() {
				if err := s.Turn(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		w.until("all have started", func() bool {
			return !slices.ContainsFunc(all, func(r *Request) bool { return w.get(r).State != Started })
		})
		if n := w.leasesOf(w.eve); n != 4 {
			t.Errorf("4 requests have become %d leases", n)
		}
		for _, r := range all {
			if said := w.heard(r); len(said) < 1 || slices.ContainsFunc(said, func(k string) bool { return k != "started" }) {
				t.Errorf("its account heard %v", said)
			}
		}
		w.right()
	})
}

func TestARequestIsNotStartedAboveItsPrice(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(1)
		r := w.ask(w.eve, func(c *Create) { c.MaxPerHour = 900_000 })
		other := w.ask(w.ada) // behind it, and not held up by it
		w.pass(10 * time.Second)
		w.want(r, Waiting, "price_above_max")
		w.want(other, Started, "")
		if n := w.leasesOf(w.eve); n != 0 || w.get(r).Failures != 0 {
			t.Errorf("%d leases were made for it, after %d failures", n, w.get(r).Failures)
		}
	})
}

func TestARequestExpiresAndItsAccountIsTold(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(1)
		w.rent(w.ada, 1, time.Time{})
		r := w.ask(w.eve, func(c *Create) { c.WaitFor = time.Minute })
		w.pass(50 * time.Second)
		w.want(r, Waiting, "no_room")
		w.pass(20 * time.Second)
		r = w.want(r, Expired, "no_room")
		if said := w.heard(r); !slices.Equal(said, []string{"expired"}) {
			t.Errorf("its account heard %v", said)
		}
		if got, err := w.Cancel(t.Context(), w.eve, r.ID); err != nil || got.State != Expired {
			t.Errorf("cancelled then, it is %v (%v)", got, err)
		}
	})
}

// Whichever of a cancel and a start is first, there is a lease or there is none, and
// both sides are told the same.
func TestACancelThatRacesWithTheStartLeavesALeaseOrNone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(8)
		for i := range 8 {
			r := w.ask(w.eve)
			var both sync.WaitGroup
			both.Go(func() {
				if err := w.Turn(t.Context()); err != nil {
					t.Error(err)
				}
			})
			_, err := w.Cancel(t.Context(), w.eve, r.ID)
			both.Wait()
			switch r = w.get(r); r.State {
			case Cancelled:
				if err != nil || r.LeaseID != "" {
					t.Errorf("round %d: it is cancelled with lease %q (%v)", i, r.LeaseID, err)
				}
			case Started:
				wantCode(t, err, "waiting_request_state")
				w.end(w.eve, r.LeaseID)
			default:
				t.Errorf("round %d: it is %s", i, r.State)
			}
		}
		w.until("nothing is left", func() bool { return w.leasesOf(w.eve) == 0 })
		w.right()
	})
}

func TestAnotherTenantSeesAndChangesNothingOfARequest(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		r := w.ask(w.ada, func(c *Create) { c.Run.Create.Name = "secret"; w.join(1).gpus = nil })
		for _, name := range []string{r.ID, "secret"} {
			_, err := w.Get(t.Context(), w.eve, name)
			wantCode(t, err, "waiting_request_not_found")
			_, err = w.Details(t.Context(), w.eve, name)
			wantCode(t, err, "waiting_request_not_found")
			_, err = w.Cancel(t.Context(), w.eve, name)
			wantCode(t, err, "waiting_request_not_found")
		}
		if list, _, err := w.List(t.Context(), w.eve, false, "", 10); err != nil || len(list) != 0 {
			t.Errorf("another tenant lists %v (%v)", list, err)
		}
	})
}

// KAI-Scheduler#2075: one that wins each time and cannot be started starves nobody.
func TestARequestThatCannotBeStartedHoldsUpNobody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(1)
		mallory := w.tenant("mallory", 1_000_000_000)
		w.beyond[mallory.AccountID] = errors.New("the vault is on fire")
		poison := w.ask(mallory, func(c *Create) { c.Priority = 10 })
		good := w.ask(w.eve)
		w.pass(15 * time.Second)
		w.want(good, Started, "")
		if p := w.get(poison); p.State != Waiting || p.Failures == 0 {
			t.Errorf("it is %s after %d failures", p.State, p.Failures)
		}
		// It is tried again when what was wrong is over, and there is room.
		w.beyond[mallory.AccountID] = nil
		w.end(w.eve, w.get(good).LeaseID)
		w.until("it has started", func() bool { return w.get(poison).State == Started })

		// What will not pass is its end.
		w.beyond[w.ada.AccountID] = fault.New(fault.Forbidden, "forbidden", "this user may not rent any more")
		gone := w.ask(w.ada)
		w.end(mallory, w.get(poison).LeaseID)
		w.until("it has failed", func() bool { return w.get(gone).State == Failed })
		if said := w.heard(gone); !slices.Equal(said, []string{"failed"}) {
			t.Errorf("its account heard %v", said)
		}
	})
}

func TestWithoutMoneyARequestWaitsOnAndItsAccountIsToldOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(1)
		poor := w.tenant("poor", 0)
		r := w.ask(poor)
		w.pass(time.Minute)
		r = w.want(r, Waiting, "insufficient_balance")
		if said := w.heard(r); !slices.Equal(said, []string{"held_back"}) {
			t.Errorf("its account heard %v", said)
		}
		if r.Failures < 2 || r.Failures > 3 { // at once, after 10 s and after 20 more
			t.Errorf("it was tried %d times in a minute", r.Failures)
		}
		w.deposit(poor, 100_000_000)
		w.until("it has started", func() bool { return w.get(r).State == Started })
		if said := w.heard(r); !slices.Equal(said, []string{"held_back", "started"}) {
			t.Errorf("its account heard %v", said)
		}
	})
}

func TestOperatorsQuotasAndFairShareDecideBetweenAccountsAndPrioritiesOnlyWithinOne(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(3)
		w.quotas[w.ada.AccountID] = 1
		l := w.rent(w.tenant("holder", 1_000_000_000), 3, time.Time{})
		low := w.ask(w.eve, func(c *Create) { c.Priority = -10 })
		first, second := w.ask(w.ada), w.ask(w.ada)
		high := w.ask(w.eve, func(c *Create) { c.Priority = 10 })
		for _, r := range []struct {
			*Request
			p    account.Principal
			want int
		}{{high, w.eve, 1}, {first, w.ada, 2}, {low, w.eve, 3}, {second, w.ada, 4}} {
			if d, err := w.Details(t.Context(), r.p, r.ID); err != nil || d.Position != r.want {
				t.Errorf("one is at %d (%v), want %d", d.Position, err, r.want)
			}
		}
		w.end(account.Principal{AccountID: l.AccountID, UserID: l.UserID, Role: account.Owner}, l.ID)
		w.until("three have started", func() bool { return w.get(low).State == Started })
		w.want(high, Started, "")
		w.want(first, Started, "")
		w.want(second, Waiting, "quota_gpus")
	})
}

func TestAShortRequestGoesAheadOfOneThatWaitsForRoomAndALongOneDoesNot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(4)
		w.rent(w.tenant("holder", 1_000_000_000), 3, w.clock().Add(2*time.Hour))
		big := w.ask(w.ada, func(c *Create) { c.GPUs, c.MaxPerHour, c.WaitFor = 4, 20_000_000, 24*time.Hour })
		long := w.ask(w.eve, func(c *Create) { c.Estimate = 3 * time.Hour })
		unknown := w.ask(w.eve)
		w.pass(10 * time.Second)
		w.want(big, Waiting, "no_room")
		w.want(long, Waiting, "behind_others")
		w.want(unknown, Waiting, "behind_others")
		short := w.ask(w.eve, func(c *Create) { c.Estimate = time.Hour })
		w.pass(10 * time.Second)
		w.want(short, Started, "")
		// Of its own accord it is gone in time: its lease stops.
		w.until("it runs", func() bool {
			l, err := w.leases.Get(t.Context(), w.eve, w.get(short).LeaseID)
			return err == nil && l.State == lease.Running
		})
	})
}

func TestWhoWaitsForOneModelHoldsUpNobodyWhoWantsAnother(t *testing.T) {
	t.Parallel()
	now := noon
	rooms := roomsOf(map[string]int{"A": 0, "B": 1})
	occupants := []lease.Occupant{{LeaseID: "ls-1", AccountID: "x", HostID: "host-A", GPUs: []string{"A-0"}, Since: now, Until: now.Add(time.Hour)}}
	starts, _ := decide(policyOfTests(), jobsFor("A", "B"), occupants, rooms, now)
	if len(starts) != 1 || starts[0].Job.Request.Models[0] != "B" {
		t.Errorf("started %+v", starts)
	}
}

func TestGPUsOfTheSpotMarketAreClaimedOnlyForWhatFindsNoOthers(t *testing.T) {
	t.Parallel()
	now := noon
	rooms := roomsOf(map[string]int{"A": 0})
	rooms[0].Claimable = []string{"A-0"}
	free := roomsOf(map[string]int{"A": 1})[0]
	free.ID = "host-free"
	free.GPUs = slices.Clone(free.GPUs)
	free.GPUs[0].UUID = "free-0"
	rooms = append(rooms, free)
	occupants := []lease.Occupant{{LeaseID: "ls-1", AccountID: "x", HostID: "host-A", GPUs: []string{"A-0"}, Since: now}}
	starts, _ := decide(policyOfTests(), jobsFor("A"), occupants, rooms, now)
	if len(starts) != 1 || starts[0].Placement.Nodes[0].HostID != "host-free" {
		t.Errorf("one started %+v", starts)
	}
	starts, _ = decide(policyOfTests(), jobsFor("A", "A", "A"), occupants, rooms, now)
	if len(starts) != 2 || starts[1].Placement.Nodes[0].HostID != "host-A" {
		t.Errorf("of three started %+v", starts)
	}
}

func TestAnAccountHasOnlySoManyRequestsThatWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		w.join(1)
		w.rent(w.ada, 1, time.Time{})
		r := w.ask(w.eve)
		for range 4 {
			w.ask(w.eve)
		}
		_, err := w.Create(t.Context(), w.eve, wish())
		wantCode(t, err, "quota_waiting_requests")
		_, err = w.Cancel(t.Context(), w.eve, r.ID)
		w.check(err)
		w.ask(w.eve)
		w.ask(w.ada)
	})
}

func TestWhatCannotBeAskedForIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, anyStore(t))
	w.join(1)
	for name, tt := range map[string]struct {
		change func(*Create)
		code   string
	}{
		"no model":        {func(c *Create) { c.GPUModel = " " }, "invalid_waiting_request"},
		"unknown model":   {func(c *Create) { c.GPUModel = "GeForce 256" }, "waiting_request_model"},
		"no GPU":          {func(c *Create) { c.GPUs = 0 }, "invalid_waiting_request"},
		"no price":        {func(c *Create) { c.MaxPerHour = 0 }, "invalid_waiting_request"},
		"no time":         {func(c *Create) { c.WaitFor = 0 }, "invalid_waiting_request"},
		"too long":        {func(c *Create) { c.WaitFor = 365 * 24 * time.Hour }, "invalid_waiting_request"},
		"priority":        {func(c *Create) { c.Priority = 11 }, "invalid_waiting_request"},
		"no run":          {func(c *Create) { c.Estimate = time.Second }, "invalid_waiting_request"},
		"nothing to run":  {func(c *Create) { c.Run.Request.Image = "" }, "missing_image"},
		"no such":         {func(c *Create) { c.Run.Request.Template = "nope" }, "unknown_template"},
		"disk":            {func(c *Create) { c.Run.Request.DiskGiB = -1 }, "invalid_disk_gib"},
		"volumes":         {func(c *Create) { c.Run.Create.Volumes = []lease.VolumeUse{{}} }, "invalid_volumes"},
		"name is no name": {func(c *Create) { c.Run.Create.Name = "a\nb" }, "invalid_name"},
	} {
		c := wish()
		tt.change(&c)
		if _, err := w.Create(t.Context(), w.eve, c); err == nil {
			t.Errorf("%s: it was taken", name)
		} else if f, ok := fault.As(err); !ok || f.Code != tt.code {
			t.Errorf("%s: %v, want %s", name, err, tt.code)
		}
	}
}
