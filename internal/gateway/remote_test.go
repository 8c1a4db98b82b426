package gateway_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/instance/sshtest"
	"suanli.dev/internal/protocol"
)

// remote connects a gateway elsewhere to the cloud.
func (c *cloud) remote(t *testing.T) *gateway.Remote {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := c.authority.SignGateway(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), "site-2")
	if err != nil {
		t.Fatal(err)
	}
	r := gateway.NewRemote(tunnel.Identity{HostID: "site-2", Key: key.Seed(), Certificate: certificate, Authority: c.authority.Certificate(), Address: c.address}, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	eventually(t, "the gateway is connected", r.Connected)
	return r
}

func TestRenterEntersThroughAGatewayElsewhere(t *testing.T) {
	t.Parallel()
	c, d, home := newSite(t)
	r := c.remote(t)
	hostKey, gatewayKey, err := r.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if string(hostKey.PublicKey().Marshal()) != string(c.authority.SSHHostKey().PublicKey().Marshal()) {
		t.Error("the gateway elsewhere has another host key")
	}
	g := gateway.NewSSH(gateway.SSHConfig{Directory: r, Streams: r, HostKey: hostKey, GatewayKey: gatewayKey})
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = g.Serve(ctx, ln) })
	t.Cleanup(func() { cancel(); served.Wait() })
	away := sshtest.NewClient(t, ln.Addr().(*net.TCPAddr).Port, sshtest.NewKey(t))
	if out, err := away.Command("ssh", "mine@cloud", "true").CombinedOutput(); err == nil {
		t.Errorf("entered without being allowed: %s", out)
	}
	d.mu.Lock()
	target := d.targets["mine "+home.Key.Fingerprint()]
	d.mu.Unlock()
	d.allow("mine "+away.Key.Fingerprint(), target)
	out, err := away.Command("ssh", "mine@cloud", "echo inside").CombinedOutput()
	if err != nil || string(out) != "inside\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGatewayElsewhereAsksAndRelays(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	answer(tun, func(h protocol.StreamHeader, s net.Conn) { _, _ = io.WriteString(s, h.LeaseID) })
	r := c.remote(t)
	c.directory.allow("ls-1 80 token", gateway.Target{LeaseID: "ls-1", HostID: id.HostID, KeepPrefix: true})
	target, err := r.HTTPTarget(t.Context(), "ls-1", 80, "token")
	if err != nil || target.HostID != id.HostID || !target.KeepPrefix {
		t.Errorf("%+v, %v", target, err)
	}
	if _, err := r.HTTPTarget(t.Context(), "ls-1", 80, "guess"); err == nil {
		t.Error("a wrong token was allowed")
	} else if f, ok := fault.As(err); !ok || f.Kind != fault.Unauthorized {
		t.Errorf("a wrong token: %v", err)
	}
	s, err := r.OpenStream(t.Context(), target.HostID, protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: "ls-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, err := io.ReadAll(s); string(b) != "ls-1" || err != nil {
		t.Errorf("relayed %q, %v", b, err)
	}
	var refused *protocol.StreamError
	if _, err := r.OpenStream(t.Context(), "ho-absent", protocol.StreamHeader{Kind: protocol.StreamPort}); !errors.As(err, &refused) || refused.Code != "host_offline" {
		t.Errorf("an absent host: %v", err)
	}
}
