package waiting

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/lease"
	"suanli.dev/internal/money"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Capacity is what requests that wait need of fleet.
type Capacity interface {
	Rooms(simulated bool) []fleet.Room
	OfferWhenEmpty(ctx context.Context, hostID, gpuModel string, gpus int, diskGiB int64, timeZone string) (fleet.Offer, bool, error)
	ExplainPlacement(accountID string, r placement.Request, simulated bool) placement.Explanation
}

// Leases is what requests that wait need of lease.
type Leases interface {
	CheckAwaited(a *lease.Awaited, gpus int, model string) error
	SealAwaited(a lease.Awaited) (string, error)
	OpenAwaited(sealed string) (lease.Awaited, error)
	PriceAwaited(ctx context.Context, accountID string, r lease.QuoteRequest, o fleet.Offer, timeZone string) (money.Amount, error)
	PrepareAwaited(ctx context.Context, p account.Principal, a lease.Awaited, offerID, timeZone string) (*lease.Gang, error)
	Occupants(ctx context.Context) ([]lease.Occupant, error)
	Watch(ctx context.Context, accountID string) <-chan lease.Change
}

// News is where accounts are told what has become of their requests.
type News interface {
	Announce(ctx context.Context, tx *store.Tx, accountID, kind, subject string, at time.Time, data any) error
}

// Config is what a Service is made of. Interval fields have useful zero values.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time // time.Now
	Capacity Capacity
	Leases   Leases
	News     News // nil: nobody is told
	// Account returns an account's currency and IANA time zone.
	Account func(ctx context.Context, accountID string) (money.Currency, string, error)
	// Quota returns how many GPUs an account may have at once; 0: as many as there are.
	Quota func(ctx context.Context, accountID string) (gpus int, err error)
	// Acting returns a user as whom a lease may be accepted now, or a fault; nil: whoever
	// has asked still may.
	Acting func(ctx context.Context, accountID, userID string) (account.Principal, error)
	// KnownModel returns a GPU model by its name as the catalog spells it.
	KnownModel func(name string) (string, bool)
	Audit      func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	MaxOpen    int           // requests of an account that wait at once; 100
	BackOff    time.Duration // after the first failure, and double that after each more; 10 s
	Every      time.Duration // between looks at whether something has changed; 500 ms
	LookEvery  time.Duration // between looks although nothing has; 2 s
	Log        *slog.Logger
}

// Service is the requests that wait. It is safe for concurrent use, and several may run
// on one database.
type Service struct {
	Config
	kicked atomic.Bool
}

// New returns a Service. Migrate must be called before anything else.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Capacity == nil || c.Leases == nil || c.Account == nil || c.Quota == nil || c.Audit == nil {
		return nil, errors.New("waiting: a dependency is missing from the configuration")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Acting == nil {
		c.Acting = func(_ context.Context, accountID, userID string) (account.Principal, error) {
			return account.Principal{AccountID: accountID, UserID: userID, Role: account.Member}, nil
		}
	}
	if c.KnownModel == nil {
		c.KnownModel = func(string) (string, bool) { return "", false }
	}
	if c.MaxOpen == 0 {
		c.MaxOpen = 100
	}
	if c.BackOff == 0 {
		c.BackOff = 10 * time.Second
	}
	if c.Every == 0 {
		c.Every = 500 * time.Millisecond
	}
	if c.LookEvery == 0 {
		c.LookEvery = 2 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Config: c}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.DB.Migrate(ctx, "waiting", sub)
}

// Wake makes the next look come at once, as when a lease has ended.
func (s *Service) Wake() { s.kicked.Store(true) }

// Run starts what can be started until ctx ends. One process of several should; if more
// do, each request still becomes one lease.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	news := s.Leases.Watch(ctx, "")
	var looked time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-news:
			if !ok {
				news = s.Leases.Watch(ctx, "") // it fell behind
			}
			s.Wake()
		case now := <-tick.C:
			if !s.kicked.Swap(false) && now.Sub(looked) < s.LookEvery {
				continue
			}
			looked = now
			if err := s.Turn(ctx); err != nil && ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "looking after waiting requests failed for some; it is tried again", "error", err)
			}
		}
	}
}
