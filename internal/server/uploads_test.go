package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// registryWorld is the cloud's registry with nobody at its door.
func registryWorld(t *testing.T) (*Images, *httptest.Server) {
	t.Helper()
	images, err := OpenImages(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(images.pushing)
	t.Cleanup(s.Close)
	return images, s
}

func send(t *testing.T, method, url string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func want(t *testing.T, res *http.Response, status int) *http.Response {
	t.Helper()
	if res.StatusCode != status {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("%s %s: %d, want %d: %s", res.Request.Method, res.Request.URL.Path, res.StatusCode, status, b)
	}
	return res
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestABlobThatComesInPartsIsServedAsAWhole(t *testing.T) {
	t.Parallel()
	_, s := registryWorld(t)
	blob := bytes.Repeat([]byte("0123456789"), 1000)
	at := s.URL + want(t, send(t, http.MethodPost, s.URL+"/v2/a/b/blobs/uploads/", nil), 202).Header.Get("Location")
	want(t, send(t, http.MethodPatch, at, bytes.NewReader(blob[:4000])), 202)
	want(t, send(t, http.MethodPatch, at, bytes.NewReader(blob[5000:]), "Content-Range", "5000-9999"), 416)
	res := want(t, send(t, http.MethodPatch, at, bytes.NewReader(blob[4000:7000]), "Content-Range", "4000-6999"), 202)
	if r := res.Header.Get("Range"); r != "0-6999" {
		t.Errorf("the upload is at %q, want 0-6999", r)
	}
	want(t, send(t, http.MethodPut, at+"?digest="+digestOf(blob), bytes.NewReader(blob[7000:])), 201)
	got, err := io.ReadAll(want(t, send(t, http.MethodGet, s.URL+"/v2/a/b/blobs/"+digestOf(blob), nil), 200).Body)
	if err != nil || !bytes.Equal(got, blob) {
		t.Errorf("read back %d bytes (%v), want the %d that were sent", len(got), err, len(blob))
	}
	want(t, send(t, http.MethodPatch, at, bytes.NewReader(blob)), 404)
}

func TestABlobThatIsNotWhatItsDigestSaysIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()
	images, s := registryWorld(t)
	at := s.URL + want(t, send(t, http.MethodPost, s.URL+"/v2/a/blobs/uploads/", nil), 202).Header.Get("Location")
	want(t, send(t, http.MethodPatch, at, bytes.NewReader([]byte("one"))), 202)
	want(t, send(t, http.MethodPut, at+"?digest="+digestOf([]byte("another")), nil), 400)
	want(t, send(t, http.MethodHead, s.URL+"/v2/a/blobs/"+digestOf([]byte("one")), nil), 404)
	if left := leftovers(t, images); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
}

func leftovers(t *testing.T, images *Images) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(filepath.Dir(images.manifests), "uploads", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestAnUploadThatWasGivenUpIsForgotten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	u, err := openUploads(filepath.Join(dir, "uploads"), filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	u.begin(httptest.NewRecorder(), "/v2/a")
	u.sweep(time.Now())
	if len(u.open) != 1 {
		t.Fatal("an upload that has just begun was forgotten")
	}
	u.sweep(time.Now().Add(2 * uploadPatience))
	files, err := os.ReadDir(u.dir)
	if err != nil || len(files) != 0 || len(u.open) != 0 {
		t.Errorf("after two hours %d uploads and %d files are left (%v)", len(u.open), len(files), err)
	}
}

// endless is n bytes that take no memory.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), e.left)
	clear(b[:n])
	e.left -= n
	return n, nil
}

// Not parallel: it measures what the process allocates.
func TestALargeBlobIsNotHeldInMemory(t *testing.T) {
	images, err := OpenImages(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	do := func(r *http.Request) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		images.pushing.ServeHTTP(w, r)
		return w
	}
	at := do(httptest.NewRequest(http.MethodPost, "/v2/a/blobs/uploads/", nil)).Header().Get("Location")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := do(httptest.NewRequest(http.MethodPatch, at, &endless{left: size}))
	runtime.ReadMemStats(&after)
	if w.Code != 202 || w.Header().Get("Range") != "0-67108863" {
		t.Fatalf("answer %d, %v", w.Code, w.Header())
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Errorf("taking in 64 MiB allocated %d bytes", used)
	}
}
