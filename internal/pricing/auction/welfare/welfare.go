package welfare

import (
	"cmp"
	"slices"

	"suanli.dev/internal/pricing/auction"
)

// Of is the welfare of a round in which nobody ran before, and how many
// goods have no one price that all who pay it and all who get it agreed to.
func Of(m auction.Market, r auction.Result) (sum int64, wrong int) {
	floors := map[string]auction.Price{}
	for _, h := range m.Hosts {
		floors[h.ID] = h.Floor
	}
	bad := map[int]bool{}
	for i, d := range r.Decisions {
		if d.Action != auction.Start {
			continue
		}
		b := m.Bids[i]
		sum += int64(b.GPUs) * int64(b.Limit()-floors[d.Host])
		if g, ok := r.Good(b.GPUs); !ok || g.Price > b.Limit() || g.Price < floors[d.Host] {
			bad[b.GPUs] = true
		}
	}
	seen := map[int]bool{}
	for _, g := range r.Goods {
		if seen[g.GPUs] {
			bad[g.GPUs] = true
		}
		seen[g.GPUs] = true
	}
	return sum, len(bad)
}

// Most is the highest welfare of a market of bundles of 1 to 8 GPUs in which nobody
// runs, or known where nothing is above it. Host
// after host, it keeps for each number of bids of each size that have a place the
// best that these can make, the best bids of each size first, and gives up what
// even the fractional relaxation of the rest cannot bring above the best that is
// known.
func Most(m auction.Market, known int64) int64 {
	type taken [9]uint8 // of each size
	bids, hosts := Sorted(m)
	var sizes [9][]auction.Bid
	for _, b := range bids {
		sizes[b.GPUs] = append(sizes[b.GPUs], b)
	}
	left := make([]auction.Bid, 0, len(bids))
	rest := func(t taken, h int) int64 {
		left = left[:0]
		for _, b := range bids {
			if t[b.GPUs] > 0 {
				t[b.GPUs]--
				continue
			}
			left = append(left, b)
		}
		return relaxed(left, hosts[h:])
	}
	layer := map[taken]int64{{}: 0}
	for h := range hosts {
		next := map[taken]int64{}
		var fill func(t taken, size, room int, sum int64)
		fill = func(t taken, size, room int, sum int64) {
			if known = max(known, sum); size == 0 {
				if was, ok := next[t]; (!ok || sum > was) && sum+rest(t, h+1) > known {
					next[t] = sum
				}
				return
			}
			fill(t, size-1, room, sum)
			for n := int(t[size]); n < len(sizes[size]) && room >= size; n++ {
				sum += int64(size) * int64(sizes[size][n].Limit()-hosts[h].Floor)
				t[size]++
				room -= size
				fill(t, size-1, room, sum)
			}
		}
		for t, sum := range layer {
			if sum+rest(t, h) > known {
				fill(t, 8, hosts[h].GPUs, sum)
			}
		}
		layer = next
	}
	return known
}

// Sorted returns the bids and the hosts of a market, the best bids and the cheapest
// hosts first.
func Sorted(m auction.Market) ([]auction.Bid, []auction.Host) {
	bids, hosts := slices.Clone(m.Bids), slices.Clone(m.Hosts)
	slices.SortFunc(bids, func(a, b auction.Bid) int { return cmp.Compare(b.Limit(), a.Limit()) })
	slices.SortFunc(hosts, func(a, b auction.Host) int { return cmp.Compare(a.Floor, b.Floor) })
	return bids, hosts
}

// Divided is the welfare if bundles could be taken apart: nothing possible is above it.
func Divided(m auction.Market) int64 {
	bids, hosts := Sorted(m)
	return relaxed(bids, hosts)
}

// relaxed is the welfare if bundles could be taken apart: the best bids get the
// cheapest GPUs. Both are sorted.
func relaxed(bids []auction.Bid, hosts []auction.Host) (sum int64) {
	h, room := -1, 0
	for _, b := range bids {
		for need := b.GPUs; need > 0; {
			if room == 0 {
				if h++; h == len(hosts) {
					return sum
				}
				room = hosts[h].GPUs
				continue
			}
			n := min(need, room)
			if b.Limit() <= hosts[h].Floor {
				return sum
			}
			sum += int64(n) * int64(b.Limit()-hosts[h].Floor)
			need, room = need-n, room-n
		}
	}
	return sum
}
