package intake

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestABodyThatDoesNotComeEndsItsConnection(t *testing.T) {
	t.Parallel()
	for name, reads := range map[string]bool{"a handler that reads it": true, "a handler that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				r = Body(w, r, Pace{Patience: 50 * time.Millisecond, Rate: 1 << 20})
				if reads {
					_, _ = io.ReadAll(r.Body)
				}
				w.WriteHeader(http.StatusUnauthorized)
			}))
			defer s.Close()
			c := dial(t, s.Listener.Addr().String())
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
			turnedAwayAfterAnswer(t, c)
		})
	}
}

// turnedAwayAfterAnswer reads until the other end closes.
func turnedAwayAfterAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		if n, ok := err.(net.Error); ok && n.Timeout() {
			t.Fatal("the connection is still open")
		}
	}
}

func TestABodyThatMovesMayTakeLongerThanItsPatienceAndTheWorkAfterItToo(t *testing.T) {
	t.Parallel()
	const patience = 100 * time.Millisecond
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = Body(w, r, Pace{Patience: patience})
		n, err := io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
			err = r.Context().Err()
		case <-time.After(3 * patience):
		}
		fmt.Fprint(w, n, err)
	}))
	defer s.Close()
	from, to := io.Pipe()
	go func() {
		tick := time.NewTicker(patience / 5)
		defer tick.Stop()
		for range 10 {
			<-tick.C
			_, _ = to.Write([]byte("x"))
		}
		to.Close()
	}()
	res, err := http.Post(s.URL, "text/plain", from)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); string(b) != "10 <nil>" {
		t.Fatalf("a slow but steady upload gave %q", b)
	}
}
