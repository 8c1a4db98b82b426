package cluster

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"

	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

// network is what of an open cluster hosts are told and tell.
type network struct {
	members []Node
}

// noteAll keeps what the database has of open clusters.
func (s *Service) noteAll(open []*Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	for _, c := range open {
		s.known[c.ID] = &network{members: c.Members}
	}
}

func (s *Service) note(c *Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.State.Over() {
		delete(s.known, c.ID)
		return
	}
	s.known[c.ID] = &network{members: c.Members}
}

// problem is what keeps a node from being reached by all the others; empty: nothing.
func (n *Node) problem(nodes int) string {
	switch {
	case n.Overlay == nil:
		return "has not told of its network yet"
	case n.Overlay.Problem != "":
		return "has no network: " + n.Overlay.Problem
	case n.Overlay.PublicKey != "" && n.Overlay.Connected < nodes-1:
		return "is not reached by all the others"
	}
	return ""
}

// Peers implements lease.Gangs.
func (s *Service) Peers(clusterID, leaseID string) []protocol.Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.known[clusterID]
	if c == nil {
		return nil
	}
	var out []protocol.Peer
	for _, n := range c.members {
		if n.LeaseID != leaseID && n.LeaseID != "" && n.Overlay != nil && n.Overlay.PublicKey != "" {
			out = append(out, protocol.Peer{Rank: n.Rank, PublicKey: n.Overlay.PublicKey, Addresses: n.Overlay.Addresses, Inside: Address(n.Rank)})
		}
	}
	return out
}

// Bounds of what is kept of a host's word, and told to other hosts.
const (
	maxAddresses = 8
	maxProblem   = 500 // bytes
)

func bounded(o *protocol.Overlay) *protocol.Overlay {
	if o == nil {
		return nil
	}
	b := *o
	b.Addresses = b.Addresses[:min(maxAddresses, len(b.Addresses))]
	if len(b.PublicKey) > 64 {
		b.PublicKey, b.Problem = "", "its host told a key that is none"
	}
	if len(b.Problem) > maxProblem {
		b.Problem = strings.ToValidUTF8(b.Problem[:maxProblem], "")
	}
	return &b
}

// Overlay implements lease.Gangs: it keeps what a node's host says of its network, if
// that is news.
func (s *Service) Overlay(ctx context.Context, clusterID, leaseID string, o *protocol.Overlay) {
	o = bounded(o)
	s.mu.Lock()
	c := s.known[clusterID]
	rank := -1
	if c != nil {
		for _, n := range c.members {
			if n.LeaseID == leaseID && !reflect.DeepEqual(n.Overlay, o) {
				rank = n.Rank
			}
		}
	}
	s.mu.Unlock()
	if rank < 0 || o == nil {
		return
	}
	text, err := json.Marshal(o)
	if err != nil {
		return
	}
	err = s.DB.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE cluster_node SET overlay = ? WHERE cluster_id = ? AND rank = ? AND lease_id = ?`, string(text), clusterID, rank, leaseID)
		return err
	})
	if err != nil {
		s.Log.WarnContext(ctx, "keep what a node's host says of its network", "cluster", clusterID, "lease", leaseID, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.known[clusterID]; c != nil {
		fresh := &network{members: append([]Node(nil), c.members...)}
		for i := range fresh.members {
			if fresh.members[i].LeaseID == leaseID {
				fresh.members[i].Overlay = o
			}
		}
		s.known[clusterID] = fresh
	}
}
