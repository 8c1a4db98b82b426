package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"suanli.dev/internal/agent/overlay"
	"suanli.dev/internal/protocol"
)

// joinMesh makes the private network of a cluster's node, if its instance has none yet.
// A node without one runs all the same: its cluster is told, and decides.
func (a *Agent) joinMesh(ctx context.Context, l *lease, generation int64) {
	a.mu.Lock()
	spec := l.rec.Spec
	there := spec == nil || spec.Cluster == nil || l.mesh != nil && l.meshOf == generation
	a.mu.Unlock()
	if there {
		return
	}
	a.leaveMesh(l)
	m, err := a.makeMesh(ctx, l.id, spec.Cluster)
	a.mu.Lock()
	changed := m != nil || fmt.Sprint(err) != fmt.Sprint(l.meshErr)
	l.mesh, l.meshOf, l.meshErr = m, generation, err
	peers := l.peers
	a.mu.Unlock()
	if err != nil {
		a.log.Error("a node has no private network", "lease", l.id, "error", err)
	}
	if m != nil {
		a.setPeers(l.id, m, peers)
	}
	if changed {
		a.poke()
	}
}

// makeMesh returns nil where instances are simulated.
func (a *Agent) makeMesh(ctx context.Context, id string, c *protocol.Cluster) (*overlay.Mesh, error) {
	ns, err := a.driver.Namespace(ctx, id)
	if err != nil || ns == nil {
		return nil, err
	}
	defer ns.Close()
	key, err := overlay.KeepKey(a.leaseDir(id))
	if err != nil {
		return nil, err
	}
	return overlay.Open(ns, c.Nodes[c.Rank].Address, key)
}

// leaveMesh ends the private network of a lease's instance.
func (a *Agent) leaveMesh(l *lease) {
	a.mu.Lock()
	m := l.mesh
	l.mesh, l.meshErr = nil, nil
	a.mu.Unlock()
	if m != nil {
		m.Close()
	}
}

func (a *Agent) leaveMeshes() {
	a.mu.Lock()
	var all []*lease
	for _, l := range a.leases {
		all = append(all, l)
	}
	a.mu.Unlock()
	for _, l := range all {
		a.leaveMesh(l)
	}
}

// meshSettles is how long after its peers changed a network is looked at again: a
// handshake takes one round trip.
const meshSettles = time.Second

// takePeers notes the peers that the control plane knows. The caller holds a.mu.
func (a *Agent) takePeers(l *lease, peers []protocol.Peer) {
	l.peers = peers
	if m := l.mesh; m != nil {
		a.wg.Add(1)
		go func() { // it asks the host's interfaces, which may take a moment
			defer a.wg.Done()
			if a.setPeers(l.id, m, peers) {
				time.AfterFunc(meshSettles, a.poke)
			}
		}()
	}
}

// setPeers reports whether there are some who have not answered yet.
func (a *Agent) setPeers(id string, m *overlay.Mesh, peers []protocol.Peer) bool {
	if err := m.SetPeers(peers, hostPrefixes()); err != nil {
		a.log.Warn("the peers of a private network", "lease", id, "error", err)
	}
	return m.Connected() < len(peers)
}

// overlay is what is reported of a lease's private network. The caller holds a.mu.
func (l *lease) overlay() *protocol.Overlay {
	switch {
	case l.rec.Spec == nil || l.rec.Spec.Cluster == nil:
		return nil
	case l.meshErr != nil:
		return &protocol.Overlay{Problem: l.meshErr.Error()}
	case l.mesh == nil:
		return &protocol.Overlay{}
	}
	return &protocol.Overlay{PublicKey: l.mesh.PublicKey(), Addresses: outerAddresses(l.mesh.Port()), Connected: l.mesh.Connected()}
}

// outerAddresses are where this host takes packets of a port, by its own interfaces; its
// loopback only where there is nothing else.
func outerAddresses(port uint16) []netip.AddrPort {
	var out []netip.AddrPort
	for _, text := range hostAddresses() {
		if a, err := netip.ParseAddr(text); err == nil && len(out) < 8 {
			out = append(out, netip.AddrPortFrom(a, port))
		}
	}
	if len(out) == 0 {
		out = append(out, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	}
	return out
}

// hostPrefixes are the networks in which the host has addresses, without those of
// leases.
func hostPrefixes() []netip.Prefix {
	var out []netip.Prefix
	own := map[string]bool{}
	for _, a := range hostAddresses() {
		own[a] = true
	}
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && own[p.Addr().String()] {
			out = append(out, p.Masked())
		}
	}
	return out
}

var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkCluster refuses what would end up in an instance's files and addresses.
func checkCluster(c *protocol.Cluster) error {
	if c == nil {
		return nil
	}
	if c.Rank < 0 || c.Rank >= len(c.Nodes) {
		return fmt.Errorf("cluster rank is %d: want 0 to %d", c.Rank, len(c.Nodes)-1)
	}
	for i, n := range c.Nodes {
		if !nodeName.MatchString(n.Name) || !overlay.Prefix.Contains(n.Address) {
			return fmt.Errorf("cluster node %d is %q at %s: want a host name, and an address of %s", i, n.Name, n.Address, overlay.Prefix)
		}
	}
	if strings.ContainsAny(c.Name+c.ID, "\n\x00") {
		return fmt.Errorf("cluster %q: want a name of one line", c.Name)
	}
	return nil
}
