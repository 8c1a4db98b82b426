package store_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

// swallower is a proxy before a PostgreSQL. What is sent on connections that it was
// told to swallow is taken, acknowledged and never delivered.
type swallower struct {
	address string // of the database, by the proxy
	mu      sync.Mutex
	conns   []*swallowed
}

type swallowed struct {
	mu     sync.Mutex
	cutOff bool
}

func (s *swallowed) passes() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.cutOff
}

// cutOff swallows what is sent on all connections that there are.
func (s *swallower) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.mu.Lock()
		c.cutOff = true
		c.mu.Unlock()
	}
}

func swallow(t *testing.T, address string) *swallower {
	t.Helper()
	cfg, err := pgx.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	network, server := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &swallower{}
	var all sync.WaitGroup
	t.Cleanup(func() { ln.Close(); all.Wait() })
	all.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial(network, server)
			if err != nil {
				in.Close()
				continue
			}
			c := &swallowed{}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			pass := func(to, from net.Conn) {
				defer to.Close()
				b := make([]byte, 4096)
				for {
					n, err := from.Read(b)
					if err != nil {
						return
					}
					if c.passes() {
						if _, err := to.Write(b[:n]); err != nil {
							_, _ = io.Copy(io.Discard, from)
							return
						}
					}
				}
			}
			all.Go(func() { pass(in, out) })
			all.Go(func() { pass(out, in) })
		}
	})
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("host", "127.0.0.1")
	q.Set("port", strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))
	u.RawQuery = q.Encode()
	s.address = u.String()
	return s
}

func impatient(t *testing.T, address string, silence, standstill time.Duration) *store.DB {
	t.Helper()
	db, err := store.OpenImpatient(t.Context(), address, silence, standstill)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestAStatementOnAConnectionThatIsCutOffForGoodEndsAndTheNextOneWorks(t *testing.T) {
	t.Parallel()
	proxy := swallow(t, storetest.PostgresAddress(t))
	db := impatient(t, proxy.address, 300*time.Millisecond, time.Minute)
	exec(t, db, `CREATE TABLE word (text TEXT)`)
	ended := make(chan error, 1)
	go func() {
		// No caller's deadline ends this one.
		ended <- db.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO word VALUES ('lost')`); err != nil {
				return err
			}
			proxy.cutOff()
			_, err := tx.Exec(ctx, `INSERT INTO word VALUES ('lost, too')`)
			return err
		})
	}()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ends as if it had been done")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("after 20 s it still waits for an answer that nobody will give")
	}
	exec(t, db, `INSERT INTO word VALUES ('kept')`)
	var n int
	if err := db.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT COUNT(*) FROM word`).Scan(&n)
	}); err != nil || n != 1 {
		t.Errorf("there are %d rows (%v), want the one", n, err)
	}
}

func TestAStatementThatTakesLongIsWaitedFor(t *testing.T) {
	t.Parallel()
	db := impatient(t, storetest.PostgresAddress(t), 100*time.Millisecond, time.Minute)
	update(t, db, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(1)`)
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(30)`)
		return err
	})
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("with a caller's deadline it ends after %v as %v", time.Since(began), err)
	}
}

func TestAProcessThatStandsStillInATransactionKeepsNoRowsLocked(t *testing.T) {
	t.Parallel()
	address := storetest.PostgresAddress(t)
	suspended, other := impatient(t, address, time.Minute, 500*time.Millisecond), impatient(t, address, time.Minute, time.Minute)
	exec(t, other, `CREATE TABLE wallet (balance BIGINT)`)
	exec(t, other, `INSERT INTO wallet VALUES (1)`)
	took, wake := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- suspended.Update(context.Background(), func(ctx context.Context, tx *store.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE wallet SET balance = 2`); err != nil {
				return err
			}
			close(took)
			<-wake // as by SIGSTOP
			_, err := tx.Exec(ctx, `UPDATE wallet SET balance = 3`)
			return err
		})
	}()
	<-took
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := other.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE wallet SET balance = balance + 10`)
		return err
	}); err != nil {
		t.Errorf("another process waits for it: %v", err)
	}
	close(wake)
	if err := <-ended; err == nil {
		t.Error("what it did before is kept when it wakes up")
	}
	var n int
	if err := other.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT balance FROM wallet`).Scan(&n)
	}); err != nil || n != 11 {
		t.Errorf("the balance is %d (%v), want 11", n, err)
	}
}
