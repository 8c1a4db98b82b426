package runtime

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"suanli.dev/internal/protocol"
)

// tryPull does all of a pull but handing the image to an engine.
func tryPull(t *testing.T, ref string, max int64, trusted ...string) (*pull, error) {
	t.Helper()
	d := &Docker{cfg: DockerConfig{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}
	for _, host := range trusted {
		d.cfg.InnerRegistries = append(d.cfg.InnerRegistries, InnerRegistry{Host: host, HTTP: true})
	}
	places, hosts, err := d.places(ref)
	if err != nil {
		t.Fatal(err)
	}
	r := PullRequest{Reference: ref, MaxBytes: max, Stall: 3 * time.Second, Progress: func(protocol.Progress) {}}
	ctx, pace := newPace(t.Context(), r.Stall)
	defer pace.stop()
	p := &pull{d: d, request: r, pace: pace, line: newLine(r.Stall, hosts, pace.note), dir: t.TempDir()}
	defer p.line.close()
	err = p.resolve(ctx, places)
	if err == nil {
		err = p.fetch(ctx, 0)
	}
	return p, p.explain(t.Context(), err)
}

// push puts an image of one layer into a registry.
func push(t *testing.T, host string, layer []byte) (ref string, digest v1.Hash) {
	t.Helper()
	l := static.NewLayer(layer, types.DockerLayer)
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: goruntime.GOARCH, RootFS: c.RootFS}); err != nil {
		t.Fatal(err)
	}
	to, err := name.ParseReference(host+"/image:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(to, img); err != nil {
		t.Fatal(err)
	}
	digest, err = l.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return to.Name(), digest
}

// archive is a layer with one file.
func archive(t *testing.T, h *tar.Header, body io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(w, body); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func images1() http.Handler { return registry.New(registry.Logger(log.New(io.Discard, "", 0))) }

const secret = "the neighbour's secret"

// neighbour is a service inside of the host's network that nobody may call.
func neighbour(t *testing.T) (address string, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		_, _ = io.WriteString(w, secret)
	})), calls
}

func TestARegistryThatLeadsInsideIsRefusedBeforeItIsConnectedTo(t *testing.T) {
	t.Parallel()
	inner, calls := neighbour(t)
	_, port, _ := strings.Cut(inner, ":")
	layer := archive(t, &tar.Header{Name: "a", Mode: 0o644, Size: 1}, strings.NewReader("a"))
	redirect := func(match string) string {
		store := images1()
		host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, match) {
				http.Redirect(w, r, "http://"+inner+"/secrets", http.StatusTemporaryRedirect)
				return
			}
			store.ServeHTTP(w, r)
		}))
		_, _ = push(t, host, layer)
		return host
	}
	manifests, blobs := redirect("/manifests/"), redirect("/blobs/")
	realm := func(at string) string {
		return serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="x"`, at))
			w.WriteHeader(http.StatusUnauthorized)
		}))
	}
	address, named := realm(inner), realm("localhost:"+port)
	for what, c := range map[string]struct {
		ref     string
		trusted []string
	}{
		"its address":               {inner + "/image:1", nil},
		"a name that resolves so":   {"localhost:" + port + "/image:1", nil},
		"a redirect of a manifest":  {manifests + "/image:1", []string{manifests}},
		"a redirect of a blob":      {blobs + "/image:1", []string{blobs}},
		"the address of its tokens": {address + "/image:1", []string{address}},
		"the name of its tokens":    {named + "/image:1", []string{named}},
	} {
		_, err := tryPull(t, c.ref, 0, c.trusted...)
		if CodeOf(err) != "registry_refused" {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(strings.ReplaceAll(err.Error(), c.ref, ""), "127.0.0.1")) {
			t.Errorf("%s: the message tells too much: %v", what, err)
		}
	}
	if n := calls.Load(); n != 0 {
		t.Errorf("the service inside was called %d times", n)
	}
}

func TestARegistryThatTheHostTrustsMayBeInside(t *testing.T) {
	t.Parallel()
	host := serve(t, images1())
	ref, _ := push(t, host, archive(t, &tar.Header{Name: "a", Mode: 0o644, Size: 1}, strings.NewReader("a")))
	if _, err := tryPull(t, ref, 1<<20, host); err != nil {
		t.Error(err)
	}
}

func TestNothingThatARegistrySendsIsInTheMessage(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]string{400: "image_not_found", 401: "image_not_found", 403: "image_not_found", 404: "image_not_found", 418: "image_not_found", 429: "pull_stalled", 500: "pull_stalled", 200: "pull_stalled"} {
		host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v2/" {
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"errors":[{"code":"X","message":%q}]} %s`, secret, secret)
		}))
		_, err := tryPull(t, host+"/image:1", 0, host)
		if err == nil || strings.Contains(err.Error(), "secret") || CodeOf(err) != code {
			t.Errorf("%d: code %q, %v", status, CodeOf(err), err)
		}
	}
}

func TestAnAnswerWithoutEndIsNotHeldInMemory(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v2/" {
			return
		}
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		block := bytes.Repeat([]byte(" "), 1<<20)
		for {
			n, err := w.Write(block)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	if _, err := tryPull(t, host+"/image:1", 0, host); CodeOf(err) != "image_damaged" {
		t.Errorf("%v", err)
	}
	if n := sent.Load(); n > 10*maxAnswerBytes {
		t.Errorf("%d bytes were taken", n)
	}
}

func TestAFewKilobytesThatUnpackToGigabytesAreRefusedUnpacked(t *testing.T) {
	t.Parallel()
	host := serve(t, images1())
	bomb := archive(t, &tar.Header{Name: "zeros", Mode: 0o644, Size: 64 << 20}, io.LimitReader(zeros{}, 64<<20))
	ref, _ := push(t, host, bomb)
	if len(bomb) > 1<<20 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	if _, err := tryPull(t, ref, 16<<20, host); CodeOf(err) != "image_too_big" {
		t.Errorf("%v", err)
	}
	if _, err := tryPull(t, ref, 128<<20, host); err != nil {
		t.Errorf("with room for it: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestALayerGoesOnWhereTheLineBroke(t *testing.T) {
	t.Parallel()
	random := make([]byte, 3<<20)
	_, _ = rand.Read(random)
	layer := archive(t, &tar.Header{Name: "random", Mode: 0o644, Size: int64(len(random))}, bytes.NewReader(random))
	store := images1()
	var asked, again atomic.Int64
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || r.Header.Get(layerHeader) != "" {
			store.ServeHTTP(w, r)
			return
		}
		at := int64(0)
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &at); err == nil {
			again.Store(at)
		}
		if rec := httptest.NewRecorder(); at == 0 {
			store.ServeHTTP(rec, r)
			if rec.Body.Len() != len(layer) { // the configuration
				_, _ = w.Write(rec.Body.Bytes())
				return
			}
		}
		if at > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(layer)-1, len(layer)))
			w.Header().Set("Content-Length", fmt.Sprint(int64(len(layer))-at))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", fmt.Sprint(len(layer)))
		}
		if asked.Add(1) == 1 {
			_, _ = w.Write(layer[:1<<20])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(layer[at:])
	}))
	ref, digest := push(t, host, layer)
	p, err := tryPull(t, ref, 0, host)
	if err != nil {
		t.Fatal(err)
	}
	if at := again.Load(); at == 0 || at > 1<<20 {
		t.Errorf("the second request began at byte %d", at)
	}
	got, err := os.ReadFile(p.file(v1.Descriptor{Digest: digest}))
	if err != nil || !bytes.Equal(got, layer) {
		t.Errorf("the layer that came is another: %d bytes, %v", len(got), err)
	}
}

func TestALayerThatIsNotWhatItsImageSaysIsRefused(t *testing.T) {
	t.Parallel()
	layer := archive(t, &tar.Header{Name: "a", Mode: 0o644, Size: 4}, strings.NewReader("good"))
	store := images1()
	host := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		store.ServeHTTP(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		b := rec.Body.Bytes()
		if r.Method == http.MethodGet && bytes.Equal(b, layer) {
			b[len(b)-1] ^= 1
		}
		_, _ = w.Write(b)
	}))
	ref, _ := push(t, host, layer)
	if _, err := tryPull(t, ref, 0, host); CodeOf(err) != "image_damaged" {
		t.Errorf("%v", err)
	}
}

func TestTheEnginesMirrorsOfDockerHubAreTriedFirst(t *testing.T) {
	t.Parallel()
	d := &Docker{mirrors: []string{"https://mirror.example.com/", "http://10.0.0.5:5000"}}
	places, trusted, err := d.places("pytorch/pytorch:2.8.0")
	if err != nil || len(places) != 3 {
		t.Fatalf("%v %v", places, err)
	}
	for i, want := range []string{"mirror.example.com/pytorch/pytorch:2.8.0", "10.0.0.5:5000/pytorch/pytorch:2.8.0", "index.docker.io/pytorch/pytorch:2.8.0"} {
		if places[i].Name() != want {
			t.Errorf("place %d is %s, want %s", i, places[i].Name(), want)
		}
	}
	if len(trusted) != 2 {
		t.Errorf("trusted: %v", trusted)
	}
	if places, trusted, _ := d.places("ghcr.io/a/b:1"); len(places) != 1 || len(trusted) != 0 {
		t.Errorf("another registry: %v %v", places, trusted)
	}
}
