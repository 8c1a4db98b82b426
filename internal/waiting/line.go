package waiting

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/lease"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/placement/queue"
	"suanli.dev/internal/store"
)

// ages says since when each request counts as waiting, by identifier. Those of an account
// trade their ages by priority: what one says of its requests moves them among themselves,
// and none of them ahead of anybody else's.
func ages(list []*Request) map[string]time.Time {
	of := map[string][]*Request{}
	for _, r := range list {
		of[r.AccountID] = append(of[r.AccountID], r)
	}
	out := map[string]time.Time{}
	for _, own := range of {
		var times []time.Time
		for _, r := range own {
			times = append(times, r.CreatedAt)
		}
		slices.SortFunc(times, time.Time.Compare)
		own = slices.Clone(own)
		slices.SortFunc(own, func(a, b *Request) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
		})
		for i, r := range own {
			out[r.ID] = times[i]
		}
	}
	return out
}

// line is the order in which requests get what they want if all of it fits: whoever has
// less of what is theirs is next, and of equals who has waited longer. have is what the
// accounts have, in thousandths of a GPU.
func line(list []*Request, quotas map[string]queue.Quota, have map[string]int64) []*Request {
	since := ages(list)
	of := map[string][]*Request{}
	for _, r := range list {
		of[r.AccountID] = append(of[r.AccountID], r)
	}
	used := map[string]int64{}
	for owner, own := range of {
		used[owner] = have[owner]
		slices.SortFunc(own, func(a, b *Request) int {
			return cmp.Or(since[a.ID].Compare(since[b.ID]), strings.Compare(a.ID, b.ID))
		})
	}
	share := func(owner string) int64 {
		if q := quotas[owner]; q.Milli > 0 {
			return used[owner] * 1000 / q.Milli
		}
		return used[owner]
	}
	var out []*Request
	for len(of) > 0 {
		var best *Request
		for _, own := range of {
			r := own[0]
			if best == nil || cmp.Or(cmp.Compare(share(r.AccountID), share(best.AccountID)), since[r.ID].Compare(since[best.ID]), strings.Compare(r.ID, best.ID)) < 0 {
				best = r
			}
		}
		out = append(out, best)
		used[best.AccountID] += int64(best.GPUs) * placement.WholeMilli
		if of[best.AccountID] = of[best.AccountID][1:]; len(of[best.AccountID]) == 0 {
			delete(of, best.AccountID)
		}
	}
	return out
}

// position is where in its line a request is, from 1 on.
func (s *Service) position(ctx context.Context, r *Request) (int, error) {
	var open []*Request
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		simulated := 0
		if r.Simulated {
			simulated = 1
		}
		open, err = query(ctx, tx, `ended_at = 0 AND simulated = ? AND gpu_model = ? ORDER BY id`, simulated, r.GPUModel)
		return err
	})
	if err != nil {
		return 0, err
	}
	all, err := s.Leases.Occupants(ctx)
	if err != nil {
		return 0, err
	}
	quotas, err := s.quotas(ctx, open, s.Capacity.Rooms(r.Simulated))
	if err != nil {
		return 0, err
	}
	return 1 + slices.IndexFunc(line(open, quotas, held(all)), func(x *Request) bool { return x.ID == r.ID }), nil
}

// held is what accounts have, in thousandths of a GPU.
func held(all []lease.Occupant) map[string]int64 {
	out := map[string]int64{}
	for _, o := range all {
		out[o.AccountID] += int64(len(o.GPUs)) * placement.WholeMilli
	}
	return out
}
