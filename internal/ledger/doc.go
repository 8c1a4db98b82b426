// Package ledger is double-entry book-keeping: immutable transfers between
// accounts, and for each account the sums of its debits and credits. It knows
// nothing of leases or GPUs; what a transfer means is its code and reference.
//
// What it holds to, whatever happens between any two lines of its callers:
// transfers are never changed or deleted (the database refuses it); an account's
// sums are those of its transfers; debits equal credits in each currency, since
// one row is both; a key posts once for ever; a guarded account never falls under
// its floor (the database refuses that too); a batch is posted whole or not at
// all, in the caller's transaction.
//
// A balance is credits minus debits: money that we owe to the account's owner is
// positive, money that is owed to us is negative.
//
// Keys should start with time (see Key): keys in random order cost a database
// several times more to index once it is larger than its cache.
//
// It imports the store, money, ident and fault.
package ledger
