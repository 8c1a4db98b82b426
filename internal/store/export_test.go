package store

import (
	"context"
	"time"
)

// OpenImpatient opens a PostgreSQL as Open does, with other patience.
func OpenImpatient(ctx context.Context, address string, silence, standstill time.Duration) (*DB, error) {
	pool, err := openPostgres(ctx, address, patience{silence: silence, standstill: standstill})
	if err != nil {
		return nil, err
	}
	return &DB{write: pool, read: pool, postgres: true}, nil
}
