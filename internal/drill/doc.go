// Package drill has an operator try an outage on their own cloud: for a time that is
// set beforehand, the hosts of a drill are treated as if their machines had gone,
// and what leases there felt is written down. Nothing is done to the machines
// themselves, whose agents keep instances running as in any loss of the control
// plane.
//
// A drill is a row with its end. Every control plane cuts the hosts of those that
// are not over, and nothing else, so that a drill ends in time whoever of them, or
// of the client that began it, is gone. One drill runs at a time.
//
// It imports fleet and lease for their values, account (for who asks), store, ident
// and fault.
package drill
