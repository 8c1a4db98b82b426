package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/intake"
	"suanli.dev/internal/protocol"
)

const (
	// TokenParameter gives a browser its access, once; tokenHeader gives it to
	// programs, with each request; tokenCookie is where a browser keeps it.
	TokenParameter = "suanli_token"
	tokenHeader    = "X-Suanli-Token"
	tokenCookie    = "suanli_access"
	// hostPrefix in front of a cookie's name is heeded by browsers: such a cookie is
	// of one host and came by TLS, so that no sibling's page can have set it.
	hostPrefix = "__Host-"
	// ownCookies is the prefix of the cloud's cookies. None of them ever reaches
	// an instance, and no instance's answer can set one; its page's script can, for
	// all of the domain, so that there may be several of a name.
	ownCookies = "suanli_"
	// cookiesTried bounds how many cookies of one request are tried.
	cookiesTried = 16
	// pathPrefix is where instances are found that have no host name.
	pathPrefix = "/i/"
	// accessKept is how long an answer of the directory is used again: a page
	// makes dozens of requests. A revoked token works this much longer.
	accessKept = 2 * time.Second
	// accessLimit bounds the answers kept.
	accessLimit = 10000
)

// HTTPConfig is what the HTTP gateway needs.
type HTTPConfig struct {
	Directory Directory
	Streams   Streams
	// Domain makes "<port>-<lease>.<domain>" the address of a port; empty: ports
	// are reached by path only.
	Domain string
	// Path also serves "/i/<lease>/<port>/…". All instances and whatever else is
	// on the host share an origin then: browsers keep them apart by cookie path
	// only. For machines without wildcard names.
	Path bool
	// Secure marks cookies for HTTPS only. Set it where renters come by HTTPS,
	// also when something in front ends it.
	Secure bool
	Clock  func() time.Time
	Log    *slog.Logger
}

// HTTP is the way to the web servers within instances.
type HTTP struct {
	cfg       HTTPConfig
	log       *slog.Logger
	transport *http.Transport

	mu     sync.Mutex
	access map[accessKey]access
}

type accessKey struct {
	lease string
	port  int
	token [32]byte // its SHA-256: secrets are not kept in memory longer than needed
}

type access struct {
	target Target
	until  time.Time
}

// NewHTTP returns a gateway; Close ends its idle connections.
func NewHTTP(cfg HTTPConfig) *HTTP {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	g := &HTTP{cfg: cfg, log: cfg.Log, access: map[accessKey]access{}}
	g.transport = &http.Transport{
		DialContext:            g.dial,
		MaxIdleConns:           1000,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        time.Minute,
		DisableCompression:     true, // pass on what was sent
		MaxResponseHeaderBytes: 256 << 10,
		// An instance may refuse an upload before it is sent (Expect: 100-continue);
		// most programs do not answer to that, so the wait is short.
		ExpectContinueTimeout: time.Second,
	}
	return g
}

// Close ends idle connections to instances.
func (g *HTTP) Close() { g.transport.CloseIdleConnections() }

// Server returns an HTTP server for h that bears with slow and hostile clients
// and with streams that last for days.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 20 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// place is the port of an instance that a request is for.
type place struct {
	lease  string
	port   int
	prefix string // of the path: "/i/<lease>/<port>"; empty with a host name
}

// Serves reports whether the request is for an instance and not for the cloud
// itself. Such a request must not go to the API: its origin is a renter's.
func (g *HTTP) Serves(r *http.Request) bool {
	if _, ok := g.byHost(r.Host); ok || g.underDomain(r.Host) {
		return true
	}
	return g.cfg.Path && strings.HasPrefix(r.URL.Path, pathPrefix)
}

func (g *HTTP) underDomain(host string) bool {
	return g.cfg.Domain != "" && strings.HasSuffix(strings.ToLower(bareHost(host)), "."+strings.ToLower(g.cfg.Domain)) &&
		strings.Contains(host, "-"+string(ident.Lease)+"-")
}

// bareHost is a Host header's name without its port, and without the dot that may
// end a complete name: it is the same host, and must not be served as another.
func bareHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(host, ".")
}

// byHost reads "<port>-<lease>.<domain>".
func (g *HTTP) byHost(host string) (place, bool) {
	if g.cfg.Domain == "" {
		return place{}, false
	}
	label, ok := strings.CutSuffix(strings.ToLower(bareHost(host)), "."+strings.ToLower(g.cfg.Domain))
	if !ok {
		return place{}, false
	}
	port, lease, ok := strings.Cut(label, "-")
	if !ok {
		return place{}, false
	}
	return newPlace(lease, port, "")
}

// byPath reads "/i/<lease>/<port>/…".
func (g *HTTP) byPath(path string) (place, bool) {
	rest, ok := strings.CutPrefix(path, pathPrefix)
	if !ok || !g.cfg.Path {
		return place{}, false
	}
	lease, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return place{}, false
	}
	port, _, _ := strings.Cut(rest, "/")
	return newPlace(lease, port, pathPrefix+lease+"/"+port)
}

func newPlace(lease, port, prefix string) (place, bool) {
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 || strconv.Itoa(n) != port || ident.Check(ident.Lease, lease) != nil {
		return place{}, false
	}
	return place{lease: lease, port: n, prefix: prefix}, true
}

// ServeHTTP implements http.Handler.
func (g *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = intake.Body(w, r, intake.Small) // until it is known who sends it
	p, ok := g.byHost(r.Host)
	if !ok {
		p, ok = g.byPath(r.URL.Path)
	}
	if !ok {
		showFault(w, r, fault.New(fault.NotFound, "no_such_port", "%s%s is not the address of a port of an instance; it should be <port>-<lease>.<domain> or /i/<lease>/<port>/", r.Host, r.URL.Path))
		return
	}
	if p.prefix != "" && r.URL.Path == p.prefix {
		// Relative links of the page would lead astray without the last slash.
		u := *r.URL
		u.Path, u.RawPath = p.prefix+"/", ""
		http.Redirect(w, r, u.RequestURI(), http.StatusPermanentRedirect)
		return
	}
	if token := r.URL.Query().Get(TokenParameter); token != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Upgrade") == "" {
		g.keepToken(w, r, p, token)
		return
	}
	target, token, err := g.allowed(r, p)
	if err != nil {
		showFault(w, r, err)
		return
	}
	r = intake.Body(w, r, intake.Moving)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	out := &severable{ResponseWriter: w}
	stop := recheck(ctx, func(ctx context.Context) error {
		_, err := g.lookUp(ctx, p, token)
		return err
	}, func() {
		g.log.Info("http: access was revoked", "lease", p.lease, "port", p.port)
		out.sever()
		cancel()
	})
	defer stop()
	g.forward(out, r.WithContext(ctx), p, target)
}

// keepToken moves a good token from the address, where it would be seen and
// shared, into a cookie.
func (g *HTTP) keepToken(w http.ResponseWriter, r *http.Request, p place, token string) {
	if _, err := g.lookUp(r.Context(), p, token); err != nil {
		showFault(w, r, err)
		return
	}
	name := tokenCookie
	if g.cfg.Secure && p.prefix == "" { // the prefix allows no path
		name = hostPrefix + tokenCookie
	}
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: url.QueryEscape(token), Path: p.prefix + "/",
		HttpOnly: true, Secure: g.cfg.Secure, SameSite: http.SameSiteLaxMode,
	})
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, withoutToken(r.URL), http.StatusSeeOther)
}

func withoutToken(u *url.URL) string {
	q := u.Query()
	q.Del(TokenParameter)
	// Path only, and one slash: "//elsewhere" would lead to another host.
	clean := url.URL{Path: "/" + strings.TrimLeft(u.Path, "/"), RawQuery: q.Encode()}
	if u.RawPath != "" {
		clean.RawPath = "/" + strings.TrimLeft(u.RawPath, "/")
	}
	return clean.RequestURI()
}

// allowed asks the directory about the request's own token, if it has one.
func (g *HTTP) allowed(r *http.Request, p place) (t Target, token string, err error) {
	token = r.Header.Get(tokenHeader)
	if token == "" {
		token = r.URL.Query().Get(TokenParameter)
	}
	if token != "" || crossOrigin(r) {
		t, err = g.lookUp(r.Context(), p, token)
		return t, token, err
	}
	refused := error(nil)
	for _, token := range tokensKept(r) {
		t, err := g.lookUp(r.Context(), p, token)
		if err == nil || !revoked(err) {
			return t, token, err
		}
		refused = err
	}
	if refused == nil {
		t, refused = g.lookUp(r.Context(), p, "")
	}
	return t, "", refused
}

// tokensKept returns the tokens in the request's cookies, those first that no
// sibling can have set. A browser sends all cookies of a name, and the good one
// need not be the first.
func tokensKept(r *http.Request) []string {
	var out []string
	for _, c := range append(r.CookiesNamed(hostPrefix+tokenCookie), r.CookiesNamed(tokenCookie)...) {
		if v, err := url.QueryUnescape(c.Value); err == nil && v != "" && !slices.Contains(out, v) && len(out) < cookiesTried {
			out = append(out, v)
		}
	}
	return out
}

// isOwn reports whether a cookie is the cloud's, by its name or "name=value".
func isOwn(cookie string) bool {
	return strings.HasPrefix(strings.TrimPrefix(cookie, hostPrefix), ownCookies)
}

// crossOrigin reports whether another site's page makes the browser send this
// request. Instances of different tenants are siblings under one domain, to
// which a browser gives each other's cookies; with these a tenant's page could
// act on another tenant's instance.
func crossOrigin(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "null" {
		u, err := url.Parse(origin)
		return err != nil || !strings.EqualFold(u.Host, r.Host)
	} else if origin == "null" {
		return true
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	// Following a link is what a visitor does, and it only reads. A frame would
	// let the other page put the instance under the visitor's mouse.
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" || r.Method != http.MethodGet
}

func (g *HTTP) lookUp(ctx context.Context, p place, token string) (Target, error) {
	if p.port == protocol.InstanceSSHPort {
		return Target{}, fault.New(fault.NotFound, "no_such_port", "port %d is the instance's SSH server; use suanli ssh", p.port)
	}
	key := accessKey{lease: p.lease, port: p.port, token: sha256.Sum256([]byte(token))}
	now := g.cfg.Clock()
	g.mu.Lock()
	a, ok := g.access[key]
	g.mu.Unlock()
	if ok && now.Before(a.until) {
		return a.target, nil
	}
	target, err := g.cfg.Directory.HTTPTarget(ctx, p.lease, p.port, token)
	if err != nil {
		return Target{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.access) >= accessLimit {
		clear(g.access)
	}
	g.access[key] = access{target: target, until: now.Add(accessKept)}
	return target, nil
}

// address is how the transport names a port of an instance, so that it keeps
// connections to different ones apart.
func address(t Target, port int) string {
	return t.LeaseID + "." + t.HostID + ":" + strconv.Itoa(port)
}

func (g *HTTP) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	name, portText, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	lease, host, _ := strings.Cut(name, ".")
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	return g.cfg.Streams.OpenStream(ctx, host, protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: lease, Port: port})
}

// copyBuffers lends the proxy its buffers.
type copyBuffers struct{ pool sync.Pool }

func (b *copyBuffers) Get() []byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return *p
	}
	return make([]byte, 32<<10)
}

func (b *copyBuffers) Put(p []byte) { b.pool.Put(&p) }

func (g *HTTP) forward(w http.ResponseWriter, r *http.Request, p place, t Target) {
	proxy := httputil.ReverseProxy{
		Transport:     g.transport,
		FlushInterval: -1, // what an instance writes, its reader sees
		BufferPool:    &buffers,
		ErrorLog:      slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		Rewrite: func(pr *httputil.ProxyRequest) {
			rewriteRequest(pr, p, t)
			if g.cfg.Secure { // also when something in front has ended TLS
				pr.Out.Header.Set("X-Forwarded-Proto", "https")
			}
		},
		ModifyResponse: func(res *http.Response) error {
			cleanResponse(res, p, t)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			g.log.Info("http: instance not reached", "lease", t.LeaseID, "port", p.port, "error", err)
			showFault(w, r, unreachable(p, err))
		},
	}
	proxy.ServeHTTP(w, r)
}

var buffers copyBuffers

func rewriteRequest(pr *httputil.ProxyRequest, p place, t Target) {
	out := pr.Out
	out.URL.Scheme = "http"
	out.URL.Host = address(t, p.port)
	out.Host = pr.In.Host
	out.Trailer = pr.In.Trailer // the same map: it is filled when the body has been read
	pr.SetXForwarded()
	if p.prefix != "" && !t.KeepPrefix {
		out.URL.Path = strings.TrimPrefix(out.URL.Path, p.prefix)
		out.URL.RawPath = strings.TrimPrefix(out.URL.RawPath, p.prefix)
		out.Header.Set("X-Forwarded-Prefix", p.prefix)
	}
	// The gateway's own business is not the instance's.
	out.Header.Del(tokenHeader)
	if q := out.URL.Query(); q.Has(TokenParameter) {
		q.Del(TokenParameter)
		out.URL.RawQuery = q.Encode()
	}
	// Browsers heed the redirect's policy and send none; other clients do not.
	if strings.Contains(out.Header.Get("Referer"), TokenParameter+"=") {
		out.Header.Del("Referer")
	}
	keepForeignCookies(out)
}

// keepForeignCookies takes the cloud's own cookies out of a request.
func keepForeignCookies(r *http.Request) {
	// By hand: parsing would drop what an instance's own script wrote freely.
	var kept []string
	for _, line := range r.Header.Values("Cookie") {
		for c := range strings.SplitSeq(line, ";") {
			if c = strings.TrimSpace(c); c != "" && !isOwn(c) {
				kept = append(kept, c)
			}
		}
	}
	r.Header.Del("Cookie")
	if len(kept) > 0 {
		r.Header.Set("Cookie", strings.Join(kept, "; "))
	}
}

// cleanResponse keeps an instance to its own address: it can set cookies for
// itself alone, and where its path has a prefix, its redirects get it.
func cleanResponse(res *http.Response, p place, t Target) {
	lines := res.Header.Values("Set-Cookie")
	if len(lines) > 0 {
		res.Header.Del("Set-Cookie")
		for _, line := range lines {
			if c, err := http.ParseSetCookie(line); err == nil && !isOwn(c.Name) {
				c.Domain = ""
				if p.prefix != "" && !strings.HasPrefix(c.Path, p.prefix+"/") {
					c.Path = p.prefix + "/" + strings.TrimLeft(c.Path, "/")
				}
				res.Header.Add("Set-Cookie", c.String())
			}
		}
	}
	if p.prefix == "" || t.KeepPrefix {
		return
	}
	if to, err := url.Parse(res.Header.Get("Location")); err == nil && to.Host == "" && strings.HasPrefix(to.Path, "/") {
		to.Path = p.prefix + to.Path
		if to.RawPath != "" {
			to.RawPath = p.prefix + to.RawPath
		}
		res.Header.Set("Location", to.String())
	}
}

// unreachable says in words why an instance's port does not answer.
func unreachable(p place, err error) *fault.Error {
	var refused *protocol.StreamError
	switch {
	case errors.As(err, &refused) && refused.Code == "port_closed":
		return fault.New(fault.Unavailable, "port_closed", "nothing listens on port %d of the instance yet; start the program there, or wait until it is up", p.port)
	case errors.As(err, &refused):
		return fault.New(fault.Unavailable, refused.Code, "%s", refused.Message)
	case errors.Is(err, context.Canceled):
		return fault.New(fault.Unavailable, "canceled", "the visitor went away")
	}
	return fault.New(fault.Unavailable, "bad_answer", "the program on port %d of the instance did not answer in HTTP, or stopped in the middle: %s", p.port, err)
}
