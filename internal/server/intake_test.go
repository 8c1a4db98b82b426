package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestAnAbortedBodyIsItsSendersFaultAndNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, key := range []string{"", "Idempotency-Key: one\r\n"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/api-keys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%sContent-Length: 1000\r\n\r\n{", w.ada.token, key)
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusBadRequest {
			t.Errorf("a body that is cut off: %s", res.Status)
		}
	}
	if log := w.log.String(); strings.Contains(log, `"ERROR"`) || strings.Contains(log, `"status":400`) {
		t.Errorf("strangers can fill the log: %s", log)
	}
}
