package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

func TestJoinedHostReportsAndIsCommanded(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	stop, err := c.bus.Handle(protocol.AnyReportSubject, "control", func(_ context.Context, subject string, data []byte) (any, error) {
		return protocol.ReportReply{Accepted: true, Message: subject}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	tun, id := c.host(t)
	if _, err := tun.Handle(protocol.CommandSubject(id.HostID), func(_ context.Context, data []byte) (any, error) {
		return protocol.CommandResult{Accepted: true, Generation: 7}, nil
	}); err != nil {
		t.Fatal(err)
	}

	var reply protocol.ReportReply
	if err := tun.Request(t.Context(), protocol.ReportSubject(id.HostID), protocol.Report{Seq: 1}, &reply); err != nil {
		t.Fatal(err)
	}
	if reply.Message != protocol.ReportSubject(id.HostID) {
		t.Errorf("the report arrived on %q", reply.Message)
	}
	var result protocol.CommandResult
	if err := c.bus.Request(t.Context(), protocol.CommandSubject(id.HostID), protocol.Command{}, &result); err != nil {
		t.Fatal(err)
	}
	if result.Generation != 7 {
		t.Errorf("the host answered %+v", result)
	}
}

func TestHandlersFaultsAndPanicsReachTheSenderAndNobodyElse(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	stop, err := c.bus.Handle(protocol.AnyReportSubject, "control", func(_ context.Context, _ string, data []byte) (any, error) {
		switch {
		case bytes.Contains(data, []byte("poison")):
			panic("poisoned")
		case bytes.Contains(data, []byte("refuse")):
			return nil, fault.New(fault.Conflict, "duplicate_session", "another agent uses this key")
		}
		return "fine", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	subject := protocol.ReportSubject(id.HostID)
	var f *fault.Error
	if err := tun.Request(t.Context(), subject, "refuse", nil); !errors.As(err, &f) || f.Code != "duplicate_session" || f.Kind != fault.Conflict {
		t.Errorf("refused request: %v", err)
	}
	if err := tun.Request(t.Context(), subject, "poison", nil); !errors.As(err, &f) || f.Code != "internal" {
		t.Errorf("poisonous request: %v", err)
	}
	var out string
	if err := tun.Request(t.Context(), subject, "well", &out); err != nil || out != "fine" {
		t.Errorf("the request after it: %q, %v", out, err)
	}
}

func TestRequestToNobodySaysSoAtOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	err := c.bus.Request(t.Context(), protocol.CommandSubject("ho-nobody"), 1, nil)
	if f, ok := fault.As(err); !ok || f.Code != "no_responder" {
		t.Errorf("got %v", err)
	}
}

// rawBus connects a host's own tunnel to the bus with the NATS client alone, as
// an attacker who has the host's key would.
func rawBus(t *testing.T, tun *tunnel.Tunnel, id tunnel.Identity, options ...nats.Option) (*nats.Conn, chan error, error) {
	t.Helper()
	stream, err := tun.Open(protocol.StreamHeader{Kind: protocol.StreamBus})
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, id.Key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 100)
	nc, err := nats.Connect("nats://127.0.0.1", append([]nats.Option{
		nats.SetCustomDialer(given{stream}), nats.NoReconnect(), nats.Name(id.HostID), nats.Nkey(public, key.Sign),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }),
	}, options...)...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, errs, err
}

type given struct{ net.Conn }

func (g given) Dial(_, _ string) (net.Conn, error) { return g.Conn, nil }

func TestHostCannotSpeakOrListenAsAnother(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	victim, victimID := c.host(t)
	if _, err := victim.Handle(protocol.CommandSubject(victimID.HostID), func(context.Context, []byte) (any, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	liar, liarID := c.host(t)
	heard := make(chan string, 10)
	stop, err := c.bus.Subscribe(">", func(_ context.Context, subject string, _ []byte) { heard <- subject })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()

	nc, errs, err := rawBus(t, liar, liarID)
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{
		protocol.ReportSubject(victimID.HostID),
		protocol.CommandSubject(victimID.HostID),
		protocol.InboxPrefix(victimID.HostID) + ".x",
		"$SYS.REQ.SERVER.PING",
	} {
		if err := nc.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		wantViolation(t, errs, "publish on "+subject)
	}
	for _, subject := range []string{
		protocol.CommandSubject(victimID.HostID), "host.*.command", "host.>", ">", protocol.AnyReportSubject,
		protocol.InboxPrefix(victimID.HostID) + ".>", "_INBOX.>",
	} {
		if _, err := nc.SubscribeSync(subject); err != nil {
			t.Fatal(err)
		}
		wantViolation(t, errs, "subscribe to "+subject)
	}
	select {
	case subject := <-heard:
		t.Errorf("a message of the liar got through on %s", subject)
	default:
	}
}

func wantViolation(t *testing.T, errs chan error, what string) {
	t.Helper()
	select {
	case err := <-errs:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", what, err)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("%s was not refused", what)
	}
}

func TestHostCannotMakeUsAnswerOnAnothersSubject(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	stop, err := c.bus.Handle(protocol.AnyReportSubject, "control", func(context.Context, string, []byte) (any, error) { return "reply", nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	victim, victimID := c.host(t)
	commanded := make(chan []byte, 1)
	if _, err := victim.Handle(protocol.CommandSubject(victimID.HostID), func(_ context.Context, data []byte) (any, error) {
		commanded <- data
		return nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	liar, liarID := c.host(t)
	nc, _, err := rawBus(t, liar, liarID)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest(protocol.ReportSubject(liarID.HostID), protocol.CommandSubject(victimID.HostID), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	// A well-formed request after it shows that the first has been worked on.
	if err := liar.Request(t.Context(), protocol.ReportSubject(liarID.HostID), 1, nil); err != nil {
		t.Fatal(err)
	}
	select {
	case data := <-commanded:
		t.Errorf("the victim was commanded: %s", data)
	default:
	}
}

func TestBusRefusesAWrongKey(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	_, other := c.host(t)
	for name, pretend := range map[string]tunnel.Identity{
		"another host's name":        {HostID: other.HostID, Key: id.Key},
		"a name that is no host's":   {HostID: "control", Key: id.Key},
		"a key that nobody enrolled": {HostID: id.HostID, Key: bytes.Repeat([]byte{7}, 32)},
	} {
		if _, _, err := rawBus(t, tun, pretend); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := rawBus(t, tun, id, nats.Token("guess")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a guessed token: %v", err)
	}
}

func TestEnrolmentRefusesAWrongTokenAndAWrongCloud(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	other := newCloud(t)
	var f *fault.Error
	_, err := tunnel.Enrol(t.Context(), c.address, "guess."+c.authority.Fingerprint(), tunnel.Machine{})
	if !errors.As(err, &f) || f.Code != "join_token_invalid" {
		t.Errorf("wrong secret: %v", err)
	}
	for _, token := range []string{"", "welcome", "welcome.", "welcome.zz", "welcome.00"} {
		if _, err := tunnel.Enrol(t.Context(), c.address, token, tunnel.Machine{}); !errors.As(err, &f) || f.Code != "join_token_invalid" {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if _, err := tunnel.Enrol(t.Context(), other.address, c.token(), tunnel.Machine{}); err == nil || !strings.Contains(err.Error(), "fingerprint") {
		t.Errorf("another cloud was believed: %v", err)
	}
}

func TestTunnelRefusesAForeignCertificateAndAForgottenHost(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	other := newCloud(t)
	_, foreign := other.host(t)
	foreign.Address = c.address
	if _, err := tunnel.Dial(t.Context(), tunnel.Config{Identity: foreign}); err == nil {
		t.Error("a host of another cloud believed this one")
	}
	foreign.Authority = c.authority.Certificate()
	if _, err := tunnel.Dial(t.Context(), tunnel.Config{Identity: foreign}); err == nil {
		t.Error("a host of another cloud came in")
	}
	tun, id := c.host(t)
	c.mu.Lock()
	c.forgotten[id.HostID] = true
	c.mu.Unlock()
	c.tunnels.Disconnect(id.HostID)
	<-tun.Done()
	_, err := tunnel.Dial(t.Context(), tunnel.Config{Identity: id})
	var refused *protocol.StreamError
	if !errors.As(err, &refused) || refused.Code != protocol.CodeHostRemoved {
		t.Errorf("a removed host was answered %v", err)
	}
}

func TestTunnelWithoutACertificateIsClosed(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	conn, err := tls.Dial("tcp", c.address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol.TunnelALPN}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the connection closed", err)
	}
}

func TestStreamsCarryBytesBothWaysAndHalfClose(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	answer(tun, func(h protocol.StreamHeader, s net.Conn) { // sends back what it got, once all has come
		data, _ := io.ReadAll(s)
		fmt.Fprintf(s, "%s %d ", h.LeaseID, h.Port)
		_, _ = s.Write(data)
	})
	sent := make([]byte, 3<<20) // more than a window
	_, _ = rand.Read(sent)
	s, err := c.tunnels.OpenStream(t.Context(), id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: "ls-1", Port: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := s.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]byte("ls-1 80 "), sent...); !bytes.Equal(got, want) {
		t.Errorf("got %d bytes back, want %d", len(got), len(want))
	}
}

func TestSlowReaderDoesNotStopOtherStreams(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	answer(tun, func(h protocol.StreamHeader, s net.Conn) {
		if h.Port == 1 {
			_, _ = io.Copy(s, endless{})
			return
		}
		_, _ = io.Copy(s, s)
	})
	for range 8 { // nobody reads these
		slow, err := c.tunnels.OpenStream(t.Context(), id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort, Port: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
	}
	s, err := c.tunnels.OpenStream(t.Context(), id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort, Port: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_ = s.SetDeadline(time.Now().Add(10 * time.Second))
	for i := range 20 {
		if _, err := fmt.Fprintf(s, "%04d", i); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(s, make([]byte, 4)); err != nil {
			t.Fatalf("echo %d: %v", i, err)
		}
	}
	var reply string
	stop, err := c.bus.Handle(protocol.AnyReportSubject, "", func(context.Context, string, []byte) (any, error) { return "ok", nil })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := tun.Request(t.Context(), protocol.ReportSubject(id.HostID), 1, &reply); err != nil {
		t.Errorf("the bus beside slow streams: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestStreamToAnAbsentHostIsRefused(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, err := c.tunnels.OpenStream(t.Context(), "ho-absent", protocol.StreamHeader{Kind: protocol.StreamPort})
	var refused *protocol.StreamError
	if !errors.As(err, &refused) || refused.Code != "host_offline" {
		t.Errorf("got %v", err)
	}
}

func TestHostThatDoesNotAnswerCostsOnlyItsCaller(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, id := c.host(t) // accepts no stream
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.tunnels.OpenStream(ctx, id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if !c.tunnels.Connected(id.HostID) {
		t.Error("the tunnel was given up")
	}
}

func TestHostReachesRegistryAndSpeedAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	s, err := tun.Open(protocol.StreamHeader{Kind: protocol.StreamRegistry})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, path := range []string{"/v2/a", "/v2/b"} { // one stream is kept alive for both
		r, _ := http.NewRequest(http.MethodGet, "http://registry"+path, nil)
		if err := r.Write(s); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(s), r)
		if err != nil {
			t.Fatal(err)
		}
		if body, _ := io.ReadAll(res.Body); string(body) != "registry "+path {
			t.Errorf("registry answered %q", body)
		}
	}
	down, err := tun.Open(protocol.StreamHeader{Kind: protocol.StreamSpeed, Bytes: 5 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	if n, err := io.Copy(io.Discard, down); n != 5<<20 || err != nil {
		t.Errorf("download of 5 MiB gave %d bytes, %v", n, err)
	}
	inner := protocol.StreamHeader{Kind: protocol.StreamSSH}
	for _, h := range []protocol.StreamHeader{
		{Kind: protocol.StreamRelay, Host: id.HostID, Inner: &inner},
		{Kind: protocol.StreamLookUp},
		{Kind: protocol.StreamPort, Port: 80},
		{Kind: "unheard of"},
	} {
		var refused *protocol.StreamError
		if _, err := tun.Open(h); !errors.As(err, &refused) || refused.Code != "forbidden" {
			t.Errorf("%s stream of a host: %v", h.Kind, err)
		}
	}
}

func TestOversizedStreamHeaderIsCutOff(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, _ := c.host(t)
	_, err := tun.Open(protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: strings.Repeat("x", 100<<10)})
	if err == nil {
		t.Error("a header of 100 KiB was accepted")
	}
}

func TestReconnectedHostIsReachedAgain(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	tun.Close()
	<-tun.Done()
	again := dial(t, id)
	answer(again, func(_ protocol.StreamHeader, s net.Conn) { _, _ = io.WriteString(s, "again") })
	eventually(t, "the new tunnel carries streams", func() bool {
		s, err := c.tunnels.OpenStream(t.Context(), id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort})
		if err != nil {
			return false
		}
		defer s.Close()
		b, _ := io.ReadAll(s)
		return string(b) == "again"
	})
}

// frozen is a network that can stop carrying bytes without closing anything.
type frozen struct {
	net.Conn
	mu     sync.Mutex
	frozen chan struct{}
}

func (f *frozen) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.mu.Lock()
	hold := f.frozen
	f.mu.Unlock()
	if hold != nil {
		<-hold
		return 0, net.ErrClosed
	}
	return n, err
}

func TestNewTunnelTakesOverFromOneThatWentSilent(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	_, id := c.host(t)
	c.tunnels.Disconnect(id.HostID)
	eventually(t, "the first tunnel is gone", func() bool { return !c.tunnels.Connected(id.HostID) })
	var network *frozen
	old, err := tunnel.Dial(t.Context(), tunnel.Config{Identity: id, DialTCP: func(_ context.Context, address string) (net.Conn, error) {
		raw, err := net.Dial("tcp", address)
		network = &frozen{Conn: raw}
		return network, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	hold := make(chan struct{})
	network.mu.Lock()
	network.frozen = hold
	network.mu.Unlock()
	defer old.Close()
	defer close(hold)

	again := dial(t, id) // returns when the cloud has given up the old one
	answer(again, func(_ protocol.StreamHeader, s net.Conn) { _, _ = io.WriteString(s, "new") })
	s, err := c.tunnels.OpenStream(t.Context(), id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if b, _ := io.ReadAll(s); string(b) != "new" {
		t.Errorf("the stream went to %q", b)
	}
}

func TestSecondMachineWithOneKeyDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	first, id := c.host(t)
	answer(first, func(_ protocol.StreamHeader, s net.Conn) { _, _ = io.WriteString(s, "first") })
	second := dial(t, id)
	answer(second, func(_ protocol.StreamHeader, s net.Conn) { _, _ = io.WriteString(s, "second") })
	for range 5 {
		s, err := c.tunnels.OpenStream(t.Context(), id.HostID, protocol.StreamHeader{Kind: protocol.StreamPort})
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(s)
		s.Close()
		if string(b) != "first" {
			t.Errorf("the stream went to the %s machine", b)
		}
	}
}

func TestAuthorityIsTheSameAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := openAuthority(t, dir)
	b := openAuthority(t, dir)
	if a.Fingerprint() != b.Fingerprint() || a.GatewayAuthorizedKey() != b.GatewayAuthorizedKey() {
		t.Error("a restart changed the cloud's keys")
	}
	if _, err := a.SignHost("nonsense", "ho-x"); err == nil {
		t.Error("nonsense was signed")
	}
}
