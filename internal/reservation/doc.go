// Package reservation sells capacity for a term: GPUs of a host that are held for an
// account at a price of its own, used or not. It owns the reservations' life, from
// purchase to end or renewal, and keeps fleet (who holds the GPUs) and billing (what
// that costs, and which leases it pays for) in step with it, each change in one
// transaction. A loop finds what time, hosts and balances have changed, so that a
// crash anywhere is made up for by the next turn.
//
// The rules of price and of what a reservation pays for are in pricing. It imports
// fleet, billing and account for their types, and the pure core; lease does not
// know of it.
package reservation
