package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/replica"
	"suanli.dev/internal/store"
)

// What replicas tell each other. All of it makes things seen sooner and is the
// record of nothing: what a message that is lost would have said is in the store.
const (
	leaseSubject  = "replica.lease"
	hostSubject   = "replica.host"
	reportSubject = "replica.report."
)

// keyFiles are what a cloud's authority is made of; see gateway.OpenAuthority.
var keyFiles = []string{"authority.key", "authority.crt", "ssh_host.key", "ssh_gateway.key"}

// shareKeys makes the authority in dir the one that all replicas on this database
// have. The first replica's is kept, sealed with the master key, which must be the
// same for all.
func (c *Cloud) shareKeys(ctx context.Context, secret []byte, dir string) error {
	if !c.DB.Postgres() {
		return nil
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	if err := c.DB.Migrate(ctx, "server", sub); err != nil {
		return err
	}
	vault, err := account.NewVault(secret)
	if err != nil {
		return err
	}
	kept, err := c.readKeys(ctx)
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		if _, err := gateway.OpenAuthority(dir, time.Now); err != nil {
			return err
		}
		if err := c.keepKeys(ctx, vault, dir); err != nil {
			return err
		}
		if kept, err = c.readKeys(ctx); err != nil { // another replica may have been first
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range kept {
		sealed, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return fmt.Errorf("the cloud's key %s in the database: %w", name, err)
		}
		plain, err := vault.Open(sealed)
		if err != nil {
			return fault.New(fault.Conflict, "master_key_differs", "the keys of this cloud in the database are sealed with another master key: give every replica the same one, with master_key_file, and restore it from a backup if it is lost")
		}
		if err := writeDurably(filepath.Join(dir, name), plain); err != nil {
			return fmt.Errorf("write the cloud's key %s: %w", name, err)
		}
	}
	return nil
}

func (c *Cloud) readKeys(ctx context.Context) (map[string]string, error) {
	kept := map[string]string{}
	err := c.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT name, sealed FROM server_keys`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var name, sealed string
			if err := rows.Scan(&name, &sealed); err != nil {
				return err
			}
			kept[name] = sealed
		}
		return rows.Err()
	})
	return kept, err
}

// keepKeys keeps the authority of this machine for all replicas, unless there is one.
func (c *Cloud) keepKeys(ctx context.Context, vault *account.Vault, dir string) error {
	return c.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		for i, name := range keyFiles {
			plain, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			sealed, err := vault.Seal(plain)
			if err != nil {
				return err
			}
			n, err := tx.Exec(ctx, `INSERT INTO server_keys (name, sealed) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name, base64.StdEncoding.EncodeToString(sealed))
			if err != nil || n == 0 && i == 0 {
				return err // the first decides for all: they belong together
			}
		}
		return nil
	})
}

// openReplicas opens what this process knows of the cloud's other control planes.
func (c *Cloud) openReplicas(ctx context.Context) error {
	var err error
	c.Replicas, err = replica.New(replica.Config{DB: c.DB, Address: c.replicaAddress(), Build: c.version, Log: c.log,
		OnLost: func() {
			if c.Tunnels != nil {
				c.Tunnels.DisconnectAll()
			}
		}})
	if err != nil {
		return err
	}
	return c.Replicas.Migrate(ctx)
}

// replicaAddress is where other replicas dial this one.
func (c *Cloud) replicaAddress() string {
	if c.cfg.ReplicaAddress != "" {
		return c.cfg.ReplicaAddress
	}
	host, port, err := net.SplitHostPort(c.agents.Addr().String())
	if err != nil {
		return c.cfg.AgentListen
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return net.JoinHostPort(host, port)
}

// fleetReplicas is what the fleet knows of replicas: nothing, if there is one only.
func (c *Cloud) fleetReplicas() fleet.Replicas {
	if c.Replicas.Alone() {
		return nil
	}
	return c.Replicas
}

// commands says which hosts this replica commands: those that are connected to it.
func (c *Cloud) commands() func(string) bool {
	if c.Replicas.Alone() {
		return nil
	}
	return func(hostID string) bool { return c.Tunnels.Connected(hostID) }
}

// fit is a fault while this replica should have no hosts.
func (c *Cloud) fit() error {
	if c.Replicas.Lost() {
		return fault.New(fault.Unavailable, "replica_lost", "this control plane has lost its database; dial another one")
	}
	return nil
}

// told is what one replica tells the others.
type told[T any] struct {
	From  string    `json:"from"`
	At    time.Time `json:"at"`
	About T         `json:"about"`
}

func tell[T any](c *Cloud, subject string, about T) {
	if c.Replicas.Alone() || c.bus == nil {
		return
	}
	if err := c.bus.Publish(context.Background(), subject, told[T]{c.Replicas.ID(), c.clock(), about}); err != nil {
		c.log.Warn("tell other replicas; they see it a little later", "subject", subject, "error", err)
	}
}

func (c *Cloud) tellLease(change lease.Change) { tell(c, leaseSubject, change) }
func (c *Cloud) tellHost(hostID string)        { tell(c, hostSubject, hostID) }

func (c *Cloud) tellReport(_ context.Context, hostID string, report []byte) {
	tell(c, reportSubject+hostID, json.RawMessage(report))
}

// hear listens for what other replicas tell.
func hear[T any](c *Cloud, subject string, take func(ctx context.Context, subject string, at time.Time, about T)) error {
	_, err := c.bus.Subscribe(subject, func(ctx context.Context, subject string, data []byte) {
		var m told[T]
		if err := json.Unmarshal(data, &m); err != nil || m.From == c.Replicas.ID() {
			return // another version's, or our own
		}
		take(ctx, subject, m.At, m.About)
	})
	return err
}

func (c *Cloud) listenToReplicas() error {
	if c.Replicas.Alone() {
		return nil
	}
	return errors.Join(
		hear(c, leaseSubject, func(ctx context.Context, _ string, _ time.Time, change lease.Change) { c.Leases.Hear(ctx, change) }),
		hear(c, hostSubject, func(ctx context.Context, _ string, _ time.Time, hostID string) { c.Fleet.Hear(ctx, hostID) }),
		hear(c, reportSubject+"*", func(_ context.Context, subject string, at time.Time, r protocol.Report) {
			hostID := strings.TrimPrefix(subject, reportSubject)
			c.Fleet.Overhear(hostID, r, at)
			c.Leases.Overhear(hostID, r, at)
		}),
	)
}

func isReplica(id string) bool { return ident.Check(ident.Replica, id) == nil }

// admitGateway lets gateways and other replicas in.
func (c *Cloud) admitGateway(ctx context.Context, id string) error {
	if !isReplica(id) {
		return c.Fleet.AdmitGateway(ctx, id)
	}
	known, err := c.Replicas.Known(ctx, id)
	if err == nil && !known {
		err = fault.New(fault.NotFound, "unknown_gateway", "replica %s is not known here", id)
	}
	return err
}

// peers are the connections to other replicas, for streams to hosts that are
// connected there.
type peers struct {
	mu       sync.Mutex
	by       map[string]*tunnel.Tunnel // by replica
	dialling map[string]chan struct{}
	closed   bool
}

func (p *peers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, t := range p.by {
		t.Close()
	}
}

// elsewhere opens streams on hosts that are connected to other replicas; nil: there
// are none.
func (c *Cloud) elsewhere() func(context.Context, string, protocol.StreamHeader) (net.Conn, error) {
	if c.Replicas.Alone() {
		return nil
	}
	return func(ctx context.Context, hostID string, h protocol.StreamHeader) (net.Conn, error) {
		owner := c.Fleet.Owner(hostID)
		if owner == "" || owner == c.Replicas.ID() || !c.Replicas.Alive(owner) {
			return nil, &protocol.StreamError{Code: "host_offline", Message: "the host of this instance is not connected now; it is tried again when it comes back"}
		}
		t, err := c.peer(ctx, owner)
		if err != nil {
			return nil, &protocol.StreamError{Code: "host_offline", Message: "the control plane that this instance's host is connected to was not reached; try again in a moment (" + err.Error() + ")"}
		}
		return t.Open(protocol.StreamHeader{Kind: protocol.StreamRelay, Host: hostID, Inner: &h})
	}
}

// peer returns the connection to another replica, and makes it if there is none.
func (c *Cloud) peer(ctx context.Context, id string) (*tunnel.Tunnel, error) {
	for {
		c.peers.mu.Lock()
		if c.peers.closed {
			c.peers.mu.Unlock()
			return nil, net.ErrClosed
		}
		if t := c.peers.by[id]; t != nil {
			select {
			case <-t.Done():
				delete(c.peers.by, id)
			default:
				c.peers.mu.Unlock()
				return t, nil
			}
		}
		wait := c.peers.dialling[id]
		if wait == nil {
			if c.peers.dialling == nil {
				c.peers.dialling, c.peers.by = map[string]chan struct{}{}, map[string]*tunnel.Tunnel{}
			}
			wait = make(chan struct{})
			c.peers.dialling[id] = wait
			c.peers.mu.Unlock()
			return c.dialPeer(ctx, id, wait)
		}
		c.peers.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *Cloud) dialPeer(ctx context.Context, id string, done chan struct{}) (t *tunnel.Tunnel, err error) {
	defer func() {
		c.peers.mu.Lock()
		defer c.peers.mu.Unlock()
		delete(c.peers.dialling, id)
		if err == nil {
			c.peers.by[id] = t
		}
		close(done)
	}()
	identity, err := c.ownIdentity(c.Replicas.Address(id))
	if err != nil {
		return nil, err
	}
	one, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return tunnel.DialGateway(one, tunnel.Config{Identity: identity, Log: c.log})
}

// ownIdentity is this replica as another one knows it, by the authority that they
// share.
func (c *Cloud) ownIdentity(address string) (tunnel.Identity, error) {
	var none tunnel.Identity
	if address == "" {
		return none, errors.New("its address is not known")
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return none, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return none, err
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	certificate, err := c.Authority.SignGateway(csr, c.Replicas.ID())
	if err != nil {
		return none, err
	}
	return tunnel.Identity{HostID: c.Replicas.ID(), Key: key.Seed(), Certificate: certificate, Authority: c.Authority.Certificate(), Address: address}, nil
}
