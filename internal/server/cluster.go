package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/cluster"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
)

const tagClusters = "Clusters"

// ClusterPath is embedded in the input of operations on one cluster.
type ClusterPath struct {
	ClusterID string `path:"cluster_id" maxLength:"64" doc:"Identifier, or the name"`
}

func (a *API) registerClusters() {
	if a.Clusters == nil {
		return
	}
	register(a, operation{ID: "quoteCluster", Method: http.MethodPost, Path: "/v1/clusters/quote", Summary: "What a cluster costs, and on which hosts it would be", Tag: tagClusters, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *body[api.ClusterQuestion]) (*body[api.ClusterPrice], error) {
			q, err := a.Clusters.Quote(ctx, p, clusterRequest(in.Body))
			if err != nil {
				return nil, err
			}
			return &body[api.ClusterPrice]{clusterPrice(in.Body, q)}, nil
		})
	register(a, operation{
		ID: "createCluster", Method: http.MethodPost, Path: "/v1/clusters", Summary: "Rent nodes that start together or not at all", Tag: tagClusters, Action: account.WriteLeases, Status: http.StatusCreated, Idempotent: true,
		Description: "All leases are accepted at once, or none. Nothing is charged before all nodes run and reach each other over the cluster's private network; if that is not so in time, all are given back.",
	}, func(ctx context.Context, p account.Principal, in *body[api.ClusterCreate]) (*body[api.Cluster], error) {
		c, err := clusterCreate(in.Body)
		if err != nil {
			return nil, err
		}
		return clusterBody(a.Clusters.Create(ctx, p, c))
	})
	register(a, operation{ID: "listClusters", Method: http.MethodGet, Path: "/v1/clusters", Summary: "List your clusters", Tag: tagClusters, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *struct {
			Paging
			Open bool `query:"open" doc:"Only those that are not over"`
		}) (*body[page[api.Cluster]], error) {
			list, next, err := a.Clusters.List(ctx, p, in.Open, in.Cursor, in.Limit)
			if err != nil {
				return nil, err
			}
			out := whole(list, clusterJSON)
			out.Body.NextCursor = next
			return out, nil
		})
	a.registerRuns()
	const path = "/v1/clusters/{cluster_id}"
	register(a, operation{ID: "getCluster", Method: http.MethodGet, Path: path, Summary: "Read a cluster, with its leases and its history", Tag: tagClusters, Action: account.ReadLeases},
		func(ctx context.Context, p account.Principal, in *ClusterPath) (*body[api.ClusterDetails], error) {
			d, err := a.Clusters.Details(ctx, p, in.ClusterID)
			if err != nil {
				return nil, err
			}
			out := api.ClusterDetails{Cluster: clusterJSON(d.Cluster), Leases: []api.Lease{}, History: []api.ClusterChange{}}
			for _, l := range d.Leases {
				out.Leases = append(out.Leases, leaseJSON(l))
			}
			slices.SortFunc(out.Leases, func(x, y api.Lease) int { return cmp.Compare(y.ID, x.ID) })
			for _, h := range d.History {
				out.History = append(out.History, api.ClusterChange{ID: h.ID, At: h.At, Event: string(h.Event), From: string(h.From), To: string(h.To), Code: h.Code, Message: h.Message})
			}
			return &body[api.ClusterDetails]{out}, nil
		})
	register(a, operation{ID: "endCluster", Method: http.MethodPost, Path: path + "/end", Summary: "End a cluster: all of its leases, with their disks", Tag: tagClusters, Action: account.WriteLeases, Idempotent: true},
		func(ctx context.Context, p account.Principal, in *ClusterPath) (*body[api.Cluster], error) {
			return clusterBody(a.Clusters.End(ctx, p, in.ClusterID))
		})
}

func clusterRequest(q api.ClusterQuestion) cluster.Request {
	return cluster.Request{
		Nodes: q.Nodes, GPUs: q.GPUs, GPUModel: q.GPUModel, Fast: q.Fast, Simulated: q.Simulated, Region: q.Region, Zone: q.Zone,
		Run: lease.QuoteRequest{Template: q.Template, Image: q.Image, DiskGiB: q.DiskGiB},
	}
}

func clusterCreate(in api.ClusterCreate) (cluster.Create, error) {
	idle, err := idleStop(in.IdleStop)
	c := cluster.Create{
		Request: clusterRequest(in.ClusterQuestion), Name: in.Name, Policy: cluster.Policy(in.Policy), Agreed: in.AgreedPerHour,
		StartWithin: time.Duration(in.StartWithinSeconds) * time.Second, WaitFor: time.Duration(in.WaitSeconds) * time.Second,
		Lease: lease.Create{Labels: in.Labels, Entrypoint: in.Entrypoint, Command: in.Command, StartScript: in.StartScript, Environment: in.Environment, Ports: in.Ports, SpendingCap: in.SpendingCap, Idle: idle},
	}
	if in.StopAt != nil {
		c.Lease.Deadline = *in.StopAt
	}
	return c, err
}

func clusterPrice(q api.ClusterQuestion, c *cluster.Quote) api.ClusterPrice {
	q.Image, q.DiskGiB = c.Request.Run.Image, c.Request.Run.DiskGiB
	out := api.ClusterPrice{ClusterQuestion: q, Currency: string(c.Currency), PerHour: c.PerHour, Hosts: []api.ClusterNodePrice{}, QuotedAt: c.QuotedAt}
	for i, h := range c.Hosts {
		n := c.Nodes[i]
		out.Hosts = append(out.Hosts, api.ClusterNodePrice{Rank: i, OfferID: h.OfferID, HostID: h.ID, Region: h.Region, Zone: h.Zone, Rack: h.Rack,
			PerHour: n.Price.Totals.PerHour, AvailableAfterSeconds: n.Offer.AvailableAfterSeconds})
	}
	return out
}

func clusterBody(c *cluster.Cluster, err error) (*body[api.Cluster], error) {
	if err != nil {
		return nil, err
	}
	return &body[api.Cluster]{clusterJSON(c)}, nil
}

func clusterJSON(c *cluster.Cluster) api.Cluster {
	out := api.Cluster{
		ID: c.ID, Name: c.Name, State: string(c.State), Code: c.Code, Message: c.Message, NodeCount: c.Nodes, GPUs: c.GPUs, GPUModel: c.GPUModel, Fast: c.Fast, Simulated: c.Simulated,
		Policy: string(c.Policy), Currency: string(c.Currency), PerHour: c.PerHour, Agreed: c.Agreed, WaitsUntil: moment(c.WaitUntil), SinceAt: c.Since, CreatedAt: c.CreatedAt,
		EndedAt: moment(c.EndedAt), Nodes: []api.ClusterNode{},
	}
	if c.State == cluster.Forming || c.State == cluster.Repairing {
		out.StartBy = moment(c.StartBy)
	}
	if c.State != cluster.Queued {
		for _, n := range c.Members {
			node := api.ClusterNode{Rank: n.Rank, Name: cluster.NodeName(n.Rank), Address: cluster.Address(n.Rank).String(), LeaseID: n.LeaseID, HostID: n.HostID, Region: n.Region, Zone: n.Zone, Rack: n.Rack}
			if n.Overlay != nil {
				node.Connected, node.Problem = n.Overlay.Connected, n.Overlay.Problem
			}
			out.Nodes = append(out.Nodes, node)
		}
	}
	return out
}

// openClusters makes clusters, once leases are there.
func (c *Cloud) openClusters() (*cluster.Service, error) {
	return cluster.New(cluster.Config{
		DB: c.DB, Clock: c.clock, Capacity: c.Fleet, Leases: c.Leases, Inside: newInsideNodes(c), GPUPercent: c.Leases.GPUPercent, Audit: c.Accounts.Audit, Log: c.log,
		Account: func(ctx context.Context, accountID string) (money.Currency, string, error) {
			a, err := c.Accounts.Account(ctx, accountID)
			return a.Currency, a.TimeZone, err
		},
	})
}

// laterClusters is clusters for leases, which are opened before them.
type laterClusters struct{ of func() *cluster.Service }

func (l laterClusters) Peers(gangID, leaseID string) []protocol.Peer {
	if s := l.of(); s != nil {
		return s.Peers(gangID, leaseID)
	}
	return nil
}

func (l laterClusters) Overlay(ctx context.Context, gangID, leaseID string, o *protocol.Overlay) {
	if s := l.of(); s != nil {
		s.Overlay(ctx, gangID, leaseID, o)
	}
}
