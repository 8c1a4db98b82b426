package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"suanli.dev/internal/gateway"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

// loopback is Streams to web servers on this machine, by lease and port.
type loopback map[string]http.Handler

func (l loopback) OpenStream(_ context.Context, _ string, h protocol.StreamHeader) (net.Conn, error) {
	handler, ok := l[fmt.Sprintf("%s %d", h.LeaseID, h.Port)]
	if !ok {
		return nil, &protocol.StreamError{Code: "port_closed", Message: "nothing listens"}
	}
	ours, theirs := net.Pipe()
	go func() { _ = http.Serve(&once{conn: theirs, done: make(chan struct{})}, handler) }() // ends when the stream is closed
	return ours, nil
}

// once is a listener of one connection.
type once struct {
	conn net.Conn
	done chan struct{}
}

func (o *once) Accept() (net.Conn, error) {
	if c := o.conn; c != nil {
		o.conn = nil
		return c, nil
	}
	return nil, io.EOF
}
func (o *once) Close() error   { return nil }
func (o *once) Addr() net.Addr { return &net.TCPAddr{} }

// web is an HTTP gateway before one instance.
type web struct {
	t         *testing.T
	lease     string
	directory *directory
	streams   loopback
	server    *httptest.Server
	host      string // of port 80
	client    *http.Client
}

const goodToken = "token-of-mine"

func newWeb(t *testing.T, h http.Handler) *web {
	t.Helper()
	w := &web{t: t, lease: ident.New(ident.Lease), directory: newDirectory()}
	w.streams = loopback{w.lease + " 80": h}
	w.directory.allow(w.lease+" 80 "+goodToken, gateway.Target{LeaseID: w.lease, HostID: "ho-1"})
	g := gateway.NewHTTP(gateway.HTTPConfig{Directory: w.directory, Streams: w.streams, Domain: "rent.test", Path: true})
	w.server = httptest.NewUnstartedServer(g)
	w.server.Config = gateway.Server(g, slog.New(slog.DiscardHandler))
	w.server.Start()
	t.Cleanup(func() { w.server.Close(); g.Close() })
	w.host = "80-" + w.lease + ".rent.test"
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.client = &http.Client{Jar: jar, Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", w.server.Listener.Addr().String())
		},
	}}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// get asks as a program does, with the good token unless headers say otherwise.
func (w *web) get(url string, headers ...string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(body)
}

// echo shows what a server in an instance got.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s\nHost: %s\n", r.Method, r.URL.RequestURI(), r.Host)
	_ = r.Header.Write(w)
})

func TestPortIsReachedByHostNameAndByPath(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	_, body := w.get("http://"+w.host+"/a%2Fb?x=1", "X-Suanli-Token", goodToken)
	if !strings.Contains(body, "GET /a%2Fb?x=1\n") || !strings.Contains(body, "Host: "+w.host) {
		t.Errorf("by host name: %s", body)
	}
	if strings.Contains(body, goodToken) {
		t.Errorf("the token reached the instance: %s", body)
	}
	_, body = w.get("http://cloud.test/i/"+w.lease+"/80/a%2Fb?x=1", "X-Suanli-Token", goodToken)
	if !strings.Contains(body, "GET /a%2Fb?x=1\n") || !strings.Contains(body, "X-Forwarded-Prefix: /i/"+w.lease+"/80") {
		t.Errorf("by path: %s", body)
	}
	w.directory.allow(w.lease+" 80 "+goodToken+"2", gateway.Target{LeaseID: w.lease, HostID: "ho-1", KeepPrefix: true})
	_, body = w.get("http://cloud.test/i/"+w.lease+"/80/lab", "X-Suanli-Token", goodToken+"2")
	if !strings.Contains(body, "GET /i/"+w.lease+"/80/lab\n") {
		t.Errorf("with the prefix kept: %s", body)
	}
}

func TestTokenInTheAddressBecomesACookie(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"host", "path"} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			w := newWeb(t, echo)
			address := "http://" + w.host
			if base == "path" {
				address = "http://cloud.test/i/" + w.lease + "/80"
			}
			if res, body := w.get(address+"/", "Accept", "text/html"); res.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "token") {
				t.Errorf("without a token: %s %s", res.Status, body)
			}
			res, body := w.get(address + "/x?suanli_token=" + goodToken + "&y=2")
			if res.StatusCode != http.StatusOK || !strings.Contains(body, "/x?y=2\n") {
				t.Errorf("with a token: %s %s", res.Status, body)
			}
			if strings.Contains(body, goodToken) || strings.Contains(body, "Cookie") {
				t.Errorf("the cookie reached the instance: %s", body)
			}
			if res, body := w.get(address + "/later"); res.StatusCode != http.StatusOK || strings.Contains(body, goodToken) {
				t.Errorf("by cookie: %s %s", res.Status, body)
			}
		})
	}
}

func TestWrongTokenAndOtherTenantsInstanceAreRefused(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	other := ident.New(ident.Lease)
	w.streams[other+" 80"] = echo
	w.directory.allow(other+" 80 their-token", gateway.Target{LeaseID: other, HostID: "ho-1"})
	for address, token := range map[string]string{
		"http://" + w.host + "/":                                         "guess",
		"http://80-" + other + ".rent.test/":                             goodToken,
		"http://81-" + w.lease + ".rent.test/":                           goodToken,
		"http://cloud.test/i/" + other + "/80/":                          goodToken,
		"http://cloud.test/i/" + w.lease + "/80/../../" + other + "/80/": "guess",
	} {
		if res, _ := w.get(address, "X-Suanli-Token", token); res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusNotFound {
			t.Errorf("%s with %s: %s", address, token, res.Status)
		}
	}
	w.get("http://" + w.host + "/?suanli_token=" + goodToken) // now there is a cookie
	for _, h := range [][]string{
		{"Origin", "http://80-" + other + ".rent.test"},
		{"Origin", "null"},
		{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"},
		{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
	} {
		if res, _ := w.get("http://"+w.host+"/", h...); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("another site's page used the visitor's cookie (%v): %s", h, res.Status)
		}
	}
	for _, h := range [][]string{
		{"Origin", "http://" + w.host},
		{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
	} {
		if res, _ := w.get("http://"+w.host+"/", h...); res.StatusCode != http.StatusOK {
			t.Errorf("the visitor was refused (%v): %s", h, res.Status)
		}
	}
}

func TestInstanceSeesAndSetsOnlyItsOwnCookies(t *testing.T) {
	t.Parallel()
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Set-Cookie", "suanli_session=stolen; Path=/")
		w.Header().Add("Set-Cookie", "mine=1; Domain=rent.test; Path=/; HttpOnly")
		fmt.Fprint(w, r.Header.Get("Cookie"))
	}))
	res, body := w.get("http://"+w.host+"/", "X-Suanli-Token", goodToken, "Cookie", "suanli_session=secret; app=a b; suanli_access=x; other={\"j\":1}")
	if body != `app=a b; other={"j":1}` {
		t.Errorf("the instance saw %q", body)
	}
	if got := res.Header.Values("Set-Cookie"); len(got) != 1 || got[0] != "mine=1; Path=/; HttpOnly" {
		t.Errorf("the instance set %q", got)
	}
	res, _ = w.get("http://cloud.test/i/"+w.lease+"/80/", "X-Suanli-Token", goodToken)
	if got := res.Header.Values("Set-Cookie"); len(got) != 1 || got[0] != "mine=1; Path=/i/"+w.lease+"/80/; HttpOnly" {
		t.Errorf("by path the instance set %q", got)
	}
}

func TestRedirectsStayWithinTheInstancesPath(t *testing.T) {
	t.Parallel()
	w := newWeb(t, http.RedirectHandler("/lab?a=1", http.StatusFound))
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, _ := w.get("http://cloud.test/i/"+w.lease+"/80/", "X-Suanli-Token", goodToken)
	if got := res.Header.Get("Location"); got != "/i/"+w.lease+"/80/lab?a=1" {
		t.Errorf("redirected to %q", got)
	}
	res, _ = w.get("http://"+w.host+"//evil.test/?suanli_token="+goodToken, "Accept", "text/html")
	if got := res.Header.Get("Location"); !strings.HasPrefix(got, "/evil.test/") {
		t.Errorf("the token's redirect leads to %q", got)
	}
}

func TestWebSocketPassesThroughAndForeignPagesCannotOpenIt(t *testing.T) {
	t.Parallel()
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if c.Write(r.Context(), kind, append([]byte("echo "), data...)) != nil {
				return
			}
		}
	}))
	w.get("http://" + w.host + "/?suanli_token=" + goodToken)
	client := *w.client
	client.Timeout = 0
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+w.host+"/socket", &websocket.DialOptions{HTTPClient: &client, HTTPHeader: http.Header{"Origin": {"http://" + w.host}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for i := range 20 {
		message := strings.Repeat(fmt.Sprint(i), 1000)
		if err := c.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(ctx); err != nil || string(got) != "echo "+message {
			t.Fatalf("message %d: %.20q, %v", i, got, err)
		}
	}
	_, res, err := websocket.Dial(ctx, "ws://"+w.host+"/socket", &websocket.DialOptions{HTTPClient: &client, HTTPHeader: http.Header{"Origin": {"http://evil.test"}}})
	if err == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a foreign page opened it: %v", err)
	}
}

func TestStreamedAnswerArrivesAsItIsWrittenAndEndsWithItsReader(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	gone := make(chan struct{})
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				close(gone)
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.host+"/", nil)
	r.Header.Set("X-Suanli-Token", goodToken)
	go func() { next <- "first" }()
	res, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for _, want := range []string{"first", "second"} {
		if want == "second" {
			next <- want
		}
		if got, err := lines.ReadString('\n'); err != nil || got != want+"\n" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	cancel()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the instance was not told that its reader is gone")
	}
}

func TestErrorsAreReadable(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	w.directory.allow(w.lease+" 8888 "+goodToken, gateway.Target{LeaseID: w.lease, HostID: "ho-1"})
	at := "http://8888-" + w.lease + ".rent.test/"
	res, body := w.get(at, "X-Suanli-Token", goodToken, "Accept", "text/html", "Accept-Language", "zh-CN")
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "端口上还没有程序") || !strings.Contains(body, `lang="zh-CN"`) {
		t.Errorf("for people: %s %s", res.Status, body)
	}
	res, body = w.get(at, "X-Suanli-Token", goodToken)
	if res.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, `"code":"port_closed"`) {
		t.Errorf("for programs: %s %s", res.Header.Get("Content-Type"), body)
	}
	w.directory.mu.Lock()
	w.directory.stopped[w.lease] = true
	w.directory.mu.Unlock()
	if res, body = w.get("http://"+w.host+"/", "X-Suanli-Token", goodToken); res.StatusCode != http.StatusConflict || !strings.Contains(body, "suanli start") {
		t.Errorf("a stopped instance: %s %s", res.Status, body)
	}
}

func TestHostileRequestsAreRefusedAndTheNextIsServed(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	address := w.server.Listener.Addr().String()
	host := "Host: " + w.host + "\r\nX-Suanli-Token: " + goodToken + "\r\n"
	for name, tc := range map[string]struct{ request, want string }{
		"a header of 200 KiB":          {"GET / HTTP/1.1\r\n" + host + "X: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", "431"},
		"two lengths":                  {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "400"},
		"a blank before the colon":     {"GET / HTTP/1.1\r\n" + host + "Transfer-Encoding : chunked\r\n\r\n", "400"},
		"an unknown transfer encoding": {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: cow\r\n\r\n", "501"},
		"two hosts":                    {"GET / HTTP/1.1\r\n" + host + "Host: evil.test\r\n\r\n", "400"},
		"a port out of range":          {"GET / HTTP/1.1\r\nHost: 70000-" + w.lease + ".rent.test\r\n\r\n", "404"},
		"a port with a sign":           {"GET / HTTP/1.1\r\nHost: +80-" + w.lease + ".rent.test\r\n\r\n", "404"},
		"a lease that is none":         {"GET / HTTP/1.1\r\nHost: 80-ls-../../x.rent.test\r\n\r\n", "40"},
		"the SSH port":                 {"GET / HTTP/1.1\r\nHost: 2222-" + w.lease + ".rent.test\r\n\r\n", "404"},
		"no HTTP at all":               {"\x16\x03\x01\x00\x00\r\n\r\n", "400"},
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		go func() { _, _ = io.WriteString(conn, tc.request) }() // the server may stop reading
		line, err := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, " "+tc.want) {
			t.Errorf("%s: %q, %v; want %s", name, line, err, tc.want)
		}
		conn.Close()
	}
	if res, _ := w.get("http://"+w.host+"/", "X-Suanli-Token", goodToken); res.StatusCode != http.StatusOK {
		t.Errorf("the next request: %s", res.Status)
	}
}

func TestAccessIsAskedOnceForManyRequests(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	for range 20 {
		w.get("http://"+w.host+"/", "X-Suanli-Token", goodToken)
	}
	w.directory.mu.Lock()
	defer w.directory.mu.Unlock()
	if w.directory.asked > 10 {
		t.Errorf("the directory was asked %d times for 20 requests", w.directory.asked)
	}
}

func TestRequestsForInstancesAreToldFromTheCloudsOwn(t *testing.T) {
	t.Parallel()
	g := gateway.NewHTTP(gateway.HTTPConfig{Domain: "rent.test", Path: true})
	lease := ident.New(ident.Lease)
	for address, want := range map[string]bool{
		"http://80-" + lease + ".rent.test/v1/offers": true,
		"http://80-" + lease + ".RENT.test:8080/":     true,
		"http://99999-" + lease + ".rent.test/v1/x":   true,
		"http://rent.test/v1/offers":                  false,
		"http://rent.test/i/" + lease + "/80/":        true,
		"http://console.rent.test/":                   false,
		"http://127.0.0.1/docs":                       false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Serves(&http.Request{Host: u.Host, URL: u}); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

func TestHTTPGoesThroughARealTunnel(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	tun, id := c.host(t)
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "got %d ", n)
		_, _ = io.CopyN(w, endless{}, 4<<20)
	}))
	defer inside.Close()
	answer(tun, func(_ protocol.StreamHeader, s net.Conn) {
		conn, err := net.Dial("tcp", inside.Listener.Addr().String())
		if err != nil {
			return
		}
		defer conn.Close()
		go func() { _, _ = io.Copy(conn, s); conn.Close() }()
		_, _ = io.Copy(s, conn)
	})
	d := newDirectory()
	lease := ident.New(ident.Lease)
	d.allow(lease+" 80 ", gateway.Target{LeaseID: lease, HostID: id.HostID}) // a public port
	g := gateway.NewHTTP(gateway.HTTPConfig{Directory: d, Streams: c.tunnels, Path: true})
	server := httptest.NewServer(g)
	defer g.Close()
	defer server.Close()
	for range 3 {
		res, err := http.Post(server.URL+"/i/"+lease+"/80/", "application/octet-stream", io.LimitReader(endless{}, 3<<20))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if want := fmt.Sprintf("got %d ", 3<<20); err != nil || !strings.HasPrefix(string(body), want) || len(body) != len(want)+4<<20 {
			t.Errorf("%s, %d bytes, %v", res.Status, len(body), err)
		}
	}
}

func TestUploadIsPassedOnAsItComesAndItsTrailersAndTheAnswersFollow(t *testing.T) {
	t.Parallel()
	read := make(chan string)
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		lines := bufio.NewReader(r.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			read <- line
		}
		fmt.Fprint(w, "done")
		w.Header().Set("X-Sum", "of "+r.Trailer.Get("X-Parts"))
	}))
	body, write := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.host+"/", body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Suanli-Token", goodToken)
	r.Trailer = http.Header{"X-Parts": nil}
	go func() {
		defer write.Close()
		for _, line := range []string{"first\n", "second\n"} {
			_, _ = io.WriteString(write, line)
			// Only after the instance has it: a gateway that waits for the end of the
			// upload, which may be a model of 100 GB, would never come here.
			select {
			case got := <-read:
				if got != line {
					t.Errorf("the instance read %q, want %q", got, line)
				}
			case <-time.After(10 * time.Second):
				t.Error("the instance saw nothing of the upload")
			}
		}
		r.Trailer.Set("X-Parts", "2")
	}()
	res, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "done" || res.Trailer.Get("X-Sum") != "of 2" {
		t.Errorf("answer %q, trailers %v, %v", text, res.Trailer, err)
	}
}

func TestUploadThatTheInstanceRefusesIsNotSent(t *testing.T) {
	t.Parallel()
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	for path, want := range map[string]struct {
		status int
		sent   bool
	}{"/refuse": {http.StatusRequestEntityTooLarge, false}, "/": {http.StatusOK, true}} {
		body := &watchedReader{Reader: strings.NewReader("0123456789")}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+w.host+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = 10
		r.Header.Set("X-Suanli-Token", goodToken)
		r.Header.Set("Expect", "100-continue")
		patient := w.client.Transport.(*http.Transport).Clone()
		patient.ExpectContinueTimeout = 10 * time.Second
		res, err := patient.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		patient.CloseIdleConnections()
		if res.StatusCode != want.status || body.read.Load() != want.sent {
			t.Errorf("%s: %s, body sent %v", path, res.Status, body.read.Load())
		}
	}
}

// watchedReader knows whether it was read.
type watchedReader struct {
	io.Reader
	read atomic.Bool
}

func (r *watchedReader) Read(b []byte) (int, error) {
	r.read.Store(true)
	return r.Reader.Read(b)
}

func TestASiblingsCookieDoesNotShutAVisitorOut(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	res, body := w.get("http://"+w.host+"/", "Cookie", "suanli_access=junk; theirs=1; suanli_access="+goodToken)
	if res.StatusCode != http.StatusOK || strings.Contains(body, "suanli_access") || !strings.Contains(body, "theirs=1") {
		t.Errorf("with a foreign cookie in front: %s %s", res.Status, body)
	}
	many := strings.Repeat("suanli_access=junk; ", 50)
	for i := range 50 {
		many += fmt.Sprintf("suanli_access=junk%d; ", i)
	}
	res, body = w.get("http://"+w.host+"/", "Cookie", many+"__Host-suanli_access="+goodToken)
	if res.StatusCode != http.StatusOK || strings.Contains(body, goodToken) {
		t.Errorf("over TLS, with a flood of foreign cookies: %s %s", res.Status, body)
	}
}

func TestOverTLSTheAccessCookieIsOfItsHostAlone(t *testing.T) {
	t.Parallel()
	lease, d := ident.New(ident.Lease), newDirectory()
	d.allow(lease+" 80 "+goodToken, gateway.Target{LeaseID: lease, HostID: "ho-1"})
	g := gateway.NewHTTP(gateway.HTTPConfig{Directory: d, Streams: loopback{}, Domain: "rent.test", Secure: true})
	defer g.Close()
	r := httptest.NewRequest(http.MethodGet, "https://80-"+lease+".rent.test/?suanli_token="+goodToken, nil)
	rec := httptest.NewRecorder()
	g.ServeHTTP(rec, r)
	if set := rec.Header().Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-suanli_access=") || !strings.Contains(set, "; Secure") || strings.Contains(set, "Domain") {
		t.Errorf("the cookie is %q", set)
	}
}

func TestAHostNameMayEndInADot(t *testing.T) {
	t.Parallel()
	w := newWeb(t, echo)
	res, body := w.get("http://cloud.test/", "X-Suanli-Token", goodToken)
	if res.StatusCode != http.StatusNotFound {
		t.Fatalf("%s %s", res.Status, body)
	}
	r, err := http.NewRequest(http.MethodGet, "http://"+w.host+"/x", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = w.host + ".:80"
	r.Header.Set("X-Suanli-Token", goodToken)
	dotted, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer dotted.Body.Close()
	if dotted.StatusCode != http.StatusOK {
		t.Errorf("with a dot at the end: %s", dotted.Status)
	}
}
