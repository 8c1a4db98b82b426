package gateway

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"suanli.dev/internal/fault"
)

// recheckEvery is how often it is asked whether what is open may still be open.
// With accessKept it is the longest that a revoked link or key works on, which
// docs/renter.md promises to be within five seconds.
const recheckEvery = 2 * time.Second

// revoked reports whether an answer says that access has ended. A directory that
// cannot be asked now, or an instance that is being stopped, ends nothing here.
func revoked(err error) bool {
	f, ok := fault.As(err)
	return ok && (f.Kind == fault.NotFound || f.Kind == fault.Unauthorized || f.Kind == fault.Forbidden || f.Kind == fault.Gone)
}

// recheck calls end once ask says that access was revoked, until stop is called.
// Most requests are over before it asks, and cost a timer and no goroutine.
func recheck(ctx context.Context, ask func(context.Context) error, end func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var timer *time.Timer
	timer = time.AfterFunc(time.Hour, func() {
		asking, done := context.WithTimeout(ctx, lookUpTime)
		err := ask(asking)
		done()
		switch {
		case ctx.Err() != nil:
		case err != nil && revoked(err):
			end()
		default:
			timer.Reset(recheckEvery)
		}
	})
	timer.Reset(recheckEvery) // not before it is known to its own function
	return func() { cancel(); timer.Stop() }
}

// severable is a response that can be ended from outside, also once it has become
// a WebSocket and while its client reads nothing.
type severable struct {
	http.ResponseWriter

	mu   sync.Mutex
	conn net.Conn // once it is hijacked
	over bool
}

// Unwrap lets http.ResponseController flush and set deadlines.
func (s *severable) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Hijack implements http.Hijacker.
func (s *severable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(s.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		conn.Close()
	}
	s.conn = conn
	return conn, rw, nil
}

func (s *severable) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.conn != nil {
		s.conn.Close()
		return
	}
	c := http.NewResponseController(s.ResponseWriter)
	_ = c.SetReadDeadline(time.Unix(1, 0))
	_ = c.SetWriteDeadline(time.Unix(1, 0))
}
