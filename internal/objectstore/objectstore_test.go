package objectstore_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/objectstore/s3test"
)

func open(t *testing.T, c objectstore.Config) *objectstore.Store {
	t.Helper()
	s, err := objectstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func send(t *testing.T, method, url string, body []byte) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Body.Close() })
	return r
}

func TestAHolderOfSignedURLsWritesOneObjectAndReadsIt(t *testing.T) {
	t.Parallel()
	s := open(t, s3test.Start(t).Config)
	ctx := t.Context()
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	upload, err := s.Begin(ctx, "snapshots/a")
	if err != nil {
		t.Fatal(err)
	}
	var mine objectstore.Digest
	whole := bytes.Repeat([]byte("0123456789abcdef"), (objectstore.MinPartBytes+1000)/16)
	for i, part := range [][]byte{whole[:objectstore.MinPartBytes], whole[objectstore.MinPartBytes:]} {
		u, err := s.PartURL(ctx, "snapshots/a", upload, i+1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(u, "suanli-test-secret") {
			t.Error("the URL has the secret in it")
		}
		r := send(t, http.MethodPut, u, part)
		if r.StatusCode != http.StatusOK || r.Header.Get("ETag") == "" {
			b, _ := io.ReadAll(r.Body)
			t.Fatalf("part %d: %s %s", i+1, r.Status, b)
		}
		mine.Add(r.Header.Get("ETag"))
		// The URL is for this part and no other.
		other := strings.Replace(u, "partNumber="+string(rune('1'+i)), "partNumber=9", 1)
		if r := send(t, http.MethodPut, other, part); r.StatusCode < 400 {
			t.Errorf("a URL that was signed for part %d wrote part 9", i+1)
		}
	}
	if list, err := s.Uploads(ctx, "snapshots/"); err != nil || len(list) != 1 || list[0].Key != "snapshots/a" || list[0].ID != upload {
		t.Fatalf("%+v, %v", list, err)
	}
	parts, err := s.Parts(ctx, "snapshots/a", upload, 2)
	if err != nil || parts.Bytes != int64(len(whole)) || parts.Digest != mine.String() {
		t.Fatalf("%+v, %v; want %s", parts, err, mine.String())
	}
	if err := s.Complete(ctx, "snapshots/a", upload, parts); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Parts(ctx, "snapshots/a", upload, 2); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("the parts of an upload that is complete: %v", err)
	}
	if n, err := s.Size(ctx, "snapshots/a"); err != nil || n != int64(len(whole)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	u, err := s.GetURL(ctx, "snapshots/a", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(send(t, http.MethodGet, u, nil).Body); err != nil || !bytes.Equal(b, whole) {
		t.Errorf("%d bytes are read, %v", len(b), err)
	}
	if keys, err := s.Keys(ctx, "snapshots/"); err != nil || len(keys) != 1 || keys[0] != "snapshots/a" {
		t.Errorf("%q, %v", keys, err)
	}
	for range 2 {
		if err := s.Remove(ctx, "snapshots/a"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Size(ctx, "snapshots/a"); !errors.Is(err, objectstore.ErrNotFound) {
		t.Errorf("what was removed: %v", err)
	}
}

func TestRemovingAKeyGivesItsUploadsUpAndNoOthers(t *testing.T) {
	t.Parallel()
	s := open(t, s3test.Start(t).Config)
	ctx := t.Context()
	for _, key := range []string{"a", "a", "ab"} {
		if _, err := s.Begin(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Remove(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Uploads(ctx, ""); err != nil || len(list) != 1 || list[0].Key != "ab" {
		t.Errorf("%+v, %v are left", list, err)
	}
	if err := s.Abort(ctx, "a", "none-such"); err != nil {
		t.Errorf("aborting what is not there: %v", err)
	}
}

func TestWhatIsWrongWithTheConfigurationIsSaidWithoutItsKeys(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"", "s3.example.com", "ftp://x", "http://user:pass@x", "https://x/path"} {
		if _, err := objectstore.New(objectstore.Config{Endpoint: endpoint, Bucket: "b", AccessKey: "a", SecretKey: "hush-hush"}); err == nil || strings.Contains(err.Error(), "pass@") {
			t.Errorf("the endpoint %q: %v", endpoint, err)
		}
	}
	server := s3test.Start(t)
	for name, x := range map[string]struct {
		change func(*objectstore.Config)
		code   string
	}{
		"another secret": {func(c *objectstore.Config) { c.SecretKey = "hush-hush-another" }, "object_store_refused"},
		"another key":    {func(c *objectstore.Config) { c.AccessKey = "hush-hush-access" }, "object_store_refused"},
		"no such bucket": {func(c *objectstore.Config) { c.Bucket = "nothing-here" }, "object_store_bucket"},
		"nobody there":   {func(c *objectstore.Config) { c.Endpoint = "http://127.0.0.1:1" }, "object_store_unreachable"},
	} {
		c := server.Config
		x.change(&c)
		err := open(t, c).Check(t.Context())
		if f, ok := fault.As(err); !ok || f.Code != x.code {
			t.Errorf("%s: %v, want %s", name, err, x.code)
		}
		if err != nil && (strings.Contains(err.Error(), "hush-hush") || strings.Contains(err.Error(), server.SecretKey)) {
			t.Errorf("%s: a key is in %q", name, err)
		}
	}
}
