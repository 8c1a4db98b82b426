package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/instance/sshtest"
)

// site runs an enrolled gateway elsewhere. Its control plane may be away.
func (c *cloud) site(t *testing.T) (id tunnel.Identity, ssh, web net.Listener) {
	t.Helper()
	id, err := tunnel.Enrol(t.Context(), c.address, c.token(), tunnel.Machine{Name: "site", Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	ssh, web = listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- gateway.RunSite(ctx, gateway.SiteConfig{Identity: id, SSH: ssh, HTTP: web, Domain: "apps.example.com"})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the site ended with %v", err)
		}
	})
	return id, ssh, web
}

func ask(t *testing.T, ln net.Listener, host, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func TestSiteBringsRentersInAndSaysHowItIs(t *testing.T) {
	t.Parallel()
	c, d, home := newSite(t)
	id, ssh, web := c.site(t)
	away := sshtest.NewClient(t, ssh.Addr().(*net.TCPAddr).Port, sshtest.NewKey(t))
	d.mu.Lock()
	target := d.targets["mine "+home.Key.Fingerprint()]
	d.mu.Unlock()
	d.allow("mine "+away.Key.Fingerprint(), target)
	// SSH connections wait until the site has the cloud's keys.
	out, err := away.Command("ssh", "mine@cloud", "echo inside").CombinedOutput()
	if err != nil || string(out) != "inside\n" {
		t.Errorf("%v\n%s", err, out)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/v1/leases": 404} {
		if got, text := ask(t, web, "site", path); got != want {
			t.Errorf("%s answers %d, want %d: %s", path, got, want, text)
		}
	}
	if got, text := ask(t, web, "80-ls-01jv9z3k8h6e2m4q7r5t8w0xyz.apps.example.com", "/"); got == 404 || strings.Contains(text, "API is elsewhere") {
		t.Errorf("an instance's host name answers %d: %s", got, text)
	}

	c.mu.Lock()
	c.forgotten[id.HostID] = true
	c.mu.Unlock()
	c.tunnels.Disconnect(id.HostID)
	eventually(t, "the removed gateway is cut off", func() bool { got, _ := ask(t, web, "site", "/readyz"); return got == 503 })
	if got, _ := ask(t, web, "site", "/healthz"); got != 200 {
		t.Errorf("it lives, and /healthz answers %d", got)
	}
}
