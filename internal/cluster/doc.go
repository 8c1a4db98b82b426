// Package cluster keeps gangs of leases: nodes with equal GPUs on hosts of their own
// that start together or not at all, with a private network between them. It owns the
// clusters' life, which node is on which host, what their hosts told of the network,
// and the commands that run on all of their nodes at once. It knows a host only by the
// leases on it, which it asks of fleet and lease and never goes around; it charges
// nothing itself, and talks to no agent. Imports point to fleet, lease and what is
// under them; only the server imports it.
package cluster
