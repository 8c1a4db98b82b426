package console

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func files(t *testing.T) fstest.MapFS {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte("let a = 1")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return fstest.MapFS{
		"index.html":         {Data: []byte(`<meta name="csp-nonce" content="__CSP_NONCE__">`)},
		"assets/app-1.js.gz": {Data: b.Bytes()},
		"icon.png":           {Data: []byte("png")},
	}
}

func get(t *testing.T, h http.Handler, path, encoding string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func TestEveryPlaceOfTheConsoleHasThePageWithANonceOfItsOwn(t *testing.T) {
	t.Parallel()
	h := handler(files(t))
	nonce := regexp.MustCompile(`'nonce-([A-Za-z0-9_-]{22})'`)
	seen := map[string]bool{}
	for _, path := range []string{"/console/", "/console/market", "/console/leases/le-1", "/console/index.html", "/console/../../etc/passwd"} {
		res, body := get(t, h, path, "")
		m := nonce.FindStringSubmatch(res.Header.Get("Content-Security-Policy"))
		if res.StatusCode != http.StatusOK || m == nil || !strings.Contains(body, `content="`+m[1]+`"`) || seen[m[1]] {
			t.Errorf("%s: %d, policy %q, body %q", path, res.StatusCode, res.Header.Get("Content-Security-Policy"), body)
			continue
		}
		seen[m[1]] = true
		if res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be kept, and with it its nonce", path)
		}
		if csp := res.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || strings.Contains(csp, "http") {
			t.Errorf("the policy %q lets in what it need not", csp)
		}
	}
}

func TestFilesAreSentPackedToWhoUnpacksThem(t *testing.T) {
	t.Parallel()
	h := handler(files(t))
	res, body := get(t, h, "/console/assets/app-1.js", "gzip, br")
	z, err := gzip.NewReader(strings.NewReader(body))
	if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("encoding %q, %v", res.Header.Get("Content-Encoding"), err)
	}
	if text, err := io.ReadAll(z); err != nil || string(text) != "let a = 1" {
		t.Errorf("unpacked %q, %v", text, err)
	}
	if res, body = get(t, h, "/console/assets/app-1.js", ""); body != "let a = 1" || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("%q with encoding %q", body, res.Header.Get("Content-Encoding"))
	}
	if cache := res.Header.Get("Cache-Control"); !strings.Contains(cache, "immutable") {
		t.Errorf("Cache-Control %q of a file that never changes", cache)
	}
	if res, _ = get(t, h, "/console/assets/app-0.js", ""); res.StatusCode != http.StatusNotFound {
		t.Errorf("a file of another version: %d", res.StatusCode)
	}
}

func TestABinaryWithoutTheConsoleSaysSo(t *testing.T) {
	t.Parallel()
	empty := fstest.MapFS{".keep": {}}
	if built(empty) {
		t.Error("it says that it has one")
	}
	if res, body := get(t, handler(empty), "/console/market", ""); res.StatusCode != http.StatusNotFound || !strings.Contains(body, "/docs") {
		t.Errorf("%d %q", res.StatusCode, body)
	}
}
