// Package placement decides which GPUs a request gets. It is pure: it takes a
// picture of hosts and a request and returns a choice or the reasons for none;
// the same input always gives the same answer. It reserves nothing. Whoever
// commits the choice must be ready to find it taken.
//
// Of all sets of free GPUs of the right model it prefers, in this order: those
// joined by NVLink or a switch (an island), those with the most links between
// them, those on one NUMA node, and then the set that leaves the least behind in
// the islands and nodes that it breaks, so that large ones stay whole for large
// requests.
package placement
