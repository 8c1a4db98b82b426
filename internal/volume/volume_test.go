package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

var ada = account.Principal{UserID: "us-ada", AccountID: "ac-ada", Role: account.Owner}

// world is volumes on a host, with everything around them pretended: what was asked
// of money and of the host is written down.
type world struct {
	*Service
	t  *testing.T
	db *store.DB

	mu     sync.Mutex
	told   []string                               // of money and capacity
	answer func() (protocol.CommandResult, error) // of the host
	has    map[string]bool                        // that the host has
	leases map[string]*lease.Lease
}

func newWorld(t *testing.T, db *store.DB) *world {
	t.Helper()
	w := &world{t: t, db: db, has: map[string]bool{}, leases: map[string]*lease.Lease{}}
	s, err := New(Config{DB: db, Capacity: w, Money: w, Leases: w, TimeZone: func(context.Context, string) (string, error) { return "UTC", nil }, Command: w.command})
	if err == nil {
		err = s.Migrate(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Service = s
	return w
}

func (w *world) command(_ context.Context, _ string, c protocol.Command) (protocol.CommandResult, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answer != nil {
		if r, err := w.answer(); err != nil || !r.Accepted {
			return r, err
		}
	}
	if c.Volume.Present {
		w.has[c.Volume.VolumeID] = true
	} else {
		delete(w.has, c.Volume.VolumeID)
	}
	return protocol.CommandResult{Accepted: true}, nil
}

func (w *world) say(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, what)
	return nil
}

func (w *world) DiskTerms(host string) (fleet.DiskTerms, error) {
	return fleet.DiskTerms{HostID: host, ProviderID: "ac-host", Currency: money.CNY, Storage: 350_000}, nil
}

func (w *world) ReserveDisk(_ context.Context, _ *store.Tx, r fleet.DiskReservation) (fleet.DiskTerms, error) {
	return fleet.DiskTerms{HostID: r.HostID, Storage: 350_000}, w.say("reserve")
}
func (w *world) ReleaseAll(context.Context, *store.Tx, string) error { return w.say("release") }
func (w *world) Refresh(context.Context, string)                     {}
func (w *world) BeginLease(context.Context, *store.Tx, billing.Terms) error {
	return w.say("begin")
}

func (w *world) StartStorage(context.Context, *store.Tx, string, time.Time) error {
	return w.say("start")
}
func (w *world) EndLease(context.Context, *store.Tx, string, time.Time) error { return w.say("end") }

func (w *world) Resolve(_ context.Context, p account.Principal, id string) (*lease.Lease, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.leases[id]; l != nil && l.AccountID == p.AccountID {
		return l, nil
	}
	return nil, fault.New(fault.NotFound, "lease_not_found", "there is no lease %q", id)
}

func (w *world) Lock(ctx context.Context, _ *store.Tx, p account.Principal, id string) (*lease.Lease, error) {
	return w.Resolve(ctx, p, id)
}

func (w *world) PriceDisk(_ context.Context, _ string, t fleet.DiskTerms, gib int64, zone string) (pricing.Quote, error) {
	return pricing.NewQuote(pricing.Tariff{Currency: t.Currency, Storage: t.Storage, Granularity: pricing.Second}, pricing.Request{Plan: pricing.OnDemand, DiskGiB: gib, TimeZone: zone}, time.Now())
}

func (w *world) make(name string) *Volume {
	w.t.Helper()
	v, err := w.Create(w.t.Context(), ada, Request{Name: name, HostID: "ho-1", SizeGiB: 10})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.Turn(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) attachNew(volume, leaseID string, readOnly bool) error {
	return w.db.Update(w.t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return w.Attach(ctx, tx, lease.Attachment{LeaseID: leaseID, AccountID: ada.AccountID, HostID: "ho-1", Uses: []lease.VolumeUse{{Volume: volume, Path: "/data", ReadOnly: readOnly}}})
	})
}

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if f, ok := fault.As(err); !ok || f.Code != code {
		t.Errorf("got %v, want the fault %s", err, code)
	}
}

func TestOfManyLeasesThatWriteExactlyOneGetsTheVolume(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		v := w.make("data")
		const takers = 8
		writers, readers := make([]error, takers), make([]error, takers)
		var all sync.WaitGroup
		for i := range takers {
			all.Go(func() { writers[i] = w.attachNew("data", fmt.Sprintf("ls-w%d", i), false) })
			all.Go(func() { readers[i] = w.attachNew(v.ID, fmt.Sprintf("ls-r%d", i), true) })
		}
		all.Wait()
		won := 0
		for i := range takers {
			if readers[i] != nil {
				t.Errorf("a reader: %v", readers[i])
			}
			if writers[i] == nil {
				won++
				continue
			}
			wantCode(t, writers[i], "volume_in_use")
		}
		if won != 1 {
			t.Errorf("%d of %d may write, want 1", won, takers)
		}
		if _, err := w.Remove(t.Context(), ada, "data"); err == nil {
			t.Error("a volume in use was removed")
		}
		for i := range takers {
			for _, kind := range []string{"w", "r"} {
				if err := db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
					return w.Release(ctx, tx, fmt.Sprintf("ls-%s%d", kind, i))
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := w.Remove(t.Context(), ada, "data"); err != nil || got.State != Deleting {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestATurnMakesUpForWhateverWasCutOff(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ctx := t.Context()
		v, err := w.Create(ctx, ada, Request{Name: "data", HostID: "ho-1", SizeGiB: 10})
		if err != nil {
			t.Fatal(err)
		}
		// The host does it, and its answer is lost.
		w.answer = func() (protocol.CommandResult, error) {
			w.has[v.ID] = true
			return protocol.CommandResult{}, errors.New("the tunnel broke")
		}
		if err := w.Turn(ctx); err == nil {
			t.Error("nothing was said of a lost answer")
		}
		if got, _ := w.Get(ctx, ada, "data"); got.State != Creating {
			t.Errorf("it is %s without an answer", got.State)
		}
		w.answer = nil
		for range 3 {
			if err := w.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		// It is removed while another replica believes that it is still to be made.
		stale, _ := w.Get(ctx, ada, "data")
		stale.State = Creating
		if _, err := w.Remove(ctx, ada, "data"); err != nil {
			t.Fatal(err)
		}
		if err := w.step(ctx, stale); err != nil {
			t.Fatal(err)
		}
		if got, _ := w.Get(ctx, ada, v.ID); got.State != Deleting {
			t.Errorf("a late answer moved it to %s", got.State)
		}
		for range 3 {
			if err := w.Turn(ctx); err != nil {
				t.Fatal(err)
			}
		}
		got, err := w.Get(ctx, ada, v.ID)
		if err != nil || got.State != Deleted || len(w.has) != 0 {
			t.Errorf("%+v, %v; the host has %v", got, err, w.has)
		}
		if told := fmt.Sprint(w.told); told != "[reserve begin start end release]" {
			t.Errorf("money and capacity were told %s", told)
		}
	})
}

func TestAttachingAndDetachingIsForLeasesThatAreStopped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorld(t, db)
		ctx := t.Context()
		v := w.make("data")
		l := &lease.Lease{ID: "ls-1", AccountID: ada.AccountID, HostID: "ho-1"}
		w.leases["ls-1"] = l
		for _, s := range []lease.State{lease.Accepted, lease.Provisioning, lease.Running, lease.Unreachable, lease.Stopping, lease.Starting, lease.Ending, lease.Ended, lease.Failed} {
			l.State = s
			_, err := w.AttachTo(ctx, ada, "data", "ls-1", "/data", false)
			wantCode(t, err, "lease_state")
		}
		l.State = lease.Stopped
		_, err := w.AttachTo(ctx, ada, "data", "ls-1", "/etc", false)
		wantCode(t, err, "invalid_mount_path")
		if _, err := w.AttachTo(ctx, ada, "data", "ls-1", "/data", false); err != nil {
			t.Fatal(err)
		}
		for _, s := range []lease.State{lease.Running, lease.Unreachable, lease.Ending} {
			l.State = s
			_, err := w.DetachFrom(ctx, ada, "data", "ls-1", true)
			wantCode(t, err, "volume_mounted")
		}
		l.State = lease.Failed
		_, err = w.DetachFrom(ctx, ada, "data", "ls-1", false)
		wantCode(t, err, "volume_mounted")
		if got, err := w.DetachFrom(ctx, ada, "data", "ls-1", true); err != nil || len(got.Attachments) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		eve := account.Principal{UserID: "us-eve", AccountID: "ac-eve", Role: account.Owner}
		for _, name := range []string{"data", v.ID} {
			_, err = w.Get(ctx, eve, name)
			wantCode(t, err, "volume_not_found")
			_, err = w.Remove(ctx, eve, name)
			wantCode(t, err, "volume_not_found")
		}
	})
}
