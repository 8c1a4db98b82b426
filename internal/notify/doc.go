// Package notify tells accounts what happened: notifications that are read and
// followed, and webhooks that are called with them.
//
// News is written in the transaction of what it is about (Announce), together with
// one delivery for each webhook that wants it: what is undone was never said, and
// what is done is said at least once, whichever process dies in between. A delivery
// is sent by whichever replica claims it, is tried again with growing pauses for
// about a day, and the webhook is then switched off.
//
// What a notification of a kind says is in kind.go, in one place: its payload, and
// what each field means. The sentences are the command line's and in its languages.
//
// A renter chooses where webhooks go, so nothing is believed of it: what counts is
// each address at the moment of connecting, redirects are not followed, and what
// comes back is read up to a bound, in bounded time.
//
// It imports account (for who asks and to seal secrets), store, reach and fault. It
// knows no other service: they call Announce through interfaces of their own.
package notify
