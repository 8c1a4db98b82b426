// Package overlay makes the private network of one node of a cluster: a WireGuard
// tunnel in this process, whose inner end is a device in the instance's own network
// namespace and whose outer end is a UDP socket of the host. It owns the node's key,
// which it makes and keeps beside the lease's other files, and knows nothing of leases
// beyond that. It imports the protocol only.
package overlay
