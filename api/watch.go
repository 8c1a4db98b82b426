package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
)

// Event is one Server-Sent Event.
type Event struct {
	ID   string
	Name string // "message" if the server named none
	Data json.RawMessage
}

// Watch yields the events of a stream until the server ends it, ctx ends or an
// error comes, which is the last pair. An event named "error" comes as an
// *Error. Reconnecting is the caller's: it knows what it has seen.
func (c *Client) Watch(ctx context.Context, path string, query url.Values) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		body, err := c.Open(ctx, http.MethodGet, path, query, "text/event-stream")
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer body.Close()
		lines := bufio.NewScanner(body)
		lines.Buffer(make([]byte, 0, 64<<10), 8<<20)
		e := Event{Name: "message"}
		var data []string
		for lines.Scan() {
			line := lines.Text()
			if line == "" {
				if data == nil {
					e = Event{Name: "message"}
					continue
				}
				e.Data = json.RawMessage(strings.Join(data, "\n"))
				if e.Name == "error" {
					refused := &Error{}
					if err := json.Unmarshal(e.Data, refused); err != nil {
						yield(Event{}, fmt.Errorf("watch %s: %w", path, err))
						return
					}
					yield(Event{}, refused)
					return
				}
				if !yield(e, nil) {
					return
				}
				e, data = Event{Name: "message"}, nil
				continue
			}
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "id":
				e.ID = value
			case "event":
				e.Name = value
			case "data":
				data = append(data, value)
			}
		}
		if err := lines.Err(); err != nil {
			yield(Event{}, fmt.Errorf("watch %s: %w", path, err))
		}
	}
}
