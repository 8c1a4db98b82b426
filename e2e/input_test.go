package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"suanli.dev/api"
)

// runToEnd runs the program under test until it ends by itself.
func runToEnd(t *testing.T, args ...string) (string, int) {
	t.Helper()
	exe, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, args...).CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("suanli %v did not end: %s", args, out)
	}
	if err == nil {
		return string(out), 0
	}
	return string(out), err.(*exec.ExitError).ExitCode()
}

func TestAMachineJoinsOnlyByAGoodTokenOnce(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	joinBy := func(token string) (string, int) {
		return runToEnd(t, "agent", "join", c.agents, "--token", token, "--data-dir", t.TempDir(), "--docker", "sim", "--allow-simulated=true", "--simulate", "2x3090")
	}
	good := strings.TrimSpace(c.operator.must(t, "host", "token"))
	secret, cloudMark, _ := strings.Cut(good, ".")
	other := strings.Repeat("0", len(cloudMark))
	for name, token := range map[string]string{
		"not a token": "hello", "another secret": strings.Repeat("x", len(secret)) + "." + cloudMark, "another cloud": secret + "." + other,
	} {
		out, code := joinBy(token)
		if code == 0 || strings.Contains(out, "panic") || !strings.Contains(out, "token") && !strings.Contains(out, "certificate") && !strings.Contains(out, "cloud") {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
	}
	h, err := c.beginJoin("2x3090", "--docker", "sim")
	if err != nil {
		t.Fatal(err)
	}
	used := ""
	for i, a := range h.p.cmd.Args {
		if a == "--token" {
			used = h.p.cmd.Args[i+1]
		}
	}
	if err := h.listed(); err != nil {
		t.Fatal(err)
	}
	if out, code := joinBy(used); code == 0 || !strings.Contains(out, "used") {
		t.Errorf("a used token: exit code %d, %s", code, out)
	}

	// A second machine with a copy of the first one's key.
	twin := t.TempDir()
	if err := os.CopyFS(twin, os.DirFS(h.dir)); err != nil {
		t.Fatal(err)
	}
	flags := slices.Clone(h.flags)
	flags[slices.Index(flags, "--data-dir")+1] = twin
	log := filepath.Join(t.TempDir(), "twin.log")
	p, err := start(log, append([]string{"agent", "run"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	err = within(30*time.Second, func() error {
		b, _ := os.ReadFile(log)
		if !strings.Contains(string(b), "duplicate_session") && !strings.Contains(string(b), "another") && !strings.Contains(string(b), "same key") {
			return fmt.Errorf("the twin's log says %q", tail(log, 3))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	p.kill()
	if err := h.listed(); err != nil {
		t.Errorf("the first one suffered: %v", err)
	}
	if err := h.p.end(syscall.SIGTERM); err != nil || h.p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("asked to stop, the agent ended with %d, %v", h.p.cmd.ProcessState.ExitCode(), err)
	}
}

func TestACloudWithoutSimulationRefusesSimulatedHosts(t *testing.T) {
	t.Parallel()
	needRoot(t)
	c, err := newCloud(t.TempDir(), "--allow-simulated=false")
	if err != nil {
		t.Fatal(err)
	}
	defer c.server.kill()
	token := strings.TrimSpace(c.operator.must(t, "host", "token"))
	out, code := runToEnd(t, "agent", "join", c.agents, "--token", token, "--data-dir", t.TempDir(), "--docker", "sim", "--simulate", "8x4090")
	if code == 0 || !strings.Contains(out, "operator") || !strings.Contains(out, "allow_simulated") {
		t.Errorf("a simulated host: exit code %d, %s", code, out)
	}
	if hosts, err := c.operator.api.Hosts(t.Context()); err != nil || len(hosts) != 0 {
		t.Errorf("hosts: %+v, %v", hosts, err)
	}
	if out := c.operator.must(t, "search", "--json"); strings.Contains(out, `"id"`) {
		t.Errorf("it is on the market: %s", out)
	}
}

func TestAPortThatIsTakenIsSaidAtOnceAndChangesNothing(t *testing.T) {
	t.Parallel()
	needRoot(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	for _, flag := range []string{"--listen", "--agent-listen", "--ssh-listen"} {
		args := []string{"server", "--data-dir", dir, "--listen", freeAddress(), "--agent-listen", freeAddress(), "--ssh-listen", freeAddress()}
		args[slices.Index(args, flag)+1] = l.Addr().String()
		out, code := runToEnd(t, args...)
		if code == 0 || !strings.Contains(out, flag) || !strings.Contains(out, "in use") {
			t.Errorf("%s taken: exit code %d, %s", flag, code, out)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) > 0 {
		t.Errorf("it began to write: %v", files)
	}
}

// failed rents what cannot run, and returns the lease as it ended.
func (u *user) failed(t *testing.T, name string, args ...string) *api.Lease {
	t.Helper()
	r := u.try(append([]string{"rent", "--name", name, "--where", oneGPU, "--disk", "1"}, args...)...)
	if r.code == 0 {
		t.Errorf("rent %v came to run: %s", args, r.out)
	}
	p, err := u.api.Leases(t.Context(), "", false, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range p.Items {
		if l.Name == name {
			if !strings.Contains(r.err+r.out, l.Message) || l.Message == "" {
				t.Errorf("rent %v says %q and the lease says %q", args, r.err, l.Message)
			}
			return &l
		}
	}
	t.Fatalf("rent %v made no lease: %s", args, r.err)
	return nil
}

func TestAnImageThatCannotRunFailsWithItsReasonAndCostsNothing(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "images", "100")
	arm := image(v1.ConfigFile{Architecture: "arm64", Config: v1.Config{Cmd: []string{"/bin/sh"}}}, busyboxFiles())
	if err := c.push("arm:1", arm); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"nowhere": "", "arm": "arm64"} {
		l := u.failed(t, "image-"+name, "--image", "cloud://"+name+":1")
		if l.State != "failed" || l.Code == "" || !strings.Contains(l.Message, want) {
			t.Errorf("%s: the lease is %s (%s): %s", name, l.State, l.Code, l.Message)
		}
		if b := u.bill(t, l.ID); b.Total != 0 {
			t.Errorf("%s: never ran, and costs %s", name, b.Total)
		}
		if err := within(20*time.Second, func() error { return noTrace(c, l.ID) }); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b, err := u.api.Balance(t.Context()); err != nil || b.Held != 0 || b.Available != 100_000_000 {
		t.Errorf("the balance is %+v, %v", b, err)
	}
}

func (c *cloud) token(u *user) string {
	var s struct{ Token string }
	b, _ := os.ReadFile(filepath.Join(u.dir, "login.json"))
	_ = json.Unmarshal(b, &s)
	return s.Token
}

func TestAStartScriptMayFailLoopOrTalkTooMuch(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "scripts", "100")
	script := func(text string) string {
		f := filepath.Join(t.TempDir(), "start.sh")
		if err := os.WriteFile(f, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return f
	}
	t.Run("exit 1", func(t *testing.T) {
		l := u.rentAnyhow(t, "bad-start", "--start-script", script("echo going down; exit 1"))
		l = u.reaches(t, l.ID, 30*time.Second, "stopped", "failed")
		if l.ExitCode == nil || *l.ExitCode != 1 {
			t.Errorf("the lease is %s (%s: %s) with exit code %v", l.State, l.Code, l.Message, l.ExitCode)
		}
		if out := u.must(t, "logs", l.ID); !strings.Contains(out, "going down") {
			t.Errorf("its log is %q", out)
		}
		u.must(t, "end", l.ID)
	})
	t.Run("loop", func(t *testing.T) {
		l := u.rent(t, "loop", "--start-script", script("while :; do :; done"))
		if out := u.inside(t, l.ID, "echo in"); out != "in\n" {
			t.Errorf("inside: %q", out)
		}
		u.must(t, "end", l.ID)
	})
	t.Run("a gigabyte of output", func(t *testing.T) {
		l := u.rent(t, "chatter", "--start-script", script("yes 0123456789012345678901234567890123456789012345678901234567890 | head -c 1000000000"))
		err := within(300*time.Second, func() error {
			if out := u.must(t, "logs", l.ID, "--tail", "1"); !strings.Contains(out, "hello from inside") {
				return fmt.Errorf("the last line is %q", firstBytes(out))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		path, err := docker(c.engine, "inspect", "--format", "{{.LogPath}}", "suanli-"+l.ID)
		if err != nil {
			t.Fatal(err)
		}
		var kept int64
		files, _ := filepath.Glob(filepath.Join(filepath.Dir(strings.TrimSpace(path)), "*.log*"))
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				kept += st.Size()
			}
		}
		if len(files) == 0 || kept > 300<<20 {
			t.Errorf("%d bytes of output are kept in %v", kept, files)
		}
		u.must(t, "end", l.ID)
		if out := u.must(t, "logs", l.ID, "--tail", "1"); !strings.Contains(out, "hello from inside") {
			t.Errorf("after its end, the last line is %q", firstBytes(out))
		}
	})
}

// rentAnyhow rents what may end before it is seen running.
func (u *user) rentAnyhow(t *testing.T, name string, args ...string) *api.Lease {
	t.Helper()
	u.must(t, append([]string{"rent", "--wait=false", "--name", name, "--image", "cloud://box:1", "--disk", "1", "--where", oneGPU}, args...)...)
	return u.lease(t, name)
}

// Whatever stands in a field, the answer is a refusal that names it, never a
// failure of the server, and nothing is made.
func TestBadValuesInEveryFieldAreRefusedByName(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "values", "100")
	offers, err := u.api.Offers(t.Context(), api.OfferQuery{Where: oneGPU, Limit: 1})
	if err != nil || len(offers.Items) == 0 {
		t.Fatalf("offers: %v, %v", offers, err)
	}
	quote := func() string {
		q, err := u.api.CreateQuote(t.Context(), api.QuoteRequest{OfferID: offers.Items[0].ID, Image: "cloud://box:1", DiskGiB: 1})
		if err != nil {
			t.Fatal(err)
		}
		return q.ID
	}
	always := []string{`"abc"`, `-1`, `1e30`, `99999999999999999999`, `{}`, `[1]`, `"\u0000"`, `true`, `1.5`}
	bases := []struct {
		path, body string
		by         *user
		numbers    []string // fields that are numbers or amounts: everything of always is wrong
		texts      []string // others: may be taken if they happen to be right
	}{
		{"/v1/quotes", `{"offer_id":"` + offers.Items[0].ID + `","image":"cloud://box:1"}`, u,
			[]string{"disk_gib", "run_seconds", "egress_bytes"}, []string{"offer_id", "plan", "template", "image"}},
		{"/v1/leases", `{"quote_id":"` + quote() + `"}`, u,
			[]string{"quote_id", "ports", "stop_at", "idle_stop", "spending_cap"}, []string{"name", "labels", "entrypoint", "command", "start_script", "environment"}},
		{"/v1/operator/deposits", `{"account_id":"` + u.account + `","amount":"1.00"}`, c.operator,
			[]string{"account_id", "amount"}, []string{"reference"}},
		{"/v1/hosts/join-tokens", `{}`, c.operator, []string{"expires_in_seconds"}, []string{"name", "region", "zone", "rack"}},
	}
	before, err := u.api.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bases {
		for i, field := range append(slices.Clone(b.numbers), b.texts...) {
			for _, v := range always {
				var m map[string]json.RawMessage
				if err := json.Unmarshal([]byte(b.body), &m); err != nil {
					t.Fatal(err)
				}
				m[field] = json.RawMessage(v)
				body, _ := json.Marshal(m)
				status, answer := c.post(t, b.by, b.path, body)
				var problem struct{ Code, Detail string }
				_ = json.Unmarshal(answer, &problem)
				switch {
				case field == "ports" && v == "[1]" || field == "reference" && v == `"abc"`:
					// Right, as it happens.
				case status < 300 && strings.Contains(v, "u0000"):
					t.Errorf("%s with %s = %s is taken", b.path, field, v)
				case status >= 500:
					t.Errorf("%s with %s = %s: %d %s", b.path, field, v, status, answer)
				case status >= 400 && problem.Code == "":
					t.Errorf("%s with %s = %s: a refusal without a code: %s", b.path, field, v, answer)
				case status < 300 && i < len(b.numbers):
					if b.path == "/v1/operator/deposits" && field == "amount" && v == `1.5` {
						continue // a number is read as the decimal that it is
					}
					t.Errorf("%s with %s = %s is taken: %s", b.path, field, v, firstBytes(string(answer)))
				}
			}
		}
	}
	for _, bad := range []string{`{`, `[]`, `null`, `"x"`, ``, "\xff\xfe", strings.Repeat("[", 100_000)} {
		if status, answer := c.post(t, u, "/v1/leases", []byte(bad)); status < 400 || status >= 500 {
			t.Errorf("the body %q: %d %s", firstBytes(bad), status, answer)
		}
	}
	after, err := u.api.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.Settled != before.Settled+1_000_000 { // the one deposit with a good reference
		t.Errorf("refusals moved the balance from %s to %s", before.Settled, after.Settled)
	}
	if p, err := u.api.Leases(t.Context(), "", true, "", 100); err != nil || len(p.Items) > 1 {
		t.Errorf("leases: %d, %v", len(p.Items), err)
	}
}

func (c *cloud) post(t *testing.T, u *user, path string, body []byte) (int, []byte) {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.api+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token(u))
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusTooManyRequests {
			return res.StatusCode, answer
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("rate limit without end")
		}
	}
}

func TestTheCommandLineRefusesBadArgumentsWithTheUsageCode(t *testing.T) {
	t.Parallel()
	c := sharedCloud(t)
	u := newTenant(t, c, "arguments", "100")
	for _, args := range [][]string{
		{"rent", "--where", "gpu_count >", "--image", "cloud://box:1"}, {"rent", "--where", "colour = 3", "--image", "cloud://box:1"},
		{"rent", "--where", oneGPU, "--image", "cloud://box:1", "--disk", "0x"}, {"rent", "--where", oneGPU, "--image", "cloud://box:1", "--disk", "-1"},
		{"rent", "--where", oneGPU, "--image", "not an image"}, {"rent", "--where", oneGPU},
		{"rent", "--where", oneGPU, "--image", "cloud://box:1", "-e", "NVIDIA_VISIBLE_DEVICES=all"},
		{"rent", "--where", oneGPU, "--image", "cloud://box:1", "-p", "0"}, {"rent", "--where", oneGPU, "--image", "cloud://box:1", "-p", "70000"},
		{"rent", "--where", oneGPU, "--image", "cloud://box:1", "--spending-cap", "lots"}, {"rent", "--where", oneGPU, "--image", "cloud://box:1", "--idle-stop", "3s"},
		{"rent", "--where", oneGPU, "--image", "cloud://box:1", "--stop-in", "-5m"}, {"rent", "--where", oneGPU, "--template", "no-such-template"},
		{"port-forward", "x", "99999"}, {"cp", "a", "b"}, {"search", "gpu_count = "}, {"exec", "x"}, {"exec", "x", "--"},
	} {
		if r := u.try(args...); r.code != 2 || strings.Contains(r.err, "panic") || strings.TrimSpace(r.err) == "" {
			t.Errorf("suanli %q: exit code %d, %s%s", args, r.code, r.err, r.out)
		}
	}
	if r := u.try("rent", "--where", oneGPU, "--image", "cloud://box:1", "--disk", "900000"); r.code == 0 {
		t.Errorf("a disk larger than any host's: %+v", r)
	}
	if r := u.try("show", "nobody"); r.code != 3 {
		t.Errorf("a lease that is not there: %+v", r)
	}
	if r := u.try("ps", "--token", "sk-suanli-wrong"); r.code != 4 {
		t.Errorf("a wrong key: %+v", r)
	}
}
