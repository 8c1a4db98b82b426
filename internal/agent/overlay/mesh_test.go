package overlay

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/protocol"
)

func TestAnAddressOfTheSameNetworkIsTakenFirst(t *testing.T) {
	t.Parallel()
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	list := []netip.AddrPort{at("203.0.113.5:1"), at("192.168.7.2:1")}
	if a, ok := nearest(list, []netip.Prefix{netip.MustParsePrefix("192.168.7.0/24")}); !ok || a != list[1] {
		t.Errorf("it is %s, want the one that is in its own network", a)
	}
	if a, ok := nearest(list, nil); !ok || a != list[0] {
		t.Errorf("it is %s, want the first", a)
	}
	if a, ok := nearest([]netip.AddrPort{{}, at("0.0.0.0:3"), at("224.0.0.1:3"), at("1.2.3.4:0")}, nil); ok {
		t.Errorf("%s is taken, and leads nowhere", a)
	}
}

func TestAKeyIsKeptForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k, err := KeepKey(dir)
	again, err2 := KeepKey(dir)
	if err != nil || err2 != nil || k != again || k.Public() == "" {
		t.Fatalf("%v, %v; the same: %v", err, err2, k == again)
	}
	st, err := os.Stat(dir + "/" + keyFile)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the key's file has mode %v (%v)", st.Mode(), err)
	}
}

// namespace is a network of its own, as an instance has.
func namespace(t *testing.T) *os.File {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skip("there is no /dev/net/tun (the kernel module tun)")
	}
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Skipf("a network namespace cannot be made: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// inside runs a function in a namespace.
func inside(ns *os.File, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

func TestNodesReachEachOtherOverItAndNobodyElse(t *testing.T) {
	t.Parallel()
	const n = 3
	var meshes []*Mesh
	var rooms []*os.File
	var peers []protocol.Peer
	for i := range n {
		ns := namespace(t)
		k, err := NewKey()
		if err != nil {
			t.Fatal(err)
		}
		inner := netip.AddrFrom4([4]byte{10, 219, 0, byte(i + 1)})
		m, err := Open(ns, inner, k)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		meshes, rooms = append(meshes, m), append(rooms, ns)
		peers = append(peers, protocol.Peer{Rank: i, PublicKey: m.PublicKey(), Inside: inner, Addresses: []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), m.Port())}})
	}
	// Both are told at the same moment, as by one check-in of one host: they must not greet
	// each other in step for ever. The third is of nobody's cluster: it knows the others,
	// and they do not know it.
	for i, m := range meshes {
		list := []protocol.Peer{peers[1-min(i, 1)]}
		if i == 2 {
			list = peers[:2]
		}
		if err := m.SetPeers(list, nil); err != nil {
			t.Fatal(err)
		}
	}
	var l net.Listener
	if err := inside(rooms[1], func() (err error) { l, err = net.Listen("tcp", "10.219.0.2:700"); return err }); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); _, _ = io.Copy(c, c) }()
		}
	}()
	reach := func(from int, patience time.Duration) error {
		return inside(rooms[from], func() error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			f := os.NewFile(uintptr(fd), "socket")
			defer f.Close()
			tv := unix.NsecToTimeval(int64(patience))
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv); err != nil {
				return err
			}
			if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 700, Addr: [4]byte{10, 219, 0, 2}}); err != nil {
				return err
			}
			return ctx.Err()
		})
	}
	if err := reach(0, 10*time.Second); err != nil {
		t.Errorf("a node does not reach its peer: %v", err)
	}
	if err := reach(2, 2*time.Second); err == nil {
		t.Error("a node of another cluster reaches it")
	}
	for i, want := range []int{1, 1, 0} {
		if got := meshes[i].Connected(); got != want {
			t.Errorf("node %d has %d peers connected, want %d", i, got, want)
		}
	}
	// A peer that is replaced is reached no more.
	if err := meshes[1].SetPeers(nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := reach(0, 2*time.Second); err == nil {
		t.Error("a node is reached by one that is no peer any more")
	}
}
