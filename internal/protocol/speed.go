package protocol

import (
	"io"
	"net"
	"time"
)

const (
	// speedLimit bounds what one speed stream may move: a second of 8 Gbit/s.
	speedLimit = 1 << 30
	// speedTime is how long it may take.
	speedTime = 30 * time.Second
)

// ServeSpeed is the answering side of a StreamSpeed, after Accept: it sends that
// many bytes and ends its half, or, for 0, discards what comes until the other
// side ends. Both are bounded; the caller closes the stream.
func ServeSpeed(s net.Conn, bytes int64) {
	_ = s.SetDeadline(time.Now().Add(speedTime))
	if bytes <= 0 {
		_, _ = io.CopyN(io.Discard, s, speedLimit)
		return
	}
	_, _ = io.CopyN(s, Zeros{}, min(bytes, speedLimit))
	if h, ok := s.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
}

// Zeros reads as endless zero bytes.
type Zeros struct{}

// Read implements io.Reader; it cannot fail.
func (Zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
