package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"suanli.dev/internal/bus"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

func seed(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

// open starts a bus that knows hosts by their seeds.
func open(t *testing.T, address string, hosts map[string][]byte) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{
		URL: address,
		HostKey: func(_ context.Context, hostID string) (string, bool) {
			s, ok := hosts[hostID]
			if !ok {
				return "", false
			}
			key, err := bus.PublicKey(s)
			return key, err == nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// join connects a host by a pipe.
func join(t *testing.T, b *bus.Bus, hostID string, s []byte) *bus.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.ServeConn(context.Background(), theirs)
	}()
	c, err := bus.Dial(t.Context(), ours, hostID, s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); <-done })
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after 20 s still not: %s", what)
		case <-tick.C:
		}
	}
}

func TestTwoControlPlanesShareHostsThroughAnOutsideCluster(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	outside, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: port}})
	if err != nil {
		t.Fatal(err)
	}
	outside.Start()
	defer outside.Shutdown()
	if !outside.ReadyForConnections(10 * time.Second) {
		t.Fatal("the outside server did not start")
	}
	address := (&url.URL{Scheme: "nats-leaf", Host: fmt.Sprintf("127.0.0.1:%d", port)}).String()
	id := ident.New(ident.Host)
	a := open(t, address, map[string][]byte{id: seed(1)})
	b := open(t, address, nil)
	host := join(t, a, id, seed(1))
	if _, err := host.Handle(protocol.CommandSubject(id), "", func(context.Context, string, []byte) (any, error) { return "done", nil }); err != nil {
		t.Fatal(err)
	}
	for name, side := range map[string]*bus.Bus{"its own": a, "another": b} {
		if _, err := side.Handle(protocol.AnyReportSubject, "control", func(context.Context, string, []byte) (any, error) { return name, nil }); err != nil {
			t.Fatal(err)
		}
	}
	heard := make(chan string, 1)
	if _, err := b.Subscribe("replica.host", func(_ context.Context, _ string, data []byte) {
		select {
		case heard <- string(data):
		default:
		}
	}); err != nil {
		t.Fatal(err)
	}
	var out string
	eventually(t, "the other control plane commands the host", func() bool {
		return b.Request(t.Context(), protocol.CommandSubject(id), 1, &out) == nil && out == "done"
	})
	for range 20 { // a report is for the control plane that its host is connected to
		if err := host.Request(t.Context(), protocol.ReportSubject(id), 1, &out); err != nil || out != "its own" {
			t.Fatalf("%q took the report (%v), want the control plane that the host is connected to", out, err)
		}
	}
	eventually(t, "one control plane hears another", func() bool {
		if err := a.Publish(t.Context(), "replica.host", "changed"); err != nil {
			t.Fatal(err)
		}
		select {
		case data := <-heard:
			return data == `"changed"`
		default:
			return false
		}
	})
}

func TestQueueSharesRequestsAndEveryoneElseHearsAll(t *testing.T) {
	t.Parallel()
	b := open(t, "", nil)
	var shared, all atomic.Int64
	for range 3 {
		if _, err := b.Handle("work", "q", func(context.Context, string, []byte) (any, error) { shared.Add(1); return nil, nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Subscribe("work", func(context.Context, string, []byte) { all.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		if err := b.Request(t.Context(), "work", 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "30 heard", func() bool { return all.Load() == 30 })
	if shared.Load() != 10 {
		t.Errorf("%d of 10 requests were worked on", shared.Load())
	}
}

func TestClosingAHandlerCancelsAndAwaitsItsWork(t *testing.T) {
	t.Parallel()
	b := open(t, "", nil)
	began := make(chan struct{})
	var ended atomic.Bool
	stop, err := b.Subscribe("work", func(ctx context.Context, _ string, _ []byte) {
		close(began)
		<-ctx.Done()
		ended.Store(true)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), "work", 1); err != nil {
		t.Fatal(err)
	}
	<-began
	stop()
	if !ended.Load() {
		t.Error("the handler was still at work")
	}
}

func TestSlowHandlerDoesNotHoldUpOtherHosts(t *testing.T) {
	t.Parallel()
	slow, quick := ident.New(ident.Host), ident.New(ident.Host)
	b := open(t, "", map[string][]byte{slow: seed(1), quick: seed(2)})
	release := make(chan struct{})
	defer close(release)
	if _, err := b.Handle(protocol.AnyReportSubject, "control", func(ctx context.Context, subject string, _ []byte) (any, error) {
		if subject == protocol.ReportSubject(slow) {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	s, q := join(t, b, slow, seed(1)), join(t, b, quick, seed(2))
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Request(ctx, protocol.ReportSubject(slow), 1, nil)
	}()
	for range 20 {
		if err := q.Request(t.Context(), protocol.ReportSubject(quick), 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-waiting
}

func TestHostThatDoesNotReadIsDroppedAndOthersAreServed(t *testing.T) {
	t.Parallel()
	deaf, well := ident.New(ident.Host), ident.New(ident.Host)
	b := open(t, "", map[string][]byte{deaf: seed(1), well: seed(2)})
	// The deaf host's network takes its subscription and then carries nothing to it.
	ours, theirs := net.Pipe()
	stopped := &stoppable{Conn: ours, stop: make(chan struct{}), closed: make(chan struct{})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = b.ServeConn(context.Background(), theirs)
	}()
	c, err := bus.Dial(t.Context(), stopped, deaf, seed(1), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Handle(protocol.CommandSubject(deaf), "", func(context.Context, string, []byte) (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	close(stopped.stop)
	w := join(t, b, well, seed(2))
	if _, err := w.Handle(protocol.CommandSubject(well), "", func(context.Context, string, []byte) (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	big := string(bytes.Repeat([]byte{'x'}, 900<<10))
	for i := range 40 { // 36 MB
		if err := b.Publish(t.Context(), protocol.CommandSubject(deaf), big); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			if err := b.Request(t.Context(), protocol.CommandSubject(well), 1, nil); err != nil {
				t.Fatalf("the other host: %v", err)
			}
		}
	}
	select {
	case <-served:
	case <-time.After(30 * time.Second):
		t.Error("the deaf host was not dropped")
	}
}

// stoppable is a connection from which, at a point, no more can be read.
type stoppable struct {
	net.Conn
	stop, closed chan struct{}
	once         atomic.Bool
}

func (s *stoppable) Read(b []byte) (int, error) {
	select {
	case <-s.stop:
		<-s.closed
		return 0, io.EOF
	default:
		return s.Conn.Read(b)
	}
}

func (s *stoppable) Close() error {
	if s.once.CompareAndSwap(false, true) {
		close(s.closed)
	}
	return s.Conn.Close()
}
