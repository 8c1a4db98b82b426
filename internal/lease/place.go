package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"suanli.dev/internal/store"
)

// Place is where a lease is or was, and whose it is.
type Place struct {
	AccountID, ProviderID, HostID string
	GPUModel                      string
	Simulated                     bool
}

// Places returns where leases are or were, by their identifiers; those that there
// are none of are left out. It is for the cloud's own parts, which check who asks.
func (s *Service) Places(ctx context.Context, leaseIDs []string) (map[string]Place, error) {
	out := make(map[string]Place, len(leaseIDs))
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) error {
		for part := range slices.Chunk(leaseIDs, 500) {
			args := make([]any, len(part))
			for i, id := range part {
				args[i] = id
			}
			rows, err := tx.Query(ctx, `SELECT id, account_id, provider_id, host_id, gpu_model, simulated FROM lease WHERE id IN (?`+strings.Repeat(", ?", len(part)-1)+`)`, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var id string
				var p Place
				var simulated int64
				if err := rows.Scan(&id, &p.AccountID, &p.ProviderID, &p.HostID, &p.GPUModel, &simulated); err != nil {
					return err
				}
				p.Simulated = simulated == 1
				out[id] = p
			}
			if err := rows.Err(); err != nil {
				return err
			}
			rows.Close()
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("places of leases: %w", err)
	}
	return out, nil
}
