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
//   - What is kept and never runs, such as a volume, is billed under an identifier of
//     its own as a lease of storage alone (Terms.Kept): from the moment it is there.
//   - Hosts are not believed about money. Egress that they claim is charged as far as
//     there is money for it at that moment (RecordEgress), and compute until a bounded
//     while after somebody asked for a stop (LimitCompute).
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
// What makes it less: an account's price list is in its quotes (pricelist.go), and the
// provider is paid by the listed prices (apart.go). Coupons of a share and grants pay
// charges as they are posted (share.go, grant.go). A month's volume discount is given
// when it is closed, as a grant that is spent at once (volume.go).
//
// How a month ends: every account has one open month, in its own time zone, and
// charges are cut at its end (charge in period.go). Some time later CloseMonths
// writes the invoice of all charges of the month, posts taxes and the rounding to
// the minor unit, writes the statement and opens the next month, all in one
// transaction. Nothing is posted into a closed month: what is learned about it
// later is a correction on the next invoice. Documents are never changed; their
// numbers have no gaps, and each has the digest of the one before it in its own.
//
// What is not paid: an account may have a credit limit (creditlimit.go), which counts
// as money wherever compute is judged and is in no posting. How an invoice stands is
// derived from postings, the oldest paid first (dues.go). Reminders, the stop of
// compute and the deletion of disks follow one schedule, pricing.Dunning, whether an
// invoice is overdue (dunning.go) or money ran out (settle.go): each step is taken
// once, in the transaction that announces it (announce.go), and none unannounced.
//
// Lock order: the account's row in billing_accounts, then leases, then the
// ledger's accounts by path. Whoever changes an account's wallet, hold or debt
// holds the first, so reading them under it is safe. A series of numbers comes
// after the account, and before the ledger's accounts.
//
// It imports account (for who asks), notify (to tell them), ledger, pricing, money, store, ident and
// fault. It knows no lease states and no hosts.
package billing
