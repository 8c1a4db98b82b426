package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/server"
)

func TestMain(m *testing.M) {
	// Neither the sign-in nor the language of whoever runs the tests matters.
	dir, err := os.MkdirTemp("", "suanli-client-")
	if err != nil {
		panic(err)
	}
	os.Setenv("SUANLI_CLIENT_DIR", dir)
	for _, k := range []string{"SUANLI_SERVER", "SUANLI_TOKEN", "SUANLI_LANG", "LANG", "LC_ALL", "LC_MESSAGES"} {
		os.Unsetenv(k)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// pretence is an API that answers every operation of the real one's document
// with a value of the shape that the document promises. Its one lease is called
// "mine", its state follows the last order, and it can be entered by SSH.
type pretence struct {
	t       *testing.T
	url     string
	schemas map[string]any
	paths   map[string]any
	ssh     *net.TCPAddr
	hostKey ssh.Signer

	mu    sync.Mutex
	state string
	line  string // that was last run by SSH
}

// lastLine is the line of shell that was last run by SSH.
func (p *pretence) lastLine() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line
}

func newPretence(t *testing.T) *pretence {
	t.Helper()
	raw, err := server.Document("test")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths      map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	p := &pretence{t: t, schemas: doc.Components.Schemas, paths: doc.Paths, state: "running"}
	p.serveSSH()
	mux := http.NewServeMux()
	mux.Handle("/v2/", registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	mux.HandleFunc("/", p.answer)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// answer finds the operation whose path the request has.
func (p *pretence) answer(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/logs") {
		io.WriteString(w, "first\nlast <&>")
		return
	}
	for pattern, methods := range p.paths {
		if !samePath(pattern, r.URL.Path) {
			continue
		}
		op, ok := methods.(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
		if !ok {
			continue
		}
		p.follow(r)
		for status, v := range op["responses"].(map[string]any) {
			if status[0] != '2' {
				continue
			}
			content, _ := v.(map[string]any)["content"].(map[string]any)
			media, _ := content["application/json"].(map[string]any)
			if media == nil {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(p.value("", media["schema"].(map[string]any))); err != nil {
				p.t.Error(err)
			}
			return
		}
	}
	p.t.Errorf("the API has no %s %s", r.Method, r.URL.Path)
	w.WriteHeader(http.StatusNotFound)
}

// follow moves the lease as an order would.
func (p *pretence) follow(r *http.Request) {
	if r.Method != http.MethodPost {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch path.Base(r.URL.Path) {
	case "stop":
		p.state = "stopped"
	case "end":
		p.state = "ended"
	case "start", "restart", "leases":
		p.state = "running"
	}
}

func samePath(pattern, actual string) bool {
	a, b := strings.Split(pattern, "/"), strings.Split(actual, "/")
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !strings.HasPrefix(a[i], "{") {
			return false
		}
	}
	return true
}

// value makes a value of a schema. name is the property's.
func (p *pretence) value(name string, schema map[string]any) any {
	if ref, ok := schema["$ref"].(string); ok {
		return p.value(path.Base(ref), p.schemas[path.Base(ref)].(map[string]any))
	}
	kind := schema["type"]
	if several, ok := kind.([]any); ok {
		kind = several[0]
	}
	switch kind {
	case "object":
		object := map[string]any{}
		properties, _ := schema["properties"].(map[string]any)
		for k, v := range properties {
			if k != "next_cursor" && k != "ended_at" {
				object[k] = p.value(k, v.(map[string]any))
			}
		}
		if more, ok := schema["additionalProperties"].(map[string]any); ok {
			object["8080"] = p.value("", more)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		switch name {
		case "Lease":
			object["name"], object["id"], object["state"], object["code"] = "mine", "ls-1", p.state, ""
		case "LeaseAccess":
			object["ssh_host"], object["ssh_port"] = p.ssh.IP.String(), p.ssh.Port
			object["ssh_host_key"] = string(ssh.MarshalAuthorizedKey(p.hostKey.PublicKey()))
		case "Host":
			object["id"], object["name"] = "ho-1", "rack"
		}
		return object
	case "array":
		return []any{p.value(name, schema["items"].(map[string]any))}
	case "string":
		if choices, ok := schema["enum"].([]any); ok {
			return choices[0]
		}
		if schema["format"] == "date-time" {
			return "2026-05-01T12:00:00Z"
		}
		return "1" // an amount, a rate and a word alike
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case nil:
		return "1" // whatever there may be
	}
	p.t.Errorf("no value of %v is made for %q", kind, name)
	return nil
}

// serveSSH answers every command with a greeting, and keeps files in memory.
func (p *pretence) serveSSH() {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	if p.hostKey, err = ssh.NewSignerFromKey(key); err != nil {
		p.t.Fatal(err)
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	cfg.AddHostKey(p.hostKey)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	p.ssh = ln.Addr().(*net.TCPAddr)
	p.t.Cleanup(func() { ln.Close() })
	files := sftp.InMemHandler()
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serveSSHConn(conn, cfg, files)
		}
	}()
}

func (p *pretence) serveSSHConn(conn net.Conn, cfg *ssh.ServerConfig, files sftp.Handlers) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go func() {
			for r := range requests {
				var text struct{ Text string }
				_ = ssh.Unmarshal(r.Payload, &text) // empty where there is none
				_ = r.Reply(true, nil)
				switch r.Type {
				case "subsystem":
					go func() { _ = sftp.NewRequestServer(channel, files).Serve(); channel.Close() }()
				case "exec":
					p.mu.Lock()
					p.line = text.Text
					p.mu.Unlock()
					io.WriteString(channel, "hello\n")
					io.WriteString(channel.Stderr(), "aside\n")
					status := struct{ Code uint32 }{}
					if text.Text == "'exit' '3'" {
						status.Code = 3
					}
					_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
					channel.Close()
				}
			}
		}()
	}
}

// run executes a command line and returns what it printed.
func run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, side bytes.Buffer
	err = runInto(ctx, &out, &side, args...)
	return out.String(), side.String(), err
}

func runInto(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader("password\n"))
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}
