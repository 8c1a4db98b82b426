package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// LeaseSample is what a running lease used over a step of time.
type LeaseSample struct {
	At                    time.Time `json:"at" doc:"End of the step"`
	GPUPercent            int       `json:"gpu_percent" doc:"Mean over its GPUs"`
	CPUPercent            int       `json:"cpu_percent" doc:"Of one CPU"`
	GPUMemoryUsedMiB      int64     `json:"gpu_memory_used_mib" doc:"On all its GPUs together"`
	MemoryUsedMiB         int64     `json:"memory_used_mib"`
	DiskUsedMiB           int64     `json:"disk_used_mib"`
	EgressBytesPerSecond  int64     `json:"egress_bytes_per_second"`
	IngressBytesPerSecond int64     `json:"ingress_bytes_per_second"`
}

// LeaseMetrics is what a lease used lately, beside what it has.
type LeaseMetrics struct {
	LeaseID     string        `json:"lease_id"`
	StepSeconds int64         `json:"step_seconds" doc:"Between samples, while it runs and its host is heard"`
	Samples     []LeaseSample `json:"samples" nullable:"false" doc:"Oldest first; where it did not run there are none"`
	Now         *LeaseSample  `json:"now,omitempty" doc:"The newest reading"`
	CPUMillis   int64         `json:"cpu_millis" doc:"Thousandths of a CPU that it may use"`
	MemoryMiB   int64         `json:"memory_mib"`
	DiskGiB     int64         `json:"disk_gib"`
	Simulated   bool          `json:"simulated"`
}

// LeaseFile is an entry of a folder in an instance.
type LeaseFile struct {
	Name       string    `json:"name"`
	Kind       string    `json:"kind" enum:"file,folder,link,other"`
	SizeBytes  int64     `json:"size_bytes"`
	ModifiedAt time.Time `json:"modified_at"`
	Mode       string    `json:"mode" doc:"As ls writes it" example:"-rw-r--r--"`
}

// LeaseFolder is a folder in an instance and what is in it.
type LeaseFolder struct {
	Path  string      `json:"path" doc:"Absolute"`
	Items []LeaseFile `json:"items" nullable:"false" doc:"Folders first, then by name"`
}

// LeaseFileStored is a file that was put into an instance.
type LeaseFileStored struct {
	Path      string `json:"path" doc:"Absolute"`
	SizeBytes int64  `json:"size_bytes"`
}

// TerminalMessage is what both ends of a terminal's WebSocket say in text
// messages; binary messages are what is typed and shown.
type TerminalMessage struct {
	// Type is "resize" or "shown" from the client, and from the server "ready" when
	// the shell runs, "exit" when it has ended, and "problem" in place of it.
	Type     string `json:"type"`
	Columns  int    `json:"columns,omitempty"`
	Rows     int    `json:"rows,omitempty"`
	Bytes    int64  `json:"bytes,omitempty"` // that the client has shown
	ExitCode int    `json:"exit_code,omitempty"`
	Problem  any    `json:"problem,omitempty"`
}

// TerminalProtocol is the WebSocket subprotocol of terminals.
const TerminalProtocol = "suanli.terminal"

// LeaseMetrics returns what a lease used over the past, up to a day.
func (c *Client) LeaseMetrics(ctx context.Context, lease string, past time.Duration) (*LeaseMetrics, error) {
	out := new(LeaseMetrics)
	q := url.Values{"window_seconds": {strconv.FormatInt(int64(past/time.Second), 10)}}
	return out, c.Do(ctx, http.MethodGet, "/v1/leases/"+url.PathEscape(lease)+"/metrics", q, nil, out)
}

// LeaseFiles lists a folder in an instance; an empty path is its user's home.
func (c *Client) LeaseFiles(ctx context.Context, lease, path string) (*LeaseFolder, error) {
	out := new(LeaseFolder)
	return out, c.Do(ctx, http.MethodGet, "/v1/leases/"+url.PathEscape(lease)+"/files", url.Values{"path": {path}}, nil, out)
}
