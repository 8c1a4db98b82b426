package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
)

const (
	// terminalMessage bounds what a client sends at once, in bytes. Browsers cut
	// what is pasted into pieces of less.
	terminalMessage = 64 << 10
	// terminalProbe is how often a client is asked for a sign of life, and
	// terminalPatience how long it may take to give it, or to take output.
	terminalProbe    = 30 * time.Second
	terminalPatience = 30 * time.Second
	// terminalIdle ends a terminal that nothing was typed into and nothing came
	// out of: an open one keeps its instance from counting as idle, which costs
	// its renter money.
	terminalIdle = time.Hour
)

func (a *API) registerTerminal() {
	registerStream(a, operation{
		ID: "openLeaseTerminal", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/terminal", Summary: "Open a shell in a lease, as a WebSocket", Tag: tagLease, Action: account.EnterLeases,
		Description: "Binary messages are what is typed and what is shown. Text messages are JSON: `{\"type\":\"resize\",\"columns\":80,\"rows\":24}` from the client; from the server `ready` when the shell runs, " +
			"`exit` with `exit_code` when it has ended, and `problem` with an error. A browser, which cannot set headers here, sends its token as the subprotocol `" + webSocketBearer + "TOKEN` beside `" + api.TerminalProtocol + "`. " +
			"The terminal ends when its credentials are revoked, and after an hour in which nothing happened.",
	}, "application/octet-stream", a.leaseTerminal)
}

func (a *API) leaseTerminal(w http.ResponseWriter, r *http.Request, p account.Principal, in *struct {
	LeasePath
	Columns int `query:"columns" minimum:"1" maximum:"1000" default:"80"`
	Rows    int `query:"rows" minimum:"1" maximum:"1000" default:"24"`
	// A browser's socket takes what comes whether or not it is drawn in time.
	Acknowledge bool `query:"acknowledge" doc:"The client says {\"type\":\"shown\",\"bytes\":n} of what it has shown, and gets no more than 512 KiB ahead of that"`
}) error {
	l, err := a.enterable(r.Context(), p, in.LeaseID)
	if err != nil {
		return err
	}
	if !upgrades(r) {
		return fault.New(fault.Invalid, "websocket_needed", "a terminal is a WebSocket; ask for it with the header Upgrade: websocket")
	}
	leave, err := a.inside.take(p.UserID, "terminals", userTerminals)
	if err != nil {
		return err
	}
	defer leave()
	// Pages of other origins have no token to send; that they may not even try is
	// one more lock.
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{api.TerminalProtocol}, OriginPatterns: []string{a.origin}, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil // it has been answered
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(terminalMessage)
	ctx := r.Context() // ends with the credentials
	t := &terminal{conn: conn, last: newMoment(), pace: newPace(in.Acknowledge)}
	defer t.pace.end()
	// A browser is not shown the answer to a WebSocket that is refused, so what is
	// wrong is told inside of one.
	client, err := a.enter(ctx, p, l, "terminal")
	if err != nil {
		t.refuse(problem(ctx, a.log, err))
		return nil
	}
	defer client.Close()
	log := a.log.With("lease", l.ID, "account", p.AccountID, "user", p.UserID)
	log.InfoContext(ctx, "terminal: in")
	defer log.InfoContext(ctx, "terminal: out")
	code, err := t.run(ctx, client, in.Columns, in.Rows)
	if err != nil {
		t.refuse(problem(ctx, a.log, err))
		return nil
	}
	t.say(api.TerminalMessage{Type: "exit", ExitCode: code})
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return nil
}

// terminal is a shell on a WebSocket.
type terminal struct {
	conn *websocket.Conn
	last *instant // when something was last typed or shown
	pace *pace
}

// terminalAhead is how many bytes a client that acknowledges may be behind.
const terminalAhead = 512 << 10

// pace holds output back until the client has shown what it got.
type pace struct {
	mu      sync.Mutex
	changed *sync.Cond
	behind  int64
	off     bool
}

func newPace(on bool) *pace {
	p := &pace{off: !on}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// sent waits until there is room for n bytes more.
func (p *pace) sent(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.off && p.behind > terminalAhead {
		p.changed.Wait()
	}
	p.behind += int64(n)
}

func (p *pace) shown(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.behind = max(0, p.behind-max(0, n))
	p.changed.Broadcast()
}

// end lets everything pass.
func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	p.changed.Broadcast()
}

// instant is a time that several goroutines set.
type instant struct{ nanos atomic.Int64 }

func newMoment() *instant {
	i := &instant{}
	i.now()
	return i
}

func (i *instant) now()                 { i.nanos.Store(time.Now().UnixNano()) }
func (i *instant) since() time.Duration { return time.Since(time.Unix(0, i.nanos.Load())) }

// Write sends what the shell shows. The shell waits for a slow client, and a
// client that takes nothing has gone.
func (t *terminal) Write(p []byte) (int, error) {
	t.pace.sent(len(p))
	t.last.now()
	ctx, cancel := context.WithTimeout(context.Background(), terminalPatience)
	defer cancel()
	return len(p), t.conn.Write(ctx, websocket.MessageBinary, p)
}

func (t *terminal) say(m api.TerminalMessage) {
	text, err := json.Marshal(m)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), terminalPatience)
	defer cancel()
	_ = t.conn.Write(ctx, websocket.MessageText, text)
}

// refuse says why there is no shell, or no more.
func (t *terminal) refuse(problem error) {
	t.say(api.TerminalMessage{Type: "problem", Problem: problem})
	_ = t.conn.Close(websocket.StatusPolicyViolation, "")
}

// run serves a shell until it ends, the client has gone, or ctx has ended; it
// returns the shell's exit code.
func (t *terminal) run(ctx context.Context, client *ssh.Client, columns, rows int) (int, error) {
	s, err := client.NewSession()
	if err != nil {
		return 0, fault.New(fault.Unavailable, "instance_not_ready", "the instance opens no session: %w", err)
	}
	defer s.Close()
	s.Stdout, s.Stderr = t, t
	input, err := s.StdinPipe()
	if err == nil {
		err = s.RequestPty("xterm-256color", rows, columns, ssh.TerminalModes{})
	}
	if err == nil {
		err = s.Shell()
	}
	if err != nil {
		return 0, fault.New(fault.Unavailable, "instance_not_ready", "the instance starts no shell: %w", err)
	}
	t.say(api.TerminalMessage{Type: "ready"})

	defer t.pace.end() // before the session closes, whose output may wait
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }() // ends with the client's connection
	gone := make(chan struct{})
	go func() { // ends with conn
		defer close(gone)
		for {
			kind, content, err := t.conn.Read(context.Background())
			if err != nil {
				return
			}
			t.last.now()
			if kind == websocket.MessageBinary {
				if _, err := input.Write(content); err != nil {
					return
				}
				continue
			}
			var m api.TerminalMessage
			switch {
			case json.Unmarshal(content, &m) != nil:
			case m.Type == "resize" && m.Columns > 0 && m.Rows > 0 && m.Columns <= 1000 && m.Rows <= 1000:
				_ = s.WindowChange(m.Rows, m.Columns)
			case m.Type == "shown":
				t.pace.shown(m.Bytes)
			}
		}
	}()
	tick := time.NewTicker(terminalProbe)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return exitOf(err)
		case <-gone:
			return 0, fault.New(fault.Gone, "terminal_closed", "the client has gone")
		case <-ctx.Done():
			if f, ok := fault.As(context.Cause(ctx)); ok {
				return 0, f
			}
			return 0, fault.New(fault.Gone, "terminal_closed", "the terminal was closed")
		case <-tick.C:
			if t.last.since() > terminalIdle {
				return 0, fault.New(fault.Gone, "terminal_idle", "nothing happened in this terminal for an hour, so that it was closed; open it again to go on")
			}
			asking, cancel := context.WithTimeout(ctx, terminalPatience)
			err := t.conn.Ping(asking)
			cancel()
			if err != nil && ctx.Err() == nil {
				return 0, fault.New(fault.Gone, "terminal_closed", "the client gives no sign of life")
			}
		}
	}
}

// exitOf is a shell's exit code: of one that a signal ended as shells say it.
func exitOf(err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return 128, nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	}
	return 0, fault.New(fault.Unavailable, "instance_lost", "the connection to the instance has ended: it was stopped, or its host is away")
}
