package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

// requestTimeout bounds a request whose context has no deadline of its own.
const requestTimeout = 30 * time.Second

// handlersAtOnce is how many messages one Handle or Subscribe works on at the
// same time. Work waits on the store, so it is more than there are cores; it is
// bounded, so that a burst of messages queues here and not in the store.
const handlersAtOnce = 64

// faultHeader marks a reply that is a fault and not a value.
const faultHeader = "Suanli-Fault"

// Conn is one party's connection to the bus. Its methods may be called from any
// goroutine.
type Conn struct {
	nc   *nats.Conn
	log  *slog.Logger
	host string // empty: the control plane itself
	done chan struct{}
	end  sync.Once

	mu  sync.Mutex
	err error
}

// wireFault is a fault as it travels in a reply.
type wireFault struct {
	Kind    fault.Kind `json:"kind"`
	Code    string     `json:"code"`
	Message string     `json:"message"`
}

// Dial connects a host to the bus over stream, which it owns from now on, and
// proves the host's identity with its seed (the 32 bytes of its ed25519 key).
// The connection is not redialled: when it ends, Done is closed, and the owner
// of the stream makes another.
func Dial(ctx context.Context, stream net.Conn, hostID string, seed []byte, log *slog.Logger) (*Conn, error) {
	key, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, seed)
	if err != nil {
		stream.Close()
		return nil, fmt.Errorf("key of host %s for the bus: %w", hostID, err)
	}
	public, err := key.PublicKey()
	if err != nil {
		stream.Close()
		return nil, fmt.Errorf("key of host %s for the bus: %w", hostID, err)
	}
	c, err := connect(ctx, stream, hostID, log,
		nats.Name(hostID),
		nats.CustomInboxPrefix(protocol.InboxPrefix(hostID)),
		nats.Nkey(public, key.Sign))
	if err != nil {
		stream.Close()
		return nil, fmt.Errorf("connect host %s to the bus: %w", hostID, err)
	}
	return c, nil
}

// PublicKey returns the public nkey of a host's seed, which it enrols with.
func PublicKey(seed []byte) (string, error) {
	key, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, seed)
	if err != nil {
		return "", fmt.Errorf("make a bus key: %w", err)
	}
	return key.PublicKey()
}

func connect(ctx context.Context, stream net.Conn, hostID string, log *slog.Logger, options ...nats.Option) (*Conn, error) {
	c := &Conn{log: log, host: hostID, done: make(chan struct{})}
	timeout := 10 * time.Second
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(d))
	}
	options = append(options,
		nats.SetCustomDialer(oneConn{stream}),
		nats.NoReconnect(),
		nats.Timeout(timeout),
		nats.PingInterval(20*time.Second),
		nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, s *nats.Subscription, err error) {
			subject := ""
			if s != nil {
				subject = s.Subject
			}
			c.setErr(err)
			log.Warn("bus", "host", hostID, "subject", subject, "error", err)
		}),
		nats.ClosedHandler(func(nc *nats.Conn) {
			c.setErr(nc.LastError())
			c.end.Do(func() { close(c.done) })
		}))
	// The address is not dialled; a number keeps the client from asking DNS for it.
	nc, err := nats.Connect("nats://127.0.0.1", options...)
	if err != nil {
		return nil, err
	}
	c.nc = nc
	return c, nil
}

// oneConn is a NATS dialer that hands out a connection that is already there.
type oneConn struct{ conn net.Conn }

func (o oneConn) Dial(_, _ string) (net.Conn, error) { return o.conn, nil }

func (c *Conn) setErr(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// Err returns the last error that the server or the connection reported.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Close ends the connection and, with it, every subscription.
func (c *Conn) Close() { c.nc.Close() }

// Publish sends v as JSON to whoever listens now.
func (c *Conn) Publish(ctx context.Context, subject string, v any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("publish on %s: %w", subject, err)
	}
	if err := c.nc.Publish(subject, b); err != nil {
		return fmt.Errorf("publish on %s: %w", subject, err)
	}
	return nil
}

// Request sends in as JSON and decodes the answer into out, which may be nil. A
// fault of the handler comes back as a *fault.Error; when nobody listens on the
// subject the fault's code is "no_responder" and its kind Unavailable.
func (c *Conn) Request(ctx context.Context, subject string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("request on %s: %w", subject, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, requestTimeout)
		defer cancel()
	}
	reply, err := c.nc.RequestWithContext(ctx, subject, b)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fault.New(fault.Unavailable, "no_responder", "request on %s: nobody listens there now; try again", subject)
	case err != nil:
		return fmt.Errorf("request on %s: %w", subject, err)
	}
	if reply.Header.Get(faultHeader) != "" {
		var f wireFault
		if err := json.Unmarshal(reply.Data, &f); err != nil {
			return fmt.Errorf("request on %s: decode the fault: %w", subject, err)
		}
		return fault.New(f.Kind, f.Code, "%s", f.Message)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(reply.Data, out); err != nil {
		return fmt.Errorf("request on %s: decode the answer: %w", subject, err)
	}
	return nil
}

// Subscribe calls fn for each message on subject until the returned function is
// called. Messages are worked on concurrently and may overtake each other.
func (c *Conn) Subscribe(subject string, fn func(ctx context.Context, subject string, data []byte)) (func(), error) {
	return c.serve(subject, "", func(ctx context.Context, m *nats.Msg) {
		fn(ctx, m.Subject, m.Data)
	})
}

// Handle answers requests on subject with what fn returns, as JSON, until the
// returned function is called, which waits for the calls in progress. Parties
// that name the same queue share the requests between them; an empty queue
// means that everyone hears all. A panic of fn is logged and answered as an
// internal fault: one poisonous request must not stop the others.
func (c *Conn) Handle(subject, queue string, fn func(ctx context.Context, subject string, data []byte) (any, error)) (func(), error) {
	return c.serve(subject, queue, func(ctx context.Context, m *nats.Msg) {
		if m.Reply == "" {
			c.log.Warn("bus: request without a reply subject", "subject", m.Subject)
			return
		}
		if !replyAllowed(m.Subject, m.Reply) {
			// We would publish on the host's behalf where it may not: on another
			// host's command subject, for one.
			c.log.Warn("bus: refused a reply subject that is not the sender's", "subject", m.Subject, "reply", m.Reply)
			return
		}
		c.answer(ctx, m, fn)
	})
}

// replyAllowed reports whether an answer to a message on subject may go to
// reply. What comes from a host goes back to that host's own inbox only.
func replyAllowed(subject, reply string) bool {
	from, ok := strings.CutPrefix(subject, "control.")
	if !ok {
		return true
	}
	hostID, _, _ := strings.Cut(from, ".")
	return strings.HasPrefix(reply, protocol.InboxPrefix(hostID)+".")
}

func (c *Conn) answer(ctx context.Context, m *nats.Msg, fn func(ctx context.Context, subject string, data []byte) (any, error)) {
	v, err := call(ctx, m, fn, c.log)
	reply := nats.NewMsg(m.Reply)
	if err == nil {
		reply.Data, err = json.Marshal(v)
	}
	if err != nil {
		f := wireFault{Kind: fault.Internal, Code: "internal", Message: "the request could not be handled; the log of the side that was asked says why"}
		if known, ok := fault.As(err); ok {
			f = wireFault{Kind: known.Kind, Code: known.Code, Message: err.Error()}
		} else {
			c.log.Error("bus: request failed", "subject", m.Subject, "error", err)
		}
		reply.Header.Set(faultHeader, f.Code)
		reply.Data, _ = json.Marshal(f) // of strings and a number: cannot fail
	}
	if err := c.nc.PublishMsg(reply); err != nil {
		c.log.Warn("bus: answer not sent", "subject", m.Subject, "error", err)
	}
}

func call(ctx context.Context, m *nats.Msg, fn func(ctx context.Context, subject string, data []byte) (any, error), log *slog.Logger) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("bus: handler panicked", "subject", m.Subject, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("handler panicked: %v", p)
		}
	}()
	return fn(ctx, m.Subject, m.Data)
}

// serve subscribes and runs work for each message in its own goroutine, at most
// handlersAtOnce together. The returned function unsubscribes, cancels the
// context of what runs, and waits for it.
func (c *Conn) serve(subject, queue string, work func(context.Context, *nats.Msg)) (func(), error) {
	ctx, cancel := context.WithCancel(context.Background())
	slots := make(chan struct{}, handlersAtOnce)
	var running sync.WaitGroup
	var mu sync.Mutex
	closed := false
	receive := func(m *nats.Msg) {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		mu.Lock()
		if closed {
			mu.Unlock()
			<-slots
			return
		}
		running.Add(1)
		mu.Unlock()
		go func() {
			defer running.Done()
			defer func() { <-slots }()
			work(ctx, m)
		}()
	}
	var sub *nats.Subscription
	var err error
	if queue == "" {
		sub, err = c.nc.Subscribe(subject, receive)
	} else {
		sub, err = c.nc.QueueSubscribe(subject, queue, receive)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	// Until the server has read the subscription a request finds nobody.
	if err := c.nc.FlushTimeout(10 * time.Second); err != nil {
		cancel()
		_ = sub.Unsubscribe()
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	return func() {
		_ = sub.Unsubscribe() // fails only when the connection is closed, which ends it as well
		cancel()
		mu.Lock()
		closed = true
		mu.Unlock()
		running.Wait()
	}, nil
}
