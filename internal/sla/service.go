package sla

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/ledger"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Money is what sla needs of billing.
type Money interface {
	Charged(ctx context.Context, tx *store.Tx, leaseID string, after, until time.Time) (amount, provider, granted money.Amount, err error)
	// ChargedApart returns what of the provider's part is paid in another currency.
	ChargedApart(ctx context.Context, tx *store.Tx, leaseID string, after, until time.Time) (earned money.Amount, currency money.Currency, err error)
	Give(ctx context.Context, tx *store.Tx, accountID string, currency money.Currency, transfers ...ledger.Transfer) error
}

// Leases is what sla needs of lease.
type Leases interface {
	Resolve(ctx context.Context, p account.Principal, nameOrID string) (*lease.Lease, error)
	Record(ctx context.Context, id string) (*lease.Lease, []lease.Change, error)
	Troubled(ctx context.Context, from, until time.Time) ([]string, error)
}

// Hosts is what sla needs of fleet.
type Hosts interface {
	Announced(ctx context.Context, hostID string, from, until time.Time) ([]fleet.Announcement, error)
}

// closeAfter is how long after its end a month is closed: time for the last hour
// to be posted, and for an operator to confirm what the probes saw.
const closeAfter = 48 * time.Hour

// Config is what a Service needs.
type Config struct {
	DB     *store.DB
	Clock  func() time.Time
	Ledger *ledger.Ledger
	Money  Money
	Leases Leases
	Hosts  Hosts
	// Audit records a write within its transaction.
	Audit   func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	Promise pricing.Promise
	Penalty pricing.PenaltyRule
	Log     *slog.Logger
	Every   time.Duration // between looks for months to close; 0: 1 hour
}

// Service is the service levels. It is safe for concurrent use, on several replicas.
type Service struct {
	cfg    Config
	beaten atomic.Int64 // the minute that was last written
	uptime struct {     // what was last computed
		sync.Mutex
		minute int64
		last   Uptime
	}
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Ledger == nil || cfg.Money == nil || cfg.Leases == nil || cfg.Hosts == nil || cfg.Audit == nil {
		return nil, errors.New("sla: a dependency is missing from the configuration")
	}
	if err := cfg.Promise.Check(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = time.Hour
	}
	return &Service{cfg: cfg}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "sla", sub)
}

// Run closes months, and writes down that the control plane is up, until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	// By itself, as the close of a month may take longer than a minute.
	var beats sync.WaitGroup
	defer beats.Wait()
	beats.Go(func() { s.every(ctx, beatEvery, "write that the control plane is up", s.Beat) })
	s.every(ctx, s.cfg.Every, "close a month of service levels", func(ctx context.Context) error {
		return errors.Join(s.CloseMonths(ctx), s.forgetMinutes(ctx))
	})
	return nil
}

// every does something now and again until ctx ends, and logs its failures.
func (s *Service) every(ctx context.Context, d time.Duration, what string, do func(context.Context) error) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, what, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
