package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/gateway"
	"suanli.dev/internal/instance"
	"suanli.dev/internal/instance/sshtest"
	"suanli.dev/internal/protocol"
)

// The test binary is also what an instance runs for SFTP.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "instance" {
		os.Exit(instance.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// entered is a world with a running lease of Ada's whose instance is this machine.
type entered struct {
	*world
	lease api.Lease
	dir   string // where the test may write
	query string // more of what a terminal is asked for
}

func enteredWorld(t *testing.T) *entered {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell")
	}
	key, run := sshtest.NewKey(t), t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	t.Cleanup(func() { cancel(); served.Wait() })
	served.Go(func() {
		settings := protocol.InstanceSettings{HostKey: sshtest.NewKey(t).PEM, GatewayKeys: []string{key.Authorized()}, Environment: map[string]string{"HOME": t.TempDir()}}
		if err := instance.ServeSSH(ctx, ln, settings, run, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, func(_ *world, c *Config) {
		c.Recheck = 20 * time.Millisecond
		c.PublicURL = "https://cloud.example.com"
		c.Entrance.Enter = func(_ context.Context, target gateway.Target) (*ssh.Client, error) {
			if target.LeaseID == "" || target.HostID == "" {
				return nil, errors.New("no target")
			}
			return ssh.Dial("tcp", ln.Addr().String(), &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(key.Signer)}, HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		}
	})
	w.deposit(w.ada, "100")
	e := &entered{world: w, lease: w.rent(w.ada, func(c *api.LeaseCreate) { c.Name = "study" }), dir: t.TempDir()}
	w.hostSays(protocol.InstanceStatus{LeaseID: e.lease.ID, Generation: 1, Phase: protocol.PhaseRunning})
	return e
}

// open opens a terminal as a browser does.
func (e *entered) open(t *testing.T, token string, header http.Header) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return websocket.Dial(ctx, strings.Replace(e.url, "http", "ws", 1)+"/v1/leases/study/terminal?columns=91&rows=17"+e.query, &websocket.DialOptions{
		Subprotocols: []string{api.TerminalProtocol, webSocketBearer + token}, HTTPHeader: header,
	})
}

// shown reads a terminal until it has shown want, or said a message of that type.
func shown(t *testing.T, c *websocket.Conn, want string) (all string, said api.TerminalMessage) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	for {
		kind, content, err := c.Read(ctx)
		if err != nil {
			t.Fatalf("%v, before %q came: %q", err, want, out.String())
		}
		if kind == websocket.MessageText {
			if err := json.Unmarshal(content, &said); err != nil {
				t.Fatal(err)
			}
			if "message "+said.Type == want {
				return out.String(), said
			}
			continue
		}
		if out.Write(content); strings.Contains(out.String(), want) {
			return out.String(), said
		}
	}
}

func typed(t *testing.T, c *websocket.Conn, line string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte(line)); err != nil {
		t.Fatal(err)
	}
}

func TestATerminalIsAShellOfTheTypedSizeThatEndsWithItsExitCode(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	c, res, err := e.open(t, e.ada.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if c.Subprotocol() != api.TerminalProtocol {
		t.Errorf("the subprotocol is %q: a token must not come back", c.Subprotocol())
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Errorf("status %d", res.StatusCode)
	}
	shown(t, c, "message ready")
	typed(t, c, "stty size; echo over $((20 + 3))\n")
	if out, _ := shown(t, c, "over 23"); !strings.Contains(out, "17 91") {
		t.Errorf("the terminal showed %q", out)
	}
	if err := c.Write(t.Context(), websocket.MessageText, []byte(`{"type":"resize","columns":123,"rows":45}`)); err != nil {
		t.Fatal(err)
	}
	for _, junk := range []string{`{"type":"resize","columns":-1,"rows":1e9}`, `{`, `[]`, `{"type":"exec","command":"true"}`} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(junk)); err != nil {
			t.Fatal(err)
		}
	}
	// A size and what is typed after it come by ways of their own.
	typed(t, c, "until [ \"$(stty size)\" = '45 123' ]; do sleep 0.05; done; echo over $((20 + 4))\n")
	shown(t, c, "over 24")
	typed(t, c, "printf '\\377\\000\\033]0;a\\007bytes'; exit 5\n")
	out, said := shown(t, c, "message exit")
	if said.ExitCode != 5 || !strings.Contains(out, "\xff\x00\x1b]0;a\x07bytes") {
		t.Errorf("exit %+v after %q", said, out)
	}
	log, err := e.accounts.AuditLog(t.Context(), e.ada.AccountID, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, a := range log {
		found = found || a.Action == "lease.enter" && a.Subject == e.lease.ID && a.UserID == e.ada.ID && strings.Contains(string(a.Detail), "terminal")
	}
	if !found {
		t.Errorf("the audit log does not have it: %+v", log)
	}
	if strings.Contains(e.log.String(), e.ada.token) {
		t.Error("the token is in the server's log")
	}
}

func TestAFloodWaitsForAClientThatSaysWhatItHasShown(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	e.query = "&acknowledge=true"
	c, _, err := e.open(t, e.ada.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	shown(t, c, "message ready")
	typed(t, c, "yes flood\n")
	out, _ := shown(t, c, "flood\r\nflood\r\n")
	got := len(out)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, content, err := c.Read(ctx)
		cancel()
		if err != nil {
			break // nothing comes any more; the failed read has closed the connection
		}
		if got += len(content); got > 2*terminalAhead {
			t.Fatal("it goes on although nothing was acknowledged")
		}
	}
	if got < terminalAhead {
		t.Fatalf("it stopped at %d bytes", got)
	}

	c, _, err = e.open(t, e.ada.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	shown(t, c, "message ready")
	typed(t, c, "yes flood\n")
	for got = 0; got < 8*terminalAhead; {
		_, content, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got += len(content)
		if err := c.Write(t.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"shown","bytes":%d}`, len(content))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestATerminalIsClosedToWhoMayNotEnter(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	viewer := e.newUser(e.ada, "viewer@example.com", account.Viewer)
	for name, c := range map[string]struct {
		token  string
		header http.Header
		status int
	}{
		"nobody":                    {"", nil, 401},
		"somebody unknown":          {"no-such-token", nil, 401},
		"another tenant":            {e.eve.token, nil, 404},
		"a viewer":                  {viewer.token, nil, 403},
		"a key without the scope":   {e.newKey(e.ada, string(account.ReadLeases)), nil, 403},
		"a page of another origin":  {e.ada.token, http.Header{"Origin": {"https://evil.example"}}, 403},
		"a page of an instance":     {e.ada.token, http.Header{"Origin": {"https://8888-x.apps.cloud.example.com"}}, 403},
		"a page of the same origin": {e.ada.token, http.Header{"Origin": {"https://cloud.example.com"}}, 101},
	} {
		conn, res, err := e.open(t, c.token, c.header)
		if res == nil || res.StatusCode != c.status || (err == nil) != (c.status == 101) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
		if conn != nil {
			conn.CloseNow()
		}
	}
	e.send("GET", "/v1/leases/"+e.lease.ID+"/terminal", e.operator.token, nil).want(t, 403, "own_account_only")
	e.send("GET", "/v1/leases/study/terminal", e.ada.token, nil).want(t, 422, "websocket_needed")
	e.send("GET", "/v1/leases/study/terminal?columns=100000", e.ada.token, nil).want(t, 422, "invalid_request")
}

func TestATerminalEndsWhenItsCredentialsAreRevoked(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	key, err := e.accounts.CreateAPIKey(t.Context(), e.ada.principal(), account.CreateAPIKey{Name: "k", Scopes: []string{account.AllScopes}})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := e.open(t, key.Secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	shown(t, c, "message ready")
	typed(t, c, "while true; do echo flood; done\n") // it is ended although it never falls silent
	shown(t, c, "flood")
	if err := e.accounts.DeleteAPIKey(t.Context(), e.ada.principal(), key.ID); err != nil {
		t.Fatal(err)
	}
	if _, said := shown(t, c, "message problem"); !strings.Contains(fmt.Sprint(said.Problem), "invalid_token") {
		t.Errorf("it said %+v", said)
	}
}

func TestATerminalTellsInsideOfItWhyThereIsNoShell(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	e.send("POST", "/v1/leases/study/stop", e.ada.token, nil).want(t, 200, "commanded")
	c, _, err := e.open(t, e.ada.token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if _, said := shown(t, c, "message problem"); !strings.Contains(fmt.Sprint(said.Problem), "lease_state") {
		t.Errorf("it said %+v", said)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("then %v", err)
	}
}

func TestNobodyHoldsTerminalsWithoutEndOrSendsWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	var open []*websocket.Conn
	for range userTerminals {
		c, _, err := e.open(t, e.ada.token, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		open = append(open, c)
	}
	if _, res, err := e.open(t, e.ada.token, nil); err == nil || res.StatusCode != 429 {
		t.Errorf("one more: %v", err)
	}
	shown(t, open[0], "message ready")
	if err := open[0].Write(t.Context(), websocket.MessageBinary, make([]byte, terminalMessage+1)); err != nil {
		t.Fatal(err)
	}
	for {
		_, _, err := open[0].Read(t.Context())
		if err == nil {
			continue // the prompt
		}
		if websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Errorf("after a message that is too large: %v", err)
		}
		break
	}
	// Its place is free again, soon.
	eventually(t, "there is room for a terminal again", func() bool {
		c, _, err := e.open(t, e.ada.token, nil)
		if err == nil {
			c.CloseNow()
		}
		return err == nil
	})
}

func (e *entered) file(method, path, query, token string, body io.Reader) reply {
	e.t.Helper()
	req, err := http.NewRequestWithContext(e.t.Context(), method, e.url+"/v1/leases/study/files"+path+"?"+query, body)
	if err != nil {
		e.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{Body: err.Error()}
	}
	defer res.Body.Close()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{Body: err.Error()}
	}
	return reply{Status: res.StatusCode, Header: res.Header, Body: string(content)}
}

func at(path ...string) string { return url.Values{"path": {filepath.Join(path...)}}.Encode() }

func TestFilesAreListedFetchedAndStoredWhole(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	big := strings.Repeat("0123456789abcdef", 200_000) // 3.2 MB: more than other bodies may have
	r := e.file("PUT", "/content", at(e.dir, "big.bin"), e.ada.token, strings.NewReader(big))
	r.want(t, 200, "")
	if stored := decode[api.LeaseFileStored](t, r); stored.SizeBytes != int64(len(big)) || stored.Path != filepath.Join(e.dir, "big.bin") {
		t.Errorf("stored %+v", stored)
	}
	if r = e.file("GET", "/content", at(e.dir, "big.bin"), e.ada.token, nil); r.Body != big {
		t.Errorf("what came back has %d bytes, status %d", len(r.Body), r.Status)
	}
	if d := r.Header.Get("Content-Disposition"); d != "attachment; filename=big.bin" || r.Header.Get("Content-Type") != "application/octet-stream" || r.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", r.Header)
	}
	// It is not replaced by accident, and what is replaced keeps its mode.
	e.file("PUT", "/content", at(e.dir, "big.bin"), e.ada.token, strings.NewReader("x")).want(t, 409, "file_exists")
	if err := os.Chmod(filepath.Join(e.dir, "big.bin"), 0o750); err != nil {
		t.Fatal(err)
	}
	e.file("PUT", "/content", at(e.dir, "big.bin")+"&overwrite=true", e.ada.token, strings.NewReader("")).want(t, 200, "")
	if about, err := os.Stat(filepath.Join(e.dir, "big.bin")); err != nil || about.Size() != 0 || about.Mode() != 0o750 {
		t.Errorf("after it was replaced %v, %v", about, err)
	}
	hostile := "<img src=x onerror=alert(1)>\u202etxt.\n\";.sh"
	for _, err := range []error{os.Mkdir(filepath.Join(e.dir, "zfolder"), 0o755), os.Symlink("/etc", filepath.Join(e.dir, "link")), os.WriteFile(filepath.Join(e.dir, hostile), []byte("hostile"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	folder, err := e.ada.client.LeaseFiles(t.Context(), "study", e.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range folder.Items {
		names = append(names, f.Kind+" "+f.Name)
	}
	if got := strings.Join(names, "|"); folder.Path != e.dir || got != "folder zfolder|file "+hostile+"|file big.bin|link link" {
		t.Errorf("%s has %q", folder.Path, got)
	}
	r = e.file("GET", "/content", at(e.dir, hostile), e.ada.token, nil)
	if d := r.Header.Get("Content-Disposition"); r.Body != "hostile" || !strings.HasPrefix(d, "attachment") || strings.ContainsAny(d, "<>\n") {
		t.Errorf("%q with %q", r.Body, d)
	}
	if home, err := e.ada.client.LeaseFiles(t.Context(), "study", ""); err != nil || !filepath.IsAbs(home.Path) {
		t.Errorf("home %+v, %v", home, err)
	}
}

func TestFilesThatCannotBeHadSayWhy(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	token := e.ada.token
	if err := os.WriteFile(filepath.Join(e.dir, "a"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.file("GET", "", at(e.dir, "none"), token, nil).want(t, 404, "file_not_found")
	e.file("GET", "", at(e.dir, "a"), token, nil).want(t, 409, "not_a_folder")
	e.file("GET", "/content", at(e.dir), token, nil).want(t, 409, "not_a_file")
	e.file("GET", "/content", at("/dev/zero"), token, nil).want(t, 409, "not_a_file")
	e.file("GET", "/content", "path=%00", token, nil).want(t, 422, "bad_path")
	e.file("GET", "/content", "path=%ff", token, nil).want(t, 422, "bad_path")
	e.file("GET", "/content", "path="+strings.Repeat("a", 5000), token, nil).want(t, 422, "invalid_request")
	e.file("PUT", "/content", at(e.dir), token, strings.NewReader("x")).want(t, 409, "not_a_file")
	e.file("PUT", "/content", at(e.dir, "none", "b"), token, strings.NewReader("x")).want(t, 404, "file_not_found")
	e.file("GET", "/content", at(e.dir, "a"), e.eve.token, nil).want(t, 404, "lease_not_found")
	viewer := e.newUser(e.ada, "viewer@example.com", account.Viewer)
	e.file("GET", "", at(e.dir), viewer.token, nil).want(t, 403, "forbidden")
	e.file("PUT", "/content", at(e.dir, "c"), viewer.token, strings.NewReader("x")).want(t, 403, "forbidden")

	// What a link leads to is its instance's business; that it is overwritten is not
	// the business of what it led to.
	if err := os.Symlink(filepath.Join(e.dir, "a"), filepath.Join(e.dir, "link")); err != nil {
		t.Fatal(err)
	}
	e.file("PUT", "/content", at(e.dir, "link")+"&overwrite=true", token, strings.NewReader("new")).want(t, 200, "")
	if b, err := os.ReadFile(filepath.Join(e.dir, "a")); string(b) != "kept" {
		t.Errorf("what the link led to has %q, %v", b, err)
	}

	// A body that breaks off, or never ends, leaves nothing.
	e.file("PUT", "/content", at(e.dir, "half"), token, io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), brokenReader{}))
	e.server.maxFile = 4 << 20
	e.file("PUT", "/content", at(e.dir, "endless"), token, endlessReader{})
	e.file("PUT", "/content", at(e.dir, "large"), token, bytes.NewReader(make([]byte, 4<<20+1))).want(t, 422, "file_too_large")
	if err := os.Truncate(filepath.Join(e.dir, "a"), 4<<20+1); err != nil {
		t.Fatal(err)
	}
	e.file("GET", "/content", at(e.dir, "a"), token, nil).want(t, 409, "file_too_large")
	eventually(t, "nothing is left of uploads that broke off", func() bool {
		list, err := os.ReadDir(e.dir)
		return err == nil && len(list) == 2
	})

	// A folder of more than is told.
	many := filepath.Join(e.dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("n", 200)
	for i := range 12_000 {
		if err := os.Link(filepath.Join(e.dir, "a"), filepath.Join(many, fmt.Sprintf("%s%d", long, i))); err != nil {
			t.Fatal(err)
		}
	}
	e.file("GET", "", at(many), token, nil).want(t, 409, "folder_too_large")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the client broke off") }

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

func TestWhatALeaseUsesIsShownAndFollowed(t *testing.T) {
	t.Parallel()
	e := enteredWorld(t)
	for i := range 30 {
		e.clock.Advance(10 * time.Second)
		e.hostSays(protocol.InstanceStatus{LeaseID: e.lease.ID, Generation: 1, Phase: protocol.PhaseRunning, GPUPercent: 80, CPUPercent: 120, MemoryUsedMiB: 512, EgressBytes: int64(i) << 20})
	}
	m, err := e.ada.client.LeaseMetrics(t.Context(), "study", time.Hour)
	if err != nil || m.StepSeconds != 20 || len(m.Samples) < 14 || m.Now == nil || m.Now.GPUPercent != 80 || m.MemoryMiB == 0 || m.CPUMillis == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if s := m.Samples[len(m.Samples)-1]; s.GPUPercent != 80 || s.CPUPercent != 120 || s.MemoryUsedMiB != 512 || s.EgressBytesPerSecond < 100_000 || s.EgressBytesPerSecond > 110_000 {
		t.Errorf("the last sample is %+v", s)
	}
	if m, err = e.ada.client.LeaseMetrics(t.Context(), "study", time.Minute); err != nil || len(m.Samples) > 3 {
		t.Errorf("of a minute: %+v, %v", m, err)
	}
	viewer := e.newUser(e.ada, "viewer@example.com", account.Viewer)
	e.send("GET", "/v1/leases/study/metrics", viewer.token, nil).want(t, 200, "")
	e.send("GET", "/v1/leases/"+e.lease.ID+"/metrics", e.eve.token, nil).want(t, 404, "lease_not_found")
	e.send("GET", "/v1/leases/"+e.lease.ID+"/metric-events", e.eve.token, nil).want(t, 404, "lease_not_found")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url+"/v1/leases/study/metric-events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.ada.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	buf := make([]byte, 4096)
	n, err := io.ReadAtLeast(res.Body, buf, 60)
	if err != nil || !strings.Contains(string(buf[:n]), "event: sample\ndata: {") || !strings.Contains(string(buf[:n]), `"gpu_percent":80`) {
		t.Errorf("followed: %q, %v", buf[:n], err)
	}
}
