package bus

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

const (
	// maxPayload bounds one message: a full report of a host with hundreds of
	// instances and its inventory stays below it.
	maxPayload = 1 << 20
	// maxPending is what the server buffers for a party that does not read
	// before it drops that party. The others are not slowed down.
	maxPending = 16 << 20
	// writeDeadline is how long one write to a party may take.
	writeDeadline = 10 * time.Second
	// spliceBuffer is for moving bytes between a tunnel and the server. It is
	// small because each of thousands of hosts has two.
	spliceBuffer = 4 << 10
)

// Config says what the bus is made of.
type Config struct {
	// URL is the leaf node address of an outside NATS cluster, which connects
	// the control planes of one cloud: "nats-leaf://user:pass@host:7422", several
	// separated by commas. Empty: this process is the whole bus.
	URL string
	// HostKey returns the public nkey of an enrolled host; not ok: there is no
	// such host, or it may not come in any more.
	HostKey func(ctx context.Context, hostID string) (publicKey string, ok bool)
	Log     *slog.Logger
}

// Bus is the process's NATS server and its own connection to it.
type Bus struct {
	*Conn
	server *server.Server
	log    *slog.Logger
	closed sync.Once
}

// Open starts the bus. Close ends it.
func Open(ctx context.Context, cfg Config) (*Bus, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	secret := rand.Text() // of this process's own connection
	opts := &server.Options{
		ServerName:                 "suanli-" + ident.New(ident.Session),
		DontListen:                 true,
		NoSigs:                     true,
		NoLog:                      true,
		MaxPayload:                 maxPayload,
		MaxPending:                 maxPending,
		WriteDeadline:              writeDeadline,
		AuthTimeout:                10,
		PingInterval:               30 * time.Second,
		MaxPingsOut:                2,
		MaxControlLine:             4096,
		MaxSubs:                    1024,
		AlwaysEnableNonce:          true,
		CustomClientAuthentication: &gatekeeper{secret: secret, hostKey: cfg.HostKey, log: cfg.Log},
	}
	if cfg.URL != "" {
		remote := &server.RemoteLeafOpts{DialTimeout: 5 * time.Second,
			// A host's reports are for the control plane that it is connected to.
			DenyExports: []string{protocol.AnyReportSubject}, DenyImports: []string{protocol.AnyReportSubject}}
		for part := range strings.SplitSeq(cfg.URL, ",") {
			u, err := url.Parse(strings.TrimSpace(part))
			if err != nil || u.Host == "" {
				return nil, fmt.Errorf("bus address %q: want nats-leaf://[user:password@]host:port", part)
			}
			remote.URLs = append(remote.URLs, u)
		}
		opts.LeafNode.ReconnectInterval = time.Second
		opts.LeafNode.Remotes = []*server.RemoteLeafOpts{remote}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start the bus: %w", err)
	}
	s.SetLogger(serverLog{cfg.Log}, false, false)
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return nil, fmt.Errorf("start the bus: the server was not ready within 10 s")
	}
	own, err := s.InProcessConn()
	if err != nil {
		s.Shutdown()
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	conn, err := connect(ctx, own, "", cfg.Log, nats.Name("control"), nats.Token(secret))
	if err != nil {
		s.Shutdown()
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	return &Bus{Conn: conn, server: s, log: cfg.Log}, nil
}

// Close ends the bus and every connection to it.
func (b *Bus) Close() {
	b.closed.Do(func() {
		b.Conn.Close()
		b.server.Shutdown()
		b.server.WaitForShutdown()
	})
}

// ServeConn speaks the bus's protocol with a party on conn until either side or
// ctx ends it; it closes conn. The party must prove that it is an enrolled host.
func (b *Bus) ServeConn(ctx context.Context, conn net.Conn) error {
	inner, err := b.server.InProcessConn()
	if err != nil {
		conn.Close()
		return fmt.Errorf("connect a party to the bus: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close(); inner.Close() })
	defer stop()
	var both sync.WaitGroup
	move := func(to, from net.Conn) {
		// The server closes its end to refuse a party or to drop a slow one; what
		// it wrote before is a last message and is worth delivering.
		_, _ = io.CopyBuffer(onlyWriter{to}, onlyReader{from}, make([]byte, spliceBuffer))
		to.Close()
		from.Close()
	}
	both.Go(func() { move(impatient{conn}, inner) })
	move(inner, conn) // here: thousands of hosts would have a waiting goroutine each
	both.Wait()
	return ctx.Err()
}

// impatient gives up a party that takes nothing for too long. The server does so
// as well, but what we hold for that party would keep us from noticing.
type impatient struct{ net.Conn }

func (i impatient) Write(b []byte) (int, error) {
	if err := i.SetWriteDeadline(time.Now().Add(writeDeadline)); err != nil {
		return 0, err
	}
	return i.Conn.Write(b)
}

// The wrappers keep io.CopyBuffer to its small buffer.
type onlyWriter struct{ io.Writer }
type onlyReader struct{ io.Reader }

// Read gives a tunnel's stream its receiving buffer back when it is empty. Its
// first message, an inventory, is by far the largest, and the room for that would
// be kept as long as the host is connected.
func (r onlyReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if s, ok := r.Reader.(interface{ Shrink() }); ok && n < len(b) {
		s.Shrink()
	}
	return n, err
}

// gatekeeper decides who comes in and what they may do.
type gatekeeper struct {
	secret  string
	hostKey func(ctx context.Context, hostID string) (string, bool)
	log     *slog.Logger
}

// Check implements server.Authentication. It runs on the connection's own
// goroutine, so a slow look-up holds up nobody else.
func (g *gatekeeper) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	if o.Token != "" {
		return subtle.ConstantTimeCompare([]byte(o.Token), []byte(g.secret)) == 1
	}
	hostID := o.Name
	if err := ident.Check(ident.Host, hostID); err != nil || g.hostKey == nil {
		g.log.Warn("bus: refused a party that is no host", "name", hostID)
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	public, ok := g.hostKey(ctx, hostID)
	if !ok || public != o.Nkey || !signed(public, o.Sig, c.GetNonce()) {
		g.log.Warn("bus: refused a host: unknown, or its key is not the one it enrolled with", "host", hostID)
		return false
	}
	c.RegisterUser(&server.User{Username: hostID, Permissions: hostPermissions(hostID)})
	return true
}

func signed(public, signature string, nonce []byte) bool {
	if len(nonce) == 0 {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	key, err := nkeys.FromPublicKey(public)
	return err == nil && key.Verify(nonce, sig) == nil
}

// hostPermissions holds a host to its own subjects. It may answer what it was
// asked, once and in time, wherever the question said.
func hostPermissions(hostID string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{protocol.ReportSubject(hostID)}},
		Subscribe: &server.SubjectPermission{Allow: []string{protocol.CommandSubject(hostID), protocol.InboxPrefix(hostID) + ".>"}},
		Response:  &server.ResponsePermission{MaxMsgs: 1, Expires: 2 * time.Minute},
	}
}

// serverLog passes the server's own log on. Its notices are of no use to an operator.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) {
	l.log.Debug("nats: " + fmt.Sprintf(format, v...))
}
func (l serverLog) Warnf(format string, v ...any)  { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l serverLog) Errorf(format string, v ...any) { l.log.Warn("nats: " + fmt.Sprintf(format, v...)) }
func (l serverLog) Fatalf(format string, v ...any) { l.log.Error("nats: " + fmt.Sprintf(format, v...)) }
func (l serverLog) Debugf(format string, v ...any) {}
func (l serverLog) Tracef(format string, v ...any) {}
