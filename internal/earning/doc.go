// Package earning is a provider's side of the books: what its hosts earned by
// host, GPU and day, how much of the time they were rented, statements by month,
// and payouts.
//
// What was charged is billing's, who had which GPU when is fleet's, and where a
// lease was is lease's; earning divides the one by the others and keeps nothing of
// it. Each charge is divided by the calendar days of its provider's zone first and
// then by GPUs, always in the same way, so that the parts of any time add up, and
// are the same whichever time is asked for.
//
// A payout sets its amount aside when it is requested, in the transaction that
// makes it and under a lock of its provider, so that nothing is paid twice. What
// simulated hardware earns is never paid out.
//
// It imports account (for who asks), ledger and store for payouts, billing, fleet, lease and pricing for their values, and money.
package earning
