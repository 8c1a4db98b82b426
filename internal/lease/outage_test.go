package lease

import (
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/protocol"
)

func TestALeaseIsWantedFromItsRunToItsStopWhateverItsHostDoes(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 0, minute, 0, 0, time.UTC) }
	got := Wanted([]Change{
		{At: at(0), To: Accepted}, {At: at(1), To: Provisioning}, {At: at(2), To: Running}, {At: at(3), To: Unreachable}, {At: at(5), To: Running},
		{At: at(6), To: Running, Event: HostFault}, {At: at(7), To: Stopping}, {At: at(8), To: Stopped}, {At: at(9), To: Starting}, {At: at(10), To: Running},
	})
	if want := []Stretch{{at(2), at(7)}, {From: at(10)}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLeasesWithOutagesAreFoundAndOthersNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	l, quiet := w.rent(h, 1), w.rent(h, 1)
	begin := w.clock()
	h.set(func() {
		h.mangle = func(st *protocol.InstanceStatus) {
			if st.LeaseID == l.ID {
				st.GPUFault = &protocol.GPUFault{Since: *h.instant(begin), Reason: "not permitted"}
			}
		}
	})
	w.pass(5 * time.Minute)
	got, err := w.Troubled(w.ctx, begin, w.clock())
	if err != nil || !slices.Equal(got, []string{l.ID}) {
		t.Errorf("%v, %v; want only %s, not %s", got, err, l.ID, quiet.ID)
	}
	if got, err = w.Troubled(w.ctx, begin, begin.Add(-time.Hour)); err != nil || len(got) != 0 {
		t.Errorf("before it: %v, %v", got, err)
	}
	places, err := w.Places(w.ctx, []string{l.ID, "ls-none"})
	if err != nil || len(places) != 1 || places[l.ID].HostID != l.HostID || places[l.ID].ProviderID != l.ProviderID {
		t.Errorf("%+v, %v", places, err)
	}
}
