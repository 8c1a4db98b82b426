package runtime

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"suanli.dev/internal/reach"
)

func TestPullIsGivenUpForBeingTooSlowAndNeverForLength(t *testing.T) {
	t.Parallel()
	drips := func(t *testing.T, rate, seconds int64) (given bool) {
		ctx, p := newPace(t.Context(), 2*time.Minute)
		defer p.stop()
		for range seconds {
			<-time.After(time.Second)
			p.note(rate)
		}
		return ctx.Err() != nil && p.tooSlow()
	}
	synctest.Test(t, func(t *testing.T) {
		// 11,320,888,531 bytes in twenty minutes, and the same in a day.
		if drips(t, 9_434_074, 1200) || drips(t, 140_000, 86_400) {
			t.Error("a pull that moved was given up")
		}
		if !drips(t, 1000, 300) {
			t.Error("a pull of a thousand bytes a second holds its GPUs for ever")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, p := newPace(t.Context(), 2*time.Minute)
		defer p.stop()
		begin := time.Now()
		<-ctx.Done()
		if d := time.Since(begin); d != firstByteWait {
			t.Errorf("a registry that never answers was given up after %s", d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, p := newPace(t.Context(), 2*time.Minute)
		defer p.stop()
		p.note(100 << 20) // a good begin does not pay for silence later
		begin := time.Now()
		<-ctx.Done()
		if d := time.Since(begin); d > 4*time.Minute {
			t.Errorf("silence was given up after %s", d)
		}
	})
}

func TestLeaseNetworksAreDisjointAndInThePool(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix("10.213.0.0/16")
	var last netip.Prefix
	n := 0
	for ; ; n++ {
		s, gateway, ok := subnet(p, n)
		if !ok {
			break
		}
		if !p.Overlaps(s) || !s.Contains(gateway) || last.IsValid() && last.Overlaps(s) {
			t.Fatalf("network %d: %s with gateway %s after %s", n, s, gateway, last)
		}
		last = s
	}
	if n != 8192 {
		t.Errorf("%d networks", n)
	}
	if name := bridgeName("ls-01jv9z3k8h6e2m4q7r5t8w0xyz"); len(name) > 15 {
		t.Errorf("bridge name %q is too long for the kernel", name)
	}
}

func TestBlockedPrefixesCoverWhatARenterMustNotReach(t *testing.T) {
	t.Parallel()
	covered := func(a string) bool {
		for _, p := range reach.Blocked4 {
			if netip.MustParsePrefix(p).Contains(netip.MustParseAddr(a)) {
				return true
			}
		}
		return false
	}
	for _, a := range []string{"10.0.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.100.100.200", "127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"} {
		if !covered(a) {
			t.Errorf("%s may be reached", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "172.32.0.1", "100.128.0.1", "9.255.255.255", "223.255.255.255"} {
		if covered(a) {
			t.Errorf("%s may not be reached", a)
		}
	}
}

func TestAnInstancesReportIsReadAsARentersClaim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "status.json")
	expect := func(what string, want bool) {
		t.Helper()
		if _, ok := readReport(dir); ok != want {
			t.Errorf("%s: read %t, want %t", what, ok, want)
		}
		_ = os.Remove(path)
	}
	expect("nothing", false)
	if err := os.WriteFile(path, []byte(`{"sessions":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, ok := readReport(dir); !ok || r.Sessions != 2 {
		t.Errorf("%+v %t", r, ok)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	expect("an old one", false)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(`{"sessions":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, path); err != nil {
		t.Fatal(err)
	}
	expect("a link out of the folder", false)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	expect("a pipe that never answers", false)
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("half a file", false)
}

func TestSimKeepsADiskUntilItIsErased(t *testing.T) {
	t.Parallel()
	s := NewSim(100)
	ctx := context.Background()
	for range 2 {
		if err := errors.Join(s.Create(ctx, Container{LeaseID: "a", DiskMiB: 5}), s.Start(ctx, "a"), s.Stop(ctx, "a", 0), s.Remove(ctx, "a")); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.Disks()) != 1 {
		t.Errorf("disks: %v", s.Disks())
	}
	if err := s.Erase(ctx, "a"); err != nil || len(s.Disks()) != 0 {
		t.Errorf("disks: %v %v", s.Disks(), err)
	}
}
