package server

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"suanli.dev/api"
	"suanli.dev/internal/cluster"
	"suanli.dev/internal/money"
)

func init() {
	parts = append(parts, withClusters)
	belongings["cluster_id"] = func(w *world, p person) string {
		w.deposit(p, "10")
		return w.makeCluster(p, "").ID
	}
	belongings["run_id"] = func(w *world, p person) string {
		w.deposit(p, "10")
		r, err := p.client.CreateRun(w.t.Context(), w.makeCluster(p, "").ID, api.RunCreate{Command: []string{"true"}})
		if err != nil {
			w.t.Fatal(err)
		}
		return r.ID
	}
}

// withClusters comes after the leases, whose file is before this one.
func withClusters(w *world, c *Config) {
	w.t.Helper()
	var err error
	c.Clusters, err = cluster.New(cluster.Config{DB: w.db, Clock: w.clock.Now, Capacity: c.Fleet, Leases: c.Leases, Inside: nobodyInside{}, Audit: c.Accounts.Audit,
		Account: func(ctx context.Context, id string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, id)
			return a.Currency, a.TimeZone, err
		}})
	if err == nil {
		err = c.Clusters.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// nobodyInside is nodes that do not answer.
type nobodyInside struct{}

func (nobodyInside) Ranks(context.Context, string, []string, []byte, io.Writer) error {
	return errors.New("the host does not answer")
}

// makeCluster makes a cluster of two nodes on hosts of the market.
func (w *world) makeCluster(p person, name string) api.Cluster {
	w.t.Helper()
	w.newHost(w.operator, 1)
	w.newHost(w.operator, 1)
	q, err := p.client.QuoteCluster(w.t.Context(), api.ClusterQuestion{Nodes: 2, GPUs: 1, GPUModel: "RTX 4090", Image: "debian:12"})
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := p.client.CreateCluster(w.t.Context(), api.ClusterCreate{ClusterQuestion: q.ClusterQuestion, Name: name, AgreedPerHour: q.PerHour})
	if err != nil {
		w.t.Fatal(err)
	}
	return *c
}

func TestARenterQuotesMakesLooksAtAndEndsACluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	ctx, c := t.Context(), w.ada.client
	k := w.makeCluster(w.ada, "train")
	if k.State != "forming" || k.Name != "train" || len(k.Nodes) != 2 || k.Nodes[1].Name != "node-1" || k.PerHour == 0 || k.Policy != "fail" || k.StartBy == nil {
		t.Errorf("the cluster is %+v", k)
	}
	if k.Nodes[0].HostID == k.Nodes[1].HostID {
		t.Error("two nodes are on one host")
	}
	d, err := c.Cluster(ctx, "train")
	if err != nil || len(d.Leases) != 2 || len(d.History) != 1 || d.Leases[0].Name != "train-1" {
		t.Errorf("its details are %+v (%v)", d, err)
	}
	_, err = c.CreateCluster(ctx, api.ClusterCreate{ClusterQuestion: api.ClusterQuestion{Nodes: 60, GPUs: 1, GPUModel: "RTX 4090", Image: "debian:12"}})
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != "cluster_no_hosts" {
		t.Errorf("60 hosts: %v", err)
	}
	in := api.ClusterCreate{ClusterQuestion: api.ClusterQuestion{Nodes: 2, GPUs: 1, GPUModel: "RTX 4090", Image: "debian:12"}, Name: "Not A Host"}
	w.send("POST", "/v1/clusters", w.ada.token, in).want(t, 422, "invalid_cluster")
	if err := w.server.Clusters.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	run, err := c.CreateRun(ctx, "train", api.RunCreate{Command: []string{"python", "train.py"}, Environment: map[string]string{"SECRET": "hunter2"}})
	if err != nil || run.State != "waiting" || run.ProcsPerNode != 1 || run.ExitCode != nil {
		t.Errorf("the run is %+v (%v)", run, err)
	}
	if r := w.send("GET", "/v1/clusters/train/runs", w.ada.token, nil); strings.Contains(r.Body, "hunter2") || !strings.Contains(r.Body, run.ID) {
		t.Errorf("its runs are %s", r.Body)
	}
	if run, err = c.StopRun(ctx, run.ID); err != nil || run.State != "halting" || run.Code != "commanded" {
		t.Errorf("stopped it is %+v (%v)", run, err)
	}
	if k, err := c.EndCluster(ctx, "train"); err != nil || k.State != "ending" {
		t.Errorf("ended it is %+v (%v)", k, err)
	}
	if list, err := c.Clusters(ctx, true); err != nil || len(list) != 1 {
		t.Errorf("open clusters are %v (%v)", list, err)
	}
	if err := w.server.Clusters.Turn(ctx); err != nil {
		t.Fatal(err)
	}
	// Nothing was sent to its hosts, so it is over at once, and cost nothing.
	if d, err = c.Cluster(ctx, k.ID); err != nil || d.State != "ended" || d.EndedAt == nil {
		t.Errorf("it is %+v (%v)", d, err)
	}
}
