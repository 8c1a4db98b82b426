package api

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// RunCreate begins a command on all nodes of a cluster.
type RunCreate struct {
	Command      []string          `json:"command,omitempty" maxItems:"1000" nullable:"false" doc:"Needed: a program and its arguments; it is run on every node, without a shell"`
	Environment  map[string]string `json:"environment,omitempty" doc:"Kept encrypted; RANK, WORLD_SIZE and the like are set"`
	ProcsPerNode int               `json:"procs_per_node,omitempty" minimum:"0" maximum:"64" doc:"Processes on each node, each a rank; left out: one for each GPU"`
	Policy       string            `json:"policy,omitempty" enum:"fail,restart,replace" doc:"When a rank fails: the run ends (fail), or all ranks begin again (restart, replace); left out: the cluster's"`
	MaxRestarts  int               `json:"max_restarts,omitempty" minimum:"0" maximum:"100" doc:"How often all ranks begin again at most"`
	EndCluster   bool              `json:"end_cluster,omitempty" doc:"End the cluster when the run is over, however it ends, so that nothing idle is paid for"`
}

// Run is a command on all nodes of a cluster.
type Run struct {
	ID           string       `json:"id"`
	ClusterID    string       `json:"cluster_id"`
	State        string       `json:"state" enum:"waiting,running,halting,succeeded,failed,stopped"`
	Code         string       `json:"code,omitempty" doc:"Why it is in its state"`
	Message      string       `json:"message,omitempty"`
	Attempt      int          `json:"attempt" doc:"From 0"`
	ProcsPerNode int          `json:"procs_per_node"`
	Policy       string       `json:"policy"`
	MaxRestarts  int          `json:"max_restarts"`
	EndCluster   bool         `json:"end_cluster"`
	ExitCode     *int         `json:"exit_code,omitempty" doc:"Of the rank that failed first, or 0; absent while it goes on"`
	Ranks        []RankResult `json:"ranks" nullable:"false" doc:"Those of the present attempt that have ended; the first to fail comes first"`
	CreatedAt    time.Time    `json:"created_at"`
	SinceAt      time.Time    `json:"since_at" doc:"When it came into its state"`
	EndedAt      *time.Time   `json:"ended_at,omitempty"`
}

// RankResult is how one rank ended.
type RankResult struct {
	Rank     int `json:"rank"`
	Node     int `json:"node"`
	ExitCode int `json:"exit_code"`
}

// CreateRun begins a command on all nodes of a cluster.
func (c *Client) CreateRun(ctx context.Context, cluster string, in RunCreate) (*Run, error) {
	return do[Run](ctx, c, http.MethodPost, clusterPath(cluster)+"/runs", in)
}

// Runs returns the runs of a cluster, newest first, the last 200.
func (c *Client) Runs(ctx context.Context, cluster string) ([]Run, error) {
	return collect(all[Run](ctx, c, clusterPath(cluster)+"/runs", url.Values{}))
}

// Run returns one run.
func (c *Client) Run(ctx context.Context, id string) (*Run, error) {
	return do[Run](ctx, c, http.MethodGet, runPath(id), nil)
}

// StopRun ends a run.
func (c *Client) StopRun(ctx context.Context, id string) (*Run, error) {
	return do[Run](ctx, c, http.MethodPost, runPath(id)+"/stop", struct{}{})
}

// RunLogs returns what all ranks of a run print, each line with its rank before it; with
// follow, until it is over. The caller closes it.
func (c *Client) RunLogs(ctx context.Context, id string, follow bool) (io.ReadCloser, error) {
	return c.Open(ctx, http.MethodGet, runPath(id)+"/logs", url.Values{"follow": {strconv.FormatBool(follow)}}, "text/plain")
}

func runPath(id string) string { return "/v1/cluster-runs/" + url.PathEscape(id) }
