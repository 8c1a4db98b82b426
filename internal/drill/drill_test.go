package drill

import (
	"context"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// cloud is hosts and leases that are made up.
type cloud struct {
	mu     sync.Mutex
	now    time.Time
	leases map[string][]*lease.Lease
	past   map[string][]lease.Change
	cut    []string
}

func (c *cloud) clock() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *cloud) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *cloud) Hosts(context.Context, account.Principal) []fleet.Host {
	return []fleet.Host{{ID: "ho-1", Region: "cn", Zone: "a"}, {ID: "ho-2", Region: "cn", Zone: "a"}, {ID: "ho-3", Region: "cn", Zone: "b"}}
}

func (c *cloud) OnHost(id string) []*lease.Lease { return c.leases[id] }

func (c *cloud) History(_ context.Context, _ account.Principal, id string) ([]lease.Change, error) {
	return c.past[id], nil
}

func service(t *testing.T, db *store.DB, c *cloud) *Service {
	t.Helper()
	s, err := New(Config{DB: db, Clock: c.clock, Hosts: c, Leases: c, Cut: func(h string) { c.cut = append(c.cut, h) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// at is the identifier of a change that is written then.
func at(t time.Time) string { return ident.First(ident.Event, t) }

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Fatalf("%v, want %s", err, code)
	}
}

func TestADrillNeedsConsentCutsItsHostsAndEndsByItself(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		c := &cloud{now: begun, leases: map[string][]*lease.Lease{"ho-1": {{ID: "ls-1", HostID: "ho-1", State: lease.Running}, {ID: "ls-0", HostID: "ho-1", State: lease.Ended}}}}
		s, other := service(t, db, c), service(t, db, c)
		ctx := t.Context()
		ask := Request{Kind: ZoneOutage, Region: "cn", Zone: "a", For: time.Minute}
		_, err := s.Begin(ctx, account.Principal{}, ask)
		wantCode(t, err, "drill_consent")
		if s.Allow("ho-1") != nil || len(c.cut) != 0 {
			t.Fatal("hosts were cut off without consent")
		}
		ask.Consent = true
		d, err := s.Begin(ctx, account.Principal{}, ask)
		if err != nil || len(d.Hosts) != 2 || len(d.Leases) != 1 || d.Over {
			t.Fatalf("%+v, %v", d, err)
		}
		_, err = other.Begin(ctx, account.Principal{}, ask)
		wantCode(t, err, "drill_runs")
		if err := other.look(ctx); err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Service{s, other} {
			wantCode(t, r.Allow("ho-1"), "drill_cut")
			wantCode(t, r.Allow("ho-2"), "drill_cut")
			if err := r.Allow("ho-3"); err != nil {
				t.Errorf("a host of another zone: %v", err)
			}
		}
		c.past = map[string][]lease.Change{"ls-1": {
			{ID: at(begun.Add(-time.Hour)), At: begun.Add(-time.Hour), To: lease.Running},
			// It is dated by the last sign of life, which was before the drill.
			{ID: at(begun.Add(15 * time.Second)), At: begun.Add(-time.Second), From: lease.Running, To: lease.Unreachable},
		}}
		c.pass(time.Minute) // nobody looks again, and the store may be gone
		if err := s.Allow("ho-1"); err != nil {
			t.Errorf("after its end: %v", err)
		}
		d, err = s.Get(ctx, account.Principal{}, d.ID)
		if err != nil || !d.Over || d.Recovered || d.Leases[0].Unreachable != time.Minute || d.Leases[0].Ended {
			t.Fatalf("%+v, %v", d, err)
		}
		c.past["ls-1"] = append(c.past["ls-1"], lease.Change{ID: at(begun.Add(65 * time.Second)), At: begun.Add(65 * time.Second), From: lease.Unreachable, To: lease.Running})
		d, err = s.Get(ctx, account.Principal{}, d.ID)
		if err != nil || !d.Recovered || d.Leases[0].Unreachable != 65*time.Second || len(d.Leases[0].Changes) != 2 || d.Leases[0].Now != lease.Running {
			t.Fatalf("%+v, %v", d, err)
		}
	})
}

func TestADrillThatIsEndedLetsItsHostsBackAtOnce(t *testing.T) {
	t.Parallel()
	c := &cloud{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := service(t, storetest.Open(t, storetest.Address(t)), c)
	d, err := s.Begin(t.Context(), account.Principal{}, Request{Kind: HostOutage, HostID: "ho-3", For: Longest, Consent: true})
	if err != nil {
		t.Fatal(err)
	}
	c.pass(time.Second)
	if d, err = s.End(t.Context(), account.Principal{}, d.ID); err != nil || !d.Over {
		t.Fatalf("%+v, %v", d, err)
	}
	if err := s.Allow("ho-3"); err != nil {
		t.Error(err)
	}
}

func TestADrillOfNothingOrForTooLongIsRefused(t *testing.T) {
	t.Parallel()
	c := &cloud{now: time.Now()}
	s := service(t, storetest.Open(t, storetest.Address(t)), c)
	for code, r := range map[string]Request{
		"drill_nothing": {Kind: HostOutage, HostID: "ho-9", For: time.Minute, Consent: true},
		"bad_drill":     {Kind: HostOutage, HostID: "ho-1", For: time.Hour, Consent: true},
	} {
		_, err := s.Begin(t.Context(), account.Principal{}, r)
		wantCode(t, err, code)
	}
	_, err := s.Begin(t.Context(), account.Principal{}, Request{Kind: "flood", For: time.Minute, Consent: true})
	wantCode(t, err, "bad_drill")
	_, err = s.Get(t.Context(), account.Principal{}, "dr-1")
	wantCode(t, err, "drill_not_found")
}
