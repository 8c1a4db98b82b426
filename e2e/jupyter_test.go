package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// notebook is a JupyterLab behind the gateway, seen as a browser sees it.
type notebook struct {
	c       *cloud
	host    string // of its address, which nobody resolves
	cookies []*http.Cookie
	token   string
}

func (n *notebook) header() http.Header {
	h := http.Header{"Authorization": {"token " + n.token}, "Origin": {"http://" + n.host}}
	for _, k := range n.cookies {
		h.Add("Cookie", k.Name+"="+k.Value)
	}
	return h
}

func (n *notebook) do(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+n.c.api+path, nil)
	if err != nil {
		return err
	}
	req.Host, req.Header = n.host, n.header()
	res, err := noRedirect.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s %s %w", method, path, res.Status, firstBytes(string(b)), err)
	}
	return json.Unmarshal(b, out)
}

// run executes a cell on a kernel by its WebSocket and returns what it prints.
func (n *notebook) run(ctx context.Context, kernel, code string) (string, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+n.c.api+"/api/kernels/"+kernel+"/channels", &websocket.DialOptions{Host: n.host, HTTPHeader: n.header()})
	if err != nil {
		return "", err
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	request := map[string]any{
		"channel": "shell", "parent_header": map[string]any{}, "metadata": map[string]any{},
		"header":  map[string]any{"msg_id": "cell", "username": "", "session": "test", "msg_type": "execute_request", "version": "5.3"},
		"content": map[string]any{"code": code, "silent": false, "store_history": true, "user_expressions": map[string]any{}, "allow_stdin": false},
	}
	if err := wsjson.Write(ctx, conn, request); err != nil {
		return "", err
	}
	var printed strings.Builder
	for {
		var m struct {
			Header struct {
				Type string `json:"msg_type"`
			} `json:"header"`
			Parent struct {
				ID string `json:"msg_id"`
			} `json:"parent_header"`
			Content struct {
				Text   string `json:"text"`
				State  string `json:"execution_state"`
				Reason string `json:"evalue"`
			} `json:"content"`
		}
		if err := wsjson.Read(ctx, conn, &m); err != nil {
			return printed.String(), err
		}
		switch {
		case m.Parent.ID != "cell":
		case m.Header.Type == "stream":
			printed.WriteString(m.Content.Text)
		case m.Header.Type == "error":
			return printed.String(), errors.New(m.Content.Reason)
		case m.Header.Type == "status" && m.Content.State == "idle":
			return printed.String(), nil
		}
	}
}

// The template as it is, but for the image, which is built here from packages.
func TestAJupyterLabIsUsedThroughTheGateway(t *testing.T) {
	t.Parallel()
	rootfs := os.Getenv("SUANLI_TEST_JUPYTER")
	if rootfs == "" {
		t.Skip("SUANLI_TEST_JUPYTER does not name a root file system with JupyterLab; make test-jupyter builds one")
	}
	rootfs, err := filepath.Abs(rootfs)
	if err != nil {
		t.Fatal(err)
	}
	c := sharedCloud(t)
	u := newTenant(t, c, "scientist", "100")
	c.operator.must(t, "image", "push", "jupyter:1", rootfs)
	l := u.rent(t, "lab", "--template", "jupyterlab", "--image", "cloud://jupyter:1", "--disk", "4")
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	shown := u.must(t, "url", "lab")
	a, err := u.api.LeaseAccess(ctx, l.ID)
	if err != nil {
		t.Fatal(err)
	}
	if token := a.Environment["JUPYTER_TOKEN"]; token == "" || !strings.Contains(shown, token) {
		t.Errorf("the token is %q, and suanli url says\n%s", token, shown)
	}
	first := u.appRequest(t, c, l.ID, "8888")
	n := &notebook{c: c, host: first.Host, token: a.Environment["JUPYTER_TOKEN"]}
	err = within(3*time.Minute, func() error {
		res, err := noRedirect.Do(first)
		if err != nil {
			return err
		}
		res.Body.Close()
		n.cookies = slices.DeleteFunc(res.Cookies(), func(k *http.Cookie) bool { return k.Value == "" })
		var status struct{ Started string }
		return n.do(ctx, http.MethodGet, "/api/status", &status)
	})
	if err != nil {
		t.Fatal(err)
	}
	wrong := *n
	wrong.token = "guessed"
	if err := wrong.do(ctx, http.MethodGet, "/api/status", &struct{}{}); err == nil {
		t.Error("another token than its own opens it")
	}
	var kernel struct{ ID string }
	if err := n.do(ctx, http.MethodPost, "/api/kernels", &kernel); err != nil {
		// A page that asks for a change proves that it is Jupyter's own; a program
		// with the token needs no such proof.
		t.Fatal(err)
	}
	out, err := n.run(ctx, url.PathEscape(kernel.ID), "import subprocess\nprint(6*7)\nprint(subprocess.getoutput('nvidia-smi -L'))")
	if err != nil || !strings.HasPrefix(out, "42\n") || !strings.Contains(strings.ToLower(out), "simulated") {
		t.Errorf("the cell printed %q, %v", out, err)
	}
	u.must(t, "end", "lab")
}
