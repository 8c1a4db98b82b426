package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"suanli.dev/internal/account"
)

// Images is the cloud's own image registry. Blobs are files; the manifests,
// which the registry library keeps in memory, are written down too and given to
// it again at the next start.
type Images struct {
	handler   http.Handler
	pushing   http.Handler // the same, with uploads
	manifests string

	mu   sync.Mutex
	read time.Time // when the folder of manifests was last read, by its own date
}

type manifest struct {
	Path        string `json:"path"` // of the request that put it
	ContentType string `json:"content_type"`
	Body        []byte `json:"body"`
}

// maxManifest bounds what is read of a manifest; the largest that the registry
// protocol expects a server to take is 4 MiB.
const maxManifest = 4 << 20

// OpenImages opens the registry whose files are in dir.
func OpenImages(dir string) (*Images, error) {
	blobs := filepath.Join(dir, "blobs")
	i := &Images{manifests: filepath.Join(dir, "manifests")}
	for _, d := range []string{blobs, i.manifests} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open image registry: %w", err)
		}
	}
	taken, err := openUploads(filepath.Join(dir, "uploads"), blobs)
	if err != nil {
		return nil, fmt.Errorf("open image registry: %w", err)
	}
	i.handler = registry.New(registry.WithBlobHandler(registry.NewDiskBlobHandler(blobs)), registry.Logger(log.New(io.Discard, "", 0)))
	i.pushing = taken.handle(i.handler)
	files, err := filepath.Glob(filepath.Join(i.manifests, "*.json"))
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(i.manifests); err == nil {
		i.read = st.ModTime()
	}
	for _, f := range files {
		if err := i.restore(f); err != nil {
			return nil, fmt.Errorf("open image registry: %s: %w", f, err)
		}
	}
	return i, nil
}

// catchUp reads manifests that another replica has taken: all share one folder.
func (i *Images) catchUp() {
	st, err := os.Stat(i.manifests)
	if err != nil {
		return // what was read is served
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if st.ModTime().Equal(i.read) {
		return
	}
	files, err := filepath.Glob(filepath.Join(i.manifests, "*.json"))
	if err != nil {
		return
	}
	for _, f := range files {
		if at, err := os.Stat(f); err != nil || at.ModTime().Before(i.read.Add(-time.Minute)) {
			continue
		}
		if i.restore(f) != nil {
			return // half copied; the next request tries again
		}
	}
	i.read = st.ModTime()
}

func (i *Images) restore(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	r := httptest.NewRequest(http.MethodPut, m.Path, bytes.NewReader(m.Body))
	r.Header.Set("Content-Type", m.ContentType)
	w := httptest.NewRecorder()
	i.handler.ServeHTTP(w, r)
	if w.Code >= 300 {
		return fmt.Errorf("the registry answered %d: %s", w.Code, w.Body)
	}
	return nil
}

// Pull serves reads only: what hosts may do.
func (i *Images) Pull() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "images are read here", http.StatusMethodNotAllowed)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			i.catchUp()
		}
		i.handler.ServeHTTP(w, r)
	})
}

// Push serves everything to operators, who sign in by HTTP Basic with an API key
// or session token as the password, as registry clients do.
func (i *Images) Push(accounts *account.Service) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, token, ok := r.BasicAuth()
		p, err := accounts.Authenticate(r.Context(), token)
		if !ok || err != nil {
			w.Header().Set("WWW-Authenticate", `Basic realm="suanli"`)
			w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
			http.Error(w, "sign in with an operator's API key as the password", http.StatusUnauthorized)
			return
		}
		if !p.May(account.Operate) {
			http.Error(w, "only an operator may change the cloud's images", http.StatusForbidden)
			return
		}
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			i.putManifest(w, r)
			return
		}
		i.pushing.ServeHTTP(w, r)
	})
}

// putManifest keeps a manifest on disk before it says that it is kept.
func (i *Images) putManifest(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		http.Error(w, "the manifest could not be read: "+err.Error(), http.StatusBadRequest)
		return
	}
	m := manifest{Path: r.URL.Path, ContentType: r.Header.Get("Content-Type"), Body: b}
	r.Body = io.NopCloser(bytes.NewReader(b))
	rec := httptest.NewRecorder()
	i.handler.ServeHTTP(rec, r)
	if rec.Code < 300 {
		sum := sha256.Sum256([]byte(m.Path))
		if err := writeDurably(filepath.Join(i.manifests, hex.EncodeToString(sum[:16])+".json"), mustJSON(m)); err != nil {
			http.Error(w, "the manifest could not be written: "+err.Error(), http.StatusInternalServerError)
			return
		}
	}
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("marshal of a plain value: " + err.Error())
	}
	return b
}

// writeDurably replaces a file by way of another, so that a crash leaves the old
// content or the new one, whole.
func writeDurably(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, werr := f.Write(b)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
