package protocol

import "net/netip"

// Cluster is the place of one node in a cluster: what its instance is told, and its
// agent makes a private network of.
type Cluster struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Rank        int    `json:"rank"` // of the node, from 0
	GPUsPerNode int    `json:"gpus_per_node"`
	MasterPort  int    `json:"master_port"` // on node 0, for the ranks to meet
	// Nodes are all nodes, by rank. Their addresses are in the private network.
	Nodes []ClusterNode `json:"nodes"`
}

// ClusterNode is how a node is reached from within its cluster.
type ClusterNode struct {
	Name    string     `json:"name"` // "node-0"
	Address netip.Addr `json:"address"`
}

// Overlay is what an agent says of the private network of one node.
type Overlay struct {
	// PublicKey is the node's WireGuard key, in base 64. The private half is made by
	// the agent and never leaves its host. Empty: instances are simulated there.
	PublicKey string `json:"public_key,omitempty"`
	// Addresses are where the host takes the network's packets, the likeliest first.
	Addresses []netip.AddrPort `json:"addresses,omitempty"`
	// Connected is how many of the peers have answered lately.
	Connected int `json:"connected"`
	// Problem is why there is no network, for people; empty: there is one.
	Problem string `json:"problem,omitempty"`
}

// Peer is another node of a lease's cluster.
type Peer struct {
	Rank      int              `json:"rank"`
	PublicKey string           `json:"public_key"`
	Addresses []netip.AddrPort `json:"addresses"`
	Inside    netip.Addr       `json:"inside"` // in the private network
}
