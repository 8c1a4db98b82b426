package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/config"
	"suanli.dev/internal/server"
)

// controlPlane runs a real one on loopback and returns an operator's client, its
// URL and token, and the address that gateways dial.
func controlPlane(t *testing.T) (operator *api.Client, url, token, agents string, cloud *server.Cloud) {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Load("", func(string) (string, bool) { return "", false }, map[string]string{
		"data_dir": dir, "listen": "127.0.0.1:0", "agent_listen": "127.0.0.1:0", "ssh_listen": "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	cloud, err = server.OpenCloud(t.Context(), cfg, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := cloud.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait(); cloud.Close() })
	apiAddress, agents, _ := cloud.Addresses()
	url = "http://" + apiAddress
	password, err := os.ReadFile(filepath.Join(dir, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := api.New(url, "").SignIn(t.Context(), api.SignIn{Email: cfg.AdminEmail, Password: strings.TrimSpace(string(password))})
	if err != nil {
		t.Fatal(err)
	}
	return api.New(url, s.Token), url, s.Token, agents, cloud
}

// await polls until ok, or fails the test after ten seconds.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after 10 s still not: %s", what)
		case <-tick.C:
		}
	}
}

func status(t *testing.T, address, host, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// background runs a command until the test or stop ends it.
func background(t *testing.T, stdout io.Writer, args ...string) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- runInto(ctx, stdout, io.Discard, args...) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	return stop
}

func TestGatewayElsewhereJoinsServesAndIsTurnedAway(t *testing.T) {
	t.Parallel()
	operator, url, token, agents, cloud := controlPlane(t)
	made, _, err := run(t.Context(), "gateway", "token", "--name", "shanghai", "--server", url, "--token", token)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	common := []string{"--data-dir", dir, "--listen", "127.0.0.1:0", "--ssh-listen", "127.0.0.1:0"}
	r, w := io.Pipe()
	stop := background(t, w, append([]string{"gateway", "join", agents, "--json", "--token", strings.TrimSpace(made)}, common...)...)
	var joined struct {
		GatewayID string `json:"gateway_id"`
		SSH       string `json:"ssh"`
		HTTP      string `json:"http"`
	}
	if err := json.NewDecoder(bufio.NewReader(r)).Decode(&joined); err != nil {
		t.Fatal(err)
	}
	list, err := operator.Gateways(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != joined.GatewayID || list[0].Name != "shanghai" {
		t.Fatalf("gateways %+v, %v", list, err)
	}
	await(t, "the gateway is ready", func() bool { return status(t, joined.HTTP, "gateway", "/readyz") == 200 })

	// Renters find the cloud's own host key here, and are judged by the cloud.
	_, _, sshAddress := cloud.Addresses()
	if here, home := hostKeyAt(t, joined.SSH), hostKeyAt(t, sshAddress); here == "" || here != home {
		t.Errorf("the gateway's host key is %q, the cloud's %q", here, home)
	}
	if got, home := status(t, joined.HTTP, "8080-ls-01jv9z3k8h6e2m4q7r5t8w0xyz.apps.localhost", "/"), 401; got != home {
		t.Errorf("a stranger at an instance's port gets %d, want %d", got, home)
	}

	// It is known after a restart, and joins no second time.
	if err := stop(); err != nil {
		t.Errorf("stopped, it ended with %v", err)
	}
	if _, _, err := run(t.Context(), append([]string{"gateway", "join", agents, "--token", strings.TrimSpace(made)}, common...)...); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second join: %v", err)
	}
	at := freeAddress(t)
	background(t, io.Discard, "gateway", "run", "--data-dir", dir, "--listen", at, "--ssh-listen", "127.0.0.1:0")
	await(t, "the gateway is ready again", func() bool { return status(t, at, "gateway", "/readyz") == 200 })

	// Another machine cannot use the token.
	_, _, err = run(t.Context(), "gateway", "join", agents, "--token", strings.TrimSpace(made), "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--ssh-listen", "127.0.0.1:0")
	if err == nil || !strings.Contains(err.Error(), "used by another machine") {
		t.Errorf("the token was used twice: %v", err)
	}

	if _, _, err := run(t.Context(), "gateway", "remove", joined.GatewayID, "--server", url, "--token", token); err != nil {
		t.Fatal(err)
	}
	await(t, "the gateway is cut off", func() bool { return status(t, at, "gateway", "/readyz") == 503 })
	if err := operator.RemoveGateway(t.Context(), joined.GatewayID); !errors.Is(err, &api.Error{Code: "unknown_gateway"}) {
		t.Errorf("removed twice: %v", err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// hostKeyAt returns the host key that an SSH server shows.
func hostKeyAt(t *testing.T, address string) string {
	t.Helper()
	var shown string
	conn, err := ssh.Dial("tcp", address, &ssh.ClientConfig{User: "nobody", Timeout: 5 * time.Second,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			shown = ssh.FingerprintSHA256(key)
			return nil
		}})
	if err == nil {
		conn.Close()
		t.Errorf("%s lets in who has no key", address)
	}
	return shown
}
