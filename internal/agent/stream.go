package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// acceptStreams serves streams until the connection is lost.
func (a *Agent) acceptStreams(ctx context.Context, s Streams) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer c.Close()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			a.serveStream(ctx, c)
		}()
	}
}

func (a *Agent) serveStream(ctx context.Context, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(15 * time.Second)) // a header that never comes holds nothing
	h, err := protocol.ReadHeader(c)
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	switch h.Kind {
	case protocol.StreamPort:
		a.forward(ctx, c, h.LeaseID, h.Port)
	case protocol.StreamSSH:
		a.forward(ctx, c, h.LeaseID, protocol.InstanceSSHPort)
	case protocol.StreamLogs:
		a.serveLogs(ctx, c, h)
	case protocol.StreamSpeed:
		if protocol.Accept(c) == nil {
			protocol.ServeSpeed(c, h.Bytes)
		}
	default:
		_ = protocol.Refuse(c, &protocol.StreamError{Code: "forbidden", Message: fmt.Sprintf("an agent does not serve streams of kind %q", h.Kind)})
	}
}

// forward joins the stream to a port inside the lease's instance.
func (a *Agent) forward(ctx context.Context, c net.Conn, id string, port int) {
	if port < 1 || port > 65535 {
		_ = protocol.Refuse(c, &protocol.StreamError{Code: "port_closed", Message: fmt.Sprintf("port %d: want 1 to 65535", port)})
		return
	}
	a.mu.Lock()
	l, known := a.leases[id]
	running := known && l.rec.Phase == protocol.PhaseRunning
	a.mu.Unlock()
	switch {
	case !known:
		_ = protocol.Refuse(c, &protocol.StreamError{Code: "no_such_lease", Message: "this host has no lease " + id})
		return
	case !running:
		_ = protocol.Refuse(c, &protocol.StreamError{Code: "not_running", Message: "the instance is not running"})
		return
	}
	inside, err := a.dial(ctx, id, port)
	if err != nil {
		e := &protocol.StreamError{Code: "port_closed", Message: fmt.Sprintf("nothing in the instance answers on port %d", port)}
		if errors.Is(err, runtime.ErrNotRunning) {
			e = &protocol.StreamError{Code: "not_running", Message: "the instance is not running"}
		}
		_ = protocol.Refuse(c, e)
		return
	}
	defer inside.Close()
	if protocol.Accept(c) != nil {
		return
	}
	if port != protocol.InstanceSSHPort { // the instance itself counts sessions of SSH
		a.countStream(l, 1)
		defer a.countStream(l, -1)
	}
	join(c, inside)
}

// countStream counts connections to the lease's ports: somebody who has a page
// open, or waits for an answer, uses the instance.
func (a *Agent) countStream(l *lease, by int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.streams += by
}

// dial tries for a moment while the connection is refused: an instance that has
// just started needs some milliseconds until its server listens.
func (a *Agent) dial(ctx context.Context, id string, port int) (net.Conn, error) {
	deadline := time.Now().Add(2 * time.Second)
	for {
		c, err := a.driver.Dial(ctx, id, port)
		if err == nil || port != protocol.InstanceSSHPort || !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join copies both ways. The end of one direction is passed on, and the other goes
// on: half-closed connections carry answers.
func join(x, y net.Conn) {
	var wg sync.WaitGroup
	wg.Add(2)
	half := func(to, from net.Conn) {
		defer wg.Done()
		_, err := io.Copy(to, from)
		if c, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
			_ = c.CloseWrite()
			return
		}
		// No half-close, or a broken end: nothing useful can follow.
		_ = to.Close()
		_ = from.Close()
	}
	go half(x, y)
	go half(y, x)
	wg.Wait()
}
