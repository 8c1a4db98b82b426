// Package budget follows what an account, a label or a user spends against a budget
// for each calendar month of the account's time zone, or for a period with fixed
// ends, tells the account at thresholds, and may refuse new leases, or stop those
// in its scope, once all of it is spent.
//
// What is spent is the sum of all charges of the leases in scope that an invoice of
// the period has, and what they used and is not posted yet. A lease is in the scope
// of a label or a user by what it has now, so a label that is added later counts
// all that the lease has cost in the period. The forecast adds what burns now up to
// the period's end.
//
// A threshold is told once for each period, in the transaction that notes it. When
// the amount is raised so that it is not reached any more, it is told again once it
// is. Stopping is not noted: it follows from what is spent, at every look, so that
// a crash is made good by the next one. Run is that loop; several replicas may.
//
// It imports pricing for the rules, billing for its values, account (for who asks),
// notify (to tell them), store, money, ident and fault. It knows no hosts.
package budget
