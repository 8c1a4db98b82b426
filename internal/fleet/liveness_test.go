package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"suanli.dev/internal/protocol"
)

func TestOneSilentHostIsToldOnceAndTheOthersGoOn(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var hosts []string
	for range 4 {
		id, _ := c.rtx4090s(1)
		hosts = append(hosts, id)
	}
	c.beats(8, hosts[1:]...)
	if !slices.Equal(c.silent, hosts[:1]) {
		t.Fatalf("told of %v, want %v once", c.silent, hosts[:1])
	}
	if c.Suspect() || c.offered("") != 3 {
		t.Errorf("suspect %v, %d offers, want 3", c.Suspect(), c.offered(""))
	}
	c.beats(1, hosts...)
	c.beats(5, hosts[1:]...)
	if len(c.silent) != 2 {
		t.Errorf("told %v, want the host again after it came back and fell silent anew", c.silent)
	}
}

func TestFortyMissedProbesOfOneHostAreToldOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var hosts []string
	for range 3 {
		id, _ := c.rtx4090s(1)
		hosts = append(hosts, id)
	}
	c.beats(40, hosts[:2]...)
	if !slices.Equal(c.silent, hosts[2:]) {
		t.Errorf("told of %v, want one word on %s", c.silent, hosts[2])
	}
}

func TestMostHostsSilentAtOnceMeansTheControlPlaneSuspectsItself(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var hosts []string
	for range 5 {
		id, _ := c.rtx4090s(1)
		hosts = append(hosts, id)
	}
	c.beats(10, hosts[0])
	if len(c.silent) != 0 || !c.Suspect() {
		t.Fatalf("told of %v, suspect %v; want nobody given up", c.silent, c.Suspect())
	}
	if n := c.offered(""); n != 1 {
		t.Errorf("%d offers, want only that of the host that reports", n)
	}
	// They come back within a beat or two.
	c.beats(1, hosts...)
	if c.Suspect() || len(c.silent) != 0 || c.offered("") != 5 {
		t.Errorf("after they came back: suspect %v, told of %v, %d offers", c.Suspect(), c.silent, c.offered(""))
	}
	// A real loss of most is given up on an operator's word.
	c.beats(10, hosts[0])
	c.ConfirmLoss(t.Context())
	if len(c.silent) != 4 {
		t.Errorf("told of %v after the operator's word, want 4 hosts", c.silent)
	}
}

func TestStallOfTheControlPlaneEvictsNobody(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var hosts []string
	for range 1000 {
		hosts = append(hosts, c.join(true))
	}
	for _, id := range hosts {
		c.report(id, protocol.Report{Ready: true})
	}
	c.beats(1, hosts...)
	c.pass(time.Minute) // nothing ran
	c.Silent(t.Context())
	if len(c.silent) != 0 {
		t.Fatalf("%d hosts were given up after a stall", len(c.silent))
	}
	c.beats(2, hosts...)
	if len(c.silent) != 0 || c.Suspect() {
		t.Errorf("two beats later: told of %d, suspect %v", len(c.silent), c.Suspect())
	}
	for _, h := range c.Hosts(t.Context(), operator) {
		if h.State == StateOffline {
			t.Fatalf("host %s is %s two beats after the stall", h.ID, h.State)
		}
	}
	c.beats(8, hosts[1:]...)
	if !slices.Equal(c.silent, hosts[:1]) {
		t.Errorf("after the stall told of %d, want the one that is really silent", len(c.silent))
	}
}

func TestJumpOfTheServersClockEvictsNobody(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	host, _ := c.rtx4090s(1)
	for _, jump := range []time.Duration{2 * 365 * 24 * time.Hour, -5 * 365 * 24 * time.Hour} {
		c.mu.Lock()
		c.now = c.now.Add(jump)
		c.mu.Unlock()
		c.Silent(t.Context())
		c.beats(4, host)
		if len(c.silent) != 0 || c.offered("") != 1 {
			t.Errorf("after a jump of %s: told of %v, %d offers", jump, c.silent, c.offered(""))
		}
	}
}

func TestTroubleWithOneSilentHostLeavesTheOthersAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	var told []string
	bad, tries := "", 0
	c := newCloud(t, func(cfg *Config) {
		cfg.OnSilent = func(_ context.Context, hostID string, _ time.Time) error {
			if hostID == bad {
				if tries++; tries == 1 {
					panic("boom")
				}
				if tries == 2 {
					return errors.New("the store is away")
				}
			}
			told = append(told, hostID)
			return nil
		}
	})
	var hosts []string
	for range 6 {
		id, _ := c.rtx4090s(1)
		hosts = append(hosts, id)
	}
	bad = hosts[0]
	c.beats(6, hosts[2:]...)
	if !slices.Equal(told, []string{hosts[1], hosts[0]}) || tries != 3 {
		t.Errorf("told %v in %d tries, want the other host first and the bad one in the third", told, tries)
	}
}

func TestRestartOfTheCloudAwaitsItsHosts(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	a, _ := c.rtx4090s(1)
	b, _ := c.rtx4090s(1)
	d, _ := c.rtx4090s(1)
	if _, err := c.reserve("ls-1", a, 1); err != nil {
		t.Fatal(err)
	}
	seen := c.view(a).LastSeen
	c.keepLives(t.Context())

	c.pass(time.Hour)
	c.Service = c.start()
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h := c.view(a); h.State != StateAwaited || !h.LastSeen.Equal(seen) || len(h.Leases) != 1 {
		t.Errorf("after a restart: %s, last seen %s, leases %v", h.State, h.LastSeen, h.Leases)
	}
	if n := c.offered(""); n != 0 {
		t.Errorf("%d offers before any host reported", n)
	}
	c.beats(5, b, d)
	if len(c.silent) != 0 {
		t.Errorf("told of %v within the time that hosts have to come back", c.silent)
	}
	c.beats(3, b, d)
	if !slices.Equal(c.silent, []string{a}) {
		t.Errorf("told of %v, want the one that did not come back", c.silent)
	}
}

func TestReliabilityFallsWithAbsenceAndNotWithMaintenance(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	good, _ := c.rtx4090s(1)
	bad, _ := c.rtx4090s(1)
	kept, _ := c.rtx4090s(1)
	more, _ := c.rtx4090s(1) // so that the absent ones are not most
	also, _ := c.rtx4090s(1)
	start := c.view(good).ReliabilityBasis
	if _, err := c.SetMaintenance(t.Context(), ada, kept, Window{From: c.now, Until: c.now.Add(100 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if n := c.offered(""); n != 4 || !c.InMaintenance(kept, c.now) {
		t.Errorf("%d offers with a host in maintenance, want 4", n)
	}
	c.beats(360, good, more, also) // an hour
	c.keepLives(t.Context())
	g, b, k := c.view(good).ReliabilityBasis, c.view(bad).ReliabilityBasis, c.view(kept).ReliabilityBasis
	if g <= start || b >= start || k < start {
		t.Errorf("from %d: always there %d, away %d, in maintenance %d", start, g, b, k)
	}
	c.keepLives(t.Context())
	c.keepLives(t.Context())
	c.Service = c.start()
	if err := c.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := c.view(good).ReliabilityBasis; again != g {
		t.Errorf("after a restart %d, was %d", again, g)
	}
}
