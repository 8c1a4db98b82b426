package gateway

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

const (
	redialFirst = time.Second
	redialMost  = 30 * time.Second
	lookUpTime  = 10 * time.Second
	// questionLimit bounds a question and its answer, in bytes.
	questionLimit = 16 << 10
)

// question is what a remote gateway asks the control plane.
type question struct {
	Kind        string `json:"kind"` // "ssh", "http", "keys"
	User        string `json:"user,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Lease       string `json:"lease,omitempty"`
	Port        int    `json:"port,omitempty"`
	Token       string `json:"token,omitempty"`
}

// answer is what it is told.
type answer struct {
	Target  Target       `json:"target"`
	Fault   *answerFault `json:"fault,omitempty"`
	HostKey []byte       `json:"host_key,omitempty"`    // seed
	Gateway []byte       `json:"gateway_key,omitempty"` // seed
}

type answerFault struct {
	Kind    fault.Kind `json:"kind"`
	Code    string     `json:"code"`
	Message string     `json:"message"`
}

// lookUp answers one question of a remote gateway.
func (t *Tunnels) lookUp(ctx context.Context, s protocol.Stream) {
	_ = s.SetDeadline(time.Now().Add(lookUpTime))
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	var q question
	if json.NewDecoder(io.LimitReader(s, questionLimit)).Decode(&q) != nil {
		return
	}
	var a answer
	var err error
	switch q.Kind {
	case "ssh":
		a.Target, err = t.cfg.Directory.SSHTarget(ctx, q.User, q.Fingerprint)
	case "http":
		a.Target, err = t.cfg.Directory.HTTPTarget(ctx, q.Lease, q.Port, q.Token)
	case "keys":
		// A gateway that may open any stream may enter any instance already.
		a.HostKey, a.Gateway = t.cfg.Authority.hostSeed, t.cfg.Authority.gatewaySeed
	default:
		err = fault.New(fault.Invalid, "unknown_question", "this control plane does not know the question %q; is the gateway newer?", q.Kind)
	}
	if err != nil {
		a.Fault = &answerFault{Kind: fault.Internal, Code: "internal", Message: "the look-up failed; the control plane's log says why"}
		if f, ok := fault.As(err); ok {
			*a.Fault = answerFault{Kind: f.Kind, Code: f.Code, Message: f.Message}
		} else {
			t.log.Error("look-up for a gateway failed", "kind", q.Kind, "error", err)
		}
	}
	_ = json.NewEncoder(s).Encode(a) // the gateway may be gone
}

// Remote is a gateway's connection to a control plane elsewhere. It is the
// Directory and the Streams of the gateway's SSH and HTTP servers.
type Remote struct {
	identity tunnel.Identity
	log      *slog.Logger

	mu      sync.Mutex
	current *tunnel.Tunnel
}

// NewRemote returns a connection that Run has yet to bring up. The identity is a
// gateway's: its certificate is from Authority.SignGateway.
func NewRemote(identity tunnel.Identity, log *slog.Logger) *Remote {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Remote{identity: identity, log: log}
}

// Run keeps the connection up until ctx ends.
func (r *Remote) Run(ctx context.Context) error {
	wait, last := redialFirst, ""
	for ctx.Err() == nil {
		t, err := tunnel.DialGateway(ctx, tunnel.Config{Identity: r.identity, Last: last, Log: r.log})
		if err == nil {
			last = t.Address()
			wait = redialFirst
			r.log.Info("connected to the control plane", "address", last)
			r.use(t)
			select {
			case <-t.Done():
			case <-ctx.Done():
			}
			r.use(nil)
			t.Close()
			<-t.Done()
		} else {
			r.log.Warn("control plane not reached", "error", err, "again_in", wait)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, redialMost)
	}
	return nil
}

func (r *Remote) use(t *tunnel.Tunnel) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = t
}

// Connected reports whether the control plane is reached.
func (r *Remote) Connected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current != nil
}

func (r *Remote) open(h protocol.StreamHeader) (net.Conn, error) {
	r.mu.Lock()
	t := r.current
	r.mu.Unlock()
	if t == nil {
		return nil, &protocol.StreamError{Code: "host_offline", Message: "this gateway has lost its control plane and is dialling it; try again in a moment"}
	}
	return t.Open(h)
}

// OpenStream implements Streams, through the control plane. A ctx that ends
// closes what is being opened.
func (r *Remote) OpenStream(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return r.open(protocol.StreamHeader{Kind: protocol.StreamRelay, Host: hostID, Inner: &h})
}

// SSHTarget implements Directory.
func (r *Remote) SSHTarget(ctx context.Context, user, fingerprint string) (Target, error) {
	a, err := r.ask(ctx, question{Kind: "ssh", User: user, Fingerprint: fingerprint})
	return a.Target, err
}

// HTTPTarget implements Directory.
func (r *Remote) HTTPTarget(ctx context.Context, leaseID string, port int, token string) (Target, error) {
	a, err := r.ask(ctx, question{Kind: "http", Lease: leaseID, Port: port, Token: token})
	return a.Target, err
}

// Keys fetches the cloud's SSH keys, so that renters find the same host key at
// every gateway and instances trust all of them.
func (r *Remote) Keys(ctx context.Context) (hostKey, gatewayKey ssh.Signer, err error) {
	a, err := r.ask(ctx, question{Kind: "keys"})
	if err != nil {
		return nil, nil, err
	}
	if len(a.HostKey) != ed25519.SeedSize || len(a.Gateway) != ed25519.SeedSize {
		return nil, nil, errors.New("fetch the cloud's SSH keys: the answer has none")
	}
	if hostKey, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(a.HostKey)); err != nil {
		return nil, nil, fmt.Errorf("fetch the cloud's SSH keys: %w", err)
	}
	if gatewayKey, err = ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(a.Gateway)); err != nil {
		return nil, nil, fmt.Errorf("fetch the cloud's SSH keys: %w", err)
	}
	return hostKey, gatewayKey, nil
}

func (r *Remote) ask(ctx context.Context, q question) (answer, error) {
	var a answer
	s, err := r.open(protocol.StreamHeader{Kind: protocol.StreamLookUp})
	if err != nil {
		return a, fault.New(fault.Unavailable, "control_plane_unreachable", "this gateway cannot ask its control plane now; try again in a moment (%v)", err)
	}
	defer s.Close()
	_ = s.SetDeadline(time.Now().Add(lookUpTime))
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	err = json.NewEncoder(s).Encode(q)
	if err == nil {
		err = json.NewDecoder(io.LimitReader(s, questionLimit)).Decode(&a)
	}
	if err != nil {
		return a, fault.New(fault.Unavailable, "control_plane_unreachable", "the control plane did not answer this gateway; try again in a moment (%v)", err)
	}
	if a.Fault != nil {
		return a, fault.New(a.Fault.Kind, a.Fault.Code, "%s", a.Fault.Message)
	}
	return a, nil
}
