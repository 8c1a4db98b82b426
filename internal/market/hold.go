package market

import (
	"context"

	"suanli.dev/internal/fleet"
	"suanli.dev/internal/store"
)

// Holds returns what the leases of bids on a host pay, by lease, for whoever has to
// choose which of them make room. It locks nothing: a lease that has moved since
// is whole or gone, and the choice is a little dearer than it had to be.
func (s *Service) Holds(ctx context.Context, tx *store.Tx, hostID string) (map[string]fleet.SpotHold, error) {
	bids, err := selectBids(ctx, tx, `host_id = ? AND ended_at = 0 AND lease_id <> ''`, hostID)
	if err != nil {
		return nil, err
	}
	out := map[string]fleet.SpotHold{}
	for _, b := range bids {
		if b.State != Placed && b.State != Noticed {
			continue // it leaves already
		}
		rate, err := b.Paid.Bundle(b.GPUs)
		if err != nil {
			return nil, err
		}
		out[b.LeaseID] = fleet.SpotHold{PerHour: rate, Since: b.Since}
	}
	return out, nil
}
