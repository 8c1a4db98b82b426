package account

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"

	"suanli.dev/internal/ratelimit"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Config is what a Service needs.
type Config struct {
	DB    *store.DB
	Clock func() time.Time // nil: time.Now
	// Secret is the 32-byte master key of the cloud. It is not in the database:
	// who steals a backup cannot read the secrets in it.
	Secret []byte
	Log    *slog.Logger // nil: discard

	// SessionLifetime is how long a sign-in lasts; 0: 7 days.
	SessionLifetime time.Duration
	// DefaultQuota is what a new account gets; zero fields: 20 leases, 64 GPUs.
	DefaultQuota Quota
	// Sweep is how often Run deletes expired sessions and writes down when keys
	// were last used; 0: a minute.
	Sweep time.Duration
	// PublicURL is where people reach the console: passkeys are bound to its host name.
	// Empty, or with an address for a host: there are none.
	PublicURL string
	// PasswordCost is the work of hashing a password; zero: what OWASP advises.
	PasswordCost PasswordCost
	// AddUsers is how fast an account may add users; zero: 30 at once, and one every
	// 5 minutes then.
	AddUsers ratelimit.Rate
}

// Service is the account service. It is safe for concurrent use.
//
// Lock order: mu is the only lock, held for no call outside of the package.
type Service struct {
	db       *store.DB
	clock    func() time.Time
	vault    *Vault
	log      *slog.Logger
	cfg      Config
	cost     PasswordCost
	hashing  chan struct{} // bounds concurrent argon2 computations, and so memory
	decoy    string        // a hash that no password has, for e-mails without a user
	perLogin *ratelimit.Limiter
	perEmail *ratelimit.Limiter
	perIP    *ratelimit.Limiter
	perCode  *ratelimit.Limiter
	adding   *ratelimit.Limiter // users that an account adds
	passkeys *webauthn.WebAuthn // nil: there are none

	mu       sync.Mutex
	cache    map[string]cached // by hash of the bearer
	epoch    uint64            // grows when anything that authority depends on changes
	lastUsed map[string]time.Time
}

// cached is a resolved bearer. It is dropped in this process as soon as anything
// that authority depends on changes; another replica notices after cacheFor.
type cached struct {
	p       Principal
	until   time.Time
	expires time.Time
}

const (
	cacheFor = 2 * time.Second
	cacheMax = 10_000
)

// New returns a service; Migrate must run before its first use.
func New(cfg Config) (*Service, error) {
	if cfg.DB == nil {
		return nil, errors.New("account service: no database given")
	}
	vault, err := NewVault(cfg.Secret)
	if err != nil {
		return nil, fmt.Errorf("account service: %w", err)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.SessionLifetime == 0 {
		cfg.SessionLifetime = 7 * 24 * time.Hour
	}
	if cfg.DefaultQuota.MaxLeases == 0 {
		cfg.DefaultQuota.MaxLeases = 20
	}
	if cfg.DefaultQuota.MaxGPUs == 0 {
		cfg.DefaultQuota.MaxGPUs = 64
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = time.Minute
	}
	if cfg.AddUsers == (ratelimit.Rate{}) {
		cfg.AddUsers = ratelimit.Rate{Every: 5 * time.Minute, Burst: 30}
	}
	cost := defaultCost
	if cfg.PasswordCost != (PasswordCost{}) {
		cost = cfg.PasswordCost
	}
	s := &Service{
		db: cfg.DB, clock: cfg.Clock, vault: vault, log: cfg.Log, cfg: cfg, cost: cost,
		hashing: make(chan struct{}, 4),
		// From one address on one e-mail, from all strange addresses on one
		// e-mail, from one address on any e-mail, and from all strange addresses on
		// the second factor of one user. The second is wide, since anybody can use
		// it up; the last takes the password to use up.
		perLogin: ratelimit.New(ratelimit.Rate{Every: 20 * time.Second, Burst: 6}, cfg.Clock, 50_000),
		perEmail: ratelimit.New(ratelimit.Rate{Every: 5 * time.Second, Burst: 100}, cfg.Clock, 50_000),
		perCode:  ratelimit.New(ratelimit.Rate{Every: 30 * time.Second, Burst: 20}, cfg.Clock, 50_000),
		adding:   ratelimit.New(cfg.AddUsers, cfg.Clock, 50_000),
		perIP:    ratelimit.New(ratelimit.Rate{Every: 2 * time.Second, Burst: 60}, cfg.Clock, 50_000),
		cache:    map[string]cached{}, lastUsed: map[string]time.Time{},
	}
	if s.passkeys, err = relyingParty(cfg.PublicURL); err != nil {
		return nil, fmt.Errorf("account service: passkeys at %s: %w", cfg.PublicURL, err)
	}
	s.decoy = hashPassword(randomText(20), cost)
	return s, nil
}

// Migrate brings the service's tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.db.Migrate(ctx, "account", sub)
}

// Vault returns what seals the cloud's recoverable secrets.
func (s *Service) Vault() *Vault { return s.vault }

// Run deletes expired sessions and writes down when API keys were last used,
// until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			// What was used since the last sweep is still worth writing.
			return s.sweep(context.WithoutCancel(ctx))
		case <-tick.C:
			if err := s.sweep(ctx); err != nil {
				s.log.ErrorContext(ctx, "sweep accounts", "error", err)
			}
		}
	}
}

func (s *Service) sweep(ctx context.Context) error {
	s.mu.Lock()
	used := s.lastUsed
	s.lastUsed = map[string]time.Time{}
	s.mu.Unlock()
	err := s.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Exec(ctx, `DELETE FROM sessions WHERE expires_at <= ?`, store.Micros(s.clock())); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM passkey_ceremonies WHERE expires_at <= ?`, store.Micros(s.clock())); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM sign_in_addresses WHERE last_at <= ?`, store.Micros(s.clock().Add(-addressKept))); err != nil {
			return err
		}
		for id, at := range used {
			if _, err := tx.Exec(ctx, `UPDATE api_keys SET last_used_at = ? WHERE id = ? AND last_used_at < ?`,
				store.Micros(at), id, store.Micros(at)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("sweep accounts: %w", err)
	}
	return nil
}

// changed must be called after a commit that alters who may do what.
func (s *Service) changed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	clear(s.cache)
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
