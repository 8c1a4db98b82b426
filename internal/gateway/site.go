package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/intake"
)

// SiteConfig is what a gateway elsewhere serves, and as whom.
type SiteConfig struct {
	Identity  tunnel.Identity // from its enrolment as a gateway
	SSH, HTTP net.Listener    // RunSite closes them
	// Domain, Secure: see HTTPConfig.
	Domain string
	Secure bool
	// TLSCert and TLSKey are PEM files for HTTP; empty: without TLS.
	TLSCert, TLSKey string
	// TrustedProxies are in front of HTTP: one of them may have any number of
	// connections open.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger
}

// RunSite brings renters to instances from another place than the control
// plane's, until ctx ends. While the control plane is not reached, SSH
// connections wait and HTTP requests are told so.
func RunSite(ctx context.Context, cfg SiteConfig) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	room := intake.Room()
	cfg.SSH = intake.Share(room/4, nil).Listener(cfg.SSH)
	cfg.HTTP = intake.Share(room/2, cfg.TrustedProxies).Listener(cfg.HTTP)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	remote := NewRemote(cfg.Identity, cfg.Log)
	var all sync.WaitGroup
	part := func(name string, run func(context.Context) error) {
		all.Go(func() {
			if err := run(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	part("control plane", remote.Run)
	part("SSH", func(ctx context.Context) error { return serveSSHSite(ctx, cfg, remote) })
	part("HTTP", func(ctx context.Context) error { return serveHTTPSite(ctx, cfg, remote) })
	<-ctx.Done()
	all.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// serveSSHSite waits for the cloud's keys: without them renters would find a
// host key that they do not know.
func serveSSHSite(ctx context.Context, cfg SiteConfig, remote *Remote) error {
	defer cfg.SSH.Close()
	hostKey, gatewayKey, err := awaitKeys(ctx, remote)
	if err != nil {
		return nil // ctx has ended
	}
	cfg.Log.Info("SSH is served", "address", cfg.SSH.Addr().String())
	g := NewSSH(SSHConfig{Directory: remote, Streams: remote, HostKey: hostKey, GatewayKey: gatewayKey, Log: cfg.Log})
	return g.Serve(ctx, cfg.SSH)
}

func awaitKeys(ctx context.Context, remote *Remote) (hostKey, gatewayKey ssh.Signer, err error) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		if remote.Connected() {
			if hostKey, gatewayKey, err = remote.Keys(ctx); err == nil {
				return hostKey, gatewayKey, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-tick.C:
		}
	}
}

func serveHTTPSite(ctx context.Context, cfg SiteConfig, remote *Remote) error {
	apps := NewHTTP(HTTPConfig{Directory: remote, Streams: remote, Domain: cfg.Domain, Secure: cfg.Secure, Log: cfg.Log})
	defer apps.Close()
	s := Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case apps.Serves(r):
			apps.ServeHTTP(w, r)
		case r.URL.Path == "/healthz", r.URL.Path == "/readyz" && remote.Connected():
			_, _ = io.WriteString(w, "ok\n")
		case r.URL.Path == "/readyz":
			http.Error(w, "the control plane is not reached", http.StatusServiceUnavailable)
		default:
			http.Error(w, "this is a gateway to instances; the cloud's API is elsewhere", http.StatusNotFound)
		}
	}), cfg.Log)
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if s.Shutdown(end) != nil {
			s.Close() // streams that are followed do not end by themselves
		}
	}()
	var err error
	if cfg.TLSCert != "" {
		err = s.ServeTLS(cfg.HTTP, cfg.TLSCert, cfg.TLSKey)
	} else {
		err = s.Serve(cfg.HTTP)
	}
	if errors.Is(err, http.ErrServerClosed) {
		<-done
		return nil
	}
	return err
}
