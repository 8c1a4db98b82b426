// Package replica knows the control planes that run one cloud together: which of
// them live, how each is reached, and which of them leads.
//
// Every replica counts up a number of its own in the store, and watches the others'
// numbers by its own monotonic clock: one whose number stands still for TTL is
// gone. No replica's time of day is ever compared with another's. The leader does
// the work that needs to be done once; it stops believing that it leads before any
// other may take over, also when it was suspended in between. Correctness never
// rests on that: whatever the leader does is a transaction that finds what another
// has done already.
//
// It imports store and ident, and knows no service. On an embedded database
// there is one control plane, which always leads.
package replica
