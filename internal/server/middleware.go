package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"suanli.dev/internal/account"
	"suanli.dev/internal/console"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/intake"
)

const (
	requestIDHeader = "X-Request-Id"
	maxBody         = 1 << 20 // bytes of a request
)

// Handler returns the whole HTTP side. From the outside in: identity and log of
// the request, panics, routing, size of the body, credentials, rate, operation.
func (s *Server) Handler() http.Handler {
	return traced(s.observe(s.contain(s.route(s.authenticate(s.limit(s.mux))))), s.cfg.Tracing)
}

// exchange is what the layers learn about one request, for the log and the
// metrics. It belongs to the request's goroutine.
type exchange struct {
	http.ResponseWriter
	operation string
	principal account.Principal
	status    int
	bytes     int64
	wrote     bool
	aborted   bool          // the body did not come, or not in time
	content   io.ReadCloser // the body, before it was bounded for operations that read it whole
}

type exchangeKey struct{}

func exchangeFrom(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// Unwrap lets http.ResponseController flush, hijack and set deadlines.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *exchange) WriteHeader(status int) {
	if !x.wrote {
		x.status, x.wrote = status, status >= 200 || status == http.StatusSwitchingProtocols
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(p []byte) (int, error) {
	if !x.wrote {
		x.status, x.wrote = http.StatusOK, true
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += int64(n)
	return n, err
}

// observe gives the request its identity and writes it down when it is done.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		o := account.Origin{IP: s.clientIP(r), RequestID: r.Header.Get(requestIDHeader)}
		if !plainID(o.RequestID) {
			o.RequestID = ident.New(ident.Request)
		}
		h := w.Header()
		h.Set(requestIDHeader, o.RequestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		x := &exchange{ResponseWriter: w, status: http.StatusOK}
		ctx := context.WithValue(account.WithOrigin(r.Context(), o), exchangeKey{}, x)
		s.metrics.inFlight.Inc()
		defer func() {
			s.metrics.inFlight.Dec()
			took := time.Since(start)
			operation := x.operation
			if operation == "" {
				operation = "none"
			}
			s.metrics.requests.WithLabelValues(operation, knownMethod(r.Method), strconv.Itoa(x.status)).Inc()
			s.metrics.seconds.WithLabelValues(operation).Observe(took.Seconds())
			level := slog.LevelInfo
			switch {
			case x.status >= 500:
				level = slog.LevelError
			case probe(r.URL.Path):
				level = slog.LevelDebug // they come every few seconds, for ever
			case x.aborted:
				level = slog.LevelDebug // a stranger can make any number of them
			}
			// The query is left out: a WebSocket's may hold credentials.
			s.log.LogAttrs(ctx, level, "request", slog.String("method", r.Method), slog.String("path", r.URL.Path),
				slog.String("operation", operation), slog.Int("status", x.status), slog.Int64("bytes", x.bytes),
				slog.Float64("duration_ms", float64(took.Microseconds())/1000), slog.String("ip", o.IP),
				slog.String("account_id", x.principal.AccountID), slog.String("user_id", x.principal.UserID), slog.String("key_id", x.principal.KeyID))
		}()
		next.ServeHTTP(x, r.WithContext(ctx))
	})
}

// contain turns a panic into a problem: one poisonous request stops no other.
func (s *Server) contain(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			s.metrics.panics.Inc()
			s.log.ErrorContext(r.Context(), "request panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			if exchangeFrom(r.Context()).wrote {
				// Half an answer must not look like a whole one.
				panic(http.ErrAbortHandler)
			}
			writeProblem(w, problem(r.Context(), slog.New(slog.DiscardHandler), fmt.Errorf("panic: %v", v)))
		}()
		next.ServeHTTP(w, r)
	})
}

// route answers what no endpoint is for in the form of all other errors, and
// bounds the body of what is.
func (s *Server) route(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, pattern := s.mux.Handler(r); pattern == "" {
			rec := &buffer{header: http.Header{}}
			h.ServeHTTP(rec, r)
			if rec.status == http.StatusMethodNotAllowed {
				w.Header().Set("Allow", rec.header.Get("Allow"))
				writeProblem(w, plainProblem(rec.status, "%s is not possible at %s; use %s", r.Method, r.URL.Path, rec.header.Get("Allow")))
				return
			}
			writeProblem(w, plainProblem(http.StatusNotFound, "there is nothing at %s; /docs lists what there is", r.URL.Path))
			return
		}
		if x := exchangeFrom(r.Context()); x != nil {
			x.content = r.Body
		}
		r = intake.Body(w, r, intake.Small)
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// authenticate finds out who makes the request. Bad credentials are an error
// even where none are needed: their sender believes to be somebody.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer, err := bearerOf(r)
		if err == nil && bearer == "" {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		var p account.Principal
		if err == nil {
			p, err = s.Accounts.Authenticate(ctx, bearer)
		}
		if err != nil {
			if f, ok := fault.As(err); ok && f.Kind == fault.Unauthorized {
				if _, wait := s.refused.Take(network(account.OriginFrom(ctx).IP), 1); wait > 0 {
					s.tooMany(w, r, wait)
					return
				}
			}
			writeProblem(w, problem(ctx, s.log, err))
			return
		}
		exchangeFrom(ctx).principal = p
		ctx = context.WithValue(withPrincipal(ctx, p), bearerKey{}, bearer)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

type bearerKey struct{}

// stillValid reports an error once the credentials of a long-lived response
// have been revoked, have expired, or no longer permit the action.
func (a *API) stillValid(ctx context.Context, action account.Action) error {
	bearer, ok := ctx.Value(bearerKey{}).(string)
	if !ok {
		return nil
	}
	p, err := a.Accounts.Authenticate(ctx, bearer)
	if err != nil {
		return err
	}
	return authorize(p, action)
}

// whileValid returns ctx, which ends with the fault as its cause once the
// credentials are not valid any more.
func (a *API) whileValid(ctx context.Context, action account.Action) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	tick := time.NewTicker(a.recheck)
	go func() { // ends with ctx
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			// A database that is away revokes nothing.
			err := a.stillValid(ctx, action)
			if f, ok := fault.As(err); ok && (f.Kind == fault.Unauthorized || f.Kind == fault.Forbidden) {
				cancel(err)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// webSocketBearer is the subprotocol that carries credentials where a browser
// lets a page set no headers: "suanli.bearer.<token>".
const webSocketBearer = "suanli.bearer."

func bearerOf(r *http.Request) (string, error) {
	if h := r.Header.Get("Authorization"); h != "" {
		scheme, token, ok := strings.Cut(h, " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return "", fault.New(fault.Unauthorized, "invalid_token", "the Authorization header is not understood; send \"Bearer\", a space, and an API key or a session token")
		}
		return strings.TrimSpace(token), nil
	}
	for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
		for protocol := range strings.SplitSeq(list, ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(protocol), webSocketBearer); ok {
				return token, nil
			}
		}
	}
	return "", nil
}

// limit bounds the rate of requests of each key, or of each address.
func (s *Server) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A probe that is turned away would restart a busy server. The console is
		// dozens of files out of memory, which a browser asks for at once.
		if probe(r.URL.Path) || strings.HasPrefix(r.URL.Path, console.Prefix) {
			next.ServeHTTP(w, r)
			return
		}
		l, key := s.perIP, network(account.OriginFrom(r.Context()).IP)
		if p := principalFrom(r.Context()); p.UserID != "" {
			l, key = s.perKey, p.KeyID
		}
		remaining, wait := l.Take(key, 1)
		if wait > 0 {
			s.tooMany(w, r, wait)
			return
		}
		w.Header().Set("RateLimit-Limit", strconv.Itoa(l.Burst()))
		w.Header().Set("RateLimit-Remaining", strconv.Itoa(remaining))
		next.ServeHTTP(w, r)
	})
}

func (s *Server) tooMany(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	s.metrics.limited.Inc()
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	writeProblem(w, problem(r.Context(), s.log, fault.New(fault.TooMany, "rate_limited", "too many requests; wait %d s", seconds)))
}

// clientIP is the address that the request came from: the connection's, or the
// last in X-Forwarded-For that no trusted proxy put there for itself.
func (s *Server) clientIP(r *http.Request) string {
	ip := remoteIP(r)
	if !s.trusted(ip) {
		return ip.String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		ip = hop.Unmap()
		if !s.trusted(ip) {
			break
		}
	}
	return ip.String()
}

func (s *Server) trusted(ip netip.Addr) bool {
	for _, n := range s.cfg.TrustedProxies {
		if n.Contains(ip) {
			return true
		}
	}
	return false
}

func remoteIP(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	ip, _ := netip.ParseAddr(host) // the zero address for a socket without one
	return ip.Unmap().WithZone("")
}

// network is what is limited as one: an IPv6 customer has a whole /64.
func network(ip string) string {
	a, err := netip.ParseAddr(ip)
	if err != nil || a.Is4() {
		return ip
	}
	p, err := a.Prefix(64)
	if err != nil {
		return ip
	}
	return p.String()
}

// probe reports whether a path is asked by machines that watch this one.
func probe(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/metrics"
}

func plainID(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	return len(bytes.TrimLeft([]byte(s), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")) == 0
}

// knownMethod keeps strangers from making up label values.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "other"
}

// LogHandler returns h with the request id and the trace of the context in every
// record, once however often it is wrapped.
func LogHandler(h slog.Handler) slog.Handler {
	if wrapped, ok := h.(logHandler); ok {
		return wrapped
	}
	return logHandler{h}
}

type logHandler struct{ slog.Handler }

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if id := account.OriginFrom(ctx).RequestID; id != "" {
		r = r.Clone()
		r.AddAttrs(slog.String("request_id", id))
	}
	if s := trace.SpanContextFromContext(ctx); s.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", s.TraceID().String()), slog.String("span_id", s.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h logHandler) WithAttrs(as []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(as)}
}
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
