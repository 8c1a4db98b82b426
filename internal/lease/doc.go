// Package lease owns the life of a rental: quotes that were given, leases, the
// state machine that is the only thing to change a lease's state, and the
// reconciler that drives each host to what its leases want. It asks fleet for
// capacity and billing for money, within one transaction each time, and never
// reads their tables; it knows nothing of HTTP, and of containers no more than
// what protocol says.
package lease
