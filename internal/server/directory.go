package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/intake"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/protocol"
)

// directory tells the gateways who may enter which instance.
type directory struct{ cloud *Cloud }

// SSHTarget implements gateway.Directory.
func (d directory) SSHTarget(ctx context.Context, user, fingerprint string) (gateway.Target, error) {
	refused := fault.New(fault.Unauthorized, "key_refused", "this key may not enter %q", user)
	people, err := d.cloud.Accounts.AccountsBySSHKey(ctx, fingerprint)
	if err != nil {
		return gateway.Target{}, err
	}
	for _, p := range people {
		if !p.May(account.EnterLeases) {
			continue
		}
		// An operator's key opens the operator's own leases and nobody else's.
		p.Operator = false
		l, err := d.cloud.Leases.Resolve(ctx, p, user)
		if err != nil {
			if f, ok := fault.As(err); ok && f.Code == "lease_ambiguous" {
				return gateway.Target{}, err
			}
			continue
		}
		return target(l)
	}
	return gateway.Target{}, refused
}

// HTTPTarget implements gateway.Directory.
func (d directory) HTTPTarget(ctx context.Context, leaseID string, port int, token string) (gateway.Target, error) {
	unknown := fault.New(fault.Unauthorized, "token_needed", "this address needs an access token of its lease's port %d", port)
	if ident.Check(ident.Lease, leaseID) != nil || token == "" {
		return gateway.Target{}, unknown
	}
	l, err := d.cloud.Leases.Lookup(ctx, leaseID)
	if err != nil {
		return gateway.Target{}, unknown
	}
	if err := d.cloud.Leases.CheckPortToken(l, port, token); err != nil {
		return gateway.Target{}, err
	}
	return target(l)
}

func target(l *lease.Lease) (gateway.Target, error) {
	t := gateway.Target{LeaseID: l.ID, HostID: l.HostID, AccountID: l.AccountID}
	if l.State != lease.Running {
		return t, fault.New(fault.Conflict, "lease_state", "lease %s is %s and can be entered when it is running", l.ID, l.State)
	}
	return t, nil
}

// openEdges makes the gateways and the tunnels.
func (c *Cloud) openEdges() {
	dir := directory{c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /agent/v1/enrol", c.enrol)
	c.Tunnels = gateway.NewTunnels(gateway.TunnelsConfig{
		Authority: c.Authority, ServeBus: c.bus.ServeConn, Registry: c.images.Pull(), Agents: mux, Directory: dir, Log: c.log,
		AdmitGateway: c.admitGateway, Replica: isReplica, Elsewhere: c.elsewhere(),
		Admit: func(ctx context.Context, hostID string) error {
			if err := errors.Join(c.fit(), c.Drills.Allow(hostID)); err != nil {
				return err
			}
			if _, ok := c.Fleet.BusKey(ctx, hostID); !ok {
				if removed, err := c.Fleet.Removed(ctx, hostID); err != nil {
					return err
				} else if removed {
					return fault.New(fault.Gone, protocol.CodeHostRemoved, "host %s was removed from this cloud", hostID)
				}
				return fault.New(fault.NotFound, "unknown_host", "host %s is not known here: join again", hostID)
			}
			return nil
		},
	})
	c.ssh = gateway.NewSSH(gateway.SSHConfig{Directory: dir, Streams: c.Tunnels, HostKey: c.Authority.SSHHostKey(), GatewayKey: c.Authority.GatewayKey(), Log: c.log})
	c.apps = gateway.NewHTTP(gateway.HTTPConfig{Directory: dir, Streams: c.Tunnels, Domain: c.cfg.AppsDomain, Path: true,
		Secure: strings.HasPrefix(c.cfg.APIURL(), "https:"), Clock: time.Now, Log: c.log})
}

// Handler is everything on the API's listener: the API, instances' ports under
// the apps domain, and the image registry for operators. Instances are never
// served under the API's own host name, whose origin they would share.
func (c *Cloud) Handler() http.Handler {
	api := c.http.Handler()
	images := c.images.Push(c.Accounts)
	domain := strings.ToLower(c.cfg.AppsDomain)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.ToLower(r.Host)
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		host = strings.TrimSuffix(host, ".") // the same name, complete
		switch {
		case host == domain || strings.HasSuffix(host, "."+domain):
			c.apps.ServeHTTP(w, r)
		case r.URL.Path == "/v2" || strings.HasPrefix(r.URL.Path, "/v2/"):
			images.ServeHTTP(w, intake.Body(w, r, intake.Moving))
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// appURL is the address of an instance's port.
func (c *Cloud) appURL(leaseID string, port int, token string) string {
	u, err := url.Parse(c.cfg.APIURL())
	if err != nil {
		return ""
	}
	host := fmt.Sprintf("%d-%s.%s", port, leaseID, c.cfg.AppsDomain)
	if p := u.Port(); p != "" {
		if c.cfg.PublicURL == "" {
			_, p, _ = net.SplitHostPort(c.api.Addr().String())
		}
		host = net.JoinHostPort(host, p)
	}
	u.Host, u.Path = host, "/"
	u.RawQuery = url.Values{gateway.TokenParameter: {token}}.Encode()
	return u.String()
}

func sshLine(a *gateway.Authority) string {
	return string(ssh.MarshalAuthorizedKey(a.SSHHostKey().PublicKey()))
}
