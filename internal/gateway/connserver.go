package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// connServer is an HTTP server for connections that somebody else accepted.
type connServer struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newConnServer(h http.Handler, log *slog.Logger) *connServer {
	if h == nil {
		h = http.NotFoundHandler()
	}
	return &connServer{
		server: &http.Server{
			Handler:           h,
			ReadHeaderTimeout: headerTimeout,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		conns:  make(chan net.Conn),
		closed: make(chan struct{}),
	}
}

// serve answers until ctx ends, and closes every connection then.
func (s *connServer) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.server.Close() })
	defer stop()
	if err := s.server.Serve(s); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		panic("gateway: a listener that cannot fail failed: " + err.Error())
	}
}

// hand gives the server a connection; the server closes it.
func (s *connServer) hand(ctx context.Context, c net.Conn) {
	select {
	case s.conns <- c:
	case <-s.closed:
		c.Close()
	case <-ctx.Done():
		c.Close()
	}
}

// handAndWait gives the server a connection and returns when it is closed.
func (s *connServer) handAndWait(ctx context.Context, c net.Conn) {
	w := &watched{Conn: c, done: make(chan struct{})}
	s.hand(ctx, w)
	select {
	case <-w.done:
	case <-ctx.Done():
		w.Close()
	}
}

type watched struct {
	net.Conn
	done chan struct{}
	once sync.Once
}

func (w *watched) Close() error {
	w.once.Do(func() { close(w.done) })
	return w.Conn.Close()
}

// Accept implements net.Listener.
func (s *connServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *connServer) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *connServer) Addr() net.Addr { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "tunnel" }
func (streamAddr) String() string  { return "tunnel" }
