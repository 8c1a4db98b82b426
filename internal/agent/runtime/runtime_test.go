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
)

func TestPullIsGivenUpForSilenceAndNeverForLength(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, dog := newWatchdog(t.Context(), 2*time.Minute)
		defer dog.stop()
		l := newLayers()
		// Eleven gigabytes at one piece a minute: hours, and still going on.
		for i := range int64(300) {
			<-time.After(time.Minute)
			if l.note("layer", "Downloading", i*1000, 11_320_888_531) {
				dog.progress()
			}
		}
		if ctx.Err() != nil {
			t.Fatal("a pull that moved was given up")
		}
		for range 10 { // announcements without a byte
			<-time.After(20 * time.Second)
			if l.note("layer", "Retrying in 5 seconds", 0, 0) || l.note("layer", "Downloading", 299_000, 11_320_888_531) {
				dog.progress()
			}
		}
		if ctx.Err() == nil || !dog.fired.Load() {
			t.Error("a pull that stood still for more than three minutes was not given up")
		}
	})
}

func TestProgressCountsLayersOnce(t *testing.T) {
	t.Parallel()
	l := newLayers()
	l.note("a", "Downloading", 10, 100)
	l.note("b", "Downloading", 50, 50)
	l.note("b", "Extracting", 5, 50)
	l.note("a", "Downloading", 5, 100) // began again after a fault
	if p := l.sum(); p.Bytes != 60 || p.Total != 150 {
		t.Errorf("%+v", p)
	}
	l.note("a", "Pull complete", 0, 0)
	if p := l.sum(); p.Bytes != 150 {
		t.Errorf("%+v", p)
	}
}

func TestPullFaultsCarryTheirCode(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]string{
		"manifest for x:1 not found: manifest unknown: manifest unknown":                                        "image_not_found",
		"pull access denied for x, repository does not exist or may require 'docker login'":                     "image_not_found",
		"no matching manifest for linux/amd64 in the manifest list entries":                                     "image_architecture",
		"write /var/lib/docker/tmp/x: no space left on device":                                                  "disk_full",
		"failed to register layer: ApplyLayer exit status 1: Container ID 197609 cannot be mapped to a host ID": "engine",
		"dial tcp 192.0.2.1:443: i/o timeout":                                                                   "",
	} {
		if got := CodeOf(classifyPull("x:1", text, errors.New(text))); got != code {
			t.Errorf("%s: code %q, want %q", text, got, code)
		}
	}
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
		for _, p := range blockedPrefixes {
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
