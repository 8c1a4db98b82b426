package earning

import (
	"context"
	"errors"
	"time"

	"suanli.dev/internal/billing"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/store"
)

// Money is what earning needs of billing.
type Money interface {
	Revenue(ctx context.Context, providerID string, from, until time.Time) (billing.Revenue, error)
}

// Hosts is what earning needs of fleet.
type Hosts interface {
	History(ctx context.Context, accountID string, from, until time.Time) (fleet.History, error)
}

// Leases is what earning needs of lease.
type Leases interface {
	Places(ctx context.Context, leaseIDs []string) (map[string]lease.Place, error)
}

// Config is what a Service needs; all of it.
type Config struct {
	DB     *store.DB
	Clock  func() time.Time
	Ledger *ledger.Ledger
	Money  Money
	Hosts  Hosts
	Leases Leases
	// ZoneOf returns an account's time zone, or a NotFound fault.
	ZoneOf func(ctx context.Context, accountID string) (string, error)
}

// Service is earning. It is safe for concurrent use and keeps nothing in memory.
type Service struct{ cfg Config }

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Ledger == nil || cfg.Money == nil || cfg.Hosts == nil || cfg.Leases == nil || cfg.ZoneOf == nil {
		return nil, errors.New("earning: a dependency is missing from the configuration")
	}
	return &Service{cfg: cfg}, nil
}
