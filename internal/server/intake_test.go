package server

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"suanli.dev/internal/store"
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

func TestADatabaseThatCannotBeWrittenIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send("GET", "/readyz", "", nil).want(t, http.StatusOK, "")
	set := func(statement string) {
		t.Helper()
		if err := w.db.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, statement)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	set(`CREATE TRIGGER full_insert BEFORE INSERT ON readiness BEGIN SELECT RAISE(ABORT, 'no room'); END`)
	w.send("GET", "/readyz", "", nil).want(t, http.StatusOK, "") // it is not tried at each request
	w.clock.Advance(writeProbeKept)
	got := w.send("GET", "/readyz", "", nil)
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"database":"ok"`) || !strings.Contains(got.Body, `"database_write":"failed"`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	set(`DROP TRIGGER full_insert`)
	w.clock.Advance(writeProbeKept)
	w.send("GET", "/readyz", "", nil).want(t, http.StatusOK, "")
}
