package runtime

import (
	"errors"
	"net/netip"
	"os"
	goruntime "runtime"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// emptyNetwork is a network namespace of the test's own, so that it meets no rules
// but its own.
func emptyNetwork(t *testing.T) int {
	t.Helper()
	type made struct {
		f   *os.File
		err error
	}
	result := make(chan made)
	go func() {
		goruntime.LockOSThread() // for good: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			result <- made{nil, err}
			return
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		result <- made{f, err}
	}()
	m := <-result
	if errors.Is(m.err, unix.EPERM) {
		t.Skip("a network namespace of its own needs root")
	}
	if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(func() { m.f.Close() })
	return int(m.f.Fd())
}

func TestAStartPutsTheFirewallBackThatSomebodyDeleted(t *testing.T) {
	t.Parallel()
	ns := emptyNetwork(t)
	f := newFirewall("suanli-test", netip.MustParsePrefix("10.213.0.0/16"), []netip.Addr{netip.MustParseAddr("1.1.1.1")})
	f.conn = func() (*nftables.Conn, error) { return nftables.New(nftables.WithNetNSFd(ns)) }
	if err := f.rebuild(nil); errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
		t.Skipf("no nftables here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	remove := func() {
		t.Helper()
		c, err := f.conn()
		if err != nil {
			t.Fatal(err)
		}
		c.DelTable(f.table)
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(leases int) {
		t.Helper()
		if got, err := f.read(); err != nil || len(got) != leases {
			t.Errorf("the table has %d leases, %v; want %d", len(got), err, leases)
		}
	}
	if err := f.add("ls-1", access{}); err != nil {
		t.Fatal(err)
	}
	remove()
	if kept, err := f.keptPorts(); err != nil || len(kept) != 0 {
		t.Errorf("without a table: %v, %v", kept, err)
	}
	if err := f.add("ls-2", access{ports: "53,443"}); err != nil {
		t.Fatalf("a start just after the table was deleted: %v", err)
	}
	want(2)
	remove()
	if err := f.add("ls-2", access{private: true, ports: "53"}); err != nil {
		t.Fatalf("a change just after the table was deleted: %v", err)
	}
	want(2)
	c, err := f.conn()
	if err != nil {
		t.Fatal(err)
	}
	rules := func() int {
		t.Helper()
		list, err := c.GetRules(f.table, &nftables.Chain{Table: f.table, Name: chainPorts})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	// Answers, one port of TCP and of UDP, and nothing else.
	if n := rules(); n != 4 {
		t.Errorf("a lease that may reach one port has %d rules", n)
	}
	// An agent that starts again finds them before it writes its own table.
	if kept, err := f.keptPorts(); err != nil || len(kept) != 1 || kept[bridgeName("ls-2")] != "53" {
		t.Errorf("kept %v, %v", kept, err)
	}
	if err := f.remove("ls-2"); err != nil {
		t.Fatal(err)
	}
	if n := rules(); n != 0 {
		t.Errorf("%d rules are left of a lease that is gone", n)
	}
}
