package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"suanli.dev/internal/account"
)

// httpMetrics count requests by operation, never by path, so that their number
// does not grow with identifiers.
type httpMetrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	panics   prometheus.Counter
	limited  prometheus.Counter
}

func newHTTPMetrics(reg *prometheus.Registry) *httpMetrics {
	m := &httpMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "suanli_http_requests_total", Help: "Requests answered, by operation, method and status.",
		}, []string{"operation", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "suanli_http_request_duration_seconds", Help: "Time from the request to the end of its answer, streams included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60},
		}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "suanli_http_requests_in_flight", Help: "Requests being answered, streams included.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "suanli_http_panics_total", Help: "Requests that ended in a panic.",
		}),
		limited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "suanli_http_rate_limited_total", Help: "Requests refused for their rate.",
		}),
	}
	reg.MustRegister(m.requests, m.seconds, m.inFlight, m.panics, m.limited)
	return m
}

// serveMetrics answers an operator, or a scraper on the same machine that did
// not come through a proxy on it, nor from a browser's page whose own name was
// made to lead here (DNS rebinding).
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	exchangeFrom(r.Context()).operation = "metrics"
	proxied := r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Forwarded") != "" || r.Header.Get("X-Real-Ip") != ""
	if !remoteIP(r).IsLoopback() || proxied || !loopbackName(r.Host) {
		if err := authorize(principalFrom(r.Context()), account.Operate); err != nil {
			writeProblem(w, problem(r.Context(), s.log, err))
			return
		}
	}
	promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

// loopbackName reports whether a Host header is one that no name server can
// answer for: an address of loopback, or localhost.
func loopbackName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}
