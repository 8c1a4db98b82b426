package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"suanli.dev/api"
)

func newTenant(t *testing.T, c *cloud, as, deposit string) *user {
	t.Helper()
	u, err := c.tenant(as, deposit)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAFirstRentalDoesAllThatTheCommandLineOffers(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "first", "100")
	before := time.Now()
	l := u.rent(t, "work", "-p", "8000", "-p", "9000", "--label", "team=vision", "-e", "GREETING=good morning",
		"--", "/bin/sh", "-c", "echo begun; echo to stderr >&2; httpd -p 8000 -h /www; while true; do nc -l -p 9000 -e /bin/sh /data/ws.sh; done & n=0; while true; do echo line $n; n=$((n+1)); sleep 1; done")
	ran := time.Now()
	if l.State != "running" || l.Labels["team"] != "vision" || !l.Simulated {
		t.Fatalf("the lease is %+v", l)
	}

	t.Run("exec ends with the command's exit code", func(t *testing.T) {
		if out := u.inside(t, "work", "echo $GREETING; pwd"); !strings.HasPrefix(out, "good morning\n") {
			t.Errorf("inside, the environment is not there: %q", out)
		}
		for _, code := range []int{0, 1, 7, 255} {
			if r := u.try("exec", "work", "--", fmt.Sprintf("exit %d", code)); r.code != code {
				t.Errorf("exit %d came back as %d: %s", code, r.code, r.err)
			}
		}
		if out := u.must(t, "exec", "work", "--", "echo", "two  blanks", "and 'quotes'"); out != "two  blanks and 'quotes'\n" {
			t.Errorf("arguments arrived as %q", out)
		}
	})
	t.Run("ssh reads a script from standard input", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		cmd := u.command(ctx, "ssh", "work")
		cmd.Stdin = strings.NewReader("echo from a shell on $(hostname)\nexit 3\n")
		out, _ := cmd.Output()
		if !strings.Contains(string(out), "from a shell on ls-") || cmd.ProcessState.ExitCode() != 3 {
			t.Errorf("the shell said %q and ended with %d", out, cmd.ProcessState.ExitCode())
		}
	})
	t.Run("cp carries a tree there and back", func(t *testing.T) {
		from := filepath.Join(t.TempDir(), "tree")
		if err := os.MkdirAll(filepath.Join(from, "sub dir"), 0o755); err != nil {
			t.Fatal(err)
		}
		big := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
		for f, b := range map[string]string{"a": "small", "sub dir/b": big, "run.sh": "#!/bin/sh\necho ran\n"} {
			if err := os.WriteFile(filepath.Join(from, f), []byte(b), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		u.must(t, "cp", from, "work:/data/tree")
		if out := u.inside(t, "work", "/data/tree/run.sh && wc -c < '/data/tree/sub dir/b'"); out != "ran\n1048576\n" {
			t.Errorf("inside: %q", out)
		}
		back := filepath.Join(t.TempDir(), "back")
		u.must(t, "cp", "work:/data/tree", back)
		if b, err := os.ReadFile(filepath.Join(back, "sub dir", "b")); err != nil || string(b) != big {
			t.Errorf("what came back has %d bytes, %v", len(b), err)
		}
		if r := u.try("cp", "work:/nowhere", back); r.code == 0 || !strings.Contains(r.err, "nowhere") {
			t.Errorf("a file that is not there: %+v", r)
		}
	})
	t.Run("port-forward reaches a port", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		address := freeAddress()
		_, port, _ := net.SplitHostPort(address)
		cmd := u.command(ctx, "port-forward", "work", port+":8000")
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer cmd.Wait()
		defer cancel()
		err := within(15*time.Second, func() error { return wantPage("http://"+address+"/", "", "a page from inside") })
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("a port has a host name of its own at the gateway", func(t *testing.T) { httpByHostName(t, c, u, l) })
	t.Run("a WebSocket passes the gateway", func(t *testing.T) { webSocket(t, c, u, l) })
	t.Run("logs are followed", func(t *testing.T) { followLogs(t, u) })

	u.must(t, "stop", "work")
	stopped := time.Now()
	l = u.lease(t, "work")
	if l.State != "stopped" || l.Code != "commanded" {
		t.Errorf("after stop, the lease is %s (%s)", l.State, l.Code)
	}
	if r := u.try("exec", "work", "--", "true"); r.code == 0 || !strings.Contains(r.err, "is stopped") {
		t.Errorf("a stopped lease was entered: %+v", r)
	}
	if h := hostOf(t, c, l.HostID); h.Free.GPUs != h.Total.GPUs-len(h.Leases) {
		t.Errorf("free %d, total %d, leases %v", h.Free.GPUs, h.Total.GPUs, h.Leases)
	}
	bill := u.bill(t, l.ID)
	exactBill(t, bill, before, ran, stopped)

	u.must(t, "start", "work")
	if out := u.inside(t, "work", "cat /data/tree/a"); out != "small" {
		t.Errorf("after stop and start, the disk has %q", out)
	}
	if r := u.try("start", "work"); r.code != 6 && r.code != 0 {
		t.Logf("start of a running lease: %+v", r)
	}
	generation := u.lease(t, "work").Generation
	u.inside(t, "work", "echo kept > /root/kept")
	u.must(t, "restart", "work")
	if g := u.lease(t, "work").Generation; g <= generation {
		t.Errorf("a restart went from generation %d to %d", generation, g)
	}
	if out := u.inside(t, "work", "cat /root/kept"); out != "kept\n" {
		t.Errorf("after a restart, the disk has %q", out)
	}

	// A deadline, first far, then extended, then near.
	u.must(t, "set", "work", "--stop-at", "2h")
	u.must(t, "set", "work", "--stop-at", "5h")
	l = u.lease(t, "work")
	if l.StopAt == nil || time.Until(*l.StopAt) < 4*time.Hour {
		t.Errorf("the extended deadline is %v", l.StopAt)
	}
	at := time.Now().Add(3 * time.Second).UTC()
	u.must(t, "set", "work", "--stop-at", at.Format(time.RFC3339))
	l = u.reaches(t, "work", 30*time.Second, "stopped")
	if l.Code != "deadline" {
		t.Errorf("stopped at its deadline for %q (%s)", l.Code, l.Message)
	}
	runs := computeLines(u.bill(t, l.ID))
	if len(runs) != 3 {
		t.Errorf("three runs make %d lines: %+v", len(runs), runs)
	} else if late := runs[2].End.Sub(at); late < -time.Second || late > 3*time.Second {
		t.Errorf("the last run ended %v after its deadline", late)
	}

	u.must(t, "end", "work")
	if r := u.try("logs", l.ID); r.code != 0 || !strings.Contains(r.out, "begun") || !strings.Contains(r.out, "to stderr") {
		t.Errorf("after the end, the logs are %q, %q", firstBytes(r.out), r.err)
	}
	bill = u.bill(t, l.ID)
	if bill.EndedAt == nil || bill.Unbilled != 0 || bill.Posted != bill.Total {
		t.Errorf("the last bill is not settled: %+v", bill)
	}
	sumsUp(t, c, bill)
	again := u.bill(t, l.ID)
	if again.Total != bill.Total {
		t.Errorf("a final bill moved from %s to %s", bill.Total, again.Total)
	}
	if err := within(20*time.Second, func() error { return noTrace(c, l.ID) }); err != nil {
		t.Error(err)
	}
}

func firstBytes(s string) string { return s[:min(len(s), 500)] }

func hostOf(t *testing.T, c *cloud, id string) *api.Host {
	t.Helper()
	h, err := c.operator.api.Host(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (u *user) bill(t *testing.T, lease string) *api.Bill {
	t.Helper()
	b, err := u.api.Bill(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func computeLines(b *api.Bill) []api.BillLine {
	var out []api.BillLine
	for _, l := range b.Lines {
		if l.Meter == "compute" {
			out = append(out, l)
		}
	}
	return out
}

// exactBill compares a bill of one run with what was seen from outside: begun
// after one moment and before another, stopped before a third.
func exactBill(t *testing.T, b *api.Bill, before, ran, stopped time.Time) {
	t.Helper()
	runs := computeLines(b)
	if len(runs) != 1 || runs[0].Open {
		t.Fatalf("one run makes the lines %+v", runs)
	}
	r := runs[0]
	if r.Start.Before(before) || r.Start.After(ran) || r.End.After(stopped) || !r.End.After(*r.Start) {
		t.Errorf("charged from %v to %v; asked at %v, seen running at %v, seen stopped at %v", r.Start, r.End, before, ran, stopped)
	}
	took := r.End.Sub(*r.Start)
	seconds := max(1, int64(took/time.Second)) // whole ones, at least the minimum
	if r.Charged != seconds {
		t.Errorf("a run of %v is charged as %d %s", took, r.Charged, r.Unit)
	}
	// Amounts are micro-units, rates nano-units an hour: by exact fractions.
	want := big.NewRat(int64(r.Rate)*seconds, 3600*1000)
	got := new(big.Rat).SetInt64(int64(r.Amount))
	if diff := new(big.Rat).Sub(want, got); diff.Abs(diff).Cmp(big.NewRat(1, 2)) > 0 {
		t.Errorf("%d s at %s an hour cost %s", seconds, r.Rate, r.Amount)
	}
}

// sumsUp checks that a bill's lines, shares and postings are one sum, and that
// the whole ledger adds up.
func sumsUp(t *testing.T, c *cloud, b *api.Bill) {
	t.Helper()
	var lines api.Amount
	for _, l := range b.Lines {
		lines += l.Amount
	}
	if lines != b.Total || b.ProviderShare+b.Commission != b.Total {
		t.Errorf("lines %s, total %s, provider %s, commission %s", lines, b.Total, b.ProviderShare, b.Commission)
	}
	if out := c.operator.must(t, "ledger", "verify", "--json"); !strings.Contains(out, `"ok": true`) {
		t.Errorf("the ledger: %s", out)
	}
}

// noTrace looks for anything of one lease on the machine.
func noTrace(c *cloud, lease string) error {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if strings.Contains(string(mounts), lease) {
		return fmt.Errorf("a mount of %s is left", lease)
	}
	for _, h := range c.hosts {
		if _, err := os.Stat(filepath.Join(h.dir, "agent", "leases", lease)); err == nil {
			return fmt.Errorf("the folder of %s is left", lease)
		}
	}
	for _, kind := range []string{"container", "network"} {
		out, err := docker(c.engine, kind, "ls", "-q", "--filter", "label=suanli.lease="+lease)
		if err != nil || strings.TrimSpace(out) != "" {
			return fmt.Errorf("a %s of %s is left: %s %v", kind, lease, out, err)
		}
	}
	return nil
}

func wantPage(address, host, want string) error {
	req, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if host != "" {
		req.Host = host
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || !strings.Contains(string(b), want) {
		return fmt.Errorf("%s: %s %q %v", address, res.Status, b, err)
	}
	return nil
}

// appRequest is a request for a port of a lease by its host name, which the test
// does not ask any resolver for.
func (u *user) appRequest(t *testing.T, c *cloud, lease, port string) *http.Request {
	t.Helper()
	a, err := u.api.LeaseAccess(t.Context(), lease)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(a.URLs[port])
	if err != nil || at.Host == "" {
		t.Fatalf("the address of port %s is %q, %v", port, a.URLs[port], err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.api+at.RequestURI(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = at.Host
	return req
}

var noRedirect = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 20 * time.Second}

func httpByHostName(t *testing.T, c *cloud, u *user, l *api.Lease) {
	req := u.appRequest(t, c, l.ID, "8000")
	res, err := noRedirect.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if len(res.Cookies()) == 0 {
		t.Fatalf("the secret in the address gave no cookie: %s %v", res.Status, res.Header)
	}
	page := req.Clone(t.Context())
	page.URL.RawQuery, page.URL.Path = "", "/"
	refused, err := noRedirect.Do(page)
	if err != nil {
		t.Fatal(err)
	}
	refused.Body.Close()
	if refused.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the secret: %s", refused.Status)
	}
	for _, k := range res.Cookies() {
		page.AddCookie(k)
	}
	res, err = noRedirect.Do(page)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != 200 || string(b) != "a page from inside\n" {
		t.Errorf("with the cookie: %s %q", res.Status, b)
	}
}

// The key and its answer are the example of RFC 6455, so that the server inside
// can be a few lines of shell.
const webSocketServer = `while read -r line; do [ "$line" = "$(printf '\r')" ] && break; done
printf 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
exec cat
`

func webSocket(t *testing.T, c *cloud, u *user, l *api.Lease) {
	script := filepath.Join(t.TempDir(), "ws.sh")
	if err := os.WriteFile(script, []byte(webSocketServer), 0o755); err != nil {
		t.Fatal(err)
	}
	u.must(t, "cp", script, "work:/data/ws.sh")
	req := u.appRequest(t, c, l.ID, "9000")
	first, err := noRedirect.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	conn, err := net.DialTimeout("tcp", c.api, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	ws := req.Clone(t.Context())
	ws.URL.RawQuery, ws.URL.Path = "", "/"
	ws.Header.Set("Connection", "Upgrade")
	ws.Header.Set("Upgrade", "websocket")
	ws.Header.Set("Sec-WebSocket-Version", "13")
	ws.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	for _, k := range first.Cookies() {
		ws.AddCookie(k)
	}
	if err := ws.Write(conn); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, ws)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("the upgrade was answered %s %s", res.Status, b)
	}
	// What follows is the peers' own; the gateway passes it on as it is.
	frame := []byte("\x81\x85mask\x05\x04\x1f\x07\x02")
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(frame))
	if _, err := io.ReadFull(r, back); err != nil || string(back) != string(frame) {
		t.Errorf("the frame came back as %q, %v", back, err)
	}
}

func followLogs(t *testing.T, u *user) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := u.command(ctx, "logs", "-f", "--tail", "1", "work")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(out)
	var lines []string
	for len(lines) < 3 && s.Scan() {
		lines = append(lines, s.Text())
	}
	cancel()
	_ = cmd.Wait()
	if len(lines) < 3 || !strings.HasPrefix(lines[2], "line ") {
		t.Errorf("followed: %q, %v", lines, s.Err())
	}
}

func TestASpendingCapStopsALeaseAtThatAmount(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "capped", "100")
	l := u.rent(t, "capped", "--spending-cap", "0.001")
	l = u.reaches(t, l.ID, 60*time.Second, "stopped")
	if l.Code != "spending_cap" {
		t.Errorf("stopped for %q (%s)", l.Code, l.Message)
	}
	u.must(t, "end", l.ID)
	b := u.bill(t, l.ID)
	for _, r := range computeLines(b) {
		if r.Amount > 1100 {
			t.Errorf("a cap of 0.001 let a run cost %s", r.Amount)
		}
	}
	sumsUp(t, c, b)
}

func TestAnIdleLeaseIsStopped(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "idler", "100")
	l := u.rent(t, "idle", "--idle-stop", "1m")
	l = u.reaches(t, l.ID, 110*time.Second, "stopped")
	if l.Code != "idle" {
		t.Errorf("stopped for %q (%s)", l.Code, l.Message)
	}
	r := computeLines(u.bill(t, l.ID))[0]
	if ran := r.End.Sub(*r.Start); ran < 55*time.Second {
		t.Errorf("it ran for %v only", ran)
	}
	u.must(t, "end", l.ID)
}

func TestALeaseThatCannotBePaidForIsNotBegun(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "poor", "")
	r := u.try("rent", "--image", "cloud://box:1", "--disk", "1", "--where", oneGPU)
	if r.code != 5 || !strings.Contains(r.err, "add money") {
		t.Errorf("without money: exit code %d, %s", r.code, r.err)
	}
	if out := u.must(t, "ps", "--all", "--json"); strings.TrimSpace(out) != "null" && strings.TrimSpace(out) != "[]" {
		t.Errorf("a lease was made: %s", out)
	}
}

func TestEverythingSimulatedSaysSo(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "honest", "100")
	l := u.rent(t, "honest")
	for _, args := range [][]string{
		{"search", oneGPU}, {"quote", "--where", oneGPU, "--image", "cloud://box:1", "--disk", "1"},
		{"ps"}, {"show", "honest"}, {"bill", "honest"}, {"top", "--once"},
	} {
		out := u.must(t, args...)
		if !strings.Contains(out, "[simulated]") {
			t.Errorf("suanli %v does not say so:\n%s", args, out)
		}
		asJSON := u.must(t, append([]string{"--json"}, args...)...)
		if !strings.Contains(asJSON, `"simulated": true`) || strings.Contains(asJSON, `"simulated": false`) {
			t.Errorf("suanli --json %v does not say so:\n%s", args, firstBytes(asJSON))
		}
	}
	for _, args := range [][]string{{"host", "list"}, {"host", "show", l.HostID}} {
		if out := c.operator.must(t, args...); !strings.Contains(out, "[simulated]") {
			t.Errorf("suanli %v does not say so:\n%s", args, out)
		}
	}
	if out := u.inside(t, "honest", "nvidia-smi -L"); !strings.Contains(strings.ToLower(out), "simulated") {
		t.Errorf("nvidia-smi inside does not say so: %s", out)
	}
	u.must(t, "end", "honest")
	charges, err := u.api.Charges(t.Context(), l.ID)
	if err != nil || len(charges) == 0 {
		t.Fatalf("charges: %v, %v", charges, err)
	}
	for _, ch := range charges {
		if !ch.Simulated {
			t.Errorf("the charge %+v does not say so", ch)
		}
	}
	if out := u.must(t, "bill", l.ID, "--json"); !strings.Contains(out, `"simulated": true`) {
		t.Errorf("the final bill does not say so: %s", out)
	}
}
