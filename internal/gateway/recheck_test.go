package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// promised is what docs/renter.md says.
const promised = 5 * time.Second

func TestRevokingALinkEndsItsOpenWebSocketsAndStreams(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 2)
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { gone <- struct{}{} }()
		if r.URL.Path == "/stream" {
			_, _ = io.WriteString(w, "begun\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		c, err := websocket.Accept(w, r, nil)
		if err == nil {
			_, _, _ = c.Read(context.Background()) // until it is closed
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	open := http.Client{Transport: w.client.Transport}
	c, _, err := websocket.Dial(ctx, "ws://"+w.host+"/socket", &websocket.DialOptions{HTTPClient: &open, HTTPHeader: http.Header{"X-Suanli-Token": {goodToken}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.host+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Suanli-Token", goodToken)
	res, err := open.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	w.directory.revoke(w.lease + " 80 " + goodToken)
	at := time.Now()
	if _, _, err := c.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("the WebSocket goes on (%v)", err)
	}
	if _, err := lines.ReadString('\n'); err == nil || ctx.Err() != nil {
		t.Errorf("the stream goes on (%v)", err)
	}
	if took := time.Since(at); took > promised {
		t.Errorf("it took %v, want %v at most", took, promised)
	}
	<-gone
	<-gone
}

func TestDeletingAnSSHKeyEndsItsSessions(t *testing.T) {
	t.Parallel()
	_, d, r := newSite(t)
	cmd := r.Command("ssh", "mine@cloud", "echo in; sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "in\n" {
		t.Fatalf("%q %v", line, err)
	}
	d.revoke("mine " + r.Key.Fingerprint())
	d.revoke("ls-mine " + r.Key.Fingerprint())
	at := time.Now()
	if err := cmd.Wait(); err == nil {
		t.Error("the command ran to its end")
	}
	if took := time.Since(at); took > promised {
		t.Errorf("it took %v, want %v at most", took, promised)
	}
}
