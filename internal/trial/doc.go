// Package trial gives strangers a trial: a grant of the operator's, once, to a contact
// that is verified, from a device and a network that have not had their share.
//
// What a trial pays for, and until when, is billing's grant; what an account may rent
// that has nothing else is lease's (TrialTerms). This package decides who gets one:
//
//   - The contact is a user's e-mail address, proven by a code that was sent to it or
//     by an operator's word. An address has one trial, however it is written.
//   - The device is an identifier that this cloud has signed and the client keeps. It
//     has one trial. Who throws it away gets another, so it stops the careless only;
//     the other limits do not depend on it.
//   - The network is the caller's /24 (IPv4) or /48 (IPv6), with so many trials in 30
//     days.
//
// Addresses, devices and networks are kept as keyed digests: they can be compared, and
// not read. Starts take turns by one row, so two at once cannot both be the last.
//
// It imports account (for who asks), billing (for the grant), money, store, ident and
// fault.
package trial
