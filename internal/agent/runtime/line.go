package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"suanli.dev/internal/reach"
)

// InnerRegistry is a registry that images are pulled from although it is inside
// of a network, because who runs the host says so.
type InnerRegistry struct {
	Host string // name or address, with the port if it is not the scheme's
	HTTP bool   // it speaks plain HTTP
}

// ParseInnerRegistries reads "registry.lan, http://10.0.0.5:5000".
func ParseInnerRegistries(text string) ([]InnerRegistry, error) {
	var list []InnerRegistry
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		host, plain := strings.CutPrefix(part, "http://")
		host = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "https://"), "/"))
		if host == "" || strings.ContainsAny(host, "/ @") {
			return nil, fmt.Errorf("%q is not a registry; want HOST, HOST:PORT or http://HOST:PORT", part)
		}
		list = append(list, InnerRegistry{Host: host, HTTP: plain})
	}
	return list, nil
}

// The bounds of talking to a registry that a renter has chosen.
const (
	dialWait        = 10 * time.Second
	maxHeaderBytes  = 64 << 10
	maxAnswerBytes  = 8 << 20 // manifests, configurations, tokens: held in memory
	connectionsHost = 8
)

// line is how the agent reaches registries. A renter chooses the registry, and a
// registry chooses where it sends its callers: by its address, by redirects, by the
// address of its token service. So what counts is not a name that was checked
// before but each address that is connected to, at the moment of connecting.
type line struct {
	http *http.Transport
	// count is called with each piece of a body.
	count   func(n int64)
	refused atomic.Bool // an address inside was refused
}

// newLine returns a line to the public internet and the trusted hosts. It uses no
// proxy: one would look names up by itself, inside of the network.
func newLine(answer time.Duration, trusted []string, count func(int64)) *line {
	l := &line{count: count}
	open := net.Dialer{Timeout: dialWait}
	guarded := net.Dialer{Timeout: dialWait, Control: reach.Control(reach.Own(), func() { l.refused.Store(true) })}
	l.http = roundTripper(answer, func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := net.SplitHostPort(address)
		for _, t := range trusted {
			if strings.EqualFold(t, address) || strings.EqualFold(t, host) {
				return open.DialContext(ctx, network, address)
			}
		}
		return guarded.DialContext(ctx, network, address)
	})
	return l
}

// newTunnelLine returns a line that leads to one place, whatever is asked for.
func newTunnelLine(answer time.Duration, dial func(context.Context) (net.Conn, error), count func(int64)) *line {
	l := &line{count: count}
	l.http = roundTripper(answer, func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) })
	// Each connection is a stream of the tunnel, cheap to open, and must not
	// outlive the pull.
	l.http.DisableKeepAlives = true
	return l
}

func roundTripper(answer time.Duration, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext: dial, TLSHandshakeTimeout: dialWait, ResponseHeaderTimeout: answer, MaxResponseHeaderBytes: maxHeaderBytes,
		// A body that unpacks itself on the way would not be bounded by its length.
		DisableCompression: true, ForceAttemptHTTP2: true, MaxConnsPerHost: connectionsHost, IdleConnTimeout: 10 * time.Second,
	}
}

// layerHeader marks requests for a layer's bytes within this process: a redirect
// keeps it, and a request for a token on the way does not have it.
const layerHeader = "Suanli-Layer"

// RoundTrip bounds what is held in memory: everything but layers.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	limit := int64(maxAnswerBytes)
	if req.Header.Get(layerHeader) != "" {
		limit = math.MaxInt64 // its length is known, and the reader's business
		req = req.Clone(req.Context())
		req.Header.Del(layerHeader)
	}
	resp, err := l.http.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &countedBody{ReadCloser: resp.Body, left: limit, count: l.count}
	return resp, nil
}

func (l *line) close() { l.http.CloseIdleConnections() }

// countedBody reports the bytes of a body as they are read, and ends at a limit.
type countedBody struct {
	io.ReadCloser
	left  int64
	count func(int64)
}

var errTooLong = errors.New("the answer is too long")

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.count(int64(n))
		if b.left -= int64(n); b.left < 0 {
			return 0, errTooLong
		}
	}
	return n, err
}
