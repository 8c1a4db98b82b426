package ratelimit

import (
	"fmt"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestTakeAllowsABurstThenOneEachInterval(t *testing.T) {
	t.Parallel()
	r := Rate{Every: time.Second, Burst: 3}
	var tat time.Time
	for i := range 3 {
		var wait time.Duration
		if tat, wait = r.Take(tat, start, 1); wait != 0 {
			t.Fatalf("event %d of a burst of 3: told to wait %v", i+1, wait)
		}
	}
	if _, wait := r.Take(tat, start, 1); wait != time.Second {
		t.Fatalf("fourth event at once: wait %v, want 1s", wait)
	}
	if _, wait := r.Take(tat, start.Add(999*time.Millisecond), 1); wait != time.Millisecond {
		t.Fatalf("fourth event after 999 ms: wait %v, want 1ms", wait)
	}
	if _, wait := r.Take(tat, start.Add(time.Second), 1); wait != 0 {
		t.Fatalf("fourth event after 1 s: wait %v, want none", wait)
	}
}

func TestARefusalCostsNothing(t *testing.T) {
	t.Parallel()
	l := New(Rate{Every: time.Second, Burst: 1}, func() time.Time { return start }, 10)
	l.Take("a", 1)
	_, first := l.Take("a", 1)
	for range 100 {
		l.Take("a", 1)
	}
	if _, wait := l.Take("a", 1); wait != first {
		t.Fatalf("after 100 refusals the wait is %v, want %v as before", wait, first)
	}
}

func TestKeysAreLimitedApart(t *testing.T) {
	t.Parallel()
	l := New(Rate{Every: time.Second, Burst: 1}, func() time.Time { return start }, 10)
	l.Take("a", 1)
	if _, wait := l.Take("b", 1); wait != 0 {
		t.Fatalf("key b waits %v because of key a", wait)
	}
	l.Reset("a")
	if _, wait := l.Take("a", 1); wait != 0 {
		t.Fatalf("key a waits %v after Reset", wait)
	}
}

func TestMemoryIsBoundedUnderAFloodOfKeys(t *testing.T) {
	t.Parallel()
	l := New(Rate{Every: time.Hour, Burst: 2}, func() time.Time { return start }, 100)
	for i := range 10_000 {
		l.Take(fmt.Sprint(i), 1)
	}
	if len(l.tats) > 100 {
		t.Fatalf("%d keys remembered, want at most 100", len(l.tats))
	}
}

func TestAZeroRateAllowsEverything(t *testing.T) {
	t.Parallel()
	for range 1000 {
		if _, wait := (Rate{}).Take(time.Time{}, start, 5); wait != 0 {
			t.Fatalf("wait %v", wait)
		}
	}
}
