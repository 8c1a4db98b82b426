package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/client"

	"suanli.dev/api"
)

// transfers is a lease that serves HTTP, and the three ways to it.
type transfers struct {
	direct, nginx, gateway *way
	lease                  string
}

// way is one way to the server in the lease.
type way struct {
	name   string
	base   string
	header http.Header
	client *http.Client
}

// benchHTTP is the throughput of 16 MiB answers over eight connections through
// the cloud's gateway and tunnel (TLS between the two, as always), against nginx
// with proxy_pass to the same container, and against the container itself. Three
// rounds of three seconds each, in turn, medians. The goal comes from the bare
// layers: multiplexed TLS moves 0.32 of what TCP does on such a machine.
func benchHTTP(ctx context.Context, w *world) (result, error) {
	t, err := w.transfer(ctx)
	if err != nil {
		return result{}, err
	}
	rates := map[*way][]float64{}
	for range 3 {
		for _, y := range []*way{t.direct, t.nginx, t.gateway} {
			r, err := y.throughput(ctx, 8, 16<<20, 3*time.Second)
			if err != nil {
				return result{}, fmt.Errorf("%s: %w", y.name, err)
			}
			rates[y] = append(rates[y], r)
		}
	}
	direct, nginx, ours := middle(rates[t.direct]), middle(rates[t.nginx]), middle(rates[t.gateway])
	fmt.Printf("direct %.0f MB/s, nginx %.0f MB/s (%.2f of direct), gateway %.0f MB/s (%.2f of direct)\n", direct, nginx, nginx/direct, ours, ours/direct)
	return result{fmt.Sprintf("%.0fMB/s", ours), fmt.Sprintf("%.0fMB/s", nginx), ours / nginx, ours >= 0.3*nginx}, nil
}

// benchHTTPLatency is what the gateway adds to the time of a small request (1 KiB
// on a kept connection) over asking the container directly, against what nginx
// adds. 2,000 of each, one after the other in turn, so that all see the same load.
func benchHTTPLatency(ctx context.Context, w *world) (result, error) {
	t, err := w.transfer(ctx)
	if err != nil {
		return result{}, err
	}
	took := map[*way][]time.Duration{}
	for i := range 2200 {
		for _, y := range []*way{t.direct, t.nginx, t.gateway} {
			begin := time.Now()
			if _, err := y.get(ctx, 1<<10); err != nil {
				return result{}, fmt.Errorf("%s: %w", y.name, err)
			}
			if i >= 200 {
				took[y] = append(took[y], time.Since(begin))
			}
		}
	}
	d50, d99 := quantile(took[t.direct], .5), quantile(took[t.direct], .99)
	n50, n99 := quantile(took[t.nginx], .5), quantile(took[t.nginx], .99)
	g50, g99 := quantile(took[t.gateway], .5), quantile(took[t.gateway], .99)
	fmt.Printf("p50/p99: direct %s/%s, nginx %s/%s (adds %s/%s), gateway %s/%s (adds %s/%s)\n", micro(d50), micro(d99),
		micro(n50), micro(n99), micro(n50-d50), micro(n99-d99), micro(g50), micro(g99), micro(g50-d50), micro(g99-d99))
	return result{micro(g50), micro(n50), float64(g50) / float64(n50), g50-n50 <= time.Millisecond}, nil
}

func middle(v []float64) float64 {
	d := make([]time.Duration, len(v))
	for i, x := range v {
		d[i] = time.Duration(x * 1e3)
	}
	return float64(quantile(d, .5)) / 1e3
}

func (w *world) transfer(ctx context.Context) (*transfers, error) {
	if w.transfers != nil {
		return w.transfers, nil
	}
	c, err := w.startUp(ctx)
	if err != nil {
		return nil, err
	}
	// The whole machine: what it is compared with has all processors as well.
	q, err := c.quote(ctx, 8)
	if err != nil {
		return nil, err
	}
	l, err := c.api.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID, Ports: []int{8080}, Command: []string{"/bench", "payload", "serve"}})
	if err != nil {
		return nil, err
	}
	if err := c.awaitState(ctx, l.ID, "running"); err != nil {
		return nil, err
	}
	in, err := w.docker.ContainerInspect(ctx, "suanli-"+l.ID, client.ContainerInspectOptions{})
	if err != nil {
		return nil, err
	}
	address := ""
	for _, n := range in.Container.NetworkSettings.Networks {
		address = net.JoinHostPort(n.IPAddress.String(), "8080")
	}
	access, err := c.api.LeaseAccess(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(access.URLs["8080"])
	if err != nil {
		return nil, err
	}
	t := &transfers{
		lease:  l.ID,
		direct: newWay("direct", "http://"+address, ""),
		nginx:  newWay("nginx", "http://127.0.0.1:8081", ""),
		// The instance's own host name, which leads to this machine.
		gateway: newWay("gateway", "http://"+u.Host, "127.0.0.1:7080"),
	}
	t.gateway.header = http.Header{"X-Suanli-Token": {u.Query().Get("suanli_token")}}
	if err := w.startNginx(address); err != nil {
		return nil, err
	}
	for _, y := range []*way{t.direct, t.nginx, t.gateway} {
		err := poll(ctx, y.name, 10*time.Second, 20*time.Millisecond, func() (bool, error) {
			_, err := y.get(ctx, 10)
			return err == nil, err
		})
		if err != nil {
			return nil, err
		}
	}
	w.transfers = t
	return t, nil
}

// startNginx starts nginx in front of the container. It ends with the namespace's
// world; its files are in the run's folder.
func (w *world) startNginx(upstream string) error {
	dir := filepath.Join(w.dir, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	conf := fmt.Sprintf(`daemon off; pid %[1]s/pid; error_log stderr warn; worker_processes auto; user root;
events { worker_connections 512; }
http {
  access_log off; sendfile on; tcp_nodelay on;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  upstream instance { server %[2]s; keepalive 16; }
  server { listen 127.0.0.1:8081; location / { proxy_pass http://instance; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}
`, dir, upstream)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		return err
	}
	p, err := w.spawn("nginx", nil, "nginx", "-c", file, "-p", dir)
	if err != nil {
		return fmt.Errorf("start nginx (package nginx-light): %w", err)
	}
	w.helpers = append(w.helpers, p)
	return nil
}

func newWay(name, base, dial string) *way {
	t := &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}
	if dial != "" {
		t.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, dial)
		}
	}
	return &way{name: name, base: base, client: &http.Client{Transport: t}}
}

func (y *way) get(ctx context.Context, bytes int64) (int64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%d", y.base, bytes), nil)
	if err != nil {
		return 0, err
	}
	for k, v := range y.header {
		r.Header[k] = v
	}
	res, err := y.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || n != bytes) {
		err = fmt.Errorf("answer %s of %d bytes, want %d", res.Status, n, bytes)
	}
	return n, err
}

// throughput returns MB/s over several connections at once.
func (y *way) throughput(ctx context.Context, connections int, size int64, span time.Duration) (float64, error) {
	var total atomic.Int64
	errs := make([]error, connections)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range connections {
		all.Go(func() {
			for time.Since(begin) < span {
				n, err := y.get(ctx, size)
				if err != nil {
					errs[i] = err
					return
				}
				total.Add(n)
			}
		})
	}
	all.Wait()
	return float64(total.Load()) / 1e6 / time.Since(begin).Seconds(), errors.Join(errs...)
}
