package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

const (
	sshHandshakeTimeout = 30 * time.Second
	// Bounds on what strangers can make the gateway hold before they have shown
	// a key, and renters afterwards.
	sshHandshakes        = 200
	sshHandshakesPerPeer = 20
	sshChannels          = 128
	// sshProbe is how often an idle renter is asked for a sign of life, so that
	// a vanished one does not keep an instance from being idle.
	sshProbe        = 30 * time.Second
	sshProbeTimeout = 30 * time.Second
)

// SSHConfig is what the SSH gateway needs.
type SSHConfig struct {
	Directory  Directory
	Streams    Streams
	HostKey    ssh.Signer // by which renters know the gateway
	GatewayKey ssh.Signer // which instances trust
	Log        *slog.Logger
}

// SSH is the renters' way into their instances: it checks who comes, and then
// passes every channel and request on to the instance's own server, unchanged
// and in both directions. It knows nothing of shells, files or forwarding.
type SSH struct {
	cfg SSHConfig
	log *slog.Logger

	mu      sync.Mutex
	pending []pending // oldest first
}

// NewSSH returns a gateway that Serve has yet to start.
func NewSSH(cfg SSHConfig) *SSH {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &SSH{cfg: cfg, log: cfg.Log}
}

// Serve accepts renters on ln, which it closes, until ctx ends; it returns when
// every connection has been closed.
func (g *SSH) Serve(ctx context.Context, ln net.Listener) error {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if retryAccept(ctx, err) {
				continue
			}
			return fmt.Errorf("accept SSH connections: %w", err)
		}
		release := g.admit(conn)
		all.Go(func() {
			defer g.guard()
			g.serveConn(ctx, conn, release)
		})
	}
}

func (g *SSH) guard() {
	if p := recover(); p != nil {
		g.log.Error("ssh gateway panicked", "panic", p, "stack", string(debug.Stack()))
	}
}

// admit notes a handshake in progress; release, which may be called again, ends
// that. Where there are too many, the oldest gives way: an honest handshake is
// over in a moment, and those that fill the room are the ones that are not.
func (g *SSH) admit(conn net.Conn) (release func()) {
	peer, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		peer = conn.RemoteAddr().String()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	same := 0
	for _, p := range g.pending {
		if p.peer == peer {
			same++
		}
	}
	if len(g.pending) >= sshHandshakes || same >= sshHandshakesPerPeer {
		oldest := slices.IndexFunc(g.pending, func(p pending) bool { return same < sshHandshakesPerPeer || p.peer == peer })
		g.pending[oldest].conn.Close()
		g.pending = slices.Delete(g.pending, oldest, oldest+1)
	}
	g.pending = append(g.pending, pending{peer, conn})
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pending = slices.DeleteFunc(g.pending, func(p pending) bool { return p.conn == conn })
	}
}

// pending is a handshake in progress.
type pending struct {
	peer string // its address, without the port
	conn net.Conn
}

// entry is what authentication found out.
type entry struct {
	target      Target
	fingerprint string
	denied      error // to be shown: the key is right, but the instance cannot be entered now
}

// entryKey carries an entry in ssh.Permissions, which belong to the very key
// that the client has proven to hold; a client may name several before that.
type entryKey struct{}

// serverConfig offers the ciphers; nil: all.
func (g *SSH) serverConfig(ctx context.Context, ciphers []string) *ssh.ServerConfig {
	c := &ssh.ServerConfig{
		Config:        ssh.Config{Ciphers: ciphers},
		ServerVersion: versionLine,
		MaxAuthTries:  10,
		PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			fingerprint := ssh.FingerprintSHA256(key)
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			target, err := g.cfg.Directory.SSHTarget(ctx, meta.User(), fingerprint)
			if err != nil {
				f, ok := fault.As(err)
				if !ok {
					g.log.Error("ssh: look-up failed", "user", meta.User(), "error", err)
					return nil, errors.New("refused")
				}
				if f.Kind == fault.NotFound || f.Kind == fault.Unauthorized || f.Kind == fault.Forbidden {
					return nil, errors.New("refused")
				}
			}
			return &ssh.Permissions{ExtraData: map[any]any{entryKey{}: entry{target: target, fingerprint: fingerprint, denied: err}}}, nil
		},
	}
	c.AddHostKey(g.cfg.HostKey)
	return c
}

func (g *SSH) serveConn(ctx context.Context, raw net.Conn, handshakeOver func()) {
	defer handshakeOver()
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	_ = raw.SetDeadline(time.Now().Add(sshHandshakeTimeout))
	conn, ciphers, err := greet(raw)
	if err != nil {
		return
	}
	_ = raw.SetReadDeadline(time.Now().Add(sshHandshakeTimeout))
	client, channels, requests, err := ssh.NewServerConn(conn, g.serverConfig(ctx, offer(ciphers)))
	if err != nil {
		g.log.Debug("ssh: not let in", "from", raw.RemoteAddr(), "error", err)
		return
	}
	defer client.Close()
	handshakeOver()
	_ = raw.SetDeadline(time.Time{})
	e, ok := client.Permissions.ExtraData[entryKey{}].(entry)
	if !ok {
		return // cannot be: no other method is offered
	}
	log := g.log.With("lease", e.target.LeaseID, "account", e.target.AccountID, "from", raw.RemoteAddr().String())
	if e.denied != nil {
		explain(channels, requests, e.denied)
		return
	}
	inside, err := g.enter(ctx, e.target)
	if err != nil {
		log.Info("ssh: instance not reached", "error", err)
		explain(channels, requests, err)
		return
	}
	log.Info("ssh: in")
	defer log.Info("ssh: out")
	stopChecks := recheck(ctx, func(ctx context.Context) error {
		// By its id: a label may come to mean another lease.
		_, err := g.cfg.Directory.SSHTarget(ctx, e.target.LeaseID, e.fingerprint)
		return err
	}, func() {
		log.Info("ssh: access was revoked")
		raw.Close()
	})
	defer stopChecks()
	proxy(ctx, side{client.Conn, channels, requests}, inside)
}

// side is one of the two SSH connections that are joined.
type side struct {
	conn     ssh.Conn
	channels <-chan ssh.NewChannel
	requests <-chan *ssh.Request
}

// enter connects to the instance's own SSH server.
func (g *SSH) enter(ctx context.Context, t Target) (side, error) {
	stream, err := g.cfg.Streams.OpenStream(ctx, t.HostID, protocol.StreamHeader{Kind: protocol.StreamSSH, LeaseID: t.LeaseID})
	if err != nil {
		return side{}, err
	}
	_ = stream.SetDeadline(time.Now().Add(sshHandshakeTimeout))
	conn, channels, requests, err := ssh.NewClientConn(stream, "instance", &ssh.ClientConfig{
		User: "root",
		Auth: []ssh.AuthMethod{ssh.PublicKeys(g.cfg.GatewayKey)},
		// The stream ends at the host that proved itself to hold this lease, and
		// that host made the instance's key: checking it would prove no more.
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		ClientVersion:   "SSH-2.0-suanli-gateway",
	})
	if err != nil {
		stream.Close()
		return side{}, &protocol.StreamError{Code: "not_ready", Message: "the instance's SSH server does not answer properly yet; try again in a moment (" + err.Error() + ")"}
	}
	_ = stream.SetDeadline(time.Time{})
	return side{conn, channels, requests}, nil
}

// Enter connects to the SSH server of an instance for a caller that has checked
// who asks and for how long, and who closes the client. It is the way of Serve's
// renters from the gateway on.
func (g *SSH) Enter(ctx context.Context, t Target) (*ssh.Client, error) {
	inside, err := g.enter(ctx, t)
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(inside.conn, inside.channels, inside.requests), nil
}

// explain shows a client that may enter why it cannot now: on the first session
// that it opens, as the error output of what it wanted to run.
func explain(channels <-chan ssh.NewChannel, requests <-chan *ssh.Request, reason error) {
	go ssh.DiscardRequests(requests) // ends with the connection
	timeout := time.After(sshHandshakeTimeout)
	for {
		select {
		case <-timeout:
			return
		case ch, ok := <-channels:
			if !ok {
				return
			}
			if ch.ChannelType() != "session" {
				_ = ch.Reject(ssh.ConnectionFailed, reason.Error())
				continue
			}
			explainSession(ch, reason, timeout)
			return
		}
	}
}

func explainSession(ch ssh.NewChannel, reason error, timeout <-chan time.Time) {
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	for {
		select {
		case <-timeout:
			return
		case r, ok := <-requests:
			if !ok {
				return
			}
			runs := r.Type == "shell" || r.Type == "exec" || r.Type == "subsystem"
			if r.WantReply {
				_ = r.Reply(runs || r.Type == "pty-req" || r.Type == "env", nil)
			}
			if runs {
				_, _ = fmt.Fprintf(channel.Stderr(), "suanli: %v\r\n", reason)
				_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{255}))
				_ = channel.CloseWrite()
				channel.Close()
				for range requests { // until the client has closed as well, so that it has read all
				}
				return
			}
		}
	}
}

// proxy joins two SSH connections until either ends.
func proxy(ctx context.Context, client, inside side) {
	p := &sshProxy{slots: make(chan struct{}, sshChannels)}
	defer p.work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closeBoth := sync.OnceFunc(func() { client.conn.Close(); inside.conn.Close() })
	defer closeBoth()
	stop := context.AfterFunc(ctx, closeBoth)
	defer stop()
	p.work.Go(func() { p.requests(client.requests, inside.conn) })
	p.work.Go(func() { p.requests(inside.requests, client.conn) })
	p.work.Go(func() { p.channels(client.channels, inside.conn) })
	p.work.Go(func() { p.channels(inside.channels, client.conn) })
	p.work.Go(func() { probe(ctx, client.conn, closeBoth) })

	var ended sync.WaitGroup
	ended.Go(func() { _ = client.conn.Wait(); closeBoth() })
	ended.Go(func() { _ = inside.conn.Wait(); closeBoth() })
	ended.Wait()
}

// probe ends a connection whose client has gone without a word.
func probe(ctx context.Context, client ssh.Conn, end func()) {
	tick := time.NewTicker(sshProbe)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		overdue := time.AfterFunc(sshProbeTimeout, end)
		_, _, err := client.SendRequest("keepalive@openssh.com", true, nil)
		overdue.Stop()
		if err != nil {
			return
		}
	}
}

type sshProxy struct {
	work  sync.WaitGroup
	slots chan struct{}
}

// requests passes on the requests of a connection, such as those for -R.
func (p *sshProxy) requests(from <-chan *ssh.Request, to ssh.Conn) {
	for r := range from {
		ok, reply, err := to.SendRequest(r.Type, r.WantReply, r.Payload)
		if r.WantReply {
			_ = r.Reply(ok && err == nil, reply)
		}
	}
}

// channels passes on the channels that one side opens.
func (p *sshProxy) channels(from <-chan ssh.NewChannel, to ssh.Conn) {
	for ch := range from {
		select {
		case p.slots <- struct{}{}:
		default:
			_ = ch.Reject(ssh.ResourceShortage, "too many channels on one connection")
			continue
		}
		p.work.Go(func() {
			defer func() { <-p.slots }()
			p.channel(ch, to)
		})
	}
}

func (p *sshProxy) channel(ch ssh.NewChannel, to ssh.Conn) {
	far, farRequests, err := to.OpenChannel(ch.ChannelType(), ch.ExtraData())
	if err != nil {
		reason, message := ssh.ConnectionFailed, err.Error()
		var refused *ssh.OpenChannelError
		if errors.As(err, &refused) {
			reason, message = refused.Reason, refused.Message
		}
		_ = ch.Reject(reason, message)
		return
	}
	near, nearRequests, err := ch.Accept()
	if err != nil {
		far.Close()
		ssh.DiscardRequests(farRequests)
		return
	}
	var both sync.WaitGroup
	var in, out sync.Mutex
	both.Go(func() { moveChannel(far, near, nearRequests, &in, &out) })
	both.Go(func() { moveChannel(near, far, farRequests, &out, &in) })
	both.Wait()
}

// moveChannel passes on all that comes from one side of a channel, and closes
// the other when it has. A channel carries output, errors and requests, and each
// has its own lane here; what was sent in order must not overtake: a close would
// lose the last output, and an end of data makes OpenSSH close the channel, which
// would lose the exit status that came before it.
//
// ours is held while a request is on its way and its answer on the way back. The
// other direction closes its end only between two of them (theirs), or a program
// that ends at once would take away the channel on which the client still waits
// to hear that it started. Nobody holds both.
func moveChannel(to, from ssh.Channel, requests <-chan *ssh.Request, ours, theirs *sync.Mutex) {
	moved := make(chan struct{})
	go func() { // ends with either channel
		defer close(moved)
		var data sync.WaitGroup
		data.Go(func() { _, _ = io.Copy(to, from) })
		data.Go(func() { _, _ = io.Copy(to.Stderr(), from.Stderr()) })
		data.Wait()
	}()
	pass := func(r *ssh.Request) {
		ours.Lock()
		defer ours.Unlock()
		ok, err := to.SendRequest(r.Type, r.WantReply, r.Payload)
		if r.WantReply {
			_ = r.Reply(ok && err == nil, nil)
		}
	}
	ended := moved
	for {
		select {
		case r, ok := <-requests:
			if !ok {
				// The sender has closed the channel: its data has all arrived here,
				// but not all of it may have been passed on.
				<-moved
				theirs.Lock()
				defer theirs.Unlock()
				_ = to.CloseWrite()
				to.Close()
				return
			}
			pass(r)
		case <-ended:
			ended = nil
			// Requests that were sent before the end of data are queued by now.
			for more := true; more; {
				select {
				case r, ok := <-requests:
					if more = ok; ok {
						pass(r)
					}
				default:
					more = false
				}
			}
			_ = to.CloseWrite()
		}
	}
}
