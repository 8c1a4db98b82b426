package budget

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Money is what budget needs of billing.
type Money interface {
	Spending(ctx context.Context, tx *store.Tx, accountID string, from, until, now time.Time) ([]billing.Spending, error)
}

// Tag is what puts a lease in the scope of budgets.
type Tag struct {
	UserID string // who made it
	Labels map[string]string
}

// News is what budget needs of notify.
type News interface {
	Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error
}

// Config is what a Service needs.
type Config struct {
	DB    *store.DB
	Clock func() time.Time
	Money Money
	News  News // nil: nobody is told
	// Tags returns what the named leases of an account have; those that it does not
	// have are absent.
	Tags func(ctx context.Context, accountID string, leaseIDs []string) (map[string]Tag, error)
	// StopLease asks for a lease to stop; asked again it does nothing.
	StopLease func(ctx context.Context, leaseID string) error
	// HasUser is a NotFound fault unless an account has a user.
	HasUser    func(ctx context.Context, accountID, userID string) error
	CurrencyOf func(ctx context.Context, accountID string) (money.Currency, error)
	ZoneOf     func(ctx context.Context, accountID string) (string, error)
	// Audit records a write within its transaction.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	Log   *slog.Logger
	Every time.Duration // between looks at all budgets; 0: 1 minute
}

// Service is the budgets. It is safe for concurrent use, on several replicas.
type Service struct {
	cfg Config
}

// New returns a Service.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Clock == nil || cfg.Money == nil || cfg.Tags == nil || cfg.StopLease == nil || cfg.HasUser == nil || cfg.CurrencyOf == nil || cfg.ZoneOf == nil || cfg.Audit == nil {
		return nil, errors.New("budget: a dependency is missing from the configuration")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Every == 0 {
		cfg.Every = time.Minute
	}
	return &Service{cfg: cfg}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "budget", sub)
}

// Run looks at all budgets now and again until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Every)
	defer tick.Stop()
	for {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.ErrorContext(ctx, "looking at budgets failed for some accounts; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
