package fleet

import (
	"testing"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Code != code {
		t.Fatalf("got %v, want a fault %q", err, code)
	}
}

func TestJoinTokenLetsOneMachineJoinOnce(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	token, expires, err := c.CreateJoinToken(t.Context(), ada, JoinToken{Name: "box"})
	if err != nil {
		t.Fatal(err)
	}
	if !expires.Equal(c.now.Add(time.Hour)) {
		t.Errorf("expires at %s, want in one hour", expires)
	}
	first, err := c.Enrol(t.Context(), c.request(token, 1, false), sign)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := c.BusKey(t.Context(), first.HostID); !ok || key != keyOf(1) {
		t.Errorf("bus key %q, want %q", key, keyOf(1))
	}
	// The same machine asks again, as it never got the answer.
	again, err := c.Enrol(t.Context(), c.request(token, 1, false), sign)
	if err != nil || again.HostID != first.HostID {
		t.Fatalf("the repeated enrolment gave %+v, %v; want host %s", again, err, first.HostID)
	}
	_, err = c.Enrol(t.Context(), c.request(token, 2, false), sign)
	wantCode(t, err, "join_token_used")
	if hosts := c.Hosts(t.Context(), ada); len(hosts) != 1 || hosts[0].Name != "box" || hosts[0].State != StateJoining {
		t.Errorf("hosts %+v, want one that is joining", hosts)
	}
	if hosts := c.Hosts(t.Context(), eve); len(hosts) != 0 {
		t.Errorf("another account sees %d hosts", len(hosts))
	}
}

func TestOnlyOperatorsHostWhereSoSet(t *testing.T) {
	t.Parallel()
	c := newCloud(t, func(cfg *Config) { cfg.OperatorsHost = true })
	owner := ada
	owner.Operator = false
	_, _, err := c.CreateJoinToken(t.Context(), owner, JoinToken{})
	wantCode(t, err, "hosting_by_operator")
	operator := ada
	operator.Operator = true
	token, _, err := c.CreateJoinToken(t.Context(), operator, JoinToken{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enrol(t.Context(), c.request(token, 1, false), sign); err != nil {
		t.Errorf("a machine with an operator's token: %v", err)
	}
}

func TestBadJoinsAreRefusedWithTheirReason(t *testing.T) {
	t.Parallel()
	c := newCloud(t, func(cfg *Config) { cfg.AllowSimulated = false; cfg.TokenSuffix = "abc" })
	token, _, err := c.CreateJoinToken(t.Context(), ada, JoinToken{Lifetime: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	wrong := c.request(token, 1, false)
	wrong.Version = 99
	_, err = c.Enrol(t.Context(), wrong, sign)
	wantCode(t, err, "version_unsupported")
	_, err = c.Enrol(t.Context(), c.request(token, 1, true), sign)
	wantCode(t, err, "simulated_refused")
	_, err = c.Enrol(t.Context(), c.request("join-nonsense.abc", 1, false), sign)
	wantCode(t, err, "join_token_invalid")
	_, err = c.Enrol(t.Context(), c.request("", 1, false), sign)
	wantCode(t, err, "join_token_invalid")
	c.pass(2 * time.Minute)
	_, err = c.Enrol(t.Context(), c.request(token, 1, false), sign)
	wantCode(t, err, "join_token_expired")
	for _, bad := range []JoinToken{{Lifetime: -1}, {Lifetime: 365 * 24 * time.Hour}, {Region: "atlantis"}, {Zone: "local-1"}} {
		if _, _, err := c.CreateJoinToken(t.Context(), ada, bad); err == nil {
			t.Errorf("a token with %+v was made", bad)
		}
	}
}

func TestHostsBehindOneAddressAreTwoHostsAndShareItsPorts(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	var hosts [2]string
	for i := range hosts {
		id := c.join(false)
		inv := c.machine(id, "NVIDIA GeForce RTX 4090", 24564, 1)
		inv.Addresses = []string{"192.0.2.1"}
		inv.DirectPorts = &protocol.PortRange{Address: "192.0.2.1", First: 40000, Last: 40001}
		c.report(id, protocol.Report{Ready: true, Inventory: inv})
		hosts[i] = id
	}
	if n := c.offered("direct_ports"); n != 2 {
		t.Fatalf("%d offers, want one of each host", n)
	}
	a, err := c.reservePorts("ls-1", hosts[0], 8888)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.reservePorts("ls-2", hosts[1], 8888)
	if err != nil {
		t.Fatal(err)
	}
	if a.DirectPorts[8888] != 40000 || b.DirectPorts[8888] != 40001 {
		t.Errorf("ports %v and %v, want 40000 and 40001", a.DirectPorts, b.DirectPorts)
	}
}
