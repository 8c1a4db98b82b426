package intake

import (
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// Gate bounds the connections of one listener. One past a bound is closed
// unanswered, which costs least; those that are open go on. It is safe for
// concurrent use.
type Gate struct {
	// Total is how many may be open, and PerAddress how many from one address (of
	// IPv6: one /64). 0: any number.
	Total, PerAddress int
	// Trusted are proxies' addresses, which speak for many: Total alone bounds them.
	Trusted []netip.Prefix

	mu   sync.Mutex
	open int
	by   map[netip.Addr]int
}

// Share is a gate for total connections, of which one address may have an eighth,
// or 64 where that is more: an office or a university behind one address has room
// then, and no single machine can take all.
func Share(total int, trusted []netip.Prefix) *Gate {
	return &Gate{Total: total, PerAddress: max(64, total/8), Trusted: trusted}
}

// Listener returns ln with the gate before it.
func (g *Gate) Listener(ln net.Listener) net.Listener { return &listener{Listener: ln, gate: g} }

// Open is how many connections are open now.
func (g *Gate) Open() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

func (g *Gate) enter(from netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.Total > 0 && g.open >= g.Total {
		return false
	}
	if from.IsValid() {
		if g.PerAddress > 0 && g.by[from] >= g.PerAddress {
			return false
		}
		if g.by == nil {
			g.by = map[netip.Addr]int{}
		}
		g.by[from]++
	}
	g.open++
	return true
}

// vouch stops counting a connection as its address's.
func (g *Gate) vouch(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(from)
}

func (g *Gate) leave(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	g.forget(from)
}

// forget needs mu.
func (g *Gate) forget(from netip.Addr) {
	if !from.IsValid() {
		return
	}
	if g.by[from]--; g.by[from] <= 0 {
		delete(g.by, from)
	}
}

// counted is the address that a connection counts for; none: Total alone bounds it.
func (g *Gate) counted(c net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	a := ap.Addr().Unmap().WithZone("")
	for _, p := range g.Trusted {
		if p.Contains(a) {
			return netip.Addr{}
		}
	}
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			a = p.Addr()
		}
	}
	return a
}

type listener struct {
	net.Listener
	gate *Gate
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := l.gate.counted(c)
		if l.gate.enter(from) {
			return &conn{Conn: c, gate: l.gate, from: from}, nil
		}
		c.Close()
	}
}

type conn struct {
	net.Conn
	gate *Gate

	mu   sync.Mutex
	from netip.Addr
	left bool
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	if !c.left {
		c.left = true
		c.gate.leave(c.from)
	}
	c.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite closes the writing half, where the connection has halves.
func (c *conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// Vouch says that whoever is at the other end has proven who it is, with other
// bounds of its own: it no longer counts as its address's, so that a site with
// hundreds of hosts behind one address has room. Any connection may be given.
func Vouch(c net.Conn) {
	v, ok := c.(*conn)
	if !ok {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.left {
		v.gate.vouch(v.from)
		v.from = netip.Addr{}
	}
}

// Room is how many connections a process may have open to strangers, by its
// limit of descriptors: a quarter, and never less than 256, is left for the
// database, files, and connections of its own. A limit that is unknown or too low
// for that gives 256, since a server without any would be of no use.
func Room() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 256
	}
	limit := int(min(l.Cur, 1<<20))
	return max(256, limit-max(256, limit/4))
}
