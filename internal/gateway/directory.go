package gateway

import (
	"context"
	"net"

	"suanli.dev/internal/protocol"
)

// Target is an instance that somebody may enter.
type Target struct {
	LeaseID   string
	HostID    string
	AccountID string
	// KeepPrefix leaves "/i/<lease>/<port>" in front of the path, for servers
	// that are told their base path, as JupyterLab is.
	KeepPrefix bool
}

// Directory knows who may enter what. It is asked at each new SSH connection and,
// at most a few seconds apart, at HTTP requests; implementations answer from
// memory or an indexed table.
type Directory interface {
	// SSHTarget returns the instance that user names (a lease id, or a label that
	// is unique in the key's account) if the key, by its SHA-256 fingerprint, may
	// enter it. A fault of kind NotFound, Unauthorized or Forbidden refuses the
	// key and tells nothing; any other fault lets the key in far enough to be
	// shown the message: that the instance is stopped, say.
	SSHTarget(ctx context.Context, user, fingerprint string) (Target, error)
	// HTTPTarget returns the instance if the token, which may be empty, may use
	// the port. A fault of kind Unauthorized asks the visitor for a token.
	HTTPTarget(ctx context.Context, leaseID string, port int, token string) (Target, error)
}

// Streams opens streams on hosts: Tunnels, or a remote gateway's way to them.
type Streams interface {
	OpenStream(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error)
}
