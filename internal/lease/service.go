package lease

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Capacity is what lease needs of fleet.
type Capacity interface {
	OfferTo(ctx context.Context, accountID, offerID string, diskGiB int64, timeZone string) (fleet.Offer, error)
	Offer(ctx context.Context, offerID string, diskGiB int64, timeZone string) (fleet.Offer, error)
	ComputeRate(ctx context.Context, hostID, gpuModel string, gpuCount int) (money.Rate, error)
	Reserve(ctx context.Context, tx *store.Tx, r fleet.Reservation) (fleet.Allocation, error)
	ReserveCompute(ctx context.Context, tx *store.Tx, leaseID string) (fleet.Allocation, error)
	ReleaseCompute(ctx context.Context, tx *store.Tx, leaseID string) error
	ReleaseAll(ctx context.Context, tx *store.Tx, leaseID string) error
	// ClaimFree and SettleClaim are for a lease whose allocation waits.
	ClaimFree(ctx context.Context, tx *store.Tx, leaseID string) (bool, error)
	SettleClaim(ctx context.Context, tx *store.Tx, leaseID string) (bool, error)
	Refresh(ctx context.Context, hostID string)
}

// Money is what lease needs of billing.
type Money interface {
	BeginLease(ctx context.Context, tx *store.Tx, terms billing.Terms) error
	StartCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	ResumeCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	StopCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	// EvictCompute is StopCompute of a run that the platform ended.
	EvictCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	// LimitCompute says that a run was asked to end, and until when it is charged at most.
	LimitCompute(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	StartStorage(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	StopStorage(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	RecordEgress(ctx context.Context, tx *store.Tx, leaseID string, totalBytes int64, at time.Time) error
	CheckFunds(ctx context.Context, tx *store.Tx, leaseID string) error
	// OnlyTrial reports whether an account has a trial and has never paid anything.
	OnlyTrial(ctx context.Context, tx *store.Tx, accountID string) (bool, error)
	EndLease(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) error
	// EndTerm ends months in advance, HoldsTerm says whether there are any in force.
	EndTerm(ctx context.Context, tx *store.Tx, leaseID string, at time.Time, code string) error
	HoldsTerm(ctx context.Context, tx *store.Tx, leaseID string, at time.Time) (bool, error)
	Months(ctx context.Context, leaseID string) (billing.Months, error)
	SetMonths(ctx context.Context, p account.Principal, leaseID string, c billing.MonthsChange) (billing.Months, error)
	PreviewReprice(ctx context.Context, leaseID string, perMonth money.Amount, basisPoints int64) (pricing.Proration, error)
	AgreePrice(ctx context.Context, tx *store.Tx, c billing.Agreement) error
	RepriceMonths(ctx context.Context, p account.Principal, leaseID string, perMonth money.Amount, basisPoints int64, agreed money.Amount) (billing.Months, error)
	// OwnCurrency returns the currency that an account pays in, and ExchangeInForce
	// the rate from another to it.
	OwnCurrency(ctx context.Context, accountID string) (money.Currency, error)
	ExchangeInForce(ctx context.Context, from, to money.Currency) (pricing.ExchangeRate, error)
	// PriceListInForce returns the account's own price list, or nil.
	PriceListInForce(ctx context.Context, accountID string, at time.Time) (*pricing.PriceList, error)
	ConfirmAlive(leaseIDs []string, at time.Time)
	PaidFor(ctx context.Context, leaseID string, now time.Time) (time.Duration, error)
	// LimitOf returns what ended the payment of the last run, or nothing.
	LimitOf(ctx context.Context, tx *store.Tx, leaseID string) (billing.Reason, error)
}

// Tenants is what lease needs of account.
type Tenants interface {
	AuthorizedKeys(ctx context.Context, accountID string) ([]string, error)
	Quota(ctx context.Context, accountID string) (account.Quota, error)
	Audit(ctx context.Context, tx *store.Tx, p account.Principal, action, subject string, detail any) error
}

// Budgets is what lease needs of budget.
type Budgets interface {
	// Allow is a Payment fault if a budget that is used up refuses a lease with these
	// labels, made by a user.
	Allow(ctx context.Context, tx *store.Tx, accountID, userID string, labels map[string]string) error
}

// Volumes is what lease needs of volume.
type Volumes interface {
	// Attach gives a new lease volumes, or is a fault that says why it cannot have one.
	Attach(ctx context.Context, tx *store.Tx, a Attachment) error
	// Mounts returns the volumes that a lease has.
	Mounts(ctx context.Context, leaseID string) ([]protocol.VolumeMount, error)
	// Release takes the volumes of a lease away that has left nothing on its host.
	Release(ctx context.Context, tx *store.Tx, leaseID string) error
}

// Config is what a Service is made of. Interval fields have useful zero values.
type Config struct {
	DB       *store.DB
	Clock    func() time.Time // time.Now
	Catalog  *catalog.Catalog
	Capacity Capacity
	Money    Money
	Tenants  Tenants
	Vault    *account.Vault
	// Command sends a command to a host and waits for its answer.
	Command func(ctx context.Context, hostID string, c protocol.Command) (protocol.CommandResult, error)
	// GatewayKeys are authorized_keys lines that instances trust.
	GatewayKeys []string
	// InnerRegistries are hosts (with port, if not the usual) that images may be
	// named from although they are inside of a network.
	InnerRegistries []string
	Tick            time.Duration  // of the reconciler; 1 s
	QuoteValid      time.Duration  // how long a quote may be accepted; 15 min
	WaitNotice      time.Duration  // how long leases of the spot market take to make room; 2 min
	PriceNotice     time.Duration  // how long before another price renters have to know; 7 days
	Reserve         pricing.Bounds // of what hosts take off for reservations; zero: none are sold
	Monthly         MonthlyTerms   // how months in advance are sold
	Trial           TrialTerms     // what accounts may rent that have a trial only
	DefaultIdle     IdleStop       // of leases whose renter and template say nothing
	Log             *slog.Logger
	News            News    // tells renters what happened; nil: nobody does
	Budgets         Budgets // nil: there are none
	Volumes         Volumes // nil: there are none
	Gangs           Gangs   // nil: there are none

	// Commands reports whether this replica commands a host, and Leads whether it does
	// what one does for all; nil: this is the only one. OnChange is told of changes
	// that were made here, for other replicas.
	Commands func(hostID string) bool
	Leads    func() bool
	OnChange func(Change)
}

// Service is the lease service.
type Service struct {
	Config

	// mu guards the fields below. It is never held while the store is used.
	mu       sync.Mutex
	live     map[string]*tracked            // leases that a host may still have something of
	hosts    map[string]map[string]*tracked // the same, by host: a report looks only at its own
	sending  map[string]bool                // hosts with commands under way
	due      map[string]bool                // hosts on which something changed since reconcile last looked
	loaded   bool                           // live is complete
	watchers map[*watcher]struct{}

	wake chan struct{}
	// commanding counts the goroutines that talk to hosts; Run waits for them.
	commanding sync.WaitGroup
}

// New returns a Service. Migrate must be called before anything else.
func New(c Config) (*Service, error) {
	if c.DB == nil || c.Capacity == nil || c.Money == nil || c.Tenants == nil || c.Vault == nil || c.Command == nil || c.Catalog == nil {
		return nil, errors.New("lease: a dependency is missing from the configuration")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Tick == 0 {
		c.Tick = time.Second
	}
	if c.QuoteValid == 0 {
		c.QuoteValid = 15 * time.Minute
	}
	if c.PriceNotice == 0 {
		c.PriceNotice = 7 * 24 * time.Hour
	}
	if c.WaitNotice == 0 {
		c.WaitNotice = 2 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{Config: c, live: map[string]*tracked{}, hosts: map[string]map[string]*tracked{}, sending: map[string]bool{}, due: map[string]bool{}, watchers: map[*watcher]struct{}{}, wake: make(chan struct{}, 1)}, nil
}

// Migrate brings the tables up to date.
func (s *Service) Migrate(ctx context.Context) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return s.DB.Migrate(ctx, "lease", sub)
}

// Load reads the leases that are not over into memory. It must be called once,
// after Migrate and before the first report of a host is served.
func (s *Service) Load(ctx context.Context) error {
	var list []*Lease
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = selectLeases(ctx, tx, `cleaned=0 ORDER BY id`)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock()
	for _, l := range list {
		s.begin(l, now)
	}
	s.loaded = true
	return nil
}

// Get returns one lease of the caller's account; an operator may read any.
func (s *Service) Get(ctx context.Context, p account.Principal, id string) (*Lease, error) {
	list, err := s.find(ctx, `id=?`, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || (list[0].AccountID != p.AccountID && !p.Operator) {
		return nil, notFound(id)
	}
	return list[0], nil
}

// Resolve returns the lease of the caller's account that nameOrID names: an
// identifier, or the name of exactly one lease that is not over; failing that,
// of the newest that is, so that its logs and bill are found by name too.
func (s *Service) Resolve(ctx context.Context, p account.Principal, nameOrID string) (*Lease, error) {
	if ident.Check(ident.Lease, nameOrID) == nil {
		return s.Get(ctx, p, nameOrID)
	}
	list, err := s.find(ctx, `account_id=? AND name=? AND state NOT IN ('ended','failed') ORDER BY id`, p.AccountID, nameOrID)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		if list, err = s.find(ctx, `account_id=? AND name=? ORDER BY id DESC LIMIT 1`, p.AccountID, nameOrID); err != nil {
			return nil, err
		}
	}
	switch len(list) {
	case 0:
		return nil, notFound(nameOrID)
	case 1:
		return list[0], nil
	}
	return nil, fault.New(fault.Conflict, "lease_ambiguous", "%d leases are named %q; use an id: %s, %s …", len(list), nameOrID, list[0].ID, list[1].ID)
}

// Filter selects leases of a list.
type Filter struct {
	State  State             // empty: all
	Label  map[string]string // all must match
	Live   bool              // only those that are not over
	HostID string            // only with an operator's or the provider's principal
}

// defaultPage is how many leases a list has at most if no limit is given.
const defaultPage = 50

// List returns leases of the account, newest first, up to limit, that come
// after the cursor; the second result is the next cursor, empty at the end.
func (s *Service) List(ctx context.Context, p account.Principal, f Filter, cursor string, limit int) ([]*Lease, string, error) {
	if f.State != "" && transitions[f.State] == nil {
		return nil, "", invalid("query.state", "invalid_state", "there is no state %q; the states are %v", f.State, States())
	}
	where, args := `account_id=?`, []any{p.AccountID}
	if f.State != "" {
		where, args = where+` AND state=?`, append(args, string(f.State))
	}
	if f.Live {
		where += ` AND state NOT IN ('ended','failed')`
	}
	if f.HostID != "" {
		where, args = where+` AND host_id=?`, append(args, f.HostID)
	}
	if limit < 1 {
		limit = defaultPage
	}
	var out []*Lease
	for {
		here, with := where, slices.Clone(args)
		if cursor != "" {
			here, with = here+` AND id<?`, append(with, cursor)
		}
		// Labels are matched here, so a page may take several reads.
		list, err := s.find(ctx, here+` ORDER BY id DESC LIMIT ?`, append(with, limit+1)...)
		if err != nil {
			return nil, "", err
		}
		for _, l := range list {
			if len(out) == limit {
				return out, out[limit-1].ID, nil
			}
			if matches(l.Labels, f.Label) {
				out = append(out, l)
			}
		}
		if len(list) <= limit {
			return out, "", nil
		}
		cursor = list[len(list)-1].ID
	}
}

func matches(labels, want map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (s *Service) find(ctx context.Context, where string, args ...any) ([]*Lease, error) {
	var list []*Lease
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = selectLeases(ctx, tx, where, args...)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		if t := s.live[l.ID]; t != nil {
			l.Status = t.status
		}
	}
	return list, nil
}

// History returns what happened to a lease, oldest first.
func (s *Service) History(ctx context.Context, p account.Principal, id string) ([]Change, error) {
	if _, err := s.Get(ctx, p, id); err != nil {
		return nil, err
	}
	var list []Change
	err := s.DB.View(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		list, err = selectChanges(ctx, tx, id)
		return err
	})
	return list, err
}

// Lookup returns a lease by its identifier, whosever it is; for the cloud's own
// parts, which check who asks themselves.
func (s *Service) Lookup(ctx context.Context, id string) (*Lease, error) {
	s.mu.Lock()
	if t := s.live[id]; t != nil {
		defer s.mu.Unlock()
		return t.lease, nil
	}
	s.mu.Unlock()
	list, err := s.find(ctx, `id=?`, id)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(id)
	}
	return list[0], nil
}
