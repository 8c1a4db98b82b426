package cluster

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Capacity is what cluster needs of fleet.
type Capacity interface {
	Search(ctx context.Context, q fleet.Query) ([]fleet.Offer, string, error)
}

// Leases is what cluster needs of lease.
type Leases interface {
	PrepareGang(ctx context.Context, p account.Principal, gangID string, mates []lease.Mate, timeZone string) (*lease.Gang, error)
	CompleteGang(ctx context.Context, tx *store.Tx, leaseIDs []string, at time.Time) (func(context.Context), error)
	EndOfGang(ctx context.Context, tx *store.Tx, leaseID, code, message string, by account.Principal) (func(context.Context), error)
	OfGang(ctx context.Context, tx *store.Tx, gangID string) (map[string]*lease.Lease, error)
	CheckGang(r *lease.QuoteRequest, c *lease.Create) error
	Seal(plain []byte) (string, error)
	Unseal(text string) ([]byte, error)
}

// Config is what a Service is made of. Interval fields have useful zero values.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time // time.Now
	Capacity Capacity
	Leases   Leases
	Inside   Inside // nil: nothing is run on clusters here
	// Account returns an account's currency and IANA time zone.
	Account func(ctx context.Context, accountID string) (money.Currency, string, error)
	Audit   func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// GPUPercent returns how busy the GPUs of a lease's instance were lately, if that is
	// known. nil: runs that make no progress are not told of.
	GPUPercent func(leaseID string) (percent int, known bool)
	StuckAfter time.Duration // how long a run with busy GPUs may print nothing before that is told; 15 min
	Every      time.Duration // between looks at clusters; 1 s
	Log        *slog.Logger
}

// Service is the cluster service.
type Service struct {
	Config

	mu    sync.Mutex
	known map[string]*network // of open clusters, as the database had them last
	// progress is of runs that go on, while this process looks after them.
	progress map[string]*progress
	// followers counts who follows what a run prints, by run.
	followers map[string]int
}

// New returns a Service. Migrate must be called before anything else.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Capacity == nil || c.Leases == nil || c.Account == nil || c.Audit == nil {
		return nil, errors.New("cluster: a dependency is missing from the configuration")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	if c.StuckAfter == 0 {
		c.StuckAfter = 15 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Config: c, known: map[string]*network{}, progress: map[string]*progress{}, followers: map[string]int{}}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.DB.Migrate(ctx, "cluster", sub)
}

// Run looks after clusters until ctx ends. Several replicas may run it.
func (s *Service) Run(ctx context.Context) error {
	// Apart, since nodes that do not answer hold up those who look into them.
	var all sync.WaitGroup
	defer all.Wait()
	for what, turn := range map[string]func(context.Context) error{"clusters": s.Turn, "runs": s.TurnRuns} {
		all.Go(func() {
			tick := time.NewTicker(s.Every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
					if err := turn(ctx); err != nil && ctx.Err() == nil {
						s.Log.ErrorContext(ctx, "looking after clusters failed for some; it is tried again", "of", what, "error", err)
					}
				}
			}
		})
	}
	return nil
}
