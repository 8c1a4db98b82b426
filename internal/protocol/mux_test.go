package protocol

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/yamux"
)

// counted counts writes.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

func TestFrameIsOneWriteAndArrivesWhole(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	c := &counted{Conn: near}
	log := slog.New(slog.DiscardHandler)
	client, err := yamux.Client(TunnelConn(c), TunnelConfig(log))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := yamux.Server(TunnelConn(far), TunnelConfig(log))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	const frames, size = 50, 10_000 // within the first window: nothing else is written
	sent := bytes.Repeat([]byte("0123456789"), size/10)
	go func() {
		s, err := client.OpenStream()
		if err != nil {
			return
		}
		for range frames {
			if _, err := s.Write(sent); err != nil {
				return
			}
		}
		s.Close()
	}()
	s, err := server.AcceptStream()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(got, bytes.Repeat(sent, frames)) {
		t.Fatalf("%d bytes arrived, %v", len(got), err)
	}
	// Besides: one that opens the stream, its windows and its end, and probes.
	if n := c.writes.Load(); n > frames+20 {
		t.Errorf("%d writes for %d frames", n, frames)
	}
}
