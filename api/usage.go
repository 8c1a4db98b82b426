package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// UsageEventType is the type of events of use.
const UsageEventType = "suanli.usage.v1"

// UsageBatchType is the media type of batches of events: JSON arrays of them.
const UsageBatchType = "application/cloudevents-batch+json"

// UsageEvent is use of one meter of one lease since the event before it, as a
// CloudEvent 1.0. ID stays the same however often it is read or sent.
type UsageEvent struct {
	SpecVersion string    `json:"specversion"`
	ID          string    `json:"id"`
	Source      string    `json:"source"`
	Type        string    `json:"type"`
	Subject     string    `json:"subject"` // the account that used it
	Time        time.Time `json:"time"`    // ToAt
	ContentType string    `json:"datacontenttype"`
	Data        UsageData `json:"data"`
}

// UsageData says what was used.
type UsageData struct {
	LeaseID   string    `json:"lease_id"`
	Meter     string    `json:"meter"`    // compute, storage, egress, or reserved: held by a reservation
	Quantity  string    `json:"quantity"` // exact, in decimals; negative: a correction
	Unit      string    `json:"unit"`     // s, GiB·s or byte
	FromAt    time.Time `json:"from_at"`
	ToAt      time.Time `json:"to_at"`
	Simulated bool      `json:"simulated"` // the GPUs are simulated: there is no hardware
	Plan      string    `json:"plan"`
	GPUModel  string    `json:"gpu_model,omitempty"`
	GPUCount  int64     `json:"gpu_count,omitempty"`
	Zone      string    `json:"zone,omitempty"`
}

// UsageQuery selects events of use; the zero value is the first of all.
type UsageQuery struct {
	Cursor  string    // ID of the last event that was read
	LeaseID string    // only of one lease
	Meter   string    // only of one meter
	From    time.Time // only those that end after it
	Limit   int       // 0: 200
}

// Usage returns the caller's events of use, in the order of writing. Whoever gives
// the ID of the last one as the next Cursor misses none.
func (c *Client) Usage(ctx context.Context, q UsageQuery) ([]UsageEvent, error) {
	return c.usage(ctx, "/v1/usage/events", q)
}

// AllUsage is Usage of all accounts, for operators.
func (c *Client) AllUsage(ctx context.Context, q UsageQuery) ([]UsageEvent, error) {
	return c.usage(ctx, "/v1/operator/usage/events", q)
}

func (c *Client) usage(ctx context.Context, path string, q UsageQuery) ([]UsageEvent, error) {
	query := url.Values{}
	for name, v := range map[string]string{"cursor": q.Cursor, "lease_id": q.LeaseID, "meter": q.Meter} {
		if v != "" {
			query.Set(name, v)
		}
	}
	if !q.From.IsZero() {
		query.Set("from", q.From.UTC().Format(time.RFC3339Nano))
	}
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	body, err := c.Open(ctx, http.MethodGet, path, query, UsageBatchType+", application/json")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var out []UsageEvent
	if err := json.NewDecoder(body).Decode(&out); err != nil {
		return nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return out, nil
}
