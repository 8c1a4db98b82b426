// Package queue decides in which order requests that wait get a place: by priority,
// fair share and age, with quotas that may be borrowed from, backfill in front of a
// request that is waiting for room, and preemption of spot only. It is pure, like
// placement: a cycle takes what waits, what runs and the time, and returns what
// starts and what is stopped for it.
//
// The first job without room has the place reserved that it will get soonest if what
// runs ends as was said (EASY backfill: Lifka, "The ANL/IBM SP Scheduling System", 1995).
// Others go ahead of it, the shortest first, if they end before that or find room beside
// that place.
//
// A cycle looks at each request once, so it always ends, and a request that cannot
// be started, whatever the reason, holds up nobody: it backs off (KAI-Scheduler#2075
// is one that won each cycle and starved the others). Nothing is stopped twice
// within a cool-down (kueue#7101 is two tenants that stopped each other for ever).
package queue
