// Package queue decides in which order requests that wait get a place: by priority,
// fair share and age, with quotas that may be borrowed from, backfill in front of a
// request that is waiting for room, and preemption of spot only. It is pure, like
// placement: a cycle takes what waits, what runs and the time, and returns what
// starts and what is stopped for it.
//
// A cycle looks at each request once, so it always ends, and a request that cannot
// be started, whatever the reason, holds up nobody: it backs off (KAI-Scheduler#2075
// is one that won each cycle and starved the others). Nothing is stopped twice
// within a cool-down (kueue#7101 is two tenants that stopped each other for ever).
package queue
