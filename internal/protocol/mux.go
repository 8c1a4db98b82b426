package protocol

import (
	"encoding/binary"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// The tunnel's own measures, the same on both sides.
const (
	// tunnelKeepAlive is how often an idle tunnel is probed; a NAT forgets a
	// silent connection after half a minute or so.
	tunnelKeepAlive = 15 * time.Second
	// tunnelWriteTimeout is how long a write or a probe may take before the
	// tunnel is given up.
	tunnelWriteTimeout = 15 * time.Second
	// streamWindow is how much of a stream may be on its way: 1 MiB moves
	// 160 Mbit/s over 50 ms, and is all that a renter who does not read can make
	// a gateway hold.
	streamWindow = 1 << 20
)

// TunnelConfig returns the settings of the multiplexer that both sides use.
func TunnelConfig(l *slog.Logger) *yamux.Config {
	c := yamux.DefaultConfig()
	c.KeepAliveInterval = tunnelKeepAlive
	c.ConnectionWriteTimeout = tunnelWriteTimeout
	c.MaxStreamWindowSize = streamWindow
	// A peer that does not answer one stream in time would take all others along.
	c.StreamOpenTimeout = 0
	c.LogOutput = nil
	c.Logger = slog.NewLogLogger(l.Handler(), slog.LevelDebug)
	return c
}

// Stream is one connection within a tunnel. Like a TCP connection's, its writing
// half can be closed alone.
type Stream struct{ *yamux.Stream }

// CloseWrite tells the other side that no more is coming; reading goes on.
func (s Stream) CloseWrite() error { return s.Stream.Close() }

// Close ends the stream; a Read or Write in progress returns.
func (s Stream) Close() error {
	err := s.Stream.Close()
	// The multiplexer's Close is a half close: without a deadline a reader
	// would wait for the other side.
	_ = s.Stream.SetDeadline(time.Unix(1, 0))
	return err
}

var _ net.Conn = Stream{}

// TunnelConn goes between the multiplexer and the connection that it writes to.
// The multiplexer writes each frame's header by itself, which TLS makes a record
// and a system call of its own, on both sides; here it waits for its body. The
// multiplexer writes from one goroutine.
func TunnelConn(c net.Conn) net.Conn { return &frames{Conn: c} }

type frames struct {
	net.Conn
	frame []byte // a header that waits, and room for its body
}

// The multiplexer's frame header: version, type, flags, stream, length, as in
// yamux's specification.
const (
	frameHeader = 12
	frameData   = 0
	// frameKept bounds the room that a quiet tunnel keeps.
	frameKept = 128 << 10
)

// Write implements net.Conn.
func (f *frames) Write(b []byte) (int, error) {
	if len(f.frame) == 0 {
		if len(b) != frameHeader || b[1] != frameData || binary.BigEndian.Uint32(b[8:]) == 0 {
			return f.Conn.Write(b)
		}
		f.frame = append(f.frame, b...)
		return len(b), nil
	}
	f.frame = append(f.frame, b...)
	n, err := f.Conn.Write(f.frame)
	if f.frame = f.frame[:0]; cap(f.frame) > frameKept {
		f.frame = nil
	}
	return max(0, n-frameHeader), err
}
