package overlay

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"suanli.dev/internal/protocol"
)

// Interface is what the network is called inside instances.
const Interface = protocol.InstanceOverlay

// mtu leaves room for WireGuard's own headers on networks of 1500 bytes.
const mtu = 1420

// keepAlive is how often a node sends to a peer whose key is greater than its own, so that
// ways through address translators stay open and a silent peer is noticed. The other one
// begins later and sends less often: two that greet each other at the same moment both
// give up their own greeting for the other's, so that neither is answered, and both would
// do so again five seconds later, together.
const (
	keepAlive      = 5 * time.Second
	keepAliveOther = 7 * time.Second
	greetsAfter    = 2 * time.Second
)

// heardFor is how long a peer counts as connected after it was heard. A session is made
// anew every two minutes, and keeps being of use for three.
const heardFor = 3 * time.Minute

// Prefix is where nodes have their addresses. Networks of clusters never meet, so all
// have the same.
var Prefix = netip.MustParsePrefix("10.219.0.0/16")

// Mesh is the private network of one instance. Its methods are safe for concurrent use.
type Mesh struct {
	public string
	device *device.Device
	port   uint16

	mu    sync.Mutex
	peers map[string]protocol.Peer // by public key
}

// Open makes the network's device in a namespace, with an address of Prefix. The device
// ends with Close, or with this process.
func Open(namespace *os.File, address netip.Addr, key Key) (*Mesh, error) {
	if !Prefix.Contains(address) {
		return nil, fmt.Errorf("the address %s is not of the network %s", address, Prefix)
	}
	fd, err := makeDevice(namespace, address)
	if err != nil {
		return nil, fmt.Errorf("make the device of a private network: %w", err)
	}
	inner, _, err := tun.CreateUnmonitoredTUNFromFD(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("make the device of a private network: %w", err)
	}
	d := device.NewDevice(fixed{inner}, conn.NewDefaultBind(), device.NewLogger(device.LogLevelSilent, ""))
	m := &Mesh{public: key.Public(), device: d, peers: map[string]protocol.Peer{}}
	if err := errors.Join(d.IpcSet("private_key="+hex.EncodeToString(key[:])+"\nlisten_port=0\n"), d.Up()); err != nil {
		d.Close()
		return nil, fmt.Errorf("start a private network: %w", err)
	}
	state, err := d.IpcGet()
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("start a private network: %w", err)
	}
	for line := range strings.Lines(state) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "listen_port="); ok {
			n, _ := strconv.ParseUint(v, 10, 16)
			m.port = uint16(n)
		}
	}
	return m, nil
}

// fixed is a device whose size is known: it is in a namespace where it cannot be asked.
type fixed struct{ tun.Device }

func (fixed) MTU() (int, error) { return mtu, nil }

// makeDevice makes the device in the namespace and returns its descriptor.
func makeDevice(namespace *os.File, address netip.Addr) (int, error) {
	type result struct {
		fd  int
		err error
	}
	done := make(chan result)
	go func() {
		// The thread is in another namespace from now on, so it ends with this goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{err: fmt.Errorf("enter the instance's network: %w", err)}
			return
		}
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			done <- result{err: fmt.Errorf("open /dev/net/tun (does the kernel have the module tun?): %w", err)}
			return
		}
		if err := configure(fd, address); err != nil {
			_ = unix.Close(fd)
			done <- result{err: err}
			return
		}
		done <- result{fd: fd}
	}()
	r := <-done
	return r.fd, r.err
}

func configure(fd int, address netip.Addr) error {
	ifr, err := unix.NewIfreq(Interface)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("make %s: %w", Interface, err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return err
	}
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	set := func(request uint, fill func(*unix.Ifreq) error) error {
		r, err := unix.NewIfreq(Interface)
		if err == nil {
			err = fill(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(sock, request, r)
		}
		return err
	}
	return errors.Join(
		set(unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(mtu); return nil }),
		set(unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address.AsSlice()) }),
		set(unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(net.CIDRMask(Prefix.Bits(), 32)) }),
		set(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil }),
	)
}

// PublicKey is the node's key for its peers, in base 64.
func (m *Mesh) PublicKey() string { return m.public }

// Port is the host's UDP port that takes the network's packets.
func (m *Mesh) Port() uint16 { return m.port }

// SetPeers makes these the peers, and no others. own are the networks in which the host
// has addresses itself: a peer's address in one of them is taken before its others.
func (m *Mesh) SetPeers(peers []protocol.Peer, own []netip.Prefix) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := map[string]protocol.Peer{}
	var text strings.Builder
	var late []protocol.Peer
	var errs []error
	for _, p := range peers {
		key, err := parseKey(p.PublicKey)
		if err != nil || p.PublicKey == m.public || !Prefix.Contains(p.Inside) {
			errs = append(errs, fmt.Errorf("the peer of rank %d is described wrongly", p.Rank))
			continue
		}
		wanted[p.PublicKey] = p
		if reflect.DeepEqual(m.peers[p.PublicKey], p) {
			continue
		}
		fmt.Fprintf(&text, "public_key=%s\nreplace_allowed_ips=true\nallowed_ip=%s/32\n", hex.EncodeToString(key[:]), p.Inside)
		if m.public < p.PublicKey {
			text.WriteString(keepsAlive(keepAlive))
		} else {
			late = append(late, p)
		}
		if to, ok := nearest(p.Addresses, own); ok {
			fmt.Fprintf(&text, "endpoint=%s\n", to)
		}
	}
	for public := range m.peers {
		if _, ok := wanted[public]; !ok {
			key, _ := parseKey(public)
			fmt.Fprintf(&text, "public_key=%s\nremove=true\n", hex.EncodeToString(key[:]))
		}
	}
	if text.Len() > 0 {
		if err := m.device.IpcSet(text.String()); err != nil {
			return errors.Join(append(errs, fmt.Errorf("set the peers of a private network: %w", err))...)
		}
	}
	m.peers = wanted
	if len(late) > 0 {
		time.AfterFunc(greetsAfter, func() { m.greet(late) })
	}
	return errors.Join(errs...)
}

func keepsAlive(every time.Duration) string {
	return fmt.Sprintf("persistent_keepalive_interval=%d\n", int(every/time.Second))
}

// greet begins to send to those that are peers still, and so greets those that have not
// greeted this node.
func (m *Mesh) greet(peers []protocol.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var text strings.Builder
	for _, p := range peers {
		if reflect.DeepEqual(m.peers[p.PublicKey], p) {
			key, _ := parseKey(p.PublicKey)
			fmt.Fprintf(&text, "public_key=%s\nupdate_only=true\n%s", hex.EncodeToString(key[:]), keepsAlive(keepAliveOther))
		}
	}
	if text.Len() > 0 {
		_ = m.device.IpcSet(text.String()) // a device that is closed has nobody to greet
	}
}

// nearest is the address by which a peer is reached best: one in a network that this
// host is in, or else the first that can be routed to.
func nearest(list []netip.AddrPort, own []netip.Prefix) (netip.AddrPort, bool) {
	usable := func(a netip.AddrPort) bool {
		return a.IsValid() && a.Port() != 0 && !a.Addr().IsMulticast() && !a.Addr().IsUnspecified()
	}
	for _, a := range list {
		if usable(a) && slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a.Addr()) }) {
			return a, true
		}
	}
	for _, a := range list {
		if usable(a) {
			return a, true
		}
	}
	return netip.AddrPort{}, false
}

// Connected counts the peers that were heard lately.
func (m *Mesh) Connected() int {
	state, err := m.device.IpcGet()
	if err != nil {
		return 0
	}
	n := 0
	for in := bufio.NewScanner(strings.NewReader(state)); in.Scan(); {
		if v, ok := strings.CutPrefix(in.Text(), "last_handshake_time_sec="); ok {
			if at, err := strconv.ParseInt(v, 10, 64); err == nil && at > 0 && time.Since(time.Unix(at, 0)) < heardFor {
				n++
			}
		}
	}
	return n
}

// Close ends the network and removes its device.
func (m *Mesh) Close() { m.device.Close() }
