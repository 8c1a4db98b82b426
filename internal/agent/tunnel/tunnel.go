package tunnel

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"suanli.dev/internal/bus"
	"suanli.dev/internal/protocol"
)

// dialTimeout bounds bringing the whole tunnel up.
const dialTimeout = 30 * time.Second

// Identity is what a host keeps from its enrolment.
type Identity struct {
	HostID      string `json:"host_id"`
	Key         []byte `json:"key"`         // seed of the ed25519 key, 32 bytes
	Certificate string `json:"certificate"` // PEM
	Authority   string `json:"authority"`   // PEM: the only authority this host believes
	Address     string `json:"address"`     // host:port to dial; several, separated by commas, are tried in turn
}

// Config says what to dial, and as whom.
type Config struct {
	Identity Identity
	// Last is an address that is tried after all others, since it did not work lately.
	Last string
	// DialTCP replaces the network in tests; nil: TCP.
	DialTCP func(ctx context.Context, address string) (net.Conn, error)
	Log     *slog.Logger
}

// Tunnel is a live connection to the cloud. It is the agent's bus and its streams.
type Tunnel struct {
	session *yamux.Session
	address string
	bus     *bus.Conn // nil: a gateway's
	end     sync.Once
	done    chan struct{}
}

// Dial connects a host. The returned tunnel is up on both levels; when Done is
// closed it is down on both.
func Dial(ctx context.Context, cfg Config) (*Tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	t, err := connect(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	if err := t.joinBus(ctx, cfg); err != nil {
		t.session.Close()
		return nil, fmt.Errorf("dial the cloud at %s: %w", cfg.Identity.Address, err)
	}
	go t.watch()
	return t, nil
}

// DialGateway connects a remote gateway. Its tunnel carries streams only: Request
// and Handle must not be called.
func DialGateway(ctx context.Context, cfg Config) (*Tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	t, err := connect(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	go t.watch()
	return t, nil
}

// connect brings the multiplexed connection up.
func connect(ctx context.Context, cfg *Config) (*Tunnel, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	settings, err := cfg.Identity.tls()
	if err != nil {
		return nil, fmt.Errorf("dial the cloud: %w", err)
	}
	settings.NextProtos = []string{protocol.TunnelALPN}
	conn, address, err := dialAny(ctx, cfg.DialTCP, cfg.Identity.Address, cfg.Last, settings)
	if err != nil {
		return nil, fmt.Errorf("dial the cloud at %s: %w", cfg.Identity.Address, err)
	}
	if p := conn.ConnectionState().NegotiatedProtocol; p != protocol.TunnelALPN {
		conn.Close()
		return nil, fmt.Errorf("dial the cloud at %s: it speaks %q there and not %q; is it the address for agents?", cfg.Identity.Address, p, protocol.TunnelALPN)
	}
	session, err := yamux.Client(protocol.TunnelConn(conn), protocol.TunnelConfig(cfg.Log))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("dial the cloud at %s: %w", cfg.Identity.Address, err)
	}
	return &Tunnel{session: session, address: address, done: make(chan struct{})}, nil
}

// watch ends when either level does, and takes the other along: the server drops
// a host that reads the bus too slowly, and a tunnel without it is of no use.
func (t *Tunnel) watch() {
	defer close(t.done)
	var busDone <-chan struct{}
	if t.bus != nil {
		busDone = t.bus.Done()
	}
	select {
	case <-t.session.CloseChan():
	case <-busDone:
	}
	t.Close()
}

func (t *Tunnel) joinBus(ctx context.Context, cfg Config) error {
	// A TLS 1.3 server refuses a client's certificate after the client thinks
	// that all is well, so this is where a refused host learns of it.
	stop := context.AfterFunc(ctx, func() { t.session.Close() })
	defer stop()
	stream, err := t.Open(protocol.StreamHeader{Kind: protocol.StreamBus})
	if err != nil {
		return err
	}
	t.bus, err = bus.Dial(ctx, stream, cfg.Identity.HostID, cfg.Identity.Key, cfg.Log)
	return err
}

// Request asks the control plane: see bus.Conn.
func (t *Tunnel) Request(ctx context.Context, subject string, in, out any) error {
	return t.bus.Request(ctx, subject, in, out)
}

// Handle answers what the control plane asks on subject: see bus.Conn.
func (t *Tunnel) Handle(subject string, fn func(ctx context.Context, data []byte) (any, error)) (func(), error) {
	return t.bus.Handle(subject, "", func(ctx context.Context, _ string, data []byte) (any, error) {
		return fn(ctx, data)
	})
}

// Accept waits for the next stream that the cloud opens. The caller reads its
// header. It fails when the tunnel is down.
func (t *Tunnel) Accept() (net.Conn, error) {
	s, err := t.session.AcceptStream()
	if err != nil {
		return nil, err
	}
	return protocol.Stream{Stream: s}, nil
}

// Open opens a stream to the cloud and sends its header; a refusal is a
// *protocol.StreamError. After a nil error raw bytes follow.
func (t *Tunnel) Open(h protocol.StreamHeader) (net.Conn, error) {
	s, err := t.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open %s stream: %w", h.Kind, err)
	}
	stream := protocol.Stream{Stream: s}
	_ = stream.SetDeadline(time.Now().Add(dialTimeout))
	if err := protocol.WriteHeader(stream, h); err != nil {
		stream.Close()
		return nil, err
	}
	_ = stream.SetDeadline(time.Time{})
	return stream, nil
}

// Address is the one of the identity's addresses that was reached.
func (t *Tunnel) Address() string { return t.address }

// Done is closed when the tunnel is down.
func (t *Tunnel) Done() <-chan struct{} { return t.done }

// Err says why the tunnel ended, if that is known.
func (t *Tunnel) Err() error {
	if t.bus == nil {
		return nil
	}
	return t.bus.Err()
}

// Close takes the tunnel down.
func (t *Tunnel) Close() error {
	t.end.Do(func() {
		if t.bus != nil {
			t.bus.Close()
		}
		t.session.Close()
	})
	return nil
}

// dialEach bounds one address of several: a control plane that is frozen accepts
// connections and says nothing.
const dialEach = 5 * time.Second

// dialAny dials the addresses in an order of its own, so that hosts spread over
// replicas, until one answers.
func dialAny(ctx context.Context, dial func(context.Context, string) (net.Conn, error), addresses, last string, settings *tls.Config) (*tls.Conn, string, error) {
	list := Addresses(addresses)
	if len(list) < 2 {
		conn, err := dialTLS(ctx, dial, addresses, settings)
		return conn, addresses, err
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	if i := slices.Index(list, last); i >= 0 {
		list = append(slices.Delete(list, i, i+1), last)
	}
	var errs []error
	for _, a := range list {
		one, cancel := context.WithTimeout(ctx, dialEach)
		conn, err := dialTLS(one, dial, a, settings)
		cancel()
		if err == nil {
			return conn, a, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", a, err))
	}
	return nil, "", errors.Join(errs...)
}

// Addresses are the addresses of a list that is separated by commas.
func Addresses(list string) []string {
	var out []string
	for a := range strings.SplitSeq(list, ",") {
		if a = strings.TrimSpace(a); a != "" {
			out = append(out, a)
		}
	}
	return out
}

func dialTLS(ctx context.Context, dial func(context.Context, string) (net.Conn, error), address string, settings *tls.Config) (*tls.Conn, error) {
	if dial == nil {
		dialer := net.Dialer{Timeout: 15 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3}}
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	raw, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, settings)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

func (id Identity) tls() (*tls.Config, error) {
	if len(id.Key) != ed25519.SeedSize {
		return nil, fmt.Errorf("identity of host %s: its key has %d bytes and should have %d; join again", id.HostID, len(id.Key), ed25519.SeedSize)
	}
	leaf, _ := pem.Decode([]byte(id.Certificate))
	if leaf == nil {
		return nil, fmt.Errorf("identity of host %s: its certificate is not PEM; join again", id.HostID)
	}
	authority, err := parseCertificate(id.Authority)
	if err != nil {
		return nil, fmt.Errorf("identity of host %s: the cloud's authority: %w; join again", id.HostID, err)
	}
	settings := trusting(authority)
	settings.Certificates = []tls.Certificate{{Certificate: [][]byte{leaf.Bytes}, PrivateKey: ed25519.NewKeyFromSeed(id.Key)}}
	return settings, nil
}

// trusting returns settings that believe one authority only.
func trusting(authority *x509.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(authority)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool,
		ServerName: protocol.ControlName,
		// Small first records help pages of a browser, not a tunnel.
		DynamicRecordSizingDisabled: true,
		Time: func() time.Time {
			// A machine that has lost its clock starts in 1970. The authority is
			// pinned, so dates add nothing to trust here.
			now := time.Now()
			if now.Before(authority.NotBefore) || now.After(authority.NotAfter) {
				return authority.NotBefore.Add(72 * time.Hour)
			}
			return now
		},
	}
}

func parseCertificate(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}
