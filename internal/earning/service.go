package earning

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

// Money is what earning needs of billing.
type Money interface {
	Revenue(ctx context.Context, providerID string, from, until time.Time) (billing.Revenue, error)
	RealEarnings(ctx context.Context, tx *store.Tx, providerID string, currency money.Currency, since, at time.Time) ([]pricing.Earning, error)
	Payees(ctx context.Context) ([]billing.Payee, error)
}

// Hosts is what earning needs of fleet.
type Hosts interface {
	History(ctx context.Context, accountID string, from, until time.Time) (fleet.History, error)
}

// Leases is what earning needs of lease.
type Leases interface {
	Places(ctx context.Context, leaseIDs []string) (map[string]lease.Place, error)
}

// Config is what a Service needs. The zero Rule holds nothing.
type Config struct {
	DB     *store.DB
	Clock  func() time.Time
	Ledger *ledger.Ledger
	Money  Money
	Hosts  Hosts
	Leases Leases
	// ZoneOf returns an account's time zone, or a NotFound fault.
	ZoneOf func(ctx context.Context, accountID string) (string, error)
	// Audit records a write within its transaction.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// Taken returns what was taken from a provider for its hosts' faults, less than
	// 0; nil: nothing is.
	Taken func(ctx context.Context, tx *store.Tx, providerID string, currency money.Currency) ([]pricing.Earning, error)
	// Rule says how long earnings are held and what of them stays in reserve.
	Rule pricing.Payouts
}

//go:embed migrations/*.sql
var migrations embed.FS

// Service is earning. It is safe for concurrent use and keeps nothing in memory.
type Service struct{ cfg Config }

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Ledger == nil || cfg.Money == nil || cfg.Hosts == nil || cfg.Leases == nil || cfg.ZoneOf == nil || cfg.Audit == nil {
		return nil, errors.New("earning: a dependency is missing from the configuration")
	}
	return &Service{cfg: cfg}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "earning", sub)
}
