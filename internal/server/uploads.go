package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// uploads takes in the blobs of images, each into a file as it comes. The
// registry library would hold each in memory, several times over while it grows,
// and one at a time: a layer of ten gigabytes would end the control plane.
type uploads struct {
	dir   string // of those under way
	blobs string // where the library's blob handler looks for them

	mu   sync.Mutex
	open map[string]*upload
}

// uploadPatience is how long an upload that nothing is added to is kept.
const uploadPatience = time.Hour

// upload is one blob under way. A client sends its parts one after the other.
type upload struct {
	mu   sync.Mutex
	file *os.File // nil: over
	sum  hash.Hash
	size int64
	last time.Time
}

// openUploads starts with none: a client begins anew after a restart.
func openUploads(dir, blobs string) (*uploads, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return &uploads{dir: dir, blobs: blobs, open: map[string]*upload{}}, os.MkdirAll(dir, 0o700)
}

// handle speaks the uploading part of the OCI distribution specification
// ("Pushing blobs"), and hands to next what is not of it.
func (u *uploads) handle(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, id, ok := strings.Cut(r.URL.Path, "/blobs/uploads")
		id = strings.Trim(id, "/")
		whole := r.Method == http.MethodPost && r.URL.Query().Has("digest") // in one request: the library streams that
		if !ok || whole || strings.Contains(id, "/") {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method == http.MethodPost && id == "" {
			u.begin(w, name)
			return
		}
		u.mu.Lock()
		up := u.open[id]
		u.mu.Unlock()
		if up == nil {
			refuseBlob(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "there is no such upload; begin anew")
			return
		}
		up.mu.Lock()
		defer up.mu.Unlock()
		if up.file == nil {
			refuseBlob(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "this upload is over; begin anew")
			return
		}
		w.Header().Set("Location", name+"/blobs/uploads/"+id)
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Range", up.extent())
			w.WriteHeader(http.StatusNoContent)
		case http.MethodDelete:
			u.end(id, up)
			w.WriteHeader(http.StatusNoContent)
		case http.MethodPatch:
			if !up.take(w, r) {
				return
			}
			w.Header().Set("Range", up.extent())
			w.WriteHeader(http.StatusAccepted)
		case http.MethodPut:
			if up.take(w, r) {
				u.keep(w, id, up, r.URL.Query().Get("digest"))
			}
		default:
			refuseBlob(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "an upload takes GET, PATCH, PUT and DELETE")
		}
	})
}

func (u *uploads) begin(w http.ResponseWriter, name string) {
	u.sweep(time.Now())
	id := rand.Text()
	f, err := os.OpenFile(filepath.Join(u.dir, id), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		refuseBlob(w, http.StatusInternalServerError, "UNKNOWN", "the upload cannot be kept: "+err.Error())
		return
	}
	u.mu.Lock()
	u.open[id] = &upload{file: f, sum: sha256.New(), last: time.Now()}
	u.mu.Unlock()
	w.Header().Set("Location", name+"/blobs/uploads/"+id)
	w.Header().Set("Docker-Upload-UUID", id)
	w.Header().Set("Range", "0-0")
	w.WriteHeader(http.StatusAccepted)
}

// take appends the request's body.
func (up *upload) take(w http.ResponseWriter, r *http.Request) bool {
	if at := r.Header.Get("Content-Range"); at != "" {
		var start, last int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(at, "bytes "), "%d-%d", &start, &last); err != nil || start != up.size {
			w.Header().Set("Range", up.extent())
			refuseBlob(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", fmt.Sprintf("the part %q does not begin at %d, where the upload is", at, up.size))
			return false
		}
	}
	// What arrived before a connection broke counts, in the sum as in the file.
	n, err := io.Copy(io.MultiWriter(up.file, up.sum), onlyRead{r.Body})
	up.size, up.last = up.size+n, time.Now()
	if err != nil {
		refuseBlob(w, http.StatusInternalServerError, "BLOB_UPLOAD_INVALID", "the part was not taken: "+err.Error())
		return false
	}
	return true
}

// onlyRead keeps io.Copy to its own small buffer.
type onlyRead struct{ io.Reader }

// extent is what has arrived, as the protocol says it.
func (up *upload) extent() string { return fmt.Sprintf("0-%d", max(0, up.size-1)) }

// keep makes a finished upload a blob, if it is the one that was meant.
func (u *uploads) keep(w http.ResponseWriter, id string, up *upload, digest string) {
	sum := hex.EncodeToString(up.sum.Sum(nil))
	if digest != "sha256:"+sum {
		u.end(id, up)
		refuseBlob(w, http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("what was sent has the digest sha256:%s, and not %q", sum, digest))
		return
	}
	dir := filepath.Join(u.blobs, "sha256")
	// On disk before the answer: a manifest that names it may follow at once.
	err := errors.Join(up.file.Sync(), os.MkdirAll(dir, 0o700))
	if err == nil {
		err = os.Rename(up.file.Name(), filepath.Join(dir, sum))
	}
	if err != nil {
		refuseBlob(w, http.StatusInternalServerError, "UNKNOWN", "the blob cannot be kept: "+err.Error())
		return
	}
	u.end(id, up)
	w.Header().Set("Location", strings.TrimSuffix(w.Header().Get("Location"), "uploads/"+id)+digest)
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

// end forgets an upload, whose lock the caller holds, and what is left of it.
func (u *uploads) end(id string, up *upload) {
	u.mu.Lock()
	delete(u.open, id)
	u.mu.Unlock()
	if up.file != nil {
		_ = up.file.Close()
		_ = os.Remove(up.file.Name()) // fails when it has become a blob
		up.file = nil
	}
}

// sweep ends uploads that were given up.
func (u *uploads) sweep(now time.Time) {
	u.mu.Lock()
	stale := map[string]*upload{}
	for id, up := range u.open {
		stale[id] = up
	}
	u.mu.Unlock()
	for id, up := range stale {
		if !up.mu.TryLock() {
			continue // it is at work
		}
		if now.Sub(up.last) > uploadPatience {
			u.end(id, up)
		}
		up.mu.Unlock()
	}
}

// refuseBlob answers with an error as registries do.
func refuseBlob(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{map[string]string{"code": code, "message": message}}})
}
