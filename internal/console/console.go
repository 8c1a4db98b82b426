package console

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
)

// Prefix is the path under which the console is.
const Prefix = "/console/"

//go:embed all:dist
var embedded embed.FS

// dist are the files that were built: those of a kind that shrinks are there in
// gzip's format alone, with ".gz" behind their names.
var dist = func() fs.FS {
	sub, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // the name is not valid
	}
	return sub
}()

// Built reports whether the console is part of this binary.
func Built() bool { return built(dist) }

func built(files fs.FS) bool {
	_, err := fs.Stat(files, "index.html")
	return err == nil
}

// policy lets the page run its own scripts, ask its own server, and nothing else.
// Libraries add styles at run time; they carry the nonce of the page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// nonceMark is what stands in index.html where each answer has another nonce.
const nonceMark = "__CSP_NONCE__"

// Handler serves the console under Prefix. A path that no file has is a place
// within the console: it gets the page, which finds out what is there.
func Handler() http.Handler { return handler(dist) }

func handler(files fs.FS) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		name := strings.TrimPrefix(path.Clean(r.URL.Path), strings.TrimSuffix(Prefix, "/"))
		name = strings.TrimPrefix(name, "/")
		if name != "" && name != "index.html" && serveFile(w, r, files, name) {
			return
		}
		if strings.HasPrefix(name, "assets/") {
			// Of another version: the page that asks for it is told to load again.
			h.Set("Cache-Control", "no-store")
			http.NotFound(w, r)
			return
		}
		servePage(w, r, files)
	})
}

func servePage(w http.ResponseWriter, r *http.Request, files fs.FS) {
	page, err := fs.ReadFile(files, "index.html")
	if err != nil {
		http.Error(w, "this binary was built without the console; the API's reference is at /docs", http.StatusNotFound)
		return
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	nonce := base64.RawURLEncoding.EncodeToString(random[:])
	h := w.Header()
	h.Set("Content-Security-Policy", strings.Replace(policy, "%", nonce, 1))
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cache-Control", "no-store") // the nonce is of this answer
	h.Set("Content-Type", "text/html; charset=utf-8")
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(bytes.ReplaceAll(page, []byte(nonceMark), []byte(nonce)))
}

// serveFile serves a file by its name, and reports whether there is one.
func serveFile(w http.ResponseWriter, r *http.Request, files fs.FS, name string) bool {
	if !fs.ValidPath(name) || strings.HasSuffix(name, ".gz") {
		return false
	}
	packed := false
	content, err := fs.ReadFile(files, name)
	if err != nil {
		if content, err = fs.ReadFile(files, name+".gz"); err != nil {
			return false
		}
		packed = true
	}
	h := w.Header()
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		h.Set("Content-Type", kind)
	}
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // named by their content
	} else {
		h.Set("Cache-Control", "public, max-age=3600")
	}
	h.Set("Vary", "Accept-Encoding")
	if packed && !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		z, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return false
		}
		if content, err = io.ReadAll(z); err != nil {
			return false
		}
		packed = false
	}
	if packed {
		h.Set("Content-Encoding", "gzip")
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(content)
	}
	return true
}
