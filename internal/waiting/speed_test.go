package waiting

import (
	"fmt"
	"testing"
	"time"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/placement/queue"
)

// BenchmarkDecide is a turn's decision on 1,000 full hosts of eight GPUs of three kinds, for
// 1,000 requests of 100 accounts.
func BenchmarkDecide(b *testing.B) {
	now := noon
	var rooms []fleet.Room
	var occupants []lease.Occupant
	for i := range 1000 {
		kind := fmt.Sprint("kind-", i%3)
		r := fleet.Room{Host: placement.Host{ID: fmt.Sprint("ho-", i), DiskMiB: 1 << 20, Labels: map[string]string{fleet.KindLabel + ":" + kind: "1"}}, Kind: kind}
		for k := range 8 {
			uuid := fmt.Sprint(i, "-", k)
			r.GPUs = append(r.GPUs, placement.GPU{UUID: uuid, Index: k, Model: "M", NUMA: -1, Free: i%100 == 0 && k == 0})
			if !r.GPUs[k].Free {
				occupants = append(occupants, lease.Occupant{LeaseID: uuid, AccountID: fmt.Sprint("ac-", i%100), HostID: r.ID, GPUs: []string{uuid}, Since: now, Until: now.Add(time.Duration(i+k) * time.Minute)})
			}
		}
		rooms = append(rooms, r)
	}
	var jobs []queue.Job
	for i := range 1000 {
		jobs = append(jobs, queue.Job{ID: fmt.Sprint("wr-", i), Owner: fmt.Sprint("ac-", i%100), Submitted: now.Add(time.Duration(i) * time.Second), Estimate: time.Duration(i%7) * time.Hour,
			Request: placement.Request{Models: []string{"M"}, Count: 1 + i%8, DiskMiB: 10240, Forbid: map[string]string{fleet.KindLabel + ":kind-1": "1"}}})
	}
	for b.Loop() {
		decide(policyOfTests(), jobs, occupants, rooms, now)
	}
}
