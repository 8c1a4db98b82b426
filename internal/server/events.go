package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
)

// event is one message of an event stream.
type event struct {
	// ID lets a client that was cut off go on after it, by Last-Event-ID.
	ID   string
	Name string // "": message
	Data any    // sent as JSON
}

// registerEvents adds an endpoint that sends Server-Sent Events until the
// handler returns or the caller goes away. The handler calls emit from one
// goroutine; emit's error means that the caller has gone. A handler that listens
// emits the zero event first: an answer whose headers come with the first real
// event looks to browsers and proxies as if there were none. A stream ends by
// itself soon after its caller's credentials are revoked.
func registerEvents[I any](a *API, op operation, handler func(ctx context.Context, p account.Principal, in *I, emit func(event) error) error) {
	registerStream(a, op, "text/event-stream", func(w http.ResponseWriter, r *http.Request, p account.Principal, in *I) error {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		s := &eventStream{w: w, control: http.NewResponseController(w)}
		var alive sync.WaitGroup
		alive.Go(func() {
			tick := time.NewTicker(a.keepAlive)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				// A comment: it keeps proxies from closing a silent stream.
				if err := s.write([]byte(": alive\n\n")); err != nil {
					cancel(err)
					return
				}
			}
		})
		err := handler(ctx, p, in, func(e event) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			return s.emit(e)
		})
		_, revoked := fault.As(context.Cause(r.Context()))
		gone := r.Context().Err() != nil && !revoked
		if cause := context.Cause(ctx); cause != nil && !gone {
			err = cause
		}
		cancel(nil)
		alive.Wait()
		if err == nil || gone {
			return nil
		}
		if !s.started {
			return err
		}
		return s.emit(event{Name: "error", Data: problem(r.Context(), a.log, err)})
	})
}

// eventStream writes events; mu keeps a keep-alive out of the middle of one.
type eventStream struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	started bool
}

// eventTimeout is how long a client may take no byte before it counts as gone.
const eventTimeout = 30 * time.Second

func (s *eventStream) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Not every ResponseWriter has deadlines; those of a real connection do.
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTimeout))
	if !s.started {
		s.started = true
		h := s.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // nginx would hold events back
		s.w.WriteHeader(http.StatusOK)
	}
	if _, err := s.w.Write(b); err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	return s.control.Flush()
}

func (s *eventStream) emit(e event) error {
	if e == (event{}) {
		return s.write([]byte(": listening\n\n"))
	}
	data, err := json.Marshal(e.Data) // one line: JSON text holds no raw newline
	if err != nil {
		return fmt.Errorf("send event: %w", err)
	}
	var b bytes.Buffer
	if e.ID != "" {
		fmt.Fprintf(&b, "id: %s\n", oneLine(e.ID))
	}
	if e.Name != "" {
		fmt.Fprintf(&b, "event: %s\n", oneLine(e.Name))
	}
	fmt.Fprintf(&b, "data: %s\n\n", data)
	return s.write(b.Bytes())
}

func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "\x00", " ").Replace(s)
}
