package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/cluster"
	"suanli.dev/internal/protocol"
)

// RunPath is embedded in the input of operations on one run.
type RunPath struct {
	RunID string `path:"run_id" maxLength:"64"`
}

// registerRuns adds what runs on all nodes of clusters.
func (a *API) registerRuns() {
	const of = "/v1/clusters/{cluster_id}/runs"
	register(a, operation{ID: "createRun", Method: http.MethodPost, Path: of, Summary: "Begin a command on all nodes of a cluster", Tag: tagClusters, Action: account.EnterLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "It begins when the cluster runs, and once on each node, whatever restarts meanwhile. A rank that fails is told to the others, in the file that `SUANLI_FAILURE_FILE` names, and they are ended."},
		func(ctx context.Context, p account.Principal, in *struct {
			ClusterPath
			Body api.RunCreate
		}) (*body[api.Run], error) {
			b := in.Body
			return runBody(a.Clusters.Launch(ctx, p, in.ClusterID, cluster.Launch{Command: b.Command, Environment: b.Environment, PerNode: b.ProcsPerNode, Policy: cluster.Policy(b.Policy), MaxRestarts: b.MaxRestarts, EndCluster: b.EndCluster}))
		})
	register(a, operation{ID: "listRuns", Method: http.MethodGet, Path: of, Summary: "List the runs of a cluster, the last 200", Tag: tagClusters, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *ClusterPath) (*body[page[api.Run]], error) {
			list, err := a.Clusters.Runs(ctx, p, in.ClusterID)
			if err != nil {
				return nil, err
			}
			return whole(list, runJSON), nil
		})
	const path = "/v1/cluster-runs/{run_id}"
	register(a, operation{ID: "getRun", Method: http.MethodGet, Path: path, Summary: "Read a run", Tag: tagClusters, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *RunPath) (*body[api.Run], error) {
			return runBody(a.Clusters.GetRun(ctx, p, in.RunID))
		})
	register(a, operation{ID: "stopRun", Method: http.MethodPost, Path: path + "/stop", Summary: "End a run", Tag: tagClusters, Action: account.EnterLeases, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *RunPath) (*body[api.Run], error) {
			return runBody(a.Clusters.StopRun(ctx, p, in.RunID))
		})
	registerStream(a, operation{ID: "getRunLogs", Method: http.MethodGet, Path: path + "/logs", Summary: "What all ranks of a run print, each line with its rank before it", Tag: tagClusters, Action: account.EnterLeases,
		Description: "It is read on the nodes; when they are gone, the logs of their leases have it."},
		"text/plain; charset=utf-8", a.runLogs)
}

func (a *API) runLogs(w http.ResponseWriter, r *http.Request, p account.Principal, in *struct {
	RunPath
	Follow bool `query:"follow" doc:"Go on until the run is over"`
}) error {
	if _, err := a.Clusters.GetRun(r.Context(), p, in.RunID); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(w)
	_ = flush.SetWriteDeadline(time.Time{})
	_ = flush.Flush()
	return a.Clusters.Attend(r.Context(), p, in.RunID, in.Follow, flushed{w, flush})
}

// flushed sends on what is written at once.
type flushed struct {
	io.Writer
	c *http.ResponseController
}

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}

func runBody(r *cluster.Run, err error) (*body[api.Run], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Run]{runJSON(r)}, nil
}

func runJSON(r *cluster.Run) api.Run {
	out := api.Run{ID: r.ID, ClusterID: r.ClusterID, State: string(r.State), Code: r.Code, Message: r.Message, Attempt: r.Attempt, ProcsPerNode: r.PerNode, Policy: string(r.Policy),
		MaxRestarts: r.MaxRestarts, EndCluster: r.EndCluster, Ranks: []api.RankResult{}, CreatedAt: r.CreatedAt, SinceAt: r.Since, EndedAt: moment(r.EndedAt)}
	if r.State.Over() {
		code := r.ExitCode()
		out.ExitCode = &code
	}
	for _, x := range r.Ranks {
		out.Ranks = append(out.Ranks, api.RankResult(x))
	}
	return out
}

// insideNodes reaches into nodes by the SSH gateway's way in.
type insideNodes struct {
	c       *Cloud
	clients *nodeClients[*ssh.Client]
}

func newInsideNodes(c *Cloud) insideNodes {
	return insideNodes{c, &nodeClients[*ssh.Client]{enter: c.enter}}
}

// Ranks implements cluster.Inside.
func (i insideNodes) Ranks(ctx context.Context, leaseID string, args []string, in []byte, out io.Writer) error {
	l, err := i.c.Leases.Lookup(ctx, leaseID)
	if err != nil {
		return err
	}
	t, err := target(l)
	if err != nil {
		return err
	}
	if args[0] == "attend" {
		// It lasts, and whoever reads it may go away at any time: apart from the others.
		client, err := i.c.enter(ctx, t)
		if err != nil {
			return err
		}
		defer client.Close()
		return ranks(ctx, client, args, in, out)
	}
	client, kept, give, err := i.clients.take(ctx, t)
	if err != nil {
		return err
	}
	err = ranks(ctx, client, args, in, out)
	give(err == nil)
	if errors.Is(err, errNoSession) && kept && ctx.Err() == nil {
		// Its instance was started anew since, for one.
		if client, _, give, err = i.clients.take(ctx, t); err != nil {
			return err
		}
		err = ranks(ctx, client, args, in, out)
		give(err == nil)
	}
	return err
}

// errNoSession means that nothing was begun on a connection.
var errNoSession = errors.New("the connection into the instance is gone")

// ranks runs "instance ranks" on a connection, which it closes when ctx ends before.
func ranks(ctx context.Context, client *ssh.Client, args []string, in []byte, out io.Writer) error {
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()
	s, err := client.NewSession()
	if err != nil {
		return fmt.Errorf("%w: %w", errNoSession, err)
	}
	defer s.Close()
	var wrong bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = bytes.NewReader(in), out, &wrong
	// The words are the cloud's own: none of them needs a quote.
	err = s.Run(strings.Join(append([]string{protocol.InstanceBinary, "instance", "ranks"}, args...), " "))
	if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
		return errors.New("instance ranks " + args[0] + ": " + exit.Error() + ": " + strings.TrimSpace(wrong.String()[:min(500, wrong.Len())]))
	}
	return err
}
