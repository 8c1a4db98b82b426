package market

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
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Supply is what the market needs of fleet.
type Supply interface {
	Markets() []fleet.MarketKey
	Supply(ctx context.Context, tx *store.Tx, k fleet.MarketKey) ([]fleet.Supply, error)
}

// Leases is what the market needs of lease. What the acts return is called after
// the commit.
type Leases interface {
	CheckSpot(w *lease.SpotWish, gpus int, model string) error
	SealSpot(w lease.SpotWish) (string, error)
	OpenSpot(sealed string) (lease.SpotWish, error)
	PrepareSpot(ctx context.Context, place lease.SpotPlace) (*lease.Placement, error)
	SpotLeases(ctx context.Context, tx *store.Tx, ids []string) (map[string]lease.SpotLease, error)
	SpotNotice(ctx context.Context, tx *store.Tx, leaseID, reason string, at time.Time) (func(context.Context), error)
	SpotReprieve(ctx context.Context, tx *store.Tx, leaseID string) (func(context.Context), error)
	SpotInterrupt(ctx context.Context, tx *store.Tx, leaseID, reason string) (func(context.Context), error)
	SpotResume(ctx context.Context, tx *store.Tx, leaseID string) (func(context.Context), error)
	SpotEnd(ctx context.Context, tx *store.Tx, leaseID string, by account.Principal) (func(context.Context), error)
	Watch(ctx context.Context, accountID string) <-chan lease.Change
}

// Money is what the market needs of billing.
type Money interface {
	SetRate(ctx context.Context, tx *store.Tx, leaseID string, rate money.Rate, at time.Time) error
	SetBid(ctx context.Context, tx *store.Tx, leaseID string, bid money.Rate) error
	// ExchangeInForce is the rate between the market's currency and an account's, or a
	// fault.
	ExchangeInForce(ctx context.Context, from, to money.Currency) (pricing.ExchangeRate, error)
}

// Config is what a Service is made of.
type Config struct {
	DB     *store.DB
	Clock  func() time.Time // time.Now
	Supply Supply
	Leases Leases
	Money  Money
	// Account returns the currency and the time zone of an account.
	Account func(ctx context.Context, accountID string) (money.Currency, string, error)
	// Audit records a write within its transaction; nil: it is not recorded.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// Allow refuses what a budget that is used up holds back, in the transaction that
	// places a bid; nil: there are no budgets.
	Allow func(ctx context.Context, tx *store.Tx, accountID, userID string, labels map[string]string) error
	// Currency is that of all prices on the market.
	Currency money.Currency
	Params   auction.Params // the zero value: auction.Standard
	Every    time.Duration  // between looks for what is due; 0: half a second
	Log      *slog.Logger
}

// Service is the spot market. It is safe for concurrent use, and several may run
// on one database.
type Service struct {
	Config

	mu     sync.Mutex
	kicked bool                       // something changed somewhere
	rounds map[fleet.MarketKey]looked // what this process knows of the last rounds
}

// looked is what is known of a market's last round.
type looked struct {
	at, next time.Time
	bids     int // that may still run
}

// New returns a Service. Migrate must be called before anything else.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Supply == nil || c.Leases == nil || c.Money == nil || c.Account == nil || !c.Currency.Valid() {
		return nil, errors.New("market: a dependency is missing from the configuration")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Params == (auction.Params{}) {
		c.Params = auction.Standard()
	}
	if c.Every <= 0 {
		c.Every = 500 * time.Millisecond
	}
	if c.Allow == nil {
		c.Allow = func(context.Context, *store.Tx, string, string, map[string]string) error { return nil }
	}
	if c.Audit == nil {
		c.Audit = func(context.Context, *store.Tx, account.Principal, string, string, any) error { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Config: c, kicked: true, rounds: map[fleet.MarketKey]looked{}}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.DB.Migrate(ctx, "market", sub)
}

// Run holds rounds until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.Every)
	defer tick.Stop()
	news := s.Leases.Watch(ctx, "")
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-news:
			if !ok {
				news = s.Leases.Watch(ctx, "") // it fell behind
			}
			s.Wake()
		case <-tick.C:
			if err := s.Turn(ctx); err != nil && ctx.Err() == nil {
				s.Log.ErrorContext(ctx, "a round of the spot market failed; it is held again", "error", err)
			}
		}
	}
}

// Wake makes the next turn look at every market in which there are bids.
func (s *Service) Wake() {
	s.mu.Lock()
	s.kicked = true
	s.mu.Unlock()
}

// What a market is looked at for although nothing is known to have changed: other
// replicas' leases and hosts, and, without bids, what the history shall say.
const (
	lookEvery = 5 * time.Second
	idleEvery = time.Minute
)

// Turn holds a round in every market in which one is due. One market's failure
// does not stop the others.
func (s *Service) Turn(ctx context.Context) error {
	now := s.Clock()
	s.mu.Lock()
	kicked := s.kicked
	s.kicked = false
	s.mu.Unlock()
	with, err := s.marketsWithBids(ctx)
	if err != nil {
		return err
	}
	keys := s.Supply.Markets()
	for k := range with {
		keys = append(keys, k)
	}
	done := map[fleet.MarketKey]bool{}
	var failed []error
	for _, k := range keys {
		if done[k] {
			continue
		}
		done[k] = true
		s.mu.Lock()
		last, seen := s.rounds[k]
		s.mu.Unlock()
		every := idleEvery
		if with[k] > 0 {
			every = lookEvery
		}
		due := !seen || now.Sub(last.at) >= every || with[k] != last.bids || (kicked && with[k] > 0) || (!last.next.IsZero() && !last.next.After(now))
		if !due {
			continue
		}
		if err := s.Clear(ctx, k); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}
