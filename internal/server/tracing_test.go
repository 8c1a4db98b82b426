package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"suanli.dev/api"
	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

// traceCollector keeps the spans that are sent to it.
type traceCollector struct {
	url string

	mu    sync.Mutex
	spans []*tracepb.Span
	paths map[string]int
}

func newTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{paths: map[string]int{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var in collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(b, &in); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paths[r.URL.Path]++
		for _, rs := range in.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				c.spans = append(c.spans, ss.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

func (c *traceCollector) named(name string) []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*tracepb.Span
	for _, s := range c.spans {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}

// wholeCloud opens a cloud on loopback, runs it while use is at work, and closes
// it.
func wholeCloud(t *testing.T, settings map[string]string, log io.Writer, use func(c *Cloud, operator *api.Client, url string)) {
	t.Helper()
	dir := t.TempDir()
	flags := map[string]string{"data_dir": dir, "listen": "127.0.0.1:0", "agent_listen": "127.0.0.1:0", "ssh_listen": "127.0.0.1:0"}
	for k, v := range settings {
		flags[k] = v
	}
	cfg, err := config.Load("", func(string) (string, bool) { return "", false }, flags)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenCloud(t.Context(), cfg, "test", slog.New(slog.NewJSONHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer func() {
		cancel()
		running.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	address, _, _ := c.Addresses()
	password, err := os.ReadFile(filepath.Join(dir, "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + address
	s, err := api.New(url, "").SignIn(t.Context(), api.SignIn{Email: cfg.AdminEmail, Password: strings.TrimSpace(string(password))})
	if err != nil {
		t.Fatal(err)
	}
	use(c, api.New(url, s.Token), url)
}

func TestRequestsCommandsAndSettlementsAreTraced(t *testing.T) {
	t.Parallel()
	traces := newTraceCollector(t)
	log := &lockedBuffer{}
	wholeCloud(t, map[string]string{"otlp_endpoint": traces.url}, log, func(c *Cloud, operator *api.Client, url string) {
		if _, err := operator.Balance(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.Billing.Settle(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		_, err := c.command(t.Context(), "ho-absent", protocol.Command{LeaseID: "ls-1", Want: protocol.WantStopped})
		if f, ok := fault.As(err); !ok || f.Code != "host_offline" {
			t.Errorf("a command for an absent host: %v", err)
		}
		res, err := http.Get(url + "/healthz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	})
	// Whatever was traced has been delivered now that the cloud is closed.
	for _, name := range []string{"getBalance", "settlement", "host command"} {
		if n := len(traces.named(name)); n != 1 {
			t.Errorf("%d spans are named %q, want 1", n, name)
		}
	}
	for _, s := range traces.named("host command") {
		if s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("the command failed, and its span says %v", s.Status)
		}
	}
	traces.mu.Lock()
	defer traces.mu.Unlock()
	for _, s := range traces.spans {
		for _, a := range s.Attributes {
			if a.Key == "url.path" && a.Value.GetStringValue() == "/healthz" {
				t.Error("a probe was traced")
			}
		}
	}
	if len(traces.paths) != 1 || traces.paths["/v1/traces"] == 0 {
		t.Errorf("delivered to %v", traces.paths)
	}
	found := false
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `"operation":"getBalance"`) {
			found = strings.Contains(line, `"trace_id":"`)
		}
	}
	if !found {
		t.Errorf("the request's line in the log does not name its trace:\n%s", log.String())
	}
}

func TestCallerDoesNotDecideTheTrace(t *testing.T) {
	t.Parallel()
	traces := newTraceCollector(t)
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	wholeCloud(t, map[string]string{"otlp_endpoint": traces.url + "/"}, io.Discard, func(_ *Cloud, _ *api.Client, url string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/balance", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("traceparent", "00-"+theirs+"-b7ad6b7169203331-01")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	})
	spans := traces.named("getBalance")
	if len(spans) != 1 || len(spans[0].ParentSpanId) != 0 || len(spans[0].Links) != 1 {
		t.Errorf("spans %v, want one of its own trace, linked to the caller's", spans)
	}
}

func TestNothingIsTracedUnlessACollectorIsConfigured(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	wholeCloud(t, nil, log, func(c *Cloud, operator *api.Client, _ string) {
		if c.tracing != nil {
			t.Error("there is a provider of traces")
		}
		if _, err := operator.Balance(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	if strings.Contains(log.String(), "trace_id") {
		t.Errorf("the log names traces that nobody keeps:\n%s", log.String())
	}
}

func TestCloudStopsThoughItsCollectorIsAway(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	s.Close()
	start := time.Now()
	wholeCloud(t, map[string]string{"otlp_endpoint": s.URL}, io.Discard, func(_ *Cloud, operator *api.Client, _ string) {
		if _, err := operator.Balance(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("it took %s to stop", took)
	}
}
