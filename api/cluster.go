package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// ClusterQuestion asks what a cluster costs: nodes with equal GPUs, each on a host of
// its own.
type ClusterQuestion struct {
	Nodes     int    `json:"nodes" minimum:"2" maximum:"64" doc:"Each is a lease on a host of its own"`
	GPUs      int    `json:"gpus_per_node" minimum:"1" maximum:"64" doc:"Of each node: all have as many"`
	GPUModel  string `json:"gpu_model" minLength:"1" maxLength:"100"`
	Fast      bool   `json:"fast_network,omitempty" doc:"All nodes in one zone, in one rack if there is one with room, on hosts with 10 Gbit/s or more"`
	Region    string `json:"region,omitempty" maxLength:"100"`
	Zone      string `json:"zone,omitempty" maxLength:"100"`
	Simulated bool   `json:"simulated,omitempty" doc:"Simulated GPUs"`
	Template  string `json:"template,omitempty" doc:"Template to run; a template or an image is needed" maxLength:"100"`
	Image     string `json:"image,omitempty" doc:"Image to run, instead of the template's" maxLength:"520"`
	DiskGiB   int64  `json:"disk_gib,omitempty" doc:"Disk of each node, in GiB; the template's if left out"`
}

// ClusterPrice is what a cluster costs. Nothing of it is frozen.
type ClusterPrice struct {
	ClusterQuestion
	Currency string             `json:"currency"`
	PerHour  Amount             `json:"per_hour" doc:"Everything while all nodes run, without egress"`
	Hosts    []ClusterNodePrice `json:"hosts" nullable:"false" doc:"By rank"`
	QuotedAt time.Time          `json:"quoted_at"`
}

// ClusterNodePrice is what one node costs, and where it would be.
type ClusterNodePrice struct {
	Rank                  int    `json:"rank"`
	OfferID               string `json:"offer_id"`
	HostID                string `json:"host_id"`
	Region                string `json:"region"`
	Zone                  string `json:"zone"`
	Rack                  string `json:"rack,omitempty"`
	PerHour               Amount `json:"per_hour"`
	AvailableAfterSeconds int64  `json:"available_after_seconds,omitempty" doc:"How long it waits, free of charge, until leases of the spot market have left its GPUs"`
}

// ClusterCreate makes a cluster.
type ClusterCreate struct {
	ClusterQuestion
	Name               string            `json:"name,omitempty" maxLength:"48" doc:"As host names are; its leases are named after it"`
	AgreedPerHour      Amount            `json:"agreed_per_hour" doc:"The per_hour of the quote: it is refused if it costs more by now"`
	Policy             string            `json:"policy,omitempty" enum:"fail,restart,replace" doc:"When a node is lost: the cluster ends (fail, restart), or only that node is replaced, for the price of a node that was agreed to (replace). When a rank of a run fails: it ends (fail), or all of its ranks begin again (restart, replace). Left out: fail"`
	StartWithinSeconds int64             `json:"start_within_seconds,omitempty" minimum:"0" maximum:"3600" doc:"If not all nodes are there by then, all are given back and nothing is charged; 600 if left out"`
	WaitSeconds        int64             `json:"wait_seconds,omitempty" minimum:"0" maximum:"604800" doc:"Look for hosts for so long, as often as it takes; left out: once"`
	Labels             map[string]string `json:"labels,omitempty"`
	Entrypoint         []string          `json:"entrypoint,omitempty" doc:"Of all nodes, instead of the image's"`
	Command            []string          `json:"command,omitempty" doc:"Of all nodes, instead of the image's"`
	StartScript        string            `json:"start_script,omitempty" doc:"Run by /bin/sh on each node before the command"`
	Environment        map[string]string `json:"environment,omitempty" doc:"Kept encrypted"`
	Ports              []int             `json:"ports,omitempty" doc:"TCP ports served inside"`
	StopAt             *time.Time        `json:"stop_at,omitempty" doc:"Nodes stop then, which ends the cluster"`
	SpendingCap        *Amount           `json:"spending_cap,omitempty" doc:"Of each node"`
	IdleStop           *IdleStop         `json:"idle_stop,omitempty" doc:"Of each node; left out: never, since a rank that waits for others looks idle"`
}

// Cluster is a gang of leases that start together or not at all.
type Cluster struct {
	ID         string        `json:"id"`
	Name       string        `json:"name"`
	State      string        `json:"state" enum:"queued,forming,running,repairing,ending,failing,ended,failed"`
	Code       string        `json:"code,omitempty" doc:"Why it is in its state"`
	Message    string        `json:"message,omitempty"`
	NodeCount  int           `json:"node_count"`
	GPUs       int           `json:"gpus_per_node"`
	GPUModel   string        `json:"gpu_model"`
	Fast       bool          `json:"fast_network"`
	Simulated  bool          `json:"simulated" doc:"The GPUs are simulated: there is no hardware"`
	Policy     string        `json:"policy"`
	Currency   string        `json:"currency"`
	PerHour    Amount        `json:"per_hour" doc:"While all nodes run, without egress; 0 while nothing is rented"`
	Agreed     Amount        `json:"agreed_per_hour"`
	StartBy    *time.Time    `json:"start_by,omitempty" doc:"If not all nodes are there by then, it is given up"`
	WaitsUntil *time.Time    `json:"waits_until,omitempty" doc:"Hosts are looked for until then"`
	SinceAt    time.Time     `json:"since_at" doc:"When it came into its state"`
	CreatedAt  time.Time     `json:"created_at"`
	EndedAt    *time.Time    `json:"ended_at,omitempty"`
	Nodes      []ClusterNode `json:"nodes" nullable:"false" doc:"By rank; none while it is queued"`
}

// ClusterNode is one node of a cluster.
type ClusterNode struct {
	Rank      int    `json:"rank"`
	Name      string `json:"name" doc:"In the cluster's private network"`
	Address   string `json:"address" doc:"In the cluster's private network"`
	LeaseID   string `json:"lease_id,omitempty" doc:"Absent: the node was lost, and is to be replaced"`
	HostID    string `json:"host_id,omitempty"`
	Region    string `json:"region,omitempty"`
	Zone      string `json:"zone,omitempty"`
	Rack      string `json:"rack,omitempty"`
	Connected int    `json:"connected_peers" doc:"How many other nodes it has heard lately over the private network"`
	Problem   string `json:"problem,omitempty" doc:"Why it has no private network"`
}

// ClusterDetails is a cluster with its leases and its history.
type ClusterDetails struct {
	Cluster
	Leases  []Lease         `json:"leases" nullable:"false" doc:"All that it has had, newest first"`
	History []ClusterChange `json:"history" nullable:"false" doc:"Oldest first"`
}

// ClusterChange is one step in the life of a cluster.
type ClusterChange struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Event   string    `json:"event"`
	From    string    `json:"from"`
	To      string    `json:"to"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// QuoteCluster prices a cluster. It rents and freezes nothing.
func (c *Client) QuoteCluster(ctx context.Context, q ClusterQuestion) (*ClusterPrice, error) {
	return do[ClusterPrice](ctx, c, http.MethodPost, "/v1/clusters/quote", q)
}

// CreateCluster makes a cluster.
func (c *Client) CreateCluster(ctx context.Context, in ClusterCreate) (*Cluster, error) {
	return do[Cluster](ctx, c, http.MethodPost, "/v1/clusters", in)
}

// Clusters returns the caller's clusters, newest first; with open, those that are not
// over.
func (c *Client) Clusters(ctx context.Context, open bool) ([]Cluster, error) {
	q := url.Values{}
	if open {
		q.Set("open", "true")
	}
	return collect(all[Cluster](ctx, c, "/v1/clusters", q))
}

// Cluster returns one cluster with its leases, by identifier or by name.
func (c *Client) Cluster(ctx context.Context, nameOrID string) (*ClusterDetails, error) {
	return do[ClusterDetails](ctx, c, http.MethodGet, clusterPath(nameOrID), nil)
}

// EndCluster gives a cluster up: all of its leases end, with their disks.
func (c *Client) EndCluster(ctx context.Context, nameOrID string) (*Cluster, error) {
	return do[Cluster](ctx, c, http.MethodPost, clusterPath(nameOrID)+"/end", struct{}{})
}

func clusterPath(nameOrID string) string { return "/v1/clusters/" + url.PathEscape(nameOrID) }
