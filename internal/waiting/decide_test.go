package waiting

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/placement/queue"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func anyStore(t *testing.T) *store.DB { t.Helper(); return storetest.Open(t, storetest.Address(t)) }

// roomsOf is a host of one GPU of each model, free where there is a 1.
func roomsOf(free map[string]int) (out []fleet.Room) {
	for _, model := range slices.Sorted(maps.Keys(free)) {
		out = append(out, fleet.Room{Host: placement.Host{ID: "host-" + model, GPUs: []placement.GPU{{UUID: model + "-0", Model: model, NUMA: -1, Free: free[model] == 1}}}})
	}
	return out
}

func jobsFor(models ...string) (out []queue.Job) {
	for i, m := range models {
		out = append(out, queue.Job{ID: fmt.Sprint("wr-", i), Owner: "o", Request: placement.Request{Models: []string{m}, Count: 1}, Submitted: noon.Add(time.Duration(i) * time.Second)})
	}
	return out
}

func policyOfTests() queue.Policy { return queue.Policy{Backfill: true, FairShare: true} }

// Whatever an account says of its requests, the ages at which others' count stay as they
// are, and its own trade theirs among themselves.
func TestAPriorityMovesNobodyElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list []*Request
		for i := range rapid.IntRange(1, 12).Draw(t, "requests") {
			list = append(list, &Request{ID: fmt.Sprint("wr-", i), AccountID: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "account"), GPUs: rapid.IntRange(1, 3).Draw(t, "gpus"),
				Priority: rapid.IntRange(-10, 10).Draw(t, "priority"), CreatedAt: noon.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "minute")) * time.Minute)})
		}
		turns := func() (owners []string) {
			for _, r := range line(list, nil, nil) {
				owners = append(owners, fmt.Sprint(r.AccountID))
			}
			return owners
		}
		for _, r := range list {
			r.GPUs = 1 // or whose turn it is depends on which of an account's is next
		}
		before := turns()
		if len(before) != len(list) {
			t.Fatalf("%d of %d are in the line", len(before), len(list))
		}
		sum := func(account string) (n time.Duration) {
			since := ages(list)
			for _, r := range list {
				if r.AccountID == account {
					n += since[r.ID].Sub(noon)
				}
			}
			return n
		}
		a, b := sum("a"), sum("b")
		for _, r := range list {
			if r.AccountID == "a" {
				r.Priority = rapid.IntRange(-10, 10).Draw(t, "another priority")
			}
		}
		if sum("a") != a || sum("b") != b {
			t.Fatal("priorities have changed ages")
		}
		// Equal ages are told apart by identifier, which may name another of the account's.
		same := map[time.Time]bool{}
		for _, r := range list {
			if same[r.CreatedAt] {
				return
			}
			same[r.CreatedAt] = true
		}
		if after := turns(); !slices.Equal(before, after) {
			t.Fatalf("turns were %v and are %v", before, after)
		}
	})
}

func TestOnlyWhatDoesNotPassEndsARequest(t *testing.T) {
	t.Parallel()
	for code, tt := range map[string]struct {
		kind fault.Kind
		want bool
	}{
		"unknown_template": {fault.Gone, true}, "user_disabled": {fault.Forbidden, true}, "user_not_found": {fault.NotFound, true}, "invalid_image": {fault.Invalid, true},
		"offer_gone": {fault.Gone, false}, "offer_unfit": {fault.Invalid, false}, "trial_own_host": {fault.Forbidden, false}, "offer_taken": {fault.Conflict, false},
		"insufficient_balance": {fault.Payment, false}, "quota_leases": {fault.TooMany, false}, "host_offline": {fault.Unavailable, false}, "account_suspended": {fault.Conflict, false},
	} {
		if got := forGood(fault.New(tt.kind, code, "it is so")); got != tt.want {
			t.Errorf("%s ends it: %v", code, got)
		}
	}
}
