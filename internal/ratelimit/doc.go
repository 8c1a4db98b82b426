// Package ratelimit decides, from a time and one stored instant per key,
// whether an event may happen now. It is the generic cell rate algorithm (GCRA):
// each event pushes a key's theoretical arrival time (TAT) one interval into the
// future, and an event is refused while the TAT is more than a burst ahead of
// now. So there is no window to reset and no counter to refill, and a refusal
// says exactly how long to wait. The package knows nothing of HTTP or accounts.
package ratelimit
