package intake

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// serve accepts everything at the gate and keeps it open.
func serve(t *testing.T, g *Gate) (address string, accepted chan net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = make(chan net.Conn, 100)
	gated := g.Listener(ln)
	go func() { // ends with ln
		for {
			c, err := gated.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String(), accepted
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// turnedAway reports that the other end has closed the connection.
func turnedAway(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := io.ReadFull(c, make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("a connection past the bound was let in (%v)", err)
	}
}

func TestOneAddressCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	g := &Gate{Total: 10, PerAddress: 2}
	address, accepted := serve(t, g)
	first, second := dial(t, address), dial(t, address)
	in := []net.Conn{<-accepted, <-accepted}
	turnedAway(t, dial(t, address))
	first.Close()
	second.Close()
	for _, c := range in {
		c.Close()
		c.Close() // counts once
	}
	dial(t, address)
	dial(t, address)
	<-accepted
	<-accepted
	if g.Open() != 2 {
		t.Fatalf("%d open, want 2", g.Open())
	}
}

func TestTotalBoundsTrustedProxiesAndThoseVouchedForToo(t *testing.T) {
	t.Parallel()
	g := &Gate{Total: 4, PerAddress: 1, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	address, accepted := serve(t, g)
	for range 4 {
		dial(t, address)
		<-accepted
	}
	turnedAway(t, dial(t, address))

	g = &Gate{Total: 3, PerAddress: 1}
	address, accepted = serve(t, g)
	for range 3 {
		dial(t, address)
		Vouch(<-accepted)
	}
	turnedAway(t, dial(t, address))
}

func TestRoomLeavesDescriptorsForTheRest(t *testing.T) {
	t.Parallel()
	if n := Room(); n < 256 || n >= 1<<20 {
		t.Fatalf("room for %d connections", n)
	}
}
