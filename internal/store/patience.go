package store

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sys/unix"
)

// patience says how long PostgreSQL and a process wait for each other.
type patience struct {
	// silence is how long nothing may come on a connection that something is awaited
	// on before the server is asked by another one whether it still works on that.
	silence time.Duration
	// standstill is how long a transaction may do nothing before the server ends it:
	// a process that was suspended, or is cut off, must not keep rows locked that
	// those who take over need.
	standstill time.Duration
}

var usualPatience = patience{silence: 10 * time.Second, standstill: 10 * time.Second}

// How soon either side's system notices that the other one is gone without a word.
const (
	dialPatience   = 5 * time.Second
	keepAliveIdle  = 10 * time.Second
	keepAliveEvery = 5 * time.Second
	keepAliveCount = 3
	unacknowledged = 20 * time.Second
)

// openPostgres opens a pool of connections that do not wait for ever.
func openPostgres(ctx context.Context, address string, p patience) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = dialPatience
	}
	dialer := net.Dialer{Timeout: cfg.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: keepAliveEvery, Count: keepAliveCount},
		Control:         noticeLoss}
	asking := cfg.Copy()
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		ask := asking.Copy()
		// Of several servers the one that the connection is to.
		ask.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		}
		return &watched{Conn: conn, silence: p.silence, ask: ask}, nil
	}
	settings := ""
	for _, s := range []struct {
		name string
		ms   int64
	}{
		{"idle_in_transaction_session_timeout", p.standstill.Milliseconds()},
		{"tcp_keepalives_idle", int64(keepAliveIdle / time.Second)}, {"tcp_keepalives_interval", int64(keepAliveEvery / time.Second)},
		{"tcp_keepalives_count", keepAliveCount}, {"tcp_user_timeout", unacknowledged.Milliseconds()},
	} {
		if _, own := cfg.RuntimeParams[s.name]; !own {
			settings += fmt.Sprintf("SET %s = %d;", s.name, s.ms)
		}
	}
	// Set once it is connected: poolers refuse what they do not know in the greeting.
	pool := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		if _, err := c.PgConn().Exec(ctx, settings).ReadAll(); err != nil {
			return fmt.Errorf("set how long the server waits: %w", err)
		}
		conn := c.PgConn().Conn()
		if t, ok := conn.(*tls.Conn); ok {
			conn = t.NetConn()
		}
		if w, ok := conn.(*watched); ok {
			w.pid.Store(c.PgConn().PID())
		}
		return nil
	}))
	pool.SetMaxOpenConns(16)
	if err := pool.PingContext(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// noticeLoss makes the system give up a TCP connection whose packets nobody
// acknowledges; by itself it tries for a quarter of an hour.
func noticeLoss(network, _ string, c syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	})
	return errors.Join(err, failed)
}

// errCutOff is told of a connection on which no answer will come.
var errCutOff = errors.New("the connection to PostgreSQL is cut off: the server does not work on what an answer was awaited to")

// watched is a connection to PostgreSQL. What is read from it does not come for as
// long as a statement runs or waits for a lock, which may be long; but where
// something between the two swallows what they send, it never comes, and TCP does
// not notice. So the server is asked, by another connection, what it does with this.
type watched struct {
	net.Conn
	silence time.Duration
	ask     *pgx.ConnConfig
	pid     atomic.Uint32 // of the server's process; 0: not connected yet

	mu       sync.Mutex
	deadline time.Time // for reading, as the driver set it
}

// SetDeadline implements net.Conn.
func (w *watched) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return w.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (w *watched) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return w.Conn.SetReadDeadline(t)
}

// wait bounds the next read, unless the driver has bounded it to less.
func (w *watched) wait(most time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := time.Now().Add(most)
	if !w.deadline.IsZero() && w.deadline.Before(t) {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}

// drivers reports whether it was the driver's own deadline that passed.
func (w *watched) drivers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.deadline.IsZero() && !time.Now().Before(w.deadline)
}

// Read implements net.Conn.
func (w *watched) Read(b []byte) (int, error) {
	for idle := false; ; {
		most := w.silence
		if idle {
			most = w.silence / 10
		}
		if err := w.wait(most); err != nil {
			return 0, err
		}
		n, err := w.Conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || w.drivers() || w.pid.Load() == 0 {
			return n, err
		}
		switch {
		case w.working():
			idle = false
		case idle:
			return 0, errCutOff
		default:
			idle = true // it may just have answered
		}
	}
}

// working asks the server whether it executes something for this connection.
func (w *watched) working() bool {
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	c, err := pgx.ConnectConfig(ctx, w.ask)
	if err != nil {
		return false
	}
	defer c.Close(ctx)
	var active bool
	err = c.QueryRow(ctx, `SELECT state = 'active' FROM pg_stat_activity WHERE pid = $1`, int64(w.pid.Load())).Scan(&active)
	return err == nil && active
}
