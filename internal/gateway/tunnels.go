package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/intake"
	"suanli.dev/internal/protocol"
)

const (
	handshakeTimeout = 15 * time.Second
	headerTimeout    = 15 * time.Second
	// openTimeout is how long a host may take to accept a stream: it dials into
	// the instance before it answers.
	openTimeout = 15 * time.Second
	// probeTimeout is how long an older tunnel of the same host has to prove
	// that it lives.
	probeTimeout = 3 * time.Second
	// streamsPerPeer is how many streams a peer may have open towards us.
	streamsPerPeer = 256
	// tunnelsPerPeer leaves room for an old tunnel that has not been noticed to
	// be dead, and keeps a host in a loop from piling them up.
	tunnelsPerPeer = 4
)

// TunnelsConfig is what Tunnels needs.
type TunnelsConfig struct {
	Authority *Authority
	// ServeBus speaks the bus's protocol on a stream until it ends (bus.Bus.ServeConn).
	ServeBus func(ctx context.Context, conn net.Conn) error
	// Registry serves the cloud's images to hosts; nil: there is none.
	Registry http.Handler
	// Agents answers plain HTTPS on the same port: enrolment. Required.
	Agents http.Handler
	// Admit says whether a host with a good certificate may come in; nil: all.
	// A host that has been forgotten is refused here.
	Admit func(ctx context.Context, hostID string) error
	// AdmitGateway says the same of a gateway elsewhere; nil: all.
	AdmitGateway func(ctx context.Context, gatewayID string) error
	// Elsewhere opens a stream on a host that has no tunnel to this process, by the
	// replica that it is connected to; nil: there is no other.
	Elsewhere func(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error)
	// Replica reports whether a gateway's identifier is another replica's, which asks
	// for hosts that are connected here and is never sent on.
	Replica func(gatewayID string) bool
	// Directory answers remote gateways; nil: there are none.
	Directory Directory
	Log       *slog.Logger
}

// Tunnels is the server side of all tunnels of this process.
type Tunnels struct {
	cfg TunnelsConfig
	log *slog.Logger

	mu       sync.Mutex
	hosts    map[string][]*yamux.Session // the first is in use, the others stand by
	gateways map[string][]*yamux.Session // of gateways elsewhere, all in use
}

// NewTunnels returns Tunnels that Serve has yet to start.
func NewTunnels(cfg TunnelsConfig) *Tunnels {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Tunnels{cfg: cfg, log: cfg.Log, hosts: map[string][]*yamux.Session{}, gateways: map[string][]*yamux.Session{}}
}

// Serve accepts hosts on ln, which it closes, until ctx ends; it returns when
// every connection has been closed.
func (t *Tunnels) Serve(ctx context.Context, ln net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	agents := newConnServer(t.cfg.Agents, t.log)
	all.Go(func() { agents.serve(ctx) })
	registry := newConnServer(t.cfg.Registry, t.log)
	all.Go(func() { registry.serve(ctx) })

	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	settings := t.cfg.Authority.TLS()
	for {
		raw, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if retryAccept(ctx, err) {
				continue
			}
			return fmt.Errorf("accept hosts: %w", err)
		}
		all.Go(func() {
			defer t.guard("tunnel")
			t.serveConn(ctx, raw, settings, agents, registry)
		})
	}
}

// retryAccept waits a moment after an error that passes, such as having too
// many files open. It reports whether to go on.
func retryAccept(ctx context.Context, err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(100 * time.Millisecond):
		return true
	}
}

// guard keeps one poisonous connection from taking the process along.
func (t *Tunnels) guard(what string) {
	if p := recover(); p != nil {
		t.log.Error(what+" panicked", "panic", p, "stack", string(debug.Stack()))
	}
}

func (t *Tunnels) serveConn(ctx context.Context, raw net.Conn, settings *tls.Config, agents, registry *connServer) {
	conn := tls.Server(raw, settings)
	hctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	err := conn.HandshakeContext(hctx)
	cancel()
	if err != nil {
		raw.Close()
		t.log.Debug("tunnel: handshake failed", "from", raw.RemoteAddr(), "error", err)
		return
	}
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != protocol.TunnelALPN {
		agents.hand(ctx, conn)
		return
	}
	defer conn.Close()
	if len(state.PeerCertificates) == 0 {
		t.log.Warn("tunnel: refused a peer without a certificate", "from", raw.RemoteAddr())
		return
	}
	t.serveTunnel(ctx, conn, peerOf(state.PeerCertificates[0]), registry)
}

// peer is who is at the other end of a tunnel.
type peer struct {
	id      string
	gateway bool
}

func peerOf(c *x509.Certificate) peer {
	return peer{id: c.Subject.CommonName, gateway: slices.Contains(c.Subject.OrganizationalUnit, gatewayUnit)}
}

func (t *Tunnels) serveTunnel(ctx context.Context, conn net.Conn, p peer, registry *connServer) {
	admit := t.cfg.Admit
	if p.gateway {
		admit = t.cfg.AdmitGateway
	}
	if admit != nil {
		if err := admit(ctx, p.id); err != nil {
			t.log.Warn("tunnel: refused a peer", "peer", p.id, "from", conn.RemoteAddr(), "error", err)
			t.refuse(conn, err)
			return
		}
	}
	session, err := yamux.Server(protocol.TunnelConn(conn), protocol.TunnelConfig(t.log))
	if err != nil {
		t.log.Error("tunnel", "host", p.id, "error", err)
		return
	}
	defer session.Close()
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()

	if !t.add(p, session) {
		t.log.Warn("tunnel: refused a host that has too many tunnels open", "host", p.id)
		return
	}
	defer t.remove(p, session)
	if c, ok := conn.(*tls.Conn); ok {
		intake.Vouch(c.NetConn())
	}
	t.log.Info("tunnel up", "host", p.id, "from", conn.RemoteAddr())
	defer t.log.Info("tunnel down", "host", p.id)

	ctx, cancel := context.WithCancel(ctx)
	var streams sync.WaitGroup
	defer streams.Wait()
	defer cancel()
	defer session.Close() // first: streams end with it
	slots := make(chan struct{}, streamsPerPeer)
	for {
		s, err := session.AcceptStream()
		if err != nil {
			return
		}
		stream := protocol.Stream{Stream: s}
		select {
		case slots <- struct{}{}:
		default:
			stream.Close()
			continue
		}
		streams.Go(func() {
			defer func() { <-slots }()
			defer t.guard("stream of host " + p.id)
			t.serveStream(ctx, p, stream, registry)
		})
	}
}

// refuse tells a peer why it may not come in, on the first stream that it opens.
// Only a fault has words for it.
func (t *Tunnels) refuse(conn net.Conn, why error) {
	f, ok := fault.As(why)
	if !ok {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(openTimeout))
	session, err := yamux.Server(conn, protocol.TunnelConfig(t.log))
	if err != nil {
		return
	}
	defer session.Close()
	stop := time.AfterFunc(openTimeout, func() { session.Close() })
	defer stop.Stop()
	stream, err := session.AcceptStream()
	if err != nil {
		return
	}
	_ = stream.SetDeadline(time.Now().Add(openTimeout))
	if _, err := protocol.ReadHeader(stream); err == nil {
		_ = protocol.Refuse(stream, &protocol.StreamError{Code: f.Code, Message: f.Message})
		_, _ = io.Copy(io.Discard, io.LimitReader(stream, 1)) // until the peer has read it and hangs up
	}
}

// add notes a tunnel. A host that reconnects before we have noticed that its old
// tunnel is dead must get its traffic by the new one at once; a second machine
// with a stolen key must not take over a live host's traffic. So the old one is
// asked for a sign of life.
func (t *Tunnels) add(p peer, s *yamux.Session) bool {
	if p.gateway {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.gateways[p.id] = append(t.gateways[p.id], s)
		return true
	}
	t.mu.Lock()
	old := slices.Clone(t.hosts[p.id])
	t.mu.Unlock()
	for _, o := range old {
		if !alive(o) {
			o.Close()
			t.remove(p, o)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hosts[p.id]) >= tunnelsPerPeer {
		return false
	}
	t.hosts[p.id] = append(t.hosts[p.id], s)
	return true
}

// alive asks a session for a sign of life.
func alive(s *yamux.Session) bool {
	answered := make(chan bool, 1)
	go func() { // ends with the session's own write timeout at the latest
		_, err := s.Ping()
		answered <- err == nil
	}()
	select {
	case ok := <-answered:
		return ok
	case <-time.After(probeTimeout):
		return false
	}
}

func (t *Tunnels) remove(p peer, s *yamux.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.hosts
	if p.gateway {
		of = t.gateways
	}
	rest := slices.DeleteFunc(of[p.id], func(o *yamux.Session) bool { return o == s })
	if len(rest) == 0 {
		delete(of, p.id)
		return
	}
	of[p.id] = rest
}

func (t *Tunnels) session(hostID string) *yamux.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.hosts[hostID] {
		if !s.IsClosed() {
			return s
		}
	}
	return nil
}

// Connected reports whether the host has a tunnel to this process.
func (t *Tunnels) Connected(hostID string) bool { return t.session(hostID) != nil }

// Hosts returns how many hosts have a tunnel to this process.
func (t *Tunnels) Hosts() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.hosts)
}

// DisconnectAll closes the tunnels of all hosts and gateways, so that they go to
// another replica.
func (t *Tunnels) DisconnectAll() {
	t.mu.Lock()
	var sessions []*yamux.Session
	for _, of := range []map[string][]*yamux.Session{t.hosts, t.gateways} {
		for _, list := range of {
			sessions = append(sessions, list...)
		}
	}
	t.mu.Unlock()
	for _, s := range sessions {
		s.Close()
	}
}

// Disconnect closes every tunnel of a host or a gateway, for one that is no
// longer welcome.
func (t *Tunnels) Disconnect(id string) {
	t.mu.Lock()
	sessions := slices.Concat(t.hosts[id], t.gateways[id])
	t.mu.Unlock()
	for _, s := range sessions {
		s.Close()
	}
}

// OpenStream opens a stream on a host. A host without a tunnel, and whatever the
// host refuses, is a *protocol.StreamError. ctx bounds the opening only.
func (t *Tunnels) OpenStream(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error) {
	session := t.session(hostID)
	if session == nil && t.cfg.Elsewhere != nil {
		return t.cfg.Elsewhere(ctx, hostID, h)
	}
	return t.openHere(ctx, session, h)
}

// openHere opens a stream on the host at the other end of a tunnel.
func (t *Tunnels) openHere(ctx context.Context, session *yamux.Session, h protocol.StreamHeader) (net.Conn, error) {
	if session == nil {
		return nil, &protocol.StreamError{Code: "host_offline", Message: "the host of this instance is not connected now; it is tried again when it comes back"}
	}
	s, err := session.OpenStream()
	if err != nil {
		return nil, &protocol.StreamError{Code: "host_offline", Message: "the connection to the host of this instance broke: " + err.Error()}
	}
	stream := protocol.Stream{Stream: s}
	_ = stream.SetDeadline(time.Now().Add(openTimeout))
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	err = protocol.WriteHeader(stream, h)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		stream.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var refused *protocol.StreamError
		if errors.As(err, &refused) {
			return nil, refused
		}
		return nil, &protocol.StreamError{Code: "host_offline", Message: "the host of this instance did not answer: " + err.Error()}
	}
	_ = stream.SetDeadline(time.Time{})
	return stream, nil
}

// serveStream serves one stream that the peer opened.
func (t *Tunnels) serveStream(ctx context.Context, p peer, s protocol.Stream, registry *connServer) {
	_ = s.SetReadDeadline(time.Now().Add(headerTimeout))
	h, err := protocol.ReadHeader(s)
	_ = s.SetReadDeadline(time.Time{})
	if err != nil {
		s.Close()
		t.log.Warn("tunnel: bad stream header", "host", p.id, "error", err)
		return
	}
	switch {
	case h.Kind == protocol.StreamBus && t.cfg.ServeBus != nil && !p.gateway:
		if protocol.Accept(s) != nil {
			s.Close()
			return
		}
		_ = t.cfg.ServeBus(ctx, s) // ends when either side does; the bus logs refusals
	case h.Kind == protocol.StreamRegistry && t.cfg.Registry != nil:
		if protocol.Accept(s) != nil {
			s.Close()
			return
		}
		registry.handAndWait(ctx, s)
	case h.Kind == protocol.StreamSpeed:
		defer s.Close()
		if protocol.Accept(s) == nil {
			protocol.ServeSpeed(s, h.Bytes)
		}
	case h.Kind == protocol.StreamRelay && p.gateway && h.Inner != nil:
		defer s.Close()
		t.relay(ctx, p, s, h)
	case h.Kind == protocol.StreamLookUp && p.gateway && t.cfg.Directory != nil:
		defer s.Close()
		if protocol.Accept(s) == nil {
			t.lookUp(ctx, s)
		}
	default:
		_ = protocol.Refuse(s, &protocol.StreamError{Code: "forbidden", Message: fmt.Sprintf("streams of kind %q are not served to this peer", h.Kind)})
		s.Close()
	}
}

// relay joins a remote gateway's stream to one on a host.
func (t *Tunnels) relay(ctx context.Context, p peer, s protocol.Stream, h protocol.StreamHeader) {
	open := t.OpenStream
	if t.cfg.Replica != nil && t.cfg.Replica(p.id) {
		open = func(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error) {
			return t.openHere(ctx, t.session(hostID), h)
		}
	}
	target, err := open(ctx, h.Host, *h.Inner)
	if err != nil {
		_ = protocol.Refuse(s, err)
		return
	}
	defer target.Close()
	if protocol.Accept(s) != nil {
		return
	}
	splice(ctx, s, target)
}

// halfCloser is a connection whose writing half can be closed alone.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// splice moves bytes both ways until both directions have ended or ctx has, and
// passes on half closes. The caller closes both connections.
func splice(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() { a.Close(); b.Close() })
	defer stop()
	var both sync.WaitGroup
	move := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		if h, ok := to.(halfCloser); ok && err == nil {
			_ = h.CloseWrite()
			return
		}
		to.Close()
		from.Close()
	}
	both.Go(func() { move(a, b) })
	both.Go(func() { move(b, a) })
	both.Wait()
}
