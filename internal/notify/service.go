package notify

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/store"
)

// Config is what a Service needs. Intervals have useful zero values.
type Config struct {
	DB    *store.DB
	Clock func() time.Time // nil: time.Now
	Vault *account.Vault   // seals webhooks' secrets
	// Audit records a write within its transaction.
	Audit func(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
	// Source names this cloud in CloudEvents, as a URI; empty: "/suanli".
	Source string
	// Inside is the hosts, with their port if it is not the scheme's, that webhooks
	// may be at although they are inside of a network; plain HTTP is taken there only.
	Inside []string
	// Most is how many webhooks an account may have; 0: 10.
	Most int
	// Version is named in the User-Agent of deliveries.
	Version string
	Log     *slog.Logger

	Poll    time.Duration // between looks for what is due and what is new; 0: 1 s
	Timeout time.Duration // of one attempt; 0: 15 s
	// GiveUp is how long a delivery is tried; 0: 24 h.
	GiveUp time.Duration
	// Transport replaces the guarded way out; tests only.
	Transport http.RoundTripper
}

//go:embed migrations/*.sql
var migrations embed.FS

// Service is notify. It is safe for concurrent use.
type Service struct {
	cfg Config

	mu        sync.Mutex
	followers map[*follower]struct{}
	seen      map[string]time.Time // notifications that followers were given, and when they were made
	sending   map[string]int       // webhook → attempts under way here
	wake      chan struct{}
}

// New returns a Service. Migrate must be called before anything else.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil || cfg.Vault == nil || cfg.Audit == nil {
		return nil, errors.New("notify: a dependency is missing from the configuration")
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Source == "" {
		cfg.Source = "/suanli"
	}
	if cfg.Most == 0 {
		cfg.Most = 10
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.Poll, time.Second)
	def(&cfg.Timeout, 15*time.Second)
	def(&cfg.GiveUp, 24*time.Hour)
	s := &Service{cfg: cfg, followers: map[*follower]struct{}{}, seen: map[string]time.Time{}, sending: map[string]int{}, wake: make(chan struct{}, 1)}
	return s, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.cfg.DB.Migrate(ctx, "notify", sub)
}
