package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/protocol"
)

const (
	handshakeTimeout = 30 * time.Second
	// connsAtOnce bounds SSH connections, so that a renter's runaway script
	// does not make the instance's first process grow without end.
	connsAtOnce = 200
)

// server is the instance's SSH server.
type server struct {
	in      *instance
	config  *ssh.ServerConfig
	allowed map[string]bool // by marshalled public key
}

// ServeSSH serves SSH on ln, which it closes, as an instance with these settings
// does, until ctx ends. Without a container around it, whoever enters is on this
// machine: it is for benchmarks and tests. An error means that it did not start.
func ServeSSH(ctx context.Context, ln net.Listener, settings protocol.InstanceSettings, runDir string, log *slog.Logger) error {
	who, err := lookUp(settings.User)
	if err != nil {
		ln.Close()
		return err
	}
	s, err := newServer(&instance{
		settings: settings,
		account:  who,
		env:      environment(os.Environ(), settings, who),
		runDir:   runDir,
		children: newProcesses(false, nil),
		status:   newStatus(runDir, log),
		log:      log,
	})
	if err != nil {
		ln.Close()
		return err
	}
	s.serve(ctx, ln)
	return nil
}

func newServer(in *instance) (*server, error) {
	hostKey, err := ssh.ParsePrivateKey([]byte(in.settings.HostKey))
	if err != nil {
		return nil, fmt.Errorf("the host key that the agent gave: %w", err)
	}
	s := &server{in: in, allowed: map[string]bool{}}
	for _, line := range append(in.settings.GatewayKeys, in.settings.SSHKeys...) {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			// One bad line must not lock everyone out.
			in.log.Warn("an authorized key was left out: it is not one", "error", err)
			continue
		}
		s.allowed[string(key.Marshal())] = true
	}
	s.config = &ssh.ServerConfig{
		MaxAuthTries:  10,
		ServerVersion: "SSH-2.0-suanli",
		// The name is of no account: keys decide, and everyone becomes the image's user.
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if !s.allowed[string(key.Marshal())] {
				return nil, errors.New("key not authorized")
			}
			return nil, nil
		},
	}
	s.config.AddHostKey(hostKey)
	return s, nil
}

// serve accepts connections on ln, which it closes, until ctx ends.
func (s *server) serve(ctx context.Context, ln net.Listener) {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, connsAtOnce)
	for {
		conn, err := ln.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // too many open files, most likely: it passes
			case <-ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
		default:
			conn.Close()
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			defer s.guard()
			s.serveConn(ctx, conn)
		})
	}
}

// guard keeps a poisonous connection from ending the container's first process.
func (s *server) guard() {
	if p := recover(); p != nil {
		s.in.log.Error("ssh panicked", "panic", p, "stack", string(debug.Stack()))
	}
}

// connection is one SSH connection.
type connection struct {
	in   *instance
	ssh  *ssh.ServerConn
	ctx  context.Context
	work sync.WaitGroup // everything the connection started

	mu       sync.Mutex
	forwards map[string]net.Listener // -R, by "address:port" as asked
}

func (s *server) serveConn(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	_ = raw.SetDeadline(time.Now().Add(handshakeTimeout))
	conn, channels, requests, err := ssh.NewServerConn(raw, s.config)
	if err != nil {
		return // scans and wrong keys; nothing that the renter could act on
	}
	_ = raw.SetDeadline(time.Time{})
	// A connection that only forwards ports is somebody at work as well.
	s.in.status.change(func(r *protocol.InstanceReport) { r.Sessions++ })
	defer s.in.status.change(func(r *protocol.InstanceReport) { r.Sessions-- })
	ctx, cancel := context.WithCancel(ctx)
	c := &connection{in: s.in, ssh: conn, ctx: ctx, forwards: map[string]net.Listener{}}
	defer c.work.Wait()
	defer c.closeForwards()
	defer cancel()
	defer conn.Close()
	c.work.Go(func() { c.globalRequests(requests) })
	for ch := range channels {
		c.work.Go(func() {
			defer s.guard()
			c.open(ch)
		})
	}
}

// open serves one channel that the client opens.
func (c *connection) open(ch ssh.NewChannel) {
	switch ch.ChannelType() {
	case "session":
		c.session(ch)
	case "direct-tcpip":
		c.directTCP(ch)
	case "direct-streamlocal@openssh.com":
		c.directUnix(ch)
	default:
		_ = ch.Reject(ssh.UnknownChannelType, "channels of this type are not served")
	}
}
