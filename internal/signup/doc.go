// Package signup lets people make accounts by themselves, as far as the operator has
// opened the cloud: to everybody, to those who are invited, or to nobody.
//
// Who signs up shows first that the mail of an address is read, by a code that was sent
// there; the account is made with the code. What the API answers before that is the
// same for every address, whether somebody has an account by it or was invited: only
// the mail says which, to the one who reads it. Each address is sent one mail for a
// request, and few in a day, as it may be somebody else's.
//
// Addresses that ask are kept as keyed digests. It imports account (whose accounts they
// become), money, store, ident, ratelimit and fault.
package signup
