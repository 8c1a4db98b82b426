// Package placement decides which hosts and which GPUs a request gets. It is
// pure: no clock, no randomness, no I/O. A [Fleet] is a picture of hosts that its
// owner keeps up to date; the same picture and the same request always give the
// same answer, whatever the order in which the hosts were told. It reserves
// nothing: whoever commits a placement must be ready to find it taken.
//
// # Which host
//
// What fits is decided by the host's own facts (see [Request]). Of what fits, the
// better connected GPUs come first: those joined by NVLink or a switch (an
// island), those with the most links between them, those on one NUMA node, and
// then the set that leaves the least behind in the islands and nodes that it
// breaks. Between hosts that are equal in that, the least loss of worth decides.
//
// The worth of a host is what the requests that usually come could still use of
// it. It starts from the fragmentation gradient of Weng et al., "Beware of
// Fragmentation" (USENIX ATC 2023): the share of free GPU that a random request
// could use. Three things are different here. What CPU and memory would leave
// idle counts as lost in part, not only when not one request fits. Each shape of
// request weighs more the less of the whole fleet is left for it, so that requests
// that could go anywhere stay away from the scarce models, whole hosts and large
// memories that others depend on. And the mix is learnt from requests as they come
// ([Fleet.Observe]); nothing of later ones is known.
//
// That worth does not see which requests go together, so the few best hosts are then
// tried against imagined futures: fixed sequences of requests, drawn from the mix.
// GPU that would stay unused in them counts beside the worth that is lost.
//
// # How fast
//
// Hosts in the same state are one class; classes are indexed by GPU model, whole
// GPUs free and largest part of a GPU free, and ordered in each such bucket by
// what else is free. A decision compares at most [Policy.Look] classes, so its cost
// does not grow with the number of hosts. Gangs look at each host that fits.
package placement
