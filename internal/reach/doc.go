// Package reach says which network addresses are of the public internet. Who lets
// a stranger choose where to connect to (images, webhooks) asks it about every
// address that is connected to, at that moment: a name that was checked before may
// lead elsewhere by then, and so may a redirect.
//
// It imports nothing of this module.
package reach
