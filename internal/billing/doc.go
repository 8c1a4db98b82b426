// Package billing turns what leases use into charges and postings: it records
// intervals of use, rates them by the lease's own quote, posts the difference to
// what is posted already, and says how long an account's money lasts.
//
// How a lease is charged:
//
//   - Compute counts from the moment the instance was confirmed running to the
//     moment it was confirmed stopped. While it runs, it counts up to the last
//     sign of life (ConfirmAlive): nobody pays for a dark host.
//   - Storage counts from the first run until the disk is gone, and egress by the
//     byte. A lease that never ran is charged nothing at all.
//   - Spot use costs what the market cleared at, moment by moment (SetRate), and a
//     bid is held for. A run that the platform ends in its first minute is free.
//   - A running lease costs no writes. Signs of life are kept in memory; the one
//     that a posting relied on is stored with it, so a restart forgets none that
//     was charged.
//
// How money moves: BeginLease sets a hold aside. Charges are taken from the
// wallet, then from the hold, and only what neither covers becomes debt
// (account/…/receivable), which the next deposit pays first. The provider is
// credited in the same transfers, so its share never depends on the renter's.
// When the money runs out, the moment it did is written on the running intervals,
// compute beyond it is never charged, and OnExhausted is called until they are
// closed.
//
// Lock order: the account's row in billing_accounts, then leases, then the
// ledger's accounts by path. Whoever changes an account's wallet, hold or debt
// holds the first, so reading them under it is safe.
//
// It imports account (for who asks), ledger, pricing, money, store, ident and
// fault. It knows no lease states and no hosts.
package billing
