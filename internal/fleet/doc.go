// Package fleet owns hosts: how they join, what they have, whether they are
// alive and healthy, what their providers ask for them, which GPUs are taken,
// and the index that renters search. It decides whether something is on offer
// and reserves it; it never starts or stops a lease and never moves money. The
// lease service tells it what to reserve and release, and is told by callbacks
// when a host falls silent.
//
// A GPU is in at most one lease because its UUID is the primary key of the
// table of allocations; all else here, the search index above all, may be late
// by a moment and is checked again when something is reserved.
//
// Lock order: host.reporting, then host.loading, then Service.mu, then the
// index's own. None is held while a callback of Config runs, but for
// host.reporting in Config.OnReport.
package fleet
