// Package bus carries messages between the parts of a cloud. It runs a NATS
// server within the process and connects it, when told to, to an outside NATS
// cluster as a leaf node; nothing outside this package knows which it is.
//
// The bus is transport and never the record of anything: what must not be lost
// is a request that is answered only after it has been stored, so that the
// sender knows whether to send it again.
//
// Hosts come in through their tunnels (ServeConn), prove themselves with their
// own nkey, and are held by the server to their own subjects: a host publishes
// reports as itself, hears its own commands, and answers those; anything else
// is a permissions violation.
//
// It imports protocol and fault, and knows no service.
package bus
