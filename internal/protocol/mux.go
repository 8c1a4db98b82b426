package protocol

import (
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
