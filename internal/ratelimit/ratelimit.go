package ratelimit

import (
	"sync"
	"time"
)

// Rate allows one event each Every, and Burst of them at once after a rest.
// A Rate whose Every or Burst is not positive allows everything.
type Rate struct {
	Every time.Duration
	Burst int
}

// Take asks for cost events at now, given the key's theoretical arrival time
// (zero for a key never seen). If they are allowed it returns the new TAT and
// 0; if not, the TAT as it was and how long to wait. A cost above Burst counts
// as Burst, as it could never be allowed otherwise. cost must be at least 1.
func (r Rate) Take(tat, now time.Time, cost int) (time.Time, time.Duration) {
	if r.Every <= 0 || r.Burst <= 0 {
		return tat, 0
	}
	cost = min(cost, r.Burst)
	if tat.Before(now) {
		tat = now
	}
	next := tat.Add(time.Duration(cost) * r.Every)
	if wait := next.Sub(now) - time.Duration(r.Burst)*r.Every; wait > 0 {
		return tat, wait
	}
	return next, 0
}

// Remaining returns how many events a key with this TAT could still have at now.
func (r Rate) Remaining(tat, now time.Time) int {
	if r.Every <= 0 || r.Burst <= 0 || tat.Before(now) {
		return r.Burst
	}
	return max(0, r.Burst-int((tat.Sub(now)+r.Every-1)/r.Every))
}

// Limiter applies one Rate to many keys, in the memory of this process: each
// replica of a control plane limits on its own. It is safe for concurrent use.
type Limiter struct {
	rate  Rate
	clock func() time.Time
	max   int

	mu   sync.Mutex
	tats map[string]time.Time
}

// New returns a limiter that remembers at most about max keys. Beyond that it
// forgets those that are at rest, and if none is, any: memory stays bounded
// under a flood of keys, at the price of a fresh burst for the forgotten.
func New(rate Rate, clock func() time.Time, max int) *Limiter {
	return &Limiter{rate: rate, clock: clock, max: max, tats: map[string]time.Time{}}
}

// Take asks for cost events of key. wait is 0 if they are allowed.
func (l *Limiter) Take(key string, cost int) (remaining int, wait time.Duration) {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	tat, wait := l.rate.Take(l.tats[key], now, cost)
	if _, known := l.tats[key]; !known && len(l.tats) >= l.max {
		l.forget(now)
	}
	l.tats[key] = tat
	return l.rate.Remaining(tat, now), wait
}

// Reset forgets key, which has its whole burst again.
func (l *Limiter) Reset(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tats, key)
}

// Burst returns the rate's burst, for telling clients.
func (l *Limiter) Burst() int { return l.rate.Burst }

func (l *Limiter) forget(now time.Time) {
	for k, tat := range l.tats {
		if tat.Before(now) {
			delete(l.tats, k)
		}
	}
	for k := range l.tats {
		if len(l.tats) < l.max {
			return
		}
		delete(l.tats, k)
	}
}
