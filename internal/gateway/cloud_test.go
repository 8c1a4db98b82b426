package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/bus"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

// cloud is a control plane's edge: authority, bus and tunnels on loopback, with
// an enrolment that accepts the one secret "welcome".
type cloud struct {
	authority *gateway.Authority
	bus       *bus.Bus
	tunnels   *gateway.Tunnels
	address   string
	directory *directory

	mu        sync.Mutex
	keys      map[string]string // host → public nkey
	forgotten map[string]bool
}

func newCloud(t testing.TB) *cloud {
	t.Helper()
	authority, err := gateway.OpenAuthority(t.TempDir(), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{authority: authority, directory: newDirectory(), keys: map[string]string{}, forgotten: map[string]bool{}}
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	c.bus, err = bus.Open(t.Context(), bus.Config{HostKey: c.hostKey, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /agent/v1/enrol", c.enrol)
	c.tunnels = gateway.NewTunnels(gateway.TunnelsConfig{
		Authority: authority,
		ServeBus:  c.bus.ServeConn,
		Registry: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "registry "+r.URL.Path)
		}),
		Agents:    mux,
		Directory: c.directory,
		Admit: func(_ context.Context, hostID string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.forgotten[hostID] {
				return fault.New(fault.Gone, protocol.CodeHostRemoved, "forgotten")
			}
			return nil
		},
		AdmitGateway: func(_ context.Context, id string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.forgotten[id] {
				return errors.New("forgotten")
			}
			return nil
		},
		Log: log,
	})
	c.serve(t)
	return c
}

func (c *cloud) serve(t testing.TB) {
	ln := listen(t)
	c.address = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := c.tunnels.Serve(ctx, ln); err != nil {
			t.Errorf("tunnels: %v", err)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		c.bus.Close()
	})
}

func (c *cloud) hostKey(_ context.Context, hostID string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.keys[hostID]
	return k, ok && !c.forgotten[hostID]
}

func (c *cloud) enrol(w http.ResponseWriter, r *http.Request) {
	var in protocol.EnrolRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if in.Token != c.token() {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"status":403,"code":"join_token_invalid","detail":"this token is not known"}`)
		return
	}
	hostID, sign := ident.New(ident.Host), c.authority.SignHost
	if in.Gateway {
		hostID, sign = ident.New(ident.Gateway), c.authority.SignGateway
	}
	certificate, err := sign(in.CSR, hostID)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.keys[hostID] = in.BusKey
	c.mu.Unlock()
	_ = json.NewEncoder(w).Encode(protocol.EnrolReply{HostID: hostID, Certificate: certificate, Authority: c.authority.Certificate()})
}

func (c *cloud) token() string { return "welcome." + c.authority.Fingerprint() }

// host enrols a machine and dials its tunnel.
func (c *cloud) host(t testing.TB) (*tunnel.Tunnel, tunnel.Identity) {
	t.Helper()
	id, err := tunnel.Enrol(t.Context(), c.address, c.token(), tunnel.Machine{Name: "machine"})
	if err != nil {
		t.Fatal(err)
	}
	return dial(t, id), id
}

func dial(t testing.TB, id tunnel.Identity) *tunnel.Tunnel {
	t.Helper()
	tun, err := tunnel.Dial(t.Context(), tunnel.Config{Identity: id})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tun.Close() })
	return tun
}

// answer serves a host's streams with fn, which is given each stream after its
// header has been accepted.
func answer(tun *tunnel.Tunnel, fn func(h protocol.StreamHeader, s net.Conn)) {
	go func() { // ends with the tunnel
		for {
			s, err := tun.Accept()
			if err != nil {
				return
			}
			go func() {
				defer s.Close()
				h, err := protocol.ReadHeader(s)
				if err != nil || protocol.Accept(s) != nil {
					return
				}
				fn(h, s)
			}()
		}
	}()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// eventually polls until ok, or fails the test after ten seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("after 10 s still not: %s", what)
		case <-tick.C:
		}
	}
}

func openAuthority(t *testing.T, dir string) *gateway.Authority {
	t.Helper()
	a, err := gateway.OpenAuthority(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
