// Package kubernetes runs leases as pods, so that a whole cluster joins a cloud as one
// host. Driver is the runtime.Driver of that, and Nodes the gpu.Source: both look at
// one cluster through its API server and nothing else, but for the kubelets' figures
// of use.
//
// The package owns:
//
//   - What a lease becomes: a secret with its settings, a network policy and a pod,
//     in a namespace that is for leases only. pod.go and policy.go build them and ask
//     nobody; they are where isolation is decided.
//   - Which GPUs a cluster has: as many as the device plugins of its nodes offer, each
//     under an identifier that stands for a place on a node, since a cluster does not
//     say which devices a pod gets. nodes.go.
//   - A pod's life as the agent sees it: made behind a scheduling gate, started by
//     taking the gate away, ended by its deadline so that its output can still be read.
//
// It decides nothing about leases, keeps nothing on disk, and never touches a pod that
// its own host's labels are not on. Imports point to runtime, reach and protocol.
package kubernetes
